"""The rows of a drawing: a rank for every vertex, and a slot wherever an edge passes a row or shows its label."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, count, pairwise

__all__ = ["Grid", "Link", "build"]

Link = tuple[int, int, bool]
"""An edge as the grid sees it: its tail, its head, and whether it has a label."""


@dataclass(frozen=True)
class Grid:
    """Items in rows, from left to right: the vertices by their number, then the slots of the edges."""

    vertices: int
    rows: tuple[tuple[int, ...], ...]
    chains: tuple[tuple[int, ...], ...]  # for each edge, the items it joins from its tail to its head
    labels: tuple[int | None, ...]  # for each edge, the slot that shows its label
    above: tuple[tuple[int, ...], ...]  # for each item, its neighbours one row up
    below: tuple[tuple[int, ...], ...]

    @property
    def size(self) -> int:
        return len(self.above)


def build(vertices: int, links: Sequence[Link]) -> Grid:
    """The grid with every row in the order of a walk from the roots; ValueError when the graph has a cycle.

    Labels have rows of their own, so a label is an item like any other and never covers one.
    """
    ranks = _rank(vertices, links)
    labelled = {ranks[tail] for tail, _, has_label in links if has_label}
    row_of_rank = list(accumulate((1 + (rank in labelled) for rank in range(max(ranks, default=-1))), initial=0))
    rows = [row_of_rank[rank] for rank in ranks]
    fresh = count(vertices)
    chains = []
    for tail, head, _ in links:
        slots = [next(fresh) for _ in range(rows[tail] + 1, rows[head])]
        rows += range(rows[tail] + 1, rows[head])
        chains.append((tail, *slots, head))
    labels = tuple(chain[1] if link[2] else None for chain, link in zip(chains, links, strict=True))
    above, below = _neighbours(len(rows), chains)
    return Grid(vertices, _fill(rows, above, below), tuple(chains), labels, above, below)


def _rank(vertices: int, links: Sequence[Link]) -> list[int]:
    heads: list[list[int]] = [[] for _ in range(vertices)]
    waits = [0] * vertices
    for tail, head, _ in links:
        heads[tail].append(head)
        waits[head] += 1
    ranks = [0] * vertices
    ready = [vertex for vertex in range(vertices) if not waits[vertex]]
    for tail in ready:
        for head in heads[tail]:
            ranks[head] = max(ranks[head], ranks[tail] + 1)
            waits[head] -= 1
            if not waits[head]:
                ready.append(head)  # the list is the queue
    if len(ready) < vertices:
        raise ValueError("the graph has a cycle")
    return ranks


def _neighbours(
    size: int, chains: Sequence[tuple[int, ...]]
) -> tuple[tuple[tuple[int, ...], ...], tuple[tuple[int, ...], ...]]:
    above: list[list[int]] = [[] for _ in range(size)]
    below: list[list[int]] = [[] for _ in range(size)]
    for chain in chains:
        for upper, lower in pairwise(chain):
            above[lower].append(upper)
            below[upper].append(lower)
    return tuple(map(tuple, above)), tuple(map(tuple, below))


def _fill(
    rows: Sequence[int], above: Sequence[Sequence[int]], below: Sequence[Sequence[int]]
) -> tuple[tuple[int, ...], ...]:
    filled: list[list[int]] = [[] for _ in range(max(rows, default=-1) + 1)]
    seen = [False] * len(rows)
    todo = [item for item in reversed(range(len(rows))) if not above[item]]
    while todo:
        item = todo.pop()
        if not seen[item]:
            seen[item] = True
            filled[rows[item]].append(item)
            todo += reversed(below[item])
    return tuple(map(tuple, filled))
