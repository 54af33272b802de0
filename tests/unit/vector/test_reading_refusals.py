"""Files of any format that can't be read, each with a code and a message that say why."""

import csv
import json
import shutil
import sqlite3
import zipfile
from contextlib import closing
from pathlib import Path

import geopandas
import pyarrow as pa
import pyarrow.parquet
import pytest
import shapely
from pyogrio.errors import DataLayerError

from anabranch.errors import Permanent
from anabranch.plugins.vector.in_sandbox import in_sandbox
from anabranch.plugins.vector.models import Converted
from anabranch.plugins.vector.settings import VectorSettings
from tests.support.source_layers import read_all
from tests.support.vectors import KML, make_frame, make_geopackage, make_kml, write_frame, zip_shapefile
from tests.unit.vector.conftest import Open, Refuse

PLACEMARK = "<Placemark><name>{}</name><Point><coordinates>1,2</coordinates></Point></Placemark>"
VRT = '<OGRVRTDataSource><OGRVRTLayer name="a"><SrcDataSource>{}</SrcDataSource></OGRVRTLayer></OGRVRTDataSource>'


@pytest.mark.parametrize("suffix", ["geojson", "gpkg", "zip", "kml", "csv", "parquet", "fgb", "gml", "topojson", "shp"])
def test_zero_bytes_are_refused(refuse: Refuse, tmp_path: Path, suffix: str) -> None:
    (tmp_path / f"a.{suffix}").touch()
    error = refuse(tmp_path / f"a.{suffix}")
    assert (error.code, error.message) == ("vector.empty", f"a.{suffix} is empty: it has zero bytes")


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.geojson", b"SQLite format 3\x00", "a.geojson is a SQLite database, like a GeoPackage, but its extension"),
        ("a.gpkg", b'{"type": "FeatureCollection"}', "a.gpkg is JSON, but its extension .gpkg is that of a SQLite"),
        ("a.csv", b'{"type": "FeatureCollection"}', "a.csv is JSON, but its extension .csv is that of CSV"),
        ("a.kml", b"lat,lon\n1,2", "a.kml is text, but its extension .kml is that of a KML file"),
        ("a.geojson", VRT.format("/etc/passwd").encode(), "an XML file of another kind, <OGRVRTDataSource>"),
        ("a.csv", VRT.format("/etc/passwd").encode(), "an XML file of another kind"),
        ("a.gml", KML.format("").encode(), "a.gml is a KML file, but its extension .gml is that of a GML file"),
        ("a.fgb", b"PAR1", "a.fgb is a Parquet file"),
        ("a.csv", b"\x00\x01\x02", "in an unknown binary format"),
    ],
)
def test_content_must_be_what_the_extension_says(
    refuse: Refuse, tmp_path: Path, name: str, content: bytes, words: str
) -> None:
    (tmp_path / name).write_bytes(content)
    error = refuse(tmp_path / name)
    assert (error.code, words in error.message) == ("vector.mismatch", True), error.message


@pytest.mark.parametrize(
    ("name", "content", "code", "words"),
    [
        ("a.shp", b"\x00\x00\x27\x0a", "vector.shapefile", "a part of a Shapefile"),
        ("a.dbf", b"\x03", "vector.shapefile", "a part of a Shapefile"),
        ("a.xls", b"\xd0\xcf\x11\xe0", "vector.format", "an Excel workbook"),
        ("a.tif", b"II*\x00", "vector.format", "a raster"),
        ("a", b"some words", "vector.format", "a is text, which is not a supported vector format"),
        ("a.vrt", VRT.format("x").encode(), "vector.format", "<OGRVRTDataSource>"),
    ],
)
def test_other_formats_are_refused(
    refuse: Refuse, tmp_path: Path, name: str, content: bytes, code: str, words: str
) -> None:
    (tmp_path / name).write_bytes(content)
    error = refuse(tmp_path / name)
    assert (error.code, words in error.message) == (code, True), error.message


def test_a_file_over_the_limit_or_gone_is_refused(refuse: Refuse, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"lat,lon\n" + b"1,2\n" * 300_000)
    error = refuse(tmp_path / "a.csv", VectorSettings(vector_max_mb=1))
    assert (error.code, error.message) == ("vector.too_large", "a.csv has 1 MB, over the limit of 1")
    assert refuse(tmp_path / "b.csv").code == "vector.missing"


