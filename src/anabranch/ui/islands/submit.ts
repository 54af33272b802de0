// Submit: the chosen files with their kinds, their uploads, the check of what would be done, and the submission.
import { readFields, Refusal, send } from "./calls.js";
import { cardOf } from "./cards.js";
import { root } from "./key.js";
import { upload } from "./uploads.js";

interface Chosen {
  file: File;
  kind: string;
  line: HTMLElement;
  progress: HTMLProgressElement;
  note: HTMLElement;
  address?: string;
}

type Fields = Parameters<typeof send>[1];

const MAX_FILES = 500;
const island = document.querySelector<HTMLElement>("submit-files")!;
const kinds = JSON.parse(island.dataset.kinds ?? "{}") as Record<string, string>;
const sidecars = JSON.parse(island.dataset.sidecars ?? "[]") as string[];
const byKind = JSON.parse(island.dataset.byKind ?? "{}") as Record<string, string>;
const drop = document.querySelector<HTMLElement>("#drop")!;
const list = document.querySelector<HTMLUListElement>("#chosen")!;
const what = document.querySelector<HTMLFormElement>("#what")!;
const preflight = document.querySelector<HTMLElement>("#preflight")!;
const chosen: Chosen[] = [];

for (const input of island.querySelectorAll<HTMLInputElement>("input[type=file]")) {
  input.addEventListener("change", () => {
    add([...(input.files ?? [])]);
    input.value = "";
  });
}
for (const name of ["dragenter", "dragover"]) drop.addEventListener(name, (event) => { event.preventDefault(); drop.classList.add("over"); });
for (const name of ["dragleave", "drop"]) drop.addEventListener(name, () => drop.classList.remove("over"));
drop.addEventListener("drop", (event) => {
  event.preventDefault();
  // Folders are entries; what is no file of a disk, like a picture of another page, has none.
  const entries = [...(event.dataTransfer?.items ?? [])].map((item) => item.webkitGetAsEntry()).filter((entry) => entry !== null);
  if (entries.length) void Promise.all(entries.map(walk)).then((files) => add(files.flat()));
  else add([...(event.dataTransfer?.files ?? [])]);
});

async function walk(entry: FileSystemEntry): Promise<File[]> {
  if (entry.isFile) return [await new Promise<File>((done, fail) => (entry as FileSystemFileEntry).file(done, fail))];
  const reader = (entry as FileSystemDirectoryEntry).createReader();
  const found: File[] = [];
  for (;;) {
    const entries = await new Promise<FileSystemEntry[]>((done, fail) => reader.readEntries(done, fail));
    if (!entries.length) return found;
    found.push(...(await Promise.all(entries.map(walk))).flat());
  }
}

function add(files: File[]): void {
  for (const file of files) {
    if (chosen.length >= MAX_FILES) return say(`At most ${MAX_FILES} files at once: use the command line for more.`);
    if (chosen.some((one) => one.file.name === file.name && one.file.size === file.size)) continue;
    chosen.push(show(file));
  }
  forget();
  const first = mains()[0];
  const wanted = first && byKind[first.kind];
  if (wanted) choose(wanted, first.kind);
}

// The workflow for what was dropped, unless the form of another one is shown on purpose.
function choose(workflow: string, kind: string): void {
  const select = what.elements.namedItem("workflow") as HTMLSelectElement;
  const type = what.elements.namedItem("data_type") as HTMLSelectElement;
  const fits = Object.values(byKind).includes(select.value) ? select.value === workflow : true;
  if (fits && type.value === kind) return;
  if (!fits) select.value = workflow;
  if (byKind[kind]) type.value = kind;
  select.dispatchEvent(new Event("change", { bubbles: true }));
}

function kindOf(name: string): string {
  const lower = name.toLowerCase();
  if (sidecars.some((suffix) => lower.endsWith(suffix))) return "sidecar";
  return kinds[lower.slice(lower.lastIndexOf("."))] ?? "other";
}

const NOTES: Record<string, string> = {
  sidecar: "goes with its raster",
  archive: "choose the workflow for what is in it",
  other: "its extension says no kind: choose a workflow that reads it",
};

