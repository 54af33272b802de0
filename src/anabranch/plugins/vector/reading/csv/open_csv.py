"""Opens CSV files: a first pass finds types and unreadable rows, the second yields the others."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.errors import Permanent
from anabranch.plugins.vector.models import Notes, ReadBatches, ReadOptions, SourceBatch, SourceLayer
from anabranch.plugins.vector.reading.batches import make_unique
from anabranch.plugins.vector.reading.choose import check_name, show_names
from anabranch.plugins.vector.reading.csv.dialect import Dialect, find_dialect
from anabranch.plugins.vector.reading.csv.geometry import (
    GeometryColumns,
    Parsed,
    find_columns,
    parse_points,
    parse_texts,
)
from anabranch.plugins.vector.reading.csv.rows import TextBatch, read_text
from anabranch.plugins.vector.reading.csv.types import ColumnKind, TypeFinder
from anabranch.plugins.vector.reading.curves import simplify_types
from anabranch.plugins.vector.reading.drivers import batch_bytes
from anabranch.plugins.vector.reading.encodings import warn_of_guess
from anabranch.plugins.vector.settings import VectorSettings

__all__ = ["open_csv"]

DEGREES = "OGC:CRS84"
BLANK = "blank_row"
OUT_OF_RANGE = "coordinate_is_out_of_range"
WRONG_WIDTH = "wrong_number_of_fields"
BLOCK_DIVISOR = 8


@dataclass(frozen=True)
class _CsvFile:
    """A file whose header is understood."""

    path: Path
    dialect: Dialect
    geometry: GeometryColumns
    block_bytes: int
    check_range: bool

    @property
    def attributes(self) -> list[int]:
        """The places of the other columns."""
        return [place for place in range(len(self.dialect.header)) if place not in self.geometry.places]

    def read(self) -> Iterator[TextBatch]:
        """The rows as text."""
        return read_text(self.path, self.dialect, self.block_bytes)

    def parse(self, batch: TextBatch) -> Parsed:
        """The geometries of some rows."""
        columns = [batch.columns[place] for place in self.geometry.places]
        if len(columns) == 1:
            return parse_texts(columns[0])
        return parse_points(*columns, degrees=self.check_range, commas=self.dialect.delimiter != ",")


@dataclass
class _Survey:
    """What the first pass finds."""

    rows: int = 0
    bad: Notes = field(default_factory=Notes)
    kinds: list[ColumnKind] = field(default_factory=list)
    srids: set[int] = field(default_factory=set)


def open_csv(path: Path, options: ReadOptions, settings: VectorSettings) -> tuple[SourceLayer, ...]:
    """The layer of a CSV file; refused where too many of its rows are unreadable."""
    check_name(path.name, options.layer, [path.stem])
    dialect = find_dialect(path, options)
    _check_columns(path.name, dialect, settings)
    block_bytes = batch_bytes(settings.vector_memory_mb) // BLOCK_DIVISOR
    holds_texts = partial(_holds_texts, path, dialect, block_bytes)
    geometry = find_columns(path.name, dialect.header, options, holds_texts)
    check_range = geometry.degrees and options.crs is None
    file = _CsvFile(path, dialect, geometry, block_bytes, check_range=check_range)
    survey = _survey(file)
    _check_bad_rows(path.name, survey, settings)
    names = make_unique([dialect.header[place].strip() for place in file.attributes])
    schema = pa.schema([(name, kind.type) for name, kind in zip(names, survey.kinds, strict=True)])
    changed = Notes()
    crs, notices = _find_crs(path.name, survey.srids)
    layer = SourceLayer(
        name=path.stem,
        format="CSV",
        schema=schema,
        crs=DEGREES if geometry.degrees else crs,
        read=_Reader(file, schema, survey.kinds, changed),
        crs_found="columns" if geometry.degrees else "file",
        features=survey.rows,
        detected=_describe(file, survey.kinds),
        warnings=(*notices, *(() if options.encoding else warn_of_guess(path.stem, dialect.encoding))),
        changed=changed,
    )
    return (layer,)


def _holds_texts(path: Path, dialect: Dialect, block_bytes: int, place: int) -> bool:
    """Whether a column has a geometry in its first rows."""
    for batch in read_text(path, dialect, block_bytes):
        parsed = parse_texts(batch.columns[place])
        return bool(parsed.geometry.null_count < len(parsed.geometry))
    return False


def _find_crs(name: str, srids: set[int]) -> tuple[str | None, tuple[str, ...]]:
    """The CRS that geometries have by their SRIDs, if any has one; and a notice of those that have none (R1)."""
    codes = [f"EPSG:{srid}" for srid in sorted(srids - {0})]
    if len(codes) > 1:
        raise Permanent(
            f"the geometries of {name} are in several CRSs: {show_names(codes)}",
            code="vector.crs_conflict",
            remedy="Reproject them to one, or send a file for each.",
        )
    if not codes or 0 not in srids:
        return (codes[0] if codes else None), ()
    return codes[0], (f"Geometries without an SRID are in {codes[0]}, as others are.",)


def _check_columns(name: str, dialect: Dialect, settings: VectorSettings) -> None:
    if len(dialect.header) > settings.vector_max_columns:
        raise Permanent(
            f"{name} has {len(dialect.header):,} columns, over the limit of {settings.vector_max_columns:,}",
            code="vector.columns",
            remedy="Remove columns, or ask the operator to raise ANABRANCH_VECTOR_MAX_COLUMNS.",
        )


def _describe(file: _CsvFile, kinds: list[ColumnKind]) -> dict[str, str]:
    header, encoding = file.dialect.header, file.dialect.encoding
    found = {
        "encoding": "utf-8" if encoding == "utf-8-sig" else encoding,
        "delimiter": file.dialect.title,
        "geometry columns": ", ".join(header[place].strip() for place in file.geometry.places),
    }
    return found | ({"decimal separator": "comma"} if any(kind.commas for kind in kinds) else {})


def _survey(file: _CsvFile) -> _Survey:
    survey = _Survey()
    finders = [TypeFinder(commas=file.dialect.delimiter != ",") for _ in file.attributes]
    for batch in file.read():
        survey.rows += len(batch.lines) + len(batch.wrong)
        parsed = file.parse(batch)
        keep = _note_bad(batch, parsed, survey.bad, Notes())
        survey.srids |= parsed.srids
        mask = pa.array(keep)
        for finder, place in zip(finders, file.attributes, strict=True):
            finder.add(batch.columns[place].filter(mask))
    survey.kinds = [finder.found() for finder in finders]
    return survey


def _note_bad(
    batch: TextBatch, parsed: Parsed, bad: Notes, blank: Notes
) -> "np.ndarray[tuple[int], np.dtype[np.bool_]]":
    """Note rows that can't be read, and those without any value; returns which are left."""
    bad.add(WRONG_WIDTH, [line for line, _ in batch.wrong], [what for _, what in batch.wrong])
    keep = np.ones(len(batch.lines), np.bool_)
    for reason, found in parsed.bad.items():
        mask = found & keep  # a row counts once, by the first of its reasons (V1)
        keep &= ~mask
        if mask.any():
            bad.add(reason, batch.lines[mask], _quote(batch, np.flatnonzero(mask)[:5].tolist()))
    empty = np.ones(len(batch.lines), np.bool_)
    for column in batch.columns:
        empty &= pc.fill_null(pc.equal(column, ""), True).to_numpy(zero_copy_only=False)
    blank.add(BLANK, batch.lines[empty & keep])
    return keep & ~empty


