"""Large rasters become tiles, each verified, and together they are the raster (R2, R4, W5)."""

import os
from pathlib import Path
from shutil import rmtree
from typing import Any

import numpy as np
import pytest
import rasterio
from pydantic import ValidationError
from rasterio.transform import from_origin
from rasterio.windows import Window

from anabranch.errors import Permanent, Resource
from anabranch.plugins.raster.checks.pixel_sample import sample_pixels
from anabranch.plugins.raster.files.pixels import is_unstored
from anabranch.plugins.raster.handler_models import ValidateParams
from anabranch.plugins.raster.handlers import validate
from anabranch.plugins.raster.models import Profile
from anabranch.plugins.raster.request import RasterRequest
from anabranch.plugins.raster.settings import RasterSettings
from anabranch.plugins.raster.tiles import handlers
from anabranch.plugins.raster.tiles.handler_models import SchemeParams, TileBatchParams, TileParams
from anabranch.plugins.raster.tiles.handlers import generate_tiling_scheme, process_tile, process_tile_batch
from anabranch.plugins.raster.tiles.models import TileFacts
from anabranch.plugins.raster.tiles.mosaic import check_tiles
from anabranch.testing import FakeContext
from tests.support.formats import convert, make_zip
from tests.support.rasters import classes, hills, make_raster, picture
from tests.support.tiles import TiledRaster, read_mosaic, tile_settings


def tiled(tmp_path: Path, pixels: Any, side: int = 512, *, made: dict[str, Any] | None = None, **options: Any) -> Any:
    (tmp_path / "bronze" / "in").mkdir(parents=True, exist_ok=True)
    make_raster(tmp_path / "bronze" / "in" / "scene.tif", pixels, **(made or {}))
    return TiledRaster(tmp_path, "scene.tif", side, options)


def facts_of(raster: TiledRaster) -> tuple[Any, list[TileFacts]]:
    scheme, source = raster.plan()
    ctx = raster.context()
    found = [ctx.work.fetch(one.facts) for one in raster.process(scheme, source)]
    return scheme, [TileFacts.model_validate_json(path.read_bytes()) for path in found if path]


@pytest.mark.parametrize(
    ("pixels", "made"),
    [
        (hills(1100, 1300), {"nodata": -9999}),  # with a tile in the midst of others
        (picture(700, 900), {"photometric": "RGB"}),
        (classes(700, 900), {"nodata": 0}),
        (picture(1100, 600), {"mask": np.tri(600, 1100, k=600, dtype=bool)}),
    ],
    ids=["heights", "picture", "classes", "mask"],
)
def test_r2_r4_the_tiles_are_the_raster(tmp_path: Path, pixels: Any, made: dict[str, Any]) -> None:
    raster = tiled(tmp_path, pixels, made=made)
    verified = raster.make()
    document = raster.document(verified)
    assert [tile.name for tile in document.tiles][:2] == ["scene.tile_r0_c0.tif", "scene.tile_r0_c1.tif"]
    assert np.array_equal(read_mosaic(raster, document, made.get("nodata", 0)), pixels)
    assert verified.item.shape == pixels.shape[1:]
    kinds = [output.kind for output in verified.outputs]
    assert kinds == ["mosaic", "overview", *["tile"] * len(document.tiles), "thumbnail", "report"]


def test_r4_statistics_footprint_and_grid_of_the_item_are_those_of_the_whole(tmp_path: Path) -> None:
    heights = hills(700, 900)
    heights[0, :300, :600] = -9999
    item = tiled(tmp_path, heights, made={"nodata": -9999}).make().item
    single = TiledRaster(tmp_path, "scene.tif", 2048, {}).make().item
    (band,), valid = item.bands, heights[heights != -9999].astype("float64")
    assert band.statistics
    assert (band.statistics.minimum, band.statistics.maximum) == (valid.min(), valid.max())
    assert band.statistics.mean == pytest.approx(valid.mean(), rel=1e-12)
    assert band.statistics.stddev == pytest.approx(valid.std(), rel=1e-9)
    assert band.statistics.valid_percent == pytest.approx(100 * valid.size / heights.size, rel=1e-12)
    assert (item.shape, item.transform, item.bounds) == (single.shape, single.transform, single.bounds)
    assert item.bbox == pytest.approx(single.bbox, abs=1e-4)


