"""Polygons around the true pixels of a mask, simplified without self-intersections."""

import numpy as np
from rasterio.features import rasterize, shapes

from anabranch.plugins.raster.pixels import Mask

__all__ = ["Point", "Polygon", "Ring", "bounds", "grow", "hull", "outlines", "thin"]

Point = tuple[float, float]
Ring = list[Point]
Polygon = list[Ring]

TOLERANCE_PIXELS = 1.0
MAX_RING_POINTS = 400
MAX_POLYGONS = 20
MIN_RING_POINTS = 4  # a triangle, closed
# A hole smaller than this part of the largest polygon is noise at the scale of a footprint.
NOISE_SHARE = 0.002


def outlines(mask: Mask) -> list[Polygon]:
    """Polygons in pixels of the mask, rings counterclockwise outside and clockwise inside once rows run south.

    They cover all of it: where there are too many parts, neighbouring ones are merged.
    """
    if not mask.any():
        return []
    top, left, bottom, right = bounds(mask)
    inside, step = mask[top:bottom, left:right], 1
    while True:
        found = [_place(polygon, step, (left, top, right, bottom)) for polygon in _polygons(_coarsen(inside, step))]
        if step >= max(inside.shape) or _is_plain(found):
            return found
        step *= 2


def bounds(mask: Mask) -> tuple[int, int, int, int]:
    """The first row and column with a true pixel, and those after the last."""
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    return int(rows[0]), int(columns[0]), int(rows[-1]) + 1, int(columns[-1]) + 1


def grow(mask: Mask) -> Mask:
    """The mask with the eight neighbours of each true pixel."""
    for _ in mask.shape:
        wider = np.pad(mask, ((1, 1), (0, 0)))
        mask = (wider[:-2] | wider[1:-1] | wider[2:]).T
    return mask


def hull(mask: Mask) -> np.ndarray:
    """The corners of the first and the last true pixel of each row and column, as pairs of column and row."""
    pixels = np.concatenate([_ends(mask)[:, ::-1], _ends(mask.T)])
    corners = pixels[:, None] + np.array([(0, 0), (0, 1), (1, 0), (1, 1)])
    wide = mask.shape[0] + 1
    numbers = np.unique(corners[..., 0] * wide + corners[..., 1])  # far quicker than unique pairs
    return np.stack(np.divmod(numbers, wide), axis=1).astype(np.float64)


def _ends(mask: Mask) -> np.ndarray:
    """The first and the last true pixel of each row, as pairs of row and column."""
    rows = np.flatnonzero(mask.any(axis=1))
    first, last = mask[rows].argmax(axis=1), mask.shape[1] - 1 - mask[rows, ::-1].argmax(axis=1)
    return np.concatenate([np.stack([rows, ends], axis=1) for ends in (first, last)])


def _coarsen(mask: Mask, step: int) -> Mask:
    rows, columns = (np.arange(0, size, step) for size in mask.shape)
    return np.asarray(np.logical_or.reduceat(np.logical_or.reduceat(mask, rows, axis=0), columns, axis=1))


def _polygons(mask: Mask) -> list[Polygon]:
    if mask.all():
        height, width = map(float, mask.shape)
        return [[[(0.0, 0.0), (0.0, height), (width, height), (width, 0.0), (0.0, 0.0)]]]
    mask = _weld(mask)
    found = _vectorize(mask)
    least = NOISE_SHARE * max(_area(polygon[0]) for polygon in found)
    noise = [hole for polygon in found for hole in polygon[1:] if _area(hole) < least]
    if noise:  # also the islands in them, which would be polygons within a polygon
        holes = [{"type": "Polygon", "coordinates": [hole]} for hole in noise]
        found = _vectorize(mask | (rasterize(holes, out_shape=mask.shape, dtype=np.uint8) > 0))
    return sorted(found, key=lambda polygon: -_area(polygon[0]))


def _weld(mask: Mask) -> Mask:
    """The mask without pixels that touch only at a corner, where a ring would touch itself."""
    mask = mask.copy()
    while True:
        parts = mask[:-1, :-1], mask[:-1, 1:], mask[1:, 1:], mask[1:, :-1]
        touching = (parts[0] == parts[2]) & (parts[1] == parts[3]) & (parts[0] != parts[1])
        if not touching.any():
            return mask
        for part in parts:
            part |= touching


