// The page: a list of what is published, and a map of it. Every address is relative, so it works below any path.
import { readAddress, writeAddress } from "./address.js";
import { readItems, readNext, readOne } from "./items.js";
import { show as showFacts, hide as hideFacts, say } from "./facts.js";
import { WorldMap } from "./map.js";
import { tilesOf } from "./tiles.js";

const list = document.querySelector("#items");
const message = document.querySelector("#message");
const more = document.querySelector("#more");
const count = document.querySelector("#count");
const items = [];
let next = null;
let total = null;
let chosen = null;

const world = new WorldMap(document.querySelector("#map"), (index) => choose(items[index]), (view) => writeAddress(chosen, view));

function showMessage(text, { wrong = false, code = "" } = {}) {
  message.hidden = !text;
  message.className = wrong ? "wrong" : "";
  message.textContent = text;
  if (code) {
    const line = document.createElement("code");
    line.textContent = code;
    message.append(line);
  }
}

function entry(item) {
  const button = document.createElement("button");
  button.type = "button";
  const title = document.createElement("strong");
  title.textContent = item.title;
  const under = document.createElement("span");
  under.textContent = [item.collection, item.when].filter(Boolean).join(" · ");
  button.append(title, under);
  button.addEventListener("click", () => choose(item));
  const line = document.createElement("li");
  line.append(button);
  item.button = button;
  return line;
}

function add(page) {
  next = page.next;
  more.hidden = !next;
  const fresh = page.items.filter((item) => !find(item)); // one that the address names may be there already
  items.push(...fresh);
  list.append(...fresh.map(entry));
  total = page.matched ?? total;
  const all = next ? total : items.length;
  count.textContent = items.length ? (all === null || all > items.length ? `${items.length} of ${all ?? "many"} items` : `${all} ${all === 1 ? "item" : "items"}`) : "";
  world.showFootprints(items);
}

const find = ({ collection, id }) => items.find((item) => item.collection === collection && item.id === id);

async function load(read) {
  more.disabled = true;
  try {
    add(await read());
    if (items.length) showMessage("");
    else showMessage("Nothing is published yet. Send a raster, and publish it:", { code: "anabranch run process_raster -p source=@scene.tif" });
  } catch (error) {
    showMessage(error.message, { wrong: true });
  } finally {
    more.disabled = false;
  }
}

async function choose(item, view = null, { step = true } = {}) {
  if (!item) return;
  chosen?.button.removeAttribute("aria-current");
  chosen = item;
  item.button.setAttribute("aria-current", "true");
  item.button.scrollIntoView({ block: "nearest" });
  showFacts(item);
  writeAddress(item, view, { step });
  world.highlight(item);
  if (view) world.jumpTo(view);
  else world.flyTo(item);
  world.clearTiles();
  if (!item.raster && !item.layer) return say("This item has no raster or layer to draw.");
  say("Loading its tiles …");
  try {
    const tiles = await tilesOf(item);
    if (chosen !== item) return;
    world.showTiles(tiles, () => chosen === item && say(""), (text, status) => chosen === item && fail(item, text, status));
  } catch (error) {
    if (chosen === item) say(error.message, true);
  }
}

function fail(item, text, status) {
  if (status === 401) choose(item, world.view, { step: false }); // which asks for another key
  else say(text, true);
}

function leave({ step = true } = {}) {
  const button = chosen?.button;
  button?.removeAttribute("aria-current");
  chosen = null;
  writeAddress(null, world.view, { step });
  hideFacts();
  world.clearTiles();
  world.highlight(null);
  button?.focus();
}

// Show what the address names: at first, and after each step back or forward.
async function follow() {
  const { item, view } = readAddress();
  if (!item) {
    if (chosen) leave({ step: false });
    if (view) world.jumpTo(view);
    return;
  }
  try {
    if (!find(item)) add({ items: [await readOne(item)], next, matched: total });
    await choose(find(item), view, { step: false });
  } catch (error) {
    showMessage(error.message, { wrong: true });
  }
}

more.addEventListener("click", () => load(() => readNext(next)));
document.querySelector("#close").addEventListener("click", () => leave());
document.querySelector("#opacity").addEventListener("input", (event) => world.fade(event.target.valueAsNumber / 100));
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && chosen) leave();
  if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
  const at = items.findIndex((item) => item.button === document.activeElement);
  const other = items[at + (event.key === "ArrowDown" ? 1 : -1)];
  if (at >= 0 && other) {
    event.preventDefault();
    other.button.focus();
  }
});

addEventListener("popstate", follow);
await load(readItems);
await follow();
