"""Rasters that cross 180 degrees, where longitudes start again at -180."""

import math
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from morecantile import tms
from rasterio.crs import CRS
from rio_tiler.types import BBox

from anabranch.errors import InputError
from anabranch.geo.boxes import ANTIMERIDIAN, Box
from anabranch.geo.degrees import round_trip, transform_points

__all__ = ["for_maps", "moves_of", "pixel_in", "turn_of"]

TOLERANCE = 1e-9


def turn_of(crs: CRS, box: BBox) -> float:
    """The length of a full turn around the Earth, in CRS units; 0 for a projected box that crosses no map edge."""
    if crs.is_geographic:
        return 2 * math.pi / float(crs.units_factor[1])
    west, south, east, north = box
    places = [(x, y) for x in (west, (west + east) / 2, east) for y in (south, (south + north) / 2, north)]
    return round_trip(crs, places) or 0.0


def moves_of(crs: CRS, box: BBox) -> tuple[float, ...]:
    """The eastward shifts at which a raster is drawn: 0, and a full turn both ways where it crosses the map edge."""
    turn = turn_of(crs, box)
    inside = crs.is_geographic and max(-box[0], box[2]) <= turn / 2 * (1 + TOLERANCE)
    return (0.0,) if inside or not turn else (0.0, turn, -turn)


def for_maps(make_tilejson: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    """Wrap a tilejson function, so that bounds span the whole Earth where a raster crosses 180 degrees.

    Map libraries treat bounds with west greater than east as empty, and clip bounds that end past 180 there: only
    bounds of the whole Earth make them request tiles on both sides. The center shows where the raster is, in the part
    of it that the grid has: that of Web Mercator ends at 85 degrees.
    """

    @wraps(make_tilejson)
    def widened(**asked: Any) -> dict[str, Any]:  # of titiler
        body = make_tilejson(**asked)
        if body["minzoom"] > body["maxzoom"]:
            message = f"minzoom {body['minzoom']} is greater than maxzoom {body['maxzoom']}"
            raise InputError("raster.query", message, remedy="Swap them, or leave them out.")
        box, grid = Box(*body["bounds"]), tms.get(asked["tileMatrixSetId"]).bbox
        south, north = (min(max(side, grid.bottom), grid.top) for side in (box.south, box.north))
        body["center"] = (*box._replace(south=south, north=north).middle, body["minzoom"])
        if box.crosses:
            body["bounds"] = (-ANTIMERIDIAN, box.south, ANTIMERIDIAN, box.north)
        return body

    return widened


def pixel_in(crs: CRS, corners: Sequence[tuple[float, float]], source: CRS, turn: float) -> float | None:
    """The size of a pixel in another CRS, given two corners; None where they can't be transformed."""
    xs, ys = (values.tolist() for values in transform_points(source, crs, corners))
    across = abs(xs[1] - xs[0]) % turn
    side = math.hypot(min(across, turn - across), ys[1] - ys[0]) / math.sqrt(2)
    return side if 0 < side < math.inf else None
