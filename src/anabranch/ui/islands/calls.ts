// Buttons and forms that name an operation of the API: `data-call="POST /api/jobs/{job_id}/cancel"`.
//
// data-body    JSON that is sent; the fields of a form are added to it, each by its `name`, with dots as depth. A field's
//              `data-as` is `number`, `boolean`, `json`, `list`, `instant` or `text`; an empty field is left out.
// data-each    the name of check boxes: one call for each that is checked, with its value in place of {name}.
// data-then    where to go once it is done, with {names} of the answer; without it, the page asks for what changed.
// data-done    what to say once it is done.
// data-submits, data-says   of a button in a form: another call with the same fields, and what to say of it.
//
// A name in braces in the path is that of a field, which is then no part of the body. What dialogs ask is in dialogs.ts.
import { cardOf } from "./cards.js";
import { confirmCall, showSecret } from "./dialogs.js";
import { fetchKeyed, root, type Problem } from "./key.js";

type Json = null | boolean | number | string | Json[] | { [name: string]: Json };
type Fields = { [name: string]: Json };

document.addEventListener("submit", (event) => {
  const form = event.target as HTMLFormElement;
  if (!form.dataset.call) return;
  event.preventDefault();
  void run(form, (event.submitter as HTMLButtonElement | null) ?? undefined);
});

// A form with data-shows has its call beside it, as a command and in Python, with what is filled in.
document.addEventListener("input", (event) => {
  const form = (event.target as Element).closest<HTMLFormElement>("form[data-shows]");
  if (form) showCalls(form);
});

function showCalls(form: HTMLFormElement): void {
  const [curl, python] = [document.querySelector("#curl code"), document.querySelector("#python code")];
  if (!curl || !python) return;
  try {
    const body = { ...(JSON.parse(form.dataset.body ?? "{}") as Fields), ...readFields(form) };
    if (body["rerun"] === false) delete body["rerun"];
    const base = root.href.replace(/\/$/, "");
    curl.textContent = `curl -X POST ${base}/api/jobs \\\n  -H 'Content-Type: application/json' \\\n  -d '${JSON.stringify(body).replaceAll("'", "'\\''")}'`;
    const { parameters = {}, ...more } = body;
    const rest = Object.entries(more).filter(([name]) => name !== "workflow").map(([name, value]) => `, ${name}=${spellPython(value)}`).join("");
    python.textContent = `from anabranch.client import Client\n\nwith Client("${base}") as client:\n    job = client.submit(${spellPython(form.dataset.shows ?? "")}, ${spellPython(parameters)}${rest})\n    print(job.job_id)`;
  } catch {
    // a field is no JSON yet: the call stays as it was
  }
}

function spellPython(value: Json): string {
  if (value === null) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (Array.isArray(value)) return `[${value.map(spellPython).join(", ")}]`;
  if (typeof value === "object") return `{${Object.entries(value).map(([name, one]) => `${JSON.stringify(name)}: ${spellPython(one)}`).join(", ")}}`;
  return JSON.stringify(value);
}

document.addEventListener("click", (event) => {
  const button = (event.target as Element).closest<HTMLElement>("button[data-call]");
  if (!button) return;
  event.preventDefault();
  void run(button, button);
});

async function run(element: HTMLElement, button?: HTMLElement): Promise<void> {
  const said = await confirmCall(element, button);
  if (!said) return;
  const place = outputOf(element);
  place.replaceChildren();
  button?.setAttribute("disabled", "");
  try {
    const body = { ...(JSON.parse(element.dataset.body ?? "{}") as Fields), ...(element instanceof HTMLFormElement ? readFields(element) : {}), ...said };
    const each = element.dataset.each;
    if (each) await runEach(element, each, body, place);
    else if (button?.dataset.submits) {
      await send(button.dataset.submits, body, {});
      say(place, button.dataset.says ?? "Done");
    } else finish(element, await send(element.dataset.call ?? "", ...splitFields(element.dataset.call ?? "", body)), place);
  } catch (error) {
    place.replaceChildren(cardOf(error instanceof Refusal ? error.problem : { detail: (error as Error).message, retryable: true }));
  } finally {
    button?.removeAttribute("disabled");
  }
}

