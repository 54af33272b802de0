// Made by `make pages` from src/anabranch/ui/islands.
import { cardOf } from "./cards.js";
import { confirmCall, showSecret } from "./dialogs.js";
import { fetchKeyed, root } from "./key.js";
document.addEventListener("submit", (event) => {
  const form = event.target;
  if (!form.dataset.call) return;
  event.preventDefault();
  void run(form, event.submitter ?? void 0);
});
document.addEventListener("input", (event) => {
  const form = event.target.closest("form[data-shows]");
  if (form) showCalls(form);
});
function showCalls(form) {
  const [curl, python] = [document.querySelector("#curl code"), document.querySelector("#python code")];
  if (!curl || !python) return;
  try {
    const body = { ...JSON.parse(form.dataset.body ?? "{}"), ...readFields(form) };
    if (body["rerun"] === false) delete body["rerun"];
    const base = root.href.replace(/\/$/, "");
    curl.textContent = `curl -X POST ${base}/api/jobs \\
  -H 'Content-Type: application/json' \\
  -d '${JSON.stringify(body).replaceAll("'", "'\\''")}'`;
    const { parameters = {}, ...more } = body;
    const rest = Object.entries(more).filter(([name]) => name !== "workflow").map(([name, value]) => `, ${name}=${spellPython(value)}`).join("");
    python.textContent = `from anabranch.client import Client

with Client("${base}") as client:
    job = client.submit(${spellPython(form.dataset.shows ?? "")}, ${spellPython(parameters)}${rest})
    print(job.job_id)`;
  } catch {
  }
}
function spellPython(value) {
  if (value === null) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (Array.isArray(value)) return `[${value.map(spellPython).join(", ")}]`;
  if (typeof value === "object") return `{${Object.entries(value).map(([name, one]) => `${JSON.stringify(name)}: ${spellPython(one)}`).join(", ")}}`;
  return JSON.stringify(value);
}
document.addEventListener("click", (event) => {
  const button = event.target.closest("button[data-call]");
  if (!button) return;
  event.preventDefault();
  void run(button, button);
});
async function run(element, button) {
  const said = await confirmCall(element, button);
  if (!said) return;
  const place = outputOf(element);
  place.replaceChildren();
  button?.setAttribute("disabled", "");
  try {
    const body = { ...JSON.parse(element.dataset.body ?? "{}"), ...element instanceof HTMLFormElement ? readFields(element) : {}, ...said };
    const each = element.dataset.each;
    if (each) await runEach(element, each, body, place);
    else if (button?.dataset.submits) {
      await send(button.dataset.submits, body, {});
      say(place, button.dataset.says ?? "Done");
    } else finish(element, await send(element.dataset.call ?? "", ...splitFields(element.dataset.call ?? "", body)), place);
  } catch (error) {
    place.replaceChildren(cardOf(error instanceof Refusal ? error.problem : { detail: error.message, retryable: true }));
  } finally {
    button?.removeAttribute("disabled");
  }
}
async function runEach(element, name, body, place) {
  const chosen = [...document.querySelectorAll(`input[type=checkbox][name="${CSS.escape(name)}"]:checked`)];
  let done = 0;
  const cards = [];
  for (const box of chosen) {
    try {
      await send(element.dataset.call ?? "", body, { [name]: box.value });
      done += 1;
      box.checked = false;
      box.dispatchEvent(new Event("change", { bubbles: true }));
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      cards.push(cardOf(error.problem, box.value.slice(0, 12)));
    }
    say(place, `${element.dataset.done ?? "Done"}: ${done} of ${chosen.length}`, ...cards);
  }
  document.body.dispatchEvent(new Event("changed"));
}
function finish(element, answer, place) {
  const then = element.dataset.then;
  if (then) {
    location.href = new URL(fill(then, answer).replace(/^\//, ""), root).href;
    return;
  }
  const dialog = element.closest("dialog");
  const secret = element.dataset.secret;
  if (secret) showSecret(place, secret, String(answer[secret]));
  else if (element.dataset.done) say(dialog ? outputOf(document.querySelector("#content h1")) : place, element.dataset.done);
  dialog?.close();
  document.body.dispatchEvent(new Event("changed"));
}
function splitFields(call, body) {
  const named = [...call.matchAll(/\{(\w+)\}/g)].map(([, name]) => name).filter((name) => name in body);
  const rest = Object.fromEntries(Object.entries(body).filter(([name]) => !named.includes(name)));
  return [rest, Object.fromEntries(named.map((name) => [name, String(body[name])]))];
}
class Refusal extends Error {
  constructor(problem) {
    super(problem.detail);
    this.problem = problem;
  }
  problem;
}
async function send(call, body, values) {
  const [method = "POST", path = ""] = call.split(" ", 2);
  const address = new URL(fill(path, values).replace(/^\//, ""), root).href;
  const hasBody = method !== "DELETE" && method !== "GET";
  const answer = await fetchKeyed(address, { Accept: "application/json", ...hasBody ? { "Content-Type": "application/json" } : {} }, { method, ...hasBody ? { body: JSON.stringify(body) } : {} });
  const said = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Refusal({ detail: `The API answered ${answer.status}.`, ...said });
  return said;
}
function fill(text, values) {
  return text.replace(/\{(\w+)\}/g, (whole, name) => name in values ? encodeURIComponent(String(values[name])) : whole);
}
function readFields(form) {
  const found = {};
  for (const field of form.elements) {
    if (!(field instanceof HTMLInputElement || field instanceof HTMLSelectElement || field instanceof HTMLTextAreaElement)) continue;
    if (!field.name || field.disabled || field.dataset.call) continue;
    const value = readField(field);
    if (value !== void 0) put(found, field.name.split("."), value);
  }
  return found;
}
function readField(field) {
  if (field instanceof HTMLInputElement && field.type === "checkbox") return field.checked;
  if (field instanceof HTMLInputElement && field.type === "radio" && !field.checked) return void 0;
  const text = field.value;
  if (text.trim() === "") return void 0;
  switch (field.dataset.as) {
    case "number":
      return Number(text);
    case "boolean":
      return text === "true";
    case "instant":
      return new Date(text).toISOString();
    case "list":
      return text.split(/\r?\n/).map((line) => line.trim()).filter(Boolean);
    case "json":
      try {
        return JSON.parse(text);
      } catch (error) {
        throw new Error(`${field.name} is no JSON: ${error.message}`);
      }
    default:
      return text;
  }
}
function put(into, [name = "", ...rest], value) {
  if (rest.length === 0) {
    into[name] = value;
    return;
  }
  const inner = into[name] ?? {};
  into[name] = inner;
  put(inner, rest, value);
}
function outputOf(element) {
  const live = element.closest('[hx-trigger*="changed"]');
  const beside = live ? live.previousElementSibling : element.nextElementSibling;
  if (beside instanceof HTMLElement && beside.matches("output.result")) return beside;
  const made = document.createElement("output");
  made.className = "result";
  if (live) live.before(made);
  else element.after(made);
  return made;
}
function say(place, text, ...cards) {
  const line = document.createElement("p");
  line.textContent = text;
  place.replaceChildren(line, ...cards);
}
export {
  Refusal,
  readFields,
  send
};
