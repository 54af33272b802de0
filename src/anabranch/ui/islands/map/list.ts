// The search and the list of what it found.
import { fold, type Box } from "./boxes.js";
import { readCollections, readPage, search, type Item, type Page, type Query } from "./catalog.js";
import { find, make } from "./dom.js";
import { thumbOf } from "./thumbs.js";

const TYPING = 350; // milliseconds without a key until a search begins
const form = find<HTMLFormElement>("#search");
const list = find("#items");
const message = find("#message");
const more = find<HTMLButtonElement>("#more");
const count = find("#count");
const field = {
  text: find<HTMLInputElement>("#search-text"),
  collection: find<HTMLSelectElement>("#search-collection"),
  from: find<HTMLInputElement>("#search-from"),
  to: find<HTMLInputElement>("#search-to"),
  inView: find<HTMLInputElement>("#search-here"),
};

export interface Terms { text: string; collection: string; from: string; to: string; inView: boolean }

export class List {
  items: Item[] = [];
  private next: string | null = null;
  private matched: number | null = null;
  private asked: AbortController | null = null;
  private timer = 0;
  private current: Item | null = null;

  constructor(private readonly box: () => Box, private readonly on: { choose(item: Item): void; listed(items: Item[]): void; searched(): void }) {
    form.addEventListener("submit", (event) => { event.preventDefault(); this.begin(0); });
    form.addEventListener("input", (event) => this.begin(event.target === field.text ? TYPING : 0));
    form.addEventListener("reset", () => setTimeout(() => this.begin(0)));
    more.addEventListener("click", () => void this.readMore());
    list.addEventListener("keydown", (event) => this.step(event));
  }

  get terms(): Terms {
    return { text: field.text.value, collection: field.collection.value, from: field.from.value, to: field.to.value, inView: field.inView.checked };
  }

  set terms(given: Terms) {
    field.text.value = given.text;
    if (given.collection && ![...field.collection.options].some((option) => option.value === given.collection)) field.collection.append(make("option", { value: given.collection }, given.collection));
    field.collection.value = given.collection;
    field.from.value = given.from;
    field.to.value = given.to;
    field.inView.checked = given.inView;
  }

  async readCollections(): Promise<void> {
    const { collection: chosen } = this.terms;
    const found = await readCollections();
    field.collection.replaceChildren(make("option", { value: "" }, "All collections"), ...found.map(({ id, title }) => make("option", { value: id }, title)));
    this.terms = { ...this.terms, collection: chosen };
  }

  // The map was moved: what is in view is another search.
  moved(): void {
    if (field.inView.checked) this.begin(TYPING);
  }

