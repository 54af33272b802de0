import re
from itertools import combinations
from textwrap import dedent

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.workflows.drawing import Edge, Vertex, draw, to_text
from anabranch.workflows.drawing.measure import columns

ARMS = {"┌": "dr", "┐": "dl", "└": "ur", "┘": "ul", "├": "udr", "┤": "udl", "┬": "dlr", "┴": "ulr", "┼": "udlr"}
STEPS = {"d": (1, 0), "l": (0, -1), "r": (0, 1)}


def text_of(vertices: str, edges: str, **states: str) -> str:
    """The drawing of vertices like `a:start b:split:task` and edges like `a>b a>c:yes`."""
    nodes = [
        Vertex(name, label, *(kind or ["task"])) for name, label, *kind in (v.split(":") for v in vertices.split())
    ]
    return to_text(draw(nodes, [Edge(*re.split("[>:]", edge)) for edge in edges.split()]), states)


def drawing(text: str) -> str:
    return dedent(text).lstrip("\n")


def test_a_chain() -> None:
    assert text_of("a:start b:split c:catalog", "a>b b>c") == drawing("""
         ┌───────┐
         │ start │
         └───┬───┘
             ▼
         ┌───────┐
         │ split │
         └───┬───┘
             ▼
        ┌─────────┐
        │ catalog │
        └─────────┘
    """)


def test_a_diamond() -> None:
    assert text_of("a:start b:left c:right d:join", "a>b a>c b>d c>d") == drawing("""
              ┌───────┐
              │ start │
              └───┬───┘
            ┌─────┴────┐
            ▼          ▼
        ┌───────┐  ┌───────┐
        │ left  │  │ right │
        └───┬───┘  └───┬───┘
            └─────┬────┘
                  ▼
              ┌───────┐
              │ join  │
              └───────┘
    """)


def test_a_conditional_with_two_branches_and_a_join_in_the_midst_of_a_job() -> None:
    drawn = text_of(
        "a:large?:conditional b:split c:one_COG d:catalog", "a>b:yes a>c:no b>d c>d", a="completed", c="skipped"
    )
    assert drawn == drawing("""
            ┌─────────────┐
            │ ✓ ◇ large?  │
            └──────┬──────┘
            ┌──────┴─────┐
           yes          no
            ▼            ▼
        ┌───────┐  ┌───────────┐
        │ split │  │ - one_COG │
        └───┬───┘  └─────┬─────┘
            └──────┬─────┘
                   ▼
              ┌─────────┐
              │ catalog │
              └─────────┘
    """)


def test_an_edge_passes_the_rows_between_its_ends() -> None:
    assert text_of("a:one b:two c:three", "a>b b>c a>c") == drawing("""
           ┌─────┐
           │ one │
           └──┬──┘
           ┌──┴─┐
           ▼    │
        ┌─────┐ │
        │ two │ │
        └──┬──┘ │
           └──┬─┘
              ▼
          ┌───────┐
          │ three │
          └───────┘
    """)


def test_lines_that_cross_do_not_join() -> None:
    assert text_of("a:a b:b c:c d:d e:e f:f", "a>d a>e a>f b>d b>f c>d c>e") == drawing("""
          ┌───┐       ┌───┐       ┌───┐
          │ b │       │ a │       │ c │
          └─┬─┘       └─┬─┘       └─┬─┘
            ├─────────┐ │           │
            │ ┌───────│─┼─────────┐ │
            │ │       │ │ ┌───────│─┤
            ▼ ▼       ▼ ▼ ▼       ▼ ▼
        ┌───────┐  ┌─────────┐  ┌───────┐
        │   f   │  │    d    │  │   e   │
        └───────┘  └─────────┘  └───────┘
    """)


def test_a_graph_too_wide_is_a_list() -> None:
    names = [f"tile_{i}" for i in range(12)]
    vertices = " ".join(["a:split:fan_out", *(f"{name}:{name}" for name in names), "z:join"])
    edges = " ".join(f"a>{name}:cloudy {name}>z" for name in names)

    lines = text_of(vertices, edges, a="running").splitlines()

    assert lines[0].startswith("▸ ⇉ split → tile_0 (cloudy), tile_1 (cloudy),")
    assert "  tile_11 → join" in lines
    assert lines[-1] == "    join"
    assert max(map(len, lines)) <= 100


@pytest.mark.parametrize("label", ["\x1b[31mred\x07", "two\nlines\u202e", "x" * 10_000, "日本語", "", "e\u0301"])
def test_labels_are_shown_without_controls_and_in_their_columns(label: str) -> None:
    drawn = to_text(draw([Vertex("a", label, "task", label), Vertex("b", "b", "task")], [Edge("a", "b", label)]))

    assert all(character.isprintable() or character == "\n" for character in drawn)
    first = [line for line in drawn.partition("▼")[0].splitlines() if line.rstrip().endswith(("┐", "│", "┘"))]
    assert len({columns(line) for line in first}) == 1
    assert max(map(columns, drawn.splitlines())) <= 40


@st.composite
def graphs(draw_from: st.DrawFn) -> tuple[list[Vertex], list[Edge]]:
    count = draw_from(st.integers(2, 9))
    chosen = draw_from(st.sets(st.sampled_from(list(combinations(range(count), 2))), max_size=14))
    return [Vertex(f"n{i}", f"n{i}", "task") for i in range(count)], [Edge(f"n{t}", f"n{h}") for t, h in sorted(chosen)]


@given(graphs())
def test_who_follows_the_lines_finds_the_edges_and_no_others(graph: tuple[list[Vertex], list[Edge]]) -> None:
    vertices, edges = graph
    drawn = to_text(draw(vertices, edges))
    if "→" not in drawn:
        assert follow_all(drawn) == {(edge.tail, edge.head) for edge in edges}


def follow_all(drawn: str) -> set[tuple[str, str]]:
    sheet = {(y, x): c for y, line in enumerate(drawn.splitlines()) for x, c in enumerate(line)}
    names = {
        (y, x): found.group()
        for y, line in enumerate(drawn.splitlines())
        for found in re.finditer(r"n\d", line)
        for x in range(found.start() - 4, found.end() + 20)
        if line.rfind("│", 0, found.start()) < x < line.find("│", found.end())
    }
    found = set()
    for (y, x), tail in names.items():
        if sheet[y + 1, x] == "┬":
            found |= {(tail, names[end]) for end in follow(sheet, (y + 1, x), "d")}
    return found


def follow(sheet: dict[tuple[int, int], str], at: tuple[int, int], going: str) -> set[tuple[int, int]]:
    """Where a line ends: the first line inside the boxes below its arrowheads; lines that cross go straight on."""
    y, x = at[0] + STEPS[going][0], at[1] + STEPS[going][1]
    here = sheet[y, x]
    if here == "▼":
        return {(y + 2, x)}
    if here in "│─":
        return follow(sheet, (y, x), going)
    back = {"l": "r", "r": "l", "d": "u"}[going]
    turns = [turn for turn in ARMS[here] if turn not in (back, "u")]
    return {end for turn in turns for end in follow(sheet, (y, x), turn)}
