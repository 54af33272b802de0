"""Footprints at the edges of the map: past 180 degrees and around the poles."""

import random
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from affine import Affine
from rasterio.crs import CRS
from rasterio.transform import from_origin

from anabranch.geo.boxes import Box, box_of
from anabranch.geo.degrees import to_degrees
from anabranch.plugins.raster.item.footprint import Footprint, footprint
from tests.support.rasters import make_raster

EDGE = 20037508.342789244
Grid = tuple[str, float, float, float, int, int]
KNOWN: list[Grid] = [
    ("EPSG:3857", 19.9e6, 1e5, 1000, 400, 300),
    ("EPSG:3857", 19.7e6, 5e6, 2000, 401, 300),
    ("EPSG:3857", 19.9e6, 5e6, 2000, 401, 300),
    ("EPSG:3857", -20.2e6, 5e6, 1000, 401, 300),
    ("EPSG:3857", -EDGE, 15e6, EDGE / 200, 401, 300),
    ("EPSG:3857", -EDGE, 15e6, EDGE / 200, 400, 300),
    ("EPSG:3571", -4e5, 3e5, 2000, 400, 300),
    ("EPSG:3413", -3e5, 3e5, 1000, 300, 300),  # a corner is at the pole
    ("EPSG:3031", -3e6, 0, 20000, 300, 100),  # a side goes through the pole
    ("EPSG:4326", 0, 60, 1, 360, 30),
    ("EPSG:4326", -180.5, 90, 1, 361, 180),
    ("EPSG:4326", 180, 60, 0.5, 10, 30),
]


def invent(seed: int) -> Grid:
    """Somewhere at an edge of the map, of any size."""
    dice = random.Random(seed)
    crs = dice.choice(["EPSG:4326", "EPSG:3857", "EPSG:3571", "EPSG:3031", "EPSG:3413", "EPSG:32601", "EPSG:32660"])
    width, height, part = dice.randint(1, 200), dice.randint(1, 200), dice.random()
    if crs == "EPSG:4326":
        pixel = 10 ** dice.uniform(-4, -0.5)
        return crs, dice.choice((-180, 180)) - pixel * width * part, dice.uniform(-20, 85), pixel, width, height
    if crs == "EPSG:3857":
        pixel = 10 ** dice.uniform(0, 4.5)
        return crs, dice.choice((-EDGE, EDGE)) - pixel * width * part, dice.uniform(-5e6, 1e7), pixel, width, height
    if crs.startswith("EPSG:326"):
        return crs, dice.uniform(0, 1e6), dice.uniform(1e6, 9e6), 10 ** dice.uniform(0, 3), width, height
    pixel = 10 ** dice.uniform(0, 4.2)
    left, top = pixel * width * (2 * part - 1.5), pixel * height * dice.uniform(-0.5, 1.5)
    return crs, left, top, pixel, width, height


def polygons_of(found: Footprint) -> list[Any]:
    return list(found.coordinates) if found.type == "MultiPolygon" else [found.coordinates]


def sides_of(found: Footprint) -> np.ndarray:
    rings = (ring for polygon in polygons_of(found) for ring in polygon)
    return np.asarray([(*begin, *end) for ring in rings for begin, end in pairwise(ring)])


def border_of(width: int, height: int) -> Iterator[tuple[float, float]]:
    """The corners and the centres of the pixels of the border, a little inside."""
    for x in (*np.arange(width) + 0.5, 0.01, width - 0.01):
        yield from ((x, y) for y in (0.01, 0.5, height - 0.5, height - 0.01))
    for y in np.arange(height) + 0.5:
        yield from ((x, y) for x in (0.01, 0.5, width - 0.5, width - 0.01))


