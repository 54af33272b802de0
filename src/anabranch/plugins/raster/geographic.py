"""Outlines of a raster in geographic coordinates; longitudes continue past 180 degrees (C1)."""

import math
from itertools import pairwise

import numpy as np
from affine import Affine
from rasterio._err import CPLE_BaseError  # rasterio raises it where GDAL fails; it has no public name
from rasterio.crs import CRS
from rasterio.errors import RasterioError
from rasterio.warp import transform

from anabranch.plugins.raster.antimeridian import winds
from anabranch.plugins.raster.crs import WGS84, Degrees, to_degrees
from anabranch.plugins.raster.models import Box
from anabranch.plugins.raster.outline import Polygon, Ring, hull, thin
from anabranch.plugins.raster.pixels import Mask

__all__ = ["border", "find_extent", "find_pole", "hull_of", "place", "round_trip"]

POINTS_PER_SIDE = 24
FULL_TURN, ANTIMERIDIAN, POLE = 360.0, 180.0, 90.0
EDGE_TOLERANCE = 1e-7
MAX_REFINEMENTS = 24
ROUND_TRIP_TOLERANCE = 1e-3
MAX_POINTS = 20_000
MAX_STEP_DEGREES = 45.0
# How far a line may deviate, as a share of the extent of its ring: a small part of a cell.
SIMPLIFY_TOLERANCE = 1 / 10_000


def find_extent(crs: CRS, grid: Affine, width: int, height: int) -> Box | None:
    """The bounds in degrees, with longitudes that continue past 180; None where the border is not on Earth."""
    corners = [(0.0, 0.0), (0.0, 1.0), (1.0, 1.0), (1.0, 0.0), (0.0, 0.0)]
    ring = place([(x * width, y * height) for x, y in corners], grid, crs, max(width, height))
    if ring is None:
        return None
    (west, south), (east, north) = np.min(ring, axis=0).tolist(), np.max(ring, axis=0).tolist()
    if (pole := find_pole([ring], grid)) is not None:
        return -ANTIMERIDIAN, min(south, pole), ANTIMERIDIAN, max(north, pole)
    shift = FULL_TURN * math.floor((west + ANTIMERIDIAN + EDGE_TOLERANCE) / FULL_TURN)
    return west - shift, south, east - shift, north


def find_pole(polygon: Polygon, grid: Affine) -> float | None:
    """The latitude of the pole inside a polygon: it lies left of a ring around it, where the map is not mirrored."""
    if sum(winds(ring) for ring in polygon) == 0:
        return None
    return math.copysign(POLE, -winds(polygon[0]) * grid.determinant)


