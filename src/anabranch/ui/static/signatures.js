// Made by `make pages` from src/anabranch/ui/islands.
import { hmac } from "./sha256.js";
const PREFIX = "whsec_";
const TOLERANCE_SECONDS = 300;
const form = document.querySelector("signature-tester form");
const output = document.querySelector("signature-tester output");
form?.addEventListener("submit", (event) => {
  event.preventDefault();
  const field = (name) => form.elements.namedItem(name).value;
  try {
    show(sign(field("secret").trim(), field("id").trim(), field("timestamp").trim(), field("body")), field("signature").trim(), Number(field("timestamp")));
  } catch (error) {
    output?.replaceChildren(line(error.message, "wrong"));
  }
});
function sign(secret, id, timestamp, body) {
  const message = new TextEncoder().encode(`${id}.${timestamp}.${body}`);
  return `v1,${btoa(String.fromCharCode(...hmac(readSecret(secret), message)))}`;
}
function readSecret(secret) {
  if (!secret.startsWith(PREFIX)) return new TextEncoder().encode(secret);
  try {
    return Uint8Array.from(atob(secret.slice(PREFIX.length)), (character) => character.charCodeAt(0));
  } catch {
    throw new Error(`A secret that begins with ${PREFIX} goes on in base64: is it whole?`);
  }
}
function show(ours, theirs, timestamp) {
  const code = document.createElement("code");
  code.textContent = ours;
  const computed = line("The signature is ", "");
  computed.append(code);
  const lines = [computed];
  if (theirs) {
    const same = theirs.split(/\s+/).includes(ours);
    lines.push(line(same ? "✓ It is the one that was received." : "✕ It differs from what was received: another secret, or the body was changed, like by a parser that wrote it again.", same ? "" : "wrong"));
  }
  const age = Math.round(Date.now() / 1e3 - timestamp);
  if (Math.abs(age) > TOLERANCE_SECONDS) lines.push(line(`The timestamp is ${Math.abs(age)} s ${age > 0 ? "ago" : "ahead"}: receivers refuse what is more than ${TOLERANCE_SECONDS} s off.`, "quiet"));
  output?.replaceChildren(...lines);
}
function line(text, kind) {
  const made = document.createElement("p");
  made.className = kind;
  made.textContent = text;
  return made;
}