function show(file: File): Chosen {
  const kind = kindOf(file.name);
  const line = document.createElement("li");
  const name = document.createElement("span");
  name.textContent = `${file.name}, ${spell(file.size)}, ${kind} `;
  const note = document.createElement("small");
  note.textContent = file.name.toLowerCase().endsWith(".shp") ? "a Shapefile is sent as one ZIP archive with its .shp, .shx, .dbf and .prj files" : (NOTES[kind] ?? "");
  const progress = document.createElement("progress");
  progress.max = 1;
  progress.value = 0;
  progress.setAttribute("aria-label", `Upload of ${file.name}`);
  const remove = document.createElement("button");
  remove.type = "button";
  remove.textContent = "Remove";
  remove.setAttribute("aria-label", `Remove ${file.name}`);
  const one: Chosen = { file, kind, line, progress, note };
  remove.addEventListener("click", () => {
    chosen.splice(chosen.indexOf(one), 1);
    line.remove();
    forget();
  });
  line.append(name, progress, note, remove);
  list.append(line);
  return one;
}

function spell(size: number): string {
  for (const unit of ["bytes", "kB", "MB", "GB"]) {
    if (size < 1000) return unit === "bytes" ? `${size} bytes` : `${size.toFixed(1)} ${unit}`;
    size /= 1000;
  }
  return `${size.toFixed(1)} TB`;
}

const mains = (): Chosen[] => chosen.filter((one) => one.kind !== "sidecar");

function sidecarsOf(main: Chosen): Chosen[] {
  const stem = (name: string): string => name.toLowerCase().replace(/(\.aux\.xml|\.[^.]*)$/, "");
  const whole = main.file.name.toLowerCase();
  return chosen.filter((one) => one.kind === "sidecar" && [whole, stem(whole)].includes(stem(one.file.name)));
}

// What was checked is no more what would be submitted.
function forget(): void {
  preflight.replaceChildren(text("p", "Nothing starts before you have seen what would be done.", "quiet"));
}

island.addEventListener("input", (event) => (event.target as Element).closest("#inputs") && forget());
what.addEventListener("change", () => {
  const order = (what.elements.namedItem("platform") as HTMLSelectElement).value !== "";
  document.querySelector<HTMLElement>("#choose-workflow")!.hidden = order;
  document.querySelector<HTMLElement>("#choose-type")!.hidden = !order;
  forget();
});

island.addEventListener("submit", (event) => {
  const form = event.target as HTMLFormElement;
  if (form.id !== "inputs") return;
  event.preventDefault();
  void check(form, (event as SubmitEvent).submitter as HTMLButtonElement);
});

async function check(form: HTMLFormElement, button: HTMLButtonElement): Promise<void> {
  button.disabled = true;
  try {
    const fields = readFields(form);
    for (const one of chosen) await uploadOnce(one);
    const isOrder = Boolean(form.dataset.platform);
    const bodies = isOrder ? [orderOf(form, fields)] : jobsOf(form, fields);
    const cards: HTMLElement[] = [];
    const rows: HTMLElement[] = [];
    for (const body of bodies) {
      try {
        const answer = await send(isOrder ? "POST /api/platform/submit?dry_run=true" : "POST /api/jobs/validate", body, {});
        rows.push(rowOf(body, answer, isOrder));
      } catch (error) {
        if (!(error instanceof Refusal)) throw error;
        cards.push(cardOf(error.problem, nameOf(body)));
      }
    }
    preflight.replaceChildren(...cards, ...rows, ...(cards.length ? [] : [submitButton(bodies, isOrder)]));
  } catch (error) {
    preflight.replaceChildren(cardOf(error instanceof Refusal ? error.problem : { detail: (error as Error).message, retryable: true }));
  } finally {
    button.disabled = false;
    preflight.scrollIntoView({ block: "nearest" });
  }
}

async function uploadOnce(one: Chosen): Promise<void> {
  one.address ??= await upload(one.file, (share, words) => {
    one.progress.value = share;
    one.note.textContent = words;
  });
}

