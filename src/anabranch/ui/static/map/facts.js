// What is known of the chosen item, and its files.
import { day, itemPath } from "./items.js";

const panel = document.querySelector("#facts");
const state = document.querySelector("#state");

export function show(item) {
  panel.querySelector("h2").textContent = item.title;
  panel.querySelector("dl").replaceChildren(...factsOf(item).flatMap(([name, value]) => [cell("dt", name), cell("dd", value)]));
  document.querySelector("#files").replaceChildren(...item.assets.filter(([, asset]) => isOurs(asset.href)).map(file));
  const whole = document.querySelector("#document");
  whole.dataset.name = `${item.id}.json`;
  whole.href = itemPath(item.collection, item.id);
  document.querySelector("#fade").hidden = true;
  panel.hidden = false;
  panel.scrollTop = 0;
}

export function hide() {
  panel.hidden = true;
}

export function say(text, wrong = false) {
  state.textContent = text;
  state.className = wrong ? "wrong" : "";
  document.querySelector("#fade").hidden = Boolean(text);
}

function factsOf(item) {
  const [, asset] = item.raster ?? [null, {}];
  const { properties } = item;
  const bands = asset.bands ?? asset["raster:bands"] ?? [];
  const shape = asset["proj:shape"] ?? properties["proj:shape"];
  return [
    ["Collection", item.collection],
    ["Id", item.id],
    ["Date", item.when],
    ["Published", properties.created && day(properties.created)],
    ["Coordinates", asset["proj:code"] ?? properties["proj:code"]],
    ["Pixels", shape && `${shape[1]} × ${shape[0]}`],
    ["Bands", bands.length && `${bands.length} × ${bands[0].data_type ?? asset.data_type ?? "?"}`],
    ["Features", properties["table:row_count"]?.toLocaleString("en")],
    ["Geometry", item.layer && properties["anabranch:geometry_type"]],
    ["Columns", properties["table:columns"]?.length],
    ["Bounds", item.bbox?.map((number) => number.toFixed(3)).join(", ")],
  ].filter(([, value]) => value);
}

function cell(kind, text) {
  const element = document.createElement(kind);
  element.textContent = text;
  return element;
}

function file([name, asset]) {
  const link = document.createElement("a");
  link.href = new URL(asset.href).pathname;
  link.textContent = asset.title ?? decodeURIComponent(link.pathname.split("/").pop());
  link.title = name;
  link.download = "";
  link.dataset.keyed = "";
  link.dataset.size = asset["file:size"] ?? 0;
  const line = document.createElement("li");
  line.append(link);
  if (asset["file:size"]) {
    const size = document.createElement("small");
    size.textContent = ` ${bytes(asset["file:size"])}`;
    line.append(size);
  }
  return line;
}

// Only files of this API are offered: a link of an item from elsewhere may lead anywhere.
function isOurs(href) {
  const url = new URL(href, location.href);
  return url.host === location.host && url.pathname.includes("/files/");
}

function bytes(size) {
  const units = ["bytes", "kB", "MB", "GB", "TB"];
  const power = Math.min(Math.floor(Math.log10(Math.max(size, 1)) / 3), units.length - 1);
  return `${(size / 1000 ** power).toFixed(power ? 1 : 0)} ${units[power]}`;
}
