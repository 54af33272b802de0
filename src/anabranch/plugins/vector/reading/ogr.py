"""Reads layers through GDAL (pyogrio) as Arrow record batches."""

import warnings
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyogrio
from pyogrio.errors import DataLayerError, DataSourceError
from pyogrio.raw import open_arrow

from anabranch.errors import Permanent
from anabranch.plugins.vector.in_sandbox import LIBRARY_ERRORS
from anabranch.plugins.vector.models import Notes, ReadBatches, SourceBatch, SourceLayer
from anabranch.plugins.vector.reading.batches import check_count, make_unique, slice_batch
from anabranch.plugins.vector.reading.curves import simplify_types
from anabranch.plugins.vector.reading.drivers import ALLOWED, gdal_options
from anabranch.plugins.vector.reading.exact.columns import FindUnreadable, OwnValues, ReadColumns
from anabranch.plugins.vector.settings import VectorSettings

if TYPE_CHECKING:
    from anabranch.plugins.vector.models import Rows

__all__ = [
    "OgrFile",
    "check_drivers",
    "count_features",
    "find_types",
    "list_indexed_layers",
    "list_layers",
    "open_layer",
    "set_options",
]

# The names that GDAL gives to the number of a row, where a table has no other.
ROW_NUMBERS = ("fid", "ogc_fid")


@dataclass(frozen=True)
class OgrFile:
    """A file that GDAL reads: its path, the name that messages have, and how to open it."""

    path: Path
    name: str
    format: str
    settings: VectorSettings
    encoding: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    has_keys: bool = False  # the number of a row is a value of the file, under the name that it has there
    id_column: str | None = None  # so it is, and how it is called
    data: bytes | None = None  # what GDAL reads instead of the file
    own: OwnValues | None = None  # columns whose values GDAL would change
    find_unreadable: FindUnreadable | None = None  # geometries that the file has where GDAL has none
    parse: Callable[[ReadColumns], OwnValues] | None = None  # what parses times, which GDAL then gives as texts
    skipped: frozenset[str] = frozenset()  # columns that are none of the file's attributes
    keeps_open: bool = True  # the first layer, from the look at its columns on


def check_drivers(allowed: frozenset[str] = ALLOWED) -> None:
    """Raise where GDAL has loaded a driver that is not allowed: a new one, or one loaded too early."""
    loaded = sorted(set(pyogrio.list_drivers()) - allowed)
    if loaded:
        version = ".".join(str(part) for part in pyogrio.__gdal_version__)
        raise Permanent(
            f"GDAL {version} has loaded drivers that are not allowed: {', '.join(loaded[:8])}",
            code="vector.drivers",
            remedy="This is a bug in Anabranch: report it with the version of GDAL.",
        )


def set_options(settings: VectorSettings) -> None:
    """Bound what GDAL may use, also where the process was not started with our environment."""
    pyogrio.set_gdal_config_options(gdal_options(settings.vector_memory_mb))


def list_layers(file: OgrFile) -> list[tuple[str, bool]]:
    """The names of the layers of a file, and whether each has geometries."""
    with _reported(file):
        return [(str(name), kind is not None) for name, kind in pyogrio.list_layers(file.path)]


def list_indexed_layers(file: OgrFile) -> list[tuple[str, bool]]:
    """The same with the file's open options, which `pyogrio.list_layers` has not."""
    layers: list[tuple[str, bool]] = []
    while len(layers) <= file.settings.vector_max_layers:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = pyogrio.read_info(file.path, layer=len(layers), **file.options)
        except DataLayerError:
            break
        except DataSourceError as error:
            with _reported(file):
                raise error from None
        layers.append((found["layer_name"], found["geometry_type"] is not None))
    return layers


def count_features(file: OgrFile, layer: str | int = 0, *, force: bool = False) -> int:
    """How many rows a layer has, as the file says, or as GDAL counts; 0 where the file does not say."""
    with _reported(file):
        return max(0, int(pyogrio.read_info(file.path, layer=layer, force_feature_count=force)["features"]))


