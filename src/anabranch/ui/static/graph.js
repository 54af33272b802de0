// Made by `make pages` from src/anabranch/ui/islands.
const STEP = 1.25;
const [LEAST, MOST] = [0.2, 4];
let zoom = 0;
let scrolled = [0, 0];
class JobGraph extends HTMLElement {
  connectedCallback() {
    const canvas = this.querySelector(".canvas");
    const svg = canvas?.querySelector("svg");
    if (!canvas || !svg) return;
    const width = svg.viewBox.baseVal.width;
    const height = svg.viewBox.baseVal.height;
    const show = () => {
      const factor = zoom || Math.min(1, (canvas.clientWidth - 12) / width);
      svg.setAttribute("width", String(width * factor));
      svg.setAttribute("height", String(height * factor));
    };
    const change = (by) => {
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
    canvas.addEventListener("scroll", () => {
      scrolled = [canvas.scrollLeft, canvas.scrollTop];
    });
    canvas.addEventListener("keydown", (event) => this.step(event));
  }
  // To the nearest node in the direction of an arrow key.
  step(event) {
    const ways = { ArrowUp: [0, -1], ArrowDown: [0, 1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] };
    const way = ways[event.key];
    const at = document.activeElement;
    if (!way || !at?.hasAttribute("data-node-link")) return;
    const [x, y] = middleOf(at);
    let nearest = null;
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
    nearest.focus();
  }
}
function middleOf(element) {
  const box = element.getBoundingClientRect();
  return [box.left + box.width / 2, box.top + box.height / 2];
}
function tool(text, label, act) {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = text;
  button.setAttribute("aria-label", label);
  button.addEventListener("click", act);
  return button;
}
customElements.define("job-graph", JobGraph);
