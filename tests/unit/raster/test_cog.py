"""A COG keeps what its source has, is small to read in parts, and is written in bounded memory."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
import tifffile
from affine import Affine
from rasterio.enums import ColorInterp
from rasterio.warp import transform_bounds
from rasterio.windows import Window as Pixels

from anabranch.errors import Permanent
from anabranch.plugins.raster.cog.encoding import encoding_of
from anabranch.plugins.raster.cog.verify import MAX_CLASSES, _add, verify
from anabranch.plugins.raster.cog.write import write_cog
from anabranch.plugins.raster.files.pixels import Totals
from anabranch.plugins.raster.files.tiff import read_nodata
from anabranch.plugins.raster.models import CogOptions, Kind, Profile, Repairs, Window
from anabranch.plugins.raster.tiles.models import TileLimits, cut_tiles
from anabranch.plugins.raster.tiles.scheme import plan_grid
from tests.support.rasters import GRID, classes, foreign_tiff, hills, make_raster, picture

Publish = Callable[..., tuple[Path, CogOptions]]
PALETTE = {value: (value, 90, 255 - value, 255) for value in range(256)}


def pixels_of(path: Path) -> Any:
    with rasterio.open(path) as src:
        return src.read()


@pytest.mark.parametrize("profile", [Profile.ANALYSIS, Profile.ARCHIVE])
@pytest.mark.parametrize(
    "pixels",
    [picture(), picture(bands=5, dtype="uint16"), hills(), hills(dtype="float64"), hills(dtype="int16"), classes()],
    ids=["rgb", "bands", "float32", "float64", "int16", "classes"],
)
def test_r4_another_reader_than_gdal_finds_the_same_pixels(
    tmp_path: Path, publish: Publish, pixels: Any, profile: Profile
) -> None:
    cog, options = publish(make_raster(tmp_path / "a.tif", pixels), profile)
    read = tifffile.imread(cog, series=0, level=0)
    expected = np.moveaxis(pixels, 0, -1) if pixels.shape[0] > 1 else pixels[0]
    assert np.array_equal(read, expected)
    assert verify(tmp_path / "a.tif", cog, options).compared == "every pixel"


@pytest.mark.parametrize("dtype", ["int8", "int32", "uint32", "int64", "uint64"])
def test_r4_every_integer_type_survives(tmp_path: Path, publish: Publish, dtype: str) -> None:
    source = make_raster(tmp_path / "a.tif", np.clip(hills() / 8, 0, 120).astype(dtype))
    cog, options = publish(source, raster_type=Kind.CONTINUOUS)
    verify(source, cog, options)
    assert np.array_equal(pixels_of(cog), pixels_of(source))


@pytest.mark.parametrize(("pixels", "bits"), [(classes(values=(0, 1)), 1), (picture(dtype="uint16"), 12)])
def test_r3_rasters_of_odd_bits_survive(tmp_path: Path, publish: Publish, pixels: Any, bits: int) -> None:
    source = make_raster(tmp_path / "a.tif", pixels, nbits=bits)
    cog, options = publish(source)
    verify(source, cog, options)
    assert np.array_equal(pixels_of(cog), pixels)


@pytest.mark.parametrize("turned", [False, True])
def test_tr15_a_palette_of_one_bit_survives_when_rows_are_turned(
    tmp_path: Path, publish: Publish, turned: bool
) -> None:
    pixels = classes(values=(0, 1))
    place = Affine(10, 0, 500_000, 0, 10, 4_994_000) if turned else GRID
    palette = {0: (0, 0, 0, 255), 1: (250, 10, 20, 255)}
    source = make_raster(
        tmp_path / "a.tif", pixels[:, :: -1 if turned else 1], transform=place, nbits=1, palette=palette
    )
    cog, options = publish(source)
    verify(source, cog, options)
    assert np.array_equal(pixels_of(cog), pixels)
    with rasterio.open(cog) as src:
        assert src.colormap(1) == palette


def test_a_cog_has_blocks_of_512_and_overviews_down_to_one(tmp_path: Path, publish: Publish) -> None:
    cog, _ = publish(make_raster(tmp_path / "a.tif", hills(1100, 1300)))
    with rasterio.open(cog) as src:
        assert src.block_shapes == [(512, 512)]
        assert src.overviews(1) == [2, 4]
        assert src.tags(ns="IMAGE_STRUCTURE")["LAYOUT"] == "COG"


@pytest.mark.parametrize("nodata", [-9999.0, float("nan"), -3.4028234663852886e38])
def test_r3_nodata_survives(tmp_path: Path, publish: Publish, nodata: float) -> None:
    pixels = hills()
    pixels[0, 50:90] = nodata
    cog, options = publish(make_raster(tmp_path / "a.tif", pixels, nodata=nodata))
    verify(tmp_path / "a.tif", cog, options)
    with rasterio.open(cog) as src:
        assert str(src.nodata) == str(nodata)
        assert int((src.dataset_mask() == 0).sum()) == 40 * 700


def test_r3_palettes_survive(tmp_path: Path, publish: Publish) -> None:
    source = make_raster(tmp_path / "a.tif", classes(), palette=PALETTE)
    cog, options = publish(source)
    verify(source, cog, options)
    with rasterio.open(cog) as src:
        assert src.colormap(1) == PALETTE
        assert src.colorinterp == (ColorInterp.palette,)


def test_r3_band_names_units_scale_offset_and_tags_survive(tmp_path: Path, publish: Publish) -> None:
    said = {"descriptions": ("a", "b"), "units": ("m", "s"), "scales": (0.1, 2.0), "offsets": (5.0, -1.0)}
    source = make_raster(tmp_path / "a.tif", picture(bands=2), bands=said, tags={"LICENCE": "CC0"})
    cog, options = publish(source)
    verify(source, cog, options)
    with rasterio.open(cog) as src:
        assert {name: getattr(src, name) for name in said} == said
        assert src.tags()["LICENCE"] == "CC0"


def test_r3_colour_interpretation_and_alpha_survive(tmp_path: Path, publish: Publish) -> None:
    pixels = picture(bands=4)
    pixels[3] = 255
    pixels[3, :100] = 0
    source = make_raster(tmp_path / "a.tif", pixels, photometric="RGB", alpha="yes")
    cog, options = publish(source)
    verify(source, cog, options)
    with rasterio.open(cog) as src:
        assert [colour.name for colour in src.colorinterp] == ["red", "green", "blue", "alpha"]
        assert int((src.dataset_mask() == 0).sum()) == 100 * 700


@pytest.mark.parametrize("bands", [1, 3])
def test_r3_masks_survive(tmp_path: Path, publish: Publish, bands: int) -> None:
    mask = np.full((600, 700), 255, "uint8")
    mask[:, :70] = 0
    source = make_raster(tmp_path / "a.tif", picture(bands=bands), mask=mask)
    cog, options = publish(source)
    verify(source, cog, options)
    with rasterio.open(cog) as src:
        assert np.array_equal(src.dataset_mask(), mask)


def test_r3_a_point_raster_stays_one(tmp_path: Path, publish: Publish) -> None:
    source = make_raster(tmp_path / "a.tif", hills(), tags={"AREA_OR_POINT": "Point"})
    cog, options = publish(source)
    verify(source, cog, options)
    with rasterio.open(cog) as src:
        assert src.tags()["AREA_OR_POINT"] == "Point"


def test_r4_overviews_of_classes_hold_only_classes(tmp_path: Path, publish: Publish) -> None:
    source = make_raster(tmp_path / "a.tif", classes(1500, 1400))
    cog, options = publish(source)
    with rasterio.open(cog, OVERVIEW_LEVEL=1) as src:
        assert set(np.unique(src.read())) <= {1, 7, 40}
    averaged = tmp_path / "averaged.tif"
    write_cog(source, averaged, options.model_copy(update={"kind": Kind.CONTINUOUS}))
    with pytest.raises(Permanent, match=r"overview 0 .* values are not like those of the level above"):
        verify(source, averaged, options)


def test_an_old_overview_of_the_source_is_not_trusted(tmp_path: Path, publish: Publish) -> None:
    source = make_raster(tmp_path / "a.tif", classes(1500, 1400))
    with rasterio.open(source, "r+") as out:
        out.build_overviews([2, 4], rasterio.enums.Resampling.average)
    cog, options = publish(source)
    verify(source, cog, options)


def test_r5_lossy_compression_is_for_visual_pictures_only() -> None:
    for kind in Kind:
        for dtype in ("uint8", "uint16", "float32"):
            for profile in (Profile.ANALYSIS, Profile.ARCHIVE):
                assert not encoding_of(kind, profile, dtype).lossy
            if kind not in (Kind.RGB, Kind.RGBA) or dtype != "uint8":
                with pytest.raises(Permanent):
                    encoding_of(kind, Profile.VISUALIZATION, dtype)


def test_r5_a_visual_picture_is_small_and_its_nodata_is_a_mask(tmp_path: Path, publish: Publish) -> None:
    pixels = picture()
    pixels[:, :64] = 0
    source = make_raster(tmp_path / "a.tif", pixels, nodata=0, photometric="RGB")
    cog, options = publish(source, Profile.VISUALIZATION)
    assert verify(source, cog, options).compared == "statistics after lossy compression"
    with rasterio.open(cog) as src:
        assert (src.compression.name, src.nodata) == ("jpeg", None)
        assert int((src.dataset_mask() == 0).sum()) == 64 * 700


def test_r5_a_visual_picture_keeps_its_alpha(tmp_path: Path, publish: Publish) -> None:
    pixels = picture(bands=4)
    pixels[3] = np.linspace(0, 255, 700).astype("uint8")
    source = make_raster(tmp_path / "a.tif", pixels, photometric="RGB", alpha="yes")
    cog, options = publish(source, Profile.VISUALIZATION)
    verify(source, cog, options)
    assert np.array_equal(pixels_of(cog)[3], pixels[3])


def test_r4_a_cog_that_differs_by_one_pixel_or_fact_is_refused(tmp_path: Path, publish: Publish) -> None:
    source = make_raster(tmp_path / "a.tif", hills(), nodata=-9999)
    cog, options = publish(source)
    pixels = hills()
    pixels[0, 300, 300] += 0.001
    other = make_raster(tmp_path / "b.tif", pixels, nodata=-1, bands={"descriptions": ("x",)})
    with pytest.raises(Permanent) as caught:
        verify(other, cog, options)
    assert "1 values differ from the source" in caught.value.message
    assert "its nodata value: -9999.0 instead of -1.0" in caught.value.message
    assert "its band names" in caught.value.message


def test_r4_a_tiff_that_is_no_cog_is_refused(tmp_path: Path) -> None:
    source = make_raster(tmp_path / "a.tif", hills(1100, 1100))
    with pytest.raises(Permanent, match="it is not a valid COG"):
        verify(source, source, CogOptions(kind=Kind.DEM))


def test_r1_a_given_crs_is_written(tmp_path: Path, publish: Publish) -> None:
    source = make_raster(tmp_path / "a.tif", hills(), crs=None)
    cog, options = publish(source, input_crs="EPSG:32633")
    verify(source, cog, options)
    with rasterio.open(cog) as src:
        assert src.crs.to_epsg() == 32633


def test_nodata_outside_the_type_is_gone_from_the_cog(tmp_path: Path, publish: Publish) -> None:
    source = foreign_tiff(tmp_path / "a.tif", picture(bands=1), "-9999")
    cog, options = publish(source)
    verify(source, cog, options)
    assert read_nodata(cog) == ""
    assert np.array_equal(pixels_of(cog), picture(bands=1))


def test_r2_a_south_up_raster_is_north_up_in_its_cog_and_no_value_changes(tmp_path: Path, publish: Publish) -> None:
    source = make_raster(tmp_path / "a.tif", hills()[:, ::-1], transform=Affine(10, 0, 500_000, 0, 10, 4_994_000))
    cog, options = publish(source)
    verify(source, cog, options)
    assert np.array_equal(pixels_of(cog), hills())
    with rasterio.open(cog) as src:
        assert src.transform == GRID


@pytest.mark.parametrize(
    ("pixels", "options"),
    [
        (hills(), {}),
        (hills(), {"nodata": -9999}),
        (picture(), {}),
        (classes(), {"palette": PALETTE}),
        (classes(), {"nodata": 0}),
    ],
    ids=["float", "nodata", "rgb", "palette", "classes"],
)
def test_r2_a_reprojected_raster_lies_where_it_lay(
    tmp_path: Path, publish: Publish, pixels: Any, options: dict[str, Any]
) -> None:
    source = make_raster(tmp_path / "a.tif", pixels, **options)
    cog, chosen = publish(source, target_crs="EPSG:32634")
    verify(source, cog, chosen)
    with rasterio.open(cog) as src, rasterio.open(source) as original:
        there = transform_bounds(original.crs, src.crs, *original.bounds)
        assert np.allclose(src.bounds, there, atol=2 * src.res[0])
        assert (src.dataset_mask()[[0, 0, -1, -1], [0, -1, 0, -1]] == 0).any()


def test_r2_a_rotated_raster_can_be_resampled_into_its_own_crs(tmp_path: Path, publish: Publish) -> None:
    source = make_raster(tmp_path / "a.tif", hills(), transform=GRID * Affine.rotation(20), nodata=-1)
    cog, options = publish(source, target_crs="EPSG:32633")
    verify(source, cog, options)
    with rasterio.open(cog) as src:
        assert src.transform.is_rectilinear


@pytest.mark.parametrize(("side", "are_classes"), [(300, True), (330, False)])
def test_r4_values_that_the_source_lacks_are_named_unless_there_are_too_many_for_classes(
    tmp_path: Path, publish: Publish, side: int, are_classes: bool
) -> None:
    assert (side**2 <= MAX_CLASSES) is are_classes
    pixels = np.arange(side**2, dtype="int32").reshape(1, side, side)
    source = make_raster(tmp_path / "a.tif", pixels)
    cog, options = publish(source, target_crs="EPSG:32634", raster_type=Kind.CATEGORICAL)
    verify(source, cog, options)
    pixels[:, 100:110, 100:110] = 7
    with pytest.raises(Permanent, match="values differ from the source") as caught:
        verify(make_raster(tmp_path / "b.tif", pixels), cog, options)
    assert ("values that the source lacks" in caught.value.message) is are_classes


def test_r4_no_more_values_are_collected_than_classes_can_have(tmp_path: Path) -> None:
    side, values = 500, set[float]()
    source = make_raster(tmp_path / "a.tif", np.arange(side**2, dtype="int32").reshape(1, side, side))
    with rasterio.open(source) as src:
        for row in range(0, side, 250):
            _add(src, Pixels(0, row, side, 250), [1], {1: Totals()}, values)
    assert len(values) == MAX_CLASSES + 1


def test_a_crs_that_does_not_reach_there_is_refused(tmp_path: Path) -> None:
    source = make_raster(tmp_path / "a.tif", hills())
    with pytest.raises(Permanent) as caught:
        write_cog(source, tmp_path / "b.tif", CogOptions(kind=Kind.DEM, target_crs="IAU_2015:49910"))
    assert caught.value.code == "raster.reprojection"


@pytest.mark.parametrize("target", [None, "EPSG:4326"])
def test_r2_tiles_meet_without_gap_and_hold_what_the_whole_has(tmp_path: Path, target: str | None) -> None:
    source = make_raster(tmp_path / "a.tif", hills(), nodata=-9999)
    options = CogOptions(kind=Kind.DEM, target_crs=target)
    whole = tmp_path / "whole.tif"
    write_cog(source, whole, options)
    limits = TileLimits(wanted_bytes=1, min_pixels=512, max_pixels=512, max_tiles=100)
    grid = plan_grid(source, options, limits)
    joined = np.full((grid.height, grid.width), np.nan, "float32")
    for tile in cut_tiles(grid, Profile.ANALYSIS):
        part, window = tmp_path / f"{tile.name}.tif", tile.window
        chosen = options.model_copy(update={"window": window})
        write_cog(source, part, chosen)
        verify(source, part, chosen)
        rows, columns = (
            slice(window.row, window.row + window.height),
            slice(window.column, window.column + window.width),
        )
        assert np.isnan(joined[rows, columns]).all()
        joined[rows, columns] = pixels_of(part)[0]
    expected = pixels_of(whole)[0]
    both = (joined != -9999) & (expected != -9999)
    # GDAL reckons positions to an eighth of a pixel, from different corners for tiles and whole.
    assert np.abs(joined - expected)[both].max() <= (1 if target else 0)
    assert np.count_nonzero((joined == -9999) != (expected == -9999)) <= (1000 if target else 0)


def test_a_window_beyond_the_grid_is_refused(tmp_path: Path) -> None:
    source = make_raster(tmp_path / "a.tif", hills())
    window = Window(column=600, row=0, width=512, height=512)
    with pytest.raises(Permanent, match="beyond the grid of 700 x 600"):
        write_cog(source, tmp_path / "b.tif", CogOptions(kind=Kind.DEM, window=window))


def test_tiles_are_of_whole_blocks_and_near_the_size_aimed_at(tmp_path: Path) -> None:
    source = make_raster(tmp_path / "a.tif", hills())
    limits = TileLimits(wanted_bytes=300_000_000, min_pixels=5_120, max_pixels=20_480, max_tiles=1_000)
    grid = plan_grid(source, CogOptions(kind=Kind.DEM), limits)
    assert (grid.side, grid.factor) == (17 * 512, 32)  # the overview of a tile fits one block
    few = limits.model_copy(update={"wanted_bytes": 1})
    assert plan_grid(source, CogOptions(kind=Kind.DEM), few).side == 5_120


def test_w7_a_cog_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    source = make_raster(tmp_path / "a.tif", picture(bands=1), tiled=True, compress="deflate")
    with rasterio.open(source) as src:
        offset = int(src.get_tag_item("BLOCK_OFFSET_1_1", "TIFF", bidx=1))
    data = bytearray(source.read_bytes())
    data[offset : offset + 64] = bytes(64)
    source.write_bytes(data)
    for repairs in (Repairs(), Repairs(flip_rows=True)):
        with pytest.raises(Permanent) as caught:
            write_cog(source, tmp_path / "cog.tif", CogOptions(kind=Kind.CONTINUOUS, repairs=repairs))
        assert caught.value.code in {"raster.not_written", "raster.unreadable"}
        assert [file.name for file in tmp_path.iterdir()] == ["a.tif"]


def test_progress_rises_to_its_end(tmp_path: Path) -> None:
    source = make_raster(tmp_path / "a.tif", hills(2000, 2000))
    for repairs in (Repairs(), Repairs(flip_rows=True)):
        heard: list[int] = []
        options = CogOptions(kind=Kind.DEM, repairs=repairs)

        def hear(done: int, total: int, message: str, heard: list[int] = heard) -> None:
            heard.append(done * 100 // total)

        write_cog(source, tmp_path / "cog.tif", options, hear)
        assert heard == sorted(heard)
        assert heard[-1] == 100


MEASURED = """
import sys
from pathlib import Path
from anabranch.plugins.raster.cog.write import write_cog
from anabranch.plugins.raster.models import CogOptions, Kind
from anabranch.plugins.raster.files.tiff import read_nodata
from anabranch.plugins.raster.cog.verify import verify
source, target, crs = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
options = CogOptions(kind=Kind.DEM, memory_mb=256, target_crs=crs or None)
write_cog(source, target, options)
verify(source, target, options)
print(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1])
"""


@pytest.mark.parametrize(("target_crs", "rows"), [pytest.param("", 16, marks=pytest.mark.slow), ("EPSG:3857", 6)])
def test_r6_memory_is_bounded_by_the_setting_and_not_by_the_raster(tmp_path: Path, target_crs: str, rows: int) -> None:
    """268 MB of pixels go through a quarter of 256 MB; the interpreter and its libraries take 128 MB more."""
    source, width, height = tmp_path / "a.tif", 8_192, rows * 512
    size = {"width": width, "height": height, "count": 1, "dtype": "float32"}
    options = {"tiled": True, "blockxsize": 512, "blockysize": 512, "compress": "zstd", "zstd_level": 1}
    with rasterio.open(source, "w", driver="GTiff", crs="EPSG:32633", transform=GRID, **size, **options) as out:
        block = np.tile(hills(512, 512)[0].round(), (1, 16))
        for row in range(0, height, 512):
            out.write(block, 1, window=((row, row + 512), (0, width)))
    program = [sys.executable, "-c", MEASURED, str(source), str(tmp_path / "cog.tif"), target_crs]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) // 1024 < 256 + 128
