// Made by `make pages` from src/anabranch/ui/islands.
import { fetchKeyed, root } from "./key.js";
const SECOND = 1e3;
let followed = null;
let timer;
let due;
let last = 0;
const changed = () => {
  last = Date.now();
  due = void 0;
  document.body.dispatchEvent(new Event("changed"));
};
function noteChange() {
  due ??= setTimeout(changed, Math.max(0, last + SECOND - Date.now()));
}
function startLive() {
  const every = Number(document.querySelector("[data-every]")?.dataset.every ?? 0);
  clearInterval(timer);
  if (every) timer = setInterval(() => document.visibilityState === "visible" && changed(), every * SECOND);
  const path = document.querySelector("[data-follow]")?.dataset.follow;
  if (path === followed?.path) return;
  followed?.abort.abort();
  followed = null;
  if (!path) return;
  followed = { path, abort: new AbortController() };
  void follow(path, followed.abort.signal);
}
async function follow(path, signal) {
  let event = "";
  for (let wait = 1; !signal.aborted; wait = Math.min(wait * 2, 30)) {
    try {
      const headers = { Accept: "text/event-stream", ...event ? { "Last-Event-ID": event } : {} };
      const answer = await fetchKeyed(new URL(path.replace(/^\//, ""), root).href, headers, { signal });
      if (answer.ok && answer.body) {
        wait = 1;
        for await (const message of messagesOf(answer.body)) {
          if (message.id) event = message.id;
          noteChange();
          if (message.event === "end") return;
        }
      } else if (answer.status < 500 && answer.status !== 429) return;
    } catch {
    }
    if (!signal.aborted) await new Promise((done) => setTimeout(done, wait * SECOND));
  }
}
async function* messagesOf(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (; ; ) {
    const { value, done } = await reader.read();
    if (done) return;
    const blocks = (text + value).split("\n\n");
    text = blocks.pop() ?? "";
    for (const block of blocks) {
      const fields = new Map(block.split("\n").map((line) => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 1).trim()]));
      if (fields.has("event")) yield { id: fields.get("id") ?? "", event: fields.get("event") ?? "" };
    }
  }
}
document.addEventListener("visibilitychange", () => {
  if (document.visibilityState === "visible" && document.querySelector("[data-every], [data-follow]")) noteChange();
});
export {
  startLive
};
