// The footprints of items on the map: their areas, their edges, and a dot for those that are too small to see.
import type { Item } from "./catalog.js";

export type Footprint = Pick<Item, "bbox" | "geometry">;
type Feature = GeoJSON.Feature<GeoJSON.Geometry, { index: number }>;

export function printsOf(items: Footprint[]): GeoJSON.FeatureCollection {
  const features = items.flatMap((item, index) => [area(item, index), outline(item, index), centre(item, index)]).filter((one) => one !== null);
  return { type: "FeatureCollection", features };
}

function area(item: Footprint, index: number): Feature | null {
  return item.geometry && { type: "Feature", geometry: item.geometry, properties: { index } };
}

// The edges of the footprint; where it is cut at 180 degrees it has none.
function outline({ geometry }: Footprint, index: number): Feature | null {
  const polygons = geometry?.type === "Polygon" ? [geometry.coordinates] : geometry?.type === "MultiPolygon" ? geometry.coordinates : null;
  return polygons && { type: "Feature", geometry: { type: "MultiLineString", coordinates: polygons.flat().flatMap(uncut) }, properties: { index } };
}

function uncut(ring: GeoJSON.Position[]): GeoJSON.Position[][] {
  const lines: GeoJSON.Position[][] = [[]];
  for (const [at, point] of ring.entries()) {
    if (at && Math.abs(point[0]!) >= 180 && ring[at - 1]![0] === point[0]) lines.push([]);
    lines.at(-1)!.push(point);
  }
  return lines.filter((line) => line.length > 1);
}

function centre(item: Footprint, index: number): Feature | null {
  if (!item.bbox) return null;
  const [west, south, east, north] = item.bbox;
  const middle = (west + (east < west ? east + 360 : east)) / 2;
  return { type: "Feature", geometry: { type: "Point", coordinates: [middle > 180 ? middle - 360 : middle, (south + north) / 2] }, properties: { index } };
}
