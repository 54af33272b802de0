// The layers that are shown, the topmost first: one for the chosen item while it is chosen, and those that were kept.
import { keyOf, type LayerState, type Side, type Style } from "../address.js";
import { readOne, readRevision, type Item } from "../catalog.js";
import { describe, type Drawing } from "./drawing.js";

export interface Layer extends LayerState {
  key: string;
  kept: boolean;
  item: Item | null;
  colour: string;
  drawing: Drawing | null;
  problem: string;
  version: number; // of the style, so that an answer that comes too late is not taken
}

const COLOURS = ["#b4400f", "#6b3fa0", "#0a6f3c", "#a3195b", "#1d5fb4", "#7a5c00"];

export class Layers {
  all: Layer[] = [];

  constructor(private readonly changed: () => void) {}

  find(key: string): Layer | null {
    return this.all.find((layer) => layer.key === key) ?? null;
  }

  // Put a layer on top; one that is there stays where it is.
  add(state: Partial<LayerState> & { collection: string; id: string }, { kept = false, item = null as Item | null, under = null as string | null } = {}): Layer {
    const whole: LayerState = { revision: null, visible: true, opacity: 1, side: "both", style: {}, ...state };
    const key = keyOf(whole);
    const known = this.find(key);
    if (known) {
      known.kept ||= kept;
      this.changed();
      return known;
    }
    const used = new Set(this.all.map((layer) => layer.colour));
    const colour = whole.style.colour ?? COLOURS.find((one) => !used.has(one)) ?? COLOURS[0]!;
    const layer: Layer = { ...whole, key, kept, item, colour, drawing: null, problem: "", version: 0 };
    const place = under ? this.all.findIndex((other) => other.key === under) + 1 : 0;
    this.all.splice(place, 0, layer);
    void this.draw(layer);
    return layer;
  }

  remove(key: string): void {
    this.all = this.all.filter((layer) => layer.key !== key);
    this.changed();
  }

  // The chosen item's layer leaves with the choice, unless it was kept.
  removePassing(except: string | null = null): void {
    this.all = this.all.filter((layer) => layer.kept || layer.key === except);
    this.changed();
  }

  move(key: string, by: number): void {
    const from = this.all.findIndex((layer) => layer.key === key);
    const to = from + by;
    if (from < 0 || to < 0 || to >= this.all.length) return;
    this.all.splice(to, 0, ...this.all.splice(from, 1));
    this.changed();
  }

  set(key: string, given: Partial<Pick<Layer, "visible" | "opacity" | "side" | "kept">>): void {
    const layer = this.find(key);
    if (!layer) return;
    Object.assign(layer, given);
    this.changed();
  }

  restyle(key: string, style: Style): void {
    const layer = this.find(key);
    if (!layer) return;
    layer.style = Object.fromEntries(Object.entries(style).filter(([, value]) => value !== undefined && value !== ""));
    layer.colour = style.colour ?? layer.colour;
    layer.kept = true; // a style is no passing thing
    void this.draw(layer);
  }

  // Read again what is shown: it was published again.
  redraw(layer: Layer, item: Item | null = null): void {
    layer.item = item;
    void this.draw(layer);
  }

  isOn(side: Side): Layer[] {
    return this.all.filter((layer) => layer.visible && (side === "both" || layer.side === "both" || layer.side === side));
  }

  private async draw(layer: Layer): Promise<void> {
    layer.version += 1;
    const { version } = layer;
    this.changed();
    try {
      layer.item ??= await (layer.revision === null ? readOne(layer.collection, layer.id) : readRevision(layer.collection, layer.id, layer.revision));
      if (!layer.item.rasters.length && !layer.item.layer) throw new Error("This item has no raster or layer to draw.");
      const drawing = await describe(layer.item, layer, layer.colour);
      if (layer.version !== version) return;
      layer.drawing = drawing;
      layer.problem = "";
    } catch (error) {
      if (layer.version !== version) return;
      layer.drawing = null;
      layer.problem = (error as Error).message;
    }
    this.changed();
  }
}

// What of a layer an address holds: not the chosen item's, as long as it is as it came.
export const isPlain = (layer: Layer): boolean => !layer.kept && layer.visible && layer.opacity === 1 && layer.side === "both" && Object.keys(layer.style).length === 0;

export const titleOf = (layer: Layer): string => `${layer.item?.title ?? layer.id}${layer.revision === null ? "" : `, revision ${layer.revision}`}`;