function jobsOf(form: HTMLFormElement, fields: Fields): Fields[] {
  const { workflow = "", takes, takesSidecars } = form.dataset;
  const parameters = (fields.parameters ?? {}) as Fields;
  const files = mains();
  if (files.length && takes === "sources") return [{ workflow, parameters: { ...parameters, sources: files.map((one) => one.address!) } }];
  if (files.length && takes === "source") {
    return files.map((one) => {
      const beside = takesSidecars ? sidecarsOf(one).map((other) => other.address!) : [];
      return { workflow, parameters: { ...parameters, source: one.address!, ...(beside.length ? { sidecars: beside } : {}) } };
    });
  }
  if (files.length) throw new Error(`The workflow ${workflow} takes no files: choose another, or remove the files.`);
  if (takes === "source" && !parameters.source) throw new Error("Choose a file, or give the address of one as source.");
  return [{ workflow, parameters }];
}

function orderOf(form: HTMLFormElement, fields: Fields): Fields {
  const [first, ...rest] = mains();
  if (rest.length) throw new Error("A work order has one file: remove the others, and order them one after another.");
  if (!first && !fields.source) throw new Error("Choose a file, or give the address of one.");
  const beside = first && form.dataset.takesSidecars ? sidecarsOf(first).map((one) => one.address!) : [];
  const options = { ...((fields.options ?? {}) as Fields), ...(beside.length ? { sidecars: beside } : {}) };
  return { ...fields, options, platform: form.dataset.platform ?? "", ...(first ? { source: first.address! } : {}) };
}

function nameOf(body: Fields): string {
  const source = String(body.source ?? (body.parameters as Fields | undefined)?.source ?? "");
  return source.split("/").pop() ?? "";
}

const VERDICTS: Record<string, string> = {
  create: "a new release",
  next: "the next revision of a release that exists",
  same: "an order that was accepted before: nothing new is made",
};

function rowOf(body: Fields, answer: Fields, isOrder: boolean): HTMLElement {
  const card = document.createElement("article");
  card.className = "card";
  const said = isOrder ? `${nameOf(body) || "The order"}: ${VERDICTS[String(answer.verdict)] ?? String(answer.verdict)}, revision ${String(answer.revision)}, by ${String(answer.workflow)}` : `${nameOf(body) || String(body.workflow)}: a job of ${String(body.workflow)}`;
  const details = document.createElement("details");
  const values = text("pre", JSON.stringify(answer.parameters, null, 2), "");
  values.tabIndex = 0;
  details.append(text("summary", "All of its inputs, with defaults", ""), values);
  card.append(text("h3", `✓ ${said}`, ""), details);
  return card;
}

function submitButton(bodies: Fields[], isOrder: boolean): HTMLElement {
  const line = text("p", "", "actions");
  const button = text("button", isOrder ? "Submit the order" : bodies.length === 1 ? "Submit the job" : `Submit ${bodies.length} jobs`, "first") as HTMLButtonElement;
  button.type = "button";
  button.addEventListener("click", () => {
    button.disabled = true;
    void submit(bodies, isOrder);
  });
  line.append(button);
  return line;
}

async function submit(bodies: Fields[], isOrder: boolean): Promise<void> {
  const results = document.createElement("ul");
  const jobs: string[] = [];
  preflight.replaceChildren(text("p", "Submitting …", ""), results);
  for (const body of bodies) {
    const line = document.createElement("li");
    try {
      const answer = await send(isOrder ? "POST /api/platform/submit" : "POST /api/jobs", body, {});
      const job = String(answer.job_id);
      jobs.push(job);
      line.append(linkTo(`jobs/${job}`, `${nameOf(body) || String(body.workflow)}: job ${job.slice(0, 12)}`));
    } catch (error) {
      line.append(cardOf(error instanceof Refusal ? error.problem : { detail: (error as Error).message, retryable: true }, nameOf(body)));
    }
    results.append(line);
  }
  if (bodies.length === 1 && jobs.length === 1) location.href = new URL(`jobs/${jobs[0]}`, root).href;
  else preflight.firstElementChild!.textContent = `${jobs.length} of ${bodies.length} were submitted.`;
}

function linkTo(path: string, words: string): HTMLElement {
  const link = text("a", words, "") as HTMLAnchorElement;
  link.href = new URL(path, root).href;
  return link;
}

function text(name: string, words: string, kind: string): HTMLElement {
  const made = document.createElement(name);
  made.className = kind;
  made.textContent = words;
  return made;
}

function say(words: string): void {
  preflight.replaceChildren(text("p", words, "wrong"));
}
