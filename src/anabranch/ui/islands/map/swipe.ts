// Two maps one over the other, divided by a line that is moved by pointer or arrow keys: the left one is the page's map.
import { find } from "./dom.js";
import type { MapView } from "./view.js";

const place = find("#map-right");
const line = find("#swipe");
const STEP = 0.02;

export class Swipe {
  private view: MapView | null = null;
  private follows = false;

  constructor(private readonly left: MapView, private readonly open: (element: HTMLElement) => MapView, private readonly moved: (share: number) => void) {
    this.follow(left, () => this.view);
    line.addEventListener("pointerdown", (event) => { line.setPointerCapture(event.pointerId); event.preventDefault(); line.focus(); });
    line.addEventListener("pointermove", (event) => {
      if (!line.hasPointerCapture(event.pointerId)) return;
      const box = place.getBoundingClientRect();
      this.moved(clamp((event.clientX - box.left) / box.width));
    });
    line.addEventListener("keydown", (event) => {
      const by = { ArrowLeft: -STEP, ArrowRight: STEP, Home: -1, End: 1 }[event.key];
      if (by === undefined) return;
      event.preventDefault();
      this.moved(clamp(Number(line.getAttribute("aria-valuenow")) / 100 + by));
    });
  }

  // The map of the right side, while there is one.
  get right(): MapView | null {
    return this.view;
  }

  set(share: number | null): void {
    place.hidden = line.hidden = share === null;
    if (share === null) {
      this.view?.map.remove();
      this.view = null;
      return;
    }
    if (!this.view) {
      this.view = this.open(place);
      this.follow(this.view, () => this.left);
    }
    place.style.clipPath = `inset(0 0 0 ${share * 100}%)`;
    line.style.left = `${share * 100}%`;
    line.setAttribute("aria-valuenow", String(Math.round(share * 100)));
  }

  private follow(from: MapView, to: () => MapView | null): void {
    from.map.on("move", () => {
      const other = to();
      if (this.follows || !other) return;
      this.follows = true;
      other.map.jumpTo(from.view);
      this.follows = false;
    });
  }
}

const clamp = (share: number): number => Math.round(Math.min(Math.max(share, 0), 1) * 1000) / 1000;
