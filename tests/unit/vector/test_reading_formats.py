"""Every format gives the rows that were written, exactly."""

import html
import json
import math
import sqlite3
import struct
import zipfile
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path

import geopandas
import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pyogrio
import pytest
import shapely

from anabranch.plugins.vector.models import Notes
from anabranch.plugins.vector.settings import VectorSettings
from tests.support.source_layers import read_all
from tests.support.vectors import (
    KML,
    circular,
    feature,
    make_collection,
    make_frame,
    make_geopackage,
    make_kml,
    make_zip,
    write_frame,
    write_wkb,
    zip_shapefile,
)
from tests.unit.vector.conftest import Open

BIG = 2**60 + 1
DAY = date(2024, 1, 5)
DAYS = ["2024-01-05"] * 4
TEN = datetime(2020, 1, 1, 10, tzinfo=UTC)


@pytest.mark.parametrize(
    ("name", "kind", "crs", "found"),
    [
        ("a.gpkg", "GeoPackage", "EPSG:25832", "file"),
        ("a.fgb", "FlatGeobuf", "EPSG:25832", "file"),
        ("a.gml", "GML", "EPSG:25832", "file"),
        ("a.geojson", "GeoJSON", "OGC:CRS84", "format"),
        ("a.geojsonl", "GeoJSON", "OGC:CRS84", "format"),
        ("a.zip", "Shapefile", "EPSG:25832", "file"),
        ("a.parquet", "GeoParquet", None, "file"),
    ],
)
def test_v1_rows_come_back_exactly(layers: Open, tmp_path: Path, name: str, kind: str, crs: str, found: str) -> None:
    frame = make_frame("OGC:CRS84" if "json" in name else "EPSG:25832")
    path = tmp_path / name
    if name == "a.zip":
        zip_shapefile(path, frame)
    else:
        write_frame(frame, path, **({"RFC7946": "YES"} if name == "a.geojson" else {}))
    (layer,) = layers(path)
    content = read_all(layer)
    assert (layer.name, layer.format, layer.crs_found, content.rows) == ("a", kind, found, [1, 2, 3])
    assert layer.crs == crs or (crs is None and layer.crs and 'ID["EPSG",25832]' in layer.crs)
    order = sorted(range(3), key=lambda place: [1, BIG, -3].index(content.attributes[place]["count"]))
    assert [content.geometry[place] for place in order] == frame.geometry.to_wkb().tolist()
    for place, (_, row) in zip(order, frame.iterrows(), strict=True):
        got = content.attributes[place]
        assert got["count"] == row["count"]
        assert got["share"] == (None if math.isnan(row["share"]) else pytest.approx(row["share"], rel=1e-12))
        assert got["name"] == (row["name"] if isinstance(row["name"], str) else None)
        assert bool(got["open"]) is row["open"]


def test_v1_geodatabases_and_kml_come_back(layers: Open, tmp_path: Path) -> None:
    frame = make_frame()[["name", "geometry"]]
    write_frame(frame, tmp_path / "a.gdb", "places", TARGET_ARCGIS_VERSION="ARCGIS_PRO_3_2_OR_LATER")
    database = make_zip(
        tmp_path / "a.gdb.zip", {f"x/a.gdb/{part.name}": part for part in (tmp_path / "a.gdb").iterdir()}
    )
    (layer,) = layers(database)
    content = read_all(layer)
    assert (layer.format, layer.name, content.geometry) == ("FileGDB", "places", frame.geometry.to_wkb().tolist())
    assert [row["name"] for row in content.attributes] == ["Zürich", None, 'a, "b"\nc']
    assert [row["OBJECTID"] for row in content.attributes] == [1, 2, 3], "its own column, not GDAL's row number"

    text = "<Document><name>d</name><Folder><name>f</name>{}</Folder></Document>"
    kml = make_kml(
        tmp_path / "a.kml",
        text.format("<Placemark><name>Zürich</name><Point><coordinates>1.5,2.25</coordinates></Point></Placemark>"),
    )
    kmz = make_zip(tmp_path / "a.kmz", {"files/x.png": b"\x89PNG", "doc.kml": kml})
    for path in (kml, kmz):
        (layer,) = layers(path)
        content = read_all(layer)
        assert (layer.format, layer.name, layer.crs, layer.crs_found) == ("KML", "f", "OGC:CRS84", "format")
        assert (content.attributes[0]["Name"], content.shapes) == ("Zürich", ["POINT (1.5 2.25)"])


