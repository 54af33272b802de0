// Made by `make pages` from src/anabranch/ui/islands.
const root = new URL(document.documentElement.dataset.root ?? "/", location.href);
const PLACE = `anabranch key ${root.pathname}`;
const LARGEST = 1e9;
const WORDS = {
  "auth.missing": "This API asks for a key.",
  "auth.invalid": "This is no key of this API. Is it whole?"
};
const form = document.querySelector("#ask");
const field = form.querySelector("input");
const forget = document.querySelector("#forget");
let key = sessionStorage.getItem(PLACE);
let asking = null;
forget.hidden = key === null;
function headersFor(address) {
  const url = new URL(address, root);
  const ours = url.origin === root.origin && url.pathname.startsWith(root.pathname) && !url.pathname.startsWith(`${root.pathname}ui/`);
  return ours && key ? { Authorization: `Bearer ${key}` } : {};
}
async function fetchKeyed(address, headers = {}, init = {}) {
  for (; ; ) {
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
async function refusalOf(answer) {
  if (answer.status !== 401) return null;
  const problem = await answer.clone().json().catch(() => ({}));
  return WORDS[problem.code ?? ""] ?? sentence([problem.detail ?? "The key is not taken", problem.remedy]);
}
function sentence(parts) {
  const text = parts.filter((part) => part !== void 0).map((part) => part.replace(/\.$/, "")).join(". ");
  return `${text[0]?.toUpperCase()}${text.slice(1)}.`;
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
async function save(link) {
  if (Number(link.dataset.size) > LARGEST) throw new Error("It is too large for this page. Fetch it by a program that sends the key.");
  const answer = await fetchKeyed(link.href);
  if (!answer.ok) {
    const problem = await answer.json().catch(() => ({}));
    throw new Error(problem.detail ?? `The API answered ${answer.status}.`);
  }
  const saved = document.createElement("a");
  saved.href = URL.createObjectURL(await answer.blob());
  saved.download = link.dataset.name ?? decodeURIComponent(link.pathname.split("/").pop() ?? "");
  saved.click();
  setTimeout(() => URL.revokeObjectURL(saved.href), 6e4);
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
forget.addEventListener("click", () => {
  drop();
  location.reload();
});
export {
  ask,
  fetchKeyed,
  headersFor,
  root
};
