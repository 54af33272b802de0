// <job-timeline>: zoom into a part of the timeline that the server laid out in percent, and the critical path alone.
let zoom = 1;
let onlyCritical = false;

class JobTimeline extends HTMLElement {
  connectedCallback(): void {
    const rows = this.querySelector<HTMLElement>(".rows");
    if (!rows) return;
    const tools = document.createElement("p");
    tools.className = "actions";
    const range = document.createElement("input");
    Object.assign(range, { type: "range", min: "1", max: "12", step: "0.5", value: String(zoom) });
    range.addEventListener("input", () => { zoom = range.valueAsNumber; this.show(); });
    const box = document.createElement("input");
    Object.assign(box, { type: "checkbox", checked: onlyCritical });
    box.addEventListener("change", () => { onlyCritical = box.checked; this.show(); });
    tools.append(labelled(range, "Zoom "), labelled(box, "Critical path only "));
    rows.before(tools);
    this.show();
  }

  private show(): void {
    const wide = `${Math.round(zoom * (this.clientWidth - 330))}px`;
    for (const track of this.querySelectorAll<SVGElement>(".track")) track.style.width = zoom > 1 ? wide : "";
    for (const row of this.querySelectorAll<HTMLElement>(".row")) row.hidden = onlyCritical && !row.classList.contains("critical");
    this.querySelector(".rows")?.classList.toggle("zoomed", zoom > 1);
  }
}

function labelled(field: HTMLElement, text: string): HTMLElement {
  const label = document.createElement("label");
  label.append(text, field);
  return label;
}

customElements.define("job-timeline", JobTimeline);
