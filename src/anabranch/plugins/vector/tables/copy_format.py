"""Rows in PostgreSQL's binary COPY format, made of whole columns and never value by value.

A row is the number of its fields, then each field's length and bytes. What has the same place in every row, which
is all but texts, nulls and most geometries, becomes one numpy record; Arrow then joins the records and the rest.
"""

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import shapely

from anabranch.errors import Permanent
from anabranch.plugins.vector.cleaning.plain_points import PlainPoints
from anabranch.plugins.vector.cleaning.types import ARROW_TYPES
from anabranch.plugins.vector.models import ColumnType
from anabranch.plugins.vector.tables.binary_arrays import (
    EMPTY,
    cut,
    fixed_width,
    join,
    offsets_of,
    unaligned,
    valid_values,
)
from anabranch.plugins.vector.tables.numeric import encode_numeric

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from anabranch.plugins.vector.models import Column, Geometries

    Values = npt.NDArray[np.number]

__all__ = ["DATE_RANGE", "EPOCH_DAYS", "HEADER", "SRID", "TIMESTAMP_RANGE", "TRAILER", "encode_rows"]

HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)
TRAILER = b"\xff\xff"
SRID = 4326
HAS_Z, HAS_SRID = 0x80000000, 0x20000000
EPOCH_DAYS = 10_957  # from 1970 to 2000, where PostgreSQL's time begins
DAY_MICROSECONDS = 86_400_000_000
DATE_RANGE = (-2_440_588, 2_145_042_905)
TIMESTAMP_RANGE = (-210_866_803_200_000_000, 2**63 - 1)
SINGLE = (1, 3)  # LineString and Polygon, as GEOS numbers them
MULTI = 3  # from a type of WKB to that of several
JSONB_VERSION = pa.scalar(b"\x01", pa.large_binary())


def encode_rows(
    geometry: "Geometries | PlainPoints",
    attributes: pa.RecordBatch,
    columns: "Sequence[Column]",
    gids: "npt.NDArray[np.int64]",
) -> pa.Array:
    """A value of bytes for each row: its gid, its geometry as EWKB, then the attributes in the columns' order."""
    if len(geometry) == 0:
        return pa.array([], pa.large_binary())
    rows = _Rows(len(geometry))
    rows.add_fixed(">i2", 2 + len(columns))
    rows.add_fixed(">i4", 8)
    rows.add_fixed(">i8", gids)
    if isinstance(geometry, PlainPoints):
        _add_points(rows, geometry.xy)
    else:
        _add_geometry(rows, geometry)
    for column, values in zip(columns, attributes.columns, strict=True):
        try:
            _add_attribute(rows, column.type, values)
        except Permanent as error:
            raise Permanent(f"column {column.name!r}: {error}", code="vector.values") from error
    return rows.join()


