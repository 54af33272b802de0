// The map: the land of Natural Earth, the footprints of items, and the tiles of one, a raster or a vector layer.
import { headersFor } from "../key.js";
import { popupOf } from "./popup.js";
import { Map, NavigationControl, ScaleControl, setWorkerUrl } from "../vendor/maplibre-gl.mjs";

setWorkerUrl(new URL("../vendor/maplibre-gl-worker.mjs", import.meta.url).href);

const dark = matchMedia("(prefers-color-scheme: dark)");
const still = matchMedia("(prefers-reduced-motion: reduce)");
const LIGHT = { water: "#cfe1e6", land: "#f3f1ea", coast: "#b6c4c2", print: "#0b6e6e", vector: "#b4400f" };
const DARK = { water: "#10191d", land: "#26302f", coast: "#3d4a49", print: "#5fc7bf", vector: "#ff9d5c" };
const WORLD = [[-170, -56], [179, 78]];
const NONE = { type: "FeatureCollection", features: [] };

const LINES = ["==", "$type", "LineString"];
const linesOf = (index) => ["all", LINES, ["==", "index", index]];

const NEAR = 4; // pixels around a click

// How each kind of geometry is drawn, with the property of its opacity and the most that it has.
const VECTORS = [
  { type: "fill", kind: "Polygon", fades: [["fill-opacity", 0.35]], paint: (c) => ({ "fill-color": c.vector }) },
  { type: "line", kind: "Polygon", fades: [["line-opacity", 1]], paint: (c) => ({ "line-color": c.vector, "line-width": 1.2 }) },
  { type: "line", kind: "LineString", fades: [["line-opacity", 1]], paint: (c) => ({ "line-color": c.vector, "line-width": 2.5 }) },
  { type: "circle", kind: "Point", fades: [["circle-opacity", 1], ["circle-stroke-opacity", 1]], paint: (c) => ({ "circle-color": c.vector, "circle-radius": 5, "circle-stroke-color": c.land, "circle-stroke-width": 1.5 }) },
];
const RASTER = { type: "raster", fades: [["raster-opacity", 1]], paint: () => ({ "raster-fade-duration": 150 }) };

const colours = () => (dark.matches ? DARK : LIGHT);

function style() {
  const { water, land, coast, print } = colours();
  return {
    version: 8,
    sources: {
      land: { type: "geojson", data: new URL("./land.geojson", import.meta.url).href, attribution: "Natural Earth" },
      prints: { type: "geojson", data: NONE },
    },
    layers: [
      { id: "water", type: "background", paint: { "background-color": water } },
      { id: "land", type: "fill", source: "land", paint: { "fill-color": land } },
      { id: "coast", type: "line", source: "land", paint: { "line-color": coast, "line-width": 0.8 } },
      { id: "prints", type: "fill", source: "prints", filter: ["==", "$type", "Polygon"], paint: { "fill-color": print, "fill-opacity": 0.18 } },
      { id: "edges", type: "line", source: "prints", filter: LINES, paint: { "line-color": print, "line-width": 1.5 } },
      { id: "chosen", type: "line", source: "prints", filter: linesOf(-1), paint: { "line-color": print, "line-width": 3.5 } },
      { id: "dots", type: "circle", source: "prints", filter: ["==", "$type", "Point"], maxzoom: 7, paint: { "circle-color": print, "circle-radius": 5, "circle-stroke-color": land, "circle-stroke-width": 1.5 } },
    ],
  };
}

export class WorldMap {
  constructor(element, onChoose, onMove) {
    this.map = new Map({ container: element, style: style(), bounds: WORLD, fitBoundsOptions: { padding: 8 }, maxZoom: 22, attributionControl: { compact: true }, dragRotate: false, transformRequest: (url) => ({ url, headers: headersFor(url) }) });
    this.map.addControl(new NavigationControl({ showCompass: false }), "bottom-right");
    this.map.addControl(new ScaleControl(), "bottom-left");
    this.ready = new Promise((done) => this.map.once("load", done));
    for (const layer of ["prints", "dots"]) {
      this.map.on("click", layer, (event) => this.featuresAt(event.point).length || onChoose(event.features[0].properties.index));
      this.map.on("mouseenter", layer, () => { this.map.getCanvas().style.cursor = "pointer"; });
      this.map.on("mouseleave", layer, () => { this.map.getCanvas().style.cursor = ""; });
    }
    this.map.on("click", (event) => this.showFeature(event));
    this.map.on("moveend", () => onMove(this.view));
    dark.addEventListener("change", () => this.recolour());
    this.items = [];
    this.watches = [];
    this.tiles = [];
    this.drawn = [];
    this.popup = null;
  }

  async showFootprints(items) {
    this.items = [...items];
    await this.ready;
    const features = this.items.flatMap((item, index) => [footprint(item, index), outline(item, index), centre(item, index)]).filter(Boolean);
    this.map.getSource("prints").setData({ type: "FeatureCollection", features });
  }

  get view() {
    return { zoom: this.map.getZoom(), center: this.map.getCenter() };
  }

