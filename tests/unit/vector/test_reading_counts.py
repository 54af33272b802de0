"""Rows read are counted apart from the reader (V1): damage inside a file, and rows that GDAL leaves out."""

import json
import random
import struct
import tempfile
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import geopandas
import pytest
import shapely

from anabranch.errors import Permanent
from anabranch.plugins.vector.cleaning.cleaner import Cleaner
from anabranch.plugins.vector.models import LayerReport, ReadOptions
from anabranch.plugins.vector.reading.open_layers import open_layers
from anabranch.plugins.vector.settings import VectorSettings
from tests.support.source_layers import read_all
from tests.support.vector_batches import make_layer
from tests.support.vectors import KML, feature, make_collection, make_geopackage, make_zip, write_frame, zip_shapefile
from tests.unit.vector.conftest import Open, Refuse

ROWS = 3000
PAGE_BYTES = 4096
PLACEMARK = "<Placemark><name>x</name><Point><coordinates>1,2</coordinates></Point></Placemark>"


def number_rows(count: int) -> geopandas.GeoDataFrame:
    frame = {"n": range(count), "text": ["x" * 30] * count}
    return geopandas.GeoDataFrame(frame, geometry=[shapely.Point(1, 2)] * count, crs=4326)


def clean_file(path: Path, *, may_be_empty: bool = False) -> list[LayerReport]:
    """The reports of all layers of a file."""
    settings, options, reports = VectorSettings(), ReadOptions(), []
    for layer in open_layers(path, Path(tempfile.mkdtemp(dir=path.parent)), options, settings):
        cleaner = Cleaner(layer, options, settings)
        for batch in layer.read(100, cleaner.dropped):
            list(cleaner.clean(batch))
        reports.append(cleaner.report(may_be_empty=may_be_empty))
    return reports


def overwrite(path: Path, start: int, count: int, byte: bytes = b"\xff") -> None:
    data = bytearray(path.read_bytes())
    data[start : start + count] = byte * count
    path.write_bytes(data)


