// What the colours of the shown layers mean.
import { find, make, spellNumber } from "../dom.js";
import { titleOf, type Layer } from "./layers.js";
import type { Legend } from "./drawing.js";
import { coloursOf, isReversed, nameOf } from "./ramps.js";

const place = find<HTMLDetailsElement>("#legend");
const body = find("#legend-body");
place.open = matchMedia("(min-width: 46rem)").matches; // on a phone it would cover the map

export function showLegend(layers: Layer[]): void {
  const drawn = layers.filter((layer) => layer.drawing && layer.visible);
  place.hidden = drawn.length === 0;
  body.replaceChildren(...drawn.map((layer) => make("section", {}, make("h3", {}, titleOf(layer)), ...partsOf(layer.drawing!.legend))));
}

function partsOf(legend: Legend): HTMLElement[] {
  if (legend.ramp) return [rampOf(legend.ramp.name, legend.ramp.range)];
  if (legend.classes) return [make("ul", { class: "classes" }, ...legend.classes.map(({ colour, name }) => make("li", {}, swatch(colour), name)))];
  if (legend.bands) return [make("p", { class: "quiet" }, legend.bands.join(" · "))];
  return [make("ul", { class: "classes" }, make("li", {}, swatch(legend.colour ?? ""), WORDS[(legend.shape ?? "").replace("Multi", "")] ?? "Features"))];
}

const WORDS: Record<string, string> = { Point: "Points", LineString: "Lines", Polygon: "Areas" };

function rampOf(name: string, range: [number, number] | null): HTMLElement {
  const colours = coloursOf(name);
  const bar = make("div", { class: "ramp", role: "img", "aria-label": `Colour ramp ${nameOf(name)}${isReversed(name) ? ", reversed" : ""}` });
  if (colours.length) bar.style.background = `linear-gradient(to right, ${colours.join(", ")})`;
  else bar.textContent = name;
  const ends = (range ?? []).map((value) => make("span", {}, spellNumber(value)));
  return make("div", {}, bar, make("div", { class: "ends" }, ...ends));
}

export function swatch(colour: string): HTMLElement {
  const made = make("span", { class: "swatch", "aria-hidden": "true" });
  made.style.background = colour;
  return made;
}
