// What would be published, before it is: a map of the drafts with their tiles, and their pictures.
import { fetchKeyed, root } from "../key.js";
import { readBasemap } from "./base.js";
import type { Box } from "./boxes.js";
import { fetchJson } from "./catalog.js";
import { make } from "./dom.js";
import { MapView, type Drawn } from "./view.js";

interface Draft { id: string; bbox: Box | null; geometry: GeoJSON.Geometry | null; layer: string; links: { tilejson?: string; vector_tiles?: string } }

const MAX_VECTOR_ZOOM = 14;
const COLOUR = "#b4400f";
const WORLD: Box = [-180, -90, 180, 90];
const MAX_ZOOM = 16;

for (const element of document.querySelectorAll<HTMLElement>("draft-map:not([data-drawn])")) void draw(element);
for (const image of document.querySelectorAll<HTMLImageElement>("img[data-keyed-src]")) void fill(image);

async function draw(element: HTMLElement): Promise<void> {
  element.dataset.drawn = "";
  document.head.append(make("link", { rel: "stylesheet", href: new URL("../vendor/maplibre-gl.css", import.meta.url).href }));
  const drafts = [...element.querySelectorAll<HTMLElement>("[data-draft]")].map((one) => JSON.parse(one.dataset.draft ?? "") as Draft);
  const note = make("p", { class: "quiet", role: "status" });
  const place = make("div", { class: "draft-place" });
  const choice = make("select", { change: () => void show(Number(choice.value)) }, ...drafts.map((draft, at) => make("option", { value: at }, draft.id)));
  element.replaceChildren(...(drafts.length > 1 ? [make("label", {}, "Item ", choice)] : []), place, note);
  const view = new MapView(place, await readBasemap(element), { loaded: () => { note.textContent = ""; }, failed: (_, text) => { note.textContent = text; } });
  if (drafts.length) await Promise.all([view.showFootprints(drafts), show(0)]);

  async function show(at: number): Promise<void> {
    const draft = drafts[at]!;
    note.textContent = "Loading its tiles …";
    try {
      if (draft.bbox) view.place(draft.bbox, MAX_ZOOM);
      const drawing = await describe(draft);
      await view.highlight(at, drawing !== null);
      await view.showLayers([{ key: draft.id, colour: COLOUR, opacity: 1, drawing }]);
      if (!drawing) note.textContent = "It has no raster or layer to draw: the map shows where it is.";
    } catch (error) {
      note.textContent = (error as Error).message;
    }
  }
}

async function describe({ bbox, layer, links }: Draft): Promise<Drawn["drawing"]> {
  if (links.vector_tiles) return { tiles: [here(links.vector_tiles)], boxes: [bbox ?? WORLD], minzoom: 0, maxzoom: MAX_VECTOR_ZOOM, sourceLayer: layer };
  if (!links.tilejson) return null;
  const found = await fetchJson(`${new URL(links.tilejson, location.href).href}?tilesize=256`);
  return { tiles: found.tiles.map(here), boxes: [found.bounds], minzoom: Math.max(found.minzoom - 2, 0), maxzoom: found.maxzoom, sourceLayer: null };
}

// An address of this page's origin, with the braces that the map fills in.
function here(tile: string): string {
  return root.href.replace(/\/$/, "") + tile.slice(tile.search(/\/(raster\/previews|api\/jobs)\//));
}

async function fill(image: HTMLImageElement): Promise<void> {
  const answer = await fetchKeyed(new URL(image.dataset.keyedSrc ?? "", location.href).href);
  delete image.dataset.keyedSrc;
  if (answer.ok) image.src = URL.createObjectURL(await answer.blob());
  else image.replaceWith(document.createTextNode("There is no picture of it."));
}
