"""Vector files in the sandbox: hostile ones read no other file, and are refused with a reason (S4, S7)."""

import json
import shutil
import sqlite3
import stat
import struct
import zipfile
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet
from structlog.testing import capture_logs

from anabranch.errors import Permanent
from anabranch.plugins.vector.models import ReadOptions
from anabranch.plugins.vector.reading.drivers import gdal_environment
from anabranch.plugins.vector.settings import VectorSettings
from anabranch.sandbox import Limits, Sandbox
from tests.support.vectors import KML, make_frame, make_geopackage, make_zip, write_frame, zip_shapefile

SECRET = "the-secret-that-nobody-may-read"
LIMITS = Limits(memory=2 * 2**30, cpu_seconds=60, file_bytes=64 * 2**20)
SETTINGS = VectorSettings(vector_memory_mb=256)
DEPTH = 20_000
POINT = struct.pack("<BIdd", 1, 1, 1.5, 2.25)
VRT = '<OGRVRTDataSource><OGRVRTLayer name="a"><SrcDataSource>{}</SrcDataSource></OGRVRTLayer></OGRVRTDataSource>'
BOMB = '<!ENTITY a0 "ha">' + "".join(f'<!ENTITY a{n} "{f"&a{n - 1};" * 10}">' for n in range(1, 12))
EXTERNAL = '<?xml version="1.0"?><!DOCTYPE kml [{}]><kml xmlns="http://www.opengis.net/kml/2.2"><Placemark>{}</Placemark></kml>'
PLACEMARK = "<Placemark><name>&x;</name><Point><coordinates>1,2</coordinates></Point></Placemark>"
Run = Callable[[Path], dict[str, Any]]  # what `convert` returns, as JSON


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    made = Sandbox("anabranch.plugins.vector.sandbox_functions", gdal_environment(SETTINGS.vector_memory_mb))
    yield made
    made.close()


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A file that the sandbox is not given, beside the one that it is."""
    path = tmp_path / "secret.csv"
    path.write_text(f"lat,lon,name\n1,2,{SECRET}\n")
    return path


@pytest.fixture
def run(sandbox: Sandbox, tmp_path: Path) -> Run:
    """Convert a file in the sandbox; neither the answer, nor an error, nor a written file has the secret."""

    def call(path: Path) -> dict[str, Any]:
        folder = tmp_path / "out"
        folder.mkdir()
        models = {"options": ReadOptions(), "settings": SETTINGS}
        given: dict[str, Any] = {"source": str(path), "folder": str(folder)}
        given |= {name: model.model_dump(mode="json") for name, model in models.items()}
        try:
            found: dict[str, Any] = sandbox.run("convert", given, limits=LIMITS, writes=[folder], reads=[path])
        finally:
            leaked = [each for each in folder.rglob("*") if each.is_file() and SECRET.encode() in each.read_bytes()]
            shutil.rmtree(folder)
            assert leaked == []
        assert SECRET not in json.dumps(found)
        return found

    return call


def refuse(run: Run, path: Path) -> Permanent:
    with pytest.raises(Permanent) as refused:
        run(path)
    assert SECRET not in f"{refused.value.message} {refused.value.remedy}"
    return refused.value


def nest(kind: int) -> bytes:
    return struct.pack("<BII", 1, kind, 1) * DEPTH + POINT


@pytest.mark.parametrize("name", ["a.gpkg", "a.fgb", "a.geojson", "a.gml", "a.parquet", "a.zip"])
def test_ts2_real_formats_need_no_call_that_is_refused(run: Run, tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    (zip_shapefile if name == "a.zip" else lambda path, frame: write_frame(frame, path))(path, make_frame("EPSG:3857"))
    with capture_logs() as logged:
        found = run(path)
    assert (logged, found["tables"][0]["rows"]) == ([], 3)


@pytest.mark.parametrize("suffix", ["geojson", "csv", "kml", "gpkg"])
def test_s4_a_file_that_names_another_reads_nothing(run: Run, tmp_path: Path, secret: Path, suffix: str) -> None:
    algorithm = {"type": "gdal_streamed_alg", "command_line": f"gdal vector pipeline ! read {secret}"}
    for place, text in enumerate((VRT.format(secret), json.dumps(algorithm))):
        path = tmp_path / f"{place}.{suffix}"
        path.write_text(text)
        assert refuse(run, path).code in ("vector.mismatch", "vector.geojson")


def test_s4_views_and_triggers_of_a_geopackage_reach_no_other_file(run: Run, tmp_path: Path, secret: Path) -> None:
    spies = (
        f"readfile('{secret}')", f"load_extension('{secret}')", f"gdal_get_pixel_value('{secret}', 1, 'georef', 1, 1)",
    )  # fmt: skip
    for place, spy in enumerate(spies):
        path = make_geopackage(tmp_path / f"{place}.gpkg", [
            f"create view spy as select 1 as fid, geom, {spy} as name from places",
            "insert into gpkg_contents (table_name, data_type, srs_id) values ('spy', 'features', 4326)",
            "insert into gpkg_geometry_columns values ('spy', 'geom', 'POINT', 4326, 0, 0)",
        ])  # fmt: skip
        with suppress(Permanent):  # or null
            run(path)
    path = make_geopackage(tmp_path / "trigger.gpkg", [
        f"create table paths as select '{secret}' as path",
        "create trigger spy after update on places begin select load_extension(path) from paths; end",
    ])  # fmt: skip
    assert run(path)["tables"][0]["rows"] == 3


@pytest.mark.parametrize(("kind", "what"), [(7, "nested too deep"), (9, "CompoundCurve"), (12, "MultiSurface")])
@pytest.mark.parametrize("suffix", ["gpkg", "parquet"])
def test_s7_geometries_without_end_are_dropped(run: Run, tmp_path: Path, suffix: str, kind: int, what: str) -> None:
    path = tmp_path / f"a.{suffix}"
    if suffix == "gpkg":
        make_geopackage(path, [])
        with closing(sqlite3.connect(path)) as database, database:
            for (name,) in database.execute("select name from sqlite_schema where type = 'trigger'").fetchall():
                database.execute(f'drop trigger "{name}"')
            database.execute("update places set geom = ? where fid = 2", [b"GP\0\1" + bytes(4) + nest(kind)])
    else:
        write_frame(make_frame(), path)
        table = parquet.read_table(path)
        shapes = pa.array([POINT, nest(kind), POINT], pa.binary())
        parquet.write_table(table.set_column(table.schema.get_field_index("geometry"), "geometry", shapes)
                            .replace_schema_metadata(table.schema.metadata), path)  # fmt: skip
    (report,) = run(path)["reports"]
    assert report["dropped"] == {"unreadable_geometry": {"count": 1, "samples": [{"row": 2, "what": what}]}}


def make_bomb(path: Path) -> Path:
    """70 MB of zeros in 70 kB."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("a.geojson", "w") as file:
        for _ in range(70):
            file.write(bytes(2**20))
    return path


