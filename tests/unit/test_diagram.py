import re
from textwrap import dedent
from xml.etree import ElementTree

import pytest

from anabranch.engine.registry import load_plugins
from anabranch.workflows.definition import Workflow
from anabranch.workflows.drawing.diagram import TIMES, workflow_svg, workflow_text
from anabranch.workflows.nodes import AnyNode, Spread
from anabranch.workflows.yaml.load import load_yaml
from tests.support.nodes import make_node

DEMO = load_plugins()


def read(text: str) -> Workflow:
    return load_yaml(dedent(text), "test.yaml").require()


def edges(workflow: Workflow) -> dict[tuple[str, str], str]:
    """The labels of a drawing's edges, by the nodes they join."""
    root = ElementTree.fromstring(workflow_svg(workflow))
    found = root.iterfind(".//{*}g[@class='edge']")
    return {(g.get("data-tail", ""), g.get("data-head", "")): g.findtext("{*}text", "") for g in found}


def notes(workflow: Workflow) -> dict[str, str]:
    found = ElementTree.fromstring(workflow_svg(workflow)).iterfind(".//{*}g[@data-node]")
    return {g.get("data-node", ""): g.findtext("{*}text[@class='note']", "") for g in found}


def test_a_workflow_is_drawn_with_its_handlers() -> None:
    assert workflow_text(DEMO.declaration("diamond").workflow) == dedent("""\
              ┌───────┐
              │  top  │
              │ echo  │
              └───┬───┘
            ┌─────┴────┐
            ▼          ▼
        ┌───────┐  ┌───────┐
        │ left  │  │ right │
        │ echo  │  │ echo  │
        └───┬───┘  └───┬───┘
            └─────┬────┘
                  ▼
              ┌───────┐
              │ join  │
              │ echo  │
              └───────┘
        """)


def test_what_waits_and_what_runs_a_workflow_is_drawn_with_its_sign_and_says_so() -> None:
    workflow = read("""
        workflow_id: waits
        inputs: {n: {type: integer, required: true}}
        nodes:
          approve: {type: gate, timeout_seconds: 3600, next: pause}
          pause: {type: wait, duration_seconds: "{{ inputs.n }}", next: night}
          night: {type: wait, until: "2030-01-31T22:00:00Z", next: each}
          each: {type: fan_out, source: [1], task: {workflow: child}, next: last}
          last: {type: workflow, workflow: child}
        """)
    assert notes(workflow) == {
        "approve": "up to 1 h",
        "pause": "inputs.n s",
        "night": "until 2030-01-31T22:00:00Z",
        "each": f"child {TIMES} items",
        "last": "child",
    }
    assert [line.split("│")[1].split()[0] for line in workflow_text(workflow).splitlines()[1::5]] == list("‖◷◷⇉▣")
    shapes = re.findall(r'class="node (\w+)"', workflow_svg(workflow))
    assert shapes == ["gate", "wait", "wait", "fan_out", "workflow"]


def test_branches_carry_their_conditions() -> None:
    found = edges(DEMO.declaration("route_by_size").workflow)
    assert (found["route", "light"], found["route", "heavy"]) == ("< 100", "default")
    assert found["light", "report"] == ""


def test_a_node_that_several_branches_name_has_all_their_conditions() -> None:
    workflow = read("""
        workflow_id: both
        inputs: {size: {type: integer, default: 1}}
        nodes:
          route:
            type: conditional
            branches:
              - {condition: "{{ inputs.size > 3 }}", next: [large, every]}
              - {default: true, next: every}
          large: {handler: echo}
          every: {handler: echo}
        """)
    assert edges(workflow) == {("route", "large"): "inputs.size > 3", ("route", "every"): "inputs.size > 3 | default"}


def test_a_join_that_one_is_enough_for_can_be_told_from_one_that_waits_for_all() -> None:
    workflow = read("""
        workflow_id: joins
        nodes:
          a: {handler: echo}
          b: {handler: echo}
          all: {handler: echo, depends_on: [a, b]}
          first: {handler: echo, depends_on: {any_of: [a, b]}}
        """)
    found = edges(workflow)
    assert {label for (_, head), label in found.items() if head == "first"} == {"any"}
    assert {label for (_, head), label in found.items() if head == "all"} == {""}


def test_a_fan_out_says_of_what_and_a_fan_in_how() -> None:
    assert notes(DEMO.declaration("nested").workflow) == {
        "expand": f"list_items {TIMES} items",
        "parts": "concat",
        "work": f"chunk_processor {TIMES} batches of 2",
        "total": "sum",
    }


@pytest.mark.parametrize(
    ("node", "note"),
    [
        (make_node("a", "h"), "h"),
        (make_node("a", "h", spread=Spread.FIXED, count=3), f"h {TIMES} 3"),
        (make_node("a", "h", spread=Spread.DYNAMIC, count_param="n"), f"h {TIMES} n"),
        (make_node("a", "h", spread=Spread.FAN_OUT), f"h {TIMES} tasks"),
        (make_node("a", "h", spread=Spread.MATCH_PREVIOUS), f"h {TIMES} previous"),
        (make_node("a", "h", spread=Spread.FAN_IN), "h"),
    ],
)
def test_stages_declared_in_python_say_how_wide_they_are(node: AnyNode, note: str) -> None:
    assert notes(Workflow("flow", (node,))) == {"a": note}


def test_states_are_shown() -> None:
    workflow = DEMO.declaration("echo").workflow
    assert "✓ echo" in workflow_text(workflow, {"echo": "completed"})
    assert 'class="node task failed"' in workflow_svg(workflow, {"echo": "failed"})


def test_the_title_is_the_name_and_nothing_in_it_is_markup() -> None:
    workflow = Workflow("flow", (make_node("a", "<script>"),), name="A <b> & c")
    svg = workflow_svg(workflow)
    assert ElementTree.fromstring(svg).findtext("{*}title") == "A <b> & c"
    assert re.findall("<script", svg) == []
