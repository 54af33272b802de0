// Elements with attributes, listeners and children; text is never read as HTML.
export type Child = Node | string | number | null | undefined | false;
type Value = string | number | boolean | null | undefined | ((event: Event) => void);

export function make<Name extends keyof HTMLElementTagNameMap>(name: Name, given: Record<string, Value> = {}, ...children: Child[]): HTMLElementTagNameMap[Name] {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(given)) {
    if (typeof value === "function") element.addEventListener(key, value);
    else if (key === "value") (element as unknown as HTMLInputElement).value = String(value ?? "");
    else if (typeof value === "boolean") element.toggleAttribute(key, value);
    else if (value !== null && value !== undefined) element.setAttribute(key, String(value));
  }
  element.append(...children.filter((child) => child !== null && child !== undefined && child !== false).map((child) => (child instanceof Node ? child : String(child))));
  return element;
}

export function find<Found extends HTMLElement = HTMLElement>(selector: string): Found {
  return document.querySelector<Found>(selector)!;
}

export function pick(choices: [string, string][], chosen: string, given: Record<string, Value>): HTMLSelectElement {
  const made = make("select", given, ...choices.map(([value, text]) => make("option", { value }, text)));
  made.value = chosen;
  return made;
}

// The facts of a thing as a list of terms; those without a value are left out.
export function facts(rows: [string, Child][]): HTMLElement {
  return make("dl", {}, ...rows.filter(([, value]) => value !== null && value !== undefined && value !== false && value !== "" && value !== 0).flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)]));
}

export function spellNumber(value: number): string {
  if (!Number.isFinite(value)) return String(value);
  if (Number.isInteger(value) && Math.abs(value) < 1e15) return value.toLocaleString("en").replaceAll(",", "\u202f");
  return String(Number(value.toPrecision(6)));
}

export function spellBytes(size: number): string {
  const units = ["bytes", "kB", "MB", "GB", "TB"];
  const power = Math.min(Math.floor(Math.log10(Math.max(size, 1)) / 3), units.length - 1);
  return `${(size / 1000 ** power).toFixed(power ? 1 : 0)} ${units[power]}`;
}

// Saves a text that was made here as a file.
export function saveText(text: string, name: string, type: string): void {
  const link = make("a", { href: URL.createObjectURL(new Blob([text], { type })), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
