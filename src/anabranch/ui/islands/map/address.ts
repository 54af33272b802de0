// All that the page shows, after the # of its address: it can be shared, reloaded and gone back to.
export type Side = "both" | "left" | "right";
export interface Style { asset?: string; bands?: number[]; ramp?: string; range?: [number, number]; colour?: string; filter?: string }
export interface View { zoom: number; center: { lng: number; lat: number } }
export interface LayerState { collection: string; id: string; revision: number | null; visible: boolean; opacity: number; side: Side; style: Style }
export interface Chosen { collection: string; id: string }
export interface PageState {
  text: string;
  collection: string;
  from: string;
  to: string;
  inView: boolean;
  item: Chosen | null;
  layers: LayerState[]; // the topmost first
  split: number | null; // where the map is divided, of its width
  table: string | null; // the key of the layer whose table is open
  view: View | null;
}

const LAYER = /^([^/;]+)\/([^/;@]+)(?:@(\d+))?((?:;.*)?)$/;
const COLOUR = /^[0-9a-f]{6}$/;

export const keyOf = ({ collection, id, revision = null }: Chosen & { revision?: number | null }): string =>
  `${encodeURIComponent(collection)}/${encodeURIComponent(id)}${revision === null ? "" : `@${revision}`}`;

export function readAddress(): PageState {
  const given = new URLSearchParams(location.hash.slice(1));
  const [collection, id] = [given.get("collection"), given.get("item")];
  const [zoom = NaN, lat = NaN, lng = NaN] = (given.get("map") ?? "").split("/").map(Number);
  const isView = [zoom, lat, lng].every(Number.isFinite) && Math.abs(lat) <= 90;
  const split = given.has("split") ? Number(given.get("split")) : NaN;
  return {
    text: given.get("q") ?? "",
    collection: given.get("in") ?? "",
    from: dateOf(given.get("from")),
    to: dateOf(given.get("to")),
    inView: given.get("here") === "1",
    item: collection && id ? { collection, id } : null,
    layers: given.getAll("layer").map(readLayer).filter((layer) => layer !== null),
    split: split >= 0 && split <= 1 ? split : null,
    table: given.get("table"),
    view: isView ? { zoom, center: { lng, lat } } : null,
  };
}

// Another item or layer is a step that the back button goes back; a move of the map is none.
export function writeAddress(state: PageState, { step = false } = {}): void {
  const given = new URLSearchParams();
  if (state.text) given.set("q", state.text);
  if (state.collection) given.set("in", state.collection);
  if (state.from) given.set("from", state.from);
  if (state.to) given.set("to", state.to);
  if (state.inView) given.set("here", "1");
  if (state.item) {
    given.set("collection", state.item.collection);
    given.set("item", state.item.id);
  }
  const parts = given.size ? [`${given}`] : [];
  parts.push(...state.layers.map((layer) => `layer=${writeLayer(layer)}`));
  if (state.split !== null) parts.push(`split=${Number(state.split.toFixed(3))}`);
  if (state.table) parts.push(`table=${encodeURIComponent(state.table)}`);
  const { view } = state;
  if (view) parts.push(`map=${view.zoom.toFixed(2)}/${view.center.lat.toFixed(5)}/${view.center.lng.toFixed(5)}`);
  const address = `#${parts.join("&")}`;
  if (address === location.hash || (address === "#" && !location.hash)) return;
  if (step) history.pushState(null, "", address);
  else history.replaceState(null, "", address);
}

const dateOf = (text: string | null): string => (text && /^\d{4}-\d\d-\d\d$/.test(text) ? text : "");

// A layer is its key and what differs from the default. It is encoded twice, as its parts may hold what parts them.
function writeLayer(layer: LayerState): string {
  const { style } = layer;
  const parts = [keyOf(layer)];
  if (!layer.visible) parts.push("off");
  if (layer.opacity !== 1) parts.push(`opacity=${layer.opacity}`);
  if (layer.side !== "both") parts.push(`side=${layer.side}`);
  if (style.asset) parts.push(`asset=${encodeURIComponent(style.asset)}`);
  if (style.bands) parts.push(`bands=${style.bands.join(",")}`);
  if (style.ramp) parts.push(`ramp=${style.ramp}`);
  if (style.range) parts.push(`range=${style.range.join(",")}`);
  if (style.colour) parts.push(`colour=${style.colour.slice(1)}`);
  if (style.filter) parts.push(`filter=${encodeURIComponent(style.filter)}`);
  return encodeURIComponent(parts.join(";")).replaceAll("%2F", "/").replaceAll("%3B", ";").replaceAll("%3D", "=").replaceAll("%2C", ",").replaceAll("%40", "@");
}

function readLayer(text: string): LayerState | null {
  const found = LAYER.exec(text);
  if (!found?.[1] || !found[2]) return null;
  const given = new Map((found[4] ?? "").split(";").filter(Boolean).map((part) => [part.split("=", 1)[0] ?? "", part.slice(part.indexOf("=") + 1)]));
  const textOf = (name: string): string | undefined => (given.has(name) ? decode(given.get(name) ?? "") : undefined);
  const numbers = (name: string): number[] | undefined => {
    const read = given.get(name)?.split(",").map(Number);
    return read?.length && read.every(Number.isFinite) ? read : undefined;
  };
  const [opacity, range, bands, colour, side] = [numbers("opacity")?.[0], numbers("range"), numbers("bands"), given.get("colour"), given.get("side")];
  const [asset, ramp, filter] = [textOf("asset"), textOf("ramp"), textOf("filter")];
  return {
    collection: decode(found[1]),
    id: decode(found[2]),
    revision: found[3] ? Number(found[3]) : null,
    visible: !given.has("off"),
    opacity: opacity !== undefined && opacity >= 0 && opacity <= 1 ? opacity : 1,
    side: side === "left" || side === "right" ? side : "both",
    style: {
      ...(asset ? { asset } : {}),
      ...(bands ? { bands } : {}),
      ...(ramp && /^[a-z0-9_]+$/.test(ramp) ? { ramp } : {}),
      ...(range && range.length === 2 && range[0]! < range[1]! ? { range: [range[0]!, range[1]!] } : {}),
      ...(colour && COLOUR.test(colour) ? { colour: `#${colour}` } : {}),
      ...(filter ? { filter } : {}),
    },
  };
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
