// The page: a search, the map, layers, and what is known of the chosen item.
import { keyOf, readAddress, writeAddress, type Chosen } from "./address.js";
import { readBasemap } from "./base.js";
import { unite, type Box } from "./boxes.js";
import { fetchJson, itemUrl, readOne, Refused, type Item } from "./catalog.js";
import { find } from "./dom.js";
import { Facts } from "./facts.js";
import { isPlain, Layers, type Layer } from "./layers/layers.js";
import { showLegend } from "./layers/legend.js";
import { isOne, List } from "./list.js";
import { Panel } from "./layers/panel.js";
import { Swipe } from "./swipe.js";
import { Table } from "./layers/table.js";
import { startTabs } from "./tabs.js";
import { closePopup, showValues } from "./layers/values.js";
import { MapView } from "./view.js";

const browse = find("#browse");
const compare = find<HTMLButtonElement>("#compare");
const drawn = new Set<string>(); // keys of layers whose tiles are there
const problems = new Map<string, string>();
let chosen: Item | null = null;
let split: number | null = null;
let steady = false; // once the page shows what its address names

const first = readAddress();
const base = await readBasemap(browse);
const layers = new Layers(update);
const tabs = startTabs(find("#panels"));
const watcher = { loaded: noteDrawn, failed: noteFailed };

const view: MapView = new MapView(find("#map"), base, watcher, first.view ? { view: first.view } : {});
const list = new List(() => view.box, { choose: (item) => void choose(item), listed: showFootprints, searched: () => write(true) });
const swipe = new Swipe(view, openRight, (share) => { setSplit(share); write(false); });
const facts = new Facts((item, number) => compareRevision(item, number));
const table = new Table({ closed: () => { void view.mark(null); write(false); }, filter: (layer, filter) => layers.restyle(layer.key, { ...layer.style, filter }), show: showFeature });
const panel = new Panel(layers, { open: (layer) => void open(layer), fly: (layer) => layer.item?.bbox && flyTo(layer.item.bbox), table: (layer) => void openTable(layer), remove });

view.map.on("click", (event) => showValues(view, event, layers.isOn(split === null ? "both" : "left"), list.items, (item) => void choose(item)));
view.map.on("mousemove", (event) => { view.map.getCanvas().style.cursor = view.printsAt(event.point).length || view.featuresAt(event.point).size ? "pointer" : ""; });
view.map.on("moveend", () => { if (steady) { write(false); list.moved(); } });

function openRight(element: HTMLElement): MapView {
  const right = new MapView(element, base, watcher, { view: view.view, controls: false });
  right.map.on("click", (event) => showValues(right, event, layers.isOn("right"), list.items, (item) => void choose(item)));
  void right.showFootprints(list.items);
  return right;
}

const boxOf = (items: Item[]): Box | null => unite(items.map((item) => item.bbox).filter((box) => box !== null));

function showFootprints(items: Item[]): void {
  void view.showFootprints(items);
  void swipe.right?.showFootprints(items);
  highlight();
}

function flyTo(box: Box, maxZoom?: number): void {
  const { offsetWidth: width, offsetHeight: height } = find("#facts");
  view.fly(box, { width, height }, maxZoom);
}

function highlight(): void {
  const index = list.indexOf(chosen);
  void view.highlight(index, chosen !== null || layers.all.length > 0);
  void swipe.right?.highlight(index, true);
}

// Everything that shows layers, after each change of them.
function update(): void {
  for (const key of [...drawn]) if (!layers.find(key)?.visible) drawn.delete(key);
  void view.showLayers(layers.isOn(split === null ? "both" : "left"));
  void swipe.right?.showLayers(layers.isOn("right"));
  panel.show(split !== null);
  showLegend(layers.all);
  compare.disabled = split === null && layers.all.length < 2;
  showState();
  highlight();
  if (steady) write(false);
}

function showState(): void {
  if (!chosen) return;
  const layer = layers.find(keyOf(chosen));
  facts.showState(layer, layer !== null && (drawn.has(layer.key) || !layer.visible), problems.get(keyOf(chosen)));
}

