"""Files of exports: each holds the rows that a COPY file held, as other readers read it."""

import csv
import json
import struct
from collections.abc import Callable
from datetime import UTC, date, datetime, time
from pathlib import Path
from typing import Any

import geopandas
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyogrio
import pytest
import shapely

from anabranch.errors import Permanent
from anabranch.plugins.vector.exports import copy_reader, geoparquet
from anabranch.plugins.vector.exports.copy_reader import read_rows, schema_of
from anabranch.plugins.vector.exports.csv_wkt import verify_csv, write_csv
from anabranch.plugins.vector.exports.expected import Expected, expect
from anabranch.plugins.vector.exports.flatgeobuf import verify_flatgeobuf, write_flatgeobuf
from anabranch.plugins.vector.exports.geoparquet import verify_geoparquet, write_geoparquet
from anabranch.plugins.vector.exports.models import ExportFormat, ExportOptions
from anabranch.plugins.vector.exports.plain_types import as_text
from anabranch.plugins.vector.exports.pmtiles import choose_max_zoom, verify_pmtiles, write_pmtiles
from anabranch.plugins.vector.exports.write_exports import write_exports
from anabranch.plugins.vector.models import Column, ColumnType
from anabranch.plugins.vector.tables.copy_format import HEADER, TRAILER
from tests.support.copy_rows import columns_of, make_batch, write_rows

VALUES: dict[str, list[Any]] = {
    "boolean": [True, False, None, True],
    "integer": [-(2**31), 2**31 - 1, None, 8],
    "bigint": [-(2**63), 2**63 - 1, None, 8],
    "real": [1.5, float("nan"), None, -0.0],
    "double": [1e308, float("nan"), None, 0.1],
    "numeric": ["-12.50", "1" + "0" * 30, None, "0.00001"],
    "text": ["", "ein Käfer 🐞", None, 'a "quoted", text\nin lines'],
    "date": [date(1, 1, 1), date(9999, 12, 31), None, date(2024, 2, 29)],
    "time": [time(0), time(23, 59, 59, 999_999), None, time(1, 2, 3)],
    "timestamp": [datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999_999), None, datetime(2024, 1, 1)],  # noqa: DTZ001
    "timestamptz": [datetime(1, 1, 1, tzinfo=UTC), datetime(2024, 1, 1, 1, 1, 1, 123_456, tzinfo=UTC), None, None],
    "jsonb": ['{"a": 1}', "null", None, "[]"],
    "bytea": [b"", b"\0\xff", None, b"x"],
}
COLUMNS = columns_of(*(ColumnType[name.upper()] for name in VALUES))
POINTS = ["POINT (7.1 50.7)", "POINT (-180 -80)", "POINT (179.5 0.1)", "POINT (1 2)"]


def write_source(folder: Path, geometry: list[str], values: dict[str, list[Any]] = VALUES) -> Path:
    (name,) = write_rows(folder, make_batch(geometry, **values), chunk_bytes=2**30).chunks
    return folder / name


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write_source(tmp_path, POINTS)


def read_all(path: Path, columns: tuple[Column, ...] = COLUMNS) -> pa.Table:
    return pa.Table.from_batches(read_rows(path, columns), schema_of(columns))


def as_given(rows: pa.Table) -> list[list[str]]:
    """Every value as Python writes it, so that NaN equals NaN and -0 is no 0."""
    return [[repr(value) for value in rows[name].to_pylist()] for name in VALUES]


def test_rows_are_read_as_they_were_written(source: Path) -> None:
    rows = read_all(source)
    expected = make_batch(POINTS, **VALUES).attributes
    assert as_given(rows) == as_given(pa.Table.from_batches([expected]))
    assert rows["gid"].to_pylist() == [1, 2, 3, 4]
    assert rows["geom"].to_pylist() == [shapely.to_wkb(shapely.from_wkt(text), flavor="iso") for text in POINTS]


