"""Rows of files in PostGIS: what was encoded is what is in the table."""

from collections.abc import Iterator
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely
from psycopg import Connection, sql
from psycopg.rows import TupleRow

from anabranch.plugins.vector.exports import geoparquet
from anabranch.plugins.vector.exports.copy_reader import read_rows
from anabranch.plugins.vector.exports.expected import expect
from anabranch.plugins.vector.exports.geoparquet import verify_geoparquet, write_geoparquet
from anabranch.plugins.vector.models import CleanBatch, ColumnType
from anabranch.plugins.vector.tables.chunk_writer import WrittenRows
from anabranch.plugins.vector.tables.copy_format import DATE_RANGE, TIMESTAMP_RANGE
from tests.support.copy_rows import columns_of, make_batch, write_rows

pytestmark = pytest.mark.postgres
POINT = "POINT (7.1 50.7)"


@pytest.fixture
def database(catalog_url: str) -> Iterator[Connection[TupleRow]]:
    with psycopg.connect(catalog_url, autocommit=True) as connection:
        yield connection


def load(
    database: Connection[TupleRow],
    folder: Path,
    *batches: CleanBatch,
    geometry: str = "geometry",
    chunk_bytes: int = 2**20,
) -> WrittenRows:
    """Make a table `rows` of these batches, by COPY."""
    written = write_rows(folder, *batches, chunk_bytes=chunk_bytes)
    columns = [f"{name} {ColumnType[name.upper()].value}" for name in batches[0].attributes.schema.names]
    fields = ", ".join(["gid bigint primary key", f"geom {geometry}", *columns])
    database.execute(sql.SQL(f"create table rows ({fields})"))
    for name in written.chunks:
        with database.cursor().copy("copy rows from stdin (format binary)") as copy:
            copy.write((folder / name).read_bytes())
    return written


def read(database: Connection[TupleRow], what: str) -> list[Any]:
    query = sql.SQL(f"select {what} from rows order by gid")
    return [row[0] if len(row) == 1 else row for row in database.execute(query).fetchall()]


COLUMNS: dict[str, list[Any]] = {
    "boolean": [True, False],
    "integer": [-(2**31), 2**31 - 1, 0],
    "bigint": [-(2**63), 2**63 - 1],
    "real": [1.5, float("inf"), float("-inf")],
    "double": [1e308, -1e308, 5e-324, 0.1],
    "text": ["", "ein Käfer 🐞 漢字", "x" * 100_000, "\\N", "a\tb\nc"],
    "date": [date(1, 1, 1), date(9999, 12, 31), date(2000, 1, 1)],
    "time": [time(0), time(23, 59, 59, 999_999)],
    "timestamp": [datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999_999)],  # noqa: DTZ001 - naive by its type
    "timestamptz": [datetime(1, 1, 1, tzinfo=UTC), datetime(2024, 2, 29, 12, 0, 0, 1, tzinfo=UTC)],
    "bytea": [b"", b"\0\xff" * 500],
}


def test_every_type_comes_back_with_its_nulls(database: Connection[TupleRow], tmp_path: Path) -> None:
    database.execute("set timezone to 'UTC'")
    count = 1 + max(len(values) for values in COLUMNS.values())
    given = {name: [None, *values] + [values[0]] * (count - 1 - len(values)) for name, values in COLUMNS.items()}
    written = load(database, tmp_path, make_batch([POINT] * count, **given), geometry="geometry(Point, 4326)")
    for name, values in given.items():
        assert read(database, name) == values, name
    assert written.rows == count


def test_floats_keep_nan_and_the_sign_of_zero(database: Connection[TupleRow], tmp_path: Path) -> None:
    load(database, tmp_path, make_batch([POINT] * 3, double=[float("nan"), -0.0, 0.0], real=[float("nan"), -0.0, 0.0]))
    assert read(database, "double::text") == read(database, "real::text") == ["NaN", "-0", "0"]