function noteDrawn(key: string): void {
  if (drawn.has(key)) return;
  drawn.add(key);
  showState();
}

function noteFailed(key: string, text: string, status: number): void {
  if (status === 404) return; // beyond the edge of the data
  if (status === 401 && chosen) return void fetchJson(itemUrl(chosen.collection, chosen.id)).then(() => location.reload(), () => undefined); // which asks for another key
  problems.set(key, text);
  showState();
}

async function choose(item: Item, { step = true, fly = true } = {}): Promise<void> {
  chosen = item;
  problems.clear();
  const key = keyOf(item);
  layers.removePassing(key);
  layers.add(item, { item });
  list.mark(item);
  facts.show(item);
  showState();
  highlight();
  if (fly && item.bbox) flyTo(item.bbox);
  write(step);
}

function leave({ step = true } = {}): void {
  const item = chosen;
  chosen = null;
  facts.hide();
  list.mark(null);
  layers.removePassing();
  write(step);
  list.focus(item);
}

async function open(layer: Layer): Promise<void> {
  if (layer.item) await choose(layer.revision === null ? layer.item : await readOne(layer.collection, layer.id), { fly: false });
}

function remove(layer: Layer): void {
  if (table.layer?.key === layer.key) table.close();
  layers.remove(layer.key);
  if (chosen && keyOf(chosen) === layer.key) leave();
  else write(true);
}

async function openTable(layer: Layer): Promise<void> {
  layers.set(layer.key, { kept: true });
  await table.open(layer);
  write(true);
}

function showFeature(geometry: GeoJSON.Geometry): void {
  void view.mark(geometry);
  const points = pointsOf(geometry);
  const [eastings, northings] = [points.map(([x]) => x!), points.map(([, y]) => y!)];
  if (points.length) flyTo([least(eastings), least(northings), most(eastings), most(northings)], 14);
}

const least = (values: number[]): number => values.reduce((a, b) => Math.min(a, b));
const most = (values: number[]): number => values.reduce((a, b) => Math.max(a, b));

function pointsOf(geometry: GeoJSON.Geometry): GeoJSON.Position[] {
  if (geometry.type === "GeometryCollection") return geometry.geometries.flatMap(pointsOf);
  const flat = geometry.coordinates.flat(Infinity) as number[];
  const size = depthOf(geometry.coordinates);
  return Array.from({ length: flat.length / size }, (_, at) => flat.slice(at * size, at * size + 2));
}

const depthOf = (coordinates: unknown[]): number => (typeof coordinates[0] === "number" ? coordinates.length : depthOf(coordinates[0] as unknown[]));

function setSplit(share: number | null): void {
  const was = split;
  split = share;
  swipe.set(share);
  compare.setAttribute("aria-pressed", String(share !== null));
  if ((was === null) !== (share === null)) update();
}

// The two topmost layers, the upper one on the right; where sides are chosen already, they stay.
function startCompare(): void {
  const [right, left] = layers.all;
  if (layers.all.every((layer) => layer.side === "both") && right && left) {
    Object.assign(right, { side: "right", kept: true });
    Object.assign(left, { side: "left", kept: true });
  }
  setSplit(0.5);
  write(true);
}

function compareRevision(item: Item, revision: number): void {
  const now = layers.add(item, { kept: true, item });
  now.side = "right";
  for (const layer of layers.all) if (layer.key !== now.key && isOne(layer, item)) layer.side = "both";
  const then = layers.add({ collection: item.collection, id: item.id, revision, style: { ...now.style } }, { kept: true, under: now.key });
  Object.assign(then, { side: "left" });
  setSplit(split ?? 0.5);
  tabs.show("layers");
  leave(); // its facts would cover the right side
  if (item.bbox) flyTo(item.bbox);
  find("#swipe").focus();
}

// What happens at once is one step, if any of it is one.
let due: { step: boolean } | null = null;
function write(step: boolean): void {
  if (!steady) return;
  if (due) {
    due.step ||= step;
    return;
  }
  due = { step };
  queueMicrotask(() => {
    const now = due;
    due = null;
    if (steady) writeNow(now?.step ?? false);
  });
}