def test_a_tile_without_data_is_listed_and_not_stored(tmp_path: Path) -> None:
    heights = hills(1536, 1024)
    heights[0, :512, 512:1100] = -9999
    raster = tiled(tmp_path, heights, made={"nodata": -9999})
    document = raster.document(raster.make())
    assert [tile.name for tile in document.empty] == ["scene.tile_r0_c1.tif"]
    assert len(document.tiles) == 5
    assert np.array_equal(read_mosaic(raster, document, -9999), heights)


def test_r4_the_overview_of_a_mosaic_is_that_of_one_cog(tmp_path: Path) -> None:
    """Where the raster is whole blocks; elsewhere edges of overviews lie between pixels."""
    raster = tiled(tmp_path, picture(3072, 1024), side=1024)
    overview = raster.document(raster.make()).overview
    whole = TiledRaster(tmp_path, "scene.tif", 4096, {})
    (single,) = whole.document(whole.make()).tiles
    assert overview.factor == 2
    with (
        rasterio.open(raster.path(overview.address)) as ours,
        rasterio.open(whole.path(single.address), OVERVIEW_LEVEL=0) as theirs,
    ):
        assert (ours.width, ours.height) == (1536, 512)
        assert np.array_equal(ours.read(), theirs.read())


def test_a_reprojected_raster_is_cut_on_its_target_grid(tmp_path: Path) -> None:
    raster = tiled(tmp_path, hills(700, 900), target_crs="EPSG:3857", made={"nodata": -9999})
    verified = raster.make()
    document = raster.document(verified)
    assert (document.crs, verified.item.crs) == ("EPSG:3857", "EPSG:3857")
    assert (read_mosaic(raster, document, -9999) != -9999).any()


def test_every_tier_has_a_mosaic(tmp_path: Path) -> None:
    verified = tiled(tmp_path, picture(600, 700), made={"photometric": "RGB"}, tier="all").make()
    assets = [output.asset for output in verified.outputs if output.kind != "tile"]
    assert assets == [
        "data", "overview", "visual", "visual-overview", "archive", "archive-overview", "thumbnail", "report",
    ]  # fmt: skip
    names = [output.name for output in verified.outputs]
    assert len(set(names)) == len(names)


def test_w5_a_tile_that_an_earlier_attempt_stored_is_reused_while_it_is_whole(tmp_path: Path) -> None:
    raster = tiled(tmp_path, hills(600, 700))
    scheme, source = raster.plan()
    params, ctx = TileParams(**source, tile=scheme.tiles[0], overviews=scheme.grid.overviews), raster.context(7)
    made = process_tile(params, ctx)
    again = ctx.next_attempt()
    assert process_tile(params, again) == made
    assert again.reports == []
    path = ctx.work.fetch(made.facts)
    assert path
    facts = TileFacts.model_validate_json(path.read_bytes())
    assert facts.cog
    ctx.tiers.put(facts.cog.address, b"cut")
    assert process_tile(params, ctx.next_attempt()) != made


def test_w5_a_batch_goes_on_where_it_was(tmp_path: Path) -> None:
    raster = tiled(tmp_path, hills(600, 700))
    scheme, source = raster.plan()
    one, both = (TileBatchParams(**source, tiles=scheme.tiles[:n], overviews=scheme.grid.overviews) for n in (1, 2))
    ctx = raster.context()
    first = process_tile_batch(one, ctx)
    found = process_tile_batch(both, ctx.next_attempt())
    assert found.tiles[:1] == first.tiles
    assert [tile.name for tile in found.tiles] == ["tile_r0_c0", "tile_r0_c1"]


def test_r2_tiles_that_are_missing_or_misplaced_are_not_published(tmp_path: Path) -> None:
    scheme, facts = facts_of(tiled(tmp_path, hills(600, 700)))
    check_tiles(scheme, Profile.ANALYSIS, facts)
    with pytest.raises(Permanent, match="1 tiles are missing: tile_r0_c1"):
        check_tiles(scheme, Profile.ANALYSIS, [facts[0], *facts[2:]])
    moved = facts[1].model_copy(update={"written": facts[0].written})
    with pytest.raises(Permanent, match="the geotransform of tile_r0_c1 is"):
        check_tiles(scheme, Profile.ANALYSIS, [facts[0], moved, *facts[2:]])
    with pytest.raises(Permanent, match="1 tiles are not in the scheme, or twice: tile_r0_c0"):
        check_tiles(scheme, Profile.ANALYSIS, [facts[0], *facts])


