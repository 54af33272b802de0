"""Rasters that only ground control points place: warped where `target_crs` is given."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import rasterio
from rasterio.control import GroundControlPoint

from anabranch.errors import Permanent
from anabranch.plugins.raster.checks.validate import validate
from anabranch.plugins.raster.cog.verify import verify
from anabranch.plugins.raster.files.reader import quiet
from anabranch.plugins.raster.models import CogOptions, ValidateOptions
from tests.support.rasters import hills

CORNERS = ((0, 0), (0, 700), (600, 0), (600, 700))
Publish = Callable[..., tuple[Path, CogOptions]]


def make(path: Path, corners: tuple[tuple[int, int], ...] = CORNERS, turn: float = 0.0) -> Path:
    """A raster of 10 m pixels in UTM, perhaps turned, with a control point at each corner."""
    points = [
        GroundControlPoint(row, col, 500_000 + 10 * col + turn * row, 5_000_000 - 10 * row + turn * col)
        for row, col in corners
    ]
    shape = {"width": 700, "height": 600, "count": 1, "dtype": "float32"}
    with quiet(), rasterio.open(path, "w", driver="GTiff", **shape, gcps=points, crs="EPSG:32633") as out:
        out.write(hills())
    return path


def test_r2_control_points_are_used_with_a_target_crs(tmp_path: Path, publish: Publish) -> None:
    path = make(tmp_path / "a.tif")
    cog, options = publish(path, target_crs="EPSG:32633")
    with rasterio.open(cog) as out:
        assert out.crs.to_epsg() == 32633
        assert out.bounds == pytest.approx((500_000, 4_994_000, 507_000, 5_000_000))
        assert np.allclose(out.read(), hills(), atol=1)
    assert verify(path, cog, options).compared == "every pixel after resampling"


@pytest.mark.parametrize("target", ["EPSG:4326", "EPSG:3857"])
def test_r2_turned_points_and_another_crs(tmp_path: Path, publish: Publish, target: str) -> None:
    path = make(tmp_path / "a.tif", turn=3)
    cog, options = publish(path, target_crs=target)
    verify(path, cog, options)
    with rasterio.open(cog) as out:
        x, y = rasterio.warp.transform("EPSG:32633", target, [500_000 + 3500 + 900], [5_000_000 - 3000 + 1050])
        assert next(out.sample([(x[0], y[0])]))[0] == pytest.approx(hills()[0, 300, 350], abs=5)
    found = validate(path, ValidateOptions(target_crs=target))
    assert [notice.code for notice in found.warnings] == ["raster.control_points"]


def test_without_a_target_crs_the_error_says_so(tmp_path: Path) -> None:
    with pytest.raises(Permanent, match="only 4 ground control points") as refused:
        validate(make(tmp_path / "a.tif"))
    assert refused.value.code == "raster.no_georeference"
    assert refused.value.remedy == "Set `target_crs` to have it warped by them; it may be the CRS of the points."


@pytest.mark.parametrize("corners", [((0, 0), (600, 700)), ((0, 0), (0, 350), (0, 700))])
def test_too_few_points_are_refused(tmp_path: Path, corners: tuple[tuple[int, int], ...]) -> None:
    with pytest.raises(Permanent) as refused:
        validate(make(tmp_path / "a.tif", corners), ValidateOptions(target_crs="EPSG:4326"))
    assert refused.value.code == "raster.no_georeference"
