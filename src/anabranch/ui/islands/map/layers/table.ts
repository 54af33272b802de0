// The attributes of a layer's features, in pages; what is filtered here is filtered on the map.
import { at, fetchJson, here } from "../catalog.js";
import { find, make, pick, spellNumber } from "../dom.js";
import type { Box } from "../boxes.js";
import { titleOf, type Layer } from "./layers.js";

const PAGE = 50;
const LONGEST = 120;
const ID = "gid"; // the column of ids, which features have as their own
const place = find("#table");
const title = find("#table-title");
const state = find("#table-state");
const grid = find("#table-rows");
const form = find<HTMLFormElement>("#table-filter");
const [column, operator] = [find<HTMLSelectElement>("#table-column"), find<HTMLSelectElement>("#table-operator")];
const value = find<HTMLInputElement>("#table-value");
const [before, after] = [find<HTMLButtonElement>("#table-before"), find<HTMLButtonElement>("#table-after")];

interface Column { name: string; isNumber: boolean }
type Feature = GeoJSON.Feature & { bbox?: Box };
export interface TableActions {
  closed(): void;
  filter(layer: Layer, filter: string): void;
  show(geometry: GeoJSON.Geometry): void;
}

export class Table {
  layer: Layer | null = null;
  private columns: Column[] = [];
  private sort = "";
  private pages: string[] = [];
  private next: string | null = null;
  private read = 0;

  constructor(private readonly on: TableActions) {
    find("#table-close").addEventListener("click", () => this.close());
    before.addEventListener("click", () => { this.pages.pop(); void this.show(); });
    after.addEventListener("click", () => { if (this.next) { this.pages.push(this.next); void this.show(); } });
    form.addEventListener("submit", (event) => { event.preventDefault(); this.apply(this.filterOf()); });
    form.addEventListener("reset", () => this.apply(""));
    operator.addEventListener("change", () => { value.disabled = operator.value.includes("null"); });
    operator.replaceChildren(...pick([["=", "is"], ["<>", "is not"], [">", "is more than"], ["<", "is less than"], ["like", "contains"], ["is null", "is empty"], ["is not null", "is not empty"]], "=", {}).children);
    operator.value = "=";
  }

  async open(layer: Layer): Promise<void> {
    if (this.layer?.key === layer.key) return;
    this.layer = layer;
    this.sort = "";
    title.textContent = titleOf(layer);
    place.hidden = false;
    grid.replaceChildren();
    state.textContent = "Loading its features …";
    try {
      const found = await fetchJson(at(`${this.root()}/queryables`));
      const named = Object.entries(found.properties as Record<string, { type?: string; $ref?: string }>).filter(([name, schema]) => !schema.$ref && name !== ID);
      this.columns = named.map(([name, schema]) => ({ name, isNumber: schema.type === "number" || schema.type === "integer" }));
      column.replaceChildren(...this.columns.map(({ name }) => make("option", { value: name }, name)));
      this.restart();
    } catch (error) {
      this.fail(error as Error);
    }
  }

  close(): void {
    if (!this.layer) return;
    this.layer = null;
    place.hidden = true;
    this.on.closed();
  }

  private apply(filter: string): void {
    if (!this.layer) return;
    this.on.filter(this.layer, filter);
    this.restart();
  }

  private restart(): void {
    const given = new URLSearchParams({ limit: String(PAGE) });
    if (this.sort) given.set("sortby", this.sort);
    const filter = this.layer?.style.filter;
    if (filter) {
      given.set("filter", filter);
      given.set("filter-lang", "cql2-text");
    }
    this.pages = [at(`${this.root()}/items?${given}`)];
    void this.show();
  }

  private async show(): Promise<void> {
    this.read += 1;
    const { read } = this;
    grid.setAttribute("aria-busy", "true");
    try {
      const found = await fetchJson(this.pages.at(-1) ?? "");
      if (read !== this.read) return;
      const next = found.links.find((link: { rel: string }) => link.rel === "next");
      this.next = next ? here(next.href) : null;
      this.fill(found.features);
      const first = (this.pages.length - 1) * PAGE;
      const all = found.numberMatched === undefined ? "" : ` of ${spellNumber(found.numberMatched)}`;
      const shown = found.features.length ? `Features ${spellNumber(first + 1)} to ${spellNumber(first + found.features.length)}${all}` : "No feature matches. Reset the filter to see all.";
      state.className = "quiet";
      state.textContent = this.layer?.style.filter ? `${shown}, where ${this.layer.style.filter}` : shown;
    } catch (error) {
      if (read === this.read) this.fail(error as Error);
    } finally {
      grid.removeAttribute("aria-busy");
      before.disabled = this.pages.length < 2;
      after.disabled = !this.next;
    }
  }

  private fill(features: Feature[]): void {
    const head = make("tr", {}, make("th", { scope: "col" }, "Feature"), ...this.columns.map((one) => this.heading(one)));
    const rows = features.map((feature) => make("tr", {},
      make("td", {}, make("button", { type: "button", class: "sign", "data-row": true, title: "Show it on the map", disabled: !feature.geometry, click: () => this.on.show(feature.geometry) }, String(feature.id ?? "?"))),
      ...this.columns.map(({ name, isNumber }) => make("td", isNumber ? { class: "number" } : {}, written(feature.properties?.[name])))));
    grid.replaceChildren(make("table", {}, make("caption", { class: "unseen" }, title.textContent), make("thead", {}, head), make("tbody", {}, ...rows)));
    grid.scrollTop = 0;
  }

  private heading({ name, isNumber }: Column): HTMLElement {
    const way = this.sort === name ? "ascending" : this.sort === `-${name}` ? "descending" : "none";
    const sign = { ascending: " ↑", descending: " ↓", none: "" }[way];
    return make("th", { scope: "col", "aria-sort": way, class: isNumber ? "number" : null }, make("button", { type: "button", class: "sign", click: () => { this.sort = way === "ascending" ? `-${name}` : name; this.restart(); } }, `${name}${sign}`));
  }

  // The filter of the form in CQL2.
  private filterOf(): string {
    const name = `"${column.value.replaceAll('"', '""')}"`;
    if (operator.value.includes("null")) return `${name} ${operator.value}`;
    const isNumber = this.columns.find((one) => one.name === column.value)?.isNumber ?? false;
    if (operator.value === "like") return `casei(${name}) like casei('%${quoted(value.value.replace(/[\\%_]/g, "\\$&"))}%')`;
    return `${name} ${operator.value} ${isNumber && value.value.trim() !== "" && Number.isFinite(Number(value.value)) ? Number(value.value) : `'${quoted(value.value)}'`}`;
  }

  private fail(error: Error): void {
    state.className = "wrong";
    state.textContent = error.message;
  }

  private root = (): string => `features/collections/${encodeURIComponent(this.layer?.item?.layer ?? "")}`;
}

const quoted = (text: string): string => text.replaceAll("'", "''");

function written(given: unknown): string {
  if (given === null || given === undefined) return "–";
  if (typeof given === "number") return spellNumber(given);
  const text = typeof given === "object" ? JSON.stringify(given) : String(given);
  return text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text;
}