@pytest.mark.parametrize("name", ["a.gpkg", "a.fgb", "a.parquet", "a.gml", "a.kml", "a.geojson"])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_cut_off_files_are_refused(refuse: Refuse, tmp_path: Path, name: str, share: float) -> None:
    frame = geopandas.GeoDataFrame({"n": range(3000)}, geometry=[shapely.Point(1, 2)] * 3000, crs=4326)
    (tmp_path / "whole").mkdir()
    path = write_frame(frame, tmp_path / "whole" / name)
    (tmp_path / name).write_bytes(path.read_bytes()[: int(path.stat().st_size * share)])
    assert refuse(tmp_path / name).code in ("vector.damaged", "vector.xml", "vector.json")


def test_layers_are_chosen_by_name(layers: Open, refuse: Refuse, tmp_path: Path) -> None:
    path = make_geopackage(
        tmp_path / "a.gpkg",
        [
            "create table notes (id integer primary key, words text)",
            "create table layer_styles (id integer primary key, f_table_name text)",
            "insert into gpkg_contents (table_name, data_type) values ('notes', 'attributes')",
            "insert into gpkg_contents (table_name, data_type) values ('layer_styles', 'attributes')",
        ],
    )
    write_frame(make_frame(), path, "more", append=True)
    assert [layer.name for layer in layers(path)] == ["places", "more"]
    assert layers(path)[0].warnings == ("Tables without geometries are not published: notes.",)
    assert [layer.name for layer in layers(path, layer="more")] == ["more"]
    error = refuse(path, layer="roads")
    assert (error.code, "a.gpkg has no layer 'roads': it has places, notes" in error.message) == ("vector.layer", True)
    error = refuse(path, layer="notes")
    assert (error.code, error.message) == (
        "vector.no_geometry",
        "the layer 'notes' of a.gpkg has attributes only, and no geometries",
    )
    error = refuse(path, VectorSettings(vector_max_layers=1))
    assert (error.code, error.message) == ("vector.layers", "a.gpkg has 2 layers, over the limit of 1")


def test_geopackages_without_layers_are_refused(refuse: Refuse, tmp_path: Path) -> None:
    path = make_geopackage(tmp_path / "a.gpkg", ["update gpkg_contents set data_type = 'attributes'"])
    error = refuse(path)
    assert (error.code, error.message) == ("vector.no_geometry", "a.gpkg has no layer with geometries: it has places")
    names = ("gpkg_contents", "gpkg_geometry_columns")
    hidden = [f"update {name} set table_name = 'ogr_empty_table'" for name in names]
    error = refuse(make_geopackage(tmp_path / "d.gpkg", ["alter table places rename to ogr_empty_table", *hidden]))
    assert (error.code, "has no layer with geometries" in error.message) == ("vector.no_geometry", True)
    with closing(sqlite3.connect(tmp_path / "b.gpkg")) as database, database:
        database.execute("create table a (b)")
    error = refuse(tmp_path / "b.gpkg")
    assert (error.code, "not a GeoPackage" in error.message) == ("vector.geopackage", True)
    (tmp_path / "c.gpkg").write_bytes(b"SQLite format 3\x00" + b"x" * 5000)
    assert refuse(tmp_path / "c.gpkg").code == "vector.damaged"
    whole = make_geopackage(tmp_path / "e.gpkg", []).read_bytes()
    (tmp_path / "e.gpkg").write_bytes(whole.replace(b"CREATE TABLE", b"CREATE \x9bABLE"))
    assert refuse(tmp_path / "e.gpkg").code == "vector.damaged", "the error itself is no text"


def test_virtual_tables_are_no_layers(refuse: Refuse, tmp_path: Path) -> None:
    path = make_geopackage(
        tmp_path / "a.gpkg",
        [
            "create virtual table secrets using fts5(words)",
            "insert into gpkg_contents (table_name, data_type, srs_id) values ('secrets', 'features', 4326)",
        ],
    )
    error = refuse(path)
    assert (error.code, error.message) == ("vector.geopackage", "the layer 'secrets' of a.gpkg is a virtual table")


