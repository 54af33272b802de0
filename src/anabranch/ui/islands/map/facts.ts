// What is known of the chosen item: its facts, its files, its revisions, and how other programs use it.
import { refreshTimes } from "../times.js";
import { at, day, fetchJson, itemUrl, type Asset, type Item } from "./catalog.js";
import { facts, find, make, spellBytes, type Child } from "./dom.js";
import { showElsewhere } from "./elsewhere.js";
import type { Layer } from "./layers/layers.js";

const panel = find("#facts");
const state = find("#state");
const revisions = find<HTMLDetailsElement>("#revisions");
const history = find("#history");

interface Publication { number: number; action: string; actor: string; reason: string | null; at: string; shows: number | null; current: boolean; available: boolean }

export class Facts {
  private item: Item | null = null;

  constructor(private readonly compare: (item: Item, revision: number) => void) {
    revisions.addEventListener("toggle", () => revisions.open && void this.readRevisions());
  }

  show(item: Item): void {
    const isOther = this.item?.id !== item.id || this.item.collection !== item.collection;
    this.item = item;
    panel.querySelector("h2")!.textContent = item.title;
    find("#about").replaceChildren(...facts(factsOf(item)).children);
    find("#files").replaceChildren(...item.assets.filter(([, asset]) => isOurs(asset.href)).map(file));
    const whole = find<HTMLAnchorElement>("#document");
    whole.dataset.name = `${item.id}.json`;
    whole.href = itemUrl(item.collection, item.id);
    panel.hidden = false;
    refreshTimes();
    if (!isOther) return;
    revisions.open = false;
    history.replaceChildren();
    panel.scrollTop = 0;
  }

  // How far the layer of the item is drawn.
  showState(layer: Layer | null, isDrawn: boolean, problem = ""): void {
    const text = problem || layer?.problem || (isDrawn ? "" : layer?.drawing ? "Loading its tiles …" : "Loading …");
    state.textContent = text;
    state.className = problem || layer?.problem ? "wrong" : "";
    find("#keep").textContent = layer?.kept ? "Show among the layers" : "Keep as a layer";
    if (this.item) showElsewhere(this.item, layer?.drawing ?? null);
  }

  hide(): void {
    this.item = null;
    panel.hidden = true;
  }

  private async readRevisions(): Promise<void> {
    const { item } = this;
    if (!item) return;
    history.replaceChildren(make("li", { class: "quiet" }, "Loading …"));
    try {
      const found = await fetchJson(at(`api/items/${encodeURIComponent(item.collection)}/${encodeURIComponent(item.id)}/publications?limit=100`));
      if (this.item === item) history.replaceChildren(...found.items.map((one: Publication) => this.revision(item, one)));
      refreshTimes();
    } catch (error) {
      history.replaceChildren(make("li", { class: "wrong" }, (error as Error).message));
    }
  }

  private revision(item: Item, one: Publication): HTMLElement {
    const canCompare = !one.current && one.available && one.shows === one.number && !item.layer && item.rasters.length > 0;
    return make("li", {}, make("strong", {}, `${one.number}: ${one.action}`), " ", timeOf(one.at), one.current && " (current)",
      make("small", {}, [` by ${one.actor}`, one.reason].filter(Boolean).join(": ")),
      canCompare && make("button", { type: "button", click: () => this.compare(item, one.number) }, `Compare with revision ${one.number}`));
  }
}

export const timeOf = (moment: string): HTMLElement => make("time", { datetime: moment, title: moment.replace("T", " ").replace(/(\.\d+)?(Z|\+00:00)$/, " UTC") }, day(moment));

function factsOf(item: Item): [string, Child][] {
  const { properties } = item;
  const asset = item.rasters[0]?.[1];
  const bands = asset?.bands ?? asset?.["raster:bands"] ?? [];
  const shape = asset?.["proj:shape"] ?? properties["proj:shape"];
  return [
    ["Collection", item.collection],
    ["Id", item.id],
    ["Date", item.when],
    ["Published", properties.created && timeOf(properties.created)],
    ["About", properties.description],
    ["Coordinates", asset?.["proj:code"] ?? properties["proj:code"]],
    ["Pixels", shape && `${shape[1]} × ${shape[0]}`],
    ["Bands", bands.length && `${bands.length} × ${bands[0].data_type ?? asset?.data_type ?? "?"}`],
    ["Features", properties["table:row_count"]?.toLocaleString("en")],
    ["Geometry", item.layer && properties["anabranch:geometry_type"]],
    ["Columns", properties["table:columns"]?.length],
    ["Bounds", item.bbox?.map((degrees) => degrees.toFixed(3)).join(", ")],
  ];
}

function file([name, asset]: [string, Asset]): HTMLElement {
  const address = new URL(asset.href);
  const link = make("a", { href: address.pathname, title: name, download: "", "data-keyed": "", "data-size": asset["file:size"] ?? 0 }, asset.title ?? decodeURIComponent(address.pathname.split("/").pop() ?? ""));
  return make("li", {}, link, asset["file:size"] && make("small", {}, ` ${spellBytes(asset["file:size"])}`));
}

// Only files of this API are offered: a link of an item from elsewhere may lead anywhere.
export function isOurs(href: string): boolean {
  const url = new URL(href, location.href);
  return url.host === location.host && url.pathname.includes("/files/");
}
