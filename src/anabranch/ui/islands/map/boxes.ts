// Boxes of longitude and latitude, which may cross 180 degrees: then they begin east of where they end.
export type Box = [number, number, number, number];
export type Bounds = [[number, number], [number, number]];

const turn = (longitude: number): number => ((longitude % 360) + 360) % 360;

// The box with a west below its east, which may be over 180.
export function boundsOf([west, south, east, north]: Box): Bounds {
  return [[west, south], [east < west ? east + 360 : east, north]];
}

// The smallest box around all of these: its sides are where the widest gap between them is.
export function unite(boxes: Box[]): Box | null {
  if (boxes.length === 0) return null;
  const south = Math.min(...boxes.map((box) => box[1]));
  const north = Math.max(...boxes.map((box) => box[3]));
  if (boxes.some(([west, , east]) => east - west >= 359)) return [-180, south, 180, north];
  const spans = boxes.map(([west, , east]) => ({ from: turn(west), length: turn(east - west) })).sort((a, b) => a.from - b.from);
  let [gap, west, east] = [-1, 0, 0];
  let reached = Math.max(...spans.map(({ from, length }) => from + length - 360));
  for (const { from, length } of spans) {
    if (from - reached > gap) [gap, west, east] = [from - reached, from, reached];
    reached = Math.max(reached, from + length);
  }
  if (gap <= 0) return [-180, south, 180, north];
  return [fold(west), south, fold(east), north];
}

export const fold = (longitude: number): number => ((((longitude + 180) % 360) + 360) % 360) - 180;

export function holds([west, south, east, north]: Box, longitude: number, latitude: number): boolean {
  const at = fold(longitude);
  return latitude >= south && latitude <= north && (west <= east ? at >= west && at <= east : at >= west || at <= east);
}