def find_types(file: OgrFile, layer: str | int = 0) -> dict[str, pa.DataType]:
    """The types that GDAL gives to the columns of a layer, by their names."""
    with _reported(file), open_arrow(file.path, layer=layer, use_pyarrow=True, datetime_as_string=True) as (_, reader):
        return {column.name: column.type for column in reader.schema}


def open_layer(
    file: OgrFile,
    name: str,
    layer: str | int = 0,
    *,
    crs: str | None = None,
    crs_found: str = "file",
    no_crs: str = SourceLayer.no_crs,
    rows: int | None = None,
    left_out: Mapping[str, Sequence[int]] | None = None,
    detected: dict[str, str] | None = None,
    notices: tuple[str, ...] = (),
) -> SourceLayer:
    """A layer; its CRS is the file's own, unless one is given, and none where that is empty.

    `rows` are those that the file has (V1), and `left_out` the numbers of those that GDAL does not read, by the reason
    to report them with.
    """
    changed = Notes()
    reader = _Reader(file, layer, rows, left_out or {}, changed)
    return SourceLayer(
        name=name,
        format=file.format,
        schema=reader.schema,
        crs=reader.crs if crs is None else crs or None,
        read=reader,
        crs_found=crs_found,
        no_crs=no_crs,
        features=rows,
        detected=detected or {},
        warnings=notices,
        changed=changed,
    )


