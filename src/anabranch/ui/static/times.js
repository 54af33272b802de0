// Made by `make pages` from src/anabranch/ui/islands.
const UNITS = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
function spell(seconds) {
  const whole = Math.round(Math.abs(seconds));
  if (whole < 120) return `${whole} s`;
  const parts = [];
  let rest = whole;
  for (const [unit, size] of UNITS) {
    const number = Math.floor(rest / size);
    rest -= number * size;
    if (number || parts.length) parts.push(number ? `${number} ${unit}` : "");
    if (parts.length === 2) break;
  }
  return parts.filter(Boolean).join(" ");
}
function ago(seconds) {
  if (Math.abs(seconds) < 1) return "now";
  const largest = spell(seconds).split(" ").slice(0, 2).join(" ");
  return seconds < 0 ? `in ${largest}` : `${largest} ago`;
}
function refreshTimes() {
  for (const element of document.querySelectorAll("time[datetime]")) set(element, ago(since(element.getAttribute("datetime"))));
  for (const element of document.querySelectorAll("[data-since]")) set(element, spell(since(element.getAttribute("data-since"))));
}
const since = (at) => (Date.now() - Date.parse(at ?? "")) / 1e3;
function set(element, text) {
  if (element.textContent !== text) element.textContent = text;
}
export {
  refreshTimes,
  spell
};
