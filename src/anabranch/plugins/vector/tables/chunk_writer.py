"""Files of rows for PostgreSQL: each is a complete stream of the binary COPY format."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import shapely

from anabranch.plugins.vector.cleaning.plain_points import PlainPoints
from anabranch.plugins.vector.models import CleanBatch, Family, PartRows
from anabranch.plugins.vector.tables.binary_arrays import offsets_of
from anabranch.plugins.vector.tables.copy_format import HEADER, TRAILER, encode_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import BinaryIO

    import numpy.typing as npt

    from anabranch.plugins.vector.models import Column, Geometries, Rows

__all__ = ["ChunkWriter", "WrittenRows", "write_part"]

NO_LIMIT_BYTES = 2**62
ENCODED_ROWS = 8_192  # at once: they fit into a processor's cache, and large geometries are copied a few at a time
GEOMETRY_TYPES = (
    "Point", "LineString", "LinearRing", "Polygon",
    "MultiPoint", "MultiLineString", "MultiPolygon", "GeometryCollection",
)  # fmt: skip


@dataclass(frozen=True)
class WrittenRows:
    """What was written: the files in order with their rows, and what a loaded table must agree with.

    `sha256` is of the bytes of all files in order. There are no bounds if there are no rows, or only empty geometries.
    """

    rows: int
    bounds: tuple[float, float, float, float] | None
    geometry_types: frozenset[str]
    has_z: bool
    chunks: tuple[str, ...]
    chunk_rows: tuple[int, ...]
    sha256: str


def write_part(
    folder: Path, columns: "Sequence[Column]", gids: "Rows", geometry: "Geometries", attributes: pa.RecordBatch
) -> PartRows:
    """Write polygons that have their gids already to one file."""
    writer = ChunkWriter(folder, "part", columns, NO_LIMIT_BYTES, keep_numbers=True)
    writer.write(CleanBatch(Family.POLYGON, gids, geometry, attributes))
    written = writer.close()
    file = written.chunks[0] if written.chunks else None
    size = (folder / file).stat().st_size if file else 0
    return PartRows(rows=written.rows, bounds=written.bounds, size=size, sha256=written.sha256, file=file)


class ChunkWriter:
    """Writes the rows of a table to files of about the same size."""

    def __init__(
        self,
        folder: Path,
        name: str,
        columns: "Sequence[Column]",
        chunk_bytes: int,
        *,
        first_gid: int = 1,
        keep_numbers: bool = False,
        chunk_ended: "Callable[[WrittenRows], None] | None" = None,
    ) -> None:
        """Files are `{name}-00000.copy` and so on; one grows past `chunk_bytes` only by a row that is larger.

        Rows are numbered from `first_gid`, or with `keep_numbers` keep those that their batches give. `chunk_ended` is
        called with what was written so far when a file is complete; the types may be those of later rows, too.
        """
        self._folder, self._name, self._columns, self._chunk_bytes = folder, name, columns, chunk_bytes
        self._first_gid, self._keep_numbers, self._chunk_ended = first_gid, keep_numbers, chunk_ended
        self._chunks: list[str] = []
        self._chunk_rows: list[int] = []
        self._sha256 = hashlib.sha256()
        self._file: BinaryIO | None = None
        self._room = 0
        self._bounds = np.full(4, np.nan)
        self._types: set[int] = set()
        self._has_z = False

    def write(self, batch: CleanBatch) -> None:
        """Add rows; their numbers go on from those of the last batch, unless they are kept."""
        for start in range(0, len(batch.geometry), ENCODED_ROWS):
            geometry = batch.geometry[start : start + ENCODED_ROWS]
            attributes = batch.attributes.slice(start, ENCODED_ROWS)
            gids = self._first_gid + sum(self._chunk_rows) + np.arange(len(geometry))
            if self._keep_numbers:
                gids = batch.rows[start : start + ENCODED_ROWS]
            rows = encode_rows(geometry, attributes, self._columns, gids)
            self._note(geometry)
            self._write_rows(offsets_of(rows), rows.buffers()[2])

    def close(self) -> WrittenRows:
        """End the last file."""
        self._end_chunk()
        return self._written()

    def _written(self) -> WrittenRows:
        bounds = None if np.isnan(self._bounds).any() else tuple(self._bounds.tolist())
        return WrittenRows(
            rows=sum(self._chunk_rows), bounds=bounds, has_z=self._has_z,
            geometry_types=frozenset(GEOMETRY_TYPES[number] for number in self._types),
            chunks=tuple(self._chunks), chunk_rows=tuple(self._chunk_rows), sha256=self._sha256.hexdigest(),
        )  # fmt: skip

    def _note(self, geometry: "Geometries | PlainPoints") -> None:
        if isinstance(geometry, PlainPoints):
            self._extend(geometry.xy.min(axis=0), geometry.xy.max(axis=0))
            self._types.add(GEOMETRY_TYPES.index("Point"))
            return
        bounds = shapely.total_bounds(geometry)
        self._extend(bounds[:2], bounds[2:])
        self._types.update(np.flatnonzero(np.bincount(shapely.get_type_id(geometry))).tolist())
        self._has_z |= bool(shapely.has_z(geometry).any())

    def _extend(self, least: "npt.NDArray[np.float64]", most: "npt.NDArray[np.float64]") -> None:
        self._bounds[:2] = np.fmin(self._bounds[:2], least)
        self._bounds[2:] = np.fmax(self._bounds[2:], most)

    def _write_rows(self, offsets: "np.ndarray[tuple[int], np.dtype[np.int64]]", data: pa.Buffer) -> None:
        first = 0
        while first < len(offsets) - 1:
            if self._file is None:
                self._begin_chunk()
            last = int(np.searchsorted(offsets, offsets[first] + self._room, side="right")) - 1
            if last == first and self._chunk_rows[-1] > 0:
                self._end_chunk()
                continue
            last = max(last, first + 1)
            self._put(memoryview(data)[offsets[first] : offsets[last]])
            self._chunk_rows[-1] += last - first
            first = last

    def _begin_chunk(self) -> None:
        self._chunks.append(f"{self._name}-{len(self._chunks):05}.copy")
        self._chunk_rows.append(0)
        self._file = (self._folder / self._chunks[-1]).open("wb")
        self._room = self._chunk_bytes - len(TRAILER)
        self._put(HEADER)

    def _end_chunk(self) -> None:
        if self._file is not None:
            self._put(TRAILER)
            self._file.close()
            self._file = None
            if self._chunk_ended:
                self._chunk_ended(self._written())

    def _put(self, data: "bytes | memoryview") -> None:
        assert self._file is not None  # noqa: S101 - for the type checker
        self._file.write(data)
        self._sha256.update(data)
        self._room -= len(data)
