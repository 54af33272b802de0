import re
import time
from collections import Counter
from collections.abc import Sequence
from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.workflows.drawing import Box, Edge, Layout, Route, Vertex, draw
from anabranch.workflows.drawing.measure import clean, columns, fit, pixels


def graph_of(arrows: str) -> tuple[list[Vertex], list[Edge]]:
    """The graph of `a>b a>c:yes`: vertices as they are first named, edges with their labels."""
    edges = [Edge(*re.split("[>:]", arrow)) for arrow in arrows.split()]
    names = dict.fromkeys(name for edge in edges for name in (edge.tail, edge.head))
    return [Vertex(name, name, "task") for name in names], edges


@st.composite
def graphs(draw_from: st.DrawFn) -> tuple[list[Vertex], list[Edge]]:
    count = draw_from(st.integers(0, 12))
    labels = st.sampled_from(["", "a", "a much longer label than that"])
    kinds = st.sampled_from(["task", "start", "conditional", "fan_out", "fan_in", "of no kind we know"])
    vertices = [Vertex(f"n{i}", f"n{i}" + draw_from(labels), draw_from(kinds), draw_from(labels)) for i in range(count)]
    pairs = list(combinations(range(count), 2))
    chosen = draw_from(st.lists(st.sampled_from(pairs), max_size=24)) if pairs else []
    return vertices, [Edge(f"n{tail}", f"n{head}", draw_from(labels)) for tail, head in chosen]


def order_of(layout: Layout) -> list[list[str]]:
    vertices = [box.vertex.id for box in layout.boxes]
    return [[vertices[item] for item in row if item < len(vertices)] for row in layout.grid.rows]


def meets(box: Box, x0: float, y0: float, x1: float, y1: float) -> bool:
    return x0 < box.x + box.width and box.x < x1 and y0 < box.bottom and box.y < y1


def spans(route: Route) -> list[tuple[float, float, float, float]]:
    """What each step of an edge can touch: a curve stays between its ends."""
    return [
        (min(x0, x1) - 0.5, min(y0, y1), max(x0, x1) + 0.5, max(y0, y1))
        for (x0, y0), (x1, y1) in pairwise(route.points)
    ]


@given(graphs())
def test_every_edge_goes_down_from_its_tail_to_its_head(graph: tuple[list[Vertex], list[Edge]]) -> None:
    layout = draw(*graph)
    boxes = {box.vertex.id: box for box in layout.boxes}

    for route in layout.routes:
        tail, head = boxes[route.edge.tail], boxes[route.edge.head]
        assert route.points[0] == (tail.middle, tail.bottom)
        assert route.points[-1] == (head.middle, head.y)
        assert all(upper[1] < lower[1] for upper, lower in pairwise(route.points))


@given(graphs())
def test_no_two_boxes_overlap_and_all_are_on_the_sheet(graph: tuple[list[Vertex], list[Edge]]) -> None:
    layout = draw(*graph)

    for one, other in combinations(layout.boxes, 2):
        assert not meets(one, other.x, other.y, other.x + other.width, other.bottom)
    for box in layout.boxes:
        assert box.x >= 0
        assert box.y >= 0
        assert box.x + box.width <= layout.width
        assert box.bottom <= layout.height


@given(graphs())
def test_no_edge_runs_through_a_box(graph: tuple[list[Vertex], list[Edge]]) -> None:
    layout = draw(*graph)

    for route in layout.routes:
        for box in layout.boxes:
            assert not any(meets(box, *span) for span in spans(route))


@given(graphs())
def test_no_label_lies_on_a_box_or_on_another_edge(graph: tuple[list[Vertex], list[Edge]]) -> None:
    layout = draw(*graph)

    for route in layout.routes:
        if route.label is None:
            continue
        half = pixels(fit(route.edge.label, 220, pixels)) / 2
        label = (route.label[0] - half, route.label[1] - 8, route.label[0] + half, route.label[1] + 8)
        assert not any(meets(box, *label) for box in layout.boxes)
        space = Box(layout.boxes[0].vertex, label[0], label[1], 2 * half, 16)
        assert not any(meets(space, *span) for other in layout.routes if other != route for span in spans(other))


@given(graphs())
def test_the_same_graph_has_the_same_layout(graph: tuple[list[Vertex], list[Edge]]) -> None:
    assert draw(*graph) == draw(*graph)


