// Live without reload. Elements ask again when the body hears `changed`, with `hx-trigger="changed from:body"`.
//
// data-follow   the path of a job's stream: `changed` for its events, at most once a second, until it has ended.
// data-every    seconds: `changed` that often, while the tab is visible.
import { fetchKeyed, root } from "./key.js";

const SECOND = 1000;
let followed: { path: string; abort: AbortController } | null = null;
let timer: number | undefined;
let due: number | undefined;
let last = 0;

const changed = (): void => {
  last = Date.now();
  due = undefined;
  document.body.dispatchEvent(new Event("changed"));
};

// Whatever happens within a second is one change.
function noteChange(): void {
  due ??= setTimeout(changed, Math.max(0, last + SECOND - Date.now()));
}

export function startLive(): void {
  const every = Number(document.querySelector<HTMLElement>("[data-every]")?.dataset.every ?? 0);
  clearInterval(timer);
  if (every) timer = setInterval(() => document.visibilityState === "visible" && changed(), every * SECOND);
  const path = document.querySelector<HTMLElement>("[data-follow]")?.dataset.follow;
  if (path === followed?.path) return;
  followed?.abort.abort();
  followed = null;
  if (!path) return;
  followed = { path, abort: new AbortController() };
  void follow(path, followed.abort.signal);
}

async function follow(path: string, signal: AbortSignal): Promise<void> {
  let event = "";
  for (let wait = 1; !signal.aborted; wait = Math.min(wait * 2, 30)) {
    try {
      const headers: Record<string, string> = { Accept: "text/event-stream", ...(event ? { "Last-Event-ID": event } : {}) };
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
      // the connection was lost: below it is made again, from the event that was seen last
    }
    if (!signal.aborted) await new Promise((done) => setTimeout(done, wait * SECOND));
  }
}

async function* messagesOf(body: ReadableStream<Uint8Array>): AsyncGenerator<{ id: string; event: string }> {
  const reader = body.pipeThrough(new TextDecoderStream() as unknown as ReadableWritablePair<string, Uint8Array>).getReader();
  let text = "";
  for (;;) {
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