def test_a_geopackage_with_a_write_ahead_log_is_read_without_it(layers: Open, tmp_path: Path) -> None:
    source = make_geopackage(tmp_path / "source.gpkg", [])
    with closing(sqlite3.connect(source)) as database:
        database.execute("pragma journal_mode = wal")
        database.execute("begin immediate")  # another program holds it
        path = tmp_path / "read only" / "a.gpkg"
        path.parent.mkdir()
        shutil.copy(source, path)
        (layer,) = layers(path)
        assert len(read_all(layer).rows) == 3
        database.rollback()
    assert "write-ahead log" in layer.warnings[0]
    assert [each.name for each in path.parent.iterdir()] == ["a.gpkg"]


@pytest.mark.parametrize(
    ("content", "code", "words"),
    [
        ("<Document></Document>", "vector.kml", "a.kml has no placemarks"),
        ("<GroundOverlay><name>x</name></GroundOverlay>", "vector.kml", "no placemarks, only ground overlays"),
        ("<Document>", "vector.xml", "not valid XML: mismatched tag, at line 2"),
        ("<Folder>" * 200 + "</Folder>" * 200, "vector.xml", "nests elements over 100 deep"),
        ("&lol;", "vector.xml", "undefined entity"),
    ],
)
def test_kml_is_refused_with_a_reason(refuse: Refuse, tmp_path: Path, content: str, code: str, words: str) -> None:
    error = refuse(make_kml(tmp_path / "a.kml", content))
    assert (error.code, words in error.message) == (code, True), error.message


@pytest.mark.parametrize("name", ["a.kml", "a.gml"])
def test_s4_document_types_are_refused_before_any_entity(refuse: Refuse, tmp_path: Path, name: str) -> None:
    root = "kml" if name == "a.kml" else "FeatureCollection"
    entities = '<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;"><!ENTITY c SYSTEM "file:///etc/passwd">'
    text = f'<?xml version="1.0"?>\n<!DOCTYPE x [{entities}]>\n<{root}>&b;&c;</{root}>'
    for encoding in ("utf-8", "utf-16"):
        (tmp_path / name).write_bytes(text.replace("?>", f' encoding="{encoding}"?>').encode(encoding))
        error = refuse(tmp_path / name)
        assert (error.code, "document type declaration (DOCTYPE) at line 2" in error.message) == ("vector.xml", True)


def test_network_links_are_not_followed(layers: Open, tmp_path: Path) -> None:
    link = "<NetworkLink><Link><href>http://127.0.0.1:9/a.kml</href></Link></NetworkLink>"
    path = make_kml(tmp_path / "a.kml", f"<Document>{PLACEMARK.format('x')}{link}</Document>")
    (layer,) = layers(path)
    assert (len(read_all(layer).rows), "Network links are not followed" in layer.warnings[0]) == (1, True)


def test_folders_of_kml_are_layers_if_they_have_placemarks(layers: Open, tmp_path: Path) -> None:
    folders = "".join(f"<Folder><name>{n}</name>{PLACEMARK.format(n) * n}</Folder>" for n in range(3))
    path = make_kml(tmp_path / "a.kml", f"<Document><name>d</name>{folders}</Document>")
    found = {layer.name: len(read_all(layer).rows) for layer in layers(path)}
    assert found == {"1": 1, "2": 2}


def test_large_kml_is_refused(refuse: Refuse, tmp_path: Path) -> None:
    make_kml(tmp_path / "a.kml", f"<!--{'x' * 12_000_000}-->")
    error = refuse(tmp_path / "a.kml", VectorSettings(vector_memory_mb=256))
    assert (error.code, "KML of more than 10 MB" in error.message) == ("vector.too_large", True)


@pytest.mark.parametrize(
    ("geo", "words"),
    [
        (None, "it has no GeoParquet metadata"),
        ("{", "its GeoParquet metadata are wrong"),
        (json.dumps({"primary_column": "g", "columns": {"g": {}}}), "its primary column 'g' is not there"),
    ],
)
def test_parquet_without_geometries_is_refused(refuse: Refuse, tmp_path: Path, geo: str | None, words: str) -> None:
    table = pa.table({"n": [1]}).replace_schema_metadata({"geo": geo} if geo else None)
    pyarrow.parquet.write_table(table, tmp_path / "a.parquet")
    error = refuse(tmp_path / "a.parquet")
    assert (error.code, words in error.message) == ("vector.no_geometry", True), error.message


