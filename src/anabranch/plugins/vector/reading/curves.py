"""Geometries that GEOS and PostGIS's simple types don't have: arcs become short lines, surfaces become polygons."""

import math
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from anabranch.plugins.vector.models import Notes

if TYPE_CHECKING:
    import numpy.typing as npt

    from anabranch.plugins.vector.models import Rows

    Coordinates = npt.NDArray[np.float64]

__all__ = ["simplify_types"]

STEP = math.radians(4)  # as GDAL strokes arcs
MAX_DEPTH = 32
LINE, POLYGON, MULTI_LINE, MULTI_POLYGON, COLLECTION = 2, 3, 5, 6, 7
CIRCULAR, COMPOUND, CURVE_POLYGON, MULTI_CURVE, MULTI_SURFACE, SURFACE, TIN, TRIANGLE = 8, 9, 10, 11, 12, 15, 16, 17
CURVES = (CIRCULAR, COMPOUND, CURVE_POLYGON, MULTI_CURVE, MULTI_SURFACE)
PLAIN = {
    CIRCULAR: LINE,
    COMPOUND: LINE,
    CURVE_POLYGON: POLYGON,
    TRIANGLE: POLYGON,
    MULTI_CURVE: MULTI_LINE,
    MULTI_SURFACE: MULTI_POLYGON,
    SURFACE: MULTI_POLYGON,
    TIN: MULTI_POLYGON,
}


def simplify_types(geometry: pa.Array, rows: "Rows", changed: Notes) -> pa.Array:
    """The geometries, with curves and surfaces replaced; what can't be parsed stays, for cleaning to report."""
    odd = np.flatnonzero(_base_types(geometry) >= COLLECTION)
    if not len(odd):
        return geometry
    values = geometry.to_pylist()
    replaced: dict[str, list[int]] = {}
    for place in odd.tolist():
        walk = _Walk(values[place])
        try:
            plain = walk.geometry(0)
        except (_Unreadable, ValueError, struct.error, IndexError):
            continue
        if walk.changed:
            values[place] = plain
            replaced.setdefault(walk.changed, []).append(int(rows[place]))
    for what, numbers in replaced.items():
        changed.add(what, numbers)
    return pa.array(values, geometry.type) if replaced else geometry


def _base_types(geometry: pa.Array) -> "npt.NDArray[np.int64]":
    """The type of each geometry without its dimensions; 0 where there is none."""
    size = len(geometry)
    _, ends, data = geometry.buffers()
    offsets = np.frombuffer(ends, np.int32)[geometry.offset : geometry.offset + size + 1].astype(np.int64)
    starts = offsets[:-1]
    whole = np.flatnonzero(np.diff(offsets) >= 5)  # the order of bytes, and the type
    types = np.zeros(size, np.int64)
    if not len(whole):
        return types
    letters = np.frombuffer(data, np.uint8)
    first = starts[whole]
    quads = np.stack([letters[first + place] for place in range(1, 5)], axis=1).copy()
    little = quads.view("<u4")[:, 0].astype(np.int64)
    big = quads.view(">u4")[:, 0].astype(np.int64)
    types[whole] = (np.where(letters[first] == 1, little, big) & 0x0FFFFFFF) % 1000
    return types


class _Unreadable(Exception):
    """The bytes are no geometry that we know."""


