// Keeps relative times and running durations current, in the words of the server.
const UNITS: [string, number][] = [["d", 86_400], ["h", 3_600], ["min", 60], ["s", 1]];

export function spell(seconds: number): string {
  const whole = Math.round(Math.abs(seconds));
  if (whole < 120) return `${whole} s`;
  const parts: string[] = [];
  let rest = whole;
  for (const [unit, size] of UNITS) {
    const number = Math.floor(rest / size);
    rest -= number * size;
    if (number || parts.length) parts.push(number ? `${number} ${unit}` : "");
    if (parts.length === 2) break;
  }
  return parts.filter(Boolean).join(" ");
}

function ago(seconds: number): string {
  if (Math.abs(seconds) < 1) return "now";
  const largest = spell(seconds).split(" ").slice(0, 2).join(" ");
  return seconds < 0 ? `in ${largest}` : `${largest} ago`;
}

export function refreshTimes(): void {
  for (const element of document.querySelectorAll("time[datetime]")) set(element, ago(since(element.getAttribute("datetime"))));
  for (const element of document.querySelectorAll("[data-since]")) set(element, spell(since(element.getAttribute("data-since"))));
}

const since = (at: string | null): number => (Date.now() - Date.parse(at ?? "")) / 1000;

function set(element: Element, text: string): void {
  if (element.textContent !== text) element.textContent = text;
}