def test_a_raster_with_too_many_tiles_gets_larger_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    raster = tiled(tmp_path, classes(1300, 1300))
    monkeypatch.setattr(handlers, "MAX_PLANNED_TILES", 4)
    with pytest.raises(Permanent, match="9 tiles of 512 pixels, and the limit is 4 tiles") as refused:
        raster.plan()
    assert "RASTER_TILE_MAX_PIXELS" in str(refused.value.remedy)
    settings = (RasterSettings(raster_tile_mb=1, raster_tile_min_pixels=512, raster_tile_max_pixels=2048),)
    monkeypatch.setattr(raster, "context", lambda _=0: FakeContext(tmp_path, settings=settings))
    assert raster.plan()[0].grid.side == 1024


def test_a_tile_that_the_disk_can_t_hold_is_refused_before_any_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    raster = tiled(tmp_path, hills(600, 700))
    scheme, source = raster.plan()
    monkeypatch.setattr(handlers, "DISK_SHARE", 2.0**60)
    params = TileParams(**source, tile=scheme.tiles[0], overviews=scheme.grid.overviews)
    with pytest.raises(Resource, match=r"tile_r0_c0 needs .* bytes of disk while it is written, and .* has") as refused:
        process_tile(params, raster.context())
    assert refused.value.code == "raster.disk"


@pytest.mark.parametrize(
    ("tiling", "settings", "expected"),
    [
        ("auto", {}, False),
        ("auto", {"raster_single_pixels": 600 * 700 - 1}, True),
        ("auto", {"raster_single_bytes": 1_000}, True),
        ("never", {"raster_single_bytes": 1_000, "raster_single_pixels": 1}, False),
        ("always", {}, True),
    ],
)
def test_the_size_decides_whether_a_raster_becomes_tiles(
    tmp_path: Path, tiling: Any, settings: dict[str, int], expected: bool
) -> None:
    raster = tiled(tmp_path, hills(600, 700))
    ctx = FakeContext(tmp_path, settings=(RasterSettings(**settings),))
    address = f"bronze://in/{raster.name}"
    params = ValidateParams(source=address, sha256=ctx.storage.stage(address).sha256, tiling=tiling)
    assert validate(params, ctx).tiled is expected


def test_the_settings_of_tiles_are_whole_blocks() -> None:
    assert tile_settings(1024)[0].raster_tile_mb == 300
    with pytest.raises(ValueError, match="multiple of 512"):
        RasterSettings(raster_tile_min_pixels=1000)


def test_what_a_sparse_file_does_not_store_is_not_read(tmp_path: Path) -> None:
    shape = {"width": 2_048, "height": 2_048, "count": 1, "dtype": "uint8", "nodata": 0, "crs": "EPSG:32633"}
    tiles = {"tiled": True, "blockxsize": 512, "blockysize": 512, "sparse_ok": True}
    place = from_origin(300_000, 9_000_000, 1, 1)
    with rasterio.open(tmp_path / "a.tif", "w", driver="GTiff", transform=place, **shape, **tiles) as out:
        out.write(np.ones((1, 512, 512), "uint8"), window=Window(512, 1024, 512, 512))
    with rasterio.open(tmp_path / "a.tif") as src:
        stored = [(x, y) for y in range(4) for x in range(4) if not is_unstored(src, Window(512 * x, 512 * y, 9, 9))]
        assert stored == [(1, 2)]
        assert not is_unstored(src, Window(0, 1000, 600, 100))
        sample = sample_pixels(src)
    assert sample.pixels == 2_048**2
    assert sample.nodata_percent == pytest.approx(100 * 15 / 16)
    found = sample.bands[1].statistics(exact=True)
    assert found
    assert found.mean == 1
    assert found.valid_percent == pytest.approx(100 / 16)


