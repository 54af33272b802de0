// What is at a point that was clicked: pixel values and features of the shown layers, and items that begin there.
import { type Item, Refused, fetchJson } from "../catalog.js";
import { make, spellNumber } from "../dom.js";
import { holds } from "../boxes.js";
import { titleOf, type Layer } from "./layers.js";
import type { MapView } from "../view.js";
import { Popup, type MapGeoJSONFeature, type MapMouseEvent } from "../../vendor/maplibre-gl.mjs";

const MOST = 40;
const LONGEST = 200;
let popup: Popup | null = null;

export function closePopup(): boolean {
  const was = popup?.isOpen() ?? false;
  popup?.remove();
  popup = null;
  return was;
}

// Without a layer at the point, the item whose footprint is there is chosen at once.
export function showValues(view: MapView, event: MapMouseEvent, layers: Layer[], items: Item[], choose: (item: Item) => void): void {
  closePopup();
  const { lng, lat } = event.lngLat;
  const features = view.featuresAt(event.point);
  const rasters = layers.filter((layer) => layer.drawing?.kind === "raster" && layer.drawing.boxes.some((box) => holds(box, lng, lat)) && (!layer.item?.bbox || holds(layer.item.bbox, lng, lat)));
  const others = view.printsAt(event.point).map((index) => items[index]).filter((item): item is Item => item !== undefined && !layers.some((layer) => layer.collection === item.collection && layer.id === item.id));
  if (!features.size && !rasters.length) {
    if (others[0]) choose(others[0]);
    return;
  }
  const parts = layers.flatMap((layer) => {
    const feature = features.get(layer.key);
    if (feature) return [featurePart(layer, feature)];
    return rasters.includes(layer) ? [rasterPart(layer, lng, lat)] : [];
  });
  if (others.length) parts.push(make("section", {}, make("h3", {}, "Also here"), make("ul", {}, ...others.slice(0, MOST).map((item) => make("li", {}, make("button", { type: "button", click: () => { closePopup(); choose(item); } }, item.title))))));
  const place = make("p", { class: "quiet" }, `${lat.toFixed(5)}, ${lng.toFixed(5)}`);
  popup = new Popup({ maxWidth: "22rem", focusAfterOpen: false }).setDOMContent(make("div", { class: "values" }, ...parts, place)).setLngLat(event.lngLat).addTo(view.map);
}

function rasterPart(layer: Layer, longitude: number, latitude: number): HTMLElement {
  const body = make("p", { class: "quiet", role: "status" }, "Reading …");
  void readPoint(layer, longitude, latitude).then((found) => body.replaceWith(found), (error: Error) => {
    body.className = error instanceof Refused && error.status === 404 ? "quiet" : "wrong";
    body.textContent = error instanceof Refused && error.status === 404 ? "No value here." : error.message;
  });
  return make("section", {}, make("h3", {}, titleOf(layer)), body);
}

async function readPoint(layer: Layer, longitude: number, latitude: number): Promise<HTMLElement> {
  const { root, style, bands, legend } = layer.drawing!;
  const found = await fetchJson(`${root}/point/${longitude},${latitude}?asset=${encodeURIComponent(style.asset ?? "")}`);
  const rows = (found.values as (number | null)[]).slice(0, MOST).map((value, index) => {
    const named = legend.classes && value !== null ? legend.classes.find(({ name }) => name === String(value))?.name : undefined;
    return [make("dt", {}, bands[index]?.name ?? `b${index + 1}`), make("dd", {}, value === null || Number.isNaN(value) ? "no data" : (named ?? spellNumber(value)))];
  });
  return make("dl", {}, ...rows.flat());
}

// As text only: a value may hold anything.
function featurePart(layer: Layer, feature: MapGeoJSONFeature): HTMLElement {
  const values = Object.entries(feature.properties);
  const rows = values.slice(0, MOST).flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, cut(String(value)))]);
  if (values.length > MOST) rows.push(make("dt", {}, "…"), make("dd", {}, `${values.length - MOST} more`));
  return make("section", {}, make("h3", {}, `${titleOf(layer)}, feature ${feature.id}`), make("dl", {}, ...rows));
}

const cut = (text: string): string => (text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text);
