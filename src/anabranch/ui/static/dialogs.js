// Made by `make pages` from src/anabranch/ui/islands.
async function confirmCall(element, button) {
  const text = element.dataset.confirm;
  if (text === void 0) return {};
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
    let said = null;
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
function addReason(form, required) {
  const label = make("label", required ? "Reason" : "Reason (may be left out)");
  const field = document.createElement("textarea");
  field.required = required;
  field.maxLength = 1e3;
  field.addEventListener("input", () => field.setCustomValidity(required && !field.value.trim() ? "Give a reason." : ""));
  label.className = "reason";
  label.append(field);
  form.append(label);
  return field;
}
function addButtons(dialog, verb, danger) {
  const line = make("p", "");
  line.className = "actions";
  const go = make("button", verb);
  go.className = danger ? "danger" : "first";
  const stop = make("button", "Cancel");
  stop.type = "button";
  stop.addEventListener("click", () => dialog.close());
  line.append(go, stop);
  return line;
}
function showSecret(place, name, secret) {
  const card = make("article", "");
  card.className = "card secret";
  const code = make("code", secret);
  code.id = "secret";
  const line = make("pre", "");
  line.tabIndex = 0;
  line.append(code);
  const copy = make("button", "Copy");
  copy.type = "button";
  copy.dataset.copy = "#secret";
  card.append(make("h3", `The ${name}, which is shown only now`), make("p", "Copy it to where it is used: it is not stored, and nobody can show it again."), line, copy);
  place.replaceChildren(card);
  card.scrollIntoView({ block: "nearest" });
}
function make(name, text) {
  const element = document.createElement(name);
  if (text) element.textContent = text;
  return element;
}
export {
  confirmCall,
  showSecret
};
