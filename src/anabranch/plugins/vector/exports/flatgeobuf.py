"""FlatGeobuf with its spatial index, by GDAL.

Dates become timestamps at midnight, and timestamps lose their zone (they are in UTC) and what is below a millisecond;
times of day, exact decimal numbers and JSON are text. The index keeps some 100 bytes of memory for each feature.

A column with a time before 1970 that has a fraction of a second is text, too: GDAL rounds such a
time towards 1970 and subtracts the fraction, so that 05:06:59.5 is 05:07:00 minus half a second; it writes 05:07:00.
"""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyogrio
from pyogrio.raw import open_arrow

from anabranch.errors import Permanent
from anabranch.plugins.vector.exports.copy_reader import GEOMETRY, GID
from anabranch.plugins.vector.exports.expected import Expected, Extent, check, compare_sample, shapes_of
from anabranch.plugins.vector.exports.gdal_writer import write_by_gdal
from anabranch.plugins.vector.exports.plain_types import replace_columns

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from anabranch.plugins.vector.models import Column

__all__ = ["verify_flatgeobuf", "write_flatgeobuf"]

YEARS = (np.datetime64("0001-01-01", "ms").astype(int), np.datetime64("9999-12-31T23:59:59.999", "ms").astype(int))
MOMENT = pa.timestamp("ms")


def write_flatgeobuf(
    source: Path, columns: "Sequence[Column]", target: Path, expected: Expected, *, layer: str, geometry_type: str
) -> Path:
    """Write the rows of a COPY file, whose geometry type is one like `Point` or `MultiPolygon Z`.

    For `Unknown`, which geometries of any type have, GDAL leaves heights out.
    """
    return write_by_gdal(
        source, columns, target, partial(_as_held, texts=expected.early),
        driver="FlatGeobuf", layer=layer, geometry_type=geometry_type, SPATIAL_INDEX="YES",
    )  # fmt: skip


def verify_flatgeobuf(path: Path, expected: Expected) -> None:
    """Read every feature, and compare the sampled ones; each of these is found by the index, too."""
    info = pyogrio.read_info(path, force_feature_count=True)
    check(path, "CRS", info["crs"], "EPSG:4326")
    check(path, "features", info["features"], expected.rows)
    extent, sample = Extent(), _as_held(expected.sample, expected.early) if expected.rows else expected.sample
    with open_arrow(path, use_pyarrow=True) as (_, reader):
        compare_sample(path, sample, _read_batches(reader, sample.schema, extent))
    check(path, "rows", extent.rows, expected.rows)
    check(path, "extent", extent.bounds, expected.bounds)
    check(path, "geometry types", extent.types, expected.geometry_types)
    for row in sample.slice(0, 3).to_pylist():
        (shape,) = shapes_of(pa.array([row[GEOMETRY]]))
        _, _, _, (found,) = pyogrio.raw.read(path, bbox=shape.bounds, columns=[GID], read_geometry=False)
        check(path, f"row {row[GID]} in the index", row[GID] in found, True)


def _read_batches(reader: pa.RecordBatchReader, schema: pa.Schema, extent: Extent) -> "Iterator[pa.RecordBatch]":
    for batch in reader:
        *columns, geometry = batch.columns  # by place: a column may be named as GDAL names the geometry
        extent.add(shapes_of(geometry))
        names = [name for name in schema.names if name != GEOMETRY]
        others = [column.cast(schema.field(name).type) for name, column in zip(names, columns, strict=True)]
        yield pa.RecordBatch.from_arrays([others[0], geometry.cast(pa.binary()), *others[1:]], schema=schema)


def _as_held(rows: pa.Table, texts: frozenset[str]) -> pa.Table:
    """The rows in the types that the format has."""
    times = {field.name for field in rows.schema if pa.types.is_time(field.type)}
    rows = replace_columns(rows, [*(times | texts)])
    for place, field in enumerate(rows.schema):
        if pa.types.is_date(field.type) or pa.types.is_timestamp(field.type):
            moments = (
                pc.floor_temporal(rows[field.name], unit="millisecond")
                if field.type != pa.date32()
                else rows[field.name]
            )
            rows = rows.set_column(place, field.name, _within_years(field.name, moments.cast(MOMENT)))
    return rows


def _within_years(name: str, moments: pa.ChunkedArray) -> pa.ChunkedArray:
    numbers = pc.min_max(moments.cast(pa.int64())).as_py()
    if numbers["min"] is not None and (numbers["min"] < YEARS[0] or numbers["max"] > YEARS[1]):
        raise Permanent(
            f"column {name!r} has times outside of the years 1 to 9999, which FlatGeobuf can't hold",
            code="vector.export_values",
        )
    return moments
