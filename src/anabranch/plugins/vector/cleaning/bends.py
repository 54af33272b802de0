"""Sides that are straight in a projection and bent in degrees, most of all near a pole, get vertices (V2)."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import shapely
from shapely import LineString, Polygon

from anabranch.errors import Permanent
from anabranch.geo.boxes import ANTIMERIDIAN, FULL_TURN, POLE

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]
    Mask = npt.NDArray[np.bool_]

__all__ = ["bend", "is_wide", "snap_to_poles"]

Locate = Callable[["Floats"], "Floats"]
# Only shapes with a side over the first get vertices; then none is over the second, at which an area is right to 0.1 %.
WIDE_SIDE_DEGREES, MAX_SIDE_DEGREES = 1.0, 0.5
# How far the middle of a side may deviate, as a share of its length.
TOLERANCE = 1e-3
# A vertex at a pole has the longitudes of both its neighbours: it becomes two, so far (in units of the CRS) from it.
POLE_OFFSET = 1e-3
POLE_NOISE_DEGREES = 2e-8
MAX_VERTICES = 1_000_000


def is_wide(degrees: "Floats") -> "Mask":
    """Which sides between points span many degrees, or begin or end at a pole, where any longitude is right."""
    polar = np.abs(degrees[:, 1]) > POLE - POLE_NOISE_DEGREES
    return np.asarray((np.abs(np.diff(degrees[:, 0])) > WIDE_SIDE_DEGREES) | polar[:-1] | polar[1:])


def bend(geometry: shapely.Geometry, locate: Locate, poles: Sequence["Floats"]) -> shapely.Geometry:
    """A line or polygon of a projection, or several, with vertices where its sides are bent in degrees.

    `locate` converts coordinates to degrees; `poles` are where the poles are, as far as each is one point.
    """
    parts = [_bend_part(part, locate, poles) for part in shapely.get_parts(geometry)]
    if len(parts) == 1 and geometry.geom_type in ("LineString", "Polygon"):
        return parts[0]
    collect = shapely.multilinestrings if isinstance(parts[0], LineString) else shapely.multipolygons
    return collect(np.array(parts, object))


def _bend_part(part: shapely.Geometry, locate: Locate, poles: Sequence["Floats"]) -> shapely.Geometry:
    if isinstance(part, Polygon):
        outer, *holes = (_bend_ring(ring, locate, poles) for ring in (part.exterior, *part.interiors))
        return Polygon(outer, holes)
    return LineString(_bend_ring(part, locate, poles))


def _bend_ring(ring: shapely.Geometry, locate: Locate, poles: Sequence["Floats"]) -> "Floats":
    points: Floats = shapely.get_coordinates(ring, include_z=bool(ring.has_z))
    for pole in poles:
        points = _open_at_pole(_meet_pole(points, pole), pole)
    degrees = locate(points[:, :2])
    while len(points) <= MAX_VERTICES:
        middles = (points[:-1] + points[1:]) / 2
        found = locate(middles[:, :2])
        at = np.flatnonzero(_find_bent(degrees, found) & (_lengths(points) > POLE_OFFSET))
        if not at.size:
            return points
        points = np.insert(points, at + 1, middles[at], axis=0)
        degrees = np.insert(degrees, at + 1, found[at], axis=0)
    raise Permanent(
        f"a feature would have more than {MAX_VERTICES:,} vertices in degrees: its sides go around a pole",
        code="vector.vertices",
        remedy="Simplify the feature or divide it.",
    )


def _meet_pole(points: "Floats", pole: "Floats") -> "Floats":
    """The points, with one at the pole where a side passes over it."""
    start, way = points[:-1, :2] - pole, np.diff(points[:, :2], axis=0)
    share = -np.sum(start * way, axis=1) / np.maximum(np.sum(way**2, axis=1), np.finfo(float).tiny)
    near = np.linalg.norm(start + share[:, None] * way, axis=1) < POLE_OFFSET
    ends = np.linalg.norm(points[:, :2] - pole, axis=1) < 2 * POLE_OFFSET
    at = np.flatnonzero(near & (share > 0) & (share < 1) & ~ends[:-1] & ~ends[1:])
    return np.insert(points, at + 1, points[at] + share[at, None] * (points[at + 1] - points[at]), axis=0)


def _open_at_pole(points: "Floats", pole: "Floats") -> "Floats":
    """The points, with two for each at the pole: on the way from the point before, and on that to the next one."""
    polar = np.linalg.norm(points[:, :2] - pole, axis=1) < POLE_OFFSET
    if not polar.any() or polar.all():
        return points
    is_ring = bool((points[0] == points[-1]).all())
    if is_ring and polar[0]:
        first = int(np.flatnonzero(~polar)[0])
        points = np.concatenate([points[first:-1], points[: first + 1]])
        polar = np.concatenate([polar[first:-1], polar[: first + 1]])
    opened: list[Floats] = []
    for place, point in enumerate(points):
        if not polar[place]:
            opened.append(point)
            continue
        opened += [_towards(point, points[other]) for other in (place - 1, place + 1) if _is_other(other, polar)]
    return np.array(opened)


def _is_other(place: int, polar: "Mask") -> bool:
    return 0 <= place < len(polar) and not polar[place]


def _towards(point: "Floats", other: "Floats") -> "Floats":
    way = other - point
    return np.asarray(point + way * (POLE_OFFSET / np.linalg.norm(way[:2])))


def _find_bent(degrees: "Floats", middles: "Floats") -> "Mask":
    """Which sides span many degrees of longitude, and have their middles elsewhere in degrees."""
    (lons, lats), (middle_lons, middle_lats) = degrees.T, middles.T
    before, after = _turn(middle_lons - lons[:-1]), _turn(lons[1:] - middle_lons)
    wide = np.abs(before) + np.abs(after)
    shrink = np.cos(np.radians(middle_lats))
    aside, up = np.abs(before - after) / 2 * shrink, np.abs(middle_lats - (lats[:-1] + lats[1:]) / 2)
    bent = np.hypot(aside, up) > TOLERANCE * np.hypot(wide * shrink, np.diff(lats))
    return np.asarray((wide > MAX_SIDE_DEGREES) & bent & np.isfinite(middle_lons) & np.isfinite(middle_lats))


def _turn(lons: "Floats") -> "Floats":
    return np.asarray((lons + ANTIMERIDIAN) % FULL_TURN - ANTIMERIDIAN)


def _lengths(points: "Floats") -> "Floats":
    return np.asarray(np.linalg.norm(np.diff(points[:, :2], axis=0), axis=1))


def snap_to_poles(lats: "Floats") -> "Floats":
    """Latitudes exactly at a pole where vertices were put next to it."""
    return np.where(np.abs(lats) > POLE - POLE_NOISE_DEGREES, np.copysign(POLE, lats), lats)
