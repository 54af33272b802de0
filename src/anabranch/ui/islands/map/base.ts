// The base map: Natural Earth, which comes with the package, or what the operator of the installation set.
import { fetchJson, at } from "./catalog.js";
import type { StyleSpecification, LayerSpecification, SourceSpecification } from "../vendor/maplibre-gl.mjs";

export type Basemap = { kind: "own"; problem?: string } | { kind: "style"; style: StyleSpecification } | { kind: "tiles"; source: SourceSpecification };

export const dark = matchMedia("(prefers-color-scheme: dark)");
const LIGHT = { water: "#cfe1e6", land: "#f3f1ea", coast: "#b6c4c2", border: "#c3b8a6", print: "#0b6e6e" };
const DARK = { water: "#10191d", land: "#26302f", coast: "#3d4a49", border: "#46504b", print: "#5fc7bf" };
const NEAR_ZOOM = 3.5; // from which the finer coast and the borders are shown
const NONE: GeoJSON.FeatureCollection = { type: "FeatureCollection", features: [] };
const LINES = ["==", "$type", "LineString"];

export const colours = (): typeof LIGHT => (dark.matches ? DARK : LIGHT);

const part = (name: string): string => new URL(`./${name}`, import.meta.url).href;

// The setting of the operator, as the page has it; where its style can't be read, ours with a word about that.
export async function readBasemap(place: HTMLElement): Promise<Basemap> {
  const { basemap = "", credit } = place.dataset;
  if (!basemap) return { kind: "own" };
  const address = basemap.startsWith("/") ? at(basemap.slice(1)).replaceAll("%7B", "{").replaceAll("%7D", "}") : basemap;
  if (address.includes("{z}")) return { kind: "tiles", source: { type: "raster", tiles: [address], tileSize: 256, ...(credit ? { attribution: credit } : {}) } };
  try {
    return { kind: "style", style: await fetchJson(address) };
  } catch (error) {
    return { kind: "own", problem: `The base map of this installation can't be shown: ${(error as Error).message}` };
  }
}

export function styleOf(base: Basemap): StyleSpecification {
  const { print, land } = colours();
  const under = underOf(base);
  const layers: unknown[] = [
    { id: "prints", type: "fill", source: "prints", filter: ["==", "$type", "Polygon"], paint: { "fill-color": print, "fill-opacity": 0.18 } },
    { id: "edges", type: "line", source: "prints", filter: LINES, paint: { "line-color": print, "line-width": 1.5 } },
    { id: "chosen", type: "line", source: "prints", filter: ["all", LINES, ["==", "index", -1]], paint: { "line-color": print, "line-width": 3.5 } },
    { id: "dots", type: "circle", source: "prints", filter: ["==", "$type", "Point"], maxzoom: 7, paint: { "circle-color": print, "circle-radius": 5, "circle-stroke-color": land, "circle-stroke-width": 1.5 } },
    { id: "marked-area", type: "line", source: "marked", filter: ["!=", "$type", "Point"], paint: { "line-color": "#ffd400", "line-width": 4 } },
    { id: "marked-point", type: "circle", source: "marked", filter: ["==", "$type", "Point"], paint: { "circle-color": "#ffd400", "circle-radius": 8, "circle-stroke-color": "#000", "circle-stroke-width": 1.5 } },
  ];
  return { ...under, sources: { ...under.sources, prints: { type: "geojson", data: NONE }, marked: { type: "geojson", data: NONE } }, layers: [...under.layers, ...(layers as LayerSpecification[])] };
}

function underOf(base: Basemap): StyleSpecification {
  const { water, land, coast, border } = colours();
  if (base.kind === "style") return base.style;
  if (base.kind === "tiles") {
    return { version: 8, sources: { basemap: base.source }, layers: [{ id: "water", type: "background", paint: { "background-color": water } }, { id: "basemap", type: "raster", source: "basemap" }] };
  }
  return {
    version: 8,
    sources: {
      land: { type: "geojson", data: part("land.geojson"), attribution: "Natural Earth" },
      near: { type: "geojson", data: part("near.geojson"), attribution: "Natural Earth" },
    },
    layers: [
      { id: "water", type: "background", paint: { "background-color": water } },
      { id: "land", type: "fill", source: "land", maxzoom: NEAR_ZOOM, paint: { "fill-color": land } },
      { id: "coast", type: "line", source: "land", maxzoom: NEAR_ZOOM, paint: { "line-color": coast, "line-width": 0.8 } },
      { id: "near-land", type: "fill", source: "near", minzoom: NEAR_ZOOM, filter: ["==", "$type", "Polygon"], paint: { "fill-color": land } },
      { id: "near-coast", type: "line", source: "near", minzoom: NEAR_ZOOM, filter: ["==", "$type", "Polygon"], paint: { "line-color": coast, "line-width": 0.8 } },
      { id: "borders", type: "line", source: "near", minzoom: NEAR_ZOOM, filter: LINES as never, paint: { "line-color": border, "line-width": 0.9, "line-dasharray": [4, 2] } },
    ],
  };
}