@given(graphs())
def test_every_vertex_and_edge_is_drawn_once(graph: tuple[list[Vertex], list[Edge]]) -> None:
    vertices, edges = graph
    layout = draw(vertices, edges)

    assert [box.vertex for box in layout.boxes] == vertices
    assert Counter(route.edge for route in layout.routes) == Counter(set(edges))


@pytest.mark.parametrize(
    ("arrows", "rows"),
    [
        ("a>b b>c", [["a"], ["b"], ["c"]]),
        ("a>b a>c b>d c>d", [["a"], ["b", "c"], ["d"]]),
        ("a>b b>c a>c", [["a"], ["b"], ["c"]]),
        ("a>c b>d a>e b>f", [["a", "b"], ["c", "e", "d", "f"]]),
        ("a>b a>c a>d b>e d>e c>f", [["a"], ["b", "d", "c"], ["e", "f"]]),
    ],
    ids=["chain", "diamond", "longest path", "two trees", "a crossing undone"],
)
def test_rows_follow_the_longest_path_and_the_declaration(arrows: str, rows: list[list[str]]) -> None:
    assert order_of(draw(*graph_of(arrows))) == rows


@pytest.mark.parametrize("arrows", ["a>b a>c b>d c>d", "a>b:yes a>c:no b>d c>d", "a>b a>c a>d b>e c>e d>e e>f e>g"])
def test_a_new_leaf_does_not_mirror_the_rest(arrows: str) -> None:
    vertices, edges = graph_of(arrows)
    before = pairs_of(draw(vertices, edges))

    for tail in vertices:
        grown = pairs_of(draw([*vertices, Vertex("new", "new", "task")], [*edges, Edge(tail.id, "new")]))
        swapped = {(right, left) for left, right in before} & grown
        assert len(swapped) <= len(before) / 4


def pairs_of(layout: Layout) -> set[tuple[str, str]]:
    return {pair for row in order_of(layout) for pair in combinations(row, 2)}


@pytest.mark.parametrize(
    ("arrows", "message"),
    [("a>b b>a", "has a cycle"), ("a>a", "has a cycle"), ("r>a a>b b>c c>a", "has a cycle")],
)
def test_a_cycle_is_refused(arrows: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        draw(*graph_of(arrows))


@pytest.mark.parametrize(
    ("vertices", "edges", "message"),
    [
        ([Vertex("a", "a", "task")] * 2, [], "the same id"),
        ([Vertex("a", "a", "task")], [Edge("a", "b")], "from 'a' to 'b' lacks a vertex"),
    ],
)
def test_a_graph_that_is_none_is_refused(vertices: Sequence[Vertex], edges: Sequence[Edge], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        draw(vertices, edges)


def test_an_empty_graph_is_an_empty_sheet() -> None:
    assert draw([], []).boxes == ()


def test_five_hundred_vertices_take_less_than_a_second() -> None:
    vertices = [Vertex(f"n{i}", f"node {i}", "task") for i in range(500)]
    edges = [Edge(f"n{i}", f"n{i + 1 + i * i % 37}") for i in range(460)]
    edges += [Edge(f"n{i}", f"n{i + 1 + i * 7 % 53}") for i in range(440)]
    started = time.process_time()

    layout = draw(vertices, edges)

    assert len(layout.boxes) == 500
    assert time.process_time() - started < 1


def test_a_row_of_two_thousand_is_one_row() -> None:
    vertices = [Vertex(str(i), str(i), "task") for i in range(2002)]
    edges = [edge for i in range(1, 2001) for edge in (Edge("0", str(i)), Edge(str(i), "2001"))]

    layout = draw(vertices, edges)

    assert [len(row) for row in layout.grid.rows] == [1, 2000, 1]
    assert layout.boxes[0].middle == pytest.approx(layout.width / 2, rel=0.01)


@pytest.mark.parametrize(
    ("text", "width"),
    [("", 0), ("abc", 3), ("日本", 4), ("e\u0301", 1), ("é", 1)],
    ids=["empty", "ascii", "cjk", "combining", "accent"],
)
def test_columns(text: str, width: int) -> None:
    assert columns(text) == width


def test_a_long_text_is_cut_within_its_limit() -> None:
    assert fit("a" * 10_000, 5, columns) == "aaaa…"
    assert fit("日本語", 5, columns) == "日本…"
    assert fit("short", 5, columns) == "short"


def test_text_is_cleaned_of_what_cannot_be_shown() -> None:
    assert clean("a\x00b\x1b[31m\u202ec\ud800\ufffe\nd") == "ab[31mc d"