function writeNow(step: boolean): void {
  writeAddress({ ...list.terms, item: chosen && { collection: chosen.collection, id: chosen.id }, layers: layers.all.filter((layer) => !isPlain(layer)), split, table: table.layer?.key ?? null, view: view.view }, { step });
}

// Show what the address names: at first, and after each step back or forward.
async function follow(): Promise<void> {
  const wanted = readAddress();
  steady = false;
  try {
    const wasTerms = JSON.stringify(list.terms);
    list.terms = wanted;
    if (wasTerms !== JSON.stringify(list.terms)) await list.read();
    layers.all = layers.all.filter((layer) => (chosen && layer.key === keyOf(chosen) && !layer.kept) || wanted.layers.some((one) => keyOf(one) === layer.key));
    for (const layer of [...wanted.layers].reverse()) restore(layer);
    setSplit(wanted.split);
    if (wanted.view) view.map.jumpTo(wanted.view);
    if (wanted.item) await choose(await itemOf(wanted.item), { step: false, fly: !wanted.view });
    else if (chosen) leave({ step: false });
    else update();
    const tabled = wanted.table ? layers.find(wanted.table) : null;
    if (tabled) {
      tabled.item ??= await readOne(tabled.collection, tabled.id);
      await table.open(tabled);
    } else table.close();
  } catch (error) {
    list.say((error as Error).message, { wrong: true });
  } finally {
    steady = true;
    write(false);
  }
}

function restore(state: (typeof first.layers)[number]): void {
  const known = layers.find(keyOf(state));
  if (!known) return void layers.add(state, { kept: true });
  const isStyled = JSON.stringify(known.style) !== JSON.stringify(state.style);
  Object.assign(known, { visible: state.visible, opacity: state.opacity, side: state.side, kept: true });
  if (isStyled) layers.restyle(known.key, state.style);
}

async function itemOf(wanted: Chosen): Promise<Item> {
  return list.items.find((item) => isOne(item, wanted)) ?? (await readOne(wanted.collection, wanted.id));
}

// Something may have been published: the list, and what is shown of it, are read again.
let refreshing = false;
async function refresh(): Promise<void> {
  if (refreshing || !steady) return;
  refreshing = true;
  try {
    await list.read({ quiet: true });
    for (const layer of layers.all.filter((one) => one.revision === null && one.item)) {
      const now = list.items.find((item) => isOne(item, layer)) ?? (await readOne(layer.collection, layer.id));
      if (hrefs(now) === hrefs(layer.item!)) continue;
      drawn.delete(layer.key);
      layers.redraw(layer, now);
      if (chosen && isOne(now, chosen)) facts.show((chosen = now));
    }
  } catch (error) {
    // What was withdrawn is shown no more; if the API does not answer, the next time will tell.
    if (error instanceof Refused && error.status === 404) layers.all.filter((layer) => !list.items.some((item) => isOne(item, layer))).forEach(remove);
  } finally {
    refreshing = false;
  }
}

const hrefs = (item: Item): string => JSON.stringify([item.properties.created, item.properties.updated, item.properties.renders, item.assets.map(([, asset]) => asset.href)]);

find("#close").addEventListener("click", () => leave());
find("#keep").addEventListener("click", () => {
  if (!chosen) return;
  layers.set(keyOf(chosen), { kept: true });
  tabs.show("layers");
  panel.edit(keyOf(chosen));
  write(true);
});
compare.addEventListener("click", () => {
  if (split === null) startCompare();
  else {
    setSplit(null);
    write(true);
  }
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || find<HTMLDialogElement>("#dialog").open) return;
  if (closePopup()) return;
  if (chosen) leave();
});
document.body.addEventListener("changed", () => void refresh());
addEventListener("popstate", () => void follow());

list.terms = first;
await list.read();
const extent = first.view ? null : boxOf(list.items);
if (extent) view.place(extent);
browse.dataset.placed = "";
void list.readCollections().catch(() => undefined);
await follow();
if (base.kind === "own" && base.problem) list.say(base.problem, { wrong: true });
