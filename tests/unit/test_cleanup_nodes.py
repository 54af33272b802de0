"""Cleanup nodes as files and functions declare them."""

from typing import Any

import pytest

from anabranch import expr, task, workflow
from anabranch.canonical import decode
from anabranch.engine.job_retry import choose_retry
from anabranch.engine.model import NodeState
from anabranch.workflows.definition import Workflow
from anabranch.workflows.drawing.diagram import workflow_text
from anabranch.workflows.yaml.load import load_yaml
from anabranch.workflows.yaml.write import write_yaml

TWO_LEAVES = """\
workflow_id: w
nodes:
  first: {handler: a, next: [left, right]}
  tidy: {handler: t, finally: true, next: leave, params: {how: "{{ job.ending }}", left: "{{ nodes.left.output }}"}}
  left: {handler: b}
  leave: {handler: t, finally: true, params: {tidied: "{{ nodes.tidy.output.n }}"}}
  right: {type: end}
"""
ANY_OF = """\
  a: {handler: a}
  s: {handler: s, finally: true}
  t: {handler: t, finally: true, depends_on: {any_of: s}}
"""


def mistakes(text: str) -> list[tuple[int, int, str, str]]:
    found = load_yaml(f"workflow_id: w\nnodes:\n{text}", "w.yaml").mistakes
    return [(mistake.line, mistake.column, mistake.message, mistake.hint) for mistake in found]


def test_a_cleanup_node_comes_after_all_others_and_those_before_it() -> None:
    workflow = load_yaml(TWO_LEAVES, "w.yaml").require()
    assert workflow.names == ["first", "left", "right", "tidy", "leave"]
    assert (workflow.node("tidy").after, workflow.node("leave").after) == (
        ("left", "right"),
        ("left", "right", "tidy"),
    )
    assert workflow.cleanup == ("tidy", "leave")


def test_e16_what_is_stored_is_the_same_workflow_and_other_workflows_stay_as_they_were() -> None:
    workflow = load_yaml(TWO_LEAVES, "w.yaml").require()
    assert '"cleanup":true' in workflow.text
    stored = Workflow.from_json(decode(workflow.text.encode()))
    assert (stored.hash, stored.nodes) == (workflow.hash, workflow.nodes)
    plain = load_yaml("workflow_id: w\nnodes: {a: {handler: a, finally: false}}", "w.yaml").require()
    assert "cleanup" not in plain.text


def test_a_workflow_is_written_as_it_was_read() -> None:
    workflow = load_yaml(TWO_LEAVES, "w.yaml").require()
    written = write_yaml(workflow, {})
    assert load_yaml(written, "w.yaml").require().nodes == workflow.nodes
    assert "finally: true" in written
    assert "finally t" in workflow_text(workflow)


def test_a_function_declares_cleanup_that_comes_last_whatever_it_uses() -> None:
    @workflow
    def borrowing(n: int) -> Any:
        made = task("make")(n=n)
        task("tidy").options(finally_=True, name="tidy")(made=made["n"], how=expr.job_ending)
        return task("use")(n=made["m"])

    declared = borrowing.workflow
    assert declared.names == ["make", "use", "tidy"]
    assert declared.node("tidy").after == ("use",)
    assert declared.node("tidy").params == {"made": "{{ nodes.make.output.n }}", "how": "{{ job.ending }}"}  # type: ignore[union-attr]  # a task


@pytest.mark.parametrize(
    ("nodes", "at", "message"),
    [
        ("  a: {handler: a}\n  g: {type: gate, finally: true}\n", (4, 19), "a node of type gate has no key 'finally'"),
        ("  a: {handler: a}\n  g: {handler: a, finally: maybe}\n", (4, 28), "finally is true or false, not 'maybe'"),
        (
            "  a: {handler: a, next: t}\n  t: {handler: t, finally: true}\n",
            (3, 25),
            "'t' runs after all other nodes by itself: it has finally",
        ),
        (
            "  a: {handler: a}\n  t: {handler: t, finally: true, depends_on: a}\n",
            (4, 46),
            "'t' runs after all other nodes by itself: it has finally",
        ),
        (
            "  a: {handler: a, depends_on: t}\n  t: {handler: t, finally: true}\n",
            (3, 31),
            "only cleanup nodes can come after 't', which has finally",
        ),
        (
            ANY_OF,
            (5, 55),
            "a cleanup node waits for all that it names",
        ),
        ("  t: {handler: t, finally: true}\n", (2, 1), "all nodes have finally: there is nothing to clean up after"),
        (
            "  a: {handler: a, params: {how: '{{ job.ending }}'}}\n",
            (3, 37),
            "how the job ends is not known here",
        ),
        (
            "  a: {handler: a}\n  t: {handler: t, finally: true}\noutput: {n: '{{ nodes.t.output }}'}\n",
            (5, 17),
            "t has finally: it runs once the output is made",
        ),
        (
            "  a: {handler: a, params: {n: '{{ nodes.t.output }}'}}\n  t: {handler: t, finally: true}\n",
            (3, 35),
            "t runs after this node",
        ),
    ],
)
def test_g4_a_mistake_is_told_where_it_is(nodes: str, at: tuple[int, int], message: str) -> None:
    (found,) = mistakes(nodes)
    assert found[:3] == (*at, message)
    assert found[3] or "finally is" in message


def test_a_retry_runs_every_cleanup_node_again_and_whole() -> None:
    workflow = load_yaml(TWO_LEAVES, "w.yaml").require()
    states = {
        **dict.fromkeys(("first", "left", "right", "leave"), NodeState.COMPLETED),
        "tidy": NodeState.FAILED,
    }
    again = choose_retry(workflow, states, {"tidy": 1})
    assert (again.nodes, again.kept) == (("tidy", "leave"), frozenset())
    again = choose_retry(workflow, {**states, "left": NodeState.FAILED, "tidy": NodeState.COMPLETED}, {"left": 1})
    assert (again.nodes, again.kept) == (("left", "tidy", "leave"), frozenset({"left"}))