  begin(wait: number): void {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => { this.on.searched(); void this.read(); }, wait);
  }

  // Search again, from the start; quietly where the page does so by itself.
  async read({ quiet = false } = {}): Promise<void> {
    this.asked?.abort();
    const { signal } = (this.asked = new AbortController());
    if (!quiet) list.setAttribute("aria-busy", "true");
    try {
      const page = await search(this.query(), signal);
      if (signal.aborted) return;
      if (quiet && this.isSame(page)) return;
      this.matched = page.matched;
      if (quiet && this.items.length > page.items.length && this.next) this.fill([...page.items, ...this.items.slice(page.items.length).filter((old) => !page.items.some((one) => isOne(one, old)))]);
      else {
        this.next = page.next;
        this.fill(page.items);
      }
    } catch (error) {
      if (!signal.aborted && !quiet) this.say((error as Error).message, { wrong: true });
    } finally {
      if (!signal.aborted) list.removeAttribute("aria-busy");
    }
  }

  private async readMore(): Promise<void> {
    if (!this.next) return;
    more.disabled = true;
    try {
      const page = await readPage(this.next);
      this.next = page.next;
      this.matched = page.matched ?? this.matched;
      this.fill([...this.items, ...page.items.filter((one) => !this.items.some((old) => isOne(one, old)))]);
    } catch (error) {
      this.say((error as Error).message, { wrong: true });
    } finally {
      more.disabled = false;
    }
  }

  mark(item: Item | null): void {
    this.current = item;
    for (const button of list.querySelectorAll("button")) button.removeAttribute("aria-current");
    const button = this.buttonOf(item);
    button?.setAttribute("aria-current", "true");
    button?.scrollIntoView({ block: "nearest" });
  }

  focus(item: Item | null): void {
    this.buttonOf(item)?.focus();
  }

  indexOf(item: Item | null): number {
    return item ? this.items.findIndex((one) => isOne(one, item)) : -1;
  }

  say(text: string, { wrong = false, code = "" } = {}): void {
    message.hidden = !text;
    message.className = wrong ? "wrong" : "";
    message.replaceChildren(text, ...(code ? [make("code", {}, code)] : []));
  }

  private query(): Query {
    const { inView, ...terms } = this.terms;
    return { ...terms, box: inView ? clip(this.box()) : null };
  }

  private fill(items: Item[]): void {
    const focused = document.activeElement?.closest("#items li")?.getAttribute("data-key");
    this.items = items;
    list.replaceChildren(...items.map((item) => this.entry(item)));
    more.hidden = !this.next;
    if (items.length) this.say("");
    else if (form.matches(":has(:user-valid)") || this.isNarrowed()) this.say("Nothing matches. Search for less, another time, or all collections.");
    else this.say("Nothing is published yet. Send a raster, and publish it:", { code: "anabranch run process_raster -p source=@scene.tif" });
    count.textContent = this.counted();
    this.mark(this.current);
    if (focused) list.querySelector<HTMLElement>(`li[data-key="${CSS.escape(focused)}"] button`)?.focus();
    this.on.listed(items);
  }

  private isNarrowed(): boolean {
    return Object.values(this.terms).some(Boolean);
  }

  private counted(): string {
    const shown = this.items.length;
    const all = this.next ? this.matched : shown;
    if (!shown) return "";
    return all === null || all > shown ? `${shown} of ${all ?? "many"} items` : `${all} ${all === 1 ? "item" : "items"}`;
  }

  private isSame(page: Page): boolean {
    const told = (items: Item[]): string => JSON.stringify(items.map((item) => [item.collection, item.id, item.properties.created, item.properties.updated, item.assets.map(([, asset]) => asset.href)]));
    return page.matched === this.matched && told(page.items) === told(this.items.slice(0, page.items.length)) && (page.items.length > 0 || this.items.length === 0);
  }

  private entry(item: Item): HTMLElement {
    const text = make("span", { class: "words" }, make("strong", {}, item.title), make("span", {}, [item.collection, item.when].filter(Boolean).join(" · ")));
    const button = make("button", { type: "button", "data-row": true, click: () => this.on.choose(item) }, thumbOf(item), text);
    return make("li", { "data-key": `${item.collection}/${item.id}` }, button);
  }

  private buttonOf(item: Item | null): HTMLElement | null {
    return item ? list.querySelector<HTMLElement>(`li[data-key="${CSS.escape(`${item.collection}/${item.id}`)}"] button`) : null;
  }

  private step(event: KeyboardEvent): void {
    if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
    const line = document.activeElement?.closest("li");
    const other = (event.key === "ArrowDown" ? line?.nextElementSibling : line?.previousElementSibling)?.querySelector("button");
    if (!other) return;
    event.preventDefault();
    other.focus();
  }
}

export const isOne = (one: { collection: string; id: string }, other: { collection: string; id: string } | null): boolean => one.collection === other?.collection && one.id === other.id;

// What the map shows, as a search takes it.
function clip([west, south, east, north]: Box): Box {
  const [low, high] = [Math.max(south, -90), Math.min(north, 90)];
  return east - west >= 360 ? [-180, low, 180, high] : [fold(west), low, fold(east), high];
}
