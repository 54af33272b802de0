"""Facts about valid rasters, and refusals of others: each case has happened."""

import json
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
from affine import Affine
from rasterio.control import GroundControlPoint
from rasterio.enums import ColorInterp
from rasterio.rpc import RPC
from rasterio.transform import from_bounds, from_origin

from anabranch.errors import Permanent
from anabranch.plugins.raster.checks.validate import DEFAULT_SETTINGS, validate
from anabranch.plugins.raster.cog.verify import verify
from anabranch.plugins.raster.files.drivers import gdal_environment
from anabranch.plugins.raster.models import CogOptions, Kind, Validated, ValidateOptions
from anabranch.plugins.raster.settings import RasterSettings
from tests.support.rasters import GRID, band_masked_tiff, classes, foreign_tiff, hills, make_raster, picture

Refuse = Callable[..., Permanent]
Publish = Callable[..., tuple[Path, CogOptions]]
LOCAL = 'LOCAL_CS["site",UNIT["metre",1]]'


def look(
    path: Path, *, name: str | None = None, settings: RasterSettings = DEFAULT_SETTINGS, **options: Any
) -> Validated:
    return validate(path.rename(path.with_name(name)) if name else path, ValidateOptions(**options), settings)


def codes(found: Validated) -> list[str]:
    return [notice.code for notice in found.warnings]


def test_a_good_raster_is_described_as_json_that_can_be_read_back(tmp_path: Path) -> None:
    path = make_raster(
        tmp_path / "dem.tif", hills(), nodata=-9999, bands={"descriptions": ("height",), "units": ("m",)}
    )
    found = look(path)
    assert (found.crs, found.kind, found.mask, codes(found)) == ("EPSG:32633", Kind.DEM, "nodata", [])
    assert (found.bands[0].name, found.bands[0].unit, found.bands[0].nodata) == ("height", "m", -9999)
    assert found.bands[0].statistics
    assert found.bands[0].statistics.maximum == pytest.approx(float(hills().max()))
    assert Validated.model_validate(json.loads(found.model_dump_json())) == found


def test_r1_a_raster_without_crs_is_refused_unless_one_is_given(tmp_path: Path, refuse: Refuse) -> None:
    path = make_raster(tmp_path / "a.tif", hills(), crs=None)
    assert refuse(path).code == "raster.crs_missing"
    found = look(path, input_crs="EPSG:32633")
    assert (found.crs, found.repairs.crs, codes(found)) == ("EPSG:32633", "EPSG:32633", ["raster.crs_given"])


def test_r1_a_crs_that_conflicts_with_the_files_own_is_an_error(tmp_path: Path, refuse: Refuse) -> None:
    path = make_raster(tmp_path / "a.tif", hills())
    assert refuse(path, input_crs="EPSG:32634").message == "the raster is in EPSG:32633, but input_crs is EPSG:32634"
    assert look(path, input_crs="EPSG:32633").repairs.crs is None


def test_r1_a_local_crs_is_no_place(tmp_path: Path, refuse: Refuse) -> None:
    path = make_raster(tmp_path / "a.tif", hills(), crs=LOCAL)
    assert refuse(path).code == "raster.crs_local"
    assert look(path, input_crs="EPSG:32633").crs == "EPSG:32633"


@pytest.mark.parametrize(
    "text", ["http://127.0.0.1:1/crs", "+proj=utm +nadgrids=@/etc/passwd", "EPSG:1 ", "/etc/passwd"]
)
def test_s2_the_text_of_a_crs_reaches_no_parser(tmp_path: Path, refuse: Refuse, text: str) -> None:
    path = make_raster(tmp_path / "a.tif", hills(), crs=None)
    error = refuse(path, input_crs=text)
    assert error.code == "raster.crs_text"
    assert text not in error.message
    assert refuse(make_raster(tmp_path / "b.tif", hills()), target_crs=text).code == "raster.crs_text"


def test_a_crs_that_nobody_knows_is_refused(tmp_path: Path, refuse: Refuse) -> None:
    assert refuse(make_raster(tmp_path / "a.tif", hills()), target_crs="EPSG:999999").code == "raster.crs_unknown"


