// One map: the base map, the footprints of items, and the tiles of layers. The page has a second one while it compares.
import { headersFor } from "../key.js";
import type { Drawing } from "./layers/drawing.js";
import type { View } from "./address.js";
import type { Box } from "./boxes.js";
import { boundsOf } from "./boxes.js";
import { colours, dark, styleOf, type Basemap } from "./base.js";
import { printsOf, type Footprint } from "./prints.js";
import { Map as Library, NavigationControl, ScaleControl, setWorkerUrl, type GeoJSONSource, type LayerSpecification, type MapGeoJSONFeature, type PointLike } from "../vendor/maplibre-gl.mjs";

setWorkerUrl(new URL("../vendor/maplibre-gl-worker.mjs", import.meta.url).href);

const still = matchMedia("(prefers-reduced-motion: reduce)");
const WORLD: Box = [-170, -56, 179, 78];
const LINES = ["==", "$type", "LineString"];
const linesOf = (index: number): never => ["all", LINES, ["==", "index", index]] as never;
const NEAR = 4; // pixels around a click
const AREAS = "prints";
const ABOVE = "edges"; // of items, which are drawn over the layers

// How each kind of geometry is drawn, with the properties of its opacity and the most that they have.
const VECTORS = [
  { type: "fill", kind: "Polygon", fades: { "fill-opacity": 0.35 }, paint: (colour: string) => ({ "fill-color": colour }) },
  { type: "line", kind: "Polygon", fades: { "line-opacity": 1 }, paint: (colour: string) => ({ "line-color": colour, "line-width": 1.2 }) },
  { type: "line", kind: "LineString", fades: { "line-opacity": 1 }, paint: (colour: string) => ({ "line-color": colour, "line-width": 2.5 }) },
  { type: "circle", kind: "Point", fades: { "circle-opacity": 1, "circle-stroke-opacity": 1 }, paint: (colour: string) => ({ "circle-color": colour, "circle-radius": 5, "circle-stroke-color": colours().land, "circle-stroke-width": 1.5 }) },
];
const RASTER = { type: "raster", kind: "", fades: { "raster-opacity": 1 }, paint: () => ({ "raster-fade-duration": 150 }) };

interface Shown { signature: string; sources: string[]; drawn: { id: string; fades: Record<string, number> }[]; opacity: number; isVector: boolean }
// What a map needs to draw a layer.
export interface Drawn { key: string; colour: string; opacity: number; drawing: Pick<Drawing, "tiles" | "boxes" | "minzoom" | "maxzoom" | "sourceLayer"> | null }
export interface Watcher {
  loaded(key: string): void;
  failed(key: string, text: string, status: number): void;
}

export class MapView {
  readonly map: Library;
  readonly ready: Promise<void>;
  private readonly shown = new Map<string, Shown>();
  private order = "";

  constructor(element: HTMLElement, base: Basemap, private readonly watcher: Watcher, options: { view?: View; controls?: boolean } = {}) {
    const at = options.view ? { center: options.view.center, zoom: options.view.zoom } : { bounds: boundsOf(WORLD) };
    this.map = new Library({ container: element, style: styleOf(base), ...at, maxZoom: 22, attributionControl: options.controls === false ? false : { compact: true }, dragRotate: false, transformRequest: (url) => ({ url, headers: headersFor(url) }) });
    this.map.touchZoomRotate.disableRotation();
    if (options.controls !== false) {
      this.map.addControl(new NavigationControl({ showCompass: false }), "bottom-right");
      this.map.addControl(new ScaleControl(), "bottom-left");
    }
    this.map.getCanvas().setAttribute("aria-label", "Map: arrows move it, + and - zoom");
    // With its style, which takes sources at once: `load` comes after the whole base map, which may be slow or never come.
    this.ready = new Promise((done) => void this.map.once("style.load", () => done()));
    this.map.on("error", (event) => this.report(event as unknown as { sourceId?: string; error: Error & { status?: number } }));
    this.map.on("sourcedata", (event) => this.noteLoaded(event.sourceId ?? ""));
    dark.addEventListener("change", () => this.recolour());
  }

  get view(): View {
    return { zoom: this.map.getZoom(), center: this.map.getCenter() };
  }

  get box(): Box {
    const found = this.map.getBounds();
    return [found.getWest(), found.getSouth(), found.getEast(), found.getNorth()];
  }

  // Be there at once, also before anything is seen.
  place(box: Box, maxZoom = 12): void {
    this.map.fitBounds(boundsOf(box), { padding: 40, maxZoom, animate: false });
  }

  // Go there, beside or above what covers the map.
  fly(box: Box, covered: { width: number; height: number }, maxZoom = 16): void {
    const { clientWidth: width, clientHeight: height } = this.map.getContainer();
    const beside = width > 2 * covered.width;
    const edge = Math.min(60, width / 8, height / 8);
    const padding = { top: edge, left: edge, right: edge + (beside ? covered.width : 0), bottom: edge + (beside ? 0 : Math.min(covered.height, height / 2)) };
    this.map.fitBounds(boundsOf(box), { padding, maxZoom, animate: !still.matches, duration: 1200 });
  }

  async showFootprints(items: Footprint[]): Promise<void> {
    await this.ready;
    this.map.getSource<GeoJSONSource>(AREAS)?.setData(printsOf(items));
  }

  async highlight(index: number, isAnything: boolean): Promise<void> {
    await this.ready;
    this.map.setFilter("chosen", linesOf(index));
    this.map.setPaintProperty(AREAS, "fill-opacity", isAnything ? 0.05 : 0.18);
  }

