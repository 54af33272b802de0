// Published items, from the STAC API: those that match a search, the newest first, in pages.
import { fetchKeyed, root, type Problem } from "../key.js";
import type { Box } from "./boxes.js";

type Json = any; // eslint-disable-line -- documents of STAC, which extensions add to
export interface Asset { href: string; type?: string; title?: string; roles?: string[]; [name: string]: Json }
export interface Item {
  id: string;
  collection: string;
  title: string;
  when: string;
  properties: Record<string, Json>;
  assets: [string, Asset][];
  rasters: [string, Asset][]; // data first
  layer: string | null;
  bbox: Box | null;
  geometry: GeoJSON.Geometry | null;
}
export interface Query { text: string; collection: string; from: string; to: string; box: Box | null }
export interface Page { items: Item[]; next: string | null; matched: number | null }
export interface Collection { id: string; title: string }

const PAGE = 50;
const RASTERS = ["image/tiff", "application/vnd.anabranch.mosaic+json"];

export class Refused extends Error {
  constructor(message: string, readonly status: number) { super(message); }
}

export const at = (path: string): string => new URL(path, root).href;

export async function fetchJson(address: string, signal?: AbortSignal): Promise<Json> {
  let answer: Response;
  try {
    answer = await fetchKeyed(address, { Accept: "application/json" }, { cache: "no-cache", ...(signal ? { signal } : {}) }); // asks whether what is kept is current
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Refused("The API does not answer. Is it running?", 0);
  }
  const body = await answer.json().catch(() => ({}));
  if (answer.ok) return body;
  const { detail, remedy } = body as Problem;
  throw new Refused([detail ?? `The API answered ${answer.status}.`, remedy].filter(Boolean).join(" "), answer.status);
}

export async function search(query: Query, signal?: AbortSignal): Promise<Page> {
  const given = new URLSearchParams({ limit: String(PAGE), sortby: "-properties.created,-datetime" });
  if (query.collection) given.set("collections", query.collection);
  if (query.box) given.set("bbox", query.box.map((degrees) => degrees.toFixed(6)).join(","));
  if (query.from || query.to) given.set("datetime", `${query.from ? `${query.from}T00:00:00Z` : ".."}/${query.to ? `${query.to}T23:59:59Z` : ".."}`);
  const words = query.text.trim().split(/\s+/).filter(Boolean).slice(0, 8);
  if (words.length) given.set("filter", words.map(holdsWord).join(" and "));
  return await readPage(at(`stac/search?${given}`), signal);
}

// A word is somewhere in the title, the description or the id of the item or its collection.
function holdsWord(word: string): string {
  const pattern = word.slice(0, 100).replace(/[\\%_]/g, "\\$&").replaceAll("'", "''");
  return `(${["id", "title", "description", "collection"].map((name) => `casei(${name}) like casei('%${pattern}%')`).join(" or ")})`;
}

export async function readPage(address: string, signal?: AbortSignal): Promise<Page> {
  const page = await fetchJson(address, signal);
  const next = page.links.find((link: { rel: string }) => link.rel === "next");
  return { items: page.features.map(readItem), next: next ? here(next.href) : null, matched: page.numberMatched ?? null };
}

export const readOne = async (collection: string, id: string): Promise<Item> => readItem(await fetchJson(itemUrl(collection, id)));

export const readRevision = async (collection: string, id: string, number: number): Promise<Item> =>
  readItem(await fetchJson(at(`api/items/${encodeURIComponent(collection)}/${encodeURIComponent(id)}/publications/${number}`)));

export const itemUrl = (collection: string, id: string): string => at(`stac/collections/${encodeURIComponent(collection)}/items/${encodeURIComponent(id)}`);

export async function readCollections(): Promise<Collection[]> {
  const found = await fetchJson(at("stac/collections?limit=1000"));
  return found.collections.map(({ id, title }: Collection) => ({ id, title: title || id }));
}

// A link names the host by which the API was asked; the page asks where it came from.
export function here(href: string): string {
  const url = new URL(href);
  return `${url.pathname}${url.search}`;
}

function readItem(feature: Json): Item {
  const properties = feature.properties ?? {};
  const assets = Object.entries(feature.assets ?? {}) as [string, Asset][];
  const rasters = assets.filter(([, asset]) => RASTERS.some((type) => (asset.type ?? "").startsWith(type)));
  rasters.sort(([, a], [, b]) => isData(b) - isData(a));
  return {
    id: feature.id,
    collection: feature.collection,
    title: properties.title ?? feature.id,
    when: whenOf(properties),
    properties,
    assets,
    rasters,
    layer: layerOf(properties, assets),
    bbox: feature.bbox?.length === 6 ? ([0, 1, 3, 4].map((place) => feature.bbox[place]) as Box) : (feature.bbox ?? null),
    geometry: feature.geometry,
  };
}

// The vector layer that an item with a table shows.
function layerOf(properties: Item["properties"], assets: Item["assets"]): string | null {
  if (!properties["table:columns"]) return null;
  const found = assets.map(([, asset]) => /\/features\/collections\/([^/]+)\/items$/.exec(asset.href ?? "")).find(Boolean);
  return found?.[1] ? decodeURIComponent(found[1]) : null;
}

const isData = (asset: Asset): number => Number((asset.roles ?? []).includes("data"));

function whenOf(properties: Item["properties"]): string {
  if (properties.datetime) return day(properties.datetime);
  const { start_datetime: start, end_datetime: end } = properties;
  // An interval from the beginning of time as computers count it: all that is known is its end.
  if (start?.startsWith("1970-01-01T00:00:00") && end) return `unknown, before ${day(end)}`;
  return [...new Set([start, end].filter(Boolean).map(day))].join(" to ");
}

export const day = (text: string): string => text.slice(0, 10);
