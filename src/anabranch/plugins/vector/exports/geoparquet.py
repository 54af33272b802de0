"""GeoParquet 1.1: every type of a column as it is, but exact decimal numbers and JSON as text."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import shapely

from anabranch.errors import Permanent
from anabranch.plugins.vector.exports.copy_reader import GEOMETRY, read_rows, schema_of
from anabranch.plugins.vector.exports.expected import Expected, Extent, check, compare_sample, shapes_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from anabranch.plugins.vector.models import Column, Geometries

__all__ = ["verify_geoparquet", "write_geoparquet"]

ROW_GROUP_ROWS, ROW_GROUP_BYTES = 65_536, 128 * 2**20
EDGES = ("xmin", "ymin", "xmax", "ymax")
BBOX_TYPE = pa.struct([(edge, pa.float32()) for edge in EDGES])


def write_geoparquet(source: Path, columns: "Sequence[Column]", target: Path) -> Path:
    """Write the rows of a COPY file, in their order: sorted along a Hilbert curve if its query was."""
    plain = schema_of(columns)
    bbox, extent = _bbox_name(plain.names), Extent()
    names = [name for name in plain.names if name != GEOMETRY]
    with pq.ParquetWriter(
        target, plain.append(pa.field(bbox, BBOX_TYPE)), compression="zstd", use_dictionary=names,
        write_statistics=[*names, *(f"{bbox}.{edge}" for edge in EDGES)],
    ) as writer:  # fmt: skip
        for table in _group(read_rows(source, columns)):
            shapes = shapes_of(table[GEOMETRY])
            extent.add(shapes)
            writer.write_table(table.append_column(bbox, _bbox(shapes)), row_group_size=len(table))
        writer.add_key_value_metadata({"geo": json.dumps(_metadata(bbox, extent))})
    return target


def verify_geoparquet(path: Path, expected: Expected) -> None:
    """Read every geometry by shapely, and compare it and the sampled rows; the boxes hold their geometries."""
    with pq.ParquetFile(path) as file:
        geo = json.loads(file.metadata.metadata[b"geo"])
        column = geo["columns"][geo["primary_column"]]
        check(path, "version", (geo["version"], column["encoding"]), ("1.1.0", "WKB"))
        check(path, "bounds", column.get("bbox"), list(expected.bounds) if expected.bounds else None)
        check(path, "geometry types", column["geometry_types"], sorted(expected.geometry_types))
        bbox, extent = column["covering"]["bbox"]["xmin"][0], Extent()
        compare_sample(path, expected.sample, _check_batches(file, path, bbox, extent))
    check(path, "rows", extent.rows, expected.rows)
    check(path, "extent", extent.bounds, expected.bounds)


def _group(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.Table]":
    """Tables for the row groups: of as many rows as these have, but not of too many bytes."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        for start in range(0, len(batch), ROW_GROUP_ROWS):
            waiting.append(batch.slice(start, ROW_GROUP_ROWS))
            table = pa.Table.from_batches(waiting)
            if len(table) >= ROW_GROUP_ROWS or table.nbytes >= ROW_GROUP_BYTES:
                yield table.slice(0, ROW_GROUP_ROWS)
                waiting = table.slice(ROW_GROUP_ROWS).to_batches()
    if waiting:
        yield pa.Table.from_batches(waiting)


def _bbox_name(taken: list[str]) -> str:
    name = "bbox"
    while name in taken:
        name += "_"
    return name


def _bbox(shapes: "Geometries") -> pa.Array:
    """The bounds of geometries, in floats that are rounded outwards; null for what has none."""
    exact = shapely.bounds(shapes)
    missing = np.isnan(exact).any(axis=1)
    floats = exact.astype(np.float32)
    low = np.where(floats > exact, np.nextafter(floats, np.float32(-np.inf)), floats)[:, :2]
    high = np.where(floats < exact, np.nextafter(floats, np.float32(np.inf)), floats)[:, 2:]
    edges = [pa.array(np.ascontiguousarray(edge)) for edge in (*low.T, *high.T)]
    return pa.StructArray.from_arrays(edges, fields=list(BBOX_TYPE), mask=pa.array(missing))


def _metadata(bbox: str, extent: Extent) -> dict[str, object]:
    """What GeoParquet says of the geometry; without a CRS it is OGC:CRS84, longitude first."""
    column: dict[str, object] = {
        "encoding": "WKB",
        "geometry_types": sorted(extent.types),
        "covering": {"bbox": {edge: [bbox, edge] for edge in EDGES}},
    }
    if extent.bounds:
        column["bbox"] = list(extent.bounds)
    return {"version": "1.1.0", "primary_column": GEOMETRY, "columns": {GEOMETRY: column}}


def _check_batches(file: pq.ParquetFile, path: Path, bbox: str, extent: Extent) -> "Iterator[pa.RecordBatch]":
    for batch in file.iter_batches():
        shapes = shapes_of(batch[GEOMETRY])
        extent.add(shapes)
        left, bottom, right, top = (np.asarray(batch[bbox].field(edge), float) for edge in EDGES)
        exact = shapely.bounds(shapes).T
        outside = (exact[0] < left) | (exact[1] < bottom) | (exact[2] > right) | (exact[3] > top)
        if outside.any():
            raise Permanent(
                f"{path.name}: row {batch['gid'][int(outside.argmax())]} lies outside of its box",
                code="vector.export_wrong",
            )
        yield batch.drop_columns([bbox])
