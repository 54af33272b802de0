"""Cleans the batches of a layer: geometries, then attributes, then a batch for each table (V1, V2)."""

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import shapely

from anabranch.errors import Permanent
from anabranch.plugins.vector.cleaning import shapes
from anabranch.plugins.vector.cleaning.crs import WGS84, resolve_crs
from anabranch.plugins.vector.cleaning.names import name_columns
from anabranch.plugins.vector.cleaning.places import Placement
from anabranch.plugins.vector.cleaning.plain_points import PlainPoints, read_points
from anabranch.plugins.vector.cleaning.reprojection import Reprojection
from anabranch.plugins.vector.cleaning.rows import Rows
from anabranch.plugins.vector.cleaning.types import ARROW_TYPES, find_type
from anabranch.plugins.vector.cleaning.validity import repair
from anabranch.plugins.vector.cleaning.values import Repairs, convert, unwrap
from anabranch.plugins.vector.cleaning.wkb import describe_wkb, read_wkb
from anabranch.plugins.vector.models import (
    CleanBatch,
    Column,
    Family,
    LayerReport,
    Notes,
    ReadOptions,
    SourceBatch,
    SourceLayer,
)
from anabranch.plugins.vector.settings import VectorSettings

if TYPE_CHECKING:
    import numpy.typing as npt

    from anabranch.plugins.vector.models import Rows as Numbers

__all__ = ["Cleaner"]

MAX_NAMED_COLUMNS = 10


class Cleaner:
    """Cleans the rows of one layer, batch by batch; `report` ends it.

    `dropped` is also for the reader of the layer: rows that it can't read are noted there.
    """

    def __init__(self, layer: SourceLayer, options: ReadOptions, settings: VectorSettings) -> None:
        self.columns = _plan_columns(layer.schema, settings.vector_max_columns)
        self.dropped = Notes()
        self.changed = Notes()
        self._written = 0
        self._layer = layer
        self._max_vertices = settings.vector_max_vertices
        self._has_z: bool | None = None if options.keep_z else False
        self._source = resolve_crs(layer, options)
        self._reprojection = Reprojection(self._source.crs or WGS84)
        self._placement = Placement(self._reprojection, no_crs=None if self._source.crs else layer.no_crs)
        self._schema = pa.schema([(column.name, ARROW_TYPES[column.type]) for column in self.columns])

    def clean(self, batch: SourceBatch) -> Iterator[CleanBatch]:
        """The rows of a batch that are left, for each table."""
        if (points := self._place_points(batch)) is not None:
            self._written += len(points)
            yield CleanBatch(Family.POINT, batch.rows, points, self._clean_attributes(batch, batch.rows))
            return
        dropped = self.dropped.total()
        with np.errstate(all="ignore"):  # GEOS leaves flags of its arithmetic, which NumPy would warn of
            rows = self._clean_geometries(batch)
        attributes = self._clean_attributes(batch, rows.numbers, rows.places)
        rows.note_changes(self.changed)
        if len(rows) + self.dropped.total() - dropped != len(batch.rows):
            raise _lost(self._layer.name)
        dimensions = shapely.get_dimensions(rows.geometry)
        for dimension, family in enumerate(shapes.FAMILIES):
            if (found := _select(family, dimensions == dimension, rows, attributes)) is not None:
                self._written += len(found.rows)
                yield found

    def report(self, *, may_be_empty: bool = False) -> LayerReport:
        """What was found, changed and dropped; an error if the CRS can't be right, or if nothing is left.

        Rows written and dropped must be as many as the file has, where that is known without reading them (V1).
        """
        hints = self._placement.judge()
        dropped, rows = self.dropped.counts(), self._written + self.dropped.total()
        if self._layer.features not in (None, rows):
            raise _lost(self._layer.name)
        if not self._written and not may_be_empty:
            raise _nothing_left(self._layer.name, {why: found.count for why, found in dropped.items()})
        crs = self._reprojection.report(self._source)
        return LayerReport(
            layer=self._layer.name,
            format=self._layer.format,
            rows=rows,
            written=self._written,
            crs=crs,
            columns=self.columns,
            dropped=dropped,
            changed={**self._layer.changed.counts(), **self.changed.counts()},
            warnings=(*self._layer.warnings, *self._source.warnings, *self._warn(crs.missing_grids), *hints),
            detected=self._layer.detected,
        )

    def _place_points(self, batch: SourceBatch) -> PlainPoints | None:
        """The geometries of a batch in which all are points that nothing but reprojection changes."""
        points = read_points(batch.geometry) if self._has_z is False else None
        return self._placement.place_points(points) if points else None

    def _clean_geometries(self, batch: SourceBatch) -> Rows:
        geometry, closed = read_wkb(batch.geometry)
        rows = Rows(batch.rows, geometry, self.dropped)
        rows.change(closed, "rings_closed")
        null = batch.geometry.is_null().to_numpy(zero_copy_only=False)
        null[list(batch.unreadable)] = False
        rows.drop(null, "null_geometry")
        rows.drop(shapely.is_missing(rows.geometry), "unreadable_geometry", partial(_describe, batch, rows.places))
        shapes.drop_empty(rows)
        shapes.check_vertices(rows, self._max_vertices)
        shapes.flatten(rows)
        shapes.drop_empty(rows)
        self._force_dimensions(rows)
        self._placement.place(rows)
        repair(rows)
        shapes.drop_empty(rows)
        if self._has_z:  # what was cut or repaired may have vertices without heights
            shapes.fill_heights(rows)
        shapes.orient(rows)
        return rows

    def _force_dimensions(self, rows: Rows) -> None:
        """Keep heights if they are asked for and the first rows have them: a table has them in all rows or in none."""
        if self._has_z is None and len(rows):
            self._has_z = bool(shapely.has_z(rows.geometry).any())
        (shapes.force_3d if self._has_z else shapes.force_2d)(rows)

    def _clean_attributes(
        self, batch: SourceBatch, numbers: "Numbers", places: "npt.NDArray[np.int64] | None" = None
    ) -> pa.RecordBatch:
        """The attributes of rows; those of the whole batch without the places of rows in it."""
        arrays = [unwrap(array) for array in batch.attributes.columns]
        if len(numbers) < len(batch.rows):
            arrays = [array.take(pa.array(places)) for array in arrays]
        repairs = Repairs(numbers)
        arrays = [convert(array, column, repairs) for array, column in zip(arrays, self.columns, strict=True)]
        repairs.note(self.changed)
        if not arrays:  # without columns, a batch would forget how many rows it has
            return batch.attributes.slice(0, len(numbers))
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _warn(self, grids: tuple[str, ...]) -> Iterator[str]:
        if self._source.crs is None:
            yield "The layer has no CRS; its values are degrees, and EPSG:4326 is used."
        if grids:
            yield f"The most accurate operation needs {', '.join(grids)}, which is not installed; the next one is used."
        renamed = [f"{column.source} -> {column.name}" for column in self.columns if column.source != column.name]
        if renamed:
            more = f" and {len(renamed) - MAX_NAMED_COLUMNS} more" if len(renamed) > MAX_NAMED_COLUMNS else ""
            yield f"Columns were renamed: {', '.join(renamed[:MAX_NAMED_COLUMNS])}{more}."


