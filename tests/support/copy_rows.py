"""Rows of vector tables for tests: columns of every type, batches, and what a COPY stream of them holds."""

import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import shapely

from anabranch.plugins.vector.cleaning.types import ARROW_TYPES
from anabranch.plugins.vector.models import CleanBatch, Column, ColumnType, Family
from anabranch.plugins.vector.tables.chunk_writer import ChunkWriter, WrittenRows
from anabranch.plugins.vector.tables.copy_format import HEADER, TRAILER

__all__ = ["columns_of", "make_batch", "read_fields", "write_rows"]

Values = Sequence[Any]  # of a column, of any type


def columns_of(*types: ColumnType) -> tuple[Column, ...]:
    """A column of each of these types, named for it."""
    return tuple(Column(name=kind.name.lower(), type=kind, source=kind.name) for kind in types)


def make_batch(geometry: Sequence[str], **values: Values | pa.Array) -> CleanBatch:
    """Rows of these geometries (WKT) and of attributes by the names of their types."""
    arrays = [
        given if isinstance(given, pa.Array) else pa.array(given, ARROW_TYPES[ColumnType[name.upper()]])
        for name, given in values.items()
    ]
    shapes = np.array([shapely.from_wkt(text) for text in geometry], dtype=object)
    attributes = pa.RecordBatch.from_arrays(arrays, names=list(values)) if values else pa.record_batch({})
    return CleanBatch(Family.POINT, np.arange(1, len(shapes) + 1), shapes, attributes)


def write_rows(folder: Path, *batches: CleanBatch, chunk_bytes: int = 2**20, name: str = "rows") -> WrittenRows:
    """The files of batches whose columns are named for their types."""
    columns = columns_of(*(ColumnType[name.upper()] for name in batches[0].attributes.schema.names))
    writer = ChunkWriter(folder, name, columns, chunk_bytes)
    for batch in batches:
        writer.write(batch)
    return writer.close()


def read_fields(stream: bytes) -> Iterator[list[bytes | None]]:
    """The fields of each row of a COPY stream, read one by one as PostgreSQL does."""
    assert stream.startswith(HEADER)
    place = len(HEADER)
    while stream[place : place + 2] != TRAILER:
        (count,), place, fields = struct.unpack_from(">h", stream, place), place + 2, list[bytes | None]()
        for _ in range(count):
            (length,) = struct.unpack_from(">i", stream, place)
            place += 4
            fields.append(None if length == -1 else stream[place : place + length])
            place += max(length, 0)
        yield fields
    assert place + 2 == len(stream)
