"""A workflow as a drawing: its nodes and edges as the layout needs them."""

from collections.abc import Iterator, Mapping

from anabranch.canonical import Json, encode
from anabranch.durations import spell_duration
from anabranch.workflows.definition import Workflow
from anabranch.workflows.drawing import Edge, Layout, Vertex, draw, to_svg, to_text
from anabranch.workflows.edges import Branch
from anabranch.workflows.nodes import (
    ConditionalNode,
    FanInNode,
    FanOutNode,
    GateNode,
    Kind,
    Node,
    Spread,
    StageNode,
    WaitNode,
)

__all__ = ["draw_workflow", "workflow_svg", "workflow_text"]

TIMES = "\N{MULTIPLICATION SIGN}"


def workflow_svg(workflow: Workflow, states: Mapping[str, str] = {}) -> str:
    """The drawing as SVG; `states` colours nodes by their id."""
    return to_svg(draw_workflow(workflow), states, title=workflow.name or workflow.id)


def workflow_text(workflow: Workflow, states: Mapping[str, str] = {}) -> str:
    """The drawing as text for a terminal; `states` marks nodes by their id."""
    return to_text(draw_workflow(workflow), states)


def draw_workflow(workflow: Workflow) -> Layout:
    """Where each node and edge of a workflow goes."""
    return draw(
        [Vertex(node.name, node.name, _shape(node), _note(node)) for node in workflow.nodes],
        [edge for node in workflow.nodes for edge in _edges(node, workflow)],
    )


def _shape(node: Node) -> str:
    if not isinstance(node, StageNode) or node.spread is Spread.SINGLE:
        return node.kind
    return Kind.FAN_IN if node.spread is Spread.FAN_IN else Kind.FAN_OUT


def _note(node: Node) -> str:
    match node:
        case ConditionalNode():
            return _spell(node.subject)
        case FanInNode():
            return ", ".join(dict.fromkeys(folding.fold for folding in node.folding))
        case GateNode():
            return "" if node.timeout is None else f"up to {_spell_seconds(node.timeout.total_seconds())}"
        case WaitNode():
            return _spell_seconds(node.duration_seconds) if node.until is None else f"until {_spell(node.until)}"
        case _:
            said = ("finally" if node.cleanup else "", node.work.runs if node.work else "", _many(node))
            return " ".join(filter(None, said))


def _spell_seconds(seconds: Json) -> str:
    """A duration in words; an expression as it is."""
    return spell_duration(seconds) if isinstance(seconds, int | float) else f"{_spell(seconds)} s"


def _many(node: Node) -> str:
    """How many tasks a node has, where it isn't one."""
    if isinstance(node, FanOutNode):
        return f"{TIMES} batches of {node.batch_size}" if node.batch_size else f"{TIMES} items"
    if not isinstance(node, StageNode) or node.spread in (Spread.SINGLE, Spread.FAN_IN):
        return ""
    wide = "previous" if node.spread is Spread.MATCH_PREVIOUS else node.count or node.count_param or "tasks"
    return f"{TIMES} {wide}"


def _edges(node: Node, workflow: Workflow) -> Iterator[Edge]:
    """The edges to a node; those of which one is enough say `any`."""
    for parent in node.after:
        yield Edge(parent, node.name, _branches(workflow.node(parent), node))
    for parent in node.after_any:
        way = _branches(workflow.node(parent), node)
        yield Edge(parent, node.name, f"any: {way}" if way else "any")


def _branches(parent: Node, child: Node) -> str:
    branches = parent.branches if isinstance(parent, ConditionalNode) else ()
    return " | ".join(_condition(branch) for branch in branches if child.name in branch.next)


def _condition(branch: Branch) -> str:
    return "default" if branch.is_default else _spell(branch.condition)


def _spell(value: Json) -> str:
    """An expression without its braces; JSON where it isn't text."""
    if value is None:
        return ""
    text = value if isinstance(value, str) else encode(value)
    inner = text.strip().removeprefix("{{").removesuffix("}}")
    return text if "{{" in inner or "}}" in inner else inner.strip()
