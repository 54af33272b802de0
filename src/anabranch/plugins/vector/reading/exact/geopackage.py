"""Columns of a GeoPackage with values that are not of their type, which SQLite allows, or of types that GDAL skips."""

import json
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import date, datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pyarrow as pa

from anabranch.errors import Permanent
from anabranch.plugins.vector.models import Notes
from anabranch.plugins.vector.reading.exact.columns import TakeRows, note_misfits
from anabranch.plugins.vector.reading.exact.times import parse_time
from anabranch.redaction import show_text
from anabranch.sql_files import read_statements

if TYPE_CHECKING:
    from anabranch.plugins.vector.models import Rows

__all__ = ["STATEMENTS", "StoredColumns", "open_database", "quote_name"]

STATEMENTS = read_statements(Path(__file__).with_name("geopackage.sql"))
ROW_NUMBERS = ("fid", "ogc_fid")  # the names of columns that GDAL numbers rows by
EXACT = 2**53
Stored = int | float | str | bytes | None
_RANGES = {
    pa.bool_(): (0, 1),
    pa.int16(): (-(2**15), 2**15 - 1),
    pa.int32(): (-(2**31), 2**31 - 1),
    pa.int64(): (-(2**63), 2**63 - 1),
}
_LARGEST = {pa.float32(): 3.4028234663852886e38, pa.float64(): "9e999"}


@contextmanager
def open_database(path: Path) -> Iterator[sqlite3.Connection]:
    """The file as a database, which is only read; its errors are ours."""
    try:
        with closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro&immutable=1", uri=True)) as database:
            yield database
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise Permanent(
            f"{path.name} can't be read as GeoPackage: {error}",
            code="vector.damaged",
            remedy="Upload it again; open it elsewhere to check that it is complete.",
        ) from error


def quote_name(name: str) -> str:
    """The name of a table or column in SQL."""
    return '"' + name.replace('"', '""') + '"'


@dataclass(frozen=True)
class StoredColumns:
    """The columns of a table, or of a view, that we read: such values become null, or the column a wider type."""

    path: Path
    table: str
    is_view: bool

    def find_types(self, given: Sequence[pa.Field]) -> dict[str, pa.DataType]:
        """The types of these columns; none of a view that calls functions of GDAL, which only that can read."""
        try:
            with open_database(self.path) as database:
                return self._find_types(database, {field.name: field.type for field in given})
        except Permanent:
            if self.is_view:
                return {}
            raise

    def open(self, types: Mapping[str, pa.DataType], changed: Notes) -> TakeRows:
        """What returns the values of rows."""
        stored = self._read(list(types))

        def take(batch: pa.RecordBatch, rows: "Rows") -> dict[str, pa.Array]:
            taken = list(islice(stored, len(rows)))
            if not self.is_view and [row[0] for row in taken] != batch.column(0).to_pylist():
                raise Permanent(
                    f"the rows of the layer {self.table} of {self.path.name} are in no certain order",
                    code="vector.damaged",
                    remedy=f"Write the file again: `ogr2ogr out.gpkg {self.path.name}`.",
                )
            columns = {name: [row[place] for row in taken] for place, name in enumerate(types, start=1)}
            texts = {name: pa.array(map(_as_text, values), pa.string()) for name, values in columns.items()}
            values = {name: pa.array(map(_converter(kind), columns[name]), kind) for name, kind in types.items()}
            note_misfits(changed, rows, texts, values)
            return values

        return take

    def find_unreadable(self, batch: pa.RecordBatch, rows: "Rows", places: "Rows") -> dict[int, str]:
        """The starts of values of the geometry column that are no geometries; none of a view."""
        if self.is_view:
            return {}
        keys = {int(batch.column(0)[int(place)].as_py()): int(place) for place in places}
        with open_database(self.path) as database:
            (column,) = database.execute(STATEMENTS["find_geometry"], (self.table,)).fetchone()
            parts = {"key": self._find_key(database), "column": quote_name(column), "table": quote_name(self.table)}
            database.text_factory = _decode
            found = database.execute(STATEMENTS["read_geometries"].format(**parts), (json.dumps(list(keys)),))
            return {keys[key]: _show(value, size) for key, value, size in found}

    def _find_types(self, database: sqlite3.Connection, given: Mapping[str, pa.DataType]) -> dict[str, pa.DataType]:
        held = self._list_columns(database)
        database.text_factory = _decode
        skipped = [name for name in held if name not in given and name.lower() not in ROW_NUMBERS]
        checks = {name: check for name, kind in given.items() if (check := _write_check(kind, quote_name(name)))}
        odd = self._find_odd(database, checks) if checks else ()
        return {name: self._choose_type(database, name, given.get(name)) for name in (*skipped, *odd)}

    def _list_columns(self, database: sqlite3.Connection) -> list[str]:
        """The names of the columns without that of geometries."""
        return [str(name) for (name,) in database.execute(STATEMENTS["list_columns"], {"table": self.table})]

    def _find_key(self, database: sqlite3.Connection) -> str:
        """What has the number of a row; `rowid` may be another column, where the table has a key."""
        keys = [str(name) for (name,) in database.execute(STATEMENTS["find_key"], {"table": self.table})]
        return quote_name(keys[0]) if keys else "rowid"

    def _find_odd(self, database: sqlite3.Connection, checks: Mapping[str, str]) -> list[str]:
        """The columns whose checks find something; most files have none, which one condition for all finds sooner."""
        statement = STATEMENTS["is_any"].format(table=self._source, condition=" or ".join(checks.values()))
        if not database.execute(statement).fetchone()[0]:
            return []
        found = self._look(database, [f"max({check})" for check in checks.values()])
        return [name for name, is_odd in zip(checks, found, strict=True) if is_odd]

    @property
    def _source(self) -> str:
        return quote_name(self.table) if self.is_view else f"{quote_name(self.table)} not indexed"

    def _look(self, database: sqlite3.Connection, facts: Sequence[str]) -> tuple[Any, ...]:  # numbers of any type
        statement = STATEMENTS["look_at_columns"].format(facts=",\n".join(facts), table=self._source)
        found: tuple[Any, ...] = database.execute(statement).fetchone()
        return found

    def _choose_type(self, database: sqlite3.Connection, name: str, given: pa.DataType | None) -> pa.DataType:
        """The type given, a wider one that has all numbers exactly, or text where most values are of another type."""
        if given == pa.string():
            return given
        column = quote_name(name)
        count, texts, reals, least, most = self._look(database, [_piece("facts_of_column", column=column)])
        if given is not None and pa.types.is_temporal(given):
            read = STATEMENTS["read_column"].format(column=column, table=quote_name(self.table))
            kind = pa.date32() if pa.types.is_date(given) else pa.timestamp("us", given.tz)
            convert = _converter(kind)
            lost = sum(1 for (value,) in database.execute(read) if convert(value) is None)
            return pa.string() if lost * 2 > count else kind
        if not count or (texts if given is None else texts * 2 > count):
            return pa.string()
        if not reals and given not in _LARGEST:
            first, last = _RANGES.get(given, (0, -1))
            return given if given is not None and (least is None or (first <= least and most <= last)) else pa.int64()
        is_exact = least is None or (least >= -EXACT and most <= EXACT)
        return pa.float64() if is_exact else pa.string()

    def _read(self, names: Sequence[str]) -> Iterator[tuple[Stored, ...]]:
        """The key of each row and the values of columns."""
        with open_database(self.path) as database:
            key = None if self.is_view else self._find_key(database)
            database.text_factory = _decode
            if key is None:
                cursor = database.execute(STATEMENTS["read_view"].format(table=quote_name(self.table)))
                held = [column[0] for column in cursor.description]
                places = [held.index(name) for name in names]
                yield from ((None, *(row[place] for place in places)) for row in cursor)
                return
            columns = ", ".join([key, *map(quote_name, names)])
            yield from database.execute(
                STATEMENTS["read_columns"].format(columns=columns, table=quote_name(self.table), key=key)
            )


