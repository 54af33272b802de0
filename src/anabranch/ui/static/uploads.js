// Made by `make pages` from src/anabranch/ui/islands.
import { Refusal } from "./calls.js";
import { fetchKeyed, root } from "./key.js";
import { Sha256, toHex } from "./sha256.js";
const MAX_WHOLE_BYTES = 16 * 2 ** 20;
const BYTES = { "Content-Type": "application/octet-stream", Accept: "application/json" };
async function upload(file, onProgress) {
  const query = `?name=${encodeURIComponent(file.name)}`;
  onProgress(0, "Uploading");
  if (file.size <= MAX_WHOLE_BYTES) {
    const { address: address2 } = await ask(`api/uploads${query}`, { method: "POST", body: file });
    onProgress(1, "Uploaded");
    return address2;
  }
  const path = `api/uploads/${await hash(file, (share) => onProgress(share, "Reading"))}`;
  const state = await ask(path + query, {});
  const count = Math.ceil(file.size / state.part_bytes);
  for (let number = 0; number < count && !state.uploaded; number += 1) {
    onProgress(number / count, "Uploading");
    if (state.parts.includes(number)) continue;
    const part = file.slice(number * state.part_bytes, (number + 1) * state.part_bytes);
    await ask(`${path}/parts/${number}`, { method: "PUT", body: part });
  }
  const { address } = state.uploaded ?? await ask(`${path}${query}&parts=${count}`, { method: "POST" });
  onProgress(1, "Uploaded");
  return address;
}
async function hash(file, onProgress) {
  const digest = new Sha256();
  const reader = file.stream().getReader();
  for (let read = 0; ; ) {
    const { value, done } = await reader.read();
    if (done) return toHex(digest.digest());
    digest.update(value);
    read += value.length;
    onProgress(read / file.size);
  }
}
async function ask(path, init) {
  const answer = await fetchKeyed(new URL(path, root).href, BYTES, init);
  const said = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Refusal({ detail: `The API answered ${answer.status}.`, ...said });
  return said;
}
export {
  upload
};
