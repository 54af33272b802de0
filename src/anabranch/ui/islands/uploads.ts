// Uploads a file as the client does: a small one whole, a large one in parts, of which only those are sent that are missing.
import { Refusal } from "./calls.js";
import { fetchKeyed, root, type Problem } from "./key.js";
import { Sha256, toHex } from "./sha256.js";

const MAX_WHOLE_BYTES = 16 * 2 ** 20;
const BYTES = { "Content-Type": "application/octet-stream", Accept: "application/json" };

interface State {
  uploaded: { address: string } | null;
  part_bytes: number;
  parts: number[];
}

export async function upload(file: File, onProgress: (share: number, what: string) => void): Promise<string> {
  const query = `?name=${encodeURIComponent(file.name)}`;
  onProgress(0, "Uploading");
  if (file.size <= MAX_WHOLE_BYTES) {
    const { address } = await ask<{ address: string }>(`api/uploads${query}`, { method: "POST", body: file });
    onProgress(1, "Uploaded");
    return address;
  }
  const path = `api/uploads/${await hash(file, (share) => onProgress(share, "Reading"))}`;
  const state = await ask<State>(path + query, {});
  const count = Math.ceil(file.size / state.part_bytes);
  for (let number = 0; number < count && !state.uploaded; number += 1) {
    onProgress(number / count, "Uploading");
    if (state.parts.includes(number)) continue;
    const part = file.slice(number * state.part_bytes, (number + 1) * state.part_bytes);
    await ask(`${path}/parts/${number}`, { method: "PUT", body: part });
  }
  const { address } = state.uploaded ?? (await ask<{ address: string }>(`${path}${query}&parts=${count}`, { method: "POST" }));
  onProgress(1, "Uploaded");
  return address;
}

async function hash(file: File, onProgress: (share: number) => void): Promise<string> {
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

async function ask<Answer>(path: string, init: RequestInit): Promise<Answer> {
  const answer = await fetchKeyed(new URL(path, root).href, BYTES, init);
  const said = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Refusal({ detail: `The API answered ${answer.status}.`, ...said } as Problem);
  return said as Answer;
}
