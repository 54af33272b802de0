// Computes the signature of a webhook (standardwebhooks.com) from what a receiver got; nothing leaves the browser.
import { hmac } from "./sha256.js";

const PREFIX = "whsec_";
const TOLERANCE_SECONDS = 300;
const form = document.querySelector<HTMLFormElement>("signature-tester form");
const output = document.querySelector<HTMLOutputElement>("signature-tester output");

form?.addEventListener("submit", (event) => {
  event.preventDefault();
  const field = (name: string): string => (form.elements.namedItem(name) as HTMLInputElement).value;
  try {
    show(sign(field("secret").trim(), field("id").trim(), field("timestamp").trim(), field("body")), field("signature").trim(), Number(field("timestamp")));
  } catch (error) {
    output?.replaceChildren(line((error as Error).message, "wrong"));
  }
});

function sign(secret: string, id: string, timestamp: string, body: string): string {
  const message = new TextEncoder().encode(`${id}.${timestamp}.${body}`);
  return `v1,${btoa(String.fromCharCode(...hmac(readSecret(secret), message)))}`;
}

function readSecret(secret: string): Uint8Array {
  if (!secret.startsWith(PREFIX)) return new TextEncoder().encode(secret);
  try {
    return Uint8Array.from(atob(secret.slice(PREFIX.length)), (character) => character.charCodeAt(0));
  } catch {
    throw new Error(`A secret that begins with ${PREFIX} goes on in base64: is it whole?`);
  }
}

function show(ours: string, theirs: string, timestamp: number): void {
  const code = document.createElement("code");
  code.textContent = ours;
  const computed = line("The signature is ", "");
  computed.append(code);
  const lines = [computed];
  if (theirs) {
    const same = theirs.split(/\s+/).includes(ours);
    lines.push(line(same ? "✓ It is the one that was received." : "✕ It differs from what was received: another secret, or the body was changed, like by a parser that wrote it again.", same ? "" : "wrong"));
  }
  const age = Math.round(Date.now() / 1000 - timestamp);
  if (Math.abs(age) > TOLERANCE_SECONDS) lines.push(line(`The timestamp is ${Math.abs(age)} s ${age > 0 ? "ago" : "ahead"}: receivers refuse what is more than ${TOLERANCE_SECONDS} s off.`, "quiet"));
  output?.replaceChildren(...lines);
}

function line(text: string, kind: string): HTMLElement {
  const made = document.createElement("p");
  made.className = kind;
  made.textContent = text;
  return made;
}
