"""Rasters that were wrongly refused, or refused with an unhelpful message."""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
import rasterio.warp
import tifffile
from affine import Affine
from rasterio.crs import CRS
from rasterio.enums import ColorInterp

from anabranch.errors import Permanent
from anabranch.plugins.raster.checks.validate import validate
from anabranch.plugins.raster.cog.verify import verify
from anabranch.plugins.raster.files.drivers import gdal_environment
from anabranch.plugins.raster.files.reader import choose_threads, quiet
from anabranch.plugins.raster.item.footprint import footprint
from anabranch.plugins.raster.item.preview import preview
from anabranch.plugins.raster.item.projection import project
from anabranch.plugins.raster.models import CogOptions, Kind, ValidateOptions
from anabranch.plugins.stac.facts import CODE
from tests.support.rasters import GRID, PLACED, classes, hills, make_raster, picture

Refuse = Callable[..., Permanent]
Publish = Callable[..., tuple[Path, CogOptions]]
SOUTH_UP = Affine(10, 0, 500_000, 0, 10, 4_994_000)


def keyed_tiff(path: Path, *keys: tuple[int, int]) -> Path:
    """A GeoTIFF whose CRS is given by these keys."""
    directory = (1, 1, 1, len(keys), *(part for key, value in keys for part in (key, 0, 1, value)))
    tags = [*PLACED[:2], (34735, "H", len(directory), directory, True)]
    tifffile.imwrite(path, hills()[0], extratags=tags, metadata=None)
    return path


def test_tr9_a_system_of_another_authority_is_published_with_its_definition(tmp_path: Path, publish: Publish) -> None:
    place = Affine(10, 0, 600_000, 0, -10, 6_600_000)
    source = make_raster(tmp_path / "a.tif", hills(), crs="IGNF:LAMB93", transform=place)
    cog, options = publish(source)
    verify(source, cog, options)
    grid = project(cog)
    assert grid.code == "IGNF:LAMB93"
    assert CODE.fullmatch(grid.code)
    assert (grid.projjson or {})["type"] == "ProjectedCRS"


@pytest.mark.parametrize("pixels", [classes(), classes().astype("int16"), hills()], ids=["uint8", "int16", "float32"])
@pytest.mark.parametrize("place", [GRID, SOUTH_UP], ids=["north", "south"])
def test_tr10_a_palette_without_colours_is_none(tmp_path: Path, publish: Publish, pixels: Any, place: Affine) -> None:
    said = {"colorinterp": (ColorInterp.palette,)}
    source = make_raster(tmp_path / "a.tif", pixels, bands=said, transform=place)
    cog, options = publish(source)
    verify(source, cog, options)


@pytest.mark.parametrize("place", [GRID, SOUTH_UP], ids=["north", "south"])
def test_tr11_a_band_without_a_colour_may_be_grey(tmp_path: Path, publish: Publish, place: Affine) -> None:
    source = make_raster(tmp_path / "a.tif", hills(), photometric="MINISWHITE", transform=place)
    with rasterio.open(source) as src:
        assert src.colorinterp == (ColorInterp.undefined,)
    cog, options = publish(source)
    verify(source, cog, options)


def nztm(flattening: str, easting: str = "1600000") -> CRS:
    """New Zealand's CRS as another program wrote it: without codes, and with rounded digits of the ellipsoid."""
    text = re.sub(r',AUTHORITY\["EPSG","\d+"\]', "", CRS.from_epsg(2193).to_wkt())
    return CRS.from_wkt(text.replace("298.257222101", flattening).replace("1600000", easting))