def test_an_identity_geotransform_is_no_place(tmp_path: Path, refuse: Refuse) -> None:
    error = refuse(make_raster(tmp_path / "a.tif", hills(), transform=None))
    assert (error.code, "identity" in error.message) == ("raster.no_georeference", True)


def test_ground_control_points_alone_are_refused_by_name(tmp_path: Path, refuse: Refuse) -> None:
    points = [GroundControlPoint(row, col, 15 + col / 1e4, 45 - row / 1e4) for row in (0, 600) for col in (0, 700)]
    path = tmp_path / "a.tif"
    with rasterio.open(
        path, "w", driver="GTiff", width=700, height=600, count=1, dtype="float32", gcps=points, crs="EPSG:4326"
    ) as out:
        out.write(hills())
    for options in ({}, {"input_crs": "EPSG:4326"}):
        error = refuse(path, **options)
        assert (error.code, error.message) == (
            "raster.no_georeference",
            "the raster has only 4 ground control points",
        )


def test_rpcs_alone_are_refused_by_name(tmp_path: Path, refuse: Refuse) -> None:
    ones = [1.0] + 19 * [0.0]
    rpcs = RPC(0, 100, 45, 0.1, ones, ones, 300, 300, 15, 0.1, ones, ones, 350, 350, None, None)
    path = make_raster(tmp_path / "a.tif", hills(), transform=None, crs=None, bands={"rpcs": rpcs})
    for options in ({}, {"input_crs": "EPSG:4326"}):
        error = refuse(path, **options)
        assert (error.code, "RPCs" in error.message) == ("raster.no_georeference", True)


def test_a_rotated_raster_is_refused_unless_it_is_to_be_resampled(tmp_path: Path, refuse: Refuse) -> None:
    path = make_raster(tmp_path / "a.tif", hills(), transform=GRID * Affine.rotation(20))
    assert refuse(path).code == "raster.rotated"
    assert codes(look(path, target_crs="EPSG:32633")) == ["raster.rotated"]


def test_a_south_up_raster_is_put_in_order(tmp_path: Path) -> None:
    south_up = Affine(10, 0, 500_000, 0, 10, 4_994_000)
    found = look(make_raster(tmp_path / "a.tif", hills(), transform=south_up))
    assert (found.repairs.flip_rows, codes(found)) == (True, ["raster.flipped"])
    assert found.transform == tuple(GRID)[:6]


@pytest.mark.parametrize(
    ("crs", "grid"),
    [
        ("EPSG:4326", from_origin(500_000, 5_000_000, 10, 10)),
        ("EPSG:4326", from_origin(10, 120, 0.01, 0.01)),
        ("EPSG:4326", from_origin(10, 90.5, 0.01, 0.01)),
        ("EPSG:4326", from_origin(500, 10, 0.001, 0.001)),
        ("EPSG:4326", from_origin(354, 10, 0.01, 0.01)),
        ("EPSG:4326", from_origin(-361, 10, 0.01, 0.01)),
        ("EPSG:32633", from_origin(5e8, 5e9, 10, 10)),
    ],
)
def test_bounds_that_can_not_be_of_the_crs_are_refused(tmp_path: Path, refuse: Refuse, crs: str, grid: Affine) -> None:
    error = refuse(make_raster(tmp_path / "a.tif", hills(), crs=crs, transform=grid))
    assert (error.code, crs in error.message) == ("raster.bounds", True)


@pytest.mark.parametrize(
    "box", [(0, -90, 360, 90), (-0.25, -90.25, 359.75, 90.25), (170, -10, 200, 10), (-190, -10, -170, 10)]
)
def test_degrees_of_the_world_are_taken_however_they_are_counted(
    tmp_path: Path, box: tuple[float, float, float, float]
) -> None:
    path = make_raster(tmp_path / "a.tif", hills(), crs="EPSG:4326", transform=from_bounds(*box, 700, 600))
    assert look(path).crs == "EPSG:4326"


def test_complex_numbers_are_refused(tmp_path: Path, refuse: Refuse) -> None:
    path = make_raster(tmp_path / "a.tif", hills(60, 50).astype("complex64"))
    assert refuse(path).message == "the pixels are complex numbers (complex64)"


