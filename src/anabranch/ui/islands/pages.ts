// What every page needs: its content by the key of the tab, calls of the API, what is live, times, dialogs, the keyboard.
import "./calls.js";
import { ask, fetchKeyed, headersFor, root } from "./key.js";
import { startLive } from "./live.js";
import { refreshTimes } from "./times.js";

const main = document.querySelector<HTMLElement>("#content")!;
const dialog = document.querySelector<HTMLDialogElement>("#dialog")!;
const offline = document.querySelector<HTMLElement>("#offline")!;
const chosen = new Set<string>();
const unfolded = new Map<string, boolean>();

// The islands of a page are loaded where it has them.
const ISLANDS: Record<string, string> = { "job-graph": "graph.js", "job-timeline": "timeline.js", "draft-map": "map/draft.js", "submit-files": "submit.js", "signature-tester": "signatures.js" };

// Addresses of the map from before it had a page of its own.
if (location.pathname === root.pathname && /^#(.*&)?(collection|map)=/.test(location.hash)) {
  location.replace(new URL(`data${location.hash}`, root).href);
} else if (main.dataset.shell !== undefined) {
  void fillShell();
} else {
  settle();
}

// The shell came without data: the same address again, with the key.
async function fillShell(): Promise<void> {
  const answer = await fetchKeyed(location.href, { "HX-Request": "true", Accept: "text/html" });
  delete main.dataset.shell;
  htmx.swap(main, await answer.text(), { swapStyle: "innerHTML" });
  settle();
}

function settle(): void {
  for (const [id, open] of unfolded) document.getElementById(id)?.toggleAttribute("open", open);
  for (const [name, file] of Object.entries(ISLANDS)) if (document.querySelector(name)) void import(`./${file}`);
  for (const box of document.querySelectorAll<HTMLInputElement>("input[data-choose]")) box.checked = chosen.has(box.value);
  countChosen();
  refreshTimes();
  startLive();
  document.documentElement.dataset.ready = "";
}

document.addEventListener("htmx:configRequest", (event) => {
  const { detail } = event as HtmxRequest;
  Object.assign(detail.headers, headersFor(detail.path));
});

// A part that could not be asked for again stays as it was, and the page says that it is old.
document.addEventListener("htmx:beforeSwap", (event) => {
  const { detail } = event as HtmxRequest;
  for (const one of detail.target.querySelectorAll<HTMLDetailsElement>("details[id]")) unfolded.set(one.id, one.open);
  const refreshes = detail.requestConfig.triggeringEvent?.type === "changed";
  if (detail.xhr.status === 401) void ask("The key is no longer taken.").then(() => location.reload());
  if (refreshes && detail.isError) {
    detail.shouldSwap = false;
    warn(true);
  } else if (refreshes) warn(false);
});
document.addEventListener("htmx:sendError", () => warn(true));
document.addEventListener("htmx:afterSettle", settle);

function warn(lost: boolean): void {
  offline.hidden = !lost;
  offline.textContent = lost ? "The API does not answer: what you see may be old. Trying again …" : "";
}

// Check boxes that choose rows: they stay chosen while their list is refreshed.
document.addEventListener("change", (event) => {
  const box = event.target as HTMLInputElement;
  if (box.dataset.chooseAll !== undefined) {
    for (const other of document.querySelectorAll<HTMLInputElement>("input[data-choose]")) choose(other, box.checked);
  } else if (box.dataset.choose !== undefined) choose(box, box.checked);
  countChosen();
});

function choose(box: HTMLInputElement, on: boolean): void {
  box.checked = on;
  if (on) chosen.add(box.value);
  else chosen.delete(box.value);
}

function countChosen(): void {
  const count = document.querySelectorAll("input[data-choose]:checked").length;
  for (const element of document.querySelectorAll("[data-chosen]")) element.textContent = String(count);
  for (const element of document.querySelectorAll<HTMLElement>("[data-for-chosen]")) element.toggleAttribute("disabled", count === 0);
}

// Links that open in a dialog; without a script they are pages.
document.addEventListener("click", (event) => {
  const target = event.target as Element;
  if (target.closest("[data-close]") && dialog.open) {
    event.preventDefault();
    dialog.close();
    return;
  }
  const link = target.closest<HTMLAnchorElement>("a[data-dialog]");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  void openDialog(link.href);
});

async function openDialog(address: string): Promise<void> {
  const answer = await fetchKeyed(address, { "HX-Request": "true", "HX-Target": "dialog", Accept: "text/html" });
  htmx.swap(dialog, await answer.text(), { swapStyle: "innerHTML" });
  refreshTimes();
  if (!dialog.open) dialog.showModal();
}

// Copies what a code block shows.
document.addEventListener("click", (event) => {
  const button = (event.target as Element).closest<HTMLElement>("button[data-copy]");
  const text = button && document.querySelector(button.dataset.copy ?? "")?.textContent;
  if (!button || !text) return;
  void navigator.clipboard.writeText(text).then(() => { button.textContent = "Copied"; });
});

// Where the keyboard leads: / to the filter, j and k through rows.
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if ((event.target as Element).closest("input, select, textarea, [contenteditable]")) return;
  if (event.key === "/") move(event, document.querySelector<HTMLElement>("[data-filter]"));
  if (event.key !== "j" && event.key !== "k") return;
  const rows = [...document.querySelectorAll<HTMLElement>("[data-row]")];
  const at = rows.findIndex((row) => row.contains(document.activeElement) || row === document.activeElement);
  move(event, rows[at + (event.key === "j" ? 1 : -1)] ?? null);
});

function move(event: Event, to: HTMLElement | null): void {
  if (!to) return;
  event.preventDefault();
  to.focus();
}

setInterval(refreshTimes, 1000);