def test_tr12_digits_of_an_ellipsoid_make_no_other_system(tmp_path: Path, publish: Publish) -> None:
    place = Affine(10, 0, 1_500_000, 0, -10, 5_400_000)
    source = make_raster(tmp_path / "a.tif", hills(), crs="EPSG:2193", transform=place)
    cog, options = publish(source)
    rounded = make_raster(tmp_path / "b.tif", hills(), crs=nztm("298.25722"), transform=place)
    with rasterio.open(rounded) as src:
        assert src.crs.to_epsg() is None
    verify(rounded, cog, options)
    moved = make_raster(tmp_path / "c.tif", hills(), crs=nztm("298.25722", "1600001"), transform=place)
    with pytest.raises(Permanent, match="its CRS: EPSG:2193 instead of PROJCS"):
        verify(moved, cog, options)


@pytest.mark.parametrize("target", ["EPSG:3857", "EPSG:32634", "EPSG:4326"])
def test_tr13_what_cubic_resampling_adds_at_edges_is_no_mistake(tmp_path: Path, publish: Publish, target: str) -> None:
    signs = np.array([-1, 1, 1, -1])
    pattern = np.where(np.outer(signs, signs) > 0, 30_000, 20_000).astype("uint16")
    source = make_raster(tmp_path / "a.tif", np.stack([np.tile(pattern, (150, 150))] * 3), photometric="RGB")
    cog, options = publish(source, target_crs=target)
    with rasterio.open(cog) as src:
        assert src.read(1).max() > 30_000
    verify(source, cog, options)


def test_tr13_the_mean_of_few_pixels_may_be_off(tmp_path: Path, publish: Publish) -> None:
    chance = np.random.default_rng(7)
    values = chance.integers(0, 200, (1, 2, 20)).astype("uint16")
    mask = np.where(chance.random((2, 20)) < 0.5, 0, 255).astype("uint8")
    source = make_raster(tmp_path / "a.tif", values, mask=mask)
    cog, options = publish(source, target_crs="EPSG:4326", raster_type=Kind.CONTINUOUS)
    verify(source, cog, options)


def test_r4_no_half_of_the_world_is_left_out(tmp_path: Path, publish: Publish) -> None:
    """Where longitudes are from 0 to 360, and the target has fewer latitudes than the raster."""
    grid = Affine(1, 0, 0, 0, -1, 90)
    source = make_raster(tmp_path / "a.tif", hills(360, 180), crs="EPSG:4326", transform=grid)
    with pytest.raises(Permanent, match="longitudes beyond 180 degrees") as refused:
        publish(source, target_crs="EPSG:3857")
    assert "Set no `target_crs`: the raster is published as it is" in refused.value.remedy


@pytest.mark.parametrize(
    ("crs", "grid"),
    [
        ("EPSG:4326", Affine(0.1, 0, 170, 0, -0.1, 10)),
        ("EPSG:4326", Affine(0.1, 0, -190, 0, -0.1, 10)),
        ("EPSG:32660", Affine(1000, 0, 700_000, 0, -1000, 2_000_000)),
    ],
)
def test_a_raster_across_180_degrees_is_refused_where_the_target_ends_there(
    tmp_path: Path, publish: Publish, refuse: Refuse, crs: str, grid: Affine
) -> None:
    source = make_raster(tmp_path / "a.tif", hills(200, 200), crs=crs, transform=grid)
    found = refuse(source, target_crs="EPSG:3857")
    assert found.message.startswith("the raster crosses 180 degrees, where EPSG:3857 jumps from its east edge")
    assert "Set no `target_crs`" in found.remedy
    for remedy in ({}, {"target_crs": "EPSG:3832"}):
        assert remedy.get("target_crs", "EPSG:3832") in found.remedy
        cog, options = publish(source, **remedy)
        verify(source, cog, options)


@pytest.mark.parametrize(("codec", "name"), [("jpegxl", "JPEG XL"), ("jpeg2000", "JPEG 2000"), ("jpegxr", "JPEG XR")])
def test_tr_a_codec_that_gdal_has_not_is_named(tmp_path: Path, refuse: Refuse, codec: str, name: str) -> None:
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, picture()[0], compression=codec, tile=(64, 64), extratags=PLACED, metadata=None)
    found = refuse(path)
    assert (found.code, f"compressed with {name} (tag 259" in found.message) == ("raster.codec", True)
    assert "gdal_translate" in found.remedy