  async mark(geometry: GeoJSON.Geometry | null): Promise<void> {
    await this.ready;
    this.map.getSource<GeoJSONSource>("marked")?.setData({ type: "FeatureCollection", features: geometry ? [{ type: "Feature", properties: {}, geometry }] : [] });
  }

  // Show these layers, the topmost first, and no others.
  async showLayers(layers: Drawn[]): Promise<void> {
    await this.ready;
    const wanted = new Map(layers.filter((layer) => layer.drawing).map((layer) => [layer.key, layer]));
    for (const [key, shown] of [...this.shown]) {
      const layer = wanted.get(key);
      if (!layer || signatureOf(layer) !== shown.signature) this.remove(key);
    }
    for (const layer of wanted.values()) if (!this.shown.has(layer.key)) this.put(layer);
    for (const layer of wanted.values()) this.fade(layer);
    this.arrange([...wanted.keys()]);
  }

  // One source for each side of 180 degrees, so that no tile is asked for where there is none.
  private put(layer: Drawn): void {
    const { tiles, boxes, minzoom, maxzoom, sourceLayer } = layer.drawing!;
    const shown: Shown = { signature: signatureOf(layer), sources: [], drawn: [], opacity: -1, isVector: sourceLayer !== null };
    for (const [side, bounds] of boxes.entries()) {
      const source = `${layer.key} ${side}`;
      this.map.addSource(source, sourceLayer ? { type: "vector", tiles, bounds, minzoom, maxzoom } : { type: "raster", tileSize: 256, tiles, bounds, minzoom, maxzoom });
      shown.sources.push(source);
      for (const [at, style] of (sourceLayer ? VECTORS : [RASTER]).entries()) {
        const id = `${source} ${at}`;
        const chosen = sourceLayer ? { "source-layer": sourceLayer, filter: ["==", "$type", style.kind] } : {};
        this.map.addLayer({ id, source, type: style.type, paint: style.paint(layer.colour), ...chosen } as unknown as LayerSpecification, ABOVE);
        shown.drawn.push({ id, fades: style.fades as unknown as Record<string, number> });
      }
    }
    this.shown.set(layer.key, shown);
    this.order = "";
  }

  private remove(key: string): void {
    const shown = this.shown.get(key);
    this.shown.delete(key);
    for (const { id } of shown?.drawn ?? []) this.map.removeLayer(id);
    for (const id of shown?.sources ?? []) this.map.removeSource(id);
  }

  private fade(layer: Drawn): void {
    const shown = this.shown.get(layer.key);
    if (!shown || shown.opacity === layer.opacity) return;
    shown.opacity = layer.opacity;
    for (const { id, fades } of shown.drawn) for (const [property, most] of Object.entries(fades)) this.paint(id, property, layer.opacity * most);
  }

  private arrange(keys: string[]): void {
    const order = keys.join(" ");
    if (order === this.order) return;
    this.order = order;
    for (const key of [...keys].reverse()) for (const { id } of this.shown.get(key)?.drawn ?? []) this.map.moveLayer(id, ABOVE);
  }

  // The features of layers around a point of the screen, by their layer.
  featuresAt({ x, y }: { x: number; y: number }): Map<string, MapGeoJSONFeature> {
    const found = new Map<string, MapGeoJSONFeature>();
    const area: [PointLike, PointLike] = [[x - NEAR, y - NEAR], [x + NEAR, y + NEAR]];
    for (const [key, shown] of this.shown) {
      if (!shown.isVector) continue;
      const [feature] = this.map.queryRenderedFeatures(area, { layers: shown.drawn.map(({ id }) => id) });
      if (feature) found.set(key, feature);
    }
    return found;
  }

  // The places in the list of the items whose footprints are at a point of the screen.
  printsAt({ x, y }: { x: number; y: number }): number[] {
    const area: [PointLike, PointLike] = [[x - NEAR, y - NEAR], [x + NEAR, y + NEAR]];
    return [...new Set(this.map.queryRenderedFeatures(area, { layers: [AREAS, "dots"] }).map((feature) => feature.properties.index as number))];
  }

  private report({ sourceId = "", error }: { sourceId?: string; error: Error & { status?: number } }): void {
    for (const [key, shown] of this.shown) if (shown.sources.includes(sourceId)) this.watcher.failed(key, `A tile can't be shown: ${error.message}`, error.status ?? 0);
  }

  private noteLoaded(source: string): void {
    for (const [key, shown] of this.shown) {
      if (shown.sources.includes(source) && shown.sources.every((id) => this.map.isSourceLoaded(id))) this.watcher.loaded(key);
    }
  }

  private paint(layer: string, property: string, value: string | number): void {
    this.map.setPaintProperty(layer, property as "fill-color", value as string); // of any kind of layer
  }

  private recolour(): void {
    const { water, land, coast, border, print } = colours();
    const paints: [string, string, string][] = [["water", "background-color", water], ["land", "fill-color", land], ["coast", "line-color", coast], ["near-land", "fill-color", land], ["near-coast", "line-color", coast], ["borders", "line-color", border], ["prints", "fill-color", print], ["edges", "line-color", print], ["chosen", "line-color", print], ["dots", "circle-color", print], ["dots", "circle-stroke-color", land]];
    for (const [layer, property, value] of paints) if (this.map.getLayer(layer)) this.paint(layer, property, value);
  }
}

const signatureOf = ({ drawing, colour }: Drawn): string => JSON.stringify([drawing?.tiles, drawing?.boxes, drawing?.sourceLayer, colour]);
