// What is known of one feature, as text only: a value may hold anything.
import { Popup } from "../vendor/maplibre-gl.mjs";

const MOST = 40;
const LONGEST = 200;

export function popupOf(feature) {
  const values = Object.entries(feature.properties);
  const list = document.createElement("dl");
  list.append(...values.slice(0, MOST).flatMap(([name, value]) => [cell("dt", name), cell("dd", cut(String(value)))]));
  if (values.length > MOST) list.append(cell("dt", "…"), cell("dd", `${values.length - MOST} more`));
  const whole = document.createElement("div");
  whole.append(cell("h3", `Feature ${feature.id}`), list);
  return new Popup({ maxWidth: "22rem" }).setDOMContent(whole);
}

function cell(kind, text) {
  const element = document.createElement(kind);
  element.textContent = text;
  return element;
}

const cut = (text) => (text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text);
