// The API's own description, as a page: operations by tag, with what they take and answer.
import { fetchJson } from "./map/catalog.js";

const DEEPEST = 6;
const place = document.getElementById("operations");
const message = document.getElementById("message");

function make(name, content = "", kind = "") {
  const element = document.createElement(name);
  if (kind) element.className = kind;
  if (Array.isArray(content)) element.append(...content);
  else element.textContent = content;
  return element;
}

function operationsOf(api) {
  const found = new Map();
  for (const [path, item] of Object.entries(api.paths)) {
    for (const method of ["get", "post", "put", "patch", "delete"]) {
      const operation = item[method];
      if (!operation) continue;
      const tag = operation.tags?.[0] ?? "other";
      if (!found.has(tag)) found.set(tag, []);
      found.get(tag).push({ ...operation, path, method, parameters: [...(item.parameters ?? []), ...(operation.parameters ?? [])] });
    }
  }
  return found;
}

function resolve(api, value) {
  if (!value?.$ref) return value;
  return value.$ref.slice(2).split("/").reduce((part, step) => part?.[step.replaceAll("~1", "/").replaceAll("~0", "~")], api);
}

// A schema as an example of its shape: names with the words of their types.
function outline(api, given, depth = 0) {
  const schema = resolve(api, given) ?? {};
  if (depth > DEEPEST) return "…";
  if (schema.const !== undefined) return schema.const;
  if (schema.enum) return schema.enum.join(" | ");
  const choices = schema.anyOf ?? schema.oneOf;
  if (choices) {
    const outlines = choices.filter((choice) => choice.type !== "null").map((choice) => outline(api, choice, depth + 1));
    return outlines.length === 1 ? outlines[0] : outlines.every((one) => typeof one === "string") ? outlines.join(" | ") : outlines;
  }
  if (schema.allOf) return Object.assign({}, ...schema.allOf.map((part) => outline(api, part, depth + 1)));
  if (schema.properties) {
    return Object.fromEntries(Object.entries(schema.properties).map(([name, part]) => [name, outline(api, part, depth + 1)]));
  }
  if (schema.type === "array") return [outline(api, schema.items ?? {}, depth + 1)];
  return [schema.type ?? "any", schema.format].flat().filter(Boolean).join(", ");
}

function showParameters(api, operation) {
  const rows = operation.parameters.map((given) => {
    const parameter = resolve(api, given);
    const kind = outline(api, parameter.schema ?? {});
    const about = [parameter.required ? "required." : "", parameter.description ?? ""].filter(Boolean).join(" ");
    return make("tr", [make("td", [make("code", parameter.name)]), make("td", parameter.in), make("td", String(kind)), make("td", about)]);
  });
  return rows.length ? [make("h3", "Parameters"), make("table", rows)] : [];
}

function showContent(api, content) {
  return Object.entries(content ?? {}).flatMap(([type, media]) => {
    const shown = [make("p", type)];
    if (media.schema) shown.push(make("pre", JSON.stringify(outline(api, media.schema), null, 2)));
    return shown;
  });
}

function showResponses(api, operation) {
  const rows = Object.entries(operation.responses ?? {}).map(([status, given]) => {
    const response = resolve(api, given);
    const shown = status.startsWith("2") ? showContent(api, response.content) : [];
    return make("tr", [make("td", [make("code", status)]), make("td", [make("p", response.description ?? ""), ...shown])]);
  });
  return [make("h3", "Answers"), make("table", rows)];
}

function scopeOf(operation) {
  const scopes = (operation.security ?? []).flatMap((one) => Object.values(one).flat());
  return scopes.length ? [make("p", `Needs the scope ${scopes.join(", ")}.`)] : [];
}

function fill(api, operation, details) {
  const request = resolve(api, operation.requestBody);
  details.append(
    make("div", [
      make("p", operation.description ?? ""),
      ...scopeOf(operation),
      ...showParameters(api, operation),
      ...(request ? [make("h3", "Body"), ...showContent(api, request.content)] : []),
      ...showResponses(api, operation),
    ], "body"),
  );
}

function show(api, operation) {
  const summary = make("summary", [make("span", operation.method, "method"), make("code", operation.path), make("span", operation.summary ?? "")]);
  const details = make("details", [summary]);
  details.id = operation.operationId ?? "";
  details.dataset.words = `${operation.method} ${operation.path} ${operation.summary} ${operation.description}`.toLowerCase();
  details.addEventListener("toggle", () => fill(api, operation, details), { once: true });
  return details;
}

function find(words) {
  for (const section of place.children) {
    const shown = [...section.querySelectorAll("details")].filter((details) => {
      details.hidden = !words.every((word) => details.dataset.words.includes(word));
      return !details.hidden;
    });
    section.hidden = shown.length === 0;
  }
}

try {
  const api = await fetchJson("openapi.json");
  for (const [tag, operations] of operationsOf(api)) {
    place.append(make("section", [make("h2", tag), ...operations.map((operation) => show(api, operation))]));
  }
  message.hidden = true;
  const search = document.getElementById("search");
  search.addEventListener("input", () => find(search.value.toLowerCase().split(/\s+/).filter(Boolean)));
  document.getElementById(location.hash.slice(1))?.setAttribute("open", "");
} catch (error) {
  message.textContent = error.message;
  message.className = "wrong";
}