def test_batches_are_bounded_and_can_be_read_again(layers: Open, tmp_path: Path) -> None:
    frame = geopandas.GeoDataFrame({"n": range(10)}, geometry=shapely.points(np.arange(10), 0), crs=4326)
    for name in ("a.gpkg", "a.geojson", "a.parquet"):
        (layer,) = layers(write_frame(frame, tmp_path / name))
        first, second = read_all(layer, 4), read_all(layer, 3)
        assert (first.sizes, second.sizes) == ([4, 4, 2], [3, 3, 3, 1])
        assert first.attributes == second.attributes == [{"n": n} for n in range(10)]
        assert first.rows == list(range(1, 11))


def test_a_batch_of_large_geometries_ends_early(layers: Open, tmp_path: Path) -> None:
    """Memory is bounded by bytes, not by the number of rows: 40 lines of 1.6 MB are several batches."""
    line = shapely.linestrings(np.random.default_rng(1).uniform(0, 80, (100_000, 2)))
    frame = geopandas.GeoDataFrame({"n": range(40)}, geometry=[line] * 40, crs=4326)
    for name in ("a.fgb", "a.gpkg", "a.parquet"):  # GDAL's faster code for FlatGeobuf loses all other batches
        (layer,) = layers(write_frame(frame, tmp_path / name), VectorSettings(vector_memory_mb=256))
        sizes = read_all(layer).sizes
        assert (sum(sizes), max(sizes) <= 32 * 2**20 // len(shapely.to_wkb(line)) + 1) == (40, True), name


def test_columns_of_one_name_come_apart(layers: Open, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("lat,lon,a,a,a_2\n1,2,x,y,z\n")
    (layer,) = layers(tmp_path / "a.csv")
    assert read_all(layer).attributes == [{"a": "x", "a_3": "y", "a_2": "z"}]


def test_z_and_m_are_kept(layers: Open, tmp_path: Path) -> None:
    point = struct.pack("<BI4d", 1, 3001, 1, 2, 3, 4)
    blob = (b"GP\x00\x01" + struct.pack("<i", 4326) + point).hex()
    (layer,) = layers(make_geopackage(tmp_path / "a.gpkg", [f"update places set geom = x'{blob}' where fid = 1"]))
    assert read_all(layer).geometry[0] == point


def test_curves_become_lines(layers: Open, tmp_path: Path) -> None:
    arc = circular([(0, 0), (1, 1), (2, 0), (3, -1), (4, 0)])
    circle = circular([(0, 0), (2, 0), (0, 0)])
    compound = struct.pack("<BII", 1, 9, 2) + arc + struct.pack("<BII4d", 1, 2, 2, 4, 0, 4, 7)
    polygon = struct.pack("<BII", 1, 10, 1) + circle
    surface = struct.pack("<BII", 1, 12, 1) + polygon
    nested = struct.pack("<BII", 1, 7, 1) + arc
    (layer,) = layers(write_wkb(tmp_path / "a.gpkg", [arc, compound, polygon, surface, nested], "Unknown"))
    content = read_all(layer)
    shapes = shapely.from_wkb(content.geometry)
    kinds = ["LineString", "LineString", "Polygon", "MultiPolygon", "GeometryCollection"]
    assert [shape.geom_type for shape in shapes] == kinds
    assert (shapes[0].coords[0], shapes[0].coords[45], shapes[0].coords[-1]) == ((0, 0), (2, 0), (4, 0))
    assert shapely.distance(shapes[0], [shapely.Point(1, 1), shapely.Point(3, -1)]) == pytest.approx(0, abs=1e-3)
    assert [shape.length for shape in shapes[[0, 1, 4]]] == pytest.approx([math.tau, math.tau + 7, math.tau], rel=1e-3)
    assert [shape.area for shape in shapes[2:4]] == pytest.approx([math.pi, math.pi], rel=1e-3)
    assert content.changed["curve_to_lines"].count == 5
    assert [sample.row for sample in content.changed["curve_to_lines"].samples] == [1, 2, 3, 4, 5]


def test_surfaces_become_polygons(layers: Open, tmp_path: Path) -> None:
    triangle = struct.pack("<BIII8d", 1, 17, 1, 4, 0, 0, 1, 0, 0, 1, 0, 0)
    tin = struct.pack("<BII", 1, 16, 1) + triangle
    (layer,) = layers(write_wkb(tmp_path / "a.gpkg", [tin], "Unknown"))
    content = read_all(layer)
    assert content.shapes == ["MULTIPOLYGON (((0 0, 1 0, 0 1, 0 0)))"]
    assert content.changed["surface_to_polygons"].count == 1


def test_topojson_has_a_layer_for_each_object(layers: Open, tmp_path: Path) -> None:
    lines = {"type": "GeometryCollection", "geometries": [{"type": "LineString", "arcs": [0], "properties": {"a": 1}}]}
    topology = {"type": "Topology", "objects": {"roads": lines, "paths": lines}, "arcs": [[[0, 0], [1, 1]]]}
    (tmp_path / "a.topojson").write_text(json.dumps(topology))
    first, second = layers(tmp_path / "a.topojson")
    assert (first.name, second.name, first.format, first.crs) == ("roads", "paths", "TopoJSON", "OGC:CRS84")
    assert read_all(second).shapes == ["LINESTRING (0 0, 1 1)"]


def test_topojson_objects_that_are_no_collections_are_layers(layers: Open, tmp_path: Path) -> None:
    objects = {
        "a": {"type": "Point", "coordinates": [1, 2], "properties": {"n": 1}},
        "c": {"type": "GeometryCollection", "geometries": [{"type": "Point", "coordinates": [5, 6]}]},
        "x": {"type": None},
        "b": {"type": "LineString", "arcs": [0], "id": "q", "properties": {"n": "x"}},
    }
    (tmp_path / "a.topojson").write_text(
        json.dumps({"type": "Topology", "objects": objects, "arcs": [[[0, 0], [1, 1]]]})
    )
    found = {layer.name: read_all(layer) for layer in layers(tmp_path / "a.topojson")}
    assert {name: content.shapes for name, content in found.items()} == {
        "a": ["POINT (1 2)"], "c": ["POINT (5 6)"], "x": [], "b": ["LINESTRING (0 0, 1 1)"]
    }  # fmt: skip
    (layer,) = layers(tmp_path / "a.topojson", layer="b")
    assert (layer.name, read_all(layer).attributes) == ("b", [{"id": "q", "n": "x"}])


@pytest.mark.parametrize(
    ("crs", "code", "found"),
    [
        ({}, "OGC:CRS84", "format"),
        ({"crs": {"type": "name", "properties": {"name": "EPSG:25832"}}}, "EPSG:25832", "file"),
        ({"crs": {"type": "name", "properties": {"name": "our grid"}}}, None, "file"),
    ],
)
def test_r1_topojson_is_in_degrees_unless_a_crs_member_says_otherwise(
    layers: Open, tmp_path: Path, crs: dict[str, object], code: str | None, found: str
) -> None:
    topology = {"type": "Topology", "objects": {"a": {"type": "Point", "coordinates": [1, 2]}}, "arcs": [], **crs}
    (tmp_path / "a.topojson").write_text(json.dumps(topology))
    (layer,) = layers(tmp_path / "a.topojson")
    assert (layer.crs, layer.crs_found, bool(layer.warnings)) == (code, found, code is None)
    assert read_all(layer).shapes == ["POINT (1 2)"]


def test_geoparquet_metadata_are_obeyed(layers: Open, tmp_path: Path) -> None:
    frame = make_frame(None)
    write_frame(frame, tmp_path / "a.parquet", write_covering_bbox=True)
    (layer,) = layers(tmp_path / "a.parquet")
    assert (layer.crs, "bbox" in layer.schema.names) == (None, False)
    table = pyarrow.parquet.read_table(tmp_path / "a.parquet")
    geo = json.loads(table.schema.metadata[b"geo"])
    del geo["columns"]["geometry"]["crs"]
    pyarrow.parquet.write_table(table.replace_schema_metadata({"geo": json.dumps(geo)}), tmp_path / "b.parquet")
    (layer,) = layers(tmp_path / "b.parquet")
    assert (layer.crs, layer.crs_found) == ("OGC:CRS84", "format")


def test_geoparquet_columns_of_one_name_come_apart(layers: Open, tmp_path: Path) -> None:
    write_frame(make_frame(), tmp_path / "a.parquet", write_covering_bbox=True)
    table = pyarrow.parquet.read_table(tmp_path / "a.parquet")
    doubled = table.append_column("name", pa.array([1, 2, 3])).append_column("name", pa.array(["x", "y", "z"]))
    pyarrow.parquet.write_table(doubled, tmp_path / "b.parquet")
    (layer,) = layers(tmp_path / "b.parquet")
    content = read_all(layer, 2)
    first = content.attributes[0]
    assert (first["name"], first["name_2"], first["name_3"], first["open"]) == ("Zürich", 1, "x", True)
    assert content.geometry == table["geometry"].to_pylist()


def test_geoparquet_with_native_geometries(layers: Open, tmp_path: Path) -> None:
    box = shapely.box(0, 0, 1, 1).difference(shapely.box(0.2, 0.2, 0.4, 0.4))
    frame = geopandas.GeoDataFrame({"n": [1, 2, 3]}, geometry=[box, None, shapely.box(5, 5, 6, 6)], crs=4326)
    write_frame(frame, tmp_path / "a.parquet", geometry_encoding="geoarrow")
    (layer,) = layers(tmp_path / "a.parquet")
    assert shapely.from_wkb(read_all(layer).geometry).tolist() == frame.geometry.tolist()


@pytest.mark.parametrize("suffix", [".fgb", ".gml", ".kml"])
@pytest.mark.parametrize(
    ("texts", "read"),
    [
        (["2020-01-01T10:00:00+05:30", None, "2020-01-01T10:00:00Z"], [TEN - timedelta(hours=5.5), None, TEN]),
        (["2020-01-01T10:00:00", None], [TEN.replace(tzinfo=None), None]),
        (["2020-01-01T10:00:00", "2020-01-01T10:00:00Z"], ["2020-01-01T10:00:00", "2020-01-01T10:00:00Z"]),
        (["2020-01-01T10:00:00.0001Z", None], [TEN, None]),
        ([None, None], [None, None]),
    ],
    ids=str,
)
def test_v1_times_keep_their_zones(
    layers: Open, tmp_path: Path, suffix: str, texts: list[str | None], read: list[object]
) -> None:
    path = write_times(tmp_path / f"a{suffix}", texts)
    (layer,) = layers(path)
    content = read_all(layer, 2)
    assert [row["timestamp" if suffix == ".kml" else "t"] for row in content.attributes] == read
    assert content.changed == {}


ODD_VALUES: list[tuple[str, list[object], list[object], dict[int, str]]] = [
    ("DATE", ["2024-01-05", "", "n/a", "05.01.2024", "2024-02-30", *DAYS], [DAY, None, None, None, None, *[DAY] * 4],
     {2: "", 3: "n/a", 4: "05.01.2024", 5: "2024-02-30"}),
    ("DATE", ["2024/01/05", "2024-01-05T00:00:00Z", None], [DAY, DAY, None], {}),
    ("DATE", ["5.1.24", "6.1.24", "2024-01-05"], ["5.1.24", "6.1.24", "2024-01-05"], {}),
    ("DATETIME", ["2020-01-01T10:00:00Z", "2020-01-01 10:00:00", "2020-01-01T12:00+02:00", "", "2020-01-01T25:00:00Z"],
     [TEN, TEN, TEN, None, None], {4: "", 5: "2020-01-01T25:00:00Z"}),
    ("MEDIUMINT", [3_000_000_000, 1], [3_000_000_000, 1], {}),
    ("SMALLINT", [40_000, -1], [40_000, -1], {}),
    ("SMALLINT", [1, 2, "x"], [1, 2, None], {3: "x"}),
    ("INTEGER", [7, 8, 9, "abc", "12abc"], [7, 8, 9, None, None], {4: "abc", 5: "12abc"}),
    ("INTEGER", [7, 1.9, 1e30], [7.0, 1.9, 1e30], {}),
    ("INTEGER", [2**60 + 1, 1.5], [str(2**60 + 1), "1.5"], {}),
    ("REAL", [1.5, 2, "1,5", ""], [1.5, 2.0, None, None], {3: "1,5", 4: ""}),
    ("REAL", ["1,5", "2,5", None], ["1,5", "2,5", None], {}),
    ("FLOAT", [1.5, 1e300], [1.5, 1e300], {}),
    ("BOOLEAN", [1, 0, "x"], [True, False, None], {3: "x"}),
    ("BOOLEAN", ["true", "false"], ["true", "false"], {}),
    ("BOOLEAN", [-1, 0], [-1, 0], {}),
    ("DATETIME", ["2020-01-01T10:00:00.000001Z", "2020-01-01T10:00:00.5Z"],
     [TEN.replace(microsecond=1), TEN.replace(microsecond=500_000)], {}),
    ("DATETIME", ["2020-01-01T10:00:00Z", "2020-01-01 10:00", b"caf\xe9"], [TEN, TEN, None], {3: "caf\ufffd"}),
    ("VARCHAR(10)", ["a", None], ["a", None], {}),
    ("TEXT", ["a\0b", "c", 5, None], ["a\0b", "c", "5", None], {}),
    ("TEXT(9)", [b"a\0b", "c"], ["a\0b", "c"], {}),
    ("BIGINT", [2**60 + 1, None], [2**60 + 1, None], {}),
    ("DECIMAL(10,2)", [1.25, 3], [1.25, 3.0], {}),
]  # fmt: skip


@pytest.mark.parametrize("layer", ["places", "seen"])
@pytest.mark.parametrize(("kind", "values", "read", "lost"), ODD_VALUES, ids=str)
def test_v1_values_of_a_geopackage_that_are_not_of_their_type_are_null_and_reported(
    layers: Open, tmp_path: Path, layer: str, kind: str, values: list[object], read: list[object], lost: dict[int, str]
) -> None:
    """A column gets a wider type where that has all of its values, and is text where most are of another."""
    frame = geopandas.GeoDataFrame({"n": range(len(values))}, geometry=[shapely.Point(1, 2)] * len(values), crs=4326)
    path = make_geopackage(
        tmp_path / "a.gpkg",
        [
            f'alter table places add column "v ""x" {kind}',
            'create view seen as select fid as OGC_FID, geom, "v ""x" from places',
            "insert into gpkg_contents (table_name, data_type, srs_id) values ('seen', 'features', 4326)",
            "insert into gpkg_geometry_columns values ('seen', 'geom', 'POINT', 4326, 0, 0)",
        ],
        frame,
    )
    with closing(sqlite3.connect(path)) as database, database:
        database.executemany('update places set "v ""x" = ? where n = ?', [(one, n) for n, one in enumerate(values)])
    (found,) = layers(path, layer=layer)
    content = read_all(found, 2)
    assert [row['v "x'] for row in content.attributes] == read
    assert sum(count.count for count in content.changed.values()) == len(lost)
    samples = content.changed["not_of_its_type"].samples if lost else ()
    assert {sample.row: sample.what for sample in samples} == {
        row: f'column v "x: {text}' for row, text in lost.items()
    }


@pytest.mark.parametrize("key", ["fid", "id"])
def test_columns_of_a_geopackage_may_have_names_that_sqlite_has_for_row_numbers(
    layers: Open, tmp_path: Path, key: str
) -> None:
    statements = [
        f"create table other ({key} integer primary key, geom point, rowid text, oid text, v integer)",
        "insert into other select fid, geom, 'a', 'b', case fid when 1 then 'x' else fid end from places",
        "update other set geom = 'x' where v = 3",
        "insert into gpkg_contents (table_name, data_type, srs_id) values ('other', 'features', 4326)",
        "insert into gpkg_geometry_columns values ('other', 'geom', 'POINT', 4326, 0, 0)",
    ]
    (layer,) = layers(make_geopackage(tmp_path / "a.gpkg", statements), layer="other")
    content = read_all(layer)
    assert [(row["rowid"], row["v"]) for row in content.attributes] == [("a", None), ("a", 2), ("a", 3)]
    (batch,) = layer.read(9, Notes())
    assert batch.unreadable == {2: "text: x"}


def test_v1_texts_of_a_geopackage_that_are_not_utf_8_are_read(layers: Open, tmp_path: Path) -> None:
    update = "update places set t = case fid when 1 then cast(x'636166e9' as text) else '2020-01-01T10:00:00Z' end"
    path = make_geopackage(tmp_path / "a.gpkg", ["alter table places add column t DATETIME", update])
    content = read_all(layers(path)[0])
    assert [row["t"] for row in content.attributes] == [None, TEN, TEN]
    assert [one.what for one in content.changed["not_of_its_type"].samples] == ["column t: caf\ufffd"]


def put_texts(path: Path, kind: str, width: int, texts: Sequence[str]) -> Path:
    """A Shapefile with a field `v` of these texts, after one with the numbers of rows."""
    frame = geopandas.GeoDataFrame({"n": range(len(texts))}, geometry=[shapely.Point(1, 2)] * len(texts), crs=4326)
    with zipfile.ZipFile(zip_shapefile(path.with_name("plain.zip"), frame)) as archive:
        parts = {f"a.{name.rpartition('.')[2]}": archive.read(name) for name in archive.namelist()}
    fields = struct.pack("<11sc4xBB14x", b"n", b"N", 4, 0) + struct.pack("<11sc4xBB14x", b"v", kind.encode(), width, 0)
    head = struct.pack("<B3xIHH20x", 3, len(texts), 32 + len(fields) + 1, 5 + width)
    rows = b"".join(b" %4d" % n + text.rjust(width).encode() for n, text in enumerate(texts))
    return make_zip(path, {**parts, "a.dbf": head + fields + b"\r" + rows})


ODD_TEXTS: list[tuple[str, int, list[str], list[object], dict[int, str]]] = [
    ("N", 5, ["1", "abc", "*****", "", "+2"], [1, None, None, None, 2], {2: "abc"}),
    ("N", 5, ["1", "1.5"], [1.0, 1.5], {}),
    ("N", 18, ["123456789012345678", "1.5", "x"], ["123456789012345678", "1.5", "x"], {}),
    ("N", 19, ["1234567890123456789", "1.5"], ["1234567890123456789", "1.5"], {}),
    ("N", 18, ["10000000000000000", "1.5"], [1e16, 1.5], {}),
    ("N", 5, ["1", "2", "12a", "1 2"], [1, 2, None, None], {3: "12a", 4: "1 2"}),
    ("N", 5, ["a1", "a2", "3"], ["a1", "a2", "3"], {}),
    ("F", 10, ["1.5", "1,5", "1e5", ".5", "1e400", "5."], [1.5, None, 1e5, 0.5, None, 5.0], {2: "1,5", 5: "1e400"}),
    ("N", 19, [str(2**63 + 1), "-1"], [Decimal(2**63 + 1), Decimal(-1)], {}),
    ("N", 19, ["1234567890123456789", "x", "2"], [1234567890123456789, None, 2], {2: "x"}),
    ("D", 8, ["20240105", "20240229", "20240230", "2024-1-5", "00000000", "", "20240106"],
     [DAY, date(2024, 2, 29), None, None, None, None, date(2024, 1, 6)], {3: "20240230", 4: "2024-1-5"}),
    ("D", 8, ["2024-1-5", "05.01.24"], ["2024-1-5", "05.01.24"], {}),
    ("L", 1, ["T", "f", "?", "", "y", "N"], [True, False, None, None, True, False], {}),
    ("L", 1, ["T", "f", "x"], [True, False, None], {3: "x"}),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "width", "texts", "read", "lost"), ODD_TEXTS, ids=str)
def test_v1_texts_of_a_shapefile_that_are_not_of_their_type_are_null_and_reported(
    layers: Open, tmp_path: Path, kind: str, width: int, texts: list[str], read: list[object], lost: dict[int, str]
) -> None:
    (found,) = layers(put_texts(tmp_path / "a.zip", kind, width, texts))
    content = read_all(found, 2)
    assert content.attributes == [{"n": n, "v": value} for n, value in enumerate(read)]
    samples = content.changed["not_of_its_type"].samples if lost else ()
    assert {sample.row: sample.what for sample in samples} == {row: f"column v: {text}" for row, text in lost.items()}


ODD_FIELDS: list[tuple[str, list[str], list[object], dict[int, str]]] = [
    ("int", ["1", "3000000000", ""], [1, 3_000_000_000, None], {}),
    ("int", ["1", "2", "x"], [1, 2, None], {3: "x"}),
    ("int", ["1.9", "1"], [1.9, 1.0], {}),
    ("int", ["1.9", "123456789012345678"], ["1.9", "123456789012345678"], {}),
    ("double", ["1.9", "123456789012345678"], ["1.9", "123456789012345678"], {}),
    ("double", ["1.5", " 2 ", "1e400", ""], [1.5, 2.0, None, None], {3: "1e400"}),
    ("double", ["1,5", "x", "1"], ["1,5", "x", "1"], {}),
    ("bool", ["true", "0", "yes"], [True, False, None], {3: "yes"}),
    ("string", [" a ", "1"], ["a", "1"], {}),
]


@pytest.mark.parametrize(("kind", "texts", "read", "lost"), ODD_FIELDS, ids=str)
def test_v1_values_of_kml_that_are_not_of_their_type_are_null_and_reported(
    layers: Open, tmp_path: Path, kind: str, texts: list[str], read: list[object], lost: dict[int, str]
) -> None:
    data = '<ExtendedData><SchemaData schemaUrl="#s"><SimpleData name="v">{}</SimpleData></SchemaData></ExtendedData>'
    point = "<Point><coordinates>1,2</coordinates></Point>"
    path = make_kml(
        tmp_path / "a.kml",
        f'<Document><Schema id="s" name="s"><SimpleField name="v" type="{kind}"/></Schema>'
        + "".join(f"<Placemark>{data.format(text)}{point}</Placemark>" for text in texts)
        + "<Placemark><visibility>0</visibility><LineString><tessellate>1</tessellate>"
        "<coordinates>1,2 3,4</coordinates></LineString></Placemark></Document>",
    )
    content = read_all(layers(path)[0], 2)
    assert [row["v"] for row in content.attributes] == [*read, None]
    assert [(row["visibility"], row["tessellate"]) for row in content.attributes] == [(None, None)] * len(read) + [
        (0, 1)
    ]
    samples = content.changed["not_of_its_type"].samples if lost else ()
    assert {sample.row: sample.what for sample in samples} == {row: f"column v: {text}" for row, text in lost.items()}


GML_VALUES: list[tuple[list[str], list[object]]] = [
    (["1", "12345678901234567890"], [Decimal(1), Decimal(12345678901234567890)]),
    (["1", "-9223372036854775808"], [1, -(2**63)]),
    (["1.5", "1234567890123456789"], ["1.5", "1234567890123456789"]),
    (["1.5", "1e400"], [1.5, None]),
    (["1.5", "1e-7"], [1.5, 1e-7]),
    (["1</v><v>2", "12345678901234567890"], [["1", "2"], ["12345678901234567890"]]),
    (["2020-01-01T10:00:00.000001Z", "2020-01-01T10:00:00.25Z"],
     [TEN.replace(microsecond=1), TEN.replace(microsecond=250_000)]),
    (["2020-01-01T10:00:00.000001", "2020-01-01T10:00:00Z"], ["2020-01-01T10:00:00.000001", "2020-01-01T10:00:00Z"]),
    (["10:00:00.123456", "11:00:00"], [time(10, 0, 0, 123456), time(11)]),
]  # fmt: skip


@pytest.mark.parametrize(("texts", "read"), GML_VALUES, ids=str)
def test_v1_values_of_gml_that_gdal_would_change_are_exact(
    layers: Open, tmp_path: Path, texts: list[str], read: list[object]
) -> None:
    point = "<g><gml:Point><gml:coordinates>1,2</gml:coordinates></gml:Point></g>"
    members = "".join(f"<gml:featureMember><a>{point}<v>{text}</v></a></gml:featureMember>" for text in texts)
    path = tmp_path / "a.gml"
    path.write_text(f'<f xmlns:gml="http://www.opengis.net/gml">{members}</f>')
    content = read_all(layers(path)[0], 1)
    assert [row["v"] for row in content.attributes] == read
    lost = [row for row, value in enumerate(read, start=1) if value is None]
    assert [sample.row for count in content.changed.values() for sample in count.samples] == lost


def test_v1_a_notice_says_that_times_of_kml_have_milliseconds(layers: Open, tmp_path: Path) -> None:
    (fine,) = layers(write_times(tmp_path / "a.kml", ["2020-01-01T10:00:00.123456Z"]))
    (plain,) = layers(write_times(tmp_path / "b.kml", ["2020-01-01T10:00:00.123Z"]))
    assert (fine.warnings, plain.warnings) == (("Times are read to the millisecond: some have more digits.",), ())


def make_placemark(schema: str, name: str, value: str) -> str:
    data = f'<SchemaData schemaUrl="#{schema}"><SimpleData name="{name}">{value}</SimpleData></SchemaData>'
    return f"<Placemark><ExtendedData>{data}</ExtendedData><Point><coordinates>1,2</coordinates></Point></Placemark>"


def make_schema(name: str, field: str, kind: str) -> str:
    return f'<Schema id="{name}" name="{name}"><SimpleField name="{field}" type="{kind}"/></Schema>'


def test_v1_fields_of_kml_have_the_types_of_their_layers(layers: Open, tmp_path: Path) -> None:
    """A field of one name may have another type in each schema; where a layer uses several, it has all values."""
    values = {"a": ["1", "3000000000"], "b": ["x", "2"], "c": ["1.5"]}
    schemas = "".join(make_schema(*each) for each in (("a", "v", "int"), ("b", "v", "string"), ("c", "v", "double")))
    folders = {name: [make_placemark(name, "v", value) for value in found] for name, found in values.items()}
    folders["all"] = [placemark for found in folders.values() for placemark in found]
    content = "".join(f"<Folder><name>{name}</name>{''.join(found)}</Folder>" for name, found in folders.items())
    path = make_kml(tmp_path / "a.kml", f"<Document>{schemas}{content}</Document>")
    found = {layer.name: [row["v"] for row in read_all(layer).attributes] for layer in layers(path)}
    assert found == {
        "a": [1, 3_000_000_000], "b": ["x", "2"], "c": [1.5], "all": ["1", "3000000000", "x", "2", "1.5"]
    }  # fmt: skip


@pytest.mark.parametrize("name", ["a&amp;b", "&#252;", "ü", "a &lt; b"])
@pytest.mark.parametrize("encoding", ["utf-8", "iso-8859-1"])
def test_v1_fields_of_kml_have_names_with_entities(layers: Open, tmp_path: Path, name: str, encoding: str) -> None:
    content = make_schema("a", name, "int") + make_placemark("a", name, "3000000000")
    text = KML.format(f"<Document>{content}</Document>").replace("UTF-8", encoding)
    (tmp_path / "a.kml").write_bytes(text.encode(encoding))
    (layer,) = layers(tmp_path / "a.kml")
    assert read_all(layer).attributes[0][html.unescape(name)] == 3_000_000_000


def write_times(path: Path, texts: Sequence[str | None]) -> Path:
    """A file with a column of times, `t`, or the timestamps of placemarks."""
    if path.suffix == ".kml":
        when = [f"<TimeStamp><when>{text}</when></TimeStamp>" if text else "" for text in texts]
        point = "<Point><coordinates>1,2</coordinates></Point>"
        return make_kml(
            path, "<Document>" + "".join(f"<Placemark>{one}{point}</Placemark>" for one in when) + "</Document>"
        )
    geometry = pa.array([shapely.to_wkb(shapely.Point(1, 2))] * len(texts), pa.binary())
    times = pa.field("t", pa.string(), metadata={"GDAL:OGR:type": "DateTime"})
    schema = pa.schema([times, pa.field("g", pa.binary())])
    table = pa.table([pa.array(texts, pa.string()), geometry], schema=schema)
    driver = {".fgb": "FlatGeobuf", ".gml": "GML"}[path.suffix]
    pyogrio.write_arrow(table, path, driver=driver, geometry_name="g", geometry_type="Point", crs="EPSG:4326")
    return path


def test_lists_json_and_mixed_properties(layers: Open, tmp_path: Path) -> None:
    rows = [
        {"l": [1, 2], "j": {"a": 1}, "mixed": 1, "day": "2020-02-29", "big": BIG},
        {"l": [3], "j": [1, None], "mixed": "x", "day": None, "big": 1},
    ]
    (layer,) = layers(make_collection(tmp_path / "a.geojson", [feature(row) for row in rows]))
    content = read_all(layer)
    assert (layer.schema.field("j").type, layer.schema.field("mixed").type) == (pa.json_(), pa.string())
    assert [json.loads(row["j"]) for row in content.attributes] == [{"a": 1}, [1, None]]
    assert [row["mixed"] for row in content.attributes] == ["1", "x"]
    assert [json.loads(row["l"]) for row in content.attributes] == [[1, 2], [3]]
    assert content.attributes[0]["day"] == date(2020, 2, 29)
    assert content.attributes[0]["big"] == BIG


def test_ids_of_features_are_kept(layers: Open, tmp_path: Path) -> None:
    features = [feature({"a": n}, id=10 * n) for n in (1, 2)]
    (layer,) = layers(make_collection(tmp_path / "a.geojson", features))
    assert read_all(layer).attributes == [{"id": 10, "a": 1}, {"id": 20, "a": 2}]
    (layer,) = layers(make_collection(tmp_path / "b.geojson", [feature({"a": 1}, id="x")]))
    assert read_all(layer).attributes == [{"id": "x", "a": 1}]


def test_a_view_is_read_as_a_table(layers: Open, tmp_path: Path) -> None:
    path = make_geopackage(
        tmp_path / "a.gpkg",
        [
            "create view few as select fid as ogc_fid, name, geom from places where fid < 3",
            "insert into gpkg_contents (table_name, data_type, srs_id) values ('few', 'features', 4326)",
            "insert into gpkg_geometry_columns values ('few', 'geom', 'POINT', 4326, 0, 0)",
        ],
    )
    places, few = layers(path)
    assert (places.name, few.name, read_all(few).rows) == ("places", "few", [1, 2])


def test_zero_rows_can_be_opened(layers: Open, tmp_path: Path) -> None:
    for name in ("a.gpkg", "a.fgb", "a.geojson", "a.parquet"):
        (layer,) = layers(write_frame(make_frame().iloc[:0], tmp_path / name))
        assert read_all(layer).rows == []


def test_gml_of_any_application_schema_is_read(layers: Open, tmp_path: Path) -> None:
    """INSPIRE's documents have their own root, in a namespace of their own."""
    path = tmp_path / "a.gml"
    path.write_text(
        '<base:SpatialDataSet xmlns:base="urn:x-inspire:specification:gmlas:BaseTypes:3.2" xmlns:ad="urn:ad" '
        'xmlns:gml="http://www.opengis.net/gml/3.2"><base:member><ad:Address gml:id="a1"><ad:place><gml:Point '
        'gml:id="p1" srsName="urn:ogc:def:crs:EPSG::4258"><gml:pos>52.3 4.9</gml:pos></gml:Point></ad:place>'
        "<ad:street>Dam</ad:street></ad:Address></base:member></base:SpatialDataSet>"
    )
    (layer,) = layers(path)
    content = read_all(layer)
    assert (layer.name, layer.crs, content.shapes) == ("Address", "EPSG:4258", ["POINT (4.9 52.3)"])
    assert content.attributes[0]["street"] == "Dam"


def test_the_box_around_a_feature_of_gml_is_no_attribute(layers: Open, tmp_path: Path) -> None:
    box = "<gml:Envelope><gml:lowerCorner>1 2</gml:lowerCorner><gml:upperCorner>1 2</gml:upperCorner></gml:Envelope>"
    point = "<g><gml:Point><gml:coordinates>1,2</gml:coordinates></gml:Point></g>"
    (tmp_path / "a.gml").write_text(
        '<f xmlns:gml="http://www.opengis.net/gml"><gml:featureMember>'
        f"<a><gml:boundedBy>{box}</gml:boundedBy>{point}<v>5</v></a></gml:featureMember></f>"
    )
    (layer,) = layers(tmp_path / "a.gml")
    assert [row["v"] for row in read_all(layer).attributes] == [5]
    assert not {name.lower() for name in layer.schema.names} & {"lowercorner", "uppercorner"}
    own = f"<a>{point}<lowerCorner>x</lowerCorner></a>"
    (tmp_path / "b.gml").write_text(
        f'<f xmlns:gml="http://www.opengis.net/gml"><gml:featureMember>{own}</gml:featureMember></f>'
    )
    assert read_all(layers(tmp_path / "b.gml")[0]).attributes[0]["lowerCorner"] == "x"
