"""Real files of Debian's packages: each is read exactly, or refused for the right reason."""

import csv
import gzip
import json
import os
import shutil
import warnings
import zipfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pyarrow as pa
import pyogrio
import pyproj
import pytest
import shapely

from anabranch.errors import Permanent
from anabranch.plugins.vector.convert import convert
from anabranch.plugins.vector.exports.copy_reader import read_rows
from anabranch.plugins.vector.models import CleanedTable, ColumnType, Family, LayerReport, ReadOptions
from anabranch.plugins.vector.settings import VectorSettings
from tests.support.stack import open_stack

ROOT = Path(os.environ.get("DEBIAN_DATA", "/"))  # where the packages are installed, or unpacked by `dpkg-deb -x`
LISTED = Path(__file__).parents[1] / "data" / "real_vectors.csv"
PARTS = frozenset({".shp", ".shx", ".dbf", ".prj", ".cpg", ".sbn", ".sbx"})
TOLERANCE_DEGREES = 1e-7
KML_FLAGS = ("extrude", "tessellate", "visibility")  # GDAL says -1 where a file says nothing
DIMENSIONS = {Family.POINT: 0, Family.LINE: 1, Family.POLYGON: 2}
# What changes the vertices of a row, by the report.
RESHAPED = frozenset({
    "antimeridian", "repaired", "rings_closed", "collection_flattened", "collection_parts_lost", "shifted",
    "curve made of lines", "surface made polygons", "vertices_added",
})  # fmt: skip


@dataclass(frozen=True)
class Real:
    """A file of a package, and what becomes of it: `layer rows/written`, or an error code."""

    package: str
    path: str
    crs: str
    outcome: str


def read_list() -> list[Real]:
    with LISTED.open(newline="") as file:
        return [Real(**row) for row in csv.DictReader(file)]


FILES = read_list()

MISSING = not any((ROOT / file.path).is_file() for file in FILES)
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(MISSING, reason=f"apt-get install {' '.join(sorted({file.package for file in FILES}))}"),
]


