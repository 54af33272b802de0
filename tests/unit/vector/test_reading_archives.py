"""ZIP archives, and the Shapefiles and other files in them."""

import random
import stat
import struct
import zipfile
from pathlib import Path

import geopandas
import pytest
import shapely

from anabranch.plugins.vector.reading.xml_scan import find_links
from anabranch.plugins.vector.settings import VectorSettings
from tests.support.source_layers import read_all
from tests.support.vectors import (
    KML,
    feature,
    make_collection,
    make_frame,
    make_kml,
    make_zip,
    write_frame,
    zip_shapefile,
)
from tests.unit.vector.conftest import Open, Refuse


def text_frame(*names: str) -> geopandas.GeoDataFrame:
    return geopandas.GeoDataFrame({"name": names}, geometry=[shapely.Point(1, 2)] * len(names), crs="EPSG:4326")


def test_several_shapefiles_are_several_layers(layers: Open, refuse: Refuse, tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    for inside in ("roads", "north/towns", "south/towns"):
        zip_shapefile(path, text_frame(inside), inside=inside)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("__MACOSX/._roads.shp", b"x")
        archive.writestr(".DS_Store", b"x")
        archive.writestr("readme.txt", b"x")
    assert [layer.name for layer in layers(path)] == ["roads", "north/towns", "south/towns"]
    (layer,) = layers(path, layer="south/towns")
    assert read_all(layer).attributes == [{"name": "south/towns"}]
    error = refuse(path, layer="rivers")
    assert error.code == "vector.layer"
    assert "a.zip has no layer 'rivers': it has roads, north/towns, south/towns" in error.message


def test_names_of_parts_may_differ_in_case(layers: Open, tmp_path: Path) -> None:
    zip_shapefile(tmp_path / "a.zip", text_frame("x"))
    with zipfile.ZipFile(tmp_path / "a.zip") as archive:
        members = {f"A{name[1:].upper()}": archive.read(name) for name in archive.namelist()}
    (layer,) = layers(make_zip(tmp_path / "b.zip", members))
    assert (layer.crs, read_all(layer).attributes) == ("EPSG:4326", [{"name": "x"}])


def test_a_shapefile_without_prj_has_no_crs(layers: Open, tmp_path: Path) -> None:
    (layer,) = layers(zip_shapefile(tmp_path / "a.zip", text_frame("x"), leave_out=(".prj",)))
    assert layer.crs is None


def test_a_missing_index_is_rebuilt(layers: Open, tmp_path: Path) -> None:
    (layer,) = layers(zip_shapefile(tmp_path / "a.zip", make_frame(), leave_out=(".shx",)))
    content = read_all(layer)
    assert content.geometry == make_frame().geometry.to_wkb().tolist()
    assert [row["count"] for row in content.attributes] == [1, 2**60 + 1, -3]
    assert layer.warnings == ("The Shapefile a has no .shx file: it was rebuilt from the .shp file.",)


def test_an_index_says_where_the_records_are(layers: Open, tmp_path: Path) -> None:
    """Programs that edit a Shapefile leave the old record where it was, and write the new one at the end."""
    path = zip_shapefile(tmp_path / "a.zip", text_frame("a", "b"))
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    shapes, index = bytearray(parts["a.shp"]), bytearray(parts["a.shx"])
    struct.pack_into(">i", index, 100, len(shapes) // 2)
    shapes += struct.pack(">ii", 1, 10) + struct.pack("<idd", 1, 5.5, 6.5)
    struct.pack_into(">i", shapes, 24, len(shapes) // 2)
    shapes[100:108] = b"\xff" * 8  # of the old record
    (layer,) = layers(make_zip(tmp_path / "b.zip", {**parts, "a.shp": bytes(shapes), "a.shx": bytes(index)}))
    assert read_all(layer).shapes == ["POINT (5.5 6.5)", "POINT (1 2)"]


def test_a_missing_table_is_refused(refuse: Refuse, tmp_path: Path) -> None:
    error = refuse(zip_shapefile(tmp_path / "a.zip", make_frame(), leave_out=(".dbf",)))
    assert (error.code, error.message) == (
        "vector.shapefile",
        "the .dbf file of a.shp in a.zip is missing, which has its attributes",
    )
    error = refuse(zip_shapefile(tmp_path / "b.zip", make_frame(), leave_out=(".shp",)))
    assert "b.zip holds parts of a Shapefile, but no .shp file" in error.message


@pytest.mark.parametrize(
    ("part", "words"), [(".shp", "is cut off"), (".dbf", "is cut off"), (".shx", "has 2 geometries")]
)
def test_cut_off_parts_are_refused(refuse: Refuse, tmp_path: Path, part: str, words: str) -> None:
    zip_shapefile(tmp_path / "a.zip", make_frame())
    with zipfile.ZipFile(tmp_path / "a.zip") as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    members[f"a{part}"] = members[f"a{part}"][:-8]
    error = refuse(make_zip(tmp_path / "b.zip", members))
    assert (error.code, words in error.message) == ("vector.damaged", True), error.message


@pytest.mark.parametrize(
    ("encoding", "cpg", "options", "found"),
    [
        ("CP1252", "CP1252", {}, ("cp1252", "cpg file")),
        ("CP1252", "ANSI 1252", {}, ("cp1252", "cpg file")),
        ("CP1252", "", {}, ("cp1252", "bytes")),
        ("UTF-8", "", {}, ("utf-8", "bytes")),
        ("UTF-8", "nonsense", {}, ("utf-8", "bytes")),
        ("CP1252", "UTF-8", {}, ("cp1252", "bytes")),
        ("latin-1", "", {}, ("iso8859-1", "bytes")),
        ("CP1251", "", {"encoding": "cp1251"}, ("cp1251", "caller")),
        ("CP1251", "1251", {}, ("cp1251", "cpg file")),
    ],
)
def test_the_encoding_of_a_table_is_found(
    layers: Open, tmp_path: Path, encoding: str, cpg: str, options: dict[str, str], found: tuple[str, str]
) -> None:
    name = {"CP1251": "Жук", "latin-1": "\x81b"}.get(encoding, "Zürich")
    zip_shapefile(tmp_path / "a.zip", text_frame("ABCDEFGH", "plain"), leave_out=(".cpg",))
    with zipfile.ZipFile(tmp_path / "a.zip") as archive:
        members = {each: archive.read(each) for each in archive.namelist()}
    table = bytearray(members["a.dbf"].replace(b"ABCDEFGH", name.encode(encoding).ljust(8)))
    table[29] = 0  # GDAL notes the code page in the header, too
    members |= {"a.dbf": bytes(table)} | ({"a.cpg": cpg.encode()} if cpg else {})
    (layer,) = layers(make_zip(tmp_path / "b.zip", members), **options)
    assert [row["name"] for row in read_all(layer).attributes] == [name, "plain"]
    assert (layer.detected["encoding"], layer.detected["encoding found by"]) == found
    said = " ".join(layer.warnings)
    guessed = found in (("cp1252", "bytes"), ("iso8859-1", "bytes"))
    assert guessed == (f"{found[0]} was guessed" in said) == ("set `encoding`" in said)
    assert ("control characters" in said) == (encoding == "latin-1")
    assert ("The .cpg file of the layer a says utf-8" in said) == (cpg == "UTF-8")


@pytest.mark.parametrize(("written", "warns"), [("UTF-8", True), ("CP1252", False), ("ascii", False)])
def test_texts_in_utf8_contradict_a_cpg_file(layers: Open, tmp_path: Path, written: str, warns: bool) -> None:
    zip_shapefile(tmp_path / "a.zip", text_frame("ABCDEFGH", "plain"), leave_out=(".cpg",))
    with zipfile.ZipFile(tmp_path / "a.zip") as archive:
        members = {each: archive.read(each) for each in archive.namelist()}
    name = "Zurich" if written == "ascii" else "Zürich"
    members |= {"a.dbf": members["a.dbf"].replace(b"ABCDEFGH", name.encode(written).ljust(8)), "a.cpg": b"1252"}
    (layer,) = layers(make_zip(tmp_path / "b.zip", members))
    assert any("says cp1252, but its texts look like UTF-8" in line for line in layer.warnings) == warns


def test_one_other_file_in_an_archive_is_read(layers: Open, refuse: Refuse, tmp_path: Path) -> None:
    package = write_frame(make_frame(), tmp_path / "a.gpkg", "places")
    (layer,) = layers(make_zip(tmp_path / "a.zip", {"data/a.gpkg": package, "data/readme.txt": b"x"}))
    assert (layer.format, layer.name) == ("GeoPackage", "places")
    both = make_zip(tmp_path / "b.zip", {"a.gpkg": package, "b.geojson": make_collection(tmp_path / "b", [feature()])})
    assert "b.zip holds 2 files: a.gpkg, b.geojson" in refuse(both).message


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ({}, "holds no vector file: it has nothing"),
        ({"a.png": b"\x89PNG"}, "holds no vector file: it has a.png"),
        ({"../a.shp": b"x"}, "unsafe name"),
        ({"/etc/a.shp": b"x"}, "unsafe name"),
        ({"a\\b.shp": b"x"}, "unsafe name"),
        ({"a\x1b[2J.shp": b"x"}, "unsafe name"),
        ({"a.geojson": b"{}", "A.geojson": b"{}"}, "twice"),
        ({"inner.bin": b"PK\x03\x04", "a.shp": b"x"}, "archives in archives are not opened"),
        ({f"{n}.txt": b"" for n in range(30)}, "has 30 files, over the limit of 20"),
    ],
)
def test_archives_are_refused_with_a_reason(
    refuse: Refuse, tmp_path: Path, members: dict[str, bytes], words: str
) -> None:
    error = refuse(make_zip(tmp_path / "a.zip", members), VectorSettings(vector_archive_files=20))
    assert "a.zip" in error.message
    assert (error.code, words in error.message) == ("vector.archive", True), error.message


def test_links_passwords_and_bombs_are_refused(refuse: Refuse, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "link.zip", "w") as archive:
        link = zipfile.ZipInfo("a.shp")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(link, "/etc/passwd")
    error = refuse(tmp_path / "link.zip")
    assert (error.code, "a.shp in link.zip is a link or a special file" in error.message) == ("vector.archive", True)
    locked = bytearray(make_zip(tmp_path / "locked.zip", {"a.shp": b"x"}).read_bytes())
    for mark, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        locked[locked.index(mark) + place] |= 1
    (tmp_path / "locked.zip").write_bytes(locked)
    error = refuse(tmp_path / "locked.zip")
    assert (error.code, "is protected by a password" in error.message) == ("vector.archive", True)
    bomb = make_zip(tmp_path / "bomb.zip", {"a.geojson": bytes(65 * 2**20)})
    assert "times larger than packed, over the limit of 100" in refuse(bomb).message
    small = VectorSettings(vector_max_mb=1, vector_archive_ratio=10_000)
    large = refuse(make_zip(tmp_path / "large.zip", {"a.geojson": bytes(2**21)}), small)
    assert (large.code, "over the limit of 1" in large.message) == ("vector.archive", True)


def test_damaged_archives_and_others_are_refused(refuse: Refuse, tmp_path: Path) -> None:
    (tmp_path / "a.zip").write_bytes(b"PK\x03\x04" + b"x" * 100)
    assert "a.zip is a damaged ZIP archive" in refuse(tmp_path / "a.zip").message
    (tmp_path / "b.zip").write_bytes(b"no archive")
    error = refuse(tmp_path / "b.zip")
    assert (error.code, "its extension .zip is that of a ZIP archive" in error.message) == ("vector.mismatch", True)
    (tmp_path / "c.zip").write_bytes(b"\x1f\x8b")
    assert "c.zip is a gzip archive" in refuse(tmp_path / "c.zip").message


def test_a_kmz_without_kml_is_refused(refuse: Refuse, tmp_path: Path) -> None:
    assert "holds no KML file: it has a.png" in refuse(make_zip(tmp_path / "a.kmz", {"a.png": b"x"})).message
    kml = make_kml(tmp_path / "x", "<NetworkLink><Link><href>http://127.0.0.1:9</href></Link></NetworkLink>")
    error = refuse(make_zip(tmp_path / "b.kmz", {"doc.kml": kml}))
    assert (error.code, error.message) == ("vector.kml", "doc.kml has no placemarks, only network links")


@pytest.mark.parametrize(
    ("held", "names", "unused"),
    [
        (["a.gdb", "b.gpkg"], ["places"], "b.gpkg"),
        (["a.gdb", "b.shp"], ["b"], "a.gdb"),
        (["a.gdb", "b.shp", "c.geojson", "d.kmz"], ["b"], "a.gdb, c.geojson, d.kmz"),
        (["b.shp", "c.json", "e.tab"], ["b"], "c.json, e.tab"),
        (["b.shp", "table.dbf"], ["b"], "table.dbf"),
        (["a.gdb", "table.dbf"], ["places"], "table.dbf"),
        (["b.gpkg", "table.dbf", "c.json"], ["places"], "c.json, table.dbf"),
        (["b.shp", "readme.txt", "b.shp.xml"], ["b"], ""),
    ],
    ids=str,
)
def test_v1_what_an_archive_holds_beside_its_layers_is_reported(
    layers: Open, tmp_path: Path, held: list[str], names: list[str], unused: str
) -> None:
    folder = write_frame(make_frame(), tmp_path / "a.gdb", "places")
    files: dict[str, dict[str, bytes | Path]] = {
        "a.gdb": {f"a.gdb/{part.name}": part for part in folder.iterdir()},
        "b.gpkg": {"b.gpkg": write_frame(make_frame(), tmp_path / "b.gpkg", "places")},
        "b.shp": read_zip(zip_shapefile(tmp_path / "shapefile.zip", make_frame(), inside="b")),
        "table.dbf": {"table.dbf": b"\x03"},
    }
    members: dict[str, bytes | Path] = {}
    for each in held:
        members |= files.get(each, {each: b"{}"})
    found = layers(make_zip(tmp_path / "a.zip", members))
    assert [layer.name for layer in found] == names
    notices = [f"These files of the archive are not published: {unused}."] if unused else []
    assert [text for text in found[0].warnings if "archive" in text] == notices


def read_zip(path: Path) -> dict[str, bytes | Path]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_v1_other_files_of_a_kmz_are_reported(layers: Open, tmp_path: Path) -> None:
    kml = make_kml(tmp_path / "x", "<Placemark><Point><coordinates>1,2</coordinates></Point></Placemark>")
    members: dict[str, bytes | Path] = {"doc.kml": kml, "files/b.kml": kml, "files/c.png": b"x", "d.geojson": b"{}"}
    (layer,) = layers(make_zip(tmp_path / "a.kmz", members))
    assert layer.warnings == ("These files of the archive are not published: d.geojson, files/b.kml.",)


def test_a_member_of_any_name_is_read(layers: Open, tmp_path: Path) -> None:
    written = write_frame(text_frame("x"), tmp_path / "a.gpkg")
    (layer,) = layers(make_zip(tmp_path / "b.zip", {"a;b!c?%41.gpkg": written.read_bytes()}))
    assert read_all(layer).attributes == [{"name": "x"}]


def test_s4_linked_files_of_the_same_kmz_are_read_and_no_others(layers: Open, refuse: Refuse, tmp_path: Path) -> None:
    """GDAL writes a KMZ archive with a file for each layer, and one of links to them."""
    mark = "<Placemark><name>{}</name><Point><coordinates>1,2</coordinates></Point></Placemark>"
    for name in ("a", "b", "outside"):
        make_kml(tmp_path / f"{name}.kml", f"<Document>{mark.format(name)}</Document>")
    hrefs = ("layers/a.kml", "./layers/b.kml", "layers/a.kml", "../outside.kml", "/outside.kml", "http://127.0.0.1:9/a.kml",
             str(tmp_path / "outside.kml"))  # fmt: skip
    links = "".join(f"<NetworkLink><Link><href> {href} </href></Link></NetworkLink>" for href in hrefs)
    main = make_kml(tmp_path / "main.kml", f"<Document>{links}</Document>")
    members = {"doc.kml": main, "layers/a.kml": tmp_path / "a.kml", "layers/b.kml": tmp_path / "b.kml"}
    found = layers(make_zip(tmp_path / "a.kmz", members))
    assert [(layer.name, read_all(layer).attributes[0]["Name"]) for layer in found] == [("a", "a"), ("b", "b")]
    assert "followed to files of the archive only" in found[0].warnings[0]
    (chosen,) = layers(tmp_path / "a.kmz", layer="b")
    assert chosen.name == "b"
    assert refuse(tmp_path / "a.kmz", layer="x").code == "vector.layer"
    only_links = refuse(make_zip(tmp_path / "b.kmz", {"doc.kml": main, "c.kml": tmp_path / "outside.kml"}))
    assert (only_links.code, "only network links" in only_links.message) == ("vector.kml", True)
    (tmp_path / "bomb.kml").write_text('<!DOCTYPE kml [<!ENTITY a "aaaa">]>' + KML.format(links).partition("?>")[2])
    bomb = refuse(make_zip(tmp_path / "c.kmz", {**members, "doc.kml": tmp_path / "bomb.kml"}))
    assert "DOCTYPE" in bomb.message
    fake = make_zip(tmp_path / "d.kmz", {**members, "layers/a.kml": b'{"type": "FeatureCollection", "features": []}'})
    assert refuse(fake).code == "vector.mismatch"


def test_linked_files_are_bounded_together_and_one_stays_open(layers: Open, refuse: Refuse, tmp_path: Path) -> None:
    """Each is read whole, and what stays open is in memory."""
    mark = "<Placemark><Point><coordinates>1,2</coordinates></Point></Placemark>"
    content = make_kml(
        tmp_path / "a.kml", f"<Document>{mark}<!--{random.Random(1).randbytes(3 * 2**19).hex()}--></Document>"
    )
    links = "".join(f"<NetworkLink><Link><href>{n}.kml</href></Link></NetworkLink>" for n in range(4))
    main = make_kml(tmp_path / "main.kml", f"<Document>{links}</Document>")
    path = make_zip(tmp_path / "a.kmz", {"doc.kml": main, **{f"{n}.kml": content for n in range(4)}})
    error = refuse(path, VectorSettings(vector_memory_mb=256))
    assert (error.code, "a.kmz is KML of more than 10 MB" in error.message) == ("vector.too_large", True), error.message
    found = layers(path)
    assert [layer.read._stream is not None for layer in found] == [True, False, False, False]  # type: ignore[attr-defined]  # of the reader
    assert [len(read_all(layer).rows) for layer in found] == [1] * 4


def test_s4_links_are_not_looked_for_in_a_file_that_is_too_deep(tmp_path: Path) -> None:
    deep = "<a>" * 200 + "<NetworkLink><href>b.kml</href></NetworkLink>" + "</a>" * 200
    assert find_links(make_kml(tmp_path / "a.kml", deep)) == []
    assert find_links(make_kml(tmp_path / "b.kml", deep.replace("<a>", "").replace("</a>", ""))) == ["b.kml"]


def test_r1_a_prj_file_that_is_no_crs_is_named(layers: Open, tmp_path: Path) -> None:
    zip_shapefile(tmp_path / "a.zip", text_frame("plain"), leave_out=(".prj",))
    assert not layers(tmp_path / "a.zip")[0].warnings
    with zipfile.ZipFile(tmp_path / "a.zip", "a") as archive:
        archive.writestr("a.prj", "hello")
    (layer,) = layers(tmp_path / "a.zip")
    assert (layer.crs, layer.no_crs) == (None, "its .prj file can't be read")
    assert "The .prj file of the layer a can't be read, so that the CRS is unknown." in layer.warnings
