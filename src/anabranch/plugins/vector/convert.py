"""Turns an untrusted file into rows for PostgreSQL: reads its layers, cleans each batch, and writes files to copy."""

from collections.abc import Callable, Iterator
from functools import partial
from importlib.metadata import version
from pathlib import Path

from anabranch.errors import Permanent
from anabranch.plugins.vector.cleaning.cleaner import Cleaner
from anabranch.plugins.vector.models import (
    AppendTarget,
    CleanBatch,
    CleanedTable,
    Column,
    Converted,
    Family,
    GeometryType,
    LayerReport,
    ReadOptions,
    SourceLayer,
    TableShape,
    WrittenChunk,
)
from anabranch.plugins.vector.reading.open_layers import open_layers
from anabranch.plugins.vector.settings import VectorSettings
from anabranch.plugins.vector.tables.append import fit_rows, require_family
from anabranch.plugins.vector.tables.chunk_writer import ChunkWriter, WrittenRows

__all__ = ["Progress", "SendChunk", "convert"]

MB = 2**20
SOFTWARE = ("pyogrio", "pyproj", "shapely")
Progress = Callable[[float, float | None, str], None]
SendChunk = Callable[[WrittenChunk], None]


def convert(
    source: Path,
    folder: Path,
    options: ReadOptions,
    settings: VectorSettings,
    target: AppendTarget | None,
    progress: Progress,
    send: SendChunk = lambda _: None,
) -> Converted:
    """Write the rows of every layer of a file into the folder; `target` is the layer that they are added to.

    Each file of rows is sent when it is complete: it can be copied while the next one is written.
    """
    layers = open_layers(source, folder, options, settings)
    if target and len(layers) > 1:
        names = ", ".join(layer.name for layer in layers)
        raise Permanent(
            f"{source.name} has {len(layers)} layers, and rows can be added from one: {names}",
            code="vector.append_layers",
            remedy="Choose one with `layer`.",
        )
    done = [
        _LayerWriter(folder, f"layer{number}", layer, options, settings, target, send)
        for number, layer in enumerate(layers)
    ]
    for writer in done:
        writer.run(progress)
    some = any(writer.has_rows for writer in done)  # where no layer has any, the report of the first is the error
    return Converted(
        tables=tuple(table for writer in done for table in writer.tables()),
        reports=tuple(writer.report(may_be_empty=some) for writer in done),
        software={name: version(name) for name in SOFTWARE},
    )


class _LayerWriter:
    """Cleans the rows of one layer, and writes those of each family for a table of their own."""

    def __init__(
        self,
        folder: Path,
        key: str,
        layer: SourceLayer,
        options: ReadOptions,
        settings: VectorSettings,
        target: AppendTarget | None,
        send: SendChunk,
    ) -> None:
        self._folder, self._key, self._layer, self._settings, self._target = folder, key, layer, settings, target
        self._send = send
        self._sent: dict[Family, TableShape] = {}
        self._cleaner = Cleaner(layer, options, settings)
        self._columns: tuple[Column, ...] = target.columns if target else tuple(self._cleaner.columns)
        self._fit = fit_rows(self._cleaner.columns, target, layer.format) if target else None
        self._writers: dict[Family, ChunkWriter] = {}
        self._written: dict[Family, WrittenRows] = {}

    @property
    def has_rows(self) -> bool:
        """Whether any row was written."""
        return bool(self._written)

    def run(self, progress: Progress) -> None:
        """Read, clean and write all rows."""
        read = 0
        for batch in self._layer.read(self._settings.vector_batch_rows, self._cleaner.dropped):
            for clean in self._cleaner.clean(batch):
                self._find_writer(clean).write(self._fit(clean) if self._fit else clean)
            read += len(batch.rows)
            progress(read, self._layer.features, self._layer.name)
        self._written = {family: writer.close() for family, writer in self._writers.items()}

    def report(self, *, may_be_empty: bool) -> LayerReport:
        """What happened to the rows; an error where none is left, unless that may be."""
        return self._cleaner.report(may_be_empty=may_be_empty)

    def tables(self) -> Iterator[CleanedTable]:
        """The tables, one for each family."""
        for family, written in sorted(self._written.items()):
            if written.bounds is not None:
                yield CleanedTable(
                    **dict(self._shape(family, written)),
                    key=f"{self._key}-{family}",
                    layer=self._layer.name,
                    family=family,
                    rows=written.rows,
                    bounds=written.bounds,
                    chunks=len(written.chunks),
                    sha256=written.sha256,
                )

    def _find_writer(self, clean: CleanBatch) -> ChunkWriter:
        if self._target:
            require_family(clean.family, self._target)
        if clean.family not in self._writers:
            self._writers[clean.family] = ChunkWriter(
                self._folder,
                f"{self._key}-{clean.family}",
                self._columns,
                self._settings.vector_chunk_mb * MB,
                first_gid=self._target.last_gid + 1 if self._target else 1,
                chunk_ended=partial(self._send_chunk, clean.family),
            )
        return self._writers[clean.family]

    def _send_chunk(self, family: Family, written: WrittenRows) -> None:
        shape = self._shape(family, written)
        self._send(
            WrittenChunk(
                key=f"{self._key}-{family}",
                number=len(written.chunks) - 1,
                rows=written.chunk_rows[-1],
                shape=None if shape == self._sent.get(family) else shape,
            )
        )
        self._sent[family] = shape

    def _shape(self, family: Family, written: WrittenRows) -> TableShape:
        return TableShape(
            geometry_type=_find_type(family, written),
            mixed="Point" in written.geometry_types and len(written.geometry_types) > 1,
            has_z=written.has_z,
            columns=self._columns,
        )


def _find_type(family: Family, written: WrittenRows) -> GeometryType:
    if family is Family.POINT:
        return "Point" if written.geometry_types == {"Point"} else "MultiPoint"
    return "MultiLineString" if family is Family.LINE else "MultiPolygon"
