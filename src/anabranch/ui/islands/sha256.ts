// SHA-256 in pieces, and HMAC over it. The browser's own takes a file only whole, and only where a page came over HTTPS.
const K = new Uint32Array(64);
const START = new Uint32Array(8);

// The constants of FIPS 180-4: fractions of the roots of the first primes.
(() => {
  const fraction = (root: number): number => ((root - Math.floor(root)) * 2 ** 32) >>> 0;
  for (let number = 2, count = 0; count < 64; number += 1) {
    if (isPrime(number)) {
      if (count < 8) START[count] = fraction(Math.sqrt(number));
      K[count] = fraction(Math.cbrt(number));
      count += 1;
    }
  }
})();

function isPrime(number: number): boolean {
  for (let factor = 2; factor * factor <= number; factor += 1) if (number % factor === 0) return false;
  return true;
}

export class Sha256 {
  private readonly state = START.slice();
  private readonly words = new Uint32Array(64);
  private readonly rest = new Uint8Array(64);
  private filled = 0;
  private length = 0;

  update(bytes: Uint8Array): this {
    this.length += bytes.length;
    let at = 0;
    if (this.filled) {
      at = Math.min(64 - this.filled, bytes.length);
      this.rest.set(bytes.subarray(0, at), this.filled);
      this.filled += at;
      if (this.filled < 64) return this;
      this.mix(this.rest, 0);
      this.filled = 0;
    }
    for (; at + 64 <= bytes.length; at += 64) this.mix(bytes, at);
    this.rest.set(bytes.subarray(at));
    this.filled = bytes.length - at;
    return this;
  }

  digest(): Uint8Array {
    const bits = this.length * 8;
    const end = new Uint8Array(this.filled < 56 ? 64 - this.filled : 128 - this.filled);
    end[0] = 0x80;
    const view = new DataView(end.buffer);
    view.setUint32(end.length - 8, Math.floor(bits / 2 ** 32));
    view.setUint32(end.length - 4, bits >>> 0);
    this.update(end);
    const found = new Uint8Array(32);
    this.state.forEach((word, index) => new DataView(found.buffer).setUint32(index * 4, word));
    return found;
  }

  private mix(bytes: Uint8Array, from: number): void {
    const w = this.words;
    for (let i = 0, at = from; i < 16; i += 1, at += 4) w[i] = (bytes[at]! << 24) | (bytes[at + 1]! << 16) | (bytes[at + 2]! << 8) | bytes[at + 3]!;
    for (let i = 16; i < 64; i += 1) {
      const x = w[i - 15]!;
      const y = w[i - 2]!;
      const s = ((x >>> 7) | (x << 25)) ^ ((x >>> 18) | (x << 14)) ^ (x >>> 3);
      const t = ((y >>> 17) | (y << 15)) ^ ((y >>> 19) | (y << 13)) ^ (y >>> 10);
      w[i] = (w[i - 16]! + s + w[i - 7]! + t) | 0;
    }
    let [a, b, c, d, e, f, g, h] = this.state as unknown as [number, number, number, number, number, number, number, number];
    for (let i = 0; i < 64; i += 1) {
      const s = ((e >>> 6) | (e << 26)) ^ ((e >>> 11) | (e << 21)) ^ ((e >>> 25) | (e << 7));
      const one = (h + s + ((e & f) ^ (~e & g)) + K[i]! + w[i]!) | 0;
      const t = ((a >>> 2) | (a << 30)) ^ ((a >>> 13) | (a << 19)) ^ ((a >>> 22) | (a << 10));
      const two = (t + ((a & b) ^ (a & c) ^ (b & c))) | 0;
      h = g;
      g = f;
      f = e;
      e = (d + one) | 0;
      d = c;
      c = b;
      b = a;
      a = (one + two) | 0;
    }
    [a, b, c, d, e, f, g, h].forEach((word, index) => { this.state[index] = this.state[index]! + word; });
  }
}

export const toHex = (bytes: Uint8Array): string => [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");

export function hmac(key: Uint8Array, message: Uint8Array): Uint8Array {
  const block = new Uint8Array(64);
  block.set(key.length > 64 ? new Sha256().update(key).digest() : key);
  const inner = new Sha256().update(block.map((byte) => byte ^ 0x36)).update(message).digest();
  return new Sha256().update(block.map((byte) => byte ^ 0x5c)).update(inner).digest();
}
