// The key of the reader: kept in this tab alone, sent to this API alone, and never in an address.
const root = new URL(".", location.href);
const PLACE = `anabranch key ${root.pathname}`;
const LARGEST = 1e9;
const WORDS = {
  "auth.missing": "This API asks for a key.",
  "auth.invalid": "This is no key of this API. Is it whole?",
};
const form = document.querySelector("#ask");
const field = form.querySelector("input");
const forget = document.querySelector("#forget");
let key = sessionStorage.getItem(PLACE);
let asking = null;

export function headersFor(address) {
  const url = new URL(address, root);
  const ours = url.origin === root.origin && !url.pathname.startsWith(`${root.pathname}ui/`);
  return ours && key ? { Authorization: `Bearer ${key}` } : {};
}

// Fetch with the key that there is; without one that is taken, ask for another, and go on with that.
export async function fetchKeyed(address, headers = {}) {
  for (;;) {
    const sent = key;
    const answer = await fetch(address, { headers: { ...headers, ...headersFor(address) } });
    const refusal = await refusalOf(answer);
    if (!refusal) {
      if (sent) keep(sent);
      return answer;
    }
    if (sent === key) await ask(refusal);
  }
}

async function refusalOf(answer) {
  if (answer.status !== 401 && answer.status !== 403) return null;
  const problem = await answer.clone().json().catch(() => ({}));
  if (answer.status === 403 && problem.code !== "auth.forbidden") return null;
  return WORDS[problem.code] ?? sentence([problem.detail ?? "The key is not taken", problem.remedy]);
}

function sentence(parts) {
  const text = parts.filter(Boolean).map((part) => part.replace(/\.$/, "")).join(". ");
  return `${text[0].toUpperCase()}${text.slice(1)}.`;
}

function ask(reason) {
  if (asking) return asking;
  drop();
  form.querySelector("p").textContent = reason;
  form.hidden = false;
  field.focus();
  asking = new Promise((done) => form.addEventListener("submit", (event) => take(event, done), { once: true }));
  return asking;
}

function take(event, done) {
  event.preventDefault();
  // What is no plain text can't be sent at all; what is wrong the API says.
  key = field.value.replace(/[^\x21-\x7e]/g, "") || "-";
  field.value = "";
  form.hidden = true;
  asking = null;
  done();
}

function keep(taken) {
  if (taken !== key) return;
  sessionStorage.setItem(PLACE, taken);
  forget.hidden = false;
}

function drop() {
  key = null;
  sessionStorage.removeItem(PLACE);
  forget.hidden = true;
}

// A link can't send a key: what it leads to is fetched, and saved from memory.
async function save(link) {
  if (Number(link.dataset.size) > LARGEST) throw new Error("It is too large for this page. Fetch it by a program that sends the key.");
  const answer = await fetchKeyed(link.href);
  if (!answer.ok) throw new Error(`The API answered ${answer.status}.`);
  const saved = document.createElement("a");
  saved.href = URL.createObjectURL(await answer.blob());
  saved.download = link.dataset.name ?? decodeURIComponent(link.pathname.split("/").pop());
  saved.click();
  setTimeout(() => URL.revokeObjectURL(saved.href), 60_000);
}

function showError(link, text) {
  const note = document.createElement("small");
  note.className = "wrong";
  note.setAttribute("role", "alert");
  note.textContent = ` ${text}`;
  link.after(note);
}

document.addEventListener("click", (event) => {
  const link = event.target.closest("a[data-keyed]");
  if (!link || !key) return;
  event.preventDefault();
  save(link).catch((error) => showError(link, error.message));
});

// All that was read by the key leaves with it.
forget.addEventListener("click", () => {
  drop();
  location.reload();
});