def _vectorize(mask: Mask) -> list[Polygon]:
    return [shape["coordinates"] for shape, value in shapes(mask.astype(np.uint8), mask=mask) if value]


def _place(polygon: Polygon, step: int, box: tuple[int, int, int, int]) -> Polygon:
    """A polygon of coarser pixels in pixels of the mask, clipped to the box of the true pixels."""
    left, top, right, bottom = box
    return _simplify(
        [[(min(left + x * step, right), min(top + y * step, bottom)) for x, y in ring] for ring in polygon]
    )


def _is_plain(polygons: list[Polygon]) -> bool:
    points = sum(len(ring) for polygon in polygons for ring in polygon)
    return len(polygons) <= MAX_POLYGONS and points <= MAX_RING_POINTS * MAX_POLYGONS


def _simplify(polygon: Polygon) -> Polygon:
    return [_orient(thin(ring, TOLERANCE_PIXELS), outer=number == 0) for number, ring in enumerate(polygon)]


def thin(ring: Ring, tolerance: float) -> Ring:
    """The ring with fewer points, moved by about the tolerance; all points where fewer would make it cross itself."""
    while True:
        found = _reduce(ring, tolerance)
        if len(found) <= MAX_RING_POINTS:
            return found if len(found) >= MIN_RING_POINTS and _is_simple(found) else _reduce(ring, 0.0)
        tolerance *= 2


def _reduce(ring: Ring, tolerance: float) -> Ring:
    """The Douglas-Peucker algorithm, split at the point farthest from the first."""
    points = np.asarray(ring, float)
    far = int(np.argmax(((points - points[0]) ** 2).sum(axis=1)))
    keep = {0, far, len(points) - 1}
    open_parts = [(0, far), (far, len(points) - 1)]
    while open_parts:
        begin, end = open_parts.pop()
        if end - begin < 2:
            continue
        apart = _distances(points[begin + 1 : end], points[begin], points[end])
        worst = int(np.argmax(apart))
        if apart[worst] > tolerance:
            middle = begin + 1 + worst
            keep.add(middle)
            open_parts += [(begin, middle), (middle, end)]
    return [(float(x), float(y)) for x, y in points[sorted(keep)]]


def _distances(points: np.ndarray, begin: np.ndarray, end: np.ndarray) -> np.ndarray:
    line, from_begin = end - begin, points - begin
    length = float(np.hypot(*line))
    if not length:
        return np.asarray(np.hypot(from_begin[:, 0], from_begin[:, 1]))
    return np.asarray(np.abs(line[0] * from_begin[:, 1] - line[1] * from_begin[:, 0]) / length)


def _is_simple(ring: Ring) -> bool:
    """Whether no two sides of the ring cross."""
    points = np.asarray(ring)
    begin, end = points[:-1], points[1:]
    for at in range(len(begin) - 2):
        others = slice(at + 2, len(begin) - (at == 0))
        if _crosses(begin[at], end[at], begin[others], end[others]).any():
            return False
    return True


def _crosses(a: np.ndarray, b: np.ndarray, c: np.ndarray, d: np.ndarray) -> np.ndarray:
    sides = _side(a, b, c) * _side(a, b, d), _side(c, d, a) * _side(c, d, b)
    return np.asarray((np.minimum(*sides) < 0) & (np.maximum(*sides) <= 0))


def _side(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    line, to_c = b - a, c - a
    return np.asarray(np.sign(line[..., 0] * to_c[..., 1] - line[..., 1] * to_c[..., 0]))


def _area(ring: Ring) -> float:
    points = np.asarray(ring)
    return float(abs(_signed(points)))


def _signed(points: np.ndarray) -> float:
    return float(np.sum(points[:-1, 0] * points[1:, 1] - points[1:, 0] * points[:-1, 1]) / 2)


def _orient(ring: Ring, *, outer: bool) -> Ring:
    # Rows run south, so what turns clockwise in pixels turns counterclockwise on the map.
    return ring if (_signed(np.asarray(ring)) < 0) == outer else ring[::-1]
