"""The geometries of a CSV file: which columns have them, and their parsing."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import shapely

from anabranch.errors import Permanent
from anabranch.plugins.vector.cleaning.wkb import parse_wkb
from anabranch.plugins.vector.models import ReadOptions
from anabranch.redaction import show_text

if TYPE_CHECKING:
    import numpy.typing as npt

    Mask = npt.NDArray[np.bool_]

__all__ = ["GeometryColumns", "Parsed", "find_columns", "parse_points", "parse_texts"]

TEXT_NAMES = ("wkt", "geometry", "geom", "the_geom")
PAIRS = (
    (("lat", "latitude"), ("lon", "lng", "long", "longitude"), True),
    (("y",), ("x",), False),
)
NUMBER = re.compile(r"\s*[+-]?(\d+([.,]\d*)?|[.,]\d+)([eE][+-]?\d+)?\s*")
_NUMBER = r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,3})?$"
_COMMA = r"^[+-]?[0-9]*,[0-9]+$"
_SRID = r"(?i)^SRID=(?P<srid>[0-9]{1,9});\s*"
_HEX = r"^([0-9A-Fa-f]{2}){9,}$"
_CURVE = r"(?i)CURVE|SURFACE|CIRCULAR"  # shapely has none, and GEOS calls itself for each that is within another
MAX_COLLECTIONS = 16  # in one geometry: parsers of nested ones call themselves
MAX_LATITUDE, MIN_LONGITUDE, MAX_LONGITUDE = 90, -180, 360
_POINT = np.dtype([("order", "u1"), ("type", "<u4"), ("x", "<f8"), ("y", "<f8")])


@dataclass(frozen=True)
class GeometryColumns:
    """The places of the columns with geometries: x and y, or one with text; and whether x and y are degrees."""

    places: tuple[int, ...]
    degrees: bool = False


@dataclass(frozen=True)
class Parsed:
    """The geometries of some rows in WKB, and which rows are unreadable by which reason: the first of a row counts."""

    geometry: pa.Array
    bad: "dict[str, Mask]"
    srids: frozenset[int] = frozenset()  # of geometries that are text; 0 where one has none


def find_columns(
    name: str, header: tuple[str, ...], options: ReadOptions, holds_texts: Callable[[int], bool]
) -> GeometryColumns:
    """The geometry columns of a header: those that the caller names, or those with usual names.

    Of a column for texts and a pair of coordinates, the first counts if it holds geometries.
    """
    plain = [column.strip().casefold() for column in header]
    if options.wkt:
        return GeometryColumns((_find(name, header, options.wkt),))
    if options.lat or options.lon:
        if not (options.lat and options.lon):
            raise _refuse(f"only one coordinate column of {name} was given", "Give both `lat` and `lon`.")
        return GeometryColumns((_find(name, header, options.lon), _find(name, header, options.lat)), degrees=True)
    texts = [plain.index(text) for text in TEXT_NAMES if text in plain]
    pairs = list(_find_pairs(plain))
    if texts and (not pairs or holds_texts(texts[0])):
        return GeometryColumns((texts[0],))
    if pairs:
        return pairs[0]
    raise _explain_missing(name, header, plain)


def _find_pairs(plain: list[str]) -> Iterator[GeometryColumns]:
    for first, second, degrees in PAIRS:
        y = next((plain.index(each) for each in first if each in plain), None)
        x = next((plain.index(each) for each in second if each in plain), None)
        if x is not None and y is not None:
            yield GeometryColumns((x, y), degrees=degrees)


def _explain_missing(name: str, header: tuple[str, ...], plain: list[str]) -> Permanent:
    usual = [place for first, second, _ in PAIRS for place, each in enumerate(plain) if each in (*first, *second)]
    if any(NUMBER.fullmatch(column) for column in header):
        return _refuse(
            f"{name} has no header: its first line is {_list(header)}", "Make the names of the columns the first line."
        )
    if usual:
        return _refuse(
            f"{name} has one coordinate column only, {show_text(header[usual[0]])!r}: it has {_list(header)}",
            "Give the names of both as `lat` and `lon`, or that of a column with geometries as `wkt`.",
        )
    return _refuse(
        f"{name} has no column with geometries: it has {_list(header)}",
        "Name columns lat and lon, or wkt; or give their names as `lat` and `lon`, or as `wkt`.",
    )


def _find(name: str, header: tuple[str, ...], wanted: str) -> int:
    for names in (list(header), [column.strip().casefold() for column in header]):
        for spelled in (wanted, wanted.strip().casefold()):
            if spelled in names:
                return names.index(spelled)
    raise _refuse(
        f"{name} has no column {show_text(wanted)!r}: it has {_list(header)}", "Give the name of one of them."
    )


def parse_points(x: pa.Array, y: pa.Array, *, degrees: bool, commas: bool) -> Parsed:
    """The points of two columns of text."""
    (xs, x_bad), (ys, y_bad) = _numbers(x, commas=commas), _numbers(y, commas=commas)
    missing = np.isnan(xs) & ~x_bad, np.isnan(ys) & ~y_bad
    bad = {
        "coordinate_is_not_a_number": x_bad | y_bad,
        "coordinate_is_missing": missing[0] ^ missing[1],
    }
    if degrees:
        with np.errstate(invalid="ignore"):
            beyond = (np.abs(ys) > MAX_LATITUDE) | (xs < MIN_LONGITUDE) | (xs > MAX_LONGITUDE)
        bad["coordinate_is_out_of_range"] = beyond
    return Parsed(_make_points(xs, ys, missing[0] | missing[1] | x_bad | y_bad), bad)


def _numbers(column: pa.Array, *, commas: bool) -> "tuple[npt.NDArray[np.float64], Mask]":
    """The numbers of a column, NaN where there is none; and where there is text that is no number."""
    text = pc.utf8_trim_whitespace(column)
    text = pc.if_else(pc.equal(text, ""), None, text)
    if commas:
        text = pc.if_else(pc.match_substring_regex(text, _COMMA), pc.replace_substring(text, ",", "."), text)
    fits = pc.match_substring_regex(text, _NUMBER)
    values = pc.cast(pc.if_else(fits, text, None), pa.float64()).to_numpy(zero_copy_only=False)
    bad = pc.fill_null(pc.invert(fits), False).to_numpy(zero_copy_only=False)
    return values, bad | np.isinf(values)


def _make_points(x: "npt.NDArray[np.float64]", y: "npt.NDArray[np.float64]", missing: "Mask") -> pa.Array:
    """Points in WKB, without a Python object for each."""
    points = np.empty(len(x), _POINT)
    points["order"], points["type"], points["x"], points["y"] = 1, 1, x, y
    kept = points[~missing]
    ends = np.zeros(len(x) + 1, np.int32)
    np.cumsum(np.where(missing, 0, _POINT.itemsize), out=ends[1:])
    valid = pa.array(~missing).buffers()[1]
    return pa.Array.from_buffers(pa.binary(), len(x), [valid, pa.py_buffer(ends), pa.py_buffer(kept.tobytes())])


def parse_texts(column: pa.Array) -> Parsed:
    """The geometries of a column of WKT, EWKT, or WKB in hexadecimal digits."""
    trimmed = pc.utf8_trim_whitespace(column)
    text = pc.replace_substring_regex(trimmed, _SRID, "")
    text = pc.if_else(pc.equal(text, ""), None, text)
    digits = pc.match_substring_regex(text, _HEX)
    curves = pc.match_substring_regex(text, _CURVE)
    nested = pc.greater(pc.count_substring(text, "COLLECTION", ignore_case=True), MAX_COLLECTIONS)
    wkt = pc.if_else(pc.or_(pc.or_(digits, nested), curves), None, text).to_numpy(zero_copy_only=False)
    geometries = shapely.from_wkt(wkt, on_invalid="ignore")
    if pc.any(digits).as_py():
        wkb = [value and bytes.fromhex(value) for value in pc.if_else(digits, text, None).to_pylist()]
        geometries = np.where(shapely.is_missing(geometries), parse_wkb(pa.array(wkb, pa.binary())), geometries)
    is_curve = pc.fill_null(curves, False).to_numpy(zero_copy_only=False)
    missing = shapely.is_missing(geometries)
    bad = missing & pc.is_valid(text).to_numpy(zero_copy_only=False)
    return Parsed(
        pa.array(shapely.to_wkb(geometries, flavor="iso"), pa.binary()),
        {"geometry_is_not_wkt": bad & ~is_curve, "geometry_is_a_curve": bad & is_curve},
        _find_srids(trimmed.filter(pa.array(~missing)), geometries[~missing]),
    )


def _find_srids(texts: pa.Array, geometries: "npt.NDArray[np.object_]") -> frozenset[int]:
    """The SRIDs of EWKT, or of EWKB."""
    written = pc.struct_field(pc.extract_regex(texts, _SRID), "srid").cast(pa.int64())
    held = pa.array(shapely.get_srid(geometries), pa.int64())
    return frozenset(pc.coalesce(written, held).unique().to_pylist())


def _list(header: tuple[str, ...]) -> str:
    shown = ", ".join(show_text(column) for column in header[:20])
    return f"{shown}, and {len(header) - 20:,} more" if len(header) > 20 else shown


def _refuse(message: str, remedy: str) -> Permanent:
    return Permanent(message, code="vector.csv", remedy=remedy)