class _Walk:
    """One geometry in WKB, read from its start; `changed` says what was replaced in it."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        self.changed = ""

    def geometry(self, depth: int) -> bytes:
        """The next geometry, with plain types."""
        order, base, code, dimensions = self._head(depth)
        if base in CURVES:
            self.changed = "curve_to_lines"
        elif base in PLAIN and not self.changed:
            self.changed = "surface_to_polygons"
        plain = PLAIN.get(base, base)
        head = struct.pack("<BI", 1, code - base + plain)
        if base in (LINE, CIRCULAR, COMPOUND):
            return head + _pack_points(self._line(order, base, dimensions, depth))
        if base in (POLYGON, TRIANGLE):
            return head + self._many(order, lambda: _pack_points(self._points(order, dimensions)))
        if base == CURVE_POLYGON:
            return head + self._many(order, lambda: _pack_points(self._curve(depth + 1)))
        if base == 1:
            return head + self._take(dimensions, order).tobytes()
        return head + self._many(order, lambda: self.geometry(depth + 1))

    def _head(self, depth: int) -> tuple[str, int, int, int]:
        if depth > MAX_DEPTH:
            raise _Unreadable("nested too deep")
        order = "<" if self._data[self._at] == 1 else ">"
        (code,) = struct.unpack_from(f"{order}I", self._data, self._at + 1)
        self._at += 5
        base, dimensions = code % 1000, 2 + (1, 1, 2)[code // 1000 - 1] if code >= 1000 else 2
        if not 1 <= base <= TRIANGLE or code > 3017:
            raise _Unreadable("an unknown type")
        return order, base, code, dimensions

    def _curve(self, depth: int) -> "Coordinates":
        order, base, _, dimensions = self._head(depth)
        return self._line(order, base, dimensions, depth)

    def _line(self, order: str, base: int, dimensions: int, depth: int) -> "Coordinates":
        if base == LINE:
            return self._points(order, dimensions)
        if base == CIRCULAR:
            return _stroke(self._points(order, dimensions))
        if base != COMPOUND:
            raise _Unreadable("no curve")
        parts = [self._curve(depth + 1) for _ in range(self._count(order))]
        kept = parts[:1] + [part[1:] for part in parts[1:]]
        return np.concatenate(kept) if kept else np.empty((0, dimensions))

    def _many(self, order: str, part: Callable[[], bytes]) -> bytes:
        count = self._count(order)
        return struct.pack("<I", count) + b"".join(part() for _ in range(count))

    def _count(self, order: str) -> int:
        (count,) = struct.unpack_from(f"{order}I", self._data, self._at)
        self._at += 4
        return int(count)

    def _points(self, order: str, dimensions: int) -> "Coordinates":
        count = self._count(order)
        return self._take(count * dimensions, order).reshape(count, dimensions)

    def _take(self, count: int, order: str) -> "Coordinates":
        values = np.frombuffer(self._data, f"{order}f8", count, self._at)
        self._at += 8 * count
        return values.astype("<f8")


def _pack_points(points: "Coordinates") -> bytes:
    return struct.pack("<I", len(points)) + points.tobytes()


def _stroke(points: "Coordinates") -> "Coordinates":
    """The points of arcs, each of which has three: its begin, one on its way, and its end."""
    if len(points) < 3 or len(points) % 2 == 0:
        return points
    parts = [points[:1]]
    for place in range(0, len(points) - 2, 2):
        parts.append(_arc(points[place], points[place + 1], points[place + 2]))
    return np.concatenate(parts)


def _arc(begin: "Coordinates", way: "Coordinates", end: "Coordinates") -> "Coordinates":
    """The points of an arc after its first, at most some degrees apart."""
    centre = _centre(begin[:2], way[:2], end[:2])
    if centre is None:
        return np.stack([way, end])
    radius = float(np.hypot(*(begin[:2] - centre)))
    start, middle, stop = (math.atan2(*(point[:2] - centre)[::-1]) for point in (begin, way, end))
    turn = math.tau
    counter = (middle - start) % turn <= ((stop - start) % turn or turn)
    sweep = ((stop - start) % turn or turn) if counter else ((stop - start) % turn) - turn
    steps = max(2, math.ceil(abs(sweep) / STEP))
    share = np.arange(1, steps + 1) / steps
    angles = start + sweep * share
    stroked = begin + np.outer(share, end - begin)
    stroked[:, 0], stroked[:, 1] = centre[0] + radius * np.cos(angles), centre[1] + radius * np.sin(angles)
    stroked[-1] = end
    return stroked


def _centre(begin: "Coordinates", way: "Coordinates", end: "Coordinates") -> "Coordinates | None":
    """The centre of the circle through three points; none where they are on a line."""
    if np.array_equal(begin, end):
        return (begin + way) / 2
    (ax, ay), (bx, by) = way - begin, end - begin
    cross = 2 * (ax * by - ay * bx)
    if not math.isfinite(cross) or abs(cross) <= 1e-12 * (math.hypot(ax, ay) * math.hypot(bx, by)):
        return None
    a, b = ax * ax + ay * ay, bx * bx + by * by
    offset: Coordinates = np.array([by * a - ay * b, ax * b - bx * a]) / cross
    return begin + offset
