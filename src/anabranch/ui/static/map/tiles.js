// The tiles of an item: of a layer its features, of a raster drawn by the server as its render hints say, else by what its
// statistics are, one band in colours.
import { fetchJson } from "./items.js";

export const tilesOf = (item) => (item.layer ? vectorTilesOf(item) : rasterTilesOf(item));

async function vectorTilesOf(item) {
  const tilejson = await fetchJson(`features/collections/${encodeURIComponent(item.layer)}/tiles/WebMercatorQuad/tilejson.json`);
  const { bounds, minzoom, maxzoom, vector_layers: layers } = tilejson;
  return { tiles: tilejson.tiles.map(here), boxes: boxesOf(item, bounds), minzoom, maxzoom, layer: layers[0].id };
}

async function rasterTilesOf(item) {
  const root = `raster/collections/${encodeURIComponent(item.collection)}/items/${encodeURIComponent(item.id)}`;
  const query = hasHints(item) ? "" : await guess(root, `asset=${encodeURIComponent(item.raster[0])}`);
  const tilejson = await fetchJson(`${root}/WebMercatorQuad/tilejson.json?tilesize=256&${query}`);
  const tiles = tilejson.tiles.map(here);
  return { tiles, boxes: boxesOf(item, tilejson.bounds), minzoom: Math.max(tilejson.minzoom - 2, 0), maxzoom: tilejson.maxzoom };
}

// Where there are tiles: on both sides of 180 degrees where the item's box begins east of where it ends.
function boxesOf(item, bounds) {
  const [west, , east] = item.bbox ?? bounds;
  const [, south, , north] = bounds;
  return west > east ? [[west, south, 180, north], [-180, south, east, north]] : [bounds];
}

// A URL of this page's origin, with the braces that the map fills in.
function here(tile) {
  const at = tile.search(/\/(raster|features)\/collections\//);
  return new URL(".", location.href).href.replace(/\/$/, "") + tile.slice(at);
}

function hasHints(item) {
  return Object.keys(item.properties.renders ?? {}).length > 0;
}

async function guess(root, asset) {
  const info = await fetchJson(`${root}/info?${asset}`);
  const plain = info.count > 2 || info.dtype === "uint8" || info.colorinterp[0] === "palette";
  return plain ? asset : `${asset}&bidx=1&colormap_name=viridis`;
}
