"""Where each item stands in its row: the four alignments of Brandes and Köpf (2001), and their median."""

from collections.abc import Sequence
from graphlib import TopologicalSorter
from itertools import pairwise

from anabranch.workflows.drawing.grid import Grid

__all__ = ["place"]

Rows = Sequence[Sequence[int]]
Pairs = set[tuple[int, int]]


def place(grid: Grid, widths: Sequence[float]) -> list[float]:
    """The middle of every item, at least half of both widths from its neighbours; the leftmost edge is at 0."""
    if not grid.size:
        return []
    crossed = _crossed(grid)
    drafts = [_draft(grid, widths, crossed, up, mirrored) for up in (False, True) for mirrored in (False, True)]
    spans = [(min(draft), max(draft)) for draft in drafts]
    low, high = min(spans, key=lambda span: span[1] - span[0])
    shifts = [high - last if index % 2 else low - first for index, (first, last) in enumerate(spans)]
    middles = []
    for item in range(grid.size):
        wishes = sorted(draft[item] + shift for draft, shift in zip(drafts, shifts, strict=True))
        middles.append((wishes[1] + wishes[2]) / 2)
    edge = min(middle - width / 2 for middle, width in zip(middles, widths, strict=True))
    return [middle - edge for middle in middles]


def _crossed(grid: Grid) -> Pairs:
    # The segments that cross the middle of a long edge: they give way, so that long edges run straight.
    order = {item: index for row in grid.rows for index, item in enumerate(row)}
    found: Pairs = set()
    for upper, lower in pairwise(grid.rows):
        left, start = 0, 0
        for index, item in enumerate(lower):
            inner = item >= grid.vertices and grid.above[item][0] >= grid.vertices
            if not inner and index < len(lower) - 1:
                continue
            right = order[grid.above[item][0]] if inner else len(upper)
            for head in lower[start : index + 1]:
                for tail in grid.above[head]:
                    if not left <= order[tail] <= right and min(head, tail) < grid.vertices:
                        found.add((tail, head))
            left, start = right, index + 1
    return found


def _draft(grid: Grid, widths: Sequence[float], crossed: Pairs, up: bool, mirrored: bool) -> list[float]:
    rows: Rows = [row[::-1] for row in grid.rows] if mirrored else grid.rows
    neighbours = grid.below if up else grid.above
    if up:
        crossed = {(head, tail) for tail, head in crossed}
    roots = _align(rows[::-1] if up else rows, neighbours, crossed, grid.size)
    middles = _compact(rows, roots, widths)
    return [-middle for middle in middles] if mirrored else middles


def _align(rows: Rows, neighbours: Sequence[Sequence[int]], crossed: Pairs, size: int) -> list[int]:
    """For each item, the first of the block that stands in one line with it."""
    order = [0] * size
    for row in rows:
        for index, item in enumerate(row):
            order[item] = index
    roots = list(range(size))
    for row in rows:
        taken = -1
        for item in row:
            others = sorted(neighbours[item], key=order.__getitem__)
            for other in others[(len(others) - 1) // 2 : len(others) // 2 + 1]:
                if roots[item] == item and taken < order[other] and (other, item) not in crossed:
                    roots[item] = roots[other]
                    taken = order[other]
    return roots


def _compact(rows: Rows, roots: Sequence[int], widths: Sequence[float]) -> list[float]:
    before: dict[int, dict[int, float]] = {root: {} for root in roots}
    after: dict[int, dict[int, float]] = {root: {} for root in roots}
    for row in rows:
        for left, right in pairwise(row):
            apart = max((widths[left] + widths[right]) / 2, before[roots[right]].get(roots[left], 0))
            before[roots[right]][roots[left]] = after[roots[left]][roots[right]] = apart
    blocks = list(TopologicalSorter(before).static_order())
    at: dict[int, float] = {}
    for block in blocks:
        at[block] = max((at[other] + apart for other, apart in before[block].items()), default=0.0)
    for block in reversed(blocks):
        if after[block]:
            at[block] = max(at[block], min(at[other] - apart for other, apart in after[block].items()))
    return [at[root] for root in roots]
