// The key of the reader: kept in this tab alone, sent to this API alone, and never in an address.
export interface Problem {
  title?: string;
  detail?: string;
  code?: string;
  remedy?: string;
  instance?: string;
  retryable?: boolean;
  correlation_id?: string;
  errors?: { where: string; detail: string }[];
}

export const root = new URL(document.documentElement.dataset.root ?? "/", location.href);
const PLACE = `anabranch key ${root.pathname}`;
const LARGEST = 1e9;
const WORDS: Record<string, string> = {
  "auth.missing": "This API asks for a key.",
  "auth.invalid": "This is no key of this API. Is it whole?",
};
const form = document.querySelector<HTMLFormElement>("#ask")!;
const field = form.querySelector("input")!;
const forget = document.querySelector<HTMLButtonElement>("#forget")!;
let key = sessionStorage.getItem(PLACE);
let asking: Promise<void> | null = null;
forget.hidden = key === null;

export function headersFor(address: string): Record<string, string> {
  const url = new URL(address, root);
  const ours = url.origin === root.origin && url.pathname.startsWith(root.pathname) && !url.pathname.startsWith(`${root.pathname}ui/`);
  return ours && key ? { Authorization: `Bearer ${key}` } : {};
}

// Fetch with the key that there is; without one that is taken, ask for another, and go on with that.
export async function fetchKeyed(address: string, headers: Record<string, string> = {}, init: RequestInit = {}): Promise<Response> {
  for (;;) {
    const sent = key;
    const answer = await fetch(address, { ...init, headers: { ...headers, ...headersFor(address) } });
    const refusal = await refusalOf(answer);
    if (!refusal) {
      if (sent) keep(sent);
      return answer;
    }
    if (sent === key) await ask(refusal);
  }
}

async function refusalOf(answer: Response): Promise<string | null> {
  if (answer.status !== 401) return null;
  const problem: Problem = await answer.clone().json().catch(() => ({}));
  return WORDS[problem.code ?? ""] ?? sentence([problem.detail ?? "The key is not taken", problem.remedy]);
}

function sentence(parts: (string | undefined)[]): string {
  const text = parts.filter((part) => part !== undefined).map((part) => part.replace(/\.$/, "")).join(". ");
  return `${text[0]?.toUpperCase()}${text.slice(1)}.`;
}

export function ask(reason: string): Promise<void> {
  if (asking) return asking;
  drop();
  form.querySelector("p")!.textContent = reason;
  form.hidden = false;
  field.focus();
  asking = new Promise((done) => form.addEventListener("submit", (event) => take(event, done), { once: true }));
  return asking;
}

function take(event: Event, done: () => void): void {
  event.preventDefault();
  // What is no plain text can't be sent at all; what is wrong the API says.
  key = field.value.replace(/[^\x21-\x7e]/g, "") || "-";
  field.value = "";
  form.hidden = true;
  asking = null;
  done();
}

function keep(taken: string): void {
  if (taken !== key) return;
  sessionStorage.setItem(PLACE, taken);
  forget.hidden = false;
}

function drop(): void {
  key = null;
  sessionStorage.removeItem(PLACE);
  forget.hidden = true;
}

// A link can't send a key: what it leads to is fetched, and saved from memory.
async function save(link: HTMLAnchorElement): Promise<void> {
  if (Number(link.dataset.size) > LARGEST) throw new Error("It is too large for this page. Fetch it by a program that sends the key.");
  const answer = await fetchKeyed(link.href);
  if (!answer.ok) {
    const problem: Problem = await answer.json().catch(() => ({}));
    throw new Error(problem.detail ?? `The API answered ${answer.status}.`);
  }
  const saved = document.createElement("a");
  saved.href = URL.createObjectURL(await answer.blob());
  saved.download = link.dataset.name ?? decodeURIComponent(link.pathname.split("/").pop() ?? "");
  saved.click();
  setTimeout(() => URL.revokeObjectURL(saved.href), 60_000);
}

function showError(link: Element, text: string): void {
  const note = document.createElement("small");
  note.className = "wrong";
  note.setAttribute("role", "alert");
  note.textContent = ` ${text}`;
  link.after(note);
}

document.addEventListener("click", (event) => {
  const link = (event.target as Element).closest<HTMLAnchorElement>("a[data-keyed]");
  if (!link || !key) return;
  event.preventDefault();
  save(link).catch((error: Error) => showError(link, error.message));
});

// All that was read by the key leaves with it.
forget.addEventListener("click", () => {
  drop();
  location.reload();
});
