"""Geometries from WKB; GEOS is not asked for what would crash it."""

import struct
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.compute as pc
import shapely

from anabranch.geo.wkb_depth import MAX_FLAT_BYTES, is_too_deep

if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa

    from anabranch.plugins.vector.models import Geometries

__all__ = ["describe_wkb", "parse_wkb", "read_wkb"]

HEADER_BYTES = 9
SHOWN_BYTES = 20
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
        if is_too_deep(wkb[place]):
            wkb[place] = b""
    return _parse(wkb, on_invalid)


def describe_wkb(wkb: bytes) -> str:
    """What a geometry is that GEOS can't read: the name of its kind, or its first bytes."""
    (code,) = struct.unpack_from("<I" if wkb[0] else ">I", wkb, 1) if len(wkb) >= HEADER_BYTES else (0,)
    if kind := _UNREADABLE.get(code % 0x10000 % 1000):
        return kind
    if len(wkb) > MAX_FLAT_BYTES and is_too_deep(wkb):
        return "nested too deep"
    return f"{len(wkb):,} bytes: {wkb[:SHOWN_BYTES].hex(' ')}"


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
    return np.asarray(lengths > MAX_FLAT_BYTES)