async function runEach(element: HTMLElement, name: string, body: Fields, place: HTMLElement): Promise<void> {
  const chosen = [...document.querySelectorAll<HTMLInputElement>(`input[type=checkbox][name="${CSS.escape(name)}"]:checked`)];
  let done = 0;
  const cards: HTMLElement[] = [];
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

function finish(element: HTMLElement, answer: Fields, place: HTMLElement): void {
  const then = element.dataset.then;
  if (then) {
    location.href = new URL(fill(then, answer).replace(/^\//, ""), root).href;
    return;
  }
  const dialog = element.closest("dialog");
  const secret = element.dataset.secret;
  if (secret) showSecret(place, secret, String(answer[secret]));
  else if (element.dataset.done) say(dialog ? outputOf(document.querySelector("#content h1")!) : place, element.dataset.done);
  dialog?.close();
  document.body.dispatchEvent(new Event("changed"));
}

// The fields of the body, and those that the path names.
function splitFields(call: string, body: Fields): [Fields, Record<string, string>] {
  const named = [...call.matchAll(/\{(\w+)\}/g)].map(([, name]) => name as string).filter((name) => name in body);
  const rest = Object.fromEntries(Object.entries(body).filter(([name]) => !named.includes(name)));
  return [rest, Object.fromEntries(named.map((name) => [name, String(body[name])]))];
}

export class Refusal extends Error {
  constructor(readonly problem: Problem) {
    super(problem.detail);
  }
}

export async function send(call: string, body: Fields, values: Record<string, string>): Promise<Fields> {
  const [method = "POST", path = ""] = call.split(" ", 2);
  const address = new URL(fill(path, values).replace(/^\//, ""), root).href;
  const hasBody = method !== "DELETE" && method !== "GET";
  const answer = await fetchKeyed(address, { Accept: "application/json", ...(hasBody ? { "Content-Type": "application/json" } : {}) }, { method, ...(hasBody ? { body: JSON.stringify(body) } : {}) });
  const said = (await answer.json().catch(() => ({}))) as Fields;
  if (!answer.ok) throw new Refusal({ detail: `The API answered ${answer.status}.`, ...said } as Problem);
  return said;
}

function fill(text: string, values: Fields): string {
  return text.replace(/\{(\w+)\}/g, (whole, name: string) => (name in values ? encodeURIComponent(String(values[name])) : whole));
}

// The values of a form as JSON.
export function readFields(form: HTMLFormElement): Fields {
  const found: Fields = {};
  for (const field of form.elements) {
    if (!(field instanceof HTMLInputElement || field instanceof HTMLSelectElement || field instanceof HTMLTextAreaElement)) continue;
    if (!field.name || field.disabled || field.dataset.call) continue;
    const value = readField(field);
    if (value !== undefined) put(found, field.name.split("."), value);
  }
  return found;
}

function readField(field: HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement): Json | undefined {
  if (field instanceof HTMLInputElement && field.type === "checkbox") return field.checked;
  if (field instanceof HTMLInputElement && field.type === "radio" && !field.checked) return undefined;
  const text = field.value;
  if (text.trim() === "") return undefined;
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
        return JSON.parse(text) as Json;
      } catch (error) {
        throw new Error(`${field.name} is no JSON: ${(error as Error).message}`);
      }
    default:
      return text;
  }
}

function put(into: Fields, [name = "", ...rest]: string[], value: Json): void {
  if (rest.length === 0) {
    into[name] = value;
    return;
  }
  const inner = into[name] ?? {};
  into[name] = inner;
  put(inner as Fields, rest, value);
}

// Where the result of a call is shown: an output of its own beside it, or before the part of the page that asks again.
function outputOf(element: Element): HTMLElement {
  const live = element.closest('[hx-trigger*="changed"]');
  const beside = live ? live.previousElementSibling : element.nextElementSibling;
  if (beside instanceof HTMLElement && beside.matches("output.result")) return beside;
  const made = document.createElement("output");
  made.className = "result";
  if (live) live.before(made);
  else element.after(made);
  return made;
}

function say(place: HTMLElement, text: string, ...cards: HTMLElement[]): void {
  const line = document.createElement("p");
  line.textContent = text;
  place.replaceChildren(line, ...cards);
}