@pytest.mark.parametrize("dtype", ["int64", "uint64", "float64", "int8"])
def test_wide_and_odd_types_are_taken(tmp_path: Path, dtype: str) -> None:
    pixels = np.clip(hills(60, 50) / 8, 0, 120).astype(dtype)
    assert look(make_raster(tmp_path / "a.tif", pixels)).dtype == dtype


def test_nan_as_nodata_is_a_word_in_json(tmp_path: Path) -> None:
    pixels = hills()
    pixels[0, :100] = np.nan
    found = look(make_raster(tmp_path / "a.tif", pixels, nodata=float("nan")))
    assert (found.bands[0].nodata, found.mask, codes(found)) == ("nan", "nodata", [])
    assert found.nodata_percent == pytest.approx(100 / 6)


def test_nan_that_is_not_declared_is_declared(tmp_path: Path) -> None:
    pixels = hills()
    pixels[0, :100] = np.nan
    found = look(make_raster(tmp_path / "a.tif", pixels))
    assert (found.repairs.nodata, codes(found)) == ("nan", ["raster.nan_undeclared"])


@pytest.mark.parametrize("nodata", ["-9999", "nan", "256", "1.5"])
def test_nodata_outside_the_type_is_left_out(tmp_path: Path, nodata: str) -> None:
    found = look(foreign_tiff(tmp_path / "a.tif", picture(bands=1), nodata))
    assert (found.repairs.nodata, codes(found)) == ("drop", ["raster.nodata_outside"])
    assert found.nodata_percent == 0


def test_all_nodata_is_refused_and_nearly_all_is_reported(tmp_path: Path, refuse: Refuse) -> None:
    pixels = np.full((1, 1000, 1000), -9999, "float32")
    assert refuse(make_raster(tmp_path / "a.tif", pixels, nodata=-9999)).message == "all of the raster is nodata"
    pixels[0, :8] = 3.5
    assert refuse(make_raster(tmp_path / "b.tif", pixels, nodata=-9999)).message == "99.20 % of the raster is nodata"
    pixels[0, :50] = hills(1000, 50)
    found = look(make_raster(tmp_path / "c.tif", pixels, nodata=-9999))
    assert (codes(found), found.nodata_percent) == (["raster.nearly_empty"], 95.0)


def test_a_sample_does_not_condemn_what_has_data_elsewhere(tmp_path: Path) -> None:
    pixels = np.zeros((1, 4600, 4600), "uint8")
    pixels[0, :500, :] = picture(4600, 500, 1)
    path = make_raster(tmp_path / "a.tif", pixels, nodata=0, tiled=True, compress="zstd")
    found = look(path)
    assert found.nodata_percent < 99


def test_fill_values_that_are_not_declared_are_refused(tmp_path: Path, refuse: Refuse) -> None:
    pixels = hills()
    pixels[0, 0, 0] = -3.4e38
    assert refuse(make_raster(tmp_path / "a.tif", pixels)).code == "raster.fill_value"


def test_one_pixel_is_accepted_and_reported(tmp_path: Path) -> None:
    assert codes(look(make_raster(tmp_path / "a.tif", hills(1, 1)))) == ["raster.one_pixel"]


def test_a_file_of_several_images_is_reported(tmp_path: Path) -> None:
    path = make_raster(tmp_path / "a.tif", hills())
    assert codes(look(make_raster(path, hills(), APPEND_SUBDATASET="YES"))) == ["raster.more_images"]


def test_two_hundred_bands_and_big_tiff_are_taken(tmp_path: Path) -> None:
    pixels = picture(40, 30, 200, "uint16")
    found = look(make_raster(tmp_path / "a.tif", pixels, BIGTIFF="YES", interleave="band"))
    assert (len(found.bands), found.kind) == (200, Kind.MULTISPECTRAL)


def test_every_error_is_reported_at_once(tmp_path: Path, refuse: Refuse) -> None:
    pixels = hills()
    pixels[0, 0, 0] = 1e35
    path = make_raster(tmp_path / "a.tif", pixels, crs=None, transform=None)
    error = refuse(path, target_crs="nowhere")
    assert error.code == "raster.invalid"
    for code in ("crs_missing", "crs_text", "no_georeference", "fill_value"):
        assert f"[raster.{code}]" in error.message


