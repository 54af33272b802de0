"""Rasters that cross 180 degrees, where longitudes start again at -180."""

import math
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import numpy as np
from rasterio._err import CPLE_BaseError  # rasterio raises it where GDAL fails; it has no public name
from rasterio.crs import CRS
from rasterio.errors import RasterioError
from rasterio.warp import transform

__all__ = ["Box", "for_maps", "move", "moves_of", "pixel_in", "turn_of", "within_globe"]

Box = tuple[float, float, float, float]

WGS84 = CRS.from_epsg(4326)
FULL_TURN, ANTIMERIDIAN = 360.0, 180.0
TOLERANCE = 1e-9


def turn_of(crs: CRS, box: Box) -> float:
    """The length of a full turn around the Earth, in CRS units; 0 for a projected box that crosses no map edge."""
    if crs.is_geographic:
        return 2 * math.pi / float(crs.units_factor[1])
    west, south, east, north = box
    places = [(x, y) for x in (west, (west + east) / 2, east) for y in (south, (south + north) / 2, north)]
    return _round_trip(crs, places)


def moves_of(crs: CRS, box: Box) -> tuple[float, ...]:
    """The eastward shifts at which a raster is drawn: 0, and a full turn both ways where it crosses the map edge."""
    turn = turn_of(crs, box)
    inside = crs.is_geographic and max(-box[0], box[2]) <= turn / 2 * (1 + TOLERANCE)
    return (0.0,) if inside or not turn else (0.0, turn, -turn)


def move(box: Box, east: float) -> Box:
    """The box, shifted east."""
    return box[0] + east, box[1], box[2] + east, box[3]


def within_globe(box: Box) -> Box:
    """The box in degrees from -180 to 180; west is greater than east where it crosses 180, as in GeoJSON."""
    west, south, east, north = box
    if east - west >= FULL_TURN - TOLERANCE:
        return -ANTIMERIDIAN, south, ANTIMERIDIAN, north
    west, east = _turn_back(west), east - (west - _turn_back(west))
    return west, south, east if east <= ANTIMERIDIAN + TOLERANCE else east - FULL_TURN, north


def for_maps(make_tilejson: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    """Wrap a tilejson function, so that bounds span the whole Earth where a raster crosses 180 degrees.

    Map libraries treat bounds with west greater than east as empty, and clip bounds that end past 180 there: only
    bounds of the whole Earth make them request tiles on both sides. The center shows where the raster is.
    """

    @wraps(make_tilejson)
    def widened(**asked: Any) -> dict[str, Any]:  # of titiler
        body = make_tilejson(**asked)
        west, south, east, north = body["bounds"]
        if west > east:
            body["bounds"] = (-ANTIMERIDIAN, south, ANTIMERIDIAN, north)
            body["center"] = (_turn_back((west + east + FULL_TURN) / 2), (south + north) / 2, body["minzoom"])
        return body

    return widened


def pixel_in(crs: CRS, corners: Sequence[tuple[float, float]], source: CRS, turn: float) -> float | None:
    """The size of a pixel in another CRS, given two corners; None where they can't be transformed."""
    try:
        xs, ys = transform(source, crs, [x for x, _ in corners], [y for _, y in corners])
    except (RasterioError, CPLE_BaseError):
        return None
    across = abs(xs[1] - xs[0]) % turn
    side = math.hypot(min(across, turn - across), ys[1] - ys[0]) / math.sqrt(2)
    return side if 0 < side < math.inf else None


def _turn_back(lon: float) -> float:
    return lon - FULL_TURN * math.floor((lon + ANTIMERIDIAN + TOLERANCE) / FULL_TURN)


def _round_trip(crs: CRS, places: Sequence[tuple[float, float]]) -> float:
    """How far points shift east or west on a round trip through degrees; 0 where the shifts differ."""
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
