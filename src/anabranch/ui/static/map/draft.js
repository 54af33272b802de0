// What would be published, before it is: a map of the drafts with their tiles, and their pictures.
import { fetchKeyed, root } from "../key.js";
import { WorldMap } from "./map.js";

const MAX_VECTOR_ZOOM = 14;

for (const element of document.querySelectorAll("draft-map:not([data-drawn])")) void draw(element);
for (const image of document.querySelectorAll("img[data-keyed-src]")) void fill(image);

async function draw(element) {
  element.dataset.drawn = "";
  loadStyle();
  const drafts = [...element.querySelectorAll("[data-draft]")].map((one) => JSON.parse(one.dataset.draft));
  const note = document.createElement("p");
  note.className = "quiet";
  note.setAttribute("role", "status");
  const place = document.createElement("div");
  place.className = "draft-place";
  element.replaceChildren(...(drafts.length > 1 ? [chooser(drafts, (draft) => show(draft))] : []), place, note);
  const world = new WorldMap(place, (index) => void show(drafts[index]), () => {});
  await world.showFootprints(drafts);

  async function show(draft) {
    world.highlight(draft);
    world.flyTo(draft, 60);
    world.clearTiles();
    note.textContent = "Loading its tiles …";
    try {
      const tiles = await tilesOf(draft);
      if (!tiles) note.textContent = "It has no raster or layer to draw: the map shows where it is.";
      else world.showTiles(tiles, () => { note.textContent = ""; }, (text) => { note.textContent = text; });
    } catch (error) {
      note.textContent = error.message;
    }
  }
  await show(drafts[0]);
}

function loadStyle() {
  const style = document.createElement("link");
  style.rel = "stylesheet";
  style.href = new URL("../vendor/maplibre-gl.css", import.meta.url).href;
  document.head.append(style);
}

function chooser(drafts, onChoose) {
  const label = document.createElement("label");
  label.textContent = "Item ";
  const select = document.createElement("select");
  select.append(...drafts.map((draft, at) => new Option(draft.id, String(at))));
  select.addEventListener("change", () => onChoose(drafts[Number(select.value)]));
  label.append(select);
  return label;
}

async function tilesOf({ bbox, layer, links }) {
  if (links.vector_tiles) {
    const box = bbox ?? [-180, -90, 180, 90];
    return { tiles: [here(links.vector_tiles)], boxes: [box], minzoom: 0, maxzoom: MAX_VECTOR_ZOOM, layer };
  }
  if (!links.tilejson) return null;
  const answer = await fetchKeyed(new URL(links.tilejson, location.href).href + "?tilesize=256");
  const tilejson = await answer.json();
  if (!answer.ok) throw new Error(tilejson.detail ?? "Its tiles can't be shown.");
  return { tiles: tilejson.tiles.map(here), boxes: [tilejson.bounds], minzoom: Math.max(tilejson.minzoom - 2, 0), maxzoom: tilejson.maxzoom };
}

// An address of this page's origin, with the braces that the map fills in.
function here(tile) {
  return root.href.replace(/\/$/, "") + tile.slice(tile.search(/\/(raster\/previews|api\/jobs)\//));
}

async function fill(image) {
  const answer = await fetchKeyed(new URL(image.dataset.keyedSrc, location.href).href);
  delete image.dataset.keyedSrc;
  if (answer.ok) image.src = URL.createObjectURL(await answer.blob());
  else image.replaceWith(document.createTextNode("There is no picture of it."));
}