def test_times_reach_as_far_as_postgresql_has_them(database: Connection[TupleRow], tmp_path: Path) -> None:
    days = pa.array([*DATE_RANGE, -719_529, 16_856_600, None], pa.int32()).view(pa.date32())
    stamps = pa.array([*TIMESTAMP_RANGE, -62_198_755_200_000_000, 1_456_000_000_000_000_000, None]).view(
        pa.timestamp("us", "UTC")
    )
    hours = pa.array([86_400_000_000, 0, 1, 2, None]).view(pa.time64("us"))
    database.execute("set timezone to 'UTC'")
    load(database, tmp_path, make_batch([POINT] * 5, date=days, timestamptz=stamps, time=hours))
    assert read(database, "date::text") == ["4714-11-24 BC", "5874897-12-31", "0002-12-31 BC", "48121-10-21", None]
    assert read(database, "timestamptz::text") == [
        "4714-11-24 00:00:00+00 BC", "294247-01-10 04:00:54.775807+00",
        "0002-01-01 00:00:00+00 BC", "48108-10-20 20:26:40+00", None,
    ]  # fmt: skip
    assert read(database, "time::text")[0] == "24:00:00"


NUMBERS = (
    "0", "-0", "0.00", "1", "-1", "9999", "10000", "99999999", "100000000", "0.0001", "0.00001",
    "-0.00000000001", "12345.6789", "007",
    ".5", "5.", "+3.10", "1" + "0" * 40, "0." + "0" * 40 + "1", "123456789" * 30 + "." + "987654321" * 30,
    "-" + "9" * 131_072, "0." + "1" * 16_383, "1e5", "-1.50E+3", "1E-7", "0E-10", "NaN", "Infinity", "-inf",
)  # fmt: skip


def test_numerics_are_exact(database: Connection[TupleRow], tmp_path: Path) -> None:
    """As PostgreSQL itself reads their text, the digits after the point included."""
    load(database, tmp_path, make_batch([POINT] * (len(NUMBERS) + 1), numeric=[*NUMBERS, None]))
    expected = [
        row[0] for row in database.execute("select n::numeric::text from unnest(%s::text[]) n", [list(NUMBERS)])
    ]
    assert read(database, "numeric::text") == [*expected, None]
    assert read(database, "numeric + 1")[12] == Decimal("12346.6789")


def test_json_comes_back_as_it_was(database: Connection[TupleRow], tmp_path: Path) -> None:
    values = ['{"a": [1, 2.50, null], "é": "漢"}', "null", None, '"text"', "12345678901234567890.123"]
    load(database, tmp_path, make_batch([POINT] * 5, jsonb=values))
    assert read(database, "jsonb::text") == values
    assert read(database, "jsonb -> 'a' ->> 1")[0] == "2.50"


GEOMETRIES = {
    "Point": ["POINT (1 2)", "POINT (-180 90)"],
    "MultiPoint": ["MULTIPOINT ((1 2), (3 4))", "MULTIPOINT ((1 2))"],
    "MultiLineString": ["MULTILINESTRING ((1 2, 3 4, 5 6), (7 8, 9 10))"],
    "MultiPolygon": ["MULTIPOLYGON (((0 0, 9 0, 9 9, 0 0), (5 2, 6 2, 6 3, 5 2)), ((20 20, 30 20, 30 30, 20 20)))"],
}


