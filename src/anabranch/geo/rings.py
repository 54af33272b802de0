"""Rings of a raster's pixels in degrees; longitudes continue past 180 (C1)."""

import math

import numpy as np
import shapely
from affine import Affine
from numpy.typing import NDArray
from rasterio.crs import CRS

from anabranch.geo.boxes import ANTIMERIDIAN, FULL_TURN, POLE, TOLERANCE_DEGREES, Box, find_lap
from anabranch.geo.degrees import Floats, round_trip, to_degrees
from anabranch.geo.globe import winds
from anabranch.geo.outlines import simplify

__all__ = ["apply", "find_extent", "find_pole", "locate", "place"]

POINTS_PER_SIDE = 24
MAX_REFINEMENTS = 24
MAX_POINTS = 20_000
MAX_STEP_DEGREES = 45.0
# How far a line may deviate, as a share of the extent of its ring: a small part of a cell.
SIMPLIFY_TOLERANCE = 1 / 10_000


def find_extent(crs: CRS, grid: Affine, width: int, height: int) -> Box | None:
    """The bounds in degrees, with longitudes that continue past 180; None where the border is not on Earth."""
    border = shapely.box(0, 0, width, height, ccw=False)
    ring = place(shapely.get_coordinates(border), grid, crs, max(width, height))
    if ring is None:
        return None
    (west, south), (east, north) = ring.min(axis=0).tolist(), ring.max(axis=0).tolist()
    if winds(ring):
        pole = find_pole(ring, grid)
        return Box(-ANTIMERIDIAN, min(south, pole), ANTIMERIDIAN, max(north, pole))
    lap = find_lap(west)
    return Box(west - lap, south, east - lap, north)


def find_pole(ring: Floats, grid: Affine) -> float:
    """The latitude of the pole inside a ring around it: it lies on the left, where the map is not mirrored."""
    return math.copysign(POLE, -winds(ring) * grid.determinant)


def locate(points: Floats, grid: Affine, crs: CRS) -> tuple[Floats, Floats]:
    """Points of a grid in degrees."""
    lons, lats = to_degrees(crs, apply(grid, points))
    return lons, np.clip(lats, -POLE, POLE)


def apply(grid: Affine, points: Floats) -> Floats:
    """Points of a grid in the coordinates of its CRS."""
    return np.asarray(points @ np.array([(grid.a, grid.d), (grid.b, grid.e)]) + (grid.c, grid.f))


def place(ring: Floats, grid: Affine, crs: CRS, side: int) -> Floats | None:
    """A ring of cells in degrees, exact to a small part of a cell; None where it has no such coordinates."""
    # Straight lines in one CRS are curves in another.
    points = shapely.get_coordinates(shapely.segmentize(shapely.LineString(ring), side / POINTS_PER_SIDE))
    lons, lats = locate(points, grid, crs)
    if not crs.is_geographic and round_trip(crs, apply(grid, points)) is None:
        return None  # some projections give degrees even for points that are not on Earth
    for _ in range(MAX_REFINEMENTS):
        if not np.isfinite(lons).all():
            return None
        at = np.flatnonzero(_find_bent(points, lons, lats, grid, crs))
        if not at.size or len(points) > MAX_POINTS:
            break
        points = np.insert(points, at + 1, (points[at] + points[at + 1]) / 2, axis=0)
        lons, lats = locate(points, grid, crs)
    return _simplify(_unroll(lons, lats, grid))


def _find_bent(points: Floats, lons: Floats, lats: Floats, grid: Affine, crs: CRS) -> NDArray[np.bool_]:
    """Which segments bend, or span so much longitude that their direction around the Earth is ambiguous."""
    middle_lons, middle_lats = locate((points[:-1] + points[1:]) / 2, grid, crs)
    before, after = _turn(middle_lons - lons[:-1]), _turn(lons[1:] - middle_lons)
    aside, up = np.abs(before - after) / 2, np.abs(middle_lats - (lats[:-1] + lats[1:]) / 2)
    wide, high = np.maximum([np.ptp(np.unwrap(lons, period=FULL_TURN)), np.ptp(lats)], TOLERANCE_DEGREES)
    bent = (
        (aside > SIMPLIFY_TOLERANCE / 2 * wide)
        | (up > SIMPLIFY_TOLERANCE / 2 * high)
        | (np.maximum(np.abs(before), np.abs(after)) > MAX_STEP_DEGREES)
    )
    polar = _is_polar(lats)
    return np.asarray(bent & ~polar[:-1] & ~polar[1:] & np.isfinite(middle_lons))


def _is_polar(lats: Floats) -> NDArray[np.bool_]:
    return np.asarray(np.abs(lats) > POLE - TOLERANCE_DEGREES)


def _turn(lons: Floats) -> Floats:
    """Differences of longitudes by the shorter way around the Earth; zero for points that are not on Earth."""
    return np.asarray((np.where(np.isfinite(lons), lons, 0.0) + ANTIMERIDIAN) % FULL_TURN - ANTIMERIDIAN)


def _unroll(lons: Floats, lats: Floats, grid: Affine) -> Floats:
    """The ring with longitudes that continue past 180; a corner at a pole gets the longitudes of both neighbours."""
    lons, lats = lons[:-1], lats[:-1]
    polar = _is_polar(lats)
    alone = np.flatnonzero(polar & ~np.roll(polar, 1) & ~np.roll(polar, -1))
    earlier, later = np.roll(lons, 1)[alone], np.roll(lons, -1)[alone]
    lons[alone] = later
    lons, around = np.insert(lons, alone, earlier), np.insert(lats, alone, lats[alone])
    turns = _turn(np.diff(np.append(lons, lons[0])))
    # Data are on the left of a ring, so the direction along a pole is known even where the other way is shorter.
    west = lats[alone] * grid.determinant < 0
    turns[alone + np.arange(alone.size)] = (later - earlier) % FULL_TURN - FULL_TURN * west
    turned = lons[0] + np.concatenate([[0.0], np.cumsum(turns)])
    return np.stack([turned, np.append(around, around[0])], axis=1)


def _simplify(ring: Floats) -> Floats:
    first, size = ring.min(axis=0), np.maximum(np.ptp(ring, axis=0), TOLERANCE_DEGREES)
    found = simplify(shapely.LineString((ring - first) / size), SIMPLIFY_TOLERANCE)
    return np.asarray(shapely.get_coordinates(found) * size + first)
