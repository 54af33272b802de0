"""Pictures have the alpha of their raster and the colors of rio-tiler."""

import time
from pathlib import Path
from typing import Any

import imagecodecs
import numpy as np
import pytest
from rio_tiler.colormap import apply_cmap
from rio_tiler.models import ImageData

from anabranch.serving.tiles import geotiff
from anabranch.serving.tiles.colormap import apply_colormap
from anabranch.serving.tiles.geotiff import GeoTiff
from anabranch.serving.tiles.rescale import RescaleRanges, wanted_of
from tests.support.rasters import make_raster


def draw(path: Path, **options: Any) -> Any:
    """The picture of a whole raster as a map shows it, in 8 bits."""
    with GeoTiff(str(path), draws=True) as raster:
        image = raster.read(max_size=64, **options)
        return imagecodecs.png_decode(image.rescale(((0, 200),)).render(img_format="PNG"))


def write(path: Path, alpha: Any, dtype: str) -> Path:
    pixels = np.zeros((4, 64, 64), dtype)
    pixels[:3] = 100
    pixels[3] = alpha
    return make_raster(path, pixels, photometric="RGB", alpha="yes", tiled=True, blockxsize=64, blockysize=64)


async def test_p5_the_range_of_a_file_in_place_is_that_of_its_version(tmp_path: Path) -> None:
    ranges, found = RescaleRanges(), list[tuple[float, float]]()
    for version, height in (("1", 0), ("2", 1_000)):
        path = make_raster(tmp_path / "a.tif", np.full((1, 64, 64), height, "int16"))
        wanted = wanted_of("bronze://a.tif", [], version)
        assert wanted

        async def locate(path: Path = path) -> Path:
            return path

        found += await ranges.find(wanted, (), locate)
    assert [low for low, _ in found] == [0, 1_000]


@pytest.mark.parametrize("crs", [None, "EPSG:3857"])
def test_tr4_partly_transparent_pixels_keep_their_colour(tmp_path: Path, crs: str | None) -> None:
    alpha = np.full((64, 64), 255)
    alpha[:20], alpha[20:40] = 0, 128
    shown = draw(write(tmp_path / "a.tif", alpha, "uint8"), **({"dst_crs": crs} if crs else {}))
    assert shown[30, 32].tolist() == [127, 127, 127, 128]
    assert shown[50, 32].tolist() == [127, 127, 127, 255]
    assert shown[10, 32, 3] == 0


@pytest.mark.parametrize("crs", [None, "EPSG:3857"])
@pytest.mark.parametrize(
    ("dtype", "opaque"),
    [("uint16", 255), ("uint16", 4095), ("uint16", 10000), ("uint16", 65535), ("uint8", 1), ("float32", 100)],
)
def test_tr5_alpha_is_opaque_where_it_is_highest(tmp_path: Path, dtype: str, opaque: int, crs: str | None) -> None:
    alpha = np.full((64, 64), opaque)
    alpha[:20], alpha[20:24] = 0, opaque // 2
    shown = draw(write(tmp_path / "a.tif", alpha, dtype), **({"dst_crs": crs} if crs else {}))
    assert shown[50, 32].tolist() == [127, 127, 127, 255]
    assert shown[10, 32, 3] == 0


def test_tr5_alpha_of_another_type_than_the_picture_is_drawn_in_a_part_of_a_tile(tmp_path: Path) -> None:
    with GeoTiff(str(write(tmp_path / "a.tif", np.full((64, 64), 100), "float32")), draws=True) as raster:
        tile = raster.tms.tile(*raster.get_geographic_bounds(raster.tms.rasterio_geographic_crs).middle, 8)
        image = raster.tile(*tile, tilesize=256)
    assert set(np.unique(image.mask)) == {0, 255}


@pytest.mark.parametrize(("dtype", "highest", "shown"), [("uint8", 116, 116), ("uint16", 32768, 127)])
def test_tr5_alpha_whose_highest_value_is_rare_is_not_opaque_there(
    tmp_path: Path, dtype: str, highest: int, shown: int
) -> None:
    alpha = np.linspace(0, highest, 64).round()[None].repeat(64, 0)
    assert draw(write(tmp_path / "a.tif", alpha, dtype))[50, 63, 3] == shown


