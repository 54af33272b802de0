// How other programs use an item: addresses to copy, a layer file for QGIS, and a notebook. None of them has the key.
import { at, itemUrl, type Item } from "./catalog.js";
import type { Drawing } from "./layers/drawing.js";
import { find, make, saveText } from "./dom.js";
import { isOurs } from "./facts.js";

const place = find("#elsewhere");
let current: { item: Item; drawing: Drawing | null } | null = null;

find("#qgis").addEventListener("click", () => current?.drawing && saveText(writeLayerFile(current.item, current.drawing), `${current.item.id}.qlr`, "application/xml"));
find("#notebook").addEventListener("click", () => current && saveText(writeNotebook(current.item), `${current.item.id}.ipynb`, "application/x-ipynb+json"));

export function showElsewhere(item: Item, drawing: Drawing | null): void {
  current = { item, drawing };
  find("#qgis").toggleAttribute("disabled", !drawing);
  const rows = addressesOf(item, drawing).map(([name, address], index) => [make("dt", {}, name), make("dd", {}, make("code", { id: `address-${index}` }, address), " ", make("button", { type: "button", "data-copy": `#address-${index}`, "aria-label": `Copy: ${name}` }, "Copy"))]);
  place.replaceChildren(...rows.flat());
}

function addressesOf(item: Item, drawing: Drawing | null): [string, string][] {
  const found: [string, string][] = [];
  if (drawing) found.push([drawing.kind === "raster" ? "Tiles (XYZ)" : "Vector tiles", drawing.address], ["TileJSON", drawing.tilejson]);
  if (item.layer) found.push(["Features (OGC API)", at("features")]);
  const data = item.rasters.find(([, asset]) => isOurs(asset.href));
  if (data) found.push(["GDAL", `/vsicurl/${data[1].href}`]);
  return [...found, ["STAC item", itemUrl(item.collection, item.id)]];
}

const escape = (text: string): string => text.replace(/[<>&"']/g, (sign) => `&#${sign.codePointAt(0)};`);

// A layer definition, which QGIS opens by a double click or "Add from Layer Definition File".
export function writeLayerFile(item: Item, drawing: Drawing): string {
  const id = `anabranch_${item.id.replace(/\W/g, "_")}`;
  const isRaster = drawing.kind === "raster";
  const source = isRaster
    ? `type=xyz&url=${encodeURIComponent(drawing.address)}&zmin=${drawing.minzoom}&zmax=${drawing.maxzoom}`
    : ` pagingEnabled='true' restrictToRequestBBOX='1' srsname='OGC:CRS84' typename='${item.layer}' url='${at("features")}' version='OGC_API_FEATURES'`;
  const provider = isRaster ? "wms" : "OAPIF";
  const [name, from] = [escape(item.title), escape(source)];
  return `<!DOCTYPE qgis-layer-definition>
<qlr>
  <layer-tree-group name="">
    <layer-tree-layer id="${id}" name="${name}" checked="Qt::Checked" providerKey="${provider}" source="${from}"/>
  </layer-tree-group>
  <maplayers>
    <maplayer type="${isRaster ? "raster" : "vector"}"${isRaster ? "" : ' geometry="Unknown"'}>
      <id>${id}</id>
      <datasource>${from}</datasource>
      <layername>${name}</layername>
      <provider${isRaster ? "" : ' encoding="UTF-8"'}>${provider}</provider>
    </maplayer>
  </maplayers>
</qlr>
`;
}

export function writeNotebook(item: Item): string {
  const read = item.layer
    ? ["import geopandas", `features = geopandas.read_file("OAPIF:${at("features")}", layer=${JSON.stringify(item.layer)})`, "features.head()"]
    : ["import rasterio", "", 'cog = next(asset for asset in item.assets.values() if "data" in (asset.roles or []))', "with rasterio.open(cog.href) as raster:", "    values = raster.read(1, out_shape=(256, 256), masked=True)", "    print(raster.crs, raster.shape, values.min(), values.max())"];
  const open = ["import os", "", "from pystac_client import Client", "", 'key = os.environ.get("ANABRANCH_API_KEY")', 'headers = {"Authorization": f"Bearer {key}"} if key else {}', "if key:  # GDAL sends it, too", '    os.environ["GDAL_HTTP_HEADERS"] = f"Authorization: Bearer {key}"', `catalog = Client.open("${at("stac")}", headers=headers)`, `item = catalog.get_collection(${JSON.stringify(item.collection)}).get_item(${JSON.stringify(item.id)})`, "item"];
  const code = (lines: string[]): object => ({ cell_type: "code", execution_count: null, metadata: {}, outputs: [], source: lines.map((line, index) => (index < lines.length - 1 ? `${line}\n` : line)) });
  const words = { cell_type: "markdown", metadata: {}, source: [`# ${item.title}\n`, "\n", "Needs `pystac-client` and `", item.layer ? "geopandas" : "rasterio", "`. Where keys are required, set `ANABRANCH_API_KEY`."] };
  return JSON.stringify({ cells: [words, code(open), code(read)], metadata: { kernelspec: { display_name: "Python 3", language: "python", name: "python3" } }, nbformat: 4, nbformat_minor: 5 }, null, 1);
}
