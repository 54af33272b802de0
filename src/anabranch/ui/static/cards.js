// Made by `make pages` from src/anabranch/ui/islands.
import { root } from "./key.js";
function cardOf(problem, about = "") {
  const card = make("article", "failure");
  card.setAttribute("role", "alert");
  const title = make("h3", "");
  const mark = make("span", "mark", "✕");
  mark.setAttribute("aria-hidden", "true");
  title.append(mark, ` ${[about, problem.detail ?? problem.title ?? "The request failed"].filter(Boolean).join(": ")}`);
  const facts = document.createElement("dl");
  if (problem.code) facts.append(make("dt", "", "Code"), linkTo(problem.code));
  if (problem.instance) facts.append(make("dt", "", "Where"), make("dd", "", problem.instance));
  if (problem.remedy) facts.append(make("dt", "", "Next step"), make("dd", "", problem.remedy));
  facts.append(make("dt", "", "Again?"), make("dd", "", problem.retryable ? "The same request may succeed later." : "The same request will fail again."));
  if (problem.correlation_id) facts.append(make("dt", "", "For support"), make("dd", "", `correlation id ${problem.correlation_id}`));
  card.append(title, facts);
  if (problem.errors?.length) {
    const list = document.createElement("ul");
    list.append(...problem.errors.map((mistake) => make("li", "", `${mistake.where}: ${mistake.detail}`)));
    card.append(list);
  }
  return card;
}
function linkTo(code) {
  const link = document.createElement("a");
  link.href = new URL(`errors/${encodeURIComponent(code)}`, root).href;
  link.append(make("code", "", code));
  const cell = document.createElement("dd");
  cell.append(link);
  return cell;
}
function make(name, kind, text = "") {
  const element = document.createElement(name);
  if (kind) element.className = kind;
  if (text) element.textContent = text;
  return element;
}
export {
  cardOf
};