@pytest.mark.parametrize("block_bytes", [1, 64, 1000])
def test_rows_are_found_in_blocks_of_any_size(
    tmp_path: Path, block_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where values look like the start of a row: the number of fields, then the length of its first one."""
    start = struct.pack(">hi", 4, 8)
    values: dict[str, list[Any]] = {
        "bytea": [start, start * 3 + bytes(7), b"", None, start + bytes(80)] * 20,
        "text": ["x" * n for n in range(100)],
    }
    path = write_source(tmp_path, ["POINT (1 2)"] * 100, values)
    monkeypatch.setattr(copy_reader, "BLOCK_BYTES", block_bytes)
    rows = read_all(path, columns_of(ColumnType.BYTEA, ColumnType.TEXT))
    assert {name: rows[name].to_pylist() for name in values} == values


@pytest.mark.parametrize("part", [slice(0, -2), slice(0, -30), slice(1, None)], ids=["trailer", "row", "header"])
def test_a_broken_stream_is_refused(source: Path, part: slice) -> None:
    source.write_bytes(source.read_bytes()[part])
    with pytest.raises(Permanent, match=r"ends in the middle of a row|is no stream of PostgreSQL's"):
        read_all(source)


def test_a_stream_that_goes_on_after_its_end_is_refused(source: Path) -> None:
    source.write_bytes(source.read_bytes() + b"x")
    with pytest.raises(Permanent, match="ends in the middle of a row, or its rows don't have 15 fields"):
        read_all(source)


def test_infinity_and_other_types_are_refused(tmp_path: Path) -> None:
    path = write_source(tmp_path, ["POINT (1 2)"], {"integer": [2**31 - 1]})
    with pytest.raises(Permanent, match="column 'date': has infinity, or a time that no file can hold"):
        read_all(path, columns_of(ColumnType.DATE))
    with pytest.raises(Permanent, match="column 'bigint': is not of the type bigint"):
        read_all(path, columns_of(ColumnType.BIGINT))


def test_geoparquet_holds_every_value(source: Path, tmp_path: Path) -> None:
    path = write_geoparquet(source, COLUMNS, tmp_path / "rows.parquet")
    verify_geoparquet(path, expect(source, COLUMNS))
    assert as_given(pq.read_table(path)) == as_given(read_all(source))
    frame = geopandas.read_parquet(path)
    assert [shape.wkt for shape in frame.geometry] == POINTS
    assert frame.crs == "OGC:CRS84"
    assert geopandas.read_parquet(path, bbox=(0, 0, 8, 60)).gid.to_list() == [1, 4]


def test_geoparquet_has_row_groups_of_rows_or_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_source(tmp_path, ["POINT Z (1 2 3)"] * 250, {"text": ["x" * 100] * 250})
    monkeypatch.setattr(geoparquet, "ROW_GROUP_ROWS", 100)
    columns = (Column(name="bbox", type=ColumnType.TEXT, source="bbox"),)
    target = write_geoparquet(path, columns, tmp_path / "rows.parquet")
    verify_geoparquet(target, expect(path, columns))
    found = pq.ParquetFile(target).metadata
    assert [found.row_group(group).num_rows for group in range(found.num_row_groups)] == [100, 100, 50]
    geo = json.loads(found.metadata[b"geo"])["columns"]["geom"]
    assert (geo["geometry_types"], geo["covering"]["bbox"]["xmin"]) == (["Point Z"], ["bbox_", "xmin"])


def test_flatgeobuf_holds_what_its_types_can(source: Path, tmp_path: Path) -> None:
    path = write_flatgeobuf(
        source, COLUMNS, tmp_path / "rows.fgb", expect(source, COLUMNS), layer="rows", geometry_type="Point"
    )
    verify_flatgeobuf(path, expect(source, COLUMNS))
    _, rows = pyogrio.raw.read_arrow(path)
    rows = rows.sort_by("gid")
    given = read_all(source)
    for name in ("boolean", "integer", "bigint", "real", "double", "numeric", "text", "jsonb", "bytea"):
        assert repr(rows[name].to_pylist()) == repr(given[name].to_pylist()), name
    assert rows["time"].to_pylist() == ["00:00:00.000000", "23:59:59.999999", None, "01:02:03.000000"]
    assert rows["date"].to_pylist()[3] == datetime(2024, 2, 29)  # noqa: DTZ001 - the format has no zones
    assert rows["timestamptz"].to_pylist()[1] == datetime(2024, 1, 1, 1, 1, 1, 123_000)  # noqa: DTZ001


SECOND_59 = datetime(1965, 3, 4, 5, 6, 59, 500_000)  # noqa: DTZ001


@pytest.mark.parametrize("early", [SECOND_59, SECOND_59.replace(year=1), SECOND_59.replace(second=0, microsecond=1)])
def test_flatgeobuf_holds_times_before_1970_in_any_row(tmp_path: Path, early: datetime) -> None:
    """As text if a fraction of a second is among them: GDAL would write the next minute."""
    plain = [SECOND_59.replace(microsecond=0), datetime(2024, 2, 29, 23, 59, 59, 999_000)]  # noqa: DTZ001
    times = [plain[0]] * 5 + [early] + [plain[1]] * 500
    values = {"timestamp": times, "timestamptz": [moment.replace(tzinfo=UTC) for moment in plain * 253]}
    source = write_source(tmp_path, ["POINT (1 2)"] * 506, values)
    columns = columns_of(ColumnType.TIMESTAMP, ColumnType.TIMESTAMPTZ)
    expected = expect(source, columns)
    path = write_flatgeobuf(source, columns, tmp_path / "rows.fgb", expected, layer="rows", geometry_type="Point")
    verify_flatgeobuf(path, expected)
    _, rows = pyogrio.raw.read_arrow(path)
    rows = rows.sort_by("gid")
    assert rows["timestamp"].to_pylist() == [moment.isoformat(timespec="microseconds") for moment in times]
    assert rows["timestamptz"].to_pylist() == plain * 253, "a column of its own keeps its type"


def test_pmtiles_show_every_feature(tmp_path: Path) -> None:
    """As GDAL reads the tiles of the largest scale, with the types that the docs list."""
    whole = [-(2**53), 2**53, None, 8]  # beyond, readers of tiles have floats
    source = write_source(tmp_path, POINTS, {**VALUES, "bigint": whole})
    expected = expect(source, COLUMNS)
    path = write_pmtiles(source, COLUMNS, tmp_path / "rows.pmtiles", layer="rows", geometry_type="Point", max_zoom=3)
    verify_pmtiles(path, expected, layer="rows", max_zoom=3)
    _, rows = pyogrio.raw.read_arrow(path)
    found = {row["gid"]: row for row in rows.to_pylist()}
    assert set(found) == {1, 2, 3, 4}
    assert [found[gid]["bigint"] for gid in (1, 2, 3, 4)] == whole
    assert [found[gid]["double"] for gid in (1, 2, 3, 4)] == [1e308, None, None, 0.1]
    assert [found[gid]["date"] for gid in (1, 2, 3, 4)] == ["0001-01-01", "9999-12-31", None, "2024-02-29"]
    assert found[2]["timestamptz"] == "2024-01-01T01:01:01.123456Z"
    assert found[2]["bytea"] == "00ff"


def test_points_at_the_poles_are_on_no_map(tmp_path: Path) -> None:
    source = write_source(tmp_path, ["POINT (0 -89)", "POINT (0 89.5)", "POINT (1 2)"], {})
    path = write_pmtiles(source, (), tmp_path / "rows.pmtiles", layer="rows", geometry_type="Point", max_zoom=3)
    verify_pmtiles(path, expect(source, ()), layer="rows", max_zoom=3)
    assert set(pyogrio.raw.read_arrow(path)[1]["gid"].to_pylist()) == {3}


@pytest.mark.parametrize("places", [[88, 89], [-89, 89]], ids=["one pole", "both poles"])
def test_a_layer_that_no_map_shows_has_no_pmtiles(tmp_path: Path, places: list[int]) -> None:
    source = write_source(tmp_path, [f"POINT (1 {y})" for y in places], {})
    options = ExportOptions(layer="rows", geometry_type="Point", columns=(), formats=("pmtiles",))
    with pytest.raises(Permanent, match=r"beyond 85\.05 degrees") as caught:
        write_exports(source, tmp_path, options, lambda *_: None)
    assert caught.value.code == "vector.export_values"


def test_a_column_may_be_named_like_the_geometry_of_gdal(tmp_path: Path) -> None:
    source = write_source(tmp_path, ["POINT (1 2)"], {"text": ["x"]})
    columns = (Column(name="wkb_geometry", type=ColumnType.TEXT, source="x"),)
    path = write_flatgeobuf(
        source, columns, tmp_path / "rows.fgb", expect(source, columns), layer="rows", geometry_type="Point"
    )
    verify_flatgeobuf(path, expect(source, columns))


def test_csv_holds_large_geometries_and_single_precision(tmp_path: Path) -> None:
    line = shapely.LineString(np.random.default_rng(1).random((9_000, 2)))
    values = {"real": pa.array([0.1], pa.float32()), "text": ["x" * 200_000]}
    source = write_source(tmp_path, [shapely.to_wkt(line, rounding_precision=-1)], values)
    columns = columns_of(ColumnType.REAL, ColumnType.TEXT)
    path = write_csv(source, columns, tmp_path / "rows.csv")
    verify_csv(path, expect(source, columns))
    wrong = path.read_text().replace(",0.1,", ",0.1000001,")
    path.write_text(wrong)
    with pytest.raises(Permanent, match="in column 'real'"):
        verify_csv(path, expect(source, columns))


def test_csv_holds_every_value_as_text(source: Path, tmp_path: Path) -> None:
    path = write_csv(source, COLUMNS, tmp_path / "rows.csv")
    verify_csv(path, expect(source, COLUMNS))
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["geom"] for row in rows] == POINTS
    assert [row["text"] for row in rows] == [text or "" for text in VALUES["text"]]
    assert [row["bytea"] for row in rows] == ["", "00ff", "", "78"]
    assert [row["timestamp"] for row in rows][1] == "9999-12-31T23:59:59.999999"
    assert path.read_bytes().splitlines()[3].startswith(b'3,"POINT (179.5 0.1)",,,')


WRITERS: dict[str, tuple[Callable[[Path, Path, str], Path], Callable[[Path, Expected], None]]] = {
    "parquet": (lambda source, path, _: write_geoparquet(source, (), path), verify_geoparquet),
    "csv": (lambda source, path, _: write_csv(source, (), path), verify_csv),
    "fgb": (
        lambda source, path, kind: write_flatgeobuf(
            source, (), path, expect(source, ()), layer="rows", geometry_type=kind
        ),
        verify_flatgeobuf,
    ),
    "pmtiles": (
        lambda source, path, kind: write_pmtiles(source, (), path, layer="rows", geometry_type=kind, max_zoom=2),
        lambda path, expected: verify_pmtiles(path, expected, layer="rows", max_zoom=2),
    ),
}
SHAPES = {
    "MultiLineString": ["MULTILINESTRING ((0 0, 10 10, 20 0), (30 30, 40 40))", "MULTILINESTRING ((1 2, 3 4))"],
    "MultiPolygon": [
        "MULTIPOLYGON (((0 0, 9 0, 9 9, 0 0), (5 2, 6 2, 6 3, 5 2)))",
        "MULTIPOLYGON (((20 20, 30 20, 30 30, 20 20)))",
    ],
    "Point Z": ["POINT Z (1 2 3)", "POINT Z (4 5 6)"],
}


@pytest.mark.parametrize("kind", SHAPES)
@pytest.mark.parametrize("extension", WRITERS)
def test_a_file_with_other_rows_is_refused(tmp_path: Path, kind: str, extension: str) -> None:
    """The same verification accepts the right file, and refuses one that lacks a row or has it elsewhere."""
    write, verify = WRITERS[extension]
    folders = [tmp_path / name for name in ("right", "fewer", "moved")]
    for folder in folders:
        folder.mkdir()
    moved = [
        shapely.to_wkt(shapely.transform(shapely.from_wkt(text), lambda xyz: xyz + 1, include_z=kind.endswith("Z")))
        for text in SHAPES[kind]
    ]
    right, fewer, other = (
        write_source(folder, given, {})
        for folder, given in zip(folders, (SHAPES[kind], SHAPES[kind][1:], moved), strict=True)
    )
    expected = expect(right, ())
    verify(write(right, tmp_path / f"right.{extension}", kind), expected)
    for wrong in (fewer, other):
        with pytest.raises(Permanent) as caught:
            verify(write(wrong, tmp_path / f"{wrong.parent.name}.{extension}", kind), expected)
        assert caught.value.code == "vector.export_wrong"


def test_one_changed_value_is_noticed(source: Path, tmp_path: Path) -> None:
    """Of rows in the sample, which small tables are whole."""
    expected = expect(source, COLUMNS)
    changed = write_source(tmp_path, POINTS, {**VALUES, "text": ["", "ein Kafer 🐞", *VALUES["text"][2:]]})
    with pytest.raises(Permanent, match="row 2 has ein Kafer 🐞 in column 'text', and not ein Käfer 🐞"):
        verify_geoparquet(write_geoparquet(changed, COLUMNS, tmp_path / "rows.parquet"), expected)
    with pytest.raises(Permanent, match="row 2 has 'ein Kafer 🐞' in column 'text', and not 'ein Käfer 🐞'"):
        verify_csv(write_csv(changed, COLUMNS, tmp_path / "rows.csv"), expected)


def test_a_year_that_flatgeobuf_cannot_hold_is_refused(tmp_path: Path) -> None:
    path = write_source(tmp_path, ["POINT (1 2)"], {"date": pa.array([16_856_600], pa.int32()).view(pa.date32())})
    columns = columns_of(ColumnType.DATE)
    with pytest.raises(Permanent, match="column 'date' has times outside of the years 1 to 9999"):
        write_flatgeobuf(
            path, columns, tmp_path / "rows.fgb", expect(path, columns), layer="rows", geometry_type="Point"
        )


def test_text_of_times_is_right_in_any_year() -> None:
    days = pa.array([16_856_600, -719_529, -719_528, None], pa.int32()).view(pa.date32())
    assert as_text(days).to_pylist() == ["48121-10-21", "-0001-12-31", "0000-01-01", None]
    stamps = pa.array([2**63 - 1, None]).view(pa.timestamp("us", "UTC"))
    assert as_text(stamps).to_pylist() == ["294247-01-10T04:00:54.775807Z", None]
    assert as_text(pa.array([86_400_000_000]).view(pa.time64("us"))).to_pylist() == ["24:00:00.000000"]


@pytest.mark.parametrize(
    ("bounds", "zoom"),
    [((-180, -90, 180, 90), 6), ((7.0, 50.6, 7.2, 50.8), 14), ((5, 47, 15, 55), 11), ((1, 2, 1, 2), 14)],
)
def test_the_largest_scale_follows_from_the_extent(bounds: tuple[float, float, float, float], zoom: int) -> None:
    assert choose_max_zoom(bounds) == zoom


def test_tables_without_rows_make_files_without_rows(tmp_path: Path) -> None:
    source = tmp_path / "empty.copy"
    source.write_bytes(HEADER + TRAILER)
    expected = expect(source, COLUMNS)
    assert (expected.rows, expected.bounds) == (0, None)
    verify_geoparquet(write_geoparquet(source, COLUMNS, tmp_path / "rows.parquet"), expected)
    verify_csv(write_csv(source, COLUMNS, tmp_path / "rows.csv"), expected)
    verify_flatgeobuf(
        write_flatgeobuf(
            source, COLUMNS, tmp_path / "rows.fgb", expect(source, COLUMNS), layer="rows", geometry_type="Point"
        ),
        expected,
    )


def test_rows_without_a_geometry_are_kept(tmp_path: Path) -> None:
    """In tables of users there are some."""
    source = tmp_path / "null.copy"
    point = shapely.to_wkb(shapely.Point(1, 2))
    rows = [struct.pack(">hiqi", 2, 8, 1, -1), struct.pack(">hiqi", 2, 8, 2, len(point)) + point]
    source.write_bytes(HEADER + b"".join(rows) + TRAILER)
    expected = expect(source, ())
    verify_geoparquet(write_geoparquet(source, (), tmp_path / "rows.parquet"), expected)
    verify_csv(write_csv(source, (), tmp_path / "rows.csv"), expected)
    assert np.isnan(shapely.bounds(geopandas.read_parquet(tmp_path / "rows.parquet").geometry.to_numpy())[0]).all()


@pytest.mark.parametrize("geometry", ["POINT Z ({} 50 3)", "MULTIPOLYGON Z ((({0} 50 1, 8 50 2, 8 51 3, {0} 50 1)))"])
def test_all_formats_of_one_layer_are_written_the_same_way_each_time(tmp_path: Path, geometry: str) -> None:
    shapes = [geometry.format(x) for x in (7, 7.5, 7.5)]
    source = write_source(tmp_path, shapes, {"text": ["a", "b", None]})
    formats: tuple[ExportFormat, ...] = ("geoparquet", "flatgeobuf", "pmtiles", "csv")
    kind = "Point Z" if geometry.startswith("POINT") else "MultiPolygon Z"
    columns = columns_of(ColumnType.TEXT)
    options = ExportOptions(layer="_2024", geometry_type=kind, columns=columns, formats=formats, max_zoom=5)

    def write(name: str) -> dict[str, bytes]:
        (tmp_path / name).mkdir()
        made = write_exports(source, tmp_path / name, options, lambda *_: None)
        assert (made.rows, made.max_zoom) == (3, 5)
        return {file: (tmp_path / name / file).read_bytes() for file in made.files.values()}

    first = write("one")
    assert list(first) == ["2024.parquet", "2024.fgb", "2024.pmtiles", "2024.csv"]
    assert write("other") == first
