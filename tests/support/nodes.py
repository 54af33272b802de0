"""Nodes in one line, as tests write them."""

from dataclasses import fields
from typing import Any

from anabranch.workflows.nodes import NODES, AnyNode, FanOutNode, Kind, Spread, StageNode
from anabranch.workflows.work import HandlerWork, WorkflowWork

__all__ = ["make_node"]


def make_node(
    name: str,
    handler: str = "",
    after: tuple[str, ...] = (),
    spread: Spread = Spread.SINGLE,
    *,
    kind: Kind = Kind.TASK,
    **more: Any,  # fields of the kind, or of a fan-out's task
) -> AnyNode:
    """A node of a kind; a task without params is a stage."""
    if kind is Kind.TASK and more.get("params") is None:
        return StageNode(name=name, handler=handler, after=after, spread=spread, **more)
    if kind in (Kind.TASK, Kind.FAN_OUT) and handler:
        more["handler"] = handler
    if kind is Kind.CONDITIONAL:
        more.setdefault("branches", ())
    if kind is Kind.FAN_OUT:
        own = {field.name for field in fields(FanOutNode)}
        task = {key: more.pop(key) for key in list(more) if key not in own}
        more["task"] = WorkflowWork(**task) if "workflow" in task else HandlerWork(**{"handler": "", **task})
        more.setdefault("source", [])
    return NODES[kind](name=name, after=after, **more)  # type: ignore[return-value]  # one of them
