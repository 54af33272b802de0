"""Files that name others, and the environment that the sandbox gives to GDAL (S4)."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from anabranch.plugins.vector.reading.drivers import ALLOWED, gdal_environment
from tests.support.vectors import KML, make_frame, make_geopackage, make_zip, write_frame

SECRET = "the-secret-that-nobody-may-read"
VRT = (
    '<OGRVRTDataSource><OGRVRTLayer name="secret"><SrcDataSource>{}</SrcDataSource>'
    '<GeometryType>wkbPoint</GeometryType><GeometryField encoding="PointFromColumns" x="lon" y="lat"/>'
    "</OGRVRTLayer></OGRVRTDataSource>"
)
WFS = "<OGRWFSDataSource><URL>http://127.0.0.1:9/wfs</URL></OGRWFSDataSource>"
OAPIF = '{"links": [{"rel": "data", "href": "http://127.0.0.1:9/collections"}], "title": "x"}'
SPY = "gdal_get_pixel_value('/etc/passwd', 1, 'georef', 1, 1)"
READ = """
import sys
from pathlib import Path
from anabranch.errors import Permanent
from anabranch.plugins.vector.models import Notes, ReadOptions
from anabranch.plugins.vector.reading.ogr import check_drivers
from anabranch.plugins.vector.reading.open_layers import open_layers
from anabranch.plugins.vector.settings import VectorSettings

check_drivers()
for path in map(Path, sys.argv[2:]):
    try:
        layers = open_layers(path, Path(sys.argv[1]) / path.name, ReadOptions(), VectorSettings())
        rows = [row for layer in layers for batch in layer.read(9, Notes()) for row in batch.attributes.to_pylist()]
        print(path.name, "read", [layer.name for layer in layers], rows)
    except Permanent as error:
        print(path.name, error.code, error.message, error.remedy)
"""


def read(folder: Path, paths: list[Path]) -> dict[str, str]:
    """What a process with the sandbox's environment prints of each file; it must print nothing else."""
    program = [sys.executable, "-c", READ, str(folder), *map(str, paths)]
    environment = {**gdal_environment(256), "PATH": os.environ["PATH"]}
    done = subprocess.run(program, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert SECRET not in done.stdout
    return dict(line.split(" ", 1) for line in done.stdout.splitlines())


def test_s4_files_that_name_others_open_nothing(tmp_path: Path) -> None:
    secret = tmp_path / "secret.csv"
    secret.write_text(f"lat,lon,name\n1,2,{SECRET}\n")
    vrt = VRT.format(secret)
    pipeline = json.dumps({"type": "gdal_streamed_alg", "command_line": f"gdal vector pipeline ! read {secret}"})
    files: dict[str, str] = {
        **{f"vrt.{suffix}": vrt for suffix in ("geojson", "shp", "gpkg", "csv", "kml", "gml", "json", "txt")},
        **{f"alg.{suffix}": pipeline for suffix in ("geojson", "json", "csv", "gpkg")},
        "wfs.gml": WFS,
        "wfs.xml": WFS,
        "wfs.kml": WFS,
        "oapif.json": OAPIF,
        "oapif.geojson": OAPIF,
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    inside = make_zip(tmp_path / "inside.zip", {"a.shp": vrt.encode(), "a.dbf": b"x", "a.shx": b"x"})
    other = make_zip(tmp_path / "other.zip", {"a.geojson": vrt.encode()})
    package = make_geopackage(
        tmp_path / "view.gpkg",
        [
            f"create view spy as select 1 as fid, geom, {SPY} as name from places",
            "insert into gpkg_contents (table_name, data_type, srs_id) values ('spy', 'features', 4326)",
            "insert into gpkg_geometry_columns values ('spy', 'geom', 'POINT', 4326, 0, 0)",
        ],
    )
    found = read(tmp_path / "out", [*(tmp_path / name for name in files), inside, other, package])
    assert {name for name, said in found.items() if said.startswith("read")} <= {"view.gpkg"}
    assert "read" not in found["view.gpkg"][:4] or "'name': None" in found["view.gpkg"], found["view.gpkg"]
    assert found["inside.zip"].startswith("vector.damaged a.shp in inside.zip is no Shapefile")
    assert found["other.zip"].startswith("vector.mismatch a.geojson is an XML file of another kind")
    assert found["alg.geojson"].startswith("vector.geojson alg.geojson is valid JSON, but not GeoJSON")


def test_s4_gml_reads_no_schema_and_writes_nothing(tmp_path: Path) -> None:
    write_frame(make_frame(), tmp_path / "a.gml")
    secret = tmp_path / "secret.xsd"
    secret.write_text(f'<schema xmlns="http://www.w3.org/2001/XMLSchema"><!-- {SECRET} --></schema>')
    text = (tmp_path / "a.gml").read_text().replace("a.xsd", f"file://{secret} http://x http://127.0.0.1:9/x.xsd")
    (tmp_path / "a.xsd").unlink()
    (tmp_path / "a.gml").write_text(text)
    before = sorted(tmp_path.iterdir())
    assert "Zürich" in read(tmp_path / "out", [tmp_path / "a.gml"])["a.gml"]
    assert sorted(tmp_path.iterdir()) == before


def test_every_allowed_driver_works_in_that_environment(tmp_path: Path) -> None:
    """No other is loaded: `check_drivers` runs in the same process."""
    frame = make_frame()[["name", "geometry"]]
    paths = [write_frame(frame, tmp_path / f"a.{suffix}") for suffix in ("gpkg", "fgb", "geojson", "geojsonl", "gml")]
    write_frame(frame, tmp_path / "a.gdb")
    write_frame(frame, tmp_path / "b.shp")
    parts = {f"a.gdb/{part.name}": part for part in (tmp_path / "a.gdb").iterdir()}
    paths.append(make_zip(tmp_path / "gdb.zip", parts))
    paths.append(make_zip(tmp_path / "shp.zip", {part.name: part for part in tmp_path.glob("b.*")}))
    paths.append(tmp_path / "a.kml")
    placemark = "<Placemark><name>Zürich</name><Point><coordinates>1,2</coordinates></Point></Placemark>"
    paths[-1].write_text(KML.format(placemark))
    paths.append(tmp_path / "a.topojson")
    shape = {"type": "Point", "coordinates": [0, 0], "properties": {"name": "Zürich"}}
    topology = {"type": "Topology", "objects": {"a": {"type": "GeometryCollection", "geometries": [shape]}}, "arcs": []}
    paths[-1].write_text(json.dumps(topology))
    found = read(tmp_path / "out", paths)
    assert [name for name, said in found.items() if not said.startswith("read") or "Zürich" not in said] == []
    assert len(found) == len(ALLOWED) - 1  # all but MEM


def test_drivers_that_are_not_allowed_are_reported() -> None:
    program = [sys.executable, "-c", "from anabranch.plugins.vector.reading.ogr import check_drivers; check_drivers()"]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    assert "has loaded drivers that are not allowed: " in done.stderr


@pytest.mark.parametrize("memory", [256, 1024])
def test_the_environment_bounds_batches(memory: int) -> None:
    assert int(gdal_environment(memory)["OGR_ARROW_MEM_LIMIT"]) == memory * 2**20 // 8