@pytest.mark.parametrize("has_z", [False, True])
@pytest.mark.parametrize("kind", GEOMETRIES)
def test_geometries_come_back_as_they_were(
    database: Connection[TupleRow], tmp_path: Path, kind: str, has_z: bool
) -> None:
    shapes = [shapely.from_wkt(text) for text in GEOMETRIES[kind]]
    given = [shapely.to_wkt(shapely.force_3d(shape, 4.5) if has_z else shape) for shape in shapes]
    column = f"geometry({kind}{'Z' if has_z else ''}, 4326)"
    written = load(database, tmp_path, make_batch(given, text=given), geometry=column)
    assert read(database, "ST_AsBinary(geom)") == [
        shapely.to_wkb(shapely.from_wkt(text), flavor="iso") for text in given
    ]
    assert read(database, "ST_SRID(geom)") == [4326] * len(given)
    extent = database.execute(
        "select ST_XMin(e), ST_YMin(e), ST_XMax(e), ST_YMax(e) from (select ST_Extent(geom) e from rows) x"
    )
    assert extent.fetchone() == written.bounds
    assert (set(written.geometry_types), written.has_z) == ({kind}, has_z)


def test_batches_and_chunks_make_one_table(database: Connection[TupleRow], tmp_path: Path) -> None:
    batches = [
        make_batch([f"POINT ({n} {n % 90})" for n in range(start, start + 60)], integer=list(range(start, start + 60)))
        for start in (0, 60, 120)
    ]
    written = load(database, tmp_path, *batches, make_batch([], integer=[]), chunk_bytes=1_500)
    assert len(written.chunks) > 5
    assert read(database, "gid, integer, ST_X(geom)") == [(n + 1, n, n) for n in range(180)]


def save(database: Connection[TupleRow], path: Path, query: str) -> Path:
    """A file of a query's rows, by COPY."""
    with path.open("wb") as file, database.cursor().copy(sql.SQL(f"copy ({query}) to stdout (format binary)")) as copy:
        for data in copy:
            file.write(data)
    return path


def test_rows_are_read_out_of_the_database_as_they_went_in(database: Connection[TupleRow], tmp_path: Path) -> None:
    """PostgreSQL's own stream, of its own making: numbers without their zeros, and geometries in either form."""
    count = 1 + len(NUMBERS)
    given = {name: [None, *([values[0]] * (count - 2)), values[-1]] for name, values in COLUMNS.items()}
    given |= {"numeric": [*NUMBERS, None], "jsonb": ['{"a": [1, "ä"]}'] * (count - 1) + [None]}
    columns = columns_of(*(ColumnType[name.upper()] for name in given))
    load(database, tmp_path, make_batch([POINT] * count, **given))
    names = ", ".join(column.name for column in columns)
    for place, geometry in enumerate(("geom", "ST_AsBinary(geom)")):
        path = save(database, tmp_path / f"{place}.copy", f"select gid, {geometry}, {names} from rows order by gid")
        rows = pa.Table.from_batches(read_rows(path, columns))
        assert rows["numeric"].to_pylist() == read(database, "numeric::text")
        assert {name: rows[name].to_pylist() for name in given if name != "numeric"} == {
            name: values for name, values in given.items() if name != "numeric"
        }
        assert set(rows["geom"].to_pylist()) == {shapely.to_wkb(shapely.from_wkt(POINT), flavor="iso")}


def test_rows_sorted_by_geometry_make_row_groups_that_are_close_together(
    database: Connection[TupleRow], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(geoparquet, "ROW_GROUP_ROWS", 64)
    places = [((n * 7919) % 1024 // 32, (n * 7919) % 1024 % 32) for n in range(1024)]
    load(database, tmp_path, make_batch([f"POINT ({x} {y})" for x, y in places]))
    source = save(database, tmp_path / "sorted.copy", "select gid, geom from rows order by geom")
    path = write_geoparquet(source, (), tmp_path / "rows.parquet")
    verify_geoparquet(path, expect(source, ()))
    groups = pq.ParquetFile(path)
    shapes = [shapely.from_wkb(groups.read_row_group(n)["geom"].to_numpy()) for n in range(groups.num_row_groups)]
    areas = [shapely.box(*shapely.total_bounds(group)).area for group in shapes]
    assert len(areas) == 16
    assert sum(areas) < 2 * 31 * 31, "in the table's own order each of the 16 covers the whole"
