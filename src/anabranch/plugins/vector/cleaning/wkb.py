"""Geometries from WKB; GEOS is not asked for what would crash it."""

import struct
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.compute as pc
import shapely

if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa

    from anabranch.plugins.vector.models import Geometries

__all__ = ["name_kind", "parse_wkb", "read_wkb"]

# GEOS calls itself for each level, and a stack holds some thousands of these calls.
MAX_DEPTH = 100
HEADER_BYTES = 9
EWKB_Z, EWKB_M, EWKB_SRID = 0x80000000, 0x40000000, 0x20000000
POINT, LINE, POLYGON = 1, 2, 3
CIRCULAR, TRIANGLE = 8, 17  # as lines and polygons are written
PARENTS = frozenset({4, 5, 6, 7, 9, 10, 11, 12, 15, 16})  # kinds whose parts are geometries
_UNREADABLE = {
    8: "CircularString", 9: "CompoundCurve", 10: "CurvePolygon", 11: "MultiCurve", 12: "MultiSurface", 13: "Curve",
    14: "Surface", 15: "PolyhedralSurface", 16: "TIN", 17: "Triangle",
}  # fmt: skip


def read_wkb(column: "pa.Array") -> tuple["Geometries", "npt.NDArray[np.bool_]"]:
    """The geometries, and which of them had rings that were not closed; None where null or unreadable."""
    column = getattr(column, "storage", column)
    found = parse_wkb(column)
    unread = np.flatnonzero(shapely.is_missing(found) & ~column.is_null().to_numpy(zero_copy_only=False))
    closed = np.zeros(len(found), bool)
    if unread.size:
        found[unread] = parse_wkb(column.take(unread), "fix")
        closed[unread] = ~shapely.is_missing(found[unread])
    return found, closed


def parse_wkb(column: "pa.Array", on_invalid: str = "ignore") -> "Geometries":
    """The geometries of WKB; None where it is null, unreadable or nested too deep."""
    wkb = column.to_numpy(zero_copy_only=False)
    for place in np.flatnonzero(_may_be_deep(column)):
        if _is_too_deep(wkb[place]):
            wkb[place] = b""
    return _parse(wkb, on_invalid)


def name_kind(wkb: bytes) -> str:
    """The name of a kind of geometry that GEOS can't read; empty for others."""
    if len(wkb) < HEADER_BYTES:
        return ""
    (code,) = struct.unpack_from("<I" if wkb[0] else ">I", wkb, 1)
    return _UNREADABLE.get(code % 0x10000 % 1000, "")


def _parse(wkb: "npt.NDArray[np.object_]", on_invalid: str) -> "Geometries":
    try:
        return np.asarray(shapely.from_wkb(wkb, on_invalid=on_invalid))
    except NotImplementedError:  # a curve, which GEOS reads and shapely doesn't know
        return np.array([_parse_one(one, on_invalid) for one in wkb], object)


def _parse_one(wkb: bytes | None, on_invalid: str) -> shapely.Geometry | None:
    try:
        return shapely.from_wkb(wkb, on_invalid=on_invalid)
    except NotImplementedError:
        return None


def _may_be_deep(column: "pa.Array") -> "npt.NDArray[np.bool_]":
    lengths = pc.fill_null(pc.binary_length(column), 0).to_numpy(zero_copy_only=False)
    return np.asarray(lengths > MAX_DEPTH * HEADER_BYTES)


def _is_too_deep(wkb: bytes) -> bool:
    """Whether collections are within collections too often; False also for what is no WKB, which GEOS refuses."""
    position, left = 0, [1]
    try:
        while left:
            if left[-1] == 0:
                left.pop()
                continue
            left[-1] -= 1
            position, parts = _skip(wkb, position)
            left += [parts] if parts else []
            if len(left) > MAX_DEPTH:
                return True
    except (struct.error, IndexError):
        pass
    return False


def _skip(wkb: bytes, position: int) -> tuple[int, int]:
    """Where the coordinates of the geometry at a position end, and how many geometries follow that are parts of it."""
    order = "<" if wkb[position] else ">"
    (code,) = struct.unpack_from(f"{order}I", wkb, position + 1)
    dimensions = 2 + bool(code & EWKB_Z) + bool(code & EWKB_M) + (0, 1, 1, 2)[min(code % 0x10000 // 1000, 3)]
    kind, size = code % 0x10000 % 1000, 8 * dimensions
    position += 9 if code & EWKB_SRID else 5
    if kind == POINT:
        return position + size, 0
    (count,) = struct.unpack_from(f"{order}I", wkb, position)
    position += 4
    if kind in (LINE, CIRCULAR):
        return position + count * size, 0
    if kind in (POLYGON, TRIANGLE):
        for _ in range(count):
            (points,) = struct.unpack_from(f"{order}I", wkb, position)
            position += 4 + points * size
        return position, 0
    return (position, count) if kind in PARENTS else (len(wkb), 0)
