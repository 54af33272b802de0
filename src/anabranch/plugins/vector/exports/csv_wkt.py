"""CSV with the geometry as WKT: everything is text, a null is nothing, and an empty text is `""`."""

import csv
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import shapely

from anabranch.errors import Permanent
from anabranch.plugins.vector.exports.copy_reader import GEOMETRY, GID, read_rows, schema_of
from anabranch.plugins.vector.exports.expected import Expected, Extent, check, shapes_of
from anabranch.plugins.vector.exports.plain_types import replace_columns

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from anabranch.plugins.vector.models import Column

__all__ = ["verify_csv", "write_csv"]

ROWS_AT_ONCE = 10_000


def write_csv(source: Path, columns: "Sequence[Column]", target: Path) -> Path:
    """Write the rows of a COPY file; coordinates have all their digits, and bytes are hexadecimal."""
    schema = _as_text(schema_of(columns).empty_table()).schema
    with pa_csv.CSVWriter(target, schema) as writer:
        for batch in read_rows(source, columns):
            writer.write_table(_as_text(pa.Table.from_batches([batch])))
    return target


def verify_csv(path: Path, expected: Expected) -> None:
    """Read every line by the standard library and every geometry by shapely; compare the sampled rows' text."""
    sample = _as_text(expected.sample).to_pylist() if expected.rows else []
    wanted = {str(row[GID]): row for row in sample}
    reals = {field.name for field in expected.sample.schema if field.type == pa.float32()}
    extent = Extent()
    csv.field_size_limit(sys.maxsize)  # a geometry may be as large as one of the database
    with path.open(encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file)
        for rows in _take(reader, ROWS_AT_ONCE):
            extent.add(shapely.from_wkt(np.array([row[GEOMETRY] or None for row in rows], dtype=object)))
            for row in rows:
                if row[GID] in wanted:
                    _compare(path, row, wanted.pop(row[GID]), reals)
    check(path, "sampled rows that are missing", sorted(wanted), [])
    check(path, "rows", extent.rows, expected.rows)
    check(path, "extent", extent.bounds, expected.bounds)
    check(path, "geometry types", extent.types, expected.geometry_types)


def _as_text(rows: pa.Table) -> pa.Table:
    """The rows with geometries as WKT, and what CSV can't hold as text."""
    texts = shapely.to_wkt(shapes_of(rows[GEOMETRY]), rounding_precision=-1)
    rows = rows.set_column(1, GEOMETRY, pa.array(texts, pa.string()))
    return replace_columns(rows, rows.schema.names)


def _take(reader: "csv.DictReader[str]", count: int) -> "Iterator[list[dict[str, str]]]":
    waiting: list[dict[str, str]] = []
    for row in reader:
        waiting.append(row)
        if len(waiting) == count:
            yield waiting
            waiting = []
    if waiting:
        yield waiting


def _compare(path: Path, row: dict[str, str], expected: dict[str, object], reals: set[str]) -> None:
    for name, value in expected.items():
        if not _reads_as(row[name], value, np.float32 if name in reals else np.float64):
            raise Permanent(
                f"{path.name}: row {row[GID]} has {row[name]!r} in column {name!r}, and not {value!r}",
                code="vector.export_wrong",
            )


def _reads_as(text: str, value: object, real: type[np.floating[Any]]) -> bool:
    if isinstance(value, bool):
        return text == str(value).lower()
    if isinstance(value, float):
        return bool(real(text) == real(value)) or (math.isnan(value) and math.isnan(float(text)))
    return text == ("" if value is None else str(value))
