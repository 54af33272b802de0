"""Rings whose longitudes continue past 180 degrees, as polygons that RFC 7946 allows (C1)."""

import numpy as np
import shapely
from shapely import Polygon

from anabranch.geo.boxes import FULL_TURN, GLOBE, find_lap
from anabranch.geo.degrees import Floats

__all__ = ["COORDINATE_DECIMALS", "cut", "winds"]

COORDINATE_DECIMALS = 7
MIN_AREA_SQUARE_DEGREES = 1e-12


def winds(ring: Floats) -> int:
    """How often a ring goes around the Earth eastward: not at all, or once around a pole."""
    return round(float(ring[-1, 0] - ring[0, 0]) / FULL_TURN)


def cut(rings: list[Floats], pole: float) -> list[Polygon]:
    """An outer ring and its holes as polygons from -180 to 180; none where the rings enclose no such area.

    Rings that go around the Earth are closed over the pole.
    """
    first, *others = map(winds, rings)
    if abs(first) > 1 or any(turns not in (0, -first) for turns in others):
        return []
    outer, *holes = (_clip(ring.round(COORDINATE_DECIMALS), pole) for ring in rings)
    parts = shapely.get_parts(shapely.difference(outer, shapely.union_all(holes)))
    return list(shapely.orient_polygons(parts[shapely.area(parts) > MIN_AREA_SQUARE_DEGREES]))


def _clip(ring: Floats, pole: float) -> shapely.Geometry:
    """The area inside a ring, from -180 to 180 degrees."""
    lap = np.array([FULL_TURN, 0.0])
    ring = ring - (find_lap(ring[0, 0]), 0)
    if turns := winds(ring):
        # Over four laps the ring passes both edges of the globe, and is closed far from them.
        line = np.concatenate([ring[:-1] + lap * turns * number for number in (-2, -1, 0, 1)])
        areas = [Polygon([*line, (line[-1, 0], pole), (line[0, 0], pole)])]
    else:
        areas = [Polygon(ring + lap * number) for number in (-1, 0, 1)]
    return shapely.union_all(shapely.intersection(shapely.make_valid(areas), shapely.box(*GLOBE)))
