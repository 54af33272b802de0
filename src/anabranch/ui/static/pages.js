// Made by `make pages` from src/anabranch/ui/islands.
import "./calls.js";
import { ask, fetchKeyed, headersFor, root } from "./key.js";
import { startLive } from "./live.js";
import { refreshTimes } from "./times.js";
const main = document.querySelector("#content");
const dialog = document.querySelector("#dialog");
const offline = document.querySelector("#offline");
const chosen = /* @__PURE__ */ new Set();
const unfolded = /* @__PURE__ */ new Map();
const ISLANDS = { "job-graph": "graph.js", "job-timeline": "timeline.js", "draft-map": "map/draft.js", "submit-files": "submit.js", "signature-tester": "signatures.js" };
if (location.pathname === root.pathname && /^#(.*&)?(collection|map)=/.test(location.hash)) {
  location.replace(new URL(`data${location.hash}`, root).href);
} else if (main.dataset.shell !== void 0) {
  void fillShell();
} else {
  settle();
}
async function fillShell() {
  const answer = await fetchKeyed(location.href, { "HX-Request": "true", Accept: "text/html" });
  delete main.dataset.shell;
  htmx.swap(main, await answer.text(), { swapStyle: "innerHTML" });
  settle();
}
function settle() {
  for (const [id, open] of unfolded) document.getElementById(id)?.toggleAttribute("open", open);
  for (const [name, file] of Object.entries(ISLANDS)) if (document.querySelector(name)) void import(`./${file}`);
  for (const box of document.querySelectorAll("input[data-choose]")) box.checked = chosen.has(box.value);
  countChosen();
  refreshTimes();
  startLive();
  document.documentElement.dataset.ready = "";
}
document.addEventListener("htmx:configRequest", (event) => {
  const { detail } = event;
  Object.assign(detail.headers, headersFor(detail.path));
});
document.addEventListener("htmx:beforeSwap", (event) => {
  const { detail } = event;
  for (const one of detail.target.querySelectorAll("details[id]")) unfolded.set(one.id, one.open);
  const refreshes = detail.requestConfig.triggeringEvent?.type === "changed";
  if (detail.xhr.status === 401) void ask("The key is no longer taken.").then(() => location.reload());
  if (refreshes && detail.isError) {
    detail.shouldSwap = false;
    warn(true);
  } else if (refreshes) warn(false);
});
document.addEventListener("htmx:sendError", () => warn(true));
document.addEventListener("htmx:afterSettle", settle);
function warn(lost) {
  offline.hidden = !lost;
  offline.textContent = lost ? "The API does not answer: what you see may be old. Trying again …" : "";
}
document.addEventListener("change", (event) => {
  const box = event.target;
  if (box.dataset.chooseAll !== void 0) {
    for (const other of document.querySelectorAll("input[data-choose]")) choose(other, box.checked);
  } else if (box.dataset.choose !== void 0) choose(box, box.checked);
  countChosen();
});
function choose(box, on) {
  box.checked = on;
  if (on) chosen.add(box.value);
  else chosen.delete(box.value);
}
function countChosen() {
  const count = document.querySelectorAll("input[data-choose]:checked").length;
  for (const element of document.querySelectorAll("[data-chosen]")) element.textContent = String(count);
  for (const element of document.querySelectorAll("[data-for-chosen]")) element.toggleAttribute("disabled", count === 0);
}
document.addEventListener("click", (event) => {
  const target = event.target;
  if (target.closest("[data-close]") && dialog.open) {
    event.preventDefault();
    dialog.close();
    return;
  }
  const link = target.closest("a[data-dialog]");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  void openDialog(link.href);
});
async function openDialog(address) {
  const answer = await fetchKeyed(address, { "HX-Request": "true", "HX-Target": "dialog", Accept: "text/html" });
  htmx.swap(dialog, await answer.text(), { swapStyle: "innerHTML" });
  refreshTimes();
  if (!dialog.open) dialog.showModal();
}
document.addEventListener("click", (event) => {
  const button = event.target.closest("button[data-copy]");
  const text = button && document.querySelector(button.dataset.copy ?? "")?.textContent;
  if (!button || !text) return;
  void navigator.clipboard.writeText(text).then(() => {
    button.textContent = "Copied";
  });
});
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest("input, select, textarea, [contenteditable]")) return;
  if (event.key === "/") move(event, document.querySelector("[data-filter]"));
  if (event.key !== "j" && event.key !== "k") return;
  const rows = [...document.querySelectorAll("[data-row]")];
  const at = rows.findIndex((row) => row.contains(document.activeElement) || row === document.activeElement);
  move(event, rows[at + (event.key === "j" ? 1 : -1)] ?? null);
});
function move(event, to) {
  if (!to) return;
  event.preventDefault();
  to.focus();
}
setInterval(refreshTimes, 1e3);
