import re
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.workflows.drawing import STYLE, Edge, Vertex, draw, to_svg

NAMESPACE = "{http://www.w3.org/2000/svg}"
KINDS = ["task", "start", "end", "conditional", "fan_out", "fan_in", "gate", "wait", "workflow"]
HOSTILE = ["<script>alert(1)</script>", "\"'><b onload=x>", "]]>&amp;", "\x00\x1b[0m\u202e", "x" * 10_000, "日本語", ""]


def nodes_of(svg: str) -> list[ElementTree.Element]:
    return [element for element in ElementTree.fromstring(svg).iter() if "data-node" in element.attrib]


def text_of(element: ElementTree.Element, tag: str) -> list[str]:
    return [found.text or "" for found in element.iter(NAMESPACE + tag)]


@pytest.mark.parametrize("kind", [*KINDS, "unheard_of"])
def test_every_kind_is_one_group_with_its_class_its_title_and_its_words(kind: str) -> None:
    [node] = nodes_of(to_svg(draw([Vertex("a", "Split", kind, "raster.split")], [])))

    assert node.attrib == {
        "id": "node-a",
        "class": f"node {kind if kind in KINDS else 'task'}",
        "data-node": "a",
    }
    assert text_of(node, "title") == ["Split\nraster.split"]
    assert text_of(node, "text")[0] == "Split"


@pytest.mark.parametrize("state", ["pending", "running", "completed", "failed", "skipped", "cancelled"])
def test_a_state_is_a_class(state: str) -> None:
    [node] = nodes_of(to_svg(draw([Vertex("a", "a", "task")], []), {"a": state}))
    assert node.attrib["class"] == f"node task {state}"


def test_an_unknown_state_is_no_class() -> None:
    [node] = nodes_of(to_svg(draw([Vertex("a", "a", "task")], []), {"a": '" onclick="x'}))
    assert node.attrib["class"] == "node task"


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_stays_text(text: str) -> None:
    vertices = [Vertex(text, text, "task", text), Vertex("b", text, "end")]
    svg = to_svg(draw(vertices, [Edge(text, "b", text)]), {text: text}, title=text)

    root = ElementTree.fromstring(svg)
    assert {element.tag.removeprefix(NAMESPACE) for element in root.iter()} <= {
        *("svg", "title", "style", "g", "path", "rect", "circle", "text")
    }
    assert not [name for element in root.iter() for name in element.attrib if name.startswith("on") or name == "style"]
    assert max(map(len, text_of(root, "text"))) < 60


def test_a_long_label_is_cut_and_whole_in_its_title() -> None:
    [node] = nodes_of(to_svg(draw([Vertex("a", "x" * 10_000, "task")], [])))

    assert text_of(node, "title") == ["x" * 10_000]
    assert re.fullmatch("x{20,40}…", text_of(node, "text")[0])


@given(st.lists(st.text(max_size=8), unique=True, min_size=1, max_size=8))
def test_any_names_parse_as_xml_with_every_node_once(names: list[str]) -> None:
    vertices = [Vertex(name, name, "task", name) for name in names]
    edges = [Edge(names[0], name, name) for name in names[1:]]

    nodes = nodes_of(to_svg(draw(vertices, edges)))

    assert len({node.attrib["id"] for node in nodes}) == len(nodes) == len(names)


def test_edges_name_their_ends_and_show_their_label() -> None:
    svg = to_svg(draw([Vertex("a", "a", "conditional"), Vertex("b", "b", "task")], [Edge("a", "b", "x > 1")]))

    [edge] = [element for element in ElementTree.fromstring(svg).iter() if element.attrib.get("class") == "edge"]
    assert (edge.attrib["data-tail"], edge.attrib["data-head"]) == ("a", "b")
    assert text_of(edge, "text") == ["x > 1"]
    assert [path.attrib["class"] for path in edge.iter(NAMESPACE + "path")] == ["line", "head"]


def test_a_page_may_bring_its_own_style() -> None:
    layout = draw([Vertex("a", "a", "task")], [])

    assert STYLE in to_svg(layout)
    assert "style" not in to_svg(layout, styled=False)


def test_the_drawing_is_an_image_with_a_title() -> None:
    root = ElementTree.fromstring(to_svg(draw([], []), title="Ingest"))

    assert root.attrib["role"] == "img"
    assert root[0].text == "Ingest"
