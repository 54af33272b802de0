"""Coordinates of any CRS in degrees or in another CRS."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from rasterio._err import CPLE_BaseError  # rasterio raises it where GDAL fails; it has no public name
from rasterio.crs import CRS
from rasterio.errors import RasterioError
from rasterio.warp import transform

__all__ = ["WGS84", "Floats", "round_trip", "to_degrees", "transform_points"]

Floats = NDArray[np.float64]
Points = Sequence[tuple[float, float]] | Floats
WGS84 = CRS.from_epsg(4326)
ROUND_TRIP_TOLERANCE = 1e-3


def transform_points(source: CRS, target: CRS, points: Points) -> tuple[Floats, Floats]:
    """Points in another CRS; infinite where they have no coordinates in it."""
    try:
        xs, ys = transform(source, target, *np.asarray(points, np.float64).reshape(-1, 2).T.tolist())
    except (RasterioError, CPLE_BaseError):
        if len(points) == 1:
            return np.array([np.inf]), np.array([np.inf])
        each = [transform_points(source, target, [point]) for point in points]
        return np.concatenate([x for x, _ in each]), np.concatenate([y for _, y in each])
    return np.asarray(xs, np.float64), np.asarray(ys, np.float64)


def to_degrees(crs: CRS, points: Points) -> tuple[Floats, Floats]:
    """Longitudes and latitudes of points; infinite for those that are not on Earth."""
    return transform_points(crs, WGS84, points)


def round_trip(crs: CRS, points: Points) -> float | None:
    """How far points shift east or west on a round trip through degrees; None where the shifts differ."""
    degrees = np.transpose(to_degrees(crs, points))
    if not np.isfinite(degrees).all():
        return None
    east, north = np.abs(np.transpose(points) - transform_points(WGS84, crs, degrees))
    near, length = ROUND_TRIP_TOLERANCE * float(np.ptp(points, axis=0).max()), float(east.max())
    same = (east < near) | (east > length - near)
    if not (math.isfinite(length) and same.all() and north.max() < near):
        return None
    return length if length > near else 0.0
