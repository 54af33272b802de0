// How a layer is drawn: its tiles, and what its colours mean. A raster is drawn by the server as its item's render hints say,
// else three bands as they are and one band in colours between its 2nd and 98th percentile; the layer's style comes first.
import type { LayerState, Style } from "../address.js";
import type { Box } from "../boxes.js";
import { at, fetchJson, type Asset, type Item } from "../catalog.js";
import { root } from "../../key.js";

export interface Legend {
  ramp?: { name: string; range: [number, number] | null };
  classes?: { colour: string; name: string }[];
  bands?: string[];
  colour?: string;
  shape?: string; // of the geometries of a vector layer
}
export interface Band { number: number; name: string }
export interface Drawing {
  kind: "raster" | "vector";
  tiles: string[]; // of this page's origin
  address: string; // of the tiles, for other programs
  tilejson: string;
  boxes: Box[]; // where there are tiles
  minzoom: number;
  maxzoom: number;
  sourceLayer: string | null;
  legend: Legend;
  bands: Band[];
  style: Style; // with what was chosen for the caller
  root: string; // of the routes of the raster
}

const MAX_CLASSES = 16;
const SAMPLE = "max_size=256&p=2&p=98";

export function describe(item: Item, layer: LayerState, colour: string): Promise<Drawing> {
  if (item.layer) return describeVector(item, item.layer, layer.style, colour);
  return describeRaster(item, layer);
}

async function describeVector(item: Item, name: string, style: Style, colour: string): Promise<Drawing> {
  const layer = `features/collections/${encodeURIComponent(name)}`;
  const tilejson = at(`${layer}/tiles/WebMercatorQuad/tilejson.json`);
  const found = await fetchJson(tilejson);
  const filter = style.filter ? `filter=${encodeURIComponent(style.filter)}&filter-lang=cql2-text` : "";
  return {
    kind: "vector",
    tiles: found.tiles.map((tile: string) => extend(ours(tile), filter)),
    address: extend(found.tiles[0], filter),
    tilejson,
    boxes: boxesOf(item, found.bounds),
    minzoom: found.minzoom,
    maxzoom: found.maxzoom,
    sourceLayer: found.vector_layers[0].id,
    legend: { colour, shape: String(item.properties["anabranch:geometry_type"] ?? "Polygon") },
    bands: [],
    style: { ...style, colour },
    root: layer,
  };
}

const extend = (address: string, query: string): string => (query ? `${address}${address.includes("?") ? "&" : "?"}${query}` : address);

async function describeRaster(item: Item, layer: LayerState): Promise<Drawing> {
  const { collection, id, revision } = layer;
  const place = `raster/collections/${encodeURIComponent(collection)}/items/${encodeURIComponent(id)}${revision === null ? "" : `/publications/${revision}`}`;
  const name = layer.style.asset ?? item.rasters[0]?.[0] ?? "";
  const asset = item.rasters.find(([other]) => other === name)?.[1] ?? { href: "" };
  const info = await fetchJson(at(`${place}/info?asset=${encodeURIComponent(name)}`));
  const bands: Band[] = info.band_descriptions.map(([code, text]: [string, string], index: number) => ({ number: index + 1, name: bandName(asset, index) ?? (text || code) }));
  const { query, legend, style } = await choose(at(place), item, layer.style, name, asset, info, bands);
  const tilejson = at(`${place}/WebMercatorQuad/tilejson.json?tilesize=256${query && `&${query}`}`);
  const found = await fetchJson(tilejson);
  return {
    kind: "raster",
    tiles: found.tiles.map(ours),
    address: found.tiles[0],
    tilejson,
    boxes: boxesOf(item, found.bounds),
    minzoom: Math.max(found.minzoom - 2, 0),
    maxzoom: found.maxzoom,
    sourceLayer: null,
    legend,
    bands,
    style,
    root: at(place),
  };
}

type Info = { count: number; dtype: string; colorinterp: string[]; colormap?: Record<string, [number, number, number, number]> };