def stage(file: Real, folder: Path) -> Path:
    """The file as a person would send it: a Shapefile in an archive with its other parts."""
    path = ROOT / file.path
    if not path.is_file():
        pytest.skip(f"{path.name} is missing: apt-get install {file.package}")
    if path.suffix == ".gz":
        (folder / path.stem).write_bytes(gzip.decompress(path.read_bytes()))
        return folder / path.stem
    if path.suffix != ".shp":
        return Path(shutil.copy(path, folder))  # GDAL writes what it learns of a GML file beside it
    with zipfile.ZipFile(folder / f"{path.stem}.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for part in sorted(path.parent.iterdir()):
            if part.stem == path.stem and part.suffix.lower() in PARTS:
                archive.write(part, part.name)
    return folder / f"{path.stem}.zip"


@pytest.mark.parametrize("file", FILES, ids=[f"{file.path}{file.crs}" for file in FILES])
def test_v1_a_real_file_is_read_exactly_or_refused(file: Real, tmp_path: Path) -> None:
    source, folder = stage(file, tmp_path), tmp_path / "out"
    folder.mkdir()
    read = partial(convert, source, folder, ReadOptions(crs=file.crs or None), VectorSettings(), None, lambda *_: None)
    if file.outcome.startswith("vector."):
        with pytest.raises(Permanent) as refused:
            read()
        assert (refused.value.code, bool(refused.value.remedy)) == (file.outcome, True), refused.value.message
        return
    found = read()
    assert "; ".join(f"{each.layer} {each.rows}/{each.written}" for each in found.reports) == file.outcome
    for report in found.reports:
        assert report.rows == report.written + sum(count.count for count in report.dropped.values())
        path = ROOT / file.path if source.suffix == ".zip" else source
        check_layer(path, file.crs, report, [table for table in found.tables if table.layer == report.layer], folder)


def check_layer(path: Path, crs: str, report: LayerReport, tables: list[CleanedTable], folder: Path) -> None:
    """Compare what was written with what geopandas' reader gives of the same layer."""
    source, found = read_source(path, report)
    shapes = reproject(source["geometry"], crs or found)
    kept = ~(shapely.is_missing(shapes) | shapely.is_empty(shapes))
    lost = sum(count.count for what, count in report.dropped.items() if what not in ("null_geometry", "empty_geometry"))
    assert kept.sum() == report.written + lost, report.dropped
    differing = 0
    for table in tables:
        rows = [batch for path in sorted(folder.glob(f"{table.key}-*")) for batch in read_rows(path, table.columns)]
        written = pa.Table.from_batches(rows)
        mine = kept & (shapely.get_dimensions(shapes) == DIMENSIONS[table.family]) if len(tables) > 1 else kept
        if lost:
            continue  # which ones, only the first samples say
        check_attributes(source.filter(pa.array(mine)), written, table)
        differing += (~alike(shapes[mine], shapely.from_wkb(written["geom"].to_numpy()))).sum()
    assert differing <= sum(count.count for what, count in report.changed.items() if what in RESHAPED), report.changed


def check_attributes(source: pa.Table, written: pa.Table, table: CleanedTable) -> None:
    columns = [each for each in table.columns if source.column_names.count(each.source) == 1]
    assert len(columns) >= len(table.columns) - 2, "two may have the same name, like `fid`"
    for column in columns:
        read = json.loads if column.type is ColumnType.JSONB else plain
        found = [value if value is None else read(value) for value in written[column.name].to_pylist()]
        wanted = [plain(value) for value in source[column.source].to_pylist()]
        if column.source in KML_FLAGS:
            wanted = [None if value == -1 else value for value in wanted]
        assert found == wanted, column.source


def read_source(path: Path, report: LayerReport) -> tuple[pa.Table, str]:
    layer = report.layer if path.suffix in (".gpkg", ".kml", ".gml") else 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what GDAL corrects, and we report
        meta, table = pyogrio.read_arrow(
            path, layer=layer, encoding=report.detected.get("encoding"), datetime_as_string=False
        )
    return table.rename_columns([*table.column_names[:-1], "geometry"]), meta["crs"] or "EPSG:4326"


def plain(value: Any) -> Any:
    """A number is equal to itself in any type, and a time in any zone."""
    if isinstance(value, int | float):
        return None if value != value else value
    return str(value)[:19] if hasattr(value, "year") else value


def reproject(wkb: pa.ChunkedArray, crs: str) -> Any:
    shapes = shapely.force_2d(shapely.from_wkb(wkb.to_numpy(), on_invalid="fix"))
    transformer = pyproj.Transformer.from_crs(crs, "EPSG:4326", always_xy=True)
    return shapely.transform(shapes, lambda points: np.column_stack(transformer.transform(*points.T)))


def alike(first: Any, second: Any) -> Any:
    """Whether geometries have the same bounds, area, length and number of vertices, within the tolerance."""
    measures = (shapely.area, shapely.length, shapely.get_num_coordinates)
    near = np.isclose(shapely.bounds(first), shapely.bounds(second), atol=TOLERANCE_DEGREES, rtol=0).all(axis=1)
    return near & np.all([np.isclose(of(first), of(second), atol=TOLERANCE_DEGREES) for of in measures], axis=0)


PUBLISHED = (
    "nc.gpkg",
    "world.gpkg",
    "naturalearth_lowres.shp",
    "cycle_hire.geojson",
    "KML_Samples.kml.gz",
    "airports.gml",
)


@pytest.mark.postgres
async def test_v3_real_files_are_published_with_all_their_rows(catalog_url: str, tmp_path: Path) -> None:
    bronze = tmp_path / "bronze" / "in"
    bronze.mkdir(parents=True)
    chosen = {Path(file.path).name: file for file in FILES if not file.outcome.startswith("vector.")}
    async with open_stack(catalog_url, tmp_path, []) as stack:
        for name in PUBLISHED:
            source, given = stage(chosen[name], tmp_path), {"crs": chosen[name].crs} if chosen[name].crs else {}
            shutil.copy(source, bronze)
            job = await stack.run("process_vector", source=f"bronze://in/{source.name}", **given)
            assert job.job.error is None, job.job.error
            result: Any = job.job.result  # as the workflow's output says
            views = [output["href"] for output in result["outputs"] if output["kind"] == "table"]
            with psycopg.connect(catalog_url) as connection:
                shown = [connection.execute(f"select count(*) from {view}".encode()).fetchone() for view in views]
            written = [int(layer.rpartition("/")[2]) for layer in chosen[name].outcome.split("; ")]
            assert sum(rows for (rows,) in filter(None, shown)) == sum(written)
