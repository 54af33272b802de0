"""Polygons around the true pixels of a mask, in columns and rows."""

from collections.abc import Sequence

import numpy as np
import shapely
from numpy.typing import NDArray
from rasterio.features import shapes
from shapely import Geometry, Polygon
from shapely.geometry import shape

from anabranch.geo.degrees import Floats

__all__ = ["Mask", "bounds", "grow", "hull", "outlines", "simplify"]

Mask = NDArray[np.bool_]

TOLERANCE_PIXELS = 1.0
MAX_DOUBLINGS = 12
MAX_RING_POINTS = 400
MAX_POLYGONS = 20
TRIANGLE_POINTS = 4  # closed
# A hole smaller than this part of the largest polygon is noise at the scale of a footprint.
NOISE_SHARE = 0.002


def outlines(mask: Mask) -> list[Polygon]:
    """Polygons around all of the mask, simplified; counterclockwise once rows run south.

    Where there are too many parts, neighbouring ones are merged.
    """
    if not mask.any():
        return []
    top, left, bottom, right = bounds(mask)
    inside, step = mask[top:bottom, left:right], 1
    while True:
        coarse = _polygons(_coarsen(inside, step))
        placed = shapely.transform(coarse, lambda p: np.minimum(p * step + (left, top), (right, bottom)))  # noqa: B023
        found = shapely.orient_polygons([_simplify(polygon) for polygon in placed], exterior_cw=True)
        points = shapely.get_num_coordinates(found).sum()
        if step >= max(inside.shape) or (len(found) <= MAX_POLYGONS and points <= MAX_RING_POINTS * MAX_POLYGONS):
            return list(found)
        step *= 2


def simplify(shape: Geometry, tolerance: float) -> Geometry:
    """A shape with fewer points, moved by about the tolerance, or by more where it has very many."""
    most = MAX_RING_POINTS * (1 + shapely.get_num_interior_rings(shape))
    found = shapely.simplify(shape, tolerance)
    for power in range(MAX_DOUBLINGS):
        if shapely.get_num_coordinates(found) <= most:
            break
        found = shapely.simplify(shape, tolerance * 2.0 ** (power + 1))
    return found


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


def hull(mask: Mask) -> Floats:
    """The corners of the first and the last true pixel of each row and column, as pairs of column and row."""
    ends = np.zeros_like(mask)
    for pixels, found in ((mask, ends), (mask.T, ends.T)):
        rows = np.flatnonzero(pixels.any(axis=1))
        for columns in (pixels[rows].argmax(axis=1), -1 - pixels[rows, ::-1].argmax(axis=1)):
            found[rows, columns] = True
    wider = np.pad(ends, 1)
    corners = wider[1:, 1:] | wider[1:, :-1] | wider[:-1, 1:] | wider[:-1, :-1]
    return np.argwhere(corners)[:, ::-1].astype(np.float64)


def _coarsen(mask: Mask, step: int) -> Mask:
    if step == 1:
        return mask
    rows, columns = (np.arange(0, size, step) for size in mask.shape)
    return np.asarray(np.logical_or.reduceat(np.logical_or.reduceat(mask, rows, axis=0), columns, axis=1))


def _polygons(mask: Mask) -> list[Polygon]:
    """The outlines, the largest first, without small holes."""
    if mask.all():
        return [shapely.box(0, 0, mask.shape[1], mask.shape[0])]
    mask = _weld(mask)
    found = [shape(outline) for outline, _ in shapes(mask.astype(np.uint8), mask=mask)]
    least = NOISE_SHARE * _areas(found).max()
    filled = [Polygon(p.exterior, [hole for hole in p.interiors if Polygon(hole).area >= least]) for p in found]
    # The islands in a hole that is gone would be polygons within a polygon.
    found = shapely.get_parts(shapely.union_all(filled))
    return list(found[np.argsort(-_areas(found))])


def _areas(polygons: Sequence[Polygon]) -> Floats:
    """Of polygons with their holes."""
    return np.asarray(shapely.area(shapely.polygons(shapely.get_exterior_ring(polygons))))


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


def _simplify(polygon: Polygon) -> Polygon:
    found = simplify(polygon, TOLERANCE_PIXELS)
    # A triangle may be half of a small rectangle.
    return found if len(found.exterior.coords) > TRIANGLE_POINTS else shapely.simplify(polygon, 0)
