"""Rows that GDAL writes, in the types of a format."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from pyogrio.raw import write_arrow

from anabranch.errors import Permanent
from anabranch.plugins.vector.exports.copy_reader import GEOMETRY, read_rows, schema_of

if TYPE_CHECKING:
    from anabranch.plugins.vector.models import Column

__all__ = ["write_by_gdal"]


def write_by_gdal(
    source: Path, columns: "Sequence[Column]", target: Path, convert: Callable[[pa.Table], pa.Table], **options: str
) -> Path:
    """Write the rows of a COPY file, converted to what a format can hold, with options of pyogrio and of GDAL."""
    problems: list[Exception] = []

    def read() -> Iterator[pa.RecordBatch]:
        try:
            for rows in read_rows(source, columns):
                yield from convert(pa.Table.from_batches([rows])).combine_chunks().to_batches()
        except Permanent as error:  # of which GDAL says only that there was one
            problems.append(error)
            raise

    schema = convert(schema_of(columns).empty_table()).schema
    try:
        stream = pa.RecordBatchReader.from_batches(schema, read())
        write_arrow(stream, target, crs="EPSG:4326", geometry_name=GEOMETRY, **options)
    except RuntimeError:
        if problems:
            raise problems[0] from None
        raise
    return target
