"""Where every vertex and edge of a drawing goes: in layers from top to bottom, edges around the boxes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from anabranch.workflows.drawing.grid import Grid, build
from anabranch.workflows.drawing.measure import clean, fit, pixels
from anabranch.workflows.drawing.order import untangle
from anabranch.workflows.drawing.place import place

__all__ = ["Box", "Edge", "Layout", "Point", "Route", "Vertex", "draw"]

LABEL_LIMIT = 220.0
MARGIN = 16.0
BETWEEN = 28.0
LABEL_HEIGHT = 18.0
SHALLOWEST, DEEPEST = 38.0, 120.0
LANDING = 8.0  # an edge ends straight down, as long as its arrowhead

Point = tuple[float, float]


@dataclass(frozen=True)
class Vertex:
    """A node to draw: `kind` chooses its shape, and `note` is a second, smaller line."""

    id: str
    label: str
    kind: str
    note: str = ""


@dataclass(frozen=True)
class Edge:
    """An edge from one vertex to another, by their ids; `label` is a branch's condition."""

    tail: str
    head: str
    label: str = ""


@dataclass(frozen=True)
class Box:
    """A vertex and the rectangle it fills, from its top left corner."""

    vertex: Vertex
    x: float
    y: float
    width: float
    height: float

    @property
    def middle(self) -> float:
        return self.x + self.width / 2

    @property
    def bottom(self) -> float:
        return self.y + self.height


@dataclass(frozen=True)
class Route:
    """An edge and its points from top to bottom; its label is written at `label`, in the space it has there."""

    edge: Edge
    points: tuple[Point, ...]
    label: Point | None = None


@dataclass(frozen=True)
class Layout:
    """A drawing in pixels, and the grid it was made from."""

    boxes: tuple[Box, ...]
    routes: tuple[Route, ...]
    width: float
    height: float
    grid: Grid


def draw(vertices: Sequence[Vertex], edges: Sequence[Edge]) -> Layout:
    """Lay out a graph; ValueError for a cycle, an id used twice or an edge to no vertex."""
    edges = tuple(dict.fromkeys(edges))
    grid = untangle(build(len(vertices), list(_links(vertices, edges))))
    sizes = list(_sizes(grid, vertices, edges))
    middles = [MARGIN - BETWEEN / 2 + x for x in place(grid, [width + BETWEEN for width, _ in sizes])]
    bands = _bands(grid, middles, [height for _, height in sizes])
    boxes = _boxes(grid, vertices, middles, sizes, bands)
    return Layout(
        boxes,
        tuple(_routes(grid, edges, boxes, middles, bands)),
        width=max((x + width / 2 for x, (width, _) in zip(middles, sizes, strict=True)), default=0) + MARGIN,
        height=max((bottom for _, bottom in bands), default=0) + MARGIN,
        grid=grid,
    )


def _links(vertices: Sequence[Vertex], edges: Sequence[Edge]) -> Iterator[tuple[int, int, bool]]:
    numbers = {vertex.id: number for number, vertex in enumerate(vertices)}
    if len(numbers) < len(vertices):
        raise ValueError("two vertices have the same id")
    for edge in edges:
        if edge.tail not in numbers or edge.head not in numbers:
            raise ValueError(f"the edge from {edge.tail!r} to {edge.head!r} lacks a vertex")
        yield numbers[edge.tail], numbers[edge.head], bool(clean(edge.label).strip())


def _sizes(grid: Grid, vertices: Sequence[Vertex], edges: Sequence[Edge]) -> Iterator[Point]:
    yield from map(_size, vertices)
    labels = {slot: edge.label for slot, edge in zip(grid.labels, edges, strict=True) if slot is not None}
    for slot in range(grid.vertices, grid.size):
        yield (_shown(labels[slot]), LABEL_HEIGHT) if slot in labels else (0.0, 0.0)


def _size(vertex: Vertex) -> Point:
    text = _shown(vertex.label)
    if vertex.kind in ("start", "end"):
        return 2 * (text + 18), 20.0
    padding = {"conditional": 52, "fan_in": 56, "workflow": 44, "gate": 44, "wait": 44}.get(vertex.kind, 32)
    height = 54.0 if clean(vertex.note).strip() else 38.0
    return max(72.0, padding + max(text, 0.85 * _shown(vertex.note))), height


def _shown(text: str) -> float:
    return pixels(fit(clean(text).strip(), LABEL_LIMIT, pixels))


def _bands(grid: Grid, middles: Sequence[float], heights: Sequence[float]) -> list[Point]:
    """The top and bottom of each row; the wider the edges before it swing, the deeper the gap."""
    bands: list[Point] = []
    top = MARGIN
    for row in grid.rows:
        if bands:
            swing = max(abs(middles[item] - middles[other]) for item in row for other in grid.above[item])
            top = bands[-1][1] + min(max(SHALLOWEST, 0.12 * swing), DEEPEST)
        bands.append((top, top + max(heights[item] for item in row)))
    return bands


def _boxes(
    grid: Grid, vertices: Sequence[Vertex], middles: Sequence[float], sizes: Sequence[Point], bands: Sequence[Point]
) -> tuple[Box, ...]:
    centres = {item: sum(band) / 2 for row, band in zip(grid.rows, bands, strict=True) for item in row}
    return tuple(
        Box(vertex, middles[number] - width / 2, centres[number] - height / 2, width, height)
        for number, (vertex, (width, height)) in enumerate(zip(vertices, sizes, strict=False))
    )


def _routes(
    grid: Grid, edges: Sequence[Edge], boxes: Sequence[Box], middles: Sequence[float], bands: Sequence[Point]
) -> Iterator[Route]:
    # Edges turn only in the gaps between bands and run straight down inside them, so none meets a box on its way.
    band_of = {item: band for row, band in zip(grid.rows, bands, strict=True) for item in row}
    for edge, chain, slot in zip(edges, grid.chains, grid.labels, strict=True):
        points = [(middles[chain[0]], boxes[chain[0]].bottom)]
        for upper, lower in pairwise(chain):
            points += [(middles[upper], band_of[upper][1]), (middles[lower], band_of[lower][0])]
        x, top = points.pop()
        points += [(x, top - LANDING), (x, boxes[chain[-1]].y)]
        label = None if slot is None else (middles[slot], sum(band_of[slot]) / 2)
        yield Route(edge, tuple(dict.fromkeys(points)), label)