def _piece(name: str, **parts: object) -> str:
    return STATEMENTS[name].strip().format(**parts)


def _write_check(kind: pa.DataType, column: str) -> str:
    """Whether any value is not of a type, or not written as usual, in SQL; empty where GDAL has all as they are."""
    if kind in _RANGES:
        least, most = _RANGES[kind]
        return _piece("odd_integer", column=column, least=least, most=most)
    if kind in _LARGEST:
        return _piece("odd_number", column=column, most=_LARGEST[kind])
    if pa.types.is_temporal(kind):
        return _piece("odd_date" if pa.types.is_date(kind) else "odd_time", column=column)
    return _piece("odd_text", column=column) if kind == pa.string() else ""


def _converter(kind: pa.DataType) -> Callable[[Stored], object]:
    """What gives the value of a type; None where there is none."""
    if kind in _RANGES:
        least, most = _RANGES[kind]
        as_type = bool if kind == pa.bool_() else int
        return lambda value: as_type(value) if isinstance(value, int) and least <= value <= most else None
    if kind in _LARGEST:
        return lambda value: float(value) if isinstance(value, (int, float)) else None
    if pa.types.is_date(kind):
        return _as_day
    return _as_text if kind == pa.string() else (lambda value: _as_time(value, has_zone=kind.tz is not None))


def _decode(text: bytes) -> str:
    return text.decode(errors="replace")


def _as_text(value: Stored) -> str | None:
    if isinstance(value, bytes):
        return _decode(value)
    return None if value is None else str(value)


def _show(value: Stored, size: int) -> str:
    shown = value.hex(" ") if isinstance(value, bytes) else show_text(str(value))
    return f"{size:,} bytes: {shown}" if isinstance(value, bytes) else f"text: {shown}"


def _as_day(value: Stored) -> date | None:
    found = _as_time(value, has_zone=False)
    return found.date() if found and found.time() == datetime.min.time() else None


def _as_time(value: Stored, *, has_zone: bool) -> datetime | None:
    return parse_time(value, has_zone=has_zone) if isinstance(value, str) else None
