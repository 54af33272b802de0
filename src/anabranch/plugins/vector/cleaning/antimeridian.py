"""Geometries that cross the antimeridian, or have longitudes past it, as RFC 7946 wants them (V2)."""

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import shapely
from shapely import LineString, Polygon

from anabranch.geo.boxes import ANTIMERIDIAN, FULL_TURN, POLE

if TYPE_CHECKING:
    import numpy.typing as npt

    from anabranch.plugins.vector.models import Geometries

    Floats = npt.NDArray[np.float64]

__all__ = ["Locate", "cut", "wrap_points"]

Locate = Callable[["Floats"], "Floats"]
# About a tenth of a millimetre: less beyond 180 degrees is noise of a reprojection.
NOISE_DEGREES = 1e-9
# An upright rectangle with corners only may be a wide one as well as a narrow one across the antimeridian.
MAX_RECTANGLE_WIDTH, MAX_RECTANGLE_HEIGHT = 60.0, 90.0
# In longitudes from 0 to 360 degrees, only a side that is nearly a full turn wide crosses 0: by this much at most.
MAX_WIDTH_ACROSS_ZERO = 30.0
MAX_SIDE_AROUND_POLE, MIN_LATITUDE_AROUND_POLE = 90.0, 45.0


def wrap_points(lons: "Floats") -> "Floats":
    """Longitudes from -180 to 180."""
    return np.where(np.abs(lons) > ANTIMERIDIAN, _turn(lons), lons)


def cut(geometry: shapely.Geometry, source: shapely.Geometry | None, locate: Locate | None) -> shapely.Geometry:
    """A line or polygon, or several, between -180 and 180 degrees; the same one if no part crosses.

    Of a projected layer, `source` is the geometry in its own CRS, and `locate` converts that to degrees: they show
    which way a long side goes. In degrees nothing shows it, and sides go the shorter way, unless that leaves no area,
    or goes around the Earth but around no pole, or the polygon is a rectangle of the size of the world. Where all
    longitudes are from 0 to 360, only sides that are nearly a full turn wide do.
    """
    parts = shapely.get_parts(geometry)
    sources = shapely.get_parts(source) if source is not None else [None] * len(parts)
    results = [_cut_part(part, other, locate) for part, other in zip(parts, sources, strict=True)]
    if all(len(found) == 1 and found[0] is part for found, part in zip(results, parts, strict=True)):
        return geometry
    pieces: Geometries = np.array([piece for found in results for piece in found], object)
    is_line = shapely.get_type_id(parts[0]) == shapely.GeometryType.LINESTRING
    return shapely.multilinestrings(pieces) if is_line else shapely.multipolygons(pieces)


def _cut_part(part: shapely.Geometry, source: shapely.Geometry | None, locate: Locate | None) -> list[shapely.Geometry]:
    rings = [_coordinates(ring) for ring in _rings_of(part)]
    others = [_coordinates(ring) for ring in _rings_of(source)] if source is not None else [None] * len(rings)
    unrolled = [_unroll(ring, other, locate) for ring, other in zip(rings, others, strict=True)]
    if locate is None and not _crosses(rings[0], unrolled[0], is_ring=isinstance(part, Polygon)):
        unrolled = rings
    stays = all(after is before for after, before in zip(unrolled, rings, strict=True))
    if stays and np.abs(np.concatenate(rings)[:, 0]).max() <= ANTIMERIDIAN:
        return [part]
    if isinstance(part, LineString):
        return [LineString(piece) for piece in _cut_line(unrolled[0])]
    areas = [_clip(ring, _find_pole(ring, other)) for ring, other in zip(unrolled, others, strict=True)]
    outer, holes = areas[0], shapely.union_all(areas[1:])
    found = shapely.get_parts(outer if holes.is_empty else shapely.difference(outer, holes))
    return list(found[shapely.get_dimensions(found) == 2])


def _rings_of(part: shapely.Geometry) -> list[shapely.Geometry]:
    return [part.exterior, *part.interiors] if isinstance(part, Polygon) else [part]


def _coordinates(ring: shapely.Geometry) -> "Floats":
    found: Floats = shapely.get_coordinates(ring, include_z=bool(ring.has_z))
    return found


def _unroll(ring: "Floats", source: "Floats | None", locate: Locate | None) -> "Floats":
    """The ring with longitudes that continue past 180 where it crosses."""
    lons = ring[:, 0]
    steps = np.diff(lons)
    wide = np.flatnonzero(np.abs(steps) > ANTIMERIDIAN)
    if not wide.size:
        return ring
    turned = _turn(steps[wide])
    if locate is not None and source is not None:
        middle = locate((source[wide, :2] + source[wide + 1, :2]) / 2)[:, 0]
        turned = _turn(middle - lons[wide]) + _turn(lons[wide + 1] - middle)
        straight = ~np.isfinite(middle) | (np.abs(np.abs(turned) - np.abs(steps[wide])) < NOISE_DEGREES)
        turned = np.where(straight, steps[wide], turned)
    laps = np.zeros(len(lons))
    laps[wide + 1] = np.round((turned - steps[wide]) / FULL_TURN)
    goes_around = lons[0] == lons[-1] and laps.sum()
    if locate is None and lons.min() >= 0 and not goes_around:
        laps[wide + 1] *= np.abs(turned) <= MAX_WIDTH_ACROSS_ZERO
    if not laps.any():
        return ring
    unrolled = ring.copy()
    unrolled[:, 0] += FULL_TURN * np.cumsum(laps)
    return _snap(unrolled)


