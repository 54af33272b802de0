"""Splits rings in degrees at 180, as RFC 7946 requires, and closes them over a pole (C1)."""

import math
from itertools import pairwise

import numpy as np

from anabranch.plugins.raster.outline import Point, Polygon, Ring

__all__ = ["cut", "winds"]

FULL_TURN, ANTIMERIDIAN = 360.0, 180.0
EDGE_TOLERANCE = 1e-7
MIN_AREA_SQUARE_DEGREES = 1e-12
MIN_RING_POINTS = 4  # a triangle, closed


def winds(ring: Ring) -> int:
    """How often a ring goes around the Earth eastward: not at all, or once around a pole."""
    return round((ring[-1][0] - ring[0][0]) / FULL_TURN)


def cut(rings: Polygon, pole: float | None) -> list[Polygon] | None:
    """An outer ring and its holes as polygons from -180 to 180; None where that fails."""
    closed: list[tuple[bool, Ring]] = []
    paths: list[Ring] = [[(ANTIMERIDIAN, pole), (-ANTIMERIDIAN, pole)]] if pole is not None else []
    for number, ring in enumerate(rings):
        runs = _runs([(_snap(lon), lat) for lon, lat in ring])
        if len(runs) == 1 and runs[0][0] == runs[0][-1]:
            closed.append((number > 0, runs[0]))
        else:
            paths += runs
    joined = _join(paths)
    if joined is None:
        return None
    outers = [
        _turn(ring, 1) for ring in [*joined, *(ring for is_hole, ring in closed if not is_hole)] if _is_area(ring)
    ]
    return _assign(outers, [_turn(ring, -1) for is_hole, ring in closed if is_hole and _is_area(ring)])


def _area(ring: Ring) -> float:
    """In square degrees; positive where the ring runs counterclockwise."""
    points = np.asarray(ring)
    return float(np.sum(points[:-1, 0] * points[1:, 1] - points[1:, 0] * points[:-1, 1]) / 2)


def _snap(lon: float) -> float:
    edge = _nearest_edge(lon)
    return edge if abs(lon - edge) < EDGE_TOLERANCE else lon


def _nearest_edge(lon: float) -> float:
    return ANTIMERIDIAN + FULL_TURN * round((lon - ANTIMERIDIAN) / FULL_TURN)


def _is_edge(point: Point) -> bool:
    return point[0] == _nearest_edge(point[0])


def _runs(ring: Ring) -> list[Ring]:
    """The ring's paths from edge to edge of the map, each in -180 to 180; parts along an edge are left out."""
    points = [point for begin, end in pairwise(ring) for point in (begin, *_crossings(begin, end))]
    start = next((at for at, point in enumerate(points) if _is_edge(point)), None)
    if start is None:
        return [_shift([*points, points[0]])]
    lap = FULL_TURN * winds(ring)
    turned = [*points[start:], *((lon + lap, lat) for lon, lat in points[: start + 1])]
    breaks = [at for at, point in enumerate(turned) if _is_edge(point)]
    runs = [turned[begin : end + 1] for begin, end in pairwise(breaks)]
    return [_shift(run) for run in runs if len(run) > 2 or run[0][0] != run[-1][0]]


def _crossings(begin: Point, end: Point) -> Ring:
    (x, y), (to_x, to_y) = begin, end
    low, high = min(x, to_x), max(x, to_x)
    first = math.floor((low - ANTIMERIDIAN) / FULL_TURN) + 1
    edges = [ANTIMERIDIAN + FULL_TURN * lap for lap in range(first, math.ceil((high - ANTIMERIDIAN) / FULL_TURN))]
    return [(edge, y + (to_y - y) * (edge - x) / (to_x - x)) for edge in (edges if x < to_x else edges[::-1])]


def _shift(run: Ring) -> Ring:
    lons = [lon for lon, _ in run]
    lap = FULL_TURN * math.floor(((min(lons) + max(lons)) / 2 + ANTIMERIDIAN) / FULL_TURN)
    return [(lon - lap, lat) for lon, lat in run]


def _join(paths: list[Ring]) -> list[Ring] | None:
    """Rings from paths, joined along the edges of the map: each end to the next one with data between them."""
    partner: dict[tuple[int, int], tuple[int, int]] = {}
    for side in (-ANTIMERIDIAN, ANTIMERIDIAN):
        ends = sorted(
            (path[at][1], number, at) for number, path in enumerate(paths) for at in (0, -1) if path[at][0] == side
        )
        if len(ends) % 2:
            return None
        for (_, *one), (_, *other) in zip(ends[::2], ends[1::2], strict=True):
            partner[one[0], one[1]], partner[other[0], other[1]] = (other[0], other[1]), (one[0], one[1])
    return _follow(paths, partner) if len(partner) == 2 * len(paths) else None


def _follow(paths: list[Ring], partner: dict[tuple[int, int], tuple[int, int]]) -> list[Ring]:
    left, rings = set(range(len(paths))), []
    while left:
        number, at, ring = min(left), 0, []
        while number in left:
            left.remove(number)
            ring += paths[number] if at == 0 else paths[number][::-1]
            number, at = partner[number, -1 if at == 0 else 0]
        rings.append(_close(ring))
    return rings


def _close(ring: Ring) -> Ring:
    """The ring with each point once, and the first one again at its end."""
    points = [point for before, point in pairwise([ring[-1], *ring]) if point != before]
    return [*points, *points[:1]]


def _is_area(ring: Ring) -> bool:
    return len(ring) >= MIN_RING_POINTS and abs(_area(ring)) > MIN_AREA_SQUARE_DEGREES


def _turn(ring: Ring, way: int) -> Ring:
    return ring if _area(ring) * way > 0 else ring[::-1]


def _assign(outers: list[Ring], holes: list[Ring]) -> list[Polygon] | None:
    """Each hole with the ring around it."""
    polygons = [[outer] for outer in outers]
    for hole in holes:
        around = next((polygon for polygon in polygons if _holds(polygon[0], hole[0])), None)
        if around is not None:
            around.append(hole)
    return polygons or None


def _holds(ring: Ring, point: Point) -> bool:
    lon, lat = point
    inside = False
    for (x, y), (to_x, to_y) in pairwise(ring):
        if (y > lat) != (to_y > lat) and lon < x + (to_x - x) * (lat - y) / (to_y - y):
            inside = not inside
    return inside