def test_s4_what_asks_for_too_much_is_refused_before_a_pixel_is_read(tmp_path: Path, refuse: Refuse) -> None:
    sparse = {
        "driver": "GTiff",
        "count": 1,
        "dtype": "uint8",
        "crs": "EPSG:32633",
        "transform": GRID,
        "sparse_ok": True,
    }
    huge, blocks = tmp_path / "huge.tif", tmp_path / "blocks.tif"
    with rasterio.open(huge, "w", width=100_000, height=100_000, tiled=True, **sparse):
        pass
    side = {"tiled": True, "blockxsize": 16_000, "blockysize": 16_000}
    with rasterio.open(blocks, "w", width=16_000, height=16_000, **side, **sparse):
        pass
    assert "10,000,000,000 bytes of pixels in a file of" in refuse(huge).message
    assert "blocks of 256,000,000 bytes" in refuse(blocks).message


def test_s4_limits_are_parameters(tmp_path: Path, refuse: Refuse) -> None:
    path = make_raster(tmp_path / "a.tif", picture(600, 500, 5), compress="none")
    error = refuse(path, settings=RasterSettings(raster_max_mb=1, raster_max_pixels=100, raster_max_bands=4))
    assert error.code == "raster.invalid"
    assert error.message.startswith("3 errors")


def test_a_truncated_file_is_refused_with_both_lengths(tmp_path: Path, refuse: Refuse) -> None:
    path = make_raster(tmp_path / "a.tif", hills(), tiled=True)
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2)
    assert refuse(path).code in {"raster.truncated", "raster.damaged"}


@pytest.mark.parametrize("interleave", ["pixel", "band"])
def test_a_truncated_file_is_refused_with_the_length_that_its_last_block_needs(
    tmp_path: Path, refuse: Refuse, interleave: str
) -> None:
    path = make_raster(tmp_path / "a.tif", picture(), tiled=True, compress="none", interleave=interleave)
    whole = path.stat().st_size
    with path.open("r+b") as file:
        file.truncate(whole // 2)
    error = refuse(path)
    assert error.code == "raster.truncated"
    assert error.message.endswith(f"its last block ends at byte {whole:,}, but the file has {whole // 2:,} bytes")


def test_a_file_whose_blocks_can_not_be_decoded_is_refused_with_the_place(tmp_path: Path, refuse: Refuse) -> None:
    path = make_raster(tmp_path / "a.tif", picture(bands=1), tiled=True, compress="deflate")
    with rasterio.open(path) as src:
        offset = int(src.get_tag_item("BLOCK_OFFSET_1_1", "TIFF", bidx=1))
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(b"\x00" * 64)
    assert refuse(path).code == "raster.unreadable"


def test_zero_bytes_are_said_to_be_zero(tmp_path: Path, refuse: Refuse) -> None:
    path = tmp_path / "a.tif"
    path.touch()
    assert refuse(path).message == "a.tif has zero bytes"
    assert refuse(tmp_path / "none.tif").code == "raster.missing"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b'<VRTDataset rasterXSize="1" rasterYSize="1"></VRTDataset>', "a VRT, which only refers to other files"),
        (b"\x89PNG\r\n\x1a\n", "a PNG picture"),
        (b"PK\x03\x04rest", "a ZIP archive"),
        (b'{"type": "gdal_streamed_alg"}', "an XML or JSON text"),
        (b"\x89HDF\r\n\x1a\n", "an HDF5 or netCDF 4 file"),
        (b"hello", "in an unknown format"),
    ],
)
def test_s4_what_is_no_raster_is_named_whatever_it_is_called(
    tmp_path: Path, refuse: Refuse, content: bytes, said: str
) -> None:
    path = tmp_path / "a.tif"
    path.write_bytes(content)
    error = refuse(path)
    assert (error.code, error.message) == (
        "raster.format",
        f"a.tif is {said}, which is not a supported raster format",
    )


def test_a_tiff_that_is_only_a_header_is_damaged(tmp_path: Path, refuse: Refuse) -> None:
    path = tmp_path / "a.tif"
    path.write_bytes(b"II*\x00\x08\x00\x00\x00")
    assert refuse(path).code == "raster.damaged"


def test_a_name_that_disagrees_with_the_content_is_reported(tmp_path: Path) -> None:
    path = make_raster(tmp_path / "a.tif", hills())
    assert codes(look(path, name="scene.jp2")) == ["raster.suffix"]