class _Rows:
    """Collects the parts of rows from left to right."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._fixed: list[tuple[str, Values | int]] = []
        self._parts: list[pa.Array] = []

    def add_fixed(self, dtype: str, values: "Values | int") -> None:
        """Add a number to every row."""
        self._fixed.append((dtype, values))

    def add_variable(self, values: pa.Array) -> None:
        """Add bytes to every row that are of any length, or none where they are null."""
        self._close_record()
        self._parts.append(values)

    def join(self) -> pa.Array:
        """The rows."""
        self._close_record()
        return join(*self._parts)

    def _close_record(self) -> None:
        if not self._fixed:
            return
        record = np.empty(self._count, np.dtype([(f"f{place}", dtype) for place, (dtype, _) in enumerate(self._fixed)]))
        for place, (_, values) in enumerate(self._fixed):
            record[f"f{place}"] = values
        self._parts.append(fixed_width(record))
        self._fixed = []


def _add_geometry(rows: _Rows, geometry: "Geometries") -> None:
    has_z = shapely.has_z(geometry)
    if not (shapely.get_type_id(geometry) == 0).all() or has_z.any() != has_z.all() or shapely.has_m(geometry).any():
        return _add_any_geometry(rows, geometry)
    coordinates = shapely.get_coordinates(geometry, include_z=bool(has_z.any()))
    if len(coordinates) != len(geometry):  # empty points have none
        return _add_any_geometry(rows, geometry)
    return _add_points(rows, coordinates)


def _add_points(rows: _Rows, coordinates: "npt.NDArray[np.float64]") -> None:
    dimensions = coordinates.shape[1]
    _add_geometry_head(rows, 9 + 8 * dimensions, 1 | (HAS_Z if dimensions == 3 else 0))
    for dimension in range(dimensions):
        rows.add_fixed("<f8", coordinates[:, dimension])


def _add_any_geometry(rows: _Rows, geometry: "Geometries") -> None:
    single = np.isin(shapely.get_type_id(geometry), SINGLE)
    if single.any() and not single.all():
        geometry, single = _promote(geometry, single), np.zeros(len(geometry), bool)
    wkb = pa.array(shapely.to_wkb(geometry, byte_order=1, flavor="extended"), pa.large_binary())
    if wkb.null_count:
        raise Permanent(
            f"{wkb.null_count} geometries are missing: rows without one must be dropped before", code="vector.values"
        )
    offsets, data = offsets_of(wkb), wkb.buffers()[2]
    types = unaligned(data, "<u4")[offsets[:-1] + 1]
    if single.any():  # all of them: each is the one part of a multi geometry
        _add_geometry_head(rows, np.diff(offsets) + 13, types + MULTI)
        rows.add_fixed("<u4", 1)
        rows.add_variable(wkb)
    else:
        _add_geometry_head(rows, np.diff(offsets) + 4, types)
        rows.add_variable(cut(data, offsets[:-1] + 5, offsets[1:]))


def _promote(geometry: "Geometries", single: "npt.NDArray[np.bool_]") -> "Geometries":
    """The same with multi geometries where there are single lines and polygons."""
    promoted = geometry.copy()
    for place in np.flatnonzero(single):
        make = shapely.multilinestrings if geometry[place].geom_type == "LineString" else shapely.multipolygons
        promoted[place] = make([geometry[place]])
    return promoted


def _add_geometry_head(rows: _Rows, lengths: "Values | int", types: "npt.NDArray[np.int64] | int") -> None:
    rows.add_fixed(">i4", lengths)
    rows.add_fixed("u1", 1)
    rows.add_fixed("<u4", types | HAS_SRID)
    rows.add_fixed("<u4", SRID)


def _add_attribute(rows: _Rows, column_type: ColumnType, values: pa.Array) -> None:
    if not values.type.equals(ARROW_TYPES[column_type]):
        raise Permanent(
            f"{column_type} is made of {ARROW_TYPES[column_type]}, and not of {values.type}", code="vector.values"
        )
    match column_type:
        case ColumnType.TEXT | ColumnType.BYTEA:
            _add_bytes(rows, values.cast(pa.large_binary()))
        case ColumnType.JSONB:
            _add_bytes(rows, pc.binary_join_element_wise(JSONB_VERSION, values.cast(pa.large_binary()), EMPTY))
        case ColumnType.NUMERIC:
            _add_bytes(rows, encode_numeric(values))
        case _:
            _add_numbers(rows, _numbers(column_type, values), valid_values(values))


def _add_bytes(rows: _Rows, values: pa.Array) -> None:
    rows.add_fixed(">i4", pc.fill_null(pc.binary_length(values), -1).to_numpy())
    rows.add_variable(values)


def _add_numbers(rows: _Rows, values: "Values", valid: "npt.NDArray[np.bool_] | None") -> None:
    width = values.dtype.itemsize
    if valid is None:
        rows.add_fixed(">i4", width)
        rows.add_fixed(values.dtype.newbyteorder(">").str, values)
    else:
        rows.add_fixed(">i4", np.where(valid, width, -1))
        rows.add_variable(fixed_width(values.astype(values.dtype.newbyteorder(">")), valid))


def _numbers(column_type: ColumnType, values: pa.Array) -> "Values":
    """The numbers that PostgreSQL has for values; any number for a null."""
    match column_type:
        case ColumnType.BOOLEAN:
            return _plain(values.cast(pa.uint8()))
        case ColumnType.DATE:
            return _within(values.view(pa.int32()), *DATE_RANGE) - np.int32(EPOCH_DAYS)
        case ColumnType.TIME:
            return _within(values.view(pa.int64()), 0, DAY_MICROSECONDS)
        case ColumnType.TIMESTAMP | ColumnType.TIMESTAMPTZ:
            return _within(values.view(pa.int64()), *TIMESTAMP_RANGE) - EPOCH_DAYS * DAY_MICROSECONDS
        case _:
            return _plain(values)


def _plain(values: pa.Array) -> "npt.NDArray[np.int64]":
    found: npt.NDArray[np.int64] = pc.fill_null(values, 0).to_numpy(zero_copy_only=False)
    return found


def _within(values: pa.Array, low: int, high: int) -> "npt.NDArray[np.int64]":
    plain = _plain(values)
    if len(plain) and (plain.min() < low or plain.max() > high):
        raise Permanent("has values that PostgreSQL's type can't hold: make them null before", code="vector.values")
    return plain
