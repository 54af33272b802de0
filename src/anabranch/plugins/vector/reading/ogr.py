"""Reads layers through GDAL (pyogrio) as Arrow record batches."""

import warnings
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyogrio
from pyogrio.errors import DataLayerError, DataSourceError
from pyogrio.raw import open_arrow

from anabranch.errors import Permanent
from anabranch.plugins.vector.models import Notes, ReadBatches, SourceBatch, SourceLayer
from anabranch.plugins.vector.reading.batches import clean_text, name_apart, slice_batch
from anabranch.plugins.vector.reading.curves import simplify_types
from anabranch.plugins.vector.reading.drivers import ALLOWED, gdal_options
from anabranch.plugins.vector.settings import VectorSettings

__all__ = [
    "OgrFile",
    "check_drivers",
    "count_features",
    "list_indexed_layers",
    "list_layers",
    "open_layer",
    "set_options",
]

# The names that GDAL gives to the number of a row, where a format has none.
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
    id_column: str | None = None  # how the number of a row is called, where it is a value of the file
    text_columns: frozenset[str] = frozenset()  # those that GDAL takes for JSON, and are not


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


def list_layers(file: OgrFile, *, skip_empty: bool = False) -> list[tuple[str, bool]]:
    """The names of the layers of a file, and whether each has geometries."""
    with _reported(file):
        layers = [(str(name), kind is not None) for name, kind in pyogrio.list_layers(file.path)]
        if not skip_empty:
            return layers
        return [each for each in layers if pyogrio.read_info(file.path, layer=each[0])["features"]]


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


def count_features(file: OgrFile) -> int:
    """How many rows the first layer has, as the file says; 0 where it does not."""
    with _reported(file):
        return max(0, int(pyogrio.read_info(file.path)["features"]))


def open_layer(
    file: OgrFile,
    name: str,
    layer: str | int = 0,
    *,
    crs: str | None = None,
    crs_found: str = "file",
    rows: int | None = None,
    detected: dict[str, str] | None = None,
    notices: tuple[str, ...] = (),
) -> SourceLayer:
    """A layer; its CRS is the file's own, unless one is given. `rows` are those that it must have."""
    changed = Notes()
    reader = _Reader(file, layer, rows, changed)
    return SourceLayer(
        name=name,
        format=file.format,
        schema=reader.schema,
        crs=crs if crs is not None or crs_found != "file" else reader.crs,
        read=reader,
        crs_found=crs_found,
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
    except (DataSourceError, DataLayerError, pa.ArrowException, OSError, ValueError) as error:
        said = str(error).replace(str(file.path), file.name).replace(str(file.path.parent), "").splitlines()
        raise Permanent(
            f"{file.name} can't be read as {file.format}: {said[0] if said else 'it is damaged'}",
            code="vector.damaged",
            remedy="Upload it again; open it elsewhere to check that it is complete.",
        ) from error


class _Reader(ReadBatches):
    """Reads a layer; the file stays open from the look at its columns to the first reading.

    To find the columns, GDAL reads the whole of a GeoJSON file, which it need not do twice.
    """

    def __init__(self, file: OgrFile, layer: str | int, rows: int | None, changed: Notes) -> None:
        self._file = file
        self._layer = layer
        self._rows = rows
        self._changed = changed
        stream = self._open()
        with _reported(file):
            self._meta, self._source = next(stream)
        self.crs: str | None = self._meta["crs"]
        self._kept = self._choose_columns()
        self.schema = self._make_schema()
        # KML and GML are read whole or in passes: many open layers would be many copies.
        self._stream: Iterator[pa.RecordBatch] | None = stream if layer == 0 else None
        if self._stream is None:
            stream.close()

    def __call__(self, max_rows: int, dropped: Notes) -> Iterator[SourceBatch]:
        stream, self._stream = self._stream, None
        if stream is None:
            stream = self._open()
            with _reported(self._file):
                next(stream)
        done = 0
        while True:
            with _reported(self._file):
                batch = next(stream, None)
            if batch is None:
                break
            for part in slice_batch(batch, max_rows):
                yield self._convert(part, done)
                done += len(part)
        if self._rows is not None and done != self._rows:
            raise Permanent(
                f"{self._file.name} has {self._rows:,} features, and {done:,} of them can be read",
                code="vector.damaged",
                remedy="Upload it again; open it elsewhere to check that it is complete.",
            )

    def _open(self) -> Generator[Any, None, None]:
        file = self._file
        with open_arrow(
            file.path,
            layer=self._layer,
            encoding=file.encoding,
            return_fids=True,
            batch_size=file.settings.vector_batch_rows,
            use_pyarrow=True,
            **file.options,
        ) as (meta, reader):
            yield meta, reader.schema
            yield from reader

    def _choose_columns(self) -> list[int]:
        """The places of the attributes: all between the number of the row, which is the first, and the geometry."""
        last = len(self._source) - 1
        first = 0 if self._file.id_column or self._source.field(0).name.lower() not in ROW_NUMBERS else 1
        most = self._file.settings.vector_max_columns
        if last - first > most:
            raise Permanent(
                f"{self._file.name} has {last - first:,} columns, over the limit of {most:,}",
                code="vector.columns",
                remedy="Remove columns, or ask the operator to raise ANABRANCH_VECTOR_MAX_COLUMNS.",
            )
        return list(range(first, last))

    def _make_schema(self) -> pa.Schema:
        fields = [self._source.field(place) for place in self._kept]
        names = [
            self._file.id_column if not place and self._file.id_column else self._source.field(place).name
            for place in self._kept
        ]
        return pa.schema(
            pa.field(name, pa.string() if self._is_text(each) else each.type, metadata=each.metadata)
            for name, each in zip(name_apart(names), fields, strict=True)
        )

    def _is_text(self, field: pa.Field) -> bool:
        """Whether GDAL takes a column for JSON, and some of its values are text that is none."""
        return isinstance(field.type, pa.BaseExtensionType) and field.name in self._file.text_columns

    def _convert(self, batch: pa.RecordBatch, done: int) -> SourceBatch:
        rows = np.arange(done + 1, done + 1 + len(batch), dtype=np.int64)
        columns = [
            clean_text(_as_type(batch.column(place), each.type), rows, self._changed)
            for place, each in zip(self._kept, self.schema, strict=True)
        ]
        geometry = simplify_types(batch.column(batch.num_columns - 1), rows, self._changed)
        return SourceBatch(rows, pa.RecordBatch.from_arrays(columns, schema=self.schema), geometry)


def _as_type(column: pa.Array, kind: pa.DataType) -> pa.Array:
    return column.storage if isinstance(column.type, pa.BaseExtensionType) and column.type != kind else column