@pytest.mark.parametrize(
    ("pixels", "kind"),
    [
        (picture(), Kind.RGB),
        (picture(dtype="uint16"), Kind.RGB),
        (picture(bands=4), Kind.NIR),
        (np.concatenate([picture(), np.full((1, 600, 700), 255, "uint8")]), Kind.RGBA),
        (picture(bands=5), Kind.MULTISPECTRAL),
        (hills() / 1000, Kind.CONTINUOUS),
        (hills(), Kind.DEM),
        (hills(dtype="int16"), Kind.DEM),
        (np.random.default_rng(1).normal(50, 9, (1, 600, 700)).astype("float32"), Kind.CONTINUOUS),
        (classes(), Kind.CATEGORICAL),
    ],
)
def test_the_kind_is_seen_in_bands_and_pixels(tmp_path: Path, pixels: Any, kind: Kind) -> None:
    options: dict[str, Any] = {"photometric": "MINISBLACK"} if pixels.shape[0] == 4 else {}
    assert look(make_raster(tmp_path / "a.tif", pixels, **options)).kind == kind


def test_a_declared_kind_refines_and_an_impossible_one_is_refused(tmp_path: Path, refuse: Refuse) -> None:
    path = make_raster(tmp_path / "a.tif", hills())
    assert look(path, raster_type=Kind.FLOOD_DEPTH).kind == Kind.FLOOD_DEPTH
    said = "the raster is declared as rgb, but it has 1 bands of float32; it looks like dem"
    assert refuse(path, raster_type=Kind.RGB).message == said
    assert refuse(path, raster_type=Kind.CATEGORICAL).code == "raster.kind"


def test_r5_the_visual_tier_is_refused_for_what_is_no_8_bit_picture(tmp_path: Path, refuse: Refuse) -> None:
    for pixels in (hills(), picture(dtype="uint16"), classes()):
        path = make_raster(tmp_path / "a.tif", pixels)
        assert refuse(path, tier="visualization").code == "raster.tier"


@pytest.mark.parametrize(
    ("name", "tags", "start", "origin"),
    [
        ("S2A_20240131T101530_B04.tif", {}, datetime(2024, 1, 31, 10, 15, 30, tzinfo=UTC), "name"),
        ("flood_2024-01-31.tif", {}, datetime(2024, 1, 31, tzinfo=UTC), "name"),
        ("landcover_2021.tif", {}, datetime(2021, 1, 1, tzinfo=UTC), "name"),
        ("a.tif", {"ACQUISITION_DATETIME": "2020-05-06T07:08:09Z"}, datetime(2020, 5, 6, 7, 8, 9, tzinfo=UTC), "tags"),
    ],
)
def test_c1_the_time_is_the_datas_own(
    tmp_path: Path, name: str, tags: dict[str, str], start: datetime, origin: str
) -> None:
    found = look(make_raster(tmp_path / "a.tif", hills(), tags=tags), name=name).times
    assert found
    assert (found.moment or found.start, found.origin) == (start, origin)


def test_c1_a_tag_with_a_day_is_that_day_and_no_moment(tmp_path: Path) -> None:
    tags = {"ACQUISITION_DATE": "2019-08-07"}
    found = look(make_raster(tmp_path / "a.tif", hills(), tags=tags)).times
    assert found
    assert (found.moment, found.origin) == (None, "tags")
    assert (found.start, found.end) == (
        datetime(2019, 8, 7, tzinfo=UTC),
        datetime(2019, 8, 7, 23, 59, 59, tzinfo=UTC),
    )


def test_c1_a_tag_with_a_moment_overrides_one_with_a_day(tmp_path: Path) -> None:
    tags = {"ACQUISITION_DATE": "2019-08-07", "datetime": "2019-08-07T10:11:12Z"}
    found = look(make_raster(tmp_path / "a.tif", hills(), tags=tags)).times
    assert found
    assert found.moment == datetime(2019, 8, 7, 10, 11, 12, tzinfo=UTC)


@pytest.mark.parametrize("tag", ["9999-12-31", "0001-01-01T00:00:00+05:00"])
def test_c1_a_tag_at_the_end_of_time_is_passed_over(tmp_path: Path, tag: str) -> None:
    assert look(make_raster(tmp_path / "a.tif", hills(), tags={"datetime": tag})).times is None


