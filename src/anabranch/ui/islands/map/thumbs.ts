// Small pictures of items, once they come into view, two at a time: tiles go first. An address alone can't send a key.
import { fetchKeyed } from "../key.js";
import { at, type Item } from "./catalog.js";
import { make } from "./dom.js";

const AT_ONCE = 2;
const SIZE = 112; // pixels, twice what is shown
const waiting: { place: HTMLElement; address: string }[] = [];
const known = new Map<string, string | null>(); // addresses of pictures by those they were read from; null: there is none
let running = 0;

const watch = new IntersectionObserver((entries) => {
  for (const { isIntersecting, target } of entries) {
    if (!isIntersecting) continue;
    watch.unobserve(target);
    waiting.push({ place: target as HTMLElement, address: (target as HTMLElement).dataset.picture ?? "" });
  }
  void work();
});

// A box of a fixed size, so that nothing moves when its picture comes.
export function thumbOf(item: Item): HTMLElement {
  const sign = item.layer ? "⬡" : item.rasters.length ? "▦" : "◌";
  const place = make("span", { class: "thumb", "aria-hidden": "true" }, sign);
  const address = addressOf(item);
  if (!address) return place;
  place.dataset.picture = address;
  const picture = known.get(address);
  if (picture) show(place, picture);
  else if (picture === undefined) watch.observe(place);
  return place;
}

function addressOf(item: Item): string | null {
  if (!item.rasters.length) return null;
  const published = encodeURIComponent(String(item.properties.updated ?? item.properties.created ?? ""));
  return at(`raster/collections/${encodeURIComponent(item.collection)}/items/${encodeURIComponent(item.id)}/preview.png?max_size=${SIZE}${published && `#${published}`}`);
}

async function work(): Promise<void> {
  if (running >= AT_ONCE) return;
  const next = waiting.pop(); // what came into view last is what is looked at
  if (!next) return;
  if (!next.place.isConnected) return void work();
  running += 1;
  try {
    if (!known.has(next.address)) {
      const answer = await fetchKeyed(next.address, { Accept: "image/png" }, { cache: "no-cache" });
      known.set(next.address, answer.ok ? URL.createObjectURL(await answer.blob()) : null);
    }
    const picture = known.get(next.address);
    if (picture) show(next.place, picture);
  } catch {
    // the list is complete without it
  } finally {
    running -= 1;
    void work();
  }
  void work();
}

function show(place: HTMLElement, picture: string): void {
  place.replaceChildren(make("img", { src: picture, alt: "", width: 56, height: 56 }));
}