  jumpTo(view) {
    this.map.jumpTo(view);
  }

  flyTo(item, aside = 380) {
    if (!item.bbox) return;
    const [west, south, east, north] = item.bbox;
    // A box that begins east of where it ends crosses 180 degrees.
    const bounds = [[west, south], [east < west ? east + 360 : east, north]];
    const wide = this.map.getContainer().clientWidth > 700;
    this.map.fitBounds(bounds, { padding: wide ? { top: 60, bottom: 60, left: 60, right: aside } : 40, maxZoom: 16, animate: !still.matches, duration: 1200 });
  }

  async highlight(item) {
    await this.ready;
    this.map.setFilter("chosen", linesOf(item ? this.items.indexOf(item) : -1));
    this.map.setPaintProperty("prints", "fill-opacity", item ? 0.05 : 0.18);
  }

  // One box for each side of 180 degrees, so that no tile is asked for where there is none.
  async showTiles({ tiles, boxes, minzoom, maxzoom, layer }, onDone, onError) {
    await this.ready;
    this.clearTiles();
    this.tiles = boxes.map((_, side) => `tiles-${side}`);
    const source = layer ? { type: "vector" } : { type: "raster", tileSize: 256 };
    for (const [side, id] of this.tiles.entries()) {
      this.map.addSource(id, { ...source, tiles, bounds: boxes[side], minzoom, maxzoom });
      for (const [at, style] of (layer ? VECTORS : [RASTER]).entries()) this.draw(`${id}-${at}`, id, layer, style);
    }
    this.fade(this.opacity ?? 1);
    const ours = (event) => this.tiles.includes(event.sourceId);
    this.watches = [
      this.map.on("error", (event) => ours(event) && onError(`A tile can't be shown: ${event.error.message}`, event.error.status)),
      this.map.on("sourcedata", (event) => ours(event) && this.tiles.every((id) => this.map.isSourceLoaded(id)) && onDone()),
    ];
  }

  draw(id, source, layer, style) {
    const chosen = layer ? { "source-layer": layer, filter: ["==", "$type", style.kind] } : {};
    this.map.addLayer({ id, source, type: style.type, paint: style.paint(colours()), ...chosen }, "edges");
    this.drawn.push({ id, style });
  }

  featuresAt({ x, y }) {
    const layers = this.drawn.filter(({ style }) => style.kind).map(({ id }) => id);
    return layers.length ? this.map.queryRenderedFeatures([[x - NEAR, y - NEAR], [x + NEAR, y + NEAR]], { layers }) : [];
  }

  showFeature({ point, lngLat }) {
    const [feature] = this.featuresAt(point);
    this.popup?.remove();
    this.popup = feature ? popupOf(feature).setLngLat(lngLat).addTo(this.map) : null;
  }

  clearTiles() {
    for (const watch of this.watches) watch.unsubscribe();
    this.popup?.remove();
    for (const { id } of this.drawn) this.map.removeLayer(id);
    for (const id of this.tiles) this.map.removeSource(id);
    this.watches = [];
    this.tiles = [];
    this.drawn = [];
  }

  fade(opacity) {
    this.opacity = opacity;
    for (const { id, style } of this.drawn) {
      for (const [property, most] of style.fades) this.map.setPaintProperty(id, property, opacity * most);
    }
  }

  recolour() {
    const { water, land, coast, print } = colours();
    const paints = [["water", "background-color", water], ["land", "fill-color", land], ["coast", "line-color", coast], ["prints", "fill-color", print], ["edges", "line-color", print], ["chosen", "line-color", print], ["dots", "circle-color", print], ["dots", "circle-stroke-color", land]];
    for (const { id, style } of this.drawn) paints.push(...Object.entries(style.paint(colours())).map((paint) => [id, ...paint]));
    for (const paint of paints) this.map.setPaintProperty(...paint);
  }
}

function footprint(item, index) {
  return item.geometry && { type: "Feature", geometry: item.geometry, properties: { index } };
}

// The edges of the footprint; where it is cut at 180 degrees it has none.
function outline(item, index) {
  const polygons = { Polygon: [item.geometry?.coordinates], MultiPolygon: item.geometry?.coordinates }[item.geometry?.type];
  return polygons && { type: "Feature", geometry: { type: "MultiLineString", coordinates: polygons.flat().flatMap(uncut) }, properties: { index } };
}

function uncut(ring) {
  const lines = [[]];
  for (const [at, point] of ring.entries()) {
    if (at && Math.abs(point[0]) >= 180 && ring[at - 1][0] === point[0]) lines.push([]);
    lines.at(-1).push(point);
  }
  return lines.filter((line) => line.length > 1);
}

function centre(item, index) {
  if (!item.bbox) return null;
  const [west, south, east, north] = item.bbox;
  const middle = (west + (east < west ? east + 360 : east)) / 2;
  return { type: "Feature", geometry: { type: "Point", coordinates: [middle > 180 ? middle - 360 : middle, (south + north) / 2] }, properties: { index } };
}
