"""Every overview of a COG shows the same as the full raster; a COG with another overview is refused."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
import tifffile
from rasterio.enums import Resampling
from rasterio.shutil import copy

from anabranch.errors import Permanent
from anabranch.plugins.raster.cog.verify import verify
from anabranch.plugins.raster.cog.write import write_cog
from anabranch.plugins.raster.models import CogOptions, Kind, Profile
from tests.support.rasters import classes, hills, make_raster, picture

Publish = Callable[..., tuple[Path, CogOptions]]


def level_of(cog: Path, level: int) -> Any:
    with rasterio.open(cog, OVERVIEW_LEVEL=level) as src:
        return src.read()


def make_stale(path: Path, pixels: Any, **creation: Any) -> Path:
    """A raster whose own overviews show something else."""
    make_raster(path, pixels[:, ::-1, ::-1], **creation)
    with rasterio.open(path, "r+") as out:
        out.build_overviews([2, 4], Resampling.nearest)
        out.write(pixels)
    return path


def copy_with_its_overviews(source: Path, target: Path) -> Path:
    """A COG with the overviews of its source, as only another program would write it."""
    with rasterio.open(source) as src:
        copy(src, target, driver="COG", COMPRESS="ZSTD", OVERVIEWS="FORCE_USE_EXISTING")
    return target


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64"])
@pytest.mark.parametrize("size", [(1500, 1400), (1025, 513)])
def test_tr1_overviews_of_classes_keep_a_negative_nodata(
    tmp_path: Path, publish: Publish, dtype: str, size: tuple[int, int]
) -> None:
    pixels = classes(*size, values=(0, 1, 2)).astype(dtype)
    pixels[0, :, : size[0] // 2] = -1
    pixels[0, 100, 100] = 2
    source = make_raster(tmp_path / "a.tif", pixels, nodata=-1)
    cog, options = publish(source, raster_type=Kind.CATEGORICAL)
    assert len(verify(source, cog, options).overviews) >= 1
    first = level_of(cog, 0)
    assert (first == -1).mean() == pytest.approx(0.5, abs=0.01)
    assert set(np.unique(first)) == {-1, 0, 1, 2}
    assert first[0, 50, 50] == 2, "one pixel with data is seen beside three without"


def test_tr1_a_cog_whose_overviews_lost_their_nodata_is_refused(tmp_path: Path) -> None:
    pixels = classes(1500, 1400, values=(0, 1, 2)).astype("int16")
    pixels[0, :, :700] = -9999
    source, cog = make_raster(tmp_path / "a.tif", pixels, nodata=-9999), tmp_path / "cog.tif"
    holed = np.where(pixels == -9999, 0, pixels)
    make_raster(tmp_path / "b.tif", holed, nodata=-9999)
    with rasterio.open(tmp_path / "b.tif", "r+") as out:
        out.build_overviews([2, 4], Resampling.nearest)
        out.write(pixels)
    copy_with_its_overviews(tmp_path / "b.tif", cog)
    with pytest.raises(Permanent, match=r"overview 0 \(750 x 700\).* have data where the level above has none"):
        verify(source, cog, CogOptions(kind=Kind.CATEGORICAL))


@pytest.mark.parametrize("pixels", [hills(400, 300), picture(400, 300), classes(400, 300)], ids=["dem", "rgb", "map"])
def test_tr2_overviews_of_a_small_source_are_not_copied(tmp_path: Path, publish: Publish, pixels: Any) -> None:
    source = make_stale(tmp_path / "a.tif", pixels)
    cog, options = publish(source)
    assert verify(source, cog, options).overviews == ()
    with tifffile.TiffFile(cog) as file:
        assert len(file.pages) == 1


@pytest.mark.parametrize("size", [(400, 300), (1100, 900)])
@pytest.mark.parametrize("kind", [Kind.DEM, Kind.RGB, Kind.CATEGORICAL])
def test_tr2_a_cog_with_a_false_overview_is_refused(tmp_path: Path, kind: Kind, size: tuple[int, int]) -> None:
    """Even where every value of the overview is one that the raster has."""
    made: dict[Kind, Callable[..., Any]] = {Kind.DEM: hills, Kind.RGB: picture, Kind.CATEGORICAL: classes}
    source = make_stale(tmp_path / "a.tif", made[kind](*size))
    cog = copy_with_its_overviews(source, tmp_path / "cog.tif")
    with pytest.raises(Permanent, match="overview 0"):
        verify(source, cog, CogOptions(kind=kind))


@pytest.mark.parametrize("size", [(1, 1), (700, 600), (1025, 1300), (1027, 2051), (3, 1200)])
@pytest.mark.parametrize("nodata", [None, 0, -7], ids=["plain", "zero", "negative"])
@pytest.mark.parametrize("kind", [Kind.DEM, Kind.CATEGORICAL])
def test_tr2_what_we_write_passes_at_every_size(
    tmp_path: Path, size: tuple[int, int], nodata: int | None, kind: Kind
) -> None:
    values = np.random.default_rng(5).integers(1, 9, (1, *size[::-1])).astype("int32")
    if nodata is not None:
        values[np.random.default_rng(6).random(values.shape) < 0.6] = nodata
    source, cog = make_raster(tmp_path / "a.tif", values, nodata=nodata), tmp_path / "cog.tif"
    options = CogOptions(kind=kind)
    write_cog(source, cog, options)
    verify(source, cog, options)


@pytest.mark.parametrize("profile", list(Profile))
@pytest.mark.parametrize("how", ["mask", "alpha", "nodata"])
def test_tr2_masks_and_alpha_of_every_level_are_compared(
    tmp_path: Path, publish: Publish, profile: Profile, how: str
) -> None:
    hidden = np.random.default_rng(4).random((300, 1100)) < 0.5
    pixels = picture(1100, 300, bands=4 if how == "alpha" else 3)
    if how == "alpha":
        pixels[3] = np.where(hidden, 0, 255)
    elif how == "nodata":
        pixels[:, hidden] = 0
    more: dict[str, dict[str, Any]] = {
        "mask": {"mask": np.where(hidden, 0, 255).astype("uint8")},
        "alpha": {"alpha": "yes"},
        "nodata": {"nodata": 0},
    }
    source = make_raster(tmp_path / "a.tif", pixels, photometric="RGB", **more[how])
    cog, options = publish(source, profile)
    assert verify(source, cog, options).overviews == (2, 4)


def test_tr2_a_visual_picture_with_a_mask_and_a_nodata_value_has_a_mask(tmp_path: Path, publish: Publish) -> None:
    mask = np.full((600, 700), 255, "uint8")
    mask[:, :70] = 0
    source = make_raster(tmp_path / "a.tif", picture(), mask=mask, nodata=3, photometric="RGB")
    cog, options = publish(source, Profile.VISUALIZATION)
    verify(source, cog, options)


@pytest.mark.parametrize(
    "size",
    [(512, 1300), (1024, 2600), (1025, 3000), pytest.param((2048, 4100), marks=pytest.mark.slow), (256, 700)],
)
def test_tr8_a_portrait_raster_whose_level_is_one_block_wide_is_a_cog(
    tmp_path: Path, publish: Publish, size: tuple[int, int]
) -> None:
    source = make_raster(tmp_path / "a.tif", hills(*size))
    cog, options = publish(source)
    assert verify(source, cog, options).compared == "every pixel"


def test_tr8_a_cog_with_strips_is_refused(tmp_path: Path) -> None:
    source = make_raster(tmp_path / "a.tif", hills(512, 1300))
    with pytest.raises(Permanent, match="not tiled"):
        verify(source, source, CogOptions(kind=Kind.DEM))


@pytest.mark.parametrize("size", [(1, 1300), (1300, 1), (2, 1300), (1, 513)])
def test_tr14_a_raster_of_one_column_or_row_is_published(
    tmp_path: Path, publish: Publish, size: tuple[int, int]
) -> None:
    source = make_raster(tmp_path / "a.tif", hills(*size))
    cog, options = publish(source, raster_type=Kind.CONTINUOUS)
    factors = verify(source, cog, options).overviews
    assert factors == tuple(sorted(set(factors)))
    assert factors[0] == 2