def _quote(batch: TextBatch, places: list[int]) -> list[str]:
    """The text of some rows."""
    return [", ".join(str(column[place].as_py() or "") for column in batch.columns) for place in places]


def _check_bad_rows(name: str, survey: _Survey, settings: VectorSettings) -> None:
    count = survey.bad.total()
    if count * 100 <= survey.rows * settings.vector_max_bad_rows:
        return
    reasons = "; ".join(
        f"{reason.replace('_', ' ')} in {found.count:,}, like line {found.samples[0].row}: {found.samples[0].what}"
        for reason, found in survey.bad.counts().items()
    )
    hint = ", and that lat and lon are not swapped" if OUT_OF_RANGE in survey.bad.counts() else ""
    raise Permanent(
        f"{count:,} of {survey.rows:,} rows of {name} can't be read, over the limit of "
        f"{settings.vector_max_bad_rows} %: {reasons}",
        code="vector.bad_rows",
        remedy=f"Fix these rows; check `delimiter`{hint}.",
    )


class _Reader(ReadBatches):
    """The second pass."""

    def __init__(self, file: _CsvFile, schema: pa.Schema, kinds: list[ColumnKind], changed: Notes) -> None:
        self._file = file
        self._schema = schema
        self._kinds = kinds
        self._changed = changed

    def __call__(self, max_rows: int, dropped: Notes) -> Iterator[SourceBatch]:
        for batch in self._file.read():
            parsed = self._file.parse(batch)
            keep = pa.array(_note_bad(batch, parsed, dropped, dropped))
            columns = [
                kind.convert(batch.columns[place].filter(keep))
                for kind, place in zip(self._kinds, self._file.attributes, strict=True)
            ]
            lines = batch.lines[keep.to_numpy(zero_copy_only=False)]
            geometry = simplify_types(parsed.geometry.filter(keep), lines, self._changed)
            attributes = pa.RecordBatch.from_arrays(columns, schema=self._schema)
            for start in range(0, len(lines), max_rows):
                part = slice(start, start + max_rows)
                yield SourceBatch(lines[part], attributes.slice(start, max_rows), geometry.slice(start, max_rows))
