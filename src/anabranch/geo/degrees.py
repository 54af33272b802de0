"""Coordinates of any CRS in degrees, and back."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from rasterio._err import CPLE_BaseError  # rasterio raises it where GDAL fails; it has no public name
from rasterio.crs import CRS
from rasterio.errors import RasterioError
from rasterio.warp import transform

__all__ = ["WGS84", "Floats", "round_trip", "to_degrees"]

Floats = NDArray[np.float64]
WGS84 = CRS.from_epsg(4326)
ROUND_TRIP_TOLERANCE = 1e-3


def to_degrees(crs: CRS, points: Sequence[tuple[float, float]] | Floats) -> tuple[Floats, Floats]:
    """Longitudes and latitudes of points; infinite for those that are not on Earth."""
    try:
        xs, ys = transform(crs, WGS84, *np.asarray(points, np.float64).reshape(-1, 2).T.tolist())
    except (RasterioError, CPLE_BaseError):
        if len(points) == 1:
            return np.array([np.inf]), np.array([np.inf])
        each = [to_degrees(crs, [point]) for point in points]
        return np.concatenate([lon for lon, _ in each]), np.concatenate([lat for _, lat in each])
    return np.asarray(xs, np.float64), np.asarray(ys, np.float64)


def round_trip(crs: CRS, points: Sequence[tuple[float, float]] | Floats) -> float | None:
    """How far points shift east or west on a round trip through degrees; None where the shifts differ."""
    lons, lats = to_degrees(crs, points)
    try:
        back = np.asarray(transform(WGS84, crs, lons.tolist(), lats.tolist()))
    except (RasterioError, CPLE_BaseError):
        return None
    east, north = np.abs(np.asarray(points).T - back)
    near, length = ROUND_TRIP_TOLERANCE * float(np.ptp(points, axis=0).max()), float(east.max())
    same = (east < near) | (east > length - near)
    if not (math.isfinite(length) and same.all() and north.max() < near):
        return None
    return length if length > near else 0.0