async function choose(place: string, item: Item, wanted: Style, name: string, asset: Asset, info: Info, bands: Band[]): Promise<{ query: string; legend: Legend; style: Style }> {
  const hints = hintsOf(item, name);
  const isStyled = Boolean(wanted.bands ?? wanted.ramp ?? wanted.range);
  const isPalette = info.colorinterp[0] === "palette" && (wanted.bands?.[0] ?? 1) === 1;
  const chosen = wanted.bands ?? hints?.bands ?? (info.count > 2 ? [1, 2, 3] : [1]);
  const query = new URLSearchParams({ asset: name });
  if (chosen.length > 1) {
    if (isStyled) for (const number of chosen) query.append("bidx", String(number));
    if (wanted.range) query.set("rescale", wanted.range.join(","));
    const shown = chosen.map((number, place) => `${["Red", "Green", "Blue"][place] ?? "Band"}: ${bands[number - 1]?.name ?? number}`);
    return { query: `${query}`, legend: { bands: shown }, style: { ...wanted, asset: name, bands: chosen } };
  }
  const classes = classesOf(asset, hints?.classes ?? (isPalette ? info.colormap : undefined));
  if (classes && !wanted.ramp && !wanted.range) return { query: isStyled ? `${query}&bidx=${chosen[0]}` : `${query}`, legend: { classes }, style: { ...wanted, asset: name, bands: chosen } };
  // Bytes are grey as they are, unless somebody said how to draw them.
  const isPlain = info.dtype === "uint8" && !isStyled && !hints;
  const ramp = wanted.ramp ?? hints?.ramp ?? (info.dtype === "uint8" ? "gray" : "viridis");
  const range = wanted.range ?? hints?.range ?? (info.dtype === "uint8" ? [0, 255] : await rangeOf(place, name, chosen[0] ?? 1));
  if (!isPlain && !(hints?.range && !isStyled)) {
    query.set("bidx", String(chosen[0]));
    query.set("colormap_name", ramp);
    query.set("rescale", range.join(","));
  }
  return { query: `${query}`, legend: { ramp: { name: ramp, range } }, style: { ...wanted, asset: name, bands: chosen, ramp, range } };
}

async function rangeOf(place: string, asset: string, band: number): Promise<[number, number]> {
  const found = await fetchJson(`${place}/statistics?asset=${encodeURIComponent(asset)}&bidx=${band}&${SAMPLE}`);
  const values = Object.values(found)[0] as Record<string, number>;
  const [low, high] = [values.percentile_2 ?? values.min ?? 0, values.percentile_98 ?? values.max ?? 1].map((value) => Number(value.toPrecision(6)));
  return low! < high! ? [low!, high!] : [low!, low! + 1];
}

// What the server takes of the item's hints: the default, else the first, for this asset.
function hintsOf(item: Item, asset: string): { bands?: number[]; ramp?: string; range?: [number, number]; classes?: Info["colormap"] } | null {
  const renders = item.properties.renders ?? {};
  const hint = renders.default ?? Object.values(renders)[0];
  if (!hint || (hint.assets && !hint.assets.includes(asset))) return null;
  const range = Array.isArray(hint.rescale) ? hint.rescale[0] : undefined;
  return {
    ...(Array.isArray(hint.bidx) ? { bands: hint.bidx } : {}),
    ...(typeof hint.colormap_name === "string" ? { ramp: hint.colormap_name } : hint.rescale && !hint.colormap ? { ramp: "gray" } : {}),
    ...(Array.isArray(range) && range.length === 2 ? { range: [range[0], range[1]] as [number, number] } : {}),
    ...(hint.colormap && !Array.isArray(hint.colormap) ? { classes: hint.colormap } : {}),
  };
}

function classesOf(asset: Asset, colours: Info["colormap"]): Legend["classes"] | undefined {
  if (!colours) return undefined;
  const named = new Map<number, string>((asset["classification:classes"] ?? asset.bands?.[0]?.["classification:classes"] ?? []).map((one: { value: number; title?: string; description?: string; name?: string }) => [one.value, one.title ?? one.name ?? one.description ?? String(one.value)]));
  // A file's palette has all 256 values; those that it does not name are black.
  const used = Object.entries(colours).filter(([value, colour]) => named.has(Number(value)) || (colour[3] !== 0 && colour.slice(0, 3).some(Boolean)));
  return used.slice(0, MAX_CLASSES).map(([value, colour]) => ({ colour: `rgb(${colour.slice(0, 3).join(" ")})`, name: named.get(Number(value)) ?? value }));
}

function bandName(asset: Asset, index: number): string | undefined {
  const band = (asset.bands ?? asset["raster:bands"] ?? asset["eo:bands"])?.[index];
  return band?.description ?? band?.name;
}

// Where there are tiles: on both sides of 180 degrees where the item's box begins east of where it ends.
function boxesOf(item: Item, bounds: Box): Box[] {
  const [west, , east] = item.bbox ?? bounds;
  const [, south, , north] = bounds;
  return west > east ? [[west, south, 180, north], [-180, south, east, north]] : [bounds];
}

// A URL of this page's origin, with the braces that the map fills in.
function ours(tile: string): string {
  return root.href.replace(/\/$/, "") + tile.slice(tile.search(/\/(raster|features)\/collections\//));
}
