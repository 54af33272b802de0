// Published items, from the STAC API: the newest first, in pages.
import { fetchKeyed } from "../key.js";

const PAGE = 50;

export async function fetchJson(url) {
  let answer;
  try {
    answer = await fetchKeyed(url, { Accept: "application/json" });
  } catch {
    throw new Error("The API does not answer. Is it running?");
  }
  const body = await answer.json().catch(() => ({}));
  if (answer.ok) return body;
  throw new Error([body.detail ?? `The API answered ${answer.status}.`, body.remedy].filter(Boolean).join(" "));
}

export const readItems = () => readNext(`stac/search?limit=${PAGE}&sortby=-properties.created,-datetime`);

export const readOne = async ({ collection, id }) => readItem(await fetchJson(itemPath(collection, id)));

export const itemPath = (collection, id) => `stac/collections/${encodeURIComponent(collection)}/items/${encodeURIComponent(id)}`;

export async function readNext(url) {
  const page = await fetchJson(url);
  const next = page.links.find((link) => link.rel === "next");
  return { items: page.features.map(readItem), next: next ? local(next.href) : null, matched: page.numberMatched ?? null };
}

// A link names the host by which the API was asked; the page asks where it came from.
function local(href) {
  const url = new URL(href);
  return `${url.pathname}${url.search}`;
}

const RASTERS = ["image/tiff", "application/vnd.anabranch.mosaic+json"];

function readItem(feature) {
  const properties = feature.properties ?? {};
  const assets = Object.entries(feature.assets ?? {});
  const raster = assets.filter(([, asset]) => RASTERS.some((type) => (asset.type ?? "").startsWith(type)));
  raster.sort(([, a], [, b]) => isData(b) - isData(a));
  return {
    id: feature.id,
    collection: feature.collection,
    title: properties.title ?? feature.id,
    when: whenOf(properties),
    properties,
    assets,
    raster: raster[0] ?? null,
    layer: layerOf(properties, assets),
    bbox: feature.bbox?.length === 6 ? [0, 1, 3, 4].map((at) => feature.bbox[at]) : feature.bbox,
    geometry: feature.geometry,
  };
}

// The vector layer that an item with a table shows.
function layerOf(properties, assets) {
  if (!properties["table:columns"]) return null;
  const found = assets.map(([, asset]) => /\/features\/collections\/([^/]+)\/items$/.exec(asset.href ?? "")).find(Boolean);
  return found ? decodeURIComponent(found[1]) : null;
}

const isData = (asset) => Number((asset.roles ?? []).includes("data"));

function whenOf(properties) {
  if (properties.datetime) return day(properties.datetime);
  const { start_datetime: start, end_datetime: end } = properties;
  // An interval from the beginning of time as computers count it: all that is known is its end.
  if (start?.startsWith("1970-01-01T00:00:00") && end) return `unknown, before ${day(end)}`;
  const span = [start, end].filter(Boolean).map(day);
  return [...new Set(span)].join(" to ");
}

export const day = (text) => text.slice(0, 10);