def _turn(lons: "Floats") -> "Floats":
    return np.asarray((lons + ANTIMERIDIAN) % FULL_TURN - ANTIMERIDIAN)


def _snap(ring: "Floats") -> "Floats":
    """The ring with longitudes exactly at the antimeridian where they are next to it."""
    edges = np.round((ring[:, 0] - ANTIMERIDIAN) / FULL_TURN) * FULL_TURN + ANTIMERIDIAN
    ring[:, 0] = np.where(np.abs(ring[:, 0] - edges) < NOISE_DEGREES, edges, ring[:, 0])
    return ring


def _winds(ring: "Floats") -> int:
    """How often a ring goes around the Earth eastward."""
    return round(float(ring[-1, 0] - ring[0, 0]) / FULL_TURN)


def _crosses(ring: "Floats", unrolled: "Floats", *, is_ring: bool) -> bool:
    """Whether the shorter way is meant, by what is left of the shape then."""
    if unrolled is ring:
        return False
    width, height = np.ptp(unrolled[:, :2], axis=0)
    if width < NOISE_DEGREES or (is_ring and _winds(unrolled) and not _surrounds_pole(ring)):
        return False
    corners = np.unique(ring[:, :2], axis=0)
    is_rectangle = is_ring and len(corners) == 4 and all(len(np.unique(axis)) == 2 for axis in corners.T)
    return not is_rectangle or (width <= MAX_RECTANGLE_WIDTH and height < MAX_RECTANGLE_HEIGHT)


def _surrounds_pole(ring: "Floats") -> bool:
    """Whether a ring in degrees goes around a pole: far from the equator, and with one long side, where it crosses.

    A side from -180 to 180 is the edge of a map; a ring with several long sides is drawn on one.
    """
    sides, lats = np.sort(np.abs(np.diff(ring[:, 0]))), ring[:, 1] * np.sign(ring[0, 1])
    crosses_once = ANTIMERIDIAN < sides[-1] < FULL_TURN - NOISE_DEGREES and sides[-2] < MAX_SIDE_AROUND_POLE
    return bool(crosses_once and lats.min() >= MIN_LATITUDE_AROUND_POLE)


def _find_pole(ring: "Floats", source: "Floats | None") -> float:
    """The latitude of the pole inside a ring around it: what is inside lies on the left of a ring to the left."""
    if source is None:
        return float(np.copysign(POLE, ring[0, 1]))
    to_the_left = np.sum(source[:-1, 0] * source[1:, 1] - source[1:, 0] * source[:-1, 1]) > 0
    return POLE if (_winds(ring) > 0) == bool(to_the_left) else -POLE


def _clip(ring: "Floats", pole: float) -> shapely.Geometry:
    """The area inside a ring, from -180 to 180 degrees."""
    if turns := _winds(ring):
        # Over several laps the ring passes both edges of the globe, and is closed far from them.
        lap = np.array([FULL_TURN, 0.0])
        first = ring[:-1, :2] - lap * np.floor((ring[0, 0] + ANTIMERIDIAN) / FULL_TURN)
        line = np.concatenate([first + lap * turns * number for number in (-2, -1, 0, 1)])
        area = shapely.make_valid(Polygon([*line, (line[-1, 0], pole), (line[0, 0], pole)]))
        return shapely.intersection(area, _globe(0))
    area = shapely.make_valid(Polygon(ring), method="structure", keep_collapsed=False)
    return shapely.union_all([_shift(shapely.intersection(area, _globe(lap)), -lap) for lap in _laps(ring[:, 0])])


def _globe(lap: int) -> shapely.Geometry:
    west = FULL_TURN * lap - ANTIMERIDIAN
    return shapely.box(west, -POLE, west + FULL_TURN, POLE)


def _laps(lons: "Floats") -> range:
    first, last = np.floor((lons.min() + ANTIMERIDIAN) / FULL_TURN), np.ceil((lons.max() + ANTIMERIDIAN) / FULL_TURN)
    return range(int(first), int(max(last, first + 1)))


def _shift(geometry: shapely.Geometry, laps: int) -> shapely.Geometry:
    shift = np.array([FULL_TURN * laps, 0.0, 0.0])
    has_z = bool(shapely.has_z(geometry))
    return shapely.transform(geometry, lambda points: points + shift[: points.shape[1]], include_z=has_z)


def _cut_line(line: "Floats") -> Iterator["Floats"]:
    """The pieces of a line between the edges of the globe; each is moved to its place from -180 to 180."""
    for lap in _laps(line[:, 0])[1:]:
        edge = FULL_TURN * lap - ANTIMERIDIAN
        before, after = line[:-1], line[1:]
        at = np.flatnonzero((before[:, 0] - edge) * (after[:, 0] - edge) < 0)
        share = (edge - before[at, 0]) / (after[at, 0] - before[at, 0])
        crossing = before[at] + (after[at] - before[at]) * share[:, None]
        crossing[:, 0] = edge
        line = np.insert(line, at + 1, crossing, axis=0)
    middles = (line[:-1, 0] + line[1:, 0]) / 2
    laps = np.floor((middles + ANTIMERIDIAN) / FULL_TURN)
    starts = [0, *(np.flatnonzero(np.diff(laps)) + 1), len(laps)]
    for first, last in pairwise(starts):
        piece = line[first : last + 1].copy()
        piece[:, 0] -= FULL_TURN * laps[first]
        yield piece
