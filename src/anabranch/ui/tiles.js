// The tiles of an item: drawn as its render hints say, else by what its statistics are.
import { fetchJson } from "./items.js";

export async function tilesOf(item) {
  const root = `raster/collections/${encodeURIComponent(item.collection)}/items/${encodeURIComponent(item.id)}`;
  const asset = `asset=${encodeURIComponent(item.raster[0])}`;
  const query = hintsOf(item) ?? (await guess(root, asset));
  const told = await fetchJson(`${root}/WebMercatorQuad/tilejson.json?${query}&tilesize=256&tile_format=png`);
  const tiles = told.tiles.map((tile) => here(tile));
  return { tiles, bounds: told.bounds, minzoom: Math.max(told.minzoom - 2, 0), maxzoom: told.maxzoom };
}

// A URL of this page's origin, with the braces that the map fills in.
function here(tile) {
  const at = tile.indexOf("/raster/");
  return new URL(".", location.href).href.replace(/\/$/, "") + tile.slice(at);
}

function hintsOf(item) {
  const renders = item.properties.renders;
  if (!renders || !Object.keys(renders).length) return null;
  const hints = renders.default ?? Object.values(renders)[0];
  const query = new URLSearchParams({ asset: hints.assets?.[0] ?? item.raster[0] });
  for (const range of hints.rescale ?? []) query.append("rescale", [range].flat().join(","));
  for (const band of hints.bidx ?? []) query.append("bidx", band);
  for (const name of ["colormap_name", "nodata", "resampling"]) if (hints[name] !== undefined) query.set(name, hints[name]);
  if (hints.colormap) query.set("colormap", JSON.stringify(hints.colormap));
  return query.toString();
}

async function guess(root, asset) {
  const info = await fetchJson(`${root}/info?${asset}`);
  const bands = info.count >= 3 ? [1, 2, 3] : [1];
  const chosen = bands.map((band) => `bidx=${band}`).join("&");
  if (info.dtype === "uint8" || info.colorinterp[0] === "palette") return `${asset}&${chosen}`;
  const statistics = await fetchJson(`${root}/statistics?${asset}&${chosen}`);
  const ranges = Object.values(statistics).map((band) => `rescale=${band.percentile_2},${Math.max(band.percentile_98, band.percentile_2 + 1e-9)}`);
  return [asset, chosen, ...ranges, ...(bands.length === 1 ? ["colormap_name=viridis"] : [])].join("&");
}