@pytest.mark.parametrize("page", [0.3, 0.5, 0.7, 0.9])
def test_v1_a_geopackage_with_a_damaged_page_is_refused(refuse: Refuse, tmp_path: Path, page: float) -> None:
    path = make_geopackage(tmp_path / "a.gpkg", [], number_rows(ROWS))
    overwrite(path, int(path.stat().st_size // PAGE_BYTES * page) * PAGE_BYTES, PAGE_BYTES)
    error = refuse(path)
    assert (error.code, "malformed" in error.message) == ("vector.damaged", True), error.message


def test_v1_rows_of_tables_and_views_are_counted(layers: Open, refuse: Refuse, tmp_path: Path) -> None:
    """Also of a view that only GDAL can read, since it calls a function of its own."""
    views = {"less": "geom, n from places where n < 2990", "moved": "st_transform(geom, 4326) as geom, n from places"}
    statements = [
        statement
        for name, view in views.items()
        for statement in (
            f"create view {name} as select fid as OGC_FID, {view}",
            f"insert into gpkg_contents (table_name, data_type, srs_id) values ('{name}', 'features', 4326)",
            f"insert into gpkg_geometry_columns values ('{name}', 'geom', 'POINT', 4326, 0, 0)",
        )
    ]
    path = make_geopackage(tmp_path / "a.gpkg", statements, number_rows(ROWS))
    assert {layer.name: layer.features for layer in layers(path)} == {"places": 3000, "less": 2990, "moved": 3000}
    assert [len(read_all(layer).rows) for layer in layers(path)] == [3000, 2990, 3000]
    overwrite(path, path.stat().st_size // PAGE_BYTES // 2 * PAGE_BYTES, PAGE_BYTES)
    for view in views:
        assert refuse(path, layer=view).code == "vector.damaged"


@pytest.mark.parametrize("damage", ["cut off", "inside", "index"])
def test_v1_a_damaged_geodatabase_is_refused(refuse: Refuse, tmp_path: Path, damage: str) -> None:
    folder = write_frame(number_rows(ROWS), tmp_path / "a.gdb", "places")
    table = max(folder.glob("*.gdbtable"), key=lambda part: part.stat().st_size)
    if damage == "cut off":
        table.write_bytes(table.read_bytes()[: table.stat().st_size * 6 // 10])
    elif damage == "inside":
        overwrite(table, table.stat().st_size // 2, 500)
    else:
        overwrite(table.with_suffix(".gdbtablx"), 2000, 2000, b"\0")
    error = refuse(make_zip(tmp_path / "a.zip", {f"a.gdb/{part.name}": part for part in folder.iterdir()}))
    assert (error.code, "has 3,000 features, and" in error.message) == ("vector.damaged", True), error.message


@pytest.mark.parametrize("indexed", ["YES", "NO"])
def test_v1_a_damaged_flatgeobuf_is_refused(layers: Open, refuse: Refuse, tmp_path: Path, indexed: str) -> None:
    """Also where its header does not say how many rows there are, as that of a stream does not."""
    path = write_frame(number_rows(ROWS), tmp_path / "a.fgb", SPATIAL_INDEX=indexed)
    whole = path.read_bytes()
    if indexed == "NO":
        whole = whole.replace(struct.pack("<Q", ROWS), bytes(8), 1)
        path.write_bytes(whole)
        (layer,) = layers(path)
        assert (layer.features, len(read_all(layer).rows)) == (ROWS, ROWS)
    for damaged in (whole[: len(whole) * 7 // 10], whole[: -len(whole) // 3] + b"\xff" * (len(whole) // 3)):
        path.write_bytes(damaged)
        assert refuse(path).code == "vector.damaged"


def test_an_empty_flatgeobuf_has_no_rows(layers: Open, tmp_path: Path) -> None:
    (layer,) = layers(write_frame(number_rows(0), tmp_path / "a.fgb", geometry_type="Point"))
    assert (layer.features, read_all(layer).rows) == (0, [])


def mix_shapefile(tmp_path: Path, shapes: int, rows: int, leave_out: tuple[str, ...]) -> Path:
    """A Shapefile whose .dbf file is that of another one."""
    both = {}
    for name, count in (("shapes", shapes), ("rows", rows)):
        with zipfile.ZipFile(zip_shapefile(tmp_path / f"{name}.zip", number_rows(count))) as archive:
            both[name] = {part.rpartition(".")[2]: archive.read(part) for part in archive.namelist()}
    parts = both["shapes"] | {"dbf": both["rows"]["dbf"]}
    return make_zip(tmp_path / "a.zip", {f"a.{part}": data for part, data in parts.items() if part not in leave_out})


@pytest.mark.parametrize(("shapes", "rows"), [(6, 10), (10, 6)])
@pytest.mark.parametrize("leave_out", [(), ("shx",)])
def test_v1_parts_of_a_shapefile_must_have_as_many_rows(
    refuse: Refuse, tmp_path: Path, shapes: int, rows: int, leave_out: tuple[str, ...]
) -> None:
    error = refuse(mix_shapefile(tmp_path, shapes, rows, leave_out))
    assert error.code == "vector.damaged"
    assert error.message == f"a.shp in a.zip has {shapes} geometries, and its .dbf file has {rows} rows"


@pytest.mark.parametrize("leave_out", [(), (".shx",)])
def test_v1_deleted_rows_of_a_table_are_reported(tmp_path: Path, leave_out: tuple[str, ...]) -> None:
    path = zip_shapefile(tmp_path / "whole.zip", number_rows(5), leave_out=leave_out)
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    table = bytearray(parts["whole.dbf"])
    start, width = struct.unpack_from("<HH", table, 8)
    for row in (1, 3):
        table[start + row * width] = ord("*")
    (report,) = clean_file(make_zip(tmp_path / "a.zip", parts | {"whole.dbf": bytes(table)}))
    assert (report.rows, report.written) == (5, 3)
    assert [sample.row for sample in report.dropped["deleted_row"].samples] == [2, 4]


def test_v1_objects_of_topojson_without_a_geometry_are_reported(tmp_path: Path) -> None:
    """GDAL reads neither of them; the samples have the places of the rows in the file."""
    geometries = [
        {"type": "Point", "coordinates": [1.5, 2], "properties": {"n": 1}},
        {"type": None, "properties": {"n": 2}},
        {"type": "GeometryCollection", "geometries": [{"type": "Point", "coordinates": [1, 2]}]},
        {"type": "LineString", "arcs": [0], "properties": {"n": 4}},
    ]
    objects = {"x": {"type": "GeometryCollection", "geometries": geometries}, "y": geometries[0], "z": geometries[1]}
    (tmp_path / "a.json").write_text(json.dumps({"type": "Topology", "arcs": [[[0, 0], [1, 1]]], "objects": objects}))
    first, second, third = clean_file(tmp_path / "a.json", may_be_empty=True)
    assert (first.layer, first.rows, first.written) == ("x", 4, 2)
    dropped = {why: [sample.row for sample in found.samples] for why, found in first.dropped.items()}
    assert dropped == {"null_geometry": [2], "unreadable_geometry": [3]}
    assert (second.layer, second.rows, second.written) == ("y", 1, 1)
    assert (third.layer, third.rows, third.dropped["null_geometry"].count) == ("z", 1, 1)


def test_v1_placemarks_that_gdal_leaves_out_are_refused(layers: Open, refuse: Refuse, tmp_path: Path) -> None:
    """It reads the last of two roots; a placemark in an update is none of the file."""
    path = tmp_path / "a.kml"
    path.write_text(KML.format(f"<Folder>{PLACEMARK}</Folder><Folder>{PLACEMARK}{PLACEMARK}</Folder>"))
    error = refuse(path)
    assert (error.code, error.message) == ("vector.kml", "a.kml has 3 placemarks, and 2 of them can be read")
    update = f"<NetworkLinkControl><Update><Create>{PLACEMARK}</Create></Update></NetworkLinkControl>"
    path.write_text(KML.format(f"{update}<Document>{PLACEMARK}</Document>"))
    assert [layer.features for layer in layers(path)] == [1]


def test_v1_features_of_gml_are_counted(layers: Open, tmp_path: Path) -> None:
    (layer,) = layers(write_frame(number_rows(7), tmp_path / "a.gml"))
    assert (layer.features, len(read_all(layer).rows)) == (7, 7)


BAD_SHAPES = [
    '{"type": "Polygon", "coordinates": [[1, 2], [3]]}',
    '{"type": "Foo"}',
    '{"type": "Point", "coordinates": ["a", 1]}',
    "5",
]


@pytest.mark.parametrize("suffix", [".geojson", ".geojsonl"])
def test_v1_geometries_of_geojson_that_are_not_valid_are_no_nulls(tmp_path: Path, suffix: str) -> None:
    point = '{"type": "Point", "coordinates": [1.5, 2]}'
    shapes = [point, *BAD_SHAPES, "null", '{"type": "Point", "coordinates": []}', point]
    features = [f'{{"type": "Feature", "properties": {{}}, "geometry": {shape}}}' for shape in shapes]
    path = tmp_path / f"a{suffix}"
    whole = f'{{"type": "FeatureCollection", "features": [{",".join(features)}]}}'
    path.write_text(whole if suffix == ".geojson" else "\n".join(features) + "\n")
    (report,) = clean_file(path)
    dropped = {why: [(one.row, one.what) for one in found.samples] for why, found in report.dropped.items()}
    assert dropped == {"null_geometry": [(6, ""), (7, "")], "unreadable_geometry": list(enumerate(BAD_SHAPES, start=2))}


def test_v1_more_geometries_that_are_not_valid_than_samples_are_counted_in_every_batch(tmp_path: Path) -> None:
    bad, count = feature(geometry={"type": "Foo"}), 250
    (report,) = clean_file(make_collection(tmp_path / "a.geojson", [feature(), *[bad] * count]))
    dropped = report.dropped["unreadable_geometry"]
    assert (report.written, dropped.count, [one.row for one in dropped.samples]) == (1, count, [2, 3, 4, 5, 6])


def test_v1_geometries_of_a_geopackage_that_are_none_are_no_nulls(tmp_path: Path) -> None:
    values = ["x'6761726261676578'", "'some text'", "x'47500011e6100000'", "x'47500001e61000000101000000'", "null"]
    updates = [f"update places set geom = {value} where n = {n}" for n, value in enumerate(values, start=1)]
    (report,) = clean_file(make_geopackage(tmp_path / "a.gpkg", updates, number_rows(7)))
    dropped = {why: [(one.row, one.what) for one in found.samples] for why, found in report.dropped.items()}
    assert dropped == {
        "null_geometry": [(6, "")],
        "unreadable_geometry": [
            (2, "8 bytes: 67 61 72 62 61 67 65 78"), (3, "text: some text"), (4, "8 bytes: 47 50 00 11 e6 10 00 00"),
            (5, "5 bytes: 01 01 00 00 00"),
        ],
    }  # fmt: skip


@pytest.mark.parametrize("row", [",500,b", "91,,b", "x,500,b", "x,,b", "500,x,b", "91,500,b"])
def test_v1_a_row_of_a_csv_file_is_dropped_once(tmp_path: Path, row: str) -> None:
    (tmp_path / "a.csv").write_text("lat,lon,n\n" + "1,2,a\n" * 20 + row + "\n")
    (report,) = clean_file(tmp_path / "a.csv")
    assert (report.rows, report.written, sum(found.count for found in report.dropped.values())) == (21, 20, 1)


def test_v1_rows_are_lost_where_the_file_has_more(tmp_path: Path) -> None:
    """The report compares rows written and dropped with the number that the file has."""
    layer = make_layer(["POINT(9 52)"] * 3, features=4)
    cleaner = Cleaner(layer, ReadOptions(), VectorSettings())
    for batch in layer.read(10, cleaner.dropped):
        list(cleaner.clean(batch))
    with pytest.raises(Permanent) as caught:
        cleaner.report()
    assert caught.value.code == "vector.rows_lost"


@pytest.mark.parametrize("name", ["a.gpkg", "a.fgb", "a.zip", "a.gdb.zip", "a.parquet"])
def test_v1_flipped_bytes_lose_no_rows_without_a_word(tmp_path: Path, name: str) -> None:
    """A file with damage anywhere gives all rows, as far as any are reported, or is refused with a code of ours."""
    rows = 400
    make: dict[str, Callable[[], Path]] = {
        "a.zip": lambda: zip_shapefile(tmp_path / "a.zip", number_rows(rows)),
        "a.gdb.zip": lambda: write_frame(number_rows(rows), tmp_path / "a.gdb", "a"),
    }
    path = make.get(name, lambda: write_frame(number_rows(rows), tmp_path / name))()
    dice = random.Random(17)
    for _ in range(8):
        damaged = damage(path, tmp_path / "damaged" / name, dice)
        with suppress(Permanent):
            assert [report.rows for report in clean_file(damaged)] == [rows]


def damage(path: Path, target: Path, dice: random.Random) -> Path:
    """A copy with 64 bytes overwritten in one place of one of its files."""
    target.parent.mkdir(exist_ok=True)
    if path.is_dir():
        files = {f"{path.name}/{part.name}": part.read_bytes() for part in path.iterdir()}
    elif path.suffix == ".zip":
        with zipfile.ZipFile(path) as archive:
            files = {part: archive.read(part) for part in archive.namelist()}
    else:
        files = {target.name: path.read_bytes()}
    chosen = dice.choices(list(files), [len(data) for data in files.values()])[0]
    data = bytearray(files[chosen])
    place = dice.randrange(len(data))
    data[place : place + 64] = dice.randbytes(len(data[place : place + 64]))
    files[chosen] = bytes(data)
    if target.suffix == ".zip":
        return make_zip(target, files)
    target.write_bytes(files[chosen])
    return target