def _describe(batch: SourceBatch, places: "npt.NDArray[np.int64]", place: int) -> str:
    """What a geometry is that can't be read."""
    at = int(places[place])
    return batch.unreadable[at] if at in batch.unreadable else describe_wkb(batch.geometry[at].as_py())


def _plan_columns(schema: pa.Schema, limit: int) -> tuple[Column, ...]:
    if len(schema) > limit:
        raise Permanent(
            f"the layer has {len(schema):,} columns, and {limit:,} are allowed",
            code="vector.columns",
            remedy="Remove columns, or divide the layer; PostgreSQL has a limit of 1,600.",
        )
    names = name_columns(schema.names)
    return tuple(
        Column(name=name, type=find_type(found), source=found.name) for name, found in zip(names, schema, strict=True)
    )


def _select(
    family: Family, mask: "np.typing.NDArray[np.bool_]", rows: Rows, attributes: pa.RecordBatch
) -> CleanBatch | None:
    if not mask.any():
        return None
    if mask.all():
        return CleanBatch(family, rows.numbers, rows.geometry, attributes)
    chosen = attributes.filter(pa.array(mask)) if attributes.num_columns else attributes
    return CleanBatch(family, rows.numbers[mask], rows.geometry[mask], chosen)


def _lost(layer: str) -> Permanent:
    return Permanent(
        f"rows of the layer {layer} were lost while they were cleaned",
        code="vector.rows_lost",
        remedy="It is a bug in Anabranch: report it, with the file if you may.",
    )


def _nothing_left(layer: str, dropped: dict[str, int]) -> Permanent:
    why = ", ".join(f"{count:,} {reason}" for reason, count in dropped.items())
    return Permanent(
        f"the layer {layer} has no features left: {why} were dropped" if why else f"the layer {layer} has no features",
        code="vector.no_features",
        remedy="Send a layer with features that have geometries; the message says what was dropped and why.",
    )
