// Asks before something is done that can't be undone, and shows secrets that are shown once.
//
// data-confirm   what will happen: a dialog says it, and waits for a yes.
// data-reason    `required` or `optional`: the dialog asks for a reason, too, which joins the body as `reason`, or under the
//                name in data-reason-name.
// data-secret    the field of the answer that is shown with a button that copies it.

export interface Said {
  [name: string]: string;
}

// What the dialog adds to the body; null: it was cancelled.
export async function confirmCall(element: HTMLElement, button?: HTMLElement): Promise<Said | null> {
  const text = element.dataset.confirm;
  if (text === undefined) return {};
  const dialog = document.createElement("dialog");
  const form = document.createElement("form");
  const verb = button?.textContent?.trim() || "Continue";
  const title = make("h2", element.dataset.title ?? `${verb}?`);
  title.id = "confirm-title";
  dialog.setAttribute("aria-labelledby", title.id);
  form.method = "dialog";
  form.append(title, make("p", text));
  const reason = element.dataset.reason ? addReason(form, element.dataset.reason === "required") : null;
  form.append(addButtons(dialog, verb, button?.classList.contains("danger") ?? false));
  dialog.append(form);
  document.body.append(dialog);
  dialog.showModal();
  return new Promise((done) => {
    let said: Said | null = null;
    form.addEventListener("submit", () => {
      const given = reason?.value.trim();
      said = given ? { [element.dataset.reasonName ?? "reason"]: given } : {};
    });
    dialog.addEventListener("close", () => {
      dialog.remove();
      done(said);
    });
  });
}

function addReason(form: HTMLFormElement, required: boolean): HTMLTextAreaElement {
  const label = make("label", required ? "Reason" : "Reason (may be left out)");
  const field = document.createElement("textarea");
  field.required = required;
  field.maxLength = 1000;
  // Blanks are no reason, and the API refuses them.
  field.addEventListener("input", () => field.setCustomValidity(required && !field.value.trim() ? "Give a reason." : ""));
  label.className = "reason";
  label.append(field);
  form.append(label);
  return field;
}

function addButtons(dialog: HTMLDialogElement, verb: string, danger: boolean): HTMLElement {
  const line = make("p", "");
  line.className = "actions";
  const go = make("button", verb);
  go.className = danger ? "danger" : "first";
  const stop = make("button", "Cancel") as HTMLButtonElement;
  stop.type = "button";
  stop.addEventListener("click", () => dialog.close());
  line.append(go, stop);
  return line;
}

// A secret that only this answer has.
export function showSecret(place: HTMLElement, name: string, secret: string): void {
  const card = make("article", "");
  card.className = "card secret";
  const code = make("code", secret);
  code.id = "secret";
  const line = make("pre", "");
  line.tabIndex = 0;
  line.append(code);
  const copy = make("button", "Copy") as HTMLButtonElement;
  copy.type = "button";
  copy.dataset.copy = "#secret";
  card.append(make("h3", `The ${name}, which is shown only now`), make("p", "Copy it to where it is used: it is not stored, and nobody can show it again."), line, copy);
  place.replaceChildren(card);
  card.scrollIntoView({ block: "nearest" });
}

function make(name: string, text: string): HTMLElement {
  const element = document.createElement(name);
  if (text) element.textContent = text;
  return element;
}
