"""Rasters across 180 degrees and over a pole are drawn completely, and can be queried on both sides."""

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import rasterio
from affine import Affine
from rio_tiler.errors import PointOutsideBounds, TileOutsideBounds

from anabranch.errors import InputError
from anabranch.geo.boxes import Box
from anabranch.serving.tiles.antimeridian import for_maps
from anabranch.serving.tiles.geotiff import GeoTiff

SIDE = 64
WEST, EAST = 10, 20  # the values of a raster's halves
MERIDIAN = 20037508.342789244


@dataclass(frozen=True)
class Case:
    """A raster whose middle column lies near 180 degrees."""

    name: str
    crs: str
    box: tuple[float, float, float, float]
    lat: float
    zoom: int

    def write(self, folder: Path) -> str:
        """Its file: one value in its western half, and another in its eastern."""
        west, south, east, north = self.box
        data = np.full((1, SIDE, SIDE), WEST, "uint8")
        data[..., SIDE // 2 :] = EAST
        grid = Affine((east - west) / SIDE, 0, west, 0, (south - north) / SIDE, north)
        shape = {"width": SIDE, "height": SIDE, "count": 1, "dtype": "uint8"}
        with rasterio.open(folder / "c.tif", "w", driver="GTiff", crs=self.crs, transform=grid, **shape) as file:
            file.write(data)
        return str(folder / "c.tif")


CASES = [
    Case("beyond_180", "EPSG:4326", (170, -10, 190, 10), 1, 2),
    Case("before_180", "EPSG:4326", (-190, -10, -170, 10), 1, 2),
    Case("around_the_world", "EPSG:4326", (0, -80, 360, 80), 1, 0),
    Case("utm_1", "EPSG:32701", (100000, 7900000, 260000, 8060000), -18.2, 6),
    Case("utm_60", "EPSG:32760", (740000, 7900000, 900000, 8060000), -18.2, 6),
    Case("pacific_mercator", "EPSG:3832", (2939584, -400000, 3739584, 400000), 1, 4),
    Case("web_mercator", "EPSG:3857", (MERIDIAN - 400000, -400000, MERIDIAN + 400000, 400000), 1, 4),
    Case("equal_area", "EPSG:6933", (16967530, -400000, 17767530, 400000), 1, 4),
    # From the pole 180 degrees is down here, so the side on the right of the meridian is in the west of the image.
    Case("south_pole", "EPSG:3031", (-3e6, -3e6, 3e6, 3e6), -75, 0),
]


class ForMap(NamedTuple):
    """What a map reads of a tilejson."""

    bounds: tuple[float, ...]
    center: tuple[float, ...]


def for_map(bounds: tuple[float, ...], grid: str = "WebMercatorQuad", *, minzoom: int = 2, maxzoom: int = 5) -> ForMap:
    found = for_maps(lambda **_: {"bounds": bounds, "minzoom": minzoom, "maxzoom": maxzoom})(tileMatrixSetId=grid)
    return ForMap(found["bounds"], found["center"])


@pytest.fixture(params=CASES, ids=lambda case: case.name)
def case(request: pytest.FixtureRequest) -> Case:
    found: Case = request.param
    return found


def sides(case: Case) -> tuple[int, int]:
    """The values on this side of 180 degrees and on the other."""
    return (EAST, WEST) if case.name == "south_pole" else (WEST, EAST)


def test_tiles_are_drawn_on_both_sides_of_180_degrees(case: Case, tmp_path: Path) -> None:
    with GeoTiff(case.write(tmp_path)) as raster:
        for lon, value in zip((179.6, -179.6), sides(case), strict=True):
            tile = raster.tms.tile(lon, case.lat, 11)
            assert set(raster.tile(*tile, tilesize=64).array.compressed()) == {value}


def test_the_tile_of_the_world_shows_both_sides(case: Case, tmp_path: Path) -> None:
    with GeoTiff(case.write(tmp_path)) as raster:
        world = raster.tile(0, 0, 0, tilesize=256).array[0]
    for part, value in zip((world[:, 128:], world[:, :128]), sides(case), strict=True):
        shown = part.compressed()
        assert shown.size
        assert np.mean(shown == value) > 0.9


def test_a_point_is_found_however_its_longitude_is_counted(case: Case, tmp_path: Path) -> None:
    here, there = sides(case)
    with GeoTiff(case.write(tmp_path)) as raster:
        for lon, value in ((179.9, here), (-180.1, here), (180.1, there), (-179.9, there)):
            assert raster.point(lon, case.lat).array.tolist() == [value], lon


def test_zooms_are_those_of_its_pixels(case: Case, tmp_path: Path) -> None:
    with GeoTiff(case.write(tmp_path)) as raster:
        assert (raster.minzoom, raster.maxzoom) == (case.zoom, case.zoom)


def test_a_raster_counted_past_180_is_where_it_is_and_nowhere_else(tmp_path: Path) -> None:
    with GeoTiff(Case("far", "EPSG:4326", (190, -10, 200, 10), 0, 0).write(tmp_path)) as raster:
        assert raster.get_geographic_bounds(raster.crs) == (-170, -10, -160, 10)
        assert raster.tile(*raster.tms.tile(-166, 1, 6)).array.count()
        with pytest.raises(TileOutsideBounds):
            raster.tile(*raster.tms.tile(166, 1, 6))
        with pytest.raises(PointOutsideBounds):
            raster.point(170.0, 1.0)


def test_a_mask_is_kept_where_two_sides_meet(tmp_path: Path) -> None:
    path = CASES[0].write(tmp_path)
    with rasterio.open(path, "r+") as file:
        file.nodata = EAST
    with GeoTiff(path) as raster:
        assert set(raster.tile(0, 0, 0).array.compressed()) == {WEST}
        assert not raster.tile(*raster.tms.tile(-179.7, 1, 10)).array.count()


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ((170, 190), (170, -170)),
        ((-190, -170), (170, -170)),
        ((0, 360), (-180, 180)),
        ((-180.25, 179.75), (-180, 180)),
        ((-180, 180), (-180, 180)),
        ((179, 180), (179, 180)),
        ((180, 181), (-180, -179)),
        ((9, 10), (9, 10)),
        ((179, -179), (179, -179)),
    ],
)
def test_c1_bounds_in_degrees_cross_180_as_geojson_says(given: tuple[float, float], found: tuple[float, float]) -> None:
    assert Box(given[0], -1, given[1], 1).within_globe() == (found[0], -1, found[1], 1)


def test_a_map_gets_bounds_that_it_understands_and_the_center() -> None:
    assert for_map((170, -10, -160, 10)) == ((-180, -10, 180, 10), (-175, 0, 2))
    assert for_map((9, 47, 10, 48)) == ((9, 47, 10, 48), (9.5, 47.5, 2))


def test_the_center_of_a_polar_raster_is_where_the_grid_has_tiles() -> None:
    edge = 85.0511
    assert for_map((0, 80, 20, 90)).center == pytest.approx((10, (80 + edge) / 2, 2), abs=1e-4)
    assert for_map((160, -90, -160, -80)).center == pytest.approx((-180, -(80 + edge) / 2, 2), abs=1e-4)
    assert for_map((0, 88, 20, 90)).center == pytest.approx((10, edge, 2), abs=1e-4)
    assert for_map((0, 80, 20, 90), "WorldCRS84Quad").center == (10, 85, 2)


def test_zooms_in_the_wrong_order_are_refused() -> None:
    with pytest.raises(InputError, match="minzoom 9 is greater than maxzoom 4"):
        for_map((9, 47, 10, 48), minzoom=9, maxzoom=4)
