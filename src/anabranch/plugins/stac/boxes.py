"""Bounding boxes in WGS 84; one whose west is greater than its east crosses the antimeridian."""

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

__all__ = ["Box", "Ring", "box_of", "covers", "rounded", "unite"]

# A tenth of a millimetre: finer digits are noise of a reprojection.
DECIMALS = 9
ANTIMERIDIAN = 180.0
Ring = Sequence[Sequence[float]]


class Box(NamedTuple):
    """West, south, east and north in degrees."""

    west: float
    south: float
    east: float
    north: float

    @property
    def crosses(self) -> bool:
        """Whether it crosses the antimeridian."""
        return self.west > self.east


def rounded(value: float) -> float:
    """A coordinate as it is published."""
    return round(value, DECIMALS) + 0.0  # minus zero is zero


def box_of(polygons: Sequence[Sequence[Ring]]) -> Box:
    """The box of polygons, each a list of rings; parts that meet at the antimeridian are one area across it."""
    parts = [_box_of_ring(rings[0]) for rings in polygons]
    west, south, east, north = (min(p.west for p in parts), min(p.south for p in parts),
                                max(p.east for p in parts), max(p.north for p in parts))  # fmt: skip
    touching = (
        west <= -ANTIMERIDIAN
        and east >= ANTIMERIDIAN
        and not any(p.west <= -ANTIMERIDIAN and p.east >= ANTIMERIDIAN for p in parts)
    )
    if touching:
        west, east = _arc(parts)
    return Box(west, south, east, north)


def unite(boxes: Sequence[Box]) -> Box:
    """The smallest box around all; minimum and maximum where none crosses the antimeridian (C2)."""
    south, north = min(box.south for box in boxes), max(box.north for box in boxes)
    if any(box.crosses for box in boxes):
        west, east = _arc(boxes)
    else:
        west, east = min(box.west for box in boxes), max(box.east for box in boxes)
    return Box(west, south, east, north)


def covers(outer: Box, inner: Box) -> bool:
    """Whether a box contains another."""
    if not (outer.south <= inner.south and inner.north <= outer.north):
        return False
    wide = list(_pieces(outer))
    return all(any(west <= w and e <= east for west, east in wide) for w, e in _pieces(inner))


def _box_of_ring(ring: Ring) -> Box:
    longitudes, latitudes = [position[0] for position in ring], [position[1] for position in ring]
    return Box(min(longitudes), min(latitudes), max(longitudes), max(latitudes))


def _arc(boxes: Iterable[Box]) -> tuple[float, float]:
    """West and east of the shortest arc that covers all: the circle without its widest gap."""
    merged = _merge(sorted(piece for box in boxes for piece in _pieces(box)))
    gaps = [(after[0] - before[1], after[0], before[1]) for before, after in pairwise(merged)]
    outside = (merged[0][0] + ANTIMERIDIAN) + (ANTIMERIDIAN - merged[-1][1])
    widest = max(gaps, default=(-math.inf, 0.0, 0.0))
    return (merged[0][0], merged[-1][1]) if outside >= widest[0] else widest[1:]


def _pieces(box: Box) -> Iterator[tuple[float, float]]:
    if box.crosses:
        yield -ANTIMERIDIAN, box.east
        yield box.west, ANTIMERIDIAN
    else:
        yield box.west, box.east


def _merge(pieces: list[tuple[float, float]]) -> list[tuple[float, float]]:
    merged = [pieces[0]]
    for west, east in pieces[1:]:
        if west <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(east, merged[-1][1]))
        else:
            merged.append((west, east))
    return merged
