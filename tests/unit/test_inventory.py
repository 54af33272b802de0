"""The inventory of a container: what files are, which belong together, and their totals."""

import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from anabranch.errors import NotFound
from anabranch.plugins.storage.handlers import File, ListParams, list_files
from anabranch.plugins.storage.inventory import AnalyseParams, TotalParams, analyse_files, total_inventory
from anabranch.plugins.storage.kinds import Kind, choose_main, classify, sidecar_suffix
from anabranch.plugins.storage.tally import Inventory
from anabranch.testing import FakeContext

TIFF, ZIP, SQLITE, SHAPES = b"II*\0rest", b"PK\3\4rest", b"SQLite format 3\0", b"\0\0\x27\x0arest"
TAR = b"name".ljust(257, b"\0") + b"ustar\0"
MB = 2**20


@pytest.mark.parametrize(
    ("name", "head", "kind"),
    [
        ("a.tif", TIFF, Kind.RASTER),
        ("a.TIFF", b"MM\0+rest", Kind.RASTER),
        ("a", TIFF, Kind.RASTER),
        ("a.nc", b"\x89HDF\r\n", Kind.RASTER),
        ("a.asc", b"ncols 4\nnrows 4\n", Kind.RASTER),
        ("a.mbtiles", SQLITE, Kind.RASTER),
        ("a.gpkg", SQLITE, Kind.VECTOR),
        ("a.shp", SHAPES, Kind.VECTOR),
        ("a.parquet", b"PAR1rest", Kind.VECTOR),
        ("a.geojson", b'{"type": "FeatureCollection"', Kind.VECTOR),
        ("a.json", b'{"type": "Feature", "geometry"', Kind.VECTOR),
        ("a.json", b'{"type": "Catalog"', Kind.OTHER),
        ("a.csv", b"lat,lon\n", Kind.VECTOR),
        ("a.kmz", ZIP, Kind.VECTOR),
        ("a.zip", ZIP, Kind.ARCHIVE),
        ("a.tar", TAR, Kind.ARCHIVE),
        ("readme.txt", b"hello", Kind.OTHER),
    ],
)
def test_a_file_is_classified_by_its_first_bytes_and_its_name(name: str, head: bytes, kind: Kind) -> None:
    assert classify(name, head) == (kind, "")


@pytest.mark.parametrize(
    ("name", "head", "kind", "note"),
    [
        ("a.tif", b"<VRTDataset", Kind.OTHER, "the extension .tif is that of a raster, and the content is of another"),
        ("a.tif", ZIP, Kind.ARCHIVE, "and the content is archive"),
        ("a.gpkg", TIFF, Kind.RASTER, "the extension .gpkg is that of a vector, and the content is raster"),
    ],
)
def test_a_name_that_says_something_else_is_noted(name: str, head: bytes, kind: Kind, note: str) -> None:
    found = classify(name, head)
    assert found.kind is kind
    assert note in found.note


@pytest.mark.parametrize(
    ("name", "suffix"),
    [("a.tfw", ".tfw"), ("a.tif.aux.xml", ".aux.xml"), ("a.TIF.OVR", ".ovr"), ("a.shp.xml", ".xml"),
     ("a.tif.xml", ".xml"), ("a.xml", ""), ("a.tif", ""), ("tfw", "")],
)  # fmt: skip
def test_a_sidecar_is_recognized_by_its_name(name: str, suffix: str) -> None:
    assert sidecar_suffix(name) == suffix


def test_a_sidecar_of_two_files_with_one_name_goes_with_the_one_that_uses_it() -> None:
    both = [("a.gpkg", Kind.VECTOR), ("a.tif", Kind.RASTER), ("a.shp", Kind.VECTOR)]
    chosen = {name: choose_main(name, both) for name in ("a.tfw", "a.tif.msk", "a.dbf", "a.prj", "a.shp.xml")}
    assert chosen == {"a.tfw": "a.tif", "a.tif.msk": "a.tif", "a.dbf": "a.shp", "a.prj": "a.shp", "a.shp.xml": "a.shp"}
    assert choose_main("a.prj", both[1:2]) == "a.tif"
    assert choose_main("a.prj", []) is None


FILES = {
    "dem.tif": TIFF, "dem.tfw": b"1\n", "dem.tif.aux.xml": b"<PAM/>", "north/dem.tif": TIFF, "north/roads.shp": SHAPES,
    "north/roads.dbf": b"\3", "north/roads.prj": b"GEO", "lost.tfw": b"1\n", "fake.tif": b"text", "empty.tif": b"",
    "all.zip": ZIP, "readme": b"hello",
}  # fmt: skip


@pytest.fixture
def ctx(tmp_path: Path) -> FakeContext:
    made = FakeContext(tmp_path)
    for name, data in FILES.items():
        made.tiers.put(f"bronze://in/{name}", data)
    return made