@pytest.mark.parametrize("name", ["tile_2048_20481.tif", "dem_20241399.tif", "a.tif", "n45_e015_1arc.tif"])
def test_c1_no_time_is_made_up(tmp_path: Path, name: str) -> None:
    written = {"TIFFTAG_DATETIME": "2024:01:02 03:04:05"}
    assert look(make_raster(tmp_path / "a.tif", hills(), tags=written), name=name).times is None


def test_a_map_of_the_whole_earth_with_corners_beside_it_is_taken(tmp_path: Path) -> None:
    grid = from_bounds(-18_040_096, -9_020_048, 18_040_096, 9_020_048, 700, 600)
    assert look(make_raster(tmp_path / "a.tif", hills(), crs="ESRI:54009", transform=grid)).crs == "ESRI:54009"


def test_r6_a_target_grid_far_larger_than_the_source_is_refused(tmp_path: Path, refuse: Refuse) -> None:
    grid = from_bounds(-180, -80, 180, 80, 700, 300)
    world = make_raster(tmp_path / "a.tif", hills()[:, :300], crs="EPSG:4326", transform=grid)
    error = refuse(world, target_crs="EPSG:2056")
    assert error.code == "raster.reprojection"
    assert error.message.startswith("210,000 pixels become 4,3")
    assert look(world, target_crs="EPSG:4326").width == 700


def test_r6_a_grid_that_loses_most_pixels_is_refused_with_the_numbers(tmp_path: Path, refuse: Refuse) -> None:
    across = make_raster(
        tmp_path / "a.tif", hills(1300, 1000), crs="EPSG:4326", transform=from_bounds(178, -18, 182, -15, 1300, 1000)
    )
    error = refuse(across, target_crs="EPSG:3857")
    assert error.code == "raster.reprojection"
    assert "1,300,000 pixels would become only " in error.message
    assert look(across, target_crs="EPSG:3832").width == 1300
    assert look(across).width == 1300


def test_r6_the_limit_of_pixels_is_that_of_the_cog_too(tmp_path: Path, refuse: Refuse) -> None:
    path = make_raster(tmp_path / "a.tif", hills())
    settings = RasterSettings(raster_max_pixels=600 * 700)
    assert look(path, settings=settings).width == 700
    assert refuse(path, settings=settings, target_crs="EPSG:32634").code == "raster.reprojection"


LOOK = """
import json, sys
from anabranch.plugins.raster.sandbox_functions import look
for target in (None, "EPSG:32634"):
    print(look(path=sys.argv[1], options={"target_crs": target}, settings={}, progress=print)["pixels"])
"""


def test_r6_validation_returns_the_pixels_of_the_cog(tmp_path: Path, publish: Publish) -> None:
    source = make_raster(tmp_path / "a.tif", hills())
    cog, _ = publish(source, target_crs="EPSG:32634")
    program = [sys.executable, "-c", LOOK, str(source)]
    output = subprocess.run(program, env={**gdal_environment(256)}, capture_output=True, text=True, check=True).stdout
    with rasterio.open(cog) as made:
        assert list(map(int, output.split())) == [600 * 700, made.width * made.height]


def test_tr3_masks_of_single_bands_are_refused(tmp_path: Path, refuse: Refuse) -> None:
    masks = np.zeros((3, 64, 64), "uint8")
    masks[0, :32] = masks[1, :, :32] = masks[2] = 255
    found = refuse(band_masked_tiff(tmp_path / "a.tif", picture(64, 64), masks))
    assert found.code == "raster.band_masks"


@pytest.mark.parametrize(("opaque", "reported"), [(255, True), (10000, True), (65535, False)])
def test_tr5_an_alpha_band_that_does_not_use_its_type_is_reported(tmp_path: Path, opaque: int, reported: bool) -> None:
    pixels = picture(bands=4, dtype="uint16")
    pixels[3] = opaque
    source = make_raster(tmp_path / "a.tif", pixels, photometric="RGB", alpha="yes")
    found = [notice.code for notice in validate(source, ValidateOptions()).warnings]
    assert ("raster.alpha_range" in found) == reported


