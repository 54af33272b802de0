// The list of layers: their order, visibility, opacity, colours and side, all by keyboard too.
import type { Side, Style } from "../address.js";
import { find, make, pick } from "../dom.js";
import { titleOf, type Layer, type Layers } from "./layers.js";
import { swatch } from "./legend.js";
import { isReversed, nameOf, rampOf, RAMPS } from "./ramps.js";

const place = find("#layers");
const none = find("#no-layers");
const number = find("#layer-count");

export interface PanelActions {
  open(layer: Layer): void;
  fly(layer: Layer): void;
  table(layer: Layer): void;
  remove(layer: Layer): void;
}

export class Panel {
  private drawn = "";
  private isTyping = false;
  private isSplit = false;

  constructor(private readonly layers: Layers, private readonly on: PanelActions) {
    place.addEventListener("input", (event) => { this.isTyping = (event.target as HTMLInputElement).type === "number"; });
    place.addEventListener("change", () => { this.isTyping = false; }, { capture: true });
    place.addEventListener("focusout", () => {
      if (!this.isTyping) return;
      this.isTyping = false;
      this.show(this.isSplit);
    });
    place.addEventListener("keydown", (event) => {
      const row = (event.target as Element).closest<HTMLElement>("li[data-key]");
      if (!event.altKey || !row || (event.key !== "ArrowUp" && event.key !== "ArrowDown")) return;
      event.preventDefault();
      this.layers.move(row.dataset.key ?? "", event.key === "ArrowUp" ? -1 : 1);
    });
  }

  show(isSplit: boolean): void {
    none.hidden = this.layers.all.length > 0;
    number.textContent = String(this.layers.all.length);
    this.isSplit = isSplit;
    if (this.isTyping) return; // what was typed would be lost
    // What only moves a slider is not drawn again: the slider would lose the pointer.
    const told = JSON.stringify([isSplit, this.layers.all.map(({ key, kept, visible, side, problem, drawing, style, colour, item }) => [key, kept, visible, side, problem, drawing?.style, drawing?.bands, style, colour, item?.title])]);
    if (told === this.drawn) return;
    this.drawn = told;
    const focused = document.activeElement?.getAttribute("data-focus");
    const open = new Set([...place.querySelectorAll<HTMLElement>("li:has(details[open])")].map((row) => row.dataset.key));
    place.replaceChildren(...this.layers.all.map((layer, index) => this.row(layer, index, isSplit, open.has(layer.key))));
    if (focused) this.focus(focused);
  }

  // Open the style of a layer, and go there.
  edit(key: string): void {
    const row = place.querySelector<HTMLElement>(`li[data-key="${CSS.escape(key)}"]`);
    const style = row?.querySelector("details");
    if (style) style.open = true;
    (style?.querySelector("summary") ?? row?.querySelector("button"))?.focus();
  }

  private focus(name: string): void {
    const found = place.querySelector<HTMLElement>(`[data-focus="${CSS.escape(name)}"]:not(:disabled)`);
    const row = place.querySelector<HTMLElement>(`li[data-key="${CSS.escape(name.split(" ")[0] ?? "")}"]`);
    (found ?? row?.querySelector("button"))?.focus();
  }

  private row(layer: Layer, index: number, isSplit: boolean, isOpen: boolean): HTMLElement {
    const { key } = layer;
    const title = titleOf(layer);
    const act = (name: string, sign: string, label: string, click: () => void, disabled = false): HTMLElement =>
      make("button", { type: "button", class: "sign", title: label, "aria-label": `${label}: ${title}`, "data-focus": `${key} ${name}`, disabled, click }, sign);
    const see = make("input", { type: "checkbox", "aria-label": `Show ${title}`, checked: layer.visible, "data-focus": `${key} see`, change: (event) => this.layers.set(key, { visible: (event.target as HTMLInputElement).checked }) });
    const opacity = make("input", { type: "range", min: 0, max: 100, value: Math.round(layer.opacity * 100), "data-focus": `${key} opacity`, input: (event) => this.layers.set(key, { opacity: (event.target as HTMLInputElement).valueAsNumber / 100 }) });
    return make("li", { "data-key": key, "data-layer": title },
      make("div", { class: "top" }, see, make("button", { type: "button", class: "name", "data-focus": `${key} name`, click: () => this.on.open(layer) }, layer.drawing?.kind === "vector" && swatch(layer.colour), title),
        act("up", "↑", "Move up", () => this.layers.move(key, -1), index === 0),
        act("down", "↓", "Move down", () => this.layers.move(key, 1), index === this.layers.all.length - 1),
        act("remove", "×", "Remove", () => this.on.remove(layer))),
      layer.problem && make("p", { class: "wrong", role: "status" }, `✕ ${layer.problem}`),
      make("label", { class: "line" }, "Opacity ", opacity),
      isSplit && make("label", { class: "line" }, "Side ", pick([["both", "Both"], ["left", "Left"], ["right", "Right"]], layer.side, { "data-focus": `${key} side`, change: (event) => this.layers.set(key, { side: (event.target as HTMLSelectElement).value as Side }) })),
      make("p", { class: "actions" },
        act("fly", "Zoom to", "Zoom to", () => this.on.fly(layer)),
        layer.drawing?.kind === "vector" && act("table", "Table", "Attribute table", () => this.on.table(layer)),
        !layer.kept && act("keep", "Keep", "Keep when another item is chosen", () => this.layers.set(key, { kept: true }))),
      layer.drawing && this.style(layer, isOpen));
  }