@pytest.mark.parametrize(
    ("bands", "nodata", "wanted"), [(3, 7, None), (5, None, None), (3, None, (2,)), (5, 7, (1, 2))]
)
def test_ts1_a_tile_of_half_the_earth_costs_no_more_than_the_raster_in_it(
    tmp_path: Path, bands: int, nodata: int | None, wanted: tuple[int, ...] | None
) -> None:
    """Some bands of many, or a mask of several: GDAL would warp the whole tile at the raster's resolution."""
    pixels = np.full((bands, 300, 400), 100, "uint8")
    pixels[:, :, :200] = 7
    with GeoTiff(str(make_raster(tmp_path / "a.tif", pixels, nodata=nodata)), draws=True) as raster:
        tile = raster.tms.tile(*raster.get_geographic_bounds(raster.tms.rasterio_geographic_crs).middle, 3)
        began = time.process_time()
        image = raster.tile(*tile, indexes=wanted, tilesize=256)
        assert time.process_time() - began < 5
    shown = ~np.ma.getmaskarray(image.array)
    assert image.array.shape == (len(wanted or (1, 2, 3)), 256, 256)
    assert 0 < shown.sum() <= 4 * image.count


@pytest.mark.parametrize("zoom", [8, 10, 12])
def test_a_small_part_of_a_tile_is_where_the_raster_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, zoom: int
) -> None:
    path = write(tmp_path / "a.tif", np.full((64, 64), 255), "uint8")
    with GeoTiff(str(path), draws=True) as raster:
        tile = raster.tms.tile(*raster.get_geographic_bounds(raster.tms.rasterio_geographic_crs).middle, zoom)
        part = raster.tile(*tile, tilesize=512)
        monkeypatch.setattr(geotiff, "SMALL_SHARE", 0)
        whole = raster.tile(*tile, tilesize=512)
    assert part.bounds == whole.bounds
    assert np.array_equal(part.alpha_mask, whole.alpha_mask)
    assert np.array_equal(part.array.filled(0), whole.array.filled(0))


def test_tr5_values_under_wide_alpha_are_counted(tmp_path: Path) -> None:
    with GeoTiff(str(write(tmp_path / "a.tif", np.full((64, 64), 255), "uint16"))) as raster:
        assert raster.statistics(indexes=[1])["b1"].valid_percent == 100


@pytest.mark.parametrize(("dtype", "opaque"), [("uint8", 116), ("uint16", 255), ("uint16", 1), ("float32", 1)])
def test_tr5_a_point_has_values_wherever_alpha_is_not_zero(tmp_path: Path, dtype: str, opaque: int) -> None:
    alpha = np.full((64, 64), opaque)
    alpha[:20] = 0
    with GeoTiff(str(write(tmp_path / "a.tif", alpha, dtype))) as raster:
        points = [raster.dataset.xy(row, 32) for row in (10, 50)]
        hidden, shown = (raster.point(*point, coord_crs=raster.crs).array for point in points)
    assert hidden.mask.all()
    assert shown.tolist()[:3] == [100, 100, 100]


RANDOM = np.random.default_rng(1)


def colors(count: int) -> list[tuple[int, ...]]:
    return [tuple(map(int, color)) for color in RANDOM.integers(0, 256, (count, 4))]


VALUES = dict(zip(RANDOM.permutation(300)[:120].tolist(), colors(120), strict=True))
NEGATIVE = {-5: (1, 2, 3, 4), 7: (5, 6, 7, 8), 7.5: (9, 9, 9, 9)}
INTERVALS = [
    ((low, low + width), color) for low, width, color in zip(range(0, 250, 5), [3, 9] * 25, colors(50), strict=True)
]


@pytest.mark.parametrize("dtype", ["uint8", "int16", "uint16", "float32"])
@pytest.mark.parametrize("colormap", [VALUES, NEGATIVE, INTERVALS, [((0, 1), (1, 1, 1, 255))]])
def test_colors_are_those_of_rio_tiler(colormap: Any, dtype: str) -> None:
    values = RANDOM.integers(0, 256, (1, 40, 50)).astype(dtype)
    hidden = RANDOM.random(values.shape) < 0.1
    expected, alpha = apply_cmap(values, colormap)
    found = apply_colormap(ImageData(np.ma.MaskedArray(values, hidden)), colormap)
    np.testing.assert_array_equal(found.array.data, expected)
    np.testing.assert_array_equal(found.alpha_mask, np.where(hidden[0], 0, alpha))


def test_not_a_number_has_no_color() -> None:
    values = np.array([[[np.nan, 0.5, np.inf]]], "float32")
    for colormap in ({0.5: (1, 2, 3, 255)}, [((0, 1), (1, 2, 3, 255))]):
        found = apply_colormap(ImageData(np.ma.MaskedArray(values)), colormap)
        assert found.alpha_mask is not None
        assert found.alpha_mask.tolist() == [[0, 255, 0]]
