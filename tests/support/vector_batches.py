"""Layers made in code: rows of WKT or WKB with attributes, without a file."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import shapely

from anabranch.plugins.vector.cleaning.cleaner import Cleaner
from anabranch.plugins.vector.cleaning.plain_points import PlainPoints
from anabranch.plugins.vector.models import (
    CleanBatch,
    Family,
    LayerReport,
    Notes,
    ReadOptions,
    SourceBatch,
    SourceLayer,
)
from anabranch.plugins.vector.settings import VectorSettings

__all__ = ["Cleaned", "clean", "make_layer", "to_shapes"]

Geometry: TypeAlias = object  # WKT, WKB, a geometry of shapely, or None


@dataclass(frozen=True)
class Cleaned:
    """A cleaned layer: its report and its batches."""

    report: LayerReport
    batches: list[CleanBatch]

    def geometries(self, family: Family | None = None) -> list[shapely.Geometry]:
        """Those of a family, as the table has them: lines and polygons in multi types."""
        return [_promote(one) for batch in self.batches if family in (None, batch.family) for one in to_shapes(batch)]

    def column(self, name: str) -> list[object]:
        return [value for batch in self.batches for value in batch.attributes[name].to_pylist()]

    def counts(self) -> dict[str, int]:
        return {why: found.count for why, found in self.report.dropped.items()}

    def changes(self) -> dict[str, int]:
        return {what: found.count for what, found in self.report.changed.items()}


def to_shapes(batch: CleanBatch) -> "np.typing.NDArray[np.object_]":
    """The geometries of a batch, plain points, too."""
    return shapely.points(batch.geometry.xy) if isinstance(batch.geometry, PlainPoints) else batch.geometry


def _promote(one: shapely.Geometry) -> shapely.Geometry:
    kinds = {"LineString": shapely.MultiLineString, "Polygon": shapely.MultiPolygon}
    return kinds[one.geom_type]([one]) if one.geom_type in kinds else one


def to_wkb(geometry: Geometry) -> bytes | None:
    if geometry is None or isinstance(geometry, bytes):
        return geometry
    shape = shapely.from_wkt(geometry) if isinstance(geometry, str) else geometry
    wkb: bytes = shapely.to_wkb(shape, flavor="iso")
    return wkb


def make_layer(
    geometries: Sequence[Geometry],
    columns: Mapping[str, pa.Array] | None = None,
    *,
    crs: str | None = "EPSG:4326",
    crs_found: str = "file",
    schema: pa.Schema | None = None,
    features: int | None = None,
) -> SourceLayer:
    """A layer whose rows are numbered from 1."""
    wkb = pa.array([to_wkb(one) for one in geometries], pa.binary())
    names = pa.array([f"row {number}" for number in range(1, len(wkb) + 1)])
    arrays = {"name": names} if columns is None else columns
    schema = schema or pa.schema([(name, array.type) for name, array in arrays.items()])
    attributes = pa.RecordBatch.from_arrays(
        [names, *arrays.values()], schema=schema.insert(0, pa.field("", pa.string()))
    )
    attributes = attributes.select(range(1, len(schema) + 1))  # so that it has its rows even without columns

    def read(max_rows: int, dropped: Notes) -> Iterator[SourceBatch]:
        for start in range(0, len(wkb), max_rows):
            rows = np.arange(start, min(start + max_rows, len(wkb))) + 1
            yield SourceBatch(rows, attributes.slice(start, max_rows), wkb.slice(start, max_rows))

    return SourceLayer(
        name="layer", format="GeoJSON", schema=schema, crs=crs, read=read, crs_found=crs_found, features=features
    )


def clean(
    layer: SourceLayer, *, max_rows: int = 50_000, settings: VectorSettings | None = None, **options: object
) -> Cleaned:
    """Clean a whole layer; rows read are rows written and rows dropped (V1)."""
    cleaner = Cleaner(layer, ReadOptions.model_validate(options), settings or VectorSettings())
    batches: list[CleanBatch] = []
    read = 0
    for batch in layer.read(max_rows, cleaner.dropped):
        read += len(batch.rows)
        batches += cleaner.clean(batch)
    report = cleaner.report()
    written = sum(len(batch.rows) for batch in batches)
    assert (report.rows, report.written) == (read, written)
    assert read == written + sum(found.count for found in report.dropped.values())
    assert all(shapely.is_valid(to_shapes(batch)).all() for batch in batches)
    for one in batches:
        assert len(one.rows) == len(one.geometry)
        assert not one.attributes.num_columns or one.attributes.num_rows == len(one.rows)
        assert one.attributes.schema.names == [column.name for column in cleaner.columns]
    return Cleaned(report, batches)
