"""Where a raster lies on an Earth that is round: past 180 degrees, coordinates begin anew."""

import math
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import numpy as np
from rasterio._err import CPLE_BaseError  # what rasterio raises bare where GDAL fails; it has no public name
from rasterio.crs import CRS
from rasterio.errors import RasterioError
from rasterio.warp import transform

__all__ = ["Box", "for_maps", "move", "moves_of", "pixel_in", "turn_of", "within_globe"]

Box = tuple[float, float, float, float]

WGS84 = CRS.from_epsg(4326)
GLOBE, HALF = 360.0, 180.0
NEAR = 1e-9


def turn_of(crs: CRS, box: Box) -> float:
    """The length of once around the Earth in units of a system whose edge a box goes past, or that is in degrees."""
    if crs.is_geographic:
        return 2 * math.pi / float(crs.units_factor[1])
    west, south, east, north = box
    places = [(x, y) for x in (west, (west + east) / 2, east) for y in (south, (south + north) / 2, north)]
    return _round_trip(crs, places)


def moves_of(crs: CRS, box: Box) -> tuple[float, ...]:
    """How far east a raster is moved to be where it is: not at all, and once around where it goes past the edge."""
    turn = turn_of(crs, box)
    inside = crs.is_geographic and max(-box[0], box[2]) <= turn / 2 * (1 + NEAR)
    return (0.0,) if inside or not turn else (0.0, turn, -turn)


def move(box: Box, east: float) -> Box:
    """The box, further east."""
    return box[0] + east, box[1], box[2] + east, box[3]


def within_globe(box: Box) -> Box:
    """The box in degrees from -180 to 180; west is greater than east where it crosses 180, as in GeoJSON."""
    west, south, east, north = box
    if east - west >= GLOBE - NEAR:
        return -HALF, south, HALF, north
    west, east = _turn_back(west), east - (west - _turn_back(west))
    return west, south, east if east <= HALF + NEAR else east - GLOBE, north


def for_maps(tell: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    """What tells a tilejson, whose bounds are then all around the Earth where a raster crosses 180 degrees.

    A map takes bounds whose west is greater than their east for none, and cuts those that end past 180 off there: only
    bounds all around let it ask for tiles on both sides. The center says where the raster is.
    """

    @wraps(tell)
    def told(**asked: Any) -> dict[str, Any]:  # as theirs
        body = tell(**asked)
        west, south, east, north = body["bounds"]
        if west > east:
            body["bounds"] = (-HALF, south, HALF, north)
            body["center"] = (_turn_back((west + east + GLOBE) / 2), (south + north) / 2, body["minzoom"])
        return body

    return told


def pixel_in(crs: CRS, corners: Sequence[tuple[float, float]], source: CRS, turn: float) -> float | None:
    """The side in one system of a pixel between two corners in another; None where there is no such place."""
    try:
        xs, ys = transform(source, crs, [x for x, _ in corners], [y for _, y in corners])
    except (RasterioError, CPLE_BaseError):
        return None
    across = abs(xs[1] - xs[0]) % turn
    side = math.hypot(min(across, turn - across), ys[1] - ys[0]) / math.sqrt(2)
    return side if 0 < side < math.inf else None


def _turn_back(lon: float) -> float:
    return lon - GLOBE * math.floor((lon + HALF + NEAR) / GLOBE)


def _round_trip(crs: CRS, places: Sequence[tuple[float, float]]) -> float:
    """How far east or west of themselves places come back from degrees; 0 where that is not one length for all."""
    try:
        lons, lats = transform(crs, WGS84, [x for x, _ in places], [y for _, y in places])
        back = np.asarray(transform(WGS84, crs, lons, lats))
    except (RasterioError, CPLE_BaseError):
        return 0.0
    east, north = np.abs(np.asarray(places).T - back)
    length = float(east.max())
    near = 1e-6 * length
    same = (east < near) | (east > length - near)
    return length if length > 1 and math.isfinite(length) and same.all() and north.max() < near else 0.0
