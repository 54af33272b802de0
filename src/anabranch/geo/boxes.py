"""Bounding boxes in degrees of WGS 84; one whose west is greater than its east crosses the antimeridian."""

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Self

__all__ = ["ANTIMERIDIAN", "FULL_TURN", "GLOBE", "POLE", "TOLERANCE_DEGREES", "Box", "box_of", "find_lap", "unite"]

FULL_TURN, ANTIMERIDIAN, POLE = 360.0, 180.0, 90.0
# About a centimetre: smaller differences are noise of a reprojection.
TOLERANCE_DEGREES = 1e-7


class Box(NamedTuple):
    """West, south, east and north in degrees."""

    west: float
    south: float
    east: float
    north: float

    @classmethod
    def of(cls, numbers: Sequence[float]) -> Self:
        """The box of four numbers, or of six, where a height follows each pair."""
        return cls(*numbers[:2], *numbers[len(numbers) // 2 :][:2])

    @property
    def crosses(self) -> bool:
        """Whether it crosses the antimeridian."""
        return self.west > self.east

    @property
    def spans(self) -> list[tuple[float, float]]:
        """West and east of its part, or of its two parts, between -180 and 180 degrees."""
        if self.crosses:
            return [(self.west, ANTIMERIDIAN), (-ANTIMERIDIAN, self.east)]
        return [(self.west, self.east)]

    @property
    def middle(self) -> tuple[float, float]:
        """Longitude and latitude of its middle."""
        lon = (self.west + self.east + FULL_TURN * self.crosses) / 2
        return lon - find_lap(lon), (self.south + self.north) / 2

    @property
    def goes_around(self) -> bool:
        """Whether it has all longitudes."""
        return self.east - self.west >= FULL_TURN - 10 * TOLERANCE_DEGREES

    def within_globe(self) -> Self:
        """The box with longitudes from -180 to 180, of one whose longitudes continue past 180."""
        if self.goes_around:
            return self._replace(west=-ANTIMERIDIAN, east=ANTIMERIDIAN)
        lap = find_lap(self.west)
        west, east = max(self.west - lap, -ANTIMERIDIAN), self.east - lap
        if east > ANTIMERIDIAN:
            east = ANTIMERIDIAN if east < ANTIMERIDIAN + TOLERANCE_DEGREES else east - FULL_TURN
        return self._replace(west=west, east=east)

    def covers(self, other: Self, tolerance: float = 0.0) -> bool:
        """Whether it contains another box, which may reach beyond it by the tolerance."""
        if self.south - tolerance > other.south or self.north + tolerance < other.north:
            return False
        wide = [(west - tolerance, east + tolerance) for west, east in self.spans]
        return all(any(west <= w and e <= east for west, east in wide) for w, e in other.spans)

    def to_geojson(self) -> dict[str, Any]:
        """Its area, cut at 180 degrees."""
        _, south, _, north = self
        rings = [[(w, south), (e, south), (e, north), (w, north), (w, south)] for w, e in self.spans]
        return {"type": "MultiPolygon", "coordinates": [[ring] for ring in rings]}


GLOBE = Box(-ANTIMERIDIAN, -POLE, ANTIMERIDIAN, POLE)


def find_lap(lon: float) -> float:
    """The full turns, in degrees, between a longitude and the same one from -180 to 180."""
    return FULL_TURN * math.floor((lon + ANTIMERIDIAN + TOLERANCE_DEGREES) / FULL_TURN)


def box_of(polygons: Iterable[Sequence[Sequence[Sequence[float]]]]) -> Box:
    """The box of polygons, each a list of rings; parts that meet at the antimeridian are one area across it."""
    sides = [list(zip(*outer, strict=True)) for outer, *_ in polygons]
    parts = [Box(min(lons), min(lats), max(lons), max(lats)) for lons, lats in sides]
    touching = {(part.west <= -ANTIMERIDIAN, part.east >= ANTIMERIDIAN) for part in parts}
    return _surround(parts, across=touching >= {(True, False), (False, True)} and (True, True) not in touching)


def unite(boxes: Sequence[Box]) -> Box:
    """The smallest box around all; minimum and maximum where none crosses the antimeridian (C2)."""
    return _surround(boxes, across=any(box.crosses for box in boxes))


def _surround(boxes: Sequence[Box], *, across: bool) -> Box:
    west, east = min(box.west for box in boxes), max(box.east for box in boxes)
    if across:
        west, east = _find_shortest_arc(boxes)
    return Box(west, min(box.south for box in boxes), east, max(box.north for box in boxes))


def _find_shortest_arc(boxes: Sequence[Box]) -> tuple[float, float]:
    """West and east of the circle without its widest gap."""
    spans = sorted(span for box in boxes for span in box.spans)
    west, east = spans[0][0], max(east for _, east in spans)
    widest, reached = FULL_TURN - (east - west), spans[0][1]
    for begin, end in spans:
        if begin - reached > widest:
            widest, west, east = begin - reached, begin, reached
        reached = max(reached, end)
    return west, east
