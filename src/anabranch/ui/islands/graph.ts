// <job-graph>: zoom of a graph that the server drew, kept while the graph is drawn again; arrow keys between its nodes.
const STEP = 1.25;
const [LEAST, MOST] = [0.2, 4];
let zoom = 0; // 0: as wide as its place, and not larger than drawn
let scrolled: [number, number] = [0, 0];

class JobGraph extends HTMLElement {
  connectedCallback(): void {
    const canvas = this.querySelector<HTMLElement>(".canvas");
    const svg = canvas?.querySelector("svg");
    if (!canvas || !svg) return;
    const width = svg.viewBox.baseVal.width;
    const height = svg.viewBox.baseVal.height;
    const show = (): void => {
      const factor = zoom || Math.min(1, (canvas.clientWidth - 12) / width);
      svg.setAttribute("width", String(width * factor));
      svg.setAttribute("height", String(height * factor));
    };
    const change = (by: number): void => {
      const now = zoom || Math.min(1, (canvas.clientWidth - 12) / width);
      zoom = by ? Math.min(MOST, Math.max(LEAST, now * by)) : 0;
      show();
    };
    const tools = document.createElement("div");
    tools.className = "tools";
    tools.append(tool("−", "Smaller", () => change(1 / STEP)), tool("+", "Larger", () => change(STEP)), tool("Fit", "Fit", () => change(0)));
    canvas.prepend(tools);
    show();
    canvas.scrollTo(...scrolled);
    canvas.addEventListener("scroll", () => { scrolled = [canvas.scrollLeft, canvas.scrollTop]; });
    canvas.addEventListener("keydown", (event) => this.step(event));
  }

  // To the nearest node in the direction of an arrow key.
  private step(event: KeyboardEvent): void {
    const ways: Record<string, [number, number]> = { ArrowUp: [0, -1], ArrowDown: [0, 1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] };
    const way = ways[event.key];
    const at = document.activeElement;
    if (!way || !at?.hasAttribute("data-node-link")) return;
    const [x, y] = middleOf(at);
    let nearest: Element | null = null;
    let least = Infinity;
    for (const link of this.querySelectorAll("[data-node-link]")) {
      const [dx, dy] = [middleOf(link)[0] - x, middleOf(link)[1] - y];
      const ahead = dx * way[0] + dy * way[1];
      const aside = Math.abs(dx * way[1]) + Math.abs(dy * way[0]);
      if (link === at || ahead <= 1 || ahead + 2 * aside >= least) continue;
      least = ahead + 2 * aside;
      nearest = link;
    }
    if (!nearest) return;
    event.preventDefault();
    (nearest as SVGAElement).focus();
  }
}

function middleOf(element: Element): [number, number] {
  const box = element.getBoundingClientRect();
  return [box.left + box.width / 2, box.top + box.height / 2];
}

function tool(text: string, label: string, act: () => void): HTMLElement {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = text;
  button.setAttribute("aria-label", label);
  button.addEventListener("click", act);
  return button;
}

customElements.define("job-graph", JobGraph);