def border(grid: Affine, width: int, height: int) -> Ring:
    """Points all along the border of a raster."""
    corners = [(0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (0.0, 1.0), (0.0, 0.0)]
    return [grid @ (x * width, y * height) for x, y in _dense(corners, 1 / (2 * POINTS_PER_SIDE))[:-1]]


def hull_of(mask: Mask, grid: Affine, crs: CRS) -> tuple[Degrees, Degrees]:
    """The corners of the outermost cells that are on Earth and not at a pole, where the longitude is undefined."""
    lons, lats = _locate(hull(mask), grid, crs)
    placed = np.abs(lats) < POLE - EDGE_TOLERANCE
    return lons[placed], lats[placed]


def place(ring: Ring, grid: Affine, crs: CRS, side: int) -> Ring | None:
    """A ring of cells in degrees, exact to a small part of a cell; None where it has no such coordinates."""
    points = np.asarray(_dense(ring, side / POINTS_PER_SIDE), float)
    lons, lats = _locate(points, grid, crs)
    if not crs.is_geographic and round_trip(crs, _apply(grid, points)) is None:
        return None  # some projections give degrees even for points that are not on Earth
    for _ in range(MAX_REFINEMENTS):
        if not np.isfinite(lons).all():
            return None
        at = np.flatnonzero(_find_bent(points, lons, lats, grid, crs))
        if not at.size or len(points) > MAX_POINTS:
            break
        points = np.insert(points, at + 1, (points[at] + points[at + 1]) / 2, axis=0)
        lons, lats = _locate(points, grid, crs)
    return _simplify(_unroll(lons, lats, grid))


def round_trip(crs: CRS, points: Ring | np.ndarray) -> float | None:
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


def _dense(ring: Ring, step: float) -> Ring:
    """The ring with a point at every step between its corners: straight lines in one CRS are curves in another."""
    found: Ring = []
    for (x, y), (to_x, to_y) in pairwise(ring):
        parts = math.ceil(math.hypot(to_x - x, to_y - y) / step)
        found += [(x + (to_x - x) * part / parts, y + (to_y - y) * part / parts) for part in range(parts)]
    return [*found, ring[-1]]


def _locate(points: np.ndarray, grid: Affine, crs: CRS) -> tuple[Degrees, Degrees]:
    """Points of a grid in degrees."""
    lons, lats = to_degrees(crs, _apply(grid, points))
    return lons, np.clip(lats, -POLE, POLE)


def _apply(grid: Affine, points: np.ndarray) -> np.ndarray:
    return np.asarray(points @ np.array([(grid.a, grid.d), (grid.b, grid.e)]) + (grid.c, grid.f))


def _find_bent(points: np.ndarray, lons: Degrees, lats: Degrees, grid: Affine, crs: CRS) -> np.ndarray:
    """Which segments bend, or span so much longitude that their direction around the Earth is ambiguous."""
    middle_lons, middle_lats = _locate((points[:-1] + points[1:]) / 2, grid, crs)
    before, after = _turn(middle_lons - lons[:-1]), _turn(lons[1:] - middle_lons)
    aside, up = np.abs(before - after) / 2, np.abs(middle_lats - (lats[:-1] + lats[1:]) / 2)
    wide, high = max(np.ptp(np.unwrap(lons, period=FULL_TURN)), EDGE_TOLERANCE), max(np.ptp(lats), EDGE_TOLERANCE)
    bent = (
        (aside > SIMPLIFY_TOLERANCE / 2 * wide)
        | (up > SIMPLIFY_TOLERANCE / 2 * high)
        | (np.maximum(np.abs(before), np.abs(after)) > MAX_STEP_DEGREES)
    )
    polar = np.abs(lats) > POLE - EDGE_TOLERANCE
    return np.asarray(bent & ~polar[:-1] & ~polar[1:] & np.isfinite(middle_lons))


def _turn(lons: Degrees) -> Degrees:
    """Differences of longitudes by the shorter way around the Earth; zero for points that are not on Earth."""
    return np.asarray((np.where(np.isfinite(lons), lons, 0.0) + ANTIMERIDIAN) % FULL_TURN - ANTIMERIDIAN)


def _unroll(lons: Degrees, lats: Degrees, grid: Affine) -> Ring:
    """The ring with longitudes that continue past 180; a corner at a pole gets the longitudes of both neighbours."""
    lons, lats = lons[:-1], lats[:-1]
    polar = np.abs(lats) > POLE - EDGE_TOLERANCE
    alone = np.flatnonzero(polar & ~np.roll(polar, 1) & ~np.roll(polar, -1))
    earlier, later = np.roll(lons, 1)[alone], np.roll(lons, -1)[alone]
    lons[alone] = later
    lons, around = np.insert(lons, alone, earlier), np.insert(lats, alone, lats[alone])
    turns = _turn(np.diff(np.append(lons, lons[0])))
    # Data are on the left of a ring, so the direction along a pole is known even where the other way is shorter.
    west = lats[alone] * grid.determinant < 0
    turns[alone + np.arange(alone.size)] = (later - earlier) % FULL_TURN - FULL_TURN * west
    turned = lons[0] + np.concatenate([[0.0], np.cumsum(turns)])
    return list(zip(turned.tolist(), [*around.tolist(), float(around[0])], strict=True))


def _simplify(ring: Ring) -> Ring:
    points = np.asarray(ring)
    first, size = points.min(axis=0), np.maximum(np.ptp(points, axis=0), EDGE_TOLERANCE)
    thinned = (
        np.asarray(thin([(x, y) for x, y in ((points - first) / size).tolist()], SIMPLIFY_TOLERANCE)) * size + first
    )
    return [(lon, lat) for lon, lat in thinned.tolist()]