@pytest.mark.slow
def test_r6_a_sparse_raster_is_refused_by_default_and_completes_where_its_expansion_is_allowed(tmp_path: Path) -> None:
    """40,000,000,000 pixels, of which a twentieth of the blocks have data, in islands; within the memory of a task."""
    side = 200_000
    (tmp_path / "bronze" / "in").mkdir(parents=True)
    write_islands(tmp_path / "bronze" / "in" / "sparse.tif", side)
    raster = TiledRaster(tmp_path, "sparse.tif", 17_408, {"raster_type": "continuous"})
    with pytest.raises(Permanent, match="times") as refused:
        raster.check()
    assert refused.value.code == "raster.too_large"
    assert "ANABRANCH_RASTER_MAX_EXPANSION" in str(refused.value.remedy)
    raster.settings = {"raster_max_expansion": 1_000_000}
    document = raster.document(raster.make())
    assert len(document.tiles) + len(document.empty) == 144
    assert len(document.empty) > 100
    for tile in document.tiles[::5]:
        with rasterio.open(raster.path(tile.address)) as cog, rasterio.open(tmp_path / "bronze/in/sparse.tif") as src:
            window = Window(tile.window.column, tile.window.row, tile.window.width, 2_048)
            assert np.array_equal(cog.read(window=Window(0, 0, tile.window.width, 2_048)), src.read(window=window))
    assert max(peaks_mb()) < 1_024


def write_islands(path: Path, side: int) -> None:
    """Five squares of 39 x 39 blocks, in a grid of 391 x 391."""
    rows, columns = np.mgrid[0:512, 0:512]
    waves = (1 + (columns // 8 + 3 * (rows // 8)) % 200).astype("uint8")
    shape = {"width": side, "height": side, "count": 1, "dtype": "uint8", "nodata": 0, "crs": "EPSG:32633"}
    tiles = {"tiled": True, "blockxsize": 512, "blockysize": 512, "sparse_ok": True, "bigtiff": "yes"}
    place = {"transform": from_origin(300_000, 9_000_000, 1, 1)}
    with rasterio.open(path, "w", driver="GTiff", compress="zstd", **shape, **tiles, **place) as out:
        for island in range(5):
            for block in range(39 * 39):
                column, row = 512 * (70 * island + block % 39), 512 * (75 * (3 * island % 5) + block // 39)
                out.write(waves[None], window=Window(column, row, 512, 512))


def peaks_mb() -> list[float]:
    """The peak memory of the processes that this one has started."""
    ours = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
    statuses = [Path(f"/proc/{pid}/status").read_text() for pid in ours]
    return [int(status.split("VmHWM:")[1].split()[0]) / 1024 for status in statuses if "VmHWM:" in status]


@pytest.mark.parametrize(
    ("wishes", "said"),
    [({"tiling": "never"}, "tiling is never"), ({"item_id": "a" * 119}, "item_id is too long for items of tiles")],
)
def test_g9_items_of_tiles_need_tiles_and_room_for_their_ids(wishes: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        RasterRequest(source="bronze://a.tif", collection="dems", tile_items=True, **wishes)


@pytest.mark.parametrize("name", ["scene.img", "scene.zip"])
def test_w5_a_converted_source_is_extracted_once_and_all_tiles_read_that_copy(tmp_path: Path, name: str) -> None:
    folder, pixels = tmp_path / "bronze" / "in", hills(600, 700)
    folder.mkdir(parents=True)
    if name.endswith(".zip"):
        make_zip(folder / name, {"in/a b.tif": make_raster(tmp_path / "a.tif", pixels).read_bytes()})
    else:
        convert(folder / name, "HFA", pixels)
    raster = TiledRaster(tmp_path, name, 512, {})
    scheme, source = raster.plan()
    (folder / name).unlink()
    rmtree(tmp_path / "cache")
    assert len(list(raster.process(scheme, source))) == 4


@pytest.mark.parametrize("lost", ["removed", "of another job"])
def test_a_converted_copy_that_is_gone_is_made_again(tmp_path: Path, lost: str) -> None:
    (tmp_path / "bronze" / "in").mkdir(parents=True)
    convert(tmp_path / "bronze" / "in" / "scene.img", "HFA", hills(600, 700))
    raster = TiledRaster(tmp_path, "scene.img", 512, {})
    _, source = raster.check()
    if lost == "removed":
        for folder in ("work", "cache"):
            rmtree(tmp_path / folder)
    else:
        origin = source["raster"].origin.model_copy(update={"stored": {"key": "jobs/b/n/0/1-00000000/source"}})
        source["raster"] = source["raster"].model_copy(update={"origin": origin})
    assert len(generate_tiling_scheme(SchemeParams(**source, tiers=(Profile.ANALYSIS,)), raster.context()).tiles) == 4
