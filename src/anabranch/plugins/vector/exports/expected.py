"""What the file of an export must hold, found by a pass over its rows that no writer took part in."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import shapely

from anabranch.errors import Permanent
from anabranch.plugins.vector.exports.copy_reader import GEOMETRY, GID, read_rows
from anabranch.plugins.vector.tables.chunk_writer import GEOMETRY_TYPES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anabranch.plugins.vector.models import Column, Geometries

__all__ = ["Bounds", "Expected", "Extent", "check", "compare_sample", "expect", "shapes_of"]

Bounds = tuple[float, float, float, float]
SAMPLES_PER_BATCH = 20
SECOND_MICROSECONDS = 1_000_000


class Extent:
    """Counts geometries and collects their bounds and types."""

    def __init__(self) -> None:
        self.rows = 0
        self._types: set[str] = set()
        self._low, self._high = np.full(2, np.nan), np.full(2, np.nan)

    def add(self, shapes: "Geometries") -> None:
        """Add geometries; those that are missing or empty are counted only."""
        left, bottom, right, top = shapely.total_bounds(shapes)
        self._low, self._high = np.fmin(self._low, [left, bottom]), np.fmax(self._high, [right, top])
        self.rows += len(shapes)
        ids, z = shapely.get_type_id(shapes), shapely.has_z(shapes)
        kinds = {(int(number), bool(flag)) for number, flag in np.unique(np.stack([ids, z]), axis=1).T if number >= 0}
        self._types |= {GEOMETRY_TYPES[number] + (" Z" if flag else "") for number, flag in kinds}

    @property
    def types(self) -> frozenset[str]:
        """The types as GeoParquet names them: `Point`, `MultiPolygon Z`."""
        return frozenset(self._types)

    @property
    def bounds(self) -> Bounds | None:
        """The bounds of all, if any has some."""
        if np.isnan(self._low).any():
            return None
        (left, bottom), (right, top) = self._low.tolist(), self._high.tolist()
        return left, bottom, right, top


@dataclass(frozen=True)
class Expected:
    """The rows of a table: how many, where, of which geometry types, and some of them.

    `early` are the columns with a time before 1970 that has a fraction of a second.
    """

    rows: int
    bounds: Bounds | None
    geometry_types: frozenset[str]
    sample: pa.Table
    early: frozenset[str] = frozenset()


def shapes_of(wkb: pa.Array) -> "Geometries":
    """The geometries of an array of WKB."""
    shapes: Geometries = shapely.from_wkb(wkb.to_numpy(zero_copy_only=False))
    return shapes


def expect(source: Path, columns: "Sequence[Column]") -> Expected:
    """What files of these rows must hold."""
    extent, samples, early = Extent(), list[pa.RecordBatch](), set[str]()
    for batch in read_rows(source, columns):
        early |= _find_early(batch)
        extent.add(shapes_of(batch[GEOMETRY]))
        some = np.unique(np.linspace(0, len(batch) - 1, SAMPLES_PER_BATCH).astype(int))
        samples.append(batch.take(pa.array(some)))
    sample = pa.Table.from_batches(samples) if samples else pa.table({GID: pa.array([], pa.int64())})
    return Expected(extent.rows, extent.bounds, extent.types, sample, frozenset(early))


def _find_early(rows: pa.RecordBatch) -> set[str]:
    found = set()
    for field, values in zip(rows.schema, rows.columns, strict=True):
        if pa.types.is_timestamp(field.type):
            numbers = pc.fill_null(values.view(pa.int64()), 0).to_numpy(zero_copy_only=False)
            if ((numbers < 0) & (numbers % SECOND_MICROSECONDS != 0)).any():
                found.add(field.name)
    return found


def check(path: Path, what: str, found: object, expected: object) -> None:
    """Refuse a file in which something differs."""
    if found != expected:
        raise Permanent(f"{path.name}: {what} {found!r}, and not {expected!r}", code="vector.export_wrong")


def compare_sample(path: Path, sample: pa.Table, batches: Iterable[pa.RecordBatch]) -> None:
    """Refuse a file in which rows of the sample are missing or differ; its batches have the sample's columns."""
    wanted = sample[GID].combine_chunks()
    found = [batch.filter(pc.is_in(batch[GID], wanted)) for batch in batches]
    rows = pa.Table.from_batches(found, sample.schema).sort_by(GID) if found else sample.slice(0, 0)
    check(path, "numbers of sampled rows", rows[GID].to_pylist(), sample.sort_by(GID)[GID].to_pylist())
    for name in sample.schema.names:
        for gid, one, other in zip(rows[GID], rows[name], sample.sort_by(GID)[name], strict=True):
            if one != other and not _are_nan(one.as_py(), other.as_py()):
                raise Permanent(
                    f"{path.name}: row {gid} has {one} in column {name!r}, and not {other}",
                    code="vector.export_wrong",
                )


def _are_nan(one: object, other: object) -> bool:
    return isinstance(one, float) and isinstance(other, float) and np.isnan([one, other]).all().item()