@contextmanager
def _reported(file: OgrFile) -> Iterator[None]:
    """GDAL's errors as ours, with the name of the file and without the folders of this machine."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except MemoryError:
        raise
    except (*LIBRARY_ERRORS, pa.ArrowException, OSError) as error:
        lines = str(error).replace(str(file.path), file.name).replace(str(file.path.parent), "").splitlines()
        code, remedy = _explain(str(error))
        raise Permanent(
            f"{file.name} can't be read as {file.format}: {lines[0] if lines else 'it is damaged'}",
            code=code,
            remedy=remedy,
        ) from error


def _explain(message: str) -> tuple[str, str]:
    if "Unrecognized number" in message:  # valid JSON, but not for GDAL
        return "vector.json", "Write the number as text, or with fewer digits: it must fit in 64 bits."
    return "vector.damaged", "Upload it again; open it elsewhere to check that it is complete."


class _Reader(ReadBatches):
    """Reads a layer; the file stays open from the look at its columns to the first reading.

    To find the columns, GDAL reads the whole of a GeoJSON file, which it need not do twice.
    """

    def __init__(
        self, file: OgrFile, layer: str | int, rows: int | None, left_out: Mapping[str, Sequence[int]], changed: Notes
    ) -> None:
        self._file = file
        self._layer = layer
        self._rows = rows
        self._left_out = left_out
        self._changed = changed
        stream = self._open()
        with _reported(file):
            self._meta, self._source = next(stream)
        self.crs: str | None = self._meta["crs"]
        self._kept = self._choose_columns()
        self._values = file.own or (file.parse(self._read_columns) if file.parse else None)
        given = [self._source.field(place) for place in self._kept]
        self._own = self._values.find_types(given) if self._values else {}
        self.schema, self._places = self._make_schema()
        # KML and GML are read whole or in passes: many open layers would be many copies.
        self._stream: Iterator[pa.RecordBatch] | None = stream if layer == 0 and file.keeps_open else None
        if self._stream is None:
            stream.close()

    def __call__(self, max_rows: int, dropped: Notes) -> Iterator[SourceBatch]:
        stream, self._stream = self._stream, None
        if stream is None:
            stream = self._open()
            with _reported(self._file):
                next(stream)
        numbers = _Numbers(self._left_out)
        take = self._values.open(self._own, self._changed) if self._values and self._own else None
        for reason, rows in self._left_out.items():
            dropped.add(reason, list(rows))
        while True:
            with _reported(self._file):
                batch = next(stream, None)
            if batch is None:
                break
            for part in slice_batch(batch, max_rows):
                taken = numbers.take(len(part))
                yield self._convert(part, taken, take(part, taken) if take else {})
        check_count(self._file.name, self._rows, numbers.done)

    def _read_columns(self, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The batches of some columns."""
        with _reported(self._file):
            stream = self._open(columns=list(names), read_geometry=False)
            next(stream)
            yield from stream

    def _open(self, **wishes: Any) -> Generator[Any, None, None]:  # as GDAL's and pyogrio's options are
        file = self._file
        with open_arrow(
            file.data or file.path,
            layer=self._layer,
            encoding=file.encoding,
            return_fids=True,
            batch_size=file.settings.vector_batch_rows,
            use_pyarrow=True,
            datetime_as_string=file.parse is not None,
            **wishes,
            **file.options,
        ) as (meta, reader):
            yield meta, reader.schema
            yield from reader

    def _choose_columns(self) -> list[int]:
        """The places of the attributes: all between the number of the row, which is the first, and the geometry."""
        last = len(self._source) - 1
        has_key = self._file.has_keys and self._source.field(0).name.lower() not in ROW_NUMBERS
        first = 0 if self._file.id_column or has_key else 1
        most = self._file.settings.vector_max_columns
        if last - first > most:
            raise Permanent(
                f"{self._file.name} has {last - first:,} columns, over the limit of {most:,}",
                code="vector.columns",
                remedy="Remove columns, or ask the operator to raise ANABRANCH_VECTOR_MAX_COLUMNS.",
            )
        return [place for place in range(first, last) if self._source.field(place).name not in self._file.skipped]

    def _make_schema(self) -> tuple[pa.Schema, list[int | str]]:
        """The columns, and the place of each in GDAL's rows, or its name among our own."""
        given = [self._source.field(place) for place in self._kept]
        if self._file.id_column:
            given[0] = given[0].with_name(self._file.id_column)
        places: dict[int | str, pa.Field] = {
            name: pa.field(name, kind) for name, kind in self._own.items() if name not in {each.name for each in given}
        }
        for place, each in zip(self._kept, given, strict=True):
            own = self._own.get(each.name)
            places[place if own is None else each.name] = each if own is None else pa.field(each.name, own)
        names = make_unique([each.name for each in places.values()])
        return pa.schema(each.with_name(name) for name, each in zip(names, places.values(), strict=True)), list(places)

    def _convert(self, batch: pa.RecordBatch, rows: "Rows", own: Mapping[str, pa.Array]) -> SourceBatch:
        columns = [own[place] if isinstance(place, str) else batch.column(place) for place in self._places]
        attributes = pa.RecordBatch.from_arrays(columns, schema=self.schema)
        given = batch.column(batch.num_columns - 1)
        find = self._file.find_unreadable if given.null_count else None
        unreadable = find(batch, rows, np.flatnonzero(given.is_null())) if find else {}
        return SourceBatch(rows, attributes, simplify_types(given, rows, self._changed), unreadable)


class _Numbers:
    """The numbers of rows in the source, without those that are left out there."""

    def __init__(self, left_out: Mapping[str, Sequence[int]]) -> None:
        self._left_out = np.array(sorted(row for rows in left_out.values() for row in rows), np.int64)
        self._read = 0

    def take(self, count: int) -> "Rows":
        """The next numbers."""
        read = np.arange(self._read, self._read + count, dtype=np.int64)
        self._read += count
        # As many rows come before one that is read as before those that are left out, less these themselves.
        before = np.searchsorted(self._left_out - np.arange(len(self._left_out)) - 1, read, side="right")
        return read + before + 1

    @property
    def done(self) -> int:
        """How many rows there were, with those that are left out."""
        return self._read + len(self._left_out)