def test_tr_jpeg_of_12_bits_is_named(tmp_path: Path, refuse: Refuse) -> None:
    path, pixels = tmp_path / "a.tif", picture(704, 640)[0].astype("uint16") * 16
    wide: dict[str, Any] = {"compressionargs": {"bitspersample": 12, "lossless": False}, "bitspersample": 12}
    tifffile.imwrite(path, pixels, compression="jpeg", tile=(64, 64), extratags=PLACED, metadata=None, **wide)
    assert "12-bit JPEG" in refuse(path).message


def test_tr_gdals_message_about_damage_is_reported(tmp_path: Path, refuse: Refuse) -> None:
    source = make_raster(tmp_path / "a.tif", picture(bands=1), tiled=True, compress="deflate")
    with rasterio.open(source) as src:
        offset = int(src.get_tag_item("BLOCK_OFFSET_0_0", "TIFF", bidx=1))
    data = bytearray(source.read_bytes())
    data[offset : offset + 64] = bytes(64)
    source.write_bytes(data)
    assert "Decoding error" in refuse(source).message


def test_tr_heights_of_a_projected_system_are_left_out(tmp_path: Path, publish: Publish) -> None:
    source = keyed_tiff(tmp_path / "a.tif", (1024, 1), (1025, 1), (3072, 32633), (4096, 4979))
    for given in ({}, {"input_crs": "EPSG:32633"}):
        cog, options = publish(source, **given)
        verify(source, cog, options)
        with rasterio.open(cog) as src:
            assert src.crs.to_epsg() == 32633
    with pytest.raises(Permanent, match="the raster is in EPSG:32633, but input_crs is EPSG:32634"):
        publish(source, input_crs="EPSG:32634")


def test_tr_a_failed_comparison_is_said_in_words_and_never_to_be_run_again(tmp_path: Path, publish: Publish) -> None:
    palette = {value: (value, 90, 255 - value, 255) for value in range(256)}
    cog, options = publish(make_raster(tmp_path / "a.tif", classes(), palette=palette))
    other = make_raster(tmp_path / "b.tif", classes(), palette={**palette, 7: (0, 0, 0, 255)})
    plain = make_raster(tmp_path / "c.tif", classes())
    for source, said in (
        (other, "the colours of 1 values, 7 the first"),
        (plain, "its colours: (palette) instead of (gray)"),
    ):
        with pytest.raises(Permanent) as caught:
            verify(source, cog, options)
        assert said in caught.value.message
        assert "ColorInterp" not in caught.value.message
        assert len(caught.value.message) < 400
        assert "running the job again gives the same" in caught.value.remedy


CALLED = """
import sys
from anabranch.errors import Permanent
from anabranch.plugins.raster import sandbox_functions as work
options = {"kind": "dem"}
for call in (
    lambda: work.check(source=sys.argv[1], path=sys.argv[2], options=options, progress=print),
    lambda: work.inspect(
        source=sys.argv[1], path=sys.argv[2], options=options, thumbnail=sys.argv[2] + ".png", progress=print
    ),
):
    try:
        call()
    except Permanent as error:
        print(error.code, "cog.tif" in error.message)
"""


