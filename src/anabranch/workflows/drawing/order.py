"""The order of the items in each row, with few crossings: barycenter sweeps that keep the order of ties."""

from bisect import bisect_right, insort
from collections.abc import Sequence
from dataclasses import replace

from anabranch.workflows.drawing.grid import Grid

__all__ = ["crossings", "untangle"]

SWEEPS = 12
LARGE = 10_000
Rows = list[list[int]]


def untangle(grid: Grid) -> Grid:
    """The grid with its rows reordered; an order is given up only for one with fewer crossings."""
    rows = [list(row) for row in grid.rows]
    place = _places(rows, grid.size)
    best, fewest = grid.rows, crossings(rows, grid.below, place)
    for _ in range(SWEEPS if grid.size < LARGE else 2):
        if fewest == 0:
            break
        before = [tuple(row) for row in rows]
        _sweep(rows[1:], grid.above, place)
        _sweep(rows[-2::-1], grid.below, place)
        if (found := crossings(rows, grid.below, place)) < fewest:
            best, fewest = tuple(map(tuple, rows)), found
        if before == [tuple(row) for row in rows]:
            break
    return replace(grid, rows=best)


def crossings(rows: Rows, below: Sequence[Sequence[int]], place: Sequence[int]) -> int:
    """How many pairs of edges cross between the rows."""
    found = 0
    for row in rows:
        passed: list[int] = []
        for item in row:
            heads = sorted(place[head] for head in below[item])
            found += sum(len(passed) - bisect_right(passed, head) for head in heads)
            for head in heads:
                insort(passed, head)
    return found


def _places(rows: Rows, size: int) -> list[int]:
    place = [0] * size
    for row in rows:
        for index, item in enumerate(row):
            place[item] = index
    return place


def _sweep(rows: Rows, neighbours: Sequence[Sequence[int]], place: list[int]) -> None:
    # An item without neighbours on this side has no wish: it holds its place, and the others share the rest.
    for row in rows:
        moved = [item for item in row if neighbours[item]]
        wish = {item: sum(place[other] for other in neighbours[item]) / len(neighbours[item]) for item in moved}
        turn = iter(sorted(moved, key=wish.__getitem__))
        row[:] = [next(turn) if neighbours[item] else item for item in row]
        for index, item in enumerate(row):
            place[item] = index
