"""Maps apply alpha: transparent pixels are hidden, partly transparent ones keep their colours, opaque ones drawn."""

from pathlib import Path
from typing import Any

import imagecodecs
import numpy as np
import pytest

from anabranch.serving.tiles.geotiff import GeoTiff
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


@pytest.mark.parametrize("crs", [None, "EPSG:3857"])
def test_tr4_partly_transparent_pixels_keep_their_colour(tmp_path: Path, crs: str | None) -> None:
    alpha = np.full((64, 64), 255)
    alpha[:20], alpha[20:40] = 0, 128
    shown = draw(write(tmp_path / "a.tif", alpha, "uint8"), **({"dst_crs": crs} if crs else {}))
    assert shown[30, 32].tolist() == [127, 127, 127, 128]
    assert shown[50, 32].tolist() == [127, 127, 127, 255]
    assert shown[10, 32, 3] == 0


@pytest.mark.parametrize("crs", [None, "EPSG:3857"])
@pytest.mark.parametrize(("dtype", "opaque"), [("uint16", 255), ("uint16", 4095), ("uint16", 65535), ("uint8", 1)])
def test_tr5_alpha_is_opaque_where_it_is_highest(tmp_path: Path, dtype: str, opaque: int, crs: str | None) -> None:
    alpha = np.full((64, 64), opaque)
    alpha[:20] = 0
    shown = draw(write(tmp_path / "a.tif", alpha, dtype), **({"dst_crs": crs} if crs else {}))
    assert shown[50, 32].tolist() == [127, 127, 127, 255]
    assert shown[10, 32, 3] == 0


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