def posterized(levels: int, noise: float = 0.0) -> Any:
    """An aerial photo in few shades of grey."""
    shades = picture(bands=1).astype("float32") + np.random.default_rng(2).normal(0, noise + 1e-6, (1, 600, 700))
    return (np.clip(shades, 0, 255) // (256 / levels)).astype("uint8")


@pytest.mark.parametrize(
    "pixels", [posterized(16), posterized(32, 20.0), posterized(8), np.full((1, 64, 64), 5, "uint8")]
)
def test_tr7_few_values_alone_are_no_classes(tmp_path: Path, publish: Publish, pixels: Any) -> None:
    source = make_raster(tmp_path / "a.tif", pixels)
    found = look(source)
    assert (found.kind, found.discrete, codes(found)) == (Kind.CONTINUOUS, True, ["raster.kind_unsure"])
    assert "different value" in found.why
    cog, options = publish(source)
    verify(source, cog, options)
    with rasterio.open(cog) as src:
        for level in range(len(src.overviews(1))):
            with rasterio.open(cog, OVERVIEW_LEVEL=level) as lower:
                assert set(np.unique(lower.read())) <= set(np.unique(pixels))
    warped, options = publish(source, target_crs="EPSG:3857")
    verify(source, warped, options)


@pytest.mark.parametrize("declared", [Kind.CATEGORICAL, Kind.CONTINUOUS])
def test_tr7_the_caller_says_what_few_values_are(tmp_path: Path, declared: Kind) -> None:
    found = look(make_raster(tmp_path / "a.tif", posterized(16)), raster_type=declared)
    assert (found.kind, found.discrete, codes(found)) == (declared, False, [])
    assert found.why.startswith("raster_type declares it")


@pytest.mark.parametrize("values", [(0, 1), (1, 7, 40), (1, 2, 3, 4, 5, 6, 7, 8, 9, 10)])
def test_tr7_patches_of_few_values_in_no_order_are_classes(tmp_path: Path, values: tuple[int, ...]) -> None:
    found = look(make_raster(tmp_path / "a.tif", classes(values=values)))
    assert (found.kind, found.discrete) == (Kind.CATEGORICAL, False)


@pytest.mark.parametrize(
    ("name", "description", "kind"),
    [
        ("rain.tif", None, Kind.CONTINUOUS),
        ("farm_ndvi_2020.tif", None, Kind.VEGETATION_INDEX),
        ("a.tif", "EVI", Kind.VEGETATION_INDEX),
        ("devil.tif", None, Kind.CONTINUOUS),
    ],
)
def test_tr7_numbers_within_one_are_a_vegetation_index_if_something_says_so(
    tmp_path: Path, name: str, description: str | None, kind: Kind
) -> None:
    said = {"descriptions": (description,)} if description else {}
    found = look(make_raster(tmp_path / "a.tif", hills() / 1000, bands=said), name=name)
    assert found.kind == kind
    assert "within -1 and 1" in found.why


def test_classes_are_detected_by_all_parts_of_a_raster_together(tmp_path: Path) -> None:
    """Each part has two of sixteen classes, which are next to each other there, and far apart in the whole."""
    part = np.repeat(np.arange(512) // 64 % 2, 512).reshape(512, 512).T
    pixels = np.block([[part * 8 + (row + column) % 8 for column in range(8)] for row in range(8)]).astype("uint8")
    path = make_raster(tmp_path / "a.tif", pixels[None], tiled=True, blockxsize=512, blockysize=512, compress="deflate")
    found = look(path)
    assert (found.kind, found.discrete) == (Kind.CATEGORICAL, False)


def test_four_bands_beside_an_alpha_band_are_looked_at_wherever_that_stands(tmp_path: Path) -> None:
    colours = [ColorInterp[name] for name in ("red", "green", "blue", "alpha", "undefined")]
    pixels = picture(bands=5)
    pixels[3] = 255
    assert look(make_raster(tmp_path / "a.tif", pixels, bands={"colorinterp": colours})).kind == Kind.NIR


def test_o4_a_result_of_an_earlier_release_is_read(tmp_path: Path) -> None:
    found = look(make_raster(tmp_path / "a.tif", hills()))
    stored = found.model_dump(mode="json")
    assert Validated.model_validate({"mends": stored.pop("repairs"), **stored}) == found