def test_too_many_columns_are_refused(refuse: Refuse, tmp_path: Path) -> None:
    columns = {f"c{n}": [n] for n in range(1_600)}
    frame = geopandas.GeoDataFrame(columns, geometry=[shapely.Point(1, 2)], crs=4326)
    for name in ("a.gpkg", "a.parquet"):
        error = refuse(write_frame(frame, tmp_path / name))
        assert (error.code, "1,600 columns, over the limit of 1,500" in error.message) == ("vector.columns", True)


POINTS = pa.array([[1.5, 2.5]], pa.list_(pa.float64(), 2))
PAIRS = pa.array([{"x": 1.5, "y": 2.5}])


@pytest.mark.parametrize(
    ("encoding", "column", "words"),
    [
        ("point", POINTS, "geometries of the encoding point are not pairs of x and y"),
        ("point", pa.array([{"x": 1.5}]), "geometries of the encoding point are not pairs of x and y"),
        ("linestring", PAIRS, "geometries of the encoding linestring are not lists"),
        ("polygon", pa.array([[PAIRS[0].as_py()]]), "geometries of the encoding polygon are not lists"),
        ("multipoint", pa.array([[[1.5, 2.5]]], pa.list_(pa.list_(pa.float64(), 2))), "not pairs of x and y"),
        ("circle", PAIRS, "geometries are encoded as circle"),
        ("WKB", pa.array([1.5]), "Unsupported cast"),
    ],
)
def test_geoparquet_of_another_structure_than_its_encoding_is_refused(
    refuse: Refuse, tmp_path: Path, encoding: str, column: pa.Array, words: str
) -> None:
    geo = json.dumps({"primary_column": "g", "columns": {"g": {"encoding": encoding}}})
    table = pa.table({"g": column, "n": [1]}).replace_schema_metadata({"geo": geo})
    pyarrow.parquet.write_table(table, tmp_path / "a.parquet")
    error = refuse(tmp_path / "a.parquet")
    assert (error.code, words in error.message) == ("vector.damaged", True), error.message


def test_a_projection_that_is_no_text_is_refused(refuse: Refuse, tmp_path: Path) -> None:
    """pyogrio itself fails at it."""
    path = zip_shapefile(tmp_path / "a.zip", make_frame(), leave_out=(".prj",))
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(
            "a.prj", b'GEOGCS["\xb1",DATUM["x",SPHEROID["y",6378137,298]],UNIT["Degree",0.0174532925199433]]'
        )
    assert refuse(path).code == "vector.damaged"


def test_a_flatgeobuf_without_a_layer_is_refused(refuse: Refuse, tmp_path: Path) -> None:
    path = write_frame(make_frame(), tmp_path / "a.fgb")
    whole = path.read_bytes()
    path.write_bytes(whole[:8] + bytes(8) + whole[16:])
    assert refuse(path).code in ("vector.damaged", "vector.no_geometry")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (KeyError("x"), "vector.library"),
        (TypeError("no list"), "vector.library"),
        (csv.Error("line contains NUL"), "vector.library"),
        (DataLayerError("no layer"), "vector.library"),
        (Permanent("ours", code="vector.csv", remedy="Fix it."), "vector.csv"),
    ],
)
def test_errors_of_libraries_have_the_name_of_the_file(error: Exception, code: str) -> None:
    def fail(source: Path) -> Converted:
        raise error

    with pytest.raises(Permanent) as caught:
        in_sandbox("Rewrite it.")(fail)(source=Path("/folder/a.csv"))
    assert caught.value.code == code
    if code == "vector.library":
        assert caught.value.message == f"a.csv can't be processed: {type(error).__name__}: {error}"


@pytest.mark.parametrize("error", [MemoryError(), OSError(28, "No space left on device")])
def test_errors_of_the_machine_are_none_of_the_file(error: Exception) -> None:
    def fail(source: Path) -> Converted:
        raise error

    with pytest.raises(type(error)):
        in_sandbox("Rewrite it.")(fail)(source=Path("/folder/a.csv"))
