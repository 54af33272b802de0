"""Statistics by exact fractions of pixels, compared with values that were computed by hand."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
import shapely
from rasterio.transform import from_origin
from rasterio.warp import transform_geom

from anabranch.errors import Permanent
from anabranch.plugins.zonal.models import BandStatistics, Statistic
from anabranch.plugins.zonal.statistics import Measures, measure

VALUES = np.array([[1, 2, 3], [4, 5, 6], [7, 8, -1]], "float32")  # -1 is nodata


def make_raster(path: Path, pixels: Any = VALUES, west: float = 10, north: float = 50, side: float = 1,
                crs: str = "EPSG:4326", **more: Any) -> Path:  # fmt: skip
    profile = {"driver": "GTiff", "count": 1, "dtype": pixels.dtype, "height": len(pixels), "width": len(pixels[0])}
    with rasterio.open(
        path, "w", **profile, crs=crs, transform=from_origin(west, north, side, side), **{"nodata": -1, **more}
    ) as raster:
        raster.write(pixels, 1)
    return path


def run(path: Path, *polygons: shapely.Geometry, statistics: Any = tuple(Statistic), band: int = 1) -> Measures:
    wanted = BandStatistics(band=band, statistics=statistics)
    return measure(path, np.array(polygons, object), wanted, 256, lambda *_: None)


def test_pixels_count_by_the_share_that_a_polygon_covers(tmp_path: Path) -> None:
    """A box over half of the pixel 1, all of 2, a quarter of 4 and half of 5."""
    box = shapely.box(10.5, 48.5, 12, 50)
    (row,) = run(make_raster(tmp_path / "a.tif"), box).columns.to_pylist()
    shares, values = np.array([0.5, 1, 0.25, 0.5]), np.array([1, 2, 4, 5])
    mean = (shares * values).sum() / shares.sum()
    assert row["count"] == pytest.approx(2.25)
    assert row["sum"] == pytest.approx(6.0)
    assert row["mean"] == pytest.approx(mean)
    assert row["variance"] == pytest.approx((shares * (values - mean) ** 2).sum() / shares.sum())
    assert row["stdev"] == pytest.approx(row["variance"] ** 0.5)
    assert (row["min"], row["max"], row["majority"], row["minority"], row["variety"]) == (1, 5, 2, 4, 4)
    assert row["p05"] <= row["p10"] <= row["p25"] <= row["median"] <= row["p75"] <= row["p90"] <= row["p95"]


def test_what_has_no_data_is_null_and_noted(tmp_path: Path) -> None:
    found = run(make_raster(tmp_path / "a.tif"), shapely.box(12.2, 47.2, 12.8, 47.8), shapely.box(80, 0, 81, 1),
                shapely.box(11, 47, 13, 48))  # fmt: skip
    assert found.outside.tolist() == [False, True, False]
    assert found.without_data.tolist() == [True, False, False]
    nothing, outside, half = found.columns.to_pylist()
    assert nothing == outside == {name.value: None for name in Statistic} | {"count": 0}
    assert (half["count"], half["sum"]) == (1, 8)


def test_masks_scales_and_bands_are_respected(tmp_path: Path) -> None:
    path = make_raster(tmp_path / "a.tif", VALUES.astype("int16"), nodata=None)
    with rasterio.open(path, "r+") as raster:
        raster.scales, raster.offsets = (0.5,), (10,)
        raster.write_mask(VALUES > 1)
    (row,) = run(path, shapely.box(10, 49, 13, 50), statistics=("sum", "count")).columns.to_pylist()
    assert row == {"sum": 11 + 11.5, "count": 2}
    with pytest.raises(Permanent, match="the raster has 1 bands, and no band 2"):
        run(path, shapely.box(10, 49, 13, 50), band=2)


def test_polygons_are_reprojected_and_those_far_away_need_no_place_in_the_crs(tmp_path: Path) -> None:
    """The world covers all pixels, though most of it has no coordinates in UTM."""
    path = make_raster(tmp_path / "a.tif", np.ones((4, 4), "uint8"), 500_000, 5_600_000, 1_000, "EPSG:25832", nodata=0)
    inner = {"type": "Polygon", "coordinates": [[(501_000, 5_597_500), (503_000, 5_597_500), (503_000, 5_599_000),
                                                 (501_000, 5_599_000), (501_000, 5_597_500)]]}  # fmt: skip
    box = shapely.geometry.shape(transform_geom("EPSG:25832", "EPSG:4326", inner))
    found = run(path, box, shapely.box(-180, -90, 180, 90), shapely.box(-60, -10, -50, 0)).columns.to_pylist()
    assert [row["count"] for row in found] == [pytest.approx(3.0, abs=1e-3), 16, 0]


def test_a_raster_past_180_degrees_meets_polygons_on_both_sides(tmp_path: Path) -> None:
    path = make_raster(tmp_path / "a.tif", np.arange(1, 5, dtype="uint8")[None], 178, 1, 1, nodata=0)
    both = shapely.MultiPolygon([shapely.box(179, 0, 180, 1), shapely.box(-180, 0, -179, 1)])
    found = run(path, shapely.box(178, 0, 180, 1), shapely.box(-180, 0, -178, 1), both, statistics=("sum",))
    assert [row["sum"] for row in found.columns.to_pylist()] == [3, 7, 5]


def test_a_rotated_raster_is_refused(tmp_path: Path) -> None:
    path = make_raster(tmp_path / "a.tif")
    with rasterio.open(path, "r+") as raster:
        raster.transform = raster.transform * raster.transform.rotation(10)
    with pytest.raises(Permanent, match="rotated, sheared or mirrored") as caught:
        run(path, shapely.box(10, 49, 13, 50))
    assert caught.value.code == "zonal.rotated"