def distances(sides: np.ndarray, lons: np.ndarray, lats: np.ndarray) -> np.ndarray:
    """How far points are outside."""
    x, y, to_x, to_y = sides.T[:, :, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        left_of = ((y > lats) != (to_y > lats)) & (lons < x + (to_x - x) * (lats - y) / (to_y - y))
        along = ((lons - x) * (to_x - x) + (lats - y) * (to_y - y)) / ((to_x - x) ** 2 + (to_y - y) ** 2)
    along = along.clip(0, 1)
    apart = np.hypot(x + along * (to_x - x) - lons, y + along * (to_y - y) - lats).min(axis=0)
    return np.where(left_of.sum(axis=0) % 2 == 1, 0.0, apart)


def crossings(sides: np.ndarray) -> int:
    def side(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
        turn = (b[..., 0] - a[..., 0]) * (c[..., 1] - a[..., 1]) - (b[..., 1] - a[..., 1]) * (c[..., 0] - a[..., 0])
        return np.asarray(np.sign(turn))

    a, b = sides[:, None, :2], sides[:, None, 2:]
    c, d = sides[None, :, :2], sides[None, :, 2:]
    return int(((side(a, b, c) * side(a, b, d) < 0) & (side(c, d, a) * side(c, d, b) < 0)).sum())


def check(found: Footprint, crs: str, grid: Affine, points: list[tuple[float, float]]) -> None:
    """All points are inside, to a tenth of a pixel; the geometry and its bbox follow RFC 7946."""
    lons, lats = to_degrees(CRS.from_string(crs), [grid * point for point in points])
    beside = to_degrees(CRS.from_string(crs), [grid * (x + 1e-3, y + 1e-3) for x, y in points])
    pixel = np.hypot((beside[0] - lons + 180) % 360 - 180, beside[1] - lats) * 1e3 / np.sqrt(2)
    sides = sides_of(found)
    assert (distances(sides, (lons + 180) % 360 - 180, lats) <= pixel / 10 + 1e-7).all()
    assert crossings(sides) == 0
    assert np.abs(sides[:, ::2]).max() <= 180
    assert all(Box(*found.bbox).covers(box_of([polygon])) for polygon in polygons_of(found))


@pytest.mark.parametrize("known", [KNOWN, [invent(seed) for seed in range(24)]], ids=["known", "invented"])
def test_c1_every_pixel_of_the_border_is_in_the_footprint(tmp_path: Path, known: list[Grid]) -> None:
    for crs, left, top, pixel, width, height in known:
        grid = from_origin(left, top, pixel, pixel)
        pixels = np.ones((1, height, width), "uint8")
        found = footprint(make_raster(tmp_path / "a.tif", pixels, crs=crs, transform=grid))
        check(found, crs, grid, list(border_of(width, height)))


def test_c1_a_world_with_a_column_too_many_is_one_band(tmp_path: Path) -> None:
    grid = from_origin(-EDGE, 15e6, EDGE / 200, EDGE / 200)
    found = footprint(make_raster(tmp_path / "a.tif", np.ones((1, 300, 401), "uint8"), crs="EPSG:3857", transform=grid))
    assert (found.type, sides_of(found).shape[0]) == ("Polygon", 4)
    assert (found.bbox[0], found.bbox[2]) == (-180, 180)


def test_c1_the_corners_around_a_pole_are_points_of_the_footprint(tmp_path: Path) -> None:
    grid = from_origin(-4e5, 3e5, 2000, 2000)
    found = footprint(make_raster(tmp_path / "a.tif", np.ones((1, 300, 400), "uint8"), crs="EPSG:3571", transform=grid))
    lons = {lon for lon, lat in sides_of(found)[:, :2].round(2).tolist() if lat == 85.52}
    assert {-126.87, -53.13, 53.13, 126.87} <= lons


@pytest.mark.parametrize(
    ("crs", "grid"),
    [
        ("EPSG:4326", from_origin(-180.5, 60, 0.9, 0.9)),
        ("EPSG:4326", from_origin(0, 60, 0.9, 0.9)),
        ("EPSG:4326", from_origin(178, 60, 0.01, 0.01)),
        ("EPSG:3413", from_origin(-1.8e6, 1e6, 10_000, 10_000)),
        ("EPSG:3031", from_origin(-2e6, 5e5, 10_000, 10_000)),
    ],
)
def test_c1_holes_and_islands_stay_where_they_are_at_the_edges(tmp_path: Path, crs: str, grid: Affine) -> None:
    pixels = np.ones((1, 150, 401), "uint8")
    pixels[0, 30:130, 150:250] = 0
    pixels[0, 60:90, 190:210] = 1
    found = footprint(make_raster(tmp_path / "a.tif", pixels, crs=crs, transform=grid, nodata=0))
    check(found, crs, grid, [*border_of(401, 150), (190.1, 60.1), (209.9, 89.9), (200.0, 75.0)])
    lons, lats = to_degrees(CRS.from_string(crs), [grid * (170, 110)])
    assert distances(sides_of(found), (lons + 180) % 360 - 180, lats)[0] > 0


def test_c1_parts_neither_overlap_nor_touch_at_a_corner(tmp_path: Path) -> None:
    pixels = np.ones((1, 200, 200), "uint8")
    pixels[0, 100:105, 100:105] = 0
    pixels[0, 102, 102] = 1  # in a hole that is too small to be kept
    pixels[0, 20:60, 20:60], pixels[0, 60:90, 60:90] = 0, 0
    grid = from_origin(10, 50, 0.01, 0.01)
    found = footprint(make_raster(tmp_path / "a.tif", pixels, crs="EPSG:4326", transform=grid, nodata=0))
    assert [len(polygon) for polygon in polygons_of(found)] == [3]
    points = [point for ring in polygons_of(found)[0] for point in ring[1:]]
    assert len(points) == len(set(points))


def test_c1_a_map_with_corners_beside_the_earth_is_only_what_is_on_it(tmp_path: Path) -> None:
    grid, crs = from_origin(-20015109, 10007554, 100_000, 100_000), "+proj=sinu +R=6371007.181"
    found = footprint(make_raster(tmp_path / "a.tif", np.ones((1, 200, 100), "uint8"), crs=crs, transform=grid))
    assert crossings(sides_of(found)) == 0
    inside = distances(sides_of(found), np.array([-179.0, -120.0, -10.0, 60.0]), np.array([0.0, 0.0, 80.0, 0.0]))
    assert (inside > 0).tolist() == [False, False, True, True]