def make_linked(path: Path, secret: Path) -> Path:
    """A Shapefile whose table is a symbolic link."""
    zip_shapefile(path, make_frame(), leave_out=(".dbf",))
    link = zipfile.ZipInfo(f"{path.stem}.dbf")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(link, str(secret))
    return path


def write_text(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


Make = Callable[[Path, Path], Path]  # a folder, and the secret's path
HOSTILE: dict[str, tuple[Make, str, str]] = {
    "link": (lambda to, secret: make_linked(to / "a.zip", secret), "vector.archive", "a.dbf"),
    "zip bomb": (lambda to, _: make_bomb(to / "a.zip"), "vector.archive", "a.zip"),
    "path out of the archive": (
        lambda to, _: make_zip(to / "a.zip", {"../../secret.geojson": b"{}"}), "vector.archive", "a.zip",
    ),
    "entity bomb": (
        lambda to, _: write_text(to / "a.kml", EXTERNAL.format(BOMB, "<name>&a11;</name>")), "vector.xml", "DOCTYPE",
    ),
    "external entity": (
        lambda to, secret: write_text(to / "a.kml", EXTERNAL.format(f'<!ENTITY x SYSTEM "{secret}">', PLACEMARK)),
        "vector.xml", "DOCTYPE",
    ),
    "deep JSON": (lambda to, _: write_text(to / "a.geojson", "[" * 10**6), "vector.json", "nested over"),
    "deep WKT": (
        lambda to, _: write_text(to / "a.csv", f'wkt;n\n{"COMPOUNDCURVE(" * DEPTH};1'), "vector.bad_rows", "a curve",
    ),
    "deep WKB in text": (
        lambda to, _: write_text(to / "a.csv", f"wkt;n\n{nest(7).hex()};1"), "vector.bad_rows", "not wkt",
    ),
    "deep elements": (
        lambda to, _: write_text(to / "a.kml", KML.format("<Folder>" * DEPTH)), "vector.xml", "over 100 deep",
    ),
    "huge numbers": (
        lambda to, _: write_text(to / "a.geojson", json.dumps({"type": "Point", "coordinates": [1e308, -1e308]})),
        "vector.coordinates", "not on Earth",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_s4_s7_hostile_files_are_refused_with_the_reason(run: Run, tmp_path: Path, secret: Path, name: str) -> None:
    make, code, words = HOSTILE[name]
    error = refuse(run, make(tmp_path, secret))
    assert (error.code, words in error.message) == (code, True), error.message
