"""Rows out of the database: a file that `COPY (select …) TO STDOUT (format binary)` wrote, in record batches.

The query selects `gid` (a bigint, never null), the geometry as it is or by `ST_AsBinary`, then the columns. With
`order by geom` PostGIS sorts along a Hilbert curve, on disk where memory ends.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import shapely

from anabranch.errors import Permanent
from anabranch.plugins.vector.cleaning.types import ARROW_TYPES
from anabranch.plugins.vector.models import ColumnType
from anabranch.plugins.vector.tables.binary_arrays import cut, unaligned
from anabranch.plugins.vector.tables.copy_format import (
    DATE_RANGE,
    DAY_MICROSECONDS,
    EPOCH_DAYS,
    HEADER,
    TIMESTAMP_RANGE,
    TRAILER,
)  # fmt: skip
from anabranch.plugins.vector.tables.numeric import decode_numeric

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from anabranch.plugins.vector.models import Column

    Integers = npt.NDArray[np.int64]

__all__ = ["GEOMETRY", "GID", "read_rows", "schema_of"]

GID, GEOMETRY = "gid", "geom"
BLOCK_BYTES = 16 * 2**20
NUMBERS = {
    ColumnType.BOOLEAN: "u1", ColumnType.INTEGER: ">i4", ColumnType.BIGINT: ">i8", ColumnType.REAL: ">f4",
    ColumnType.DOUBLE: ">f8", ColumnType.DATE: ">i4", ColumnType.TIME: ">i8", ColumnType.TIMESTAMP: ">i8",
    ColumnType.TIMESTAMPTZ: ">i8",
}  # fmt: skip
SHIFTS = {
    ColumnType.DATE: (EPOCH_DAYS, DATE_RANGE),
    ColumnType.TIMESTAMP: (EPOCH_DAYS * DAY_MICROSECONDS, TIMESTAMP_RANGE),
    ColumnType.TIMESTAMPTZ: (EPOCH_DAYS * DAY_MICROSECONDS, TIMESTAMP_RANGE),
}


def schema_of(columns: "Sequence[Column]") -> pa.Schema:
    """The schema of the batches: `gid`, `geom` as ISO WKB, and the columns."""
    types = {GID: pa.int64(), GEOMETRY: pa.binary(), **{column.name: ARROW_TYPES[column.type] for column in columns}}
    return pa.schema(list(types.items()))


def read_rows(path: Path, columns: "Sequence[Column]") -> "Iterator[pa.RecordBatch]":
    """The rows of a file, some megabytes at once."""
    schema = schema_of(columns)
    for buffer, fields in _read_blocks(path, 2 + len(columns)):
        gid, geometry, *others = fields
        arrays = [_number(buffer, gid, ColumnType.BIGINT), _iso_wkb(_bytes(buffer, geometry))]
        for column, field in zip(columns, others, strict=True):
            try:
                arrays.append(_decode(buffer, field, column.type))
            except Permanent as error:
                raise Permanent(f"{path.name}: column {column.name!r}: {error}", code=error.code) from error
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


@dataclass(frozen=True)
class _Field:
    """Where the values of one column are in a block, and how long: -1 is null."""

    starts: "Integers"
    lengths: "Integers"

    @property
    def valid(self) -> "npt.NDArray[np.bool_]":
        return self.lengths >= 0


def _read_blocks(path: Path, count: int) -> "Iterator[tuple[pa.Buffer, list[_Field]]]":
    """Blocks of whole rows, with the places of each of their fields."""
    with path.open("rb") as file:
        if file.read(len(HEADER)) != HEADER:
            raise Permanent(f"{path.name} is no stream of PostgreSQL's binary COPY format", code="vector.export_source")
        rest, wanted = b"", BLOCK_BYTES
        while read := file.read(wanted):
            rest += read
            buffer = pa.py_buffer(rest)
            fields, end = _find_rows(buffer, count)
            wanted = BLOCK_BYTES if end else 2 * wanted  # a row may be larger than a block
            if end:
                yield buffer, fields
                rest = rest[end:]
        if rest != TRAILER:
            raise Permanent(
                f"{path.name} ends in the middle of a row, or its rows don't have {count} fields",
                code="vector.export_source",
            )


def _find_rows(buffer: pa.Buffer, count: int) -> "tuple[list[_Field], int]":
    """The fields of the whole rows at the start of a buffer, and where these end.

    A row begins with the number of fields and the length of `gid`. Bytes inside of values may look like that, too:
    rows are those that begin where another one ends.
    """
    places = np.flatnonzero(np.frombuffer(buffer, np.uint8) == 8) - 5
    places = places[places >= 0]
    lengths = unaligned(buffer, ">i4")
    starts = places[(unaligned(buffer, ">i2")[places] == count) & (lengths[places + 2] == 8)]
    fields, ends, whole = _walk(lengths, buffer.size, starts + 2, count)
    kept = _follow(starts, np.where(whole, ends, -1))
    end = int(ends[kept[-1]]) if len(kept) else 0
    return [_Field(field.starts[kept], field.lengths[kept]) for field in fields], end


def _walk(
    lengths: "Integers", size: int, places: "Integers", count: int
) -> "tuple[list[_Field], Integers, npt.NDArray[np.bool_]]":
    """The fields of rows whose first field is at these places, where the rows end, and which are whole."""
    fields, whole = [], np.ones(len(places), dtype=bool)
    for _ in range(count):
        whole &= places + 4 <= size
        found = np.where(whole, lengths[np.where(whole, places, 0)], -2).astype(np.int64) if len(places) else places
        whole &= found >= -1
        fields.append(_Field(places + 4, found))
        places = places + 4 + np.maximum(found, 0)
    return fields, places, whole & (places <= size)


def _follow(starts: "Integers", ends: "Integers") -> "Integers":
    """The rows that follow each other from the start of the buffer; a row that is not whole ends at -1."""
    if len(starts) == 0 or starts[0] != 0 or ends[0] < 0:
        return np.array([], dtype=np.int64)
    if (ends[:-1] == starts[1:]).all():
        return np.arange(len(starts) - int(ends[-1] < 0))
    next_rows = np.searchsorted(starts, ends).tolist()
    kept, row, exact = [0], 0, (np.append(starts, -2)[next_rows] == ends).tolist()
    while exact[row] and ends[next_rows[row]] >= 0:
        row = next_rows[row]
        kept.append(row)
    return np.array(kept)


def _decode(buffer: pa.Buffer, field: _Field, column_type: ColumnType) -> pa.Array:
    match column_type:
        case ColumnType.NUMERIC:
            return decode_numeric(_bytes(buffer, field))
        case ColumnType.JSONB:  # without the version that it begins with
            text = _Field(field.starts + field.valid, field.lengths - field.valid)
            return _bytes(buffer, text).cast(pa.string())
        case ColumnType.TEXT | ColumnType.BYTEA:
            return _bytes(buffer, field).cast(ARROW_TYPES[column_type])
        case _:
            return _number(buffer, field, column_type)


def _bytes(buffer: pa.Buffer, field: _Field) -> pa.Array:
    return cut(buffer, field.starts, field.starts + np.maximum(field.lengths, 0), field.valid)


def _iso_wkb(values: pa.Array) -> pa.Array:
    shapes = shapely.from_wkb(values.to_numpy(zero_copy_only=False))
    return pa.array(shapely.to_wkb(shapes, flavor="iso"), pa.binary())


def _number(buffer: pa.Buffer, field: _Field, column_type: ColumnType) -> pa.Array:
    dtype = np.dtype(NUMBERS[column_type])
    valid, arrow_type = field.valid, ARROW_TYPES[column_type]
    if (field.lengths[valid] != dtype.itemsize).any():
        raise Permanent(
            f"is not of the type {column_type}: its values are not of {dtype.itemsize} bytes",
            code="vector.export_source",
        )
    values = np.zeros(len(valid), dtype.newbyteorder("="))
    values[valid] = unaligned(buffer, dtype.str)[field.starts[valid]]
    if column_type is ColumnType.BOOLEAN:
        values = values.astype(bool)
    elif column_type in SHIFTS:
        values = _shift(values, *SHIFTS[column_type])
    plain = pa.array(values, mask=None if valid.all() else ~valid)
    return plain if plain.type.equals(arrow_type) else plain.view(arrow_type)


def _shift(values: "Integers", shift: int, within: tuple[int, int]) -> "Integers":
    """Days or microseconds since 1970."""
    if len(values) and (values.min() < within[0] - shift or values.max() > within[1] - shift):
        raise Permanent(
            "has infinity, or a time that no file can hold: leave such rows out, or make them null",
            code="vector.export_values",
        )
    return values + values.dtype.type(shift)