def take(ctx: FakeContext, *, geospatial: bool, batch: int = 5, limit: int = 50_000) -> Inventory:
    """The inventory of `in`, as the workflow makes it."""
    listed = list_files(ListParams(folder="bronze://in", limit=limit), ctx)
    parts = [
        analyse_files(AnalyseParams(files=listed.files[start : start + batch], geospatial=geospatial), ctx).part
        for start in range(0, listed.count, batch)
    ]
    return total_inventory(TotalParams(parts=tuple(parts), geospatial=geospatial, more=listed.more), ctx)


def lines(ctx: FakeContext, found: Inventory, kind: str) -> list[dict[str, Any]]:
    (output,) = (each for each in found.outputs if each.kind == kind)
    return [json.loads(line) for line in ctx.tiers.read(output.href).decode().splitlines()]


def test_files_are_counted_by_extension_and_size_and_nothing_is_read(ctx: FakeContext) -> None:
    found = take(ctx, geospatial=False)
    assert (found.count, found.total_bytes, found.more) == (len(FILES), sum(map(len, FILES.values())), False)
    assert {name: amount.count for name, amount in found.extensions.items()} == {
        ".tif": 4, ".tfw": 2, ".xml": 1, ".shp": 1, ".dbf": 1, ".prj": 1, ".zip": 1, "(none)": 1,
    }  # fmt: skip
    assert {name: amount.count for name, amount in found.sizes.items()} == {"under 1 kB": len(FILES)}
    assert [file.size for file in found.largest] == sorted(map(len, FILES.values()), reverse=True)[:10]
    assert [file.modified for file in found.newest] == sorted((file.modified for file in found.newest), reverse=True)
    assert (found.kinds, found.proposals) == ({}, ())
    assert len(lines(ctx, found, "inventory")) == len(FILES)


def test_sidecars_are_grouped_with_their_main_files_whatever_batch_they_are_in(ctx: FakeContext) -> None:
    found = take(ctx, geospatial=True, batch=2)
    assert {(each.kind, each.source, each.sidecars) for each in found.proposals} == {
        ("raster", "bronze://in/dem.tif", ("bronze://in/dem.tfw", "bronze://in/dem.tif.aux.xml")),
        ("raster", "bronze://in/north/dem.tif", ()),
        ("vector", "bronze://in/north/roads.shp", ("bronze://in/north/roads.dbf", "bronze://in/north/roads.prj")),
        ("archive", "bronze://in/all.zip", ()),
    }
    assert {kind: amount.count for kind, amount in found.kinds.items()} == {
        "sidecar": 5, "raster": 2, "other": 3, "vector": 1, "archive": 1,
    }  # fmt: skip
    assert {note.address: note.message for note in found.notes}["bronze://in/empty.tif"] == "the file is empty"
    assert (found.noted, found.failed, found.proposed) == (2, 0, 4)
    assert lines(ctx, found, "submissions") == [
        {"source": "bronze://in/dem.tif"}, {"source": "bronze://in/north/dem.tif"},
    ]  # fmt: skip
    mains = {line["address"]: line.get("main") for line in lines(ctx, found, "inventory")}
    assert (mains["bronze://in/dem.tfw"], mains["bronze://in/lost.tfw"]) == ("bronze://in/dem.tif", None)


def test_a_file_that_vanished_is_a_failure_of_its_own(ctx: FakeContext) -> None:
    gone = File(address="bronze://in/gone.tif", size=3, modified="2026-01-01T00:00:00+00:00")
    part = analyse_files(AnalyseParams(files=(gone,), geospatial=True), ctx).part
    found = total_inventory(TotalParams(parts=(part,), geospatial=True), ctx)
    assert (found.count, found.failed) == (1, 1)
    assert found.failures[0].message.startswith("storage.not_found: ")


def test_an_empty_folder_has_an_empty_inventory(ctx: FakeContext) -> None:
    found = total_inventory(TotalParams(parts=(), geospatial=True), ctx)
    assert (found.count, found.total_bytes, found.proposals) == (0, 0, ())


def test_a_lost_batch_is_reported(ctx: FakeContext) -> None:
    part = analyse_files(AnalyseParams(files=()), ctx).part
    ctx.work.remove(part)
    with pytest.raises(NotFound, match="of an earlier task is gone, or is damaged"):
        total_inventory(TotalParams(parts=(part,)), ctx)


@pytest.mark.slow
def test_s7_50_000_files_take_little_memory(tmp_path: Path) -> None:
    folder = tmp_path / "bronze" / "in"
    for number in range(50_000):
        path = folder / f"{number // 1_000:02}" / f"scene_{number // 2:05}{('.tif', '.tfw')[number % 2]}"
        if number % 1_000 == 0:
            path.parent.mkdir(parents=True)
        path.write_bytes(TIFF)
    tracemalloc.start()
    found = take(FakeContext(tmp_path), geospatial=True, batch=500)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (found.count, found.proposed, found.more) == (50_000, 25_000, False)
    assert all(len(each.sidecars) == 1 for each in found.proposals)
    assert peak < 100 * MB