  private style(layer: Layer, isOpen: boolean): HTMLElement {
    const drawing = layer.drawing!;
    const change = (given: Partial<Style>): void => this.layers.restyle(layer.key, { ...layer.style, ...given });
    const fields = drawing.kind === "vector" ? [this.colour(layer, change)] : this.raster(layer, change);
    const reset = make("button", { type: "button", "data-focus": `${layer.key} reset`, disabled: Object.keys(layer.style).length === 0, click: () => this.layers.restyle(layer.key, {}) }, "Reset");
    return make("details", { open: isOpen }, make("summary", { "data-focus": `${layer.key} style` }, "Style"), make("div", { class: "style" }, ...fields, reset));
  }

  private colour(layer: Layer, change: (given: Partial<Style>) => void): HTMLElement {
    return make("label", { class: "line" }, "Colour ", make("input", { type: "color", value: layer.colour, "data-focus": `${layer.key} colour`, change: (event) => change({ colour: (event.target as HTMLInputElement).value }) }));
  }

  private raster(layer: Layer, change: (given: Partial<Style>) => void): HTMLElement[] {
    const { bands } = layer.drawing!;
    // What was chosen is drawn a moment later.
    const choice = (): Style => ({ ...layer.drawing?.style, ...layer.style });
    const style = choice();
    const rasters = layer.item?.rasters ?? [];
    const chosen = style.bands ?? [1];
    const isColour = chosen.length > 1;
    const named = (name: string): string => `${layer.key} ${name}`;
    const fields: HTMLElement[] = [];
    const valueOf = (event: Event): string => (event.target as HTMLSelectElement).value;
    if (rasters.length > 1) fields.push(make("label", { class: "line" }, "Raster ", pick(rasters.map(([name, asset]) => [name, asset.title ?? name]), style.asset ?? "", { "data-focus": named("asset"), change: (event) => this.layers.restyle(layer.key, { asset: valueOf(event) }) })));
    const options = bands.map((band) => [String(band.number), `${band.number}: ${band.name}`] as [string, string]);
    if (bands.length > 1) {
      const modes: [string, string][] = [...(bands.length > 2 ? [["colour", "Three bands as colours"] as [string, string]] : []), ...options.map(([value, text]) => [value, `Band ${text}`] as [string, string])];
      fields.push(make("label", { class: "line" }, "Bands ", pick(modes, isColour ? "colour" : String(chosen[0]), { "data-focus": named("bands"), change: (event) => change(valueOf(event) === "colour" ? { bands: [1, 2, 3], ramp: undefined, range: undefined } : { bands: [Number(valueOf(event))], range: undefined }) })));
    }
    if (isColour) {
      for (const [at, name] of ["Red", "Green", "Blue"].entries()) {
        fields.push(make("label", { class: "line" }, `${name} `, pick(options, String(chosen[at] ?? 1), { "data-focus": named(name), change: (event) => change({ bands: chosen.map((band, place) => (place === at ? Number(valueOf(event)) : band)) }) })));
      }
    } else {
      const ramp = style.ramp ?? "";
      const names = Object.keys(RAMPS);
      if (ramp && !names.includes(nameOf(ramp))) names.unshift(nameOf(ramp));
      fields.push(make("label", { class: "line" }, "Colour ramp ", pick([...(ramp ? [] : [["", "Of the file"] as [string, string]]), ...names.map((name) => [name, name] as [string, string])], nameOf(ramp), { "data-focus": named("ramp"), change: (event) => change({ range: choice().range, ramp: rampOf(valueOf(event), isReversed(ramp)) }) })));
      if (ramp) fields.push(make("label", { class: "line" }, make("input", { type: "checkbox", checked: isReversed(ramp), "data-focus": named("reversed"), change: (event) => change({ range: choice().range, ramp: rampOf(nameOf(ramp), (event.target as HTMLInputElement).checked) }) }), " Reversed"));
    }
    const setRange = (): void => {
      const [low, high] = [lowest.valueAsNumber, highest.valueAsNumber];
      const isRange = Number.isFinite(low) && Number.isFinite(high) && low < high;
      highest.setCustomValidity(isRange ? "" : "The lowest value must be below the highest.");
      if (isRange) change({ range: [low, high], ...(isColour ? { bands: chosen } : { ramp: choice().ramp ?? "gray" }) });
      else highest.reportValidity();
    };
    const lowest = make("input", { type: "number", step: "any", value: style.range?.[0] ?? "", "data-focus": named("low"), change: setRange });
    const highest = make("input", { type: "number", step: "any", value: style.range?.[1] ?? "", "data-focus": named("high"), change: setRange });
    fields.push(make("div", { class: "range" }, make("label", {}, "Lowest ", lowest), make("label", {}, "Highest ", highest)));
    return fields;
  }
}