def test_tr_no_error_of_gdal_leaves_as_it_is(tmp_path: Path) -> None:
    """A COG that is not a TIFF is opened by functions that expect our own COGs."""
    source = make_raster(tmp_path / "a.tif", hills())
    (tmp_path / "cog.tif").write_bytes(b"II*\x00 and nothing more")
    program = [sys.executable, "-c", CALLED, str(source), str(tmp_path / "cog.tif")]
    done = subprocess.run(program, env=gdal_environment(), capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == ["raster.library True"] * 2, done.stderr


ALPHAS = {
    "five bands": (picture(bands=5), 255, (3, 4, 0, 0, 6)),
    "float": (picture(bands=2).astype("float32"), 1, (1, 6)),
    "signed": (picture(bands=4).astype("int16"), 255, (3, 4, 5, 6)),
    "nodata too": (np.maximum(picture(bands=4), 1), 255, (3, 4, 5, 6)),
}


@pytest.mark.parametrize("target", [None, "EPSG:4326"])
@pytest.mark.parametrize("case", ALPHAS)
def test_an_alpha_that_gdal_masks_ignore_marks_valid_pixels(
    tmp_path: Path, publish: Publish, case: str, target: str | None
) -> None:
    pixels, opaque, colours = ALPHAS[case]
    pixels = pixels.copy()
    pixels[-1] = opaque
    pixels[-1, :, :350] = 0
    creation: dict[str, Any] = {"nodata": 0} if case == "nodata too" else {}
    bands = {"colorinterp": tuple(map(ColorInterp, colours))}
    source = make_raster(tmp_path / "a.tif", pixels, bands=bands, **creation)
    cog, options = publish(source, target_crs=target)
    found = verify(source, cog, options).bands[0].statistics
    assert found is not None
    assert found.valid_percent == pytest.approx(50, abs=3)
    with rasterio.open(source) as src:
        middle, _ = rasterio.warp.transform(src.crs, "EPSG:4326", *[[value] for value in src.xy(300, 350)])
    west, _, east, _ = footprint(cog).bbox
    assert west == pytest.approx(middle[0], abs=(east - west) / 20)
    preview(cog, tmp_path / "thumbnail.png", options.kind)
    with quiet(), rasterio.open(tmp_path / "thumbnail.png") as thumbnail:
        drawn = thumbnail.read(4) > 0
    assert drawn.mean() == pytest.approx(0.5, abs=0.05)
    assert drawn[:, -20].mean() > 0.8


@pytest.mark.parametrize("option", ["input_crs", "target_crs"])
@pytest.mark.parametrize("code", ["EPSG:4978", "EPSG:5773", "EPSG:9518"], ids=["geocentric", "vertical", "compound"])
def test_a_crs_that_is_no_map_is_refused_by_its_kind(tmp_path: Path, refuse: Refuse, option: str, code: str) -> None:
    source = make_raster(tmp_path / "a.tif", hills(), crs=None if option == "input_crs" else "EPSG:32633")
    error = refuse(source, **{option: code})
    assert error.code == "raster.crs_kind"
    assert f"{option} {code}" in error.message


def test_a_raster_in_a_geocentric_crs_is_refused(tmp_path: Path, refuse: Refuse) -> None:
    assert refuse(make_raster(tmp_path / "a.tif", hills(), crs="EPSG:4978")).code == "raster.crs_local"


def test_a_target_of_another_area_is_a_warning(tmp_path: Path) -> None:
    rome = make_raster(tmp_path / "a.tif", hills(), transform=Affine(10, 0, 300_000, 0, -10, 4_640_000))
    found = {code: validate(rome, ValidateOptions(target_crs=code)).warnings for code in ("EPSG:2056", "EPSG:3035")}
    assert [(notice.code, "Switzerland" in notice.message) for notice in found["EPSG:2056"]] == [
        ("raster.target_area", True)
    ]
    assert found["EPSG:3035"] == ()


@pytest.mark.parametrize("pixels", [hills(720, 360), classes(720, 360)], ids=["values", "classes"])
@pytest.mark.parametrize(
    ("target", "south", "north"), [("EPSG:3857", -85.1, 85.1), ("EPSG:3413", 40, 90), ("EPSG:3031", -90, -40)]
)
def test_a_raster_of_the_world_is_published_as_far_as_its_target_goes(
    tmp_path: Path, publish: Publish, pixels: Any, target: str, south: float, north: float
) -> None:
    source = make_raster(tmp_path / "a.tif", pixels, crs="EPSG:4326", transform=Affine(0.5, 0, -180, 0, -0.5, 90))
    cog, options = publish(source, target_crs=target)
    assert verify(source, cog, options).compared == "every pixel after resampling"
    box = footprint(cog).bbox
    assert box[1] >= south
    assert box[3] <= north
    with rasterio.open(cog) as out:
        assert out.width * out.height > 200_000
    assert "raster.target_area" in [
        notice.code for notice in validate(source, ValidateOptions(target_crs=target)).warnings
    ]


def test_a_reprojection_onto_a_pole_passes_verification(tmp_path: Path, publish: Publish) -> None:
    """The pole has more pixels in degrees than on its map, so the means differ."""
    source = make_raster(
        tmp_path / "a.tif", hills(300, 300), crs="EPSG:4326", transform=Affine(0.2, 0, -30, 0, -0.1, 90)
    )
    cog, options = publish(source, target_crs="EPSG:3413")
    verify(source, cog, options)


@pytest.mark.parametrize("pixels", [hills(1800, 150), classes(1800, 150)], ids=["values", "classes"])
@pytest.mark.parametrize(
    ("target", "north"), [("EPSG:3413", 90), ("EPSG:3995", 90), ("EPSG:3413", 88), ("EPSG:3031", -60)]
)
def test_a_raster_in_degrees_around_a_pole_keeps_its_number_of_pixels(
    tmp_path: Path, publish: Publish, pixels: Any, target: str, north: float
) -> None:
    """GDAL alone would make 48 times as many."""
    grid = Affine(0.2, 0, -180, 0, -0.2, north)
    source = make_raster(tmp_path / "a.tif", pixels, crs="EPSG:4326", transform=grid)
    cog, options = publish(source, target_crs=target)
    assert verify(source, cog, options).overviews
    with rasterio.open(cog) as out:
        assert 0.5 < out.width * out.height / pixels.size < 4
        assert out.res[0] == pytest.approx(out.res[1])
    box = footprint(cog).bbox
    assert (box[0], box[2]) == (-180, 180)
    assert box[1] == pytest.approx(north - 30, abs=0.5)
    assert box[3] == pytest.approx(north, abs=0.5)


def test_r4_a_reprojected_cog_with_one_wrong_pixel_fails_verification(tmp_path: Path, publish: Publish) -> None:
    source = make_raster(tmp_path / "a.tif", hills())
    cog, options = publish(source, target_crs="EPSG:3035")
    with rasterio.open(cog) as out:
        profile, data = out.profile, out.read()
    data[0, 300, 350] += 1
    with rasterio.open(tmp_path / "wrong.tif", "w", **{**profile, "driver": "COG", "overviews": "none"}) as out:
        out.write(data)
    with pytest.raises(Permanent, match="1 values differ from the source"):
        verify(source, tmp_path / "wrong.tif", options)


REHEARSED = """
import sys
from pathlib import Path
from anabranch.plugins.raster import sandbox_functions as work
work.warm_up()
known, (source, folder) = set(sys.modules), sys.argv[1:]
looked = work.look(path=source, options={}, settings={}, progress=print)
options, cog = {"kind": looked["raster"]["kind"]}, f"{folder}/cog.tif"
work.write(source=source, target=cog, options=options, progress=lambda *_: None)
work.inspect(source=source, path=cog, options=options, thumbnail=f"{folder}/a.png", progress=print)
print(sorted(set(sys.modules) - known))
"""


def test_a_call_imports_nothing_that_its_server_could_have_imported(tmp_path: Path) -> None:
    """Every call is a fork of the server: what is imported in it is imported again in the next."""
    source = make_raster(tmp_path / "a.tif", picture(), photometric="RGB")
    program = [sys.executable, "-c", REHEARSED, str(source), str(tmp_path)]
    done = subprocess.run(program, env=gdal_environment(), capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "[]", done.stderr


def test_a_small_raster_gets_one_thread_and_a_large_one_all(tmp_path: Path) -> None:
    small, large = (make_raster(tmp_path / f"{side}.tif", hills(side, side)) for side in (1024, 1040))
    assert (choose_threads(small), choose_threads(large)) == (1, 0)
