"""Workflows that run jobs of other workflows: pinned to each other by hash, from the innermost out (E16)."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from anabranch.engine.from_stages import Declaration
from anabranch.engine.mistakes import nearest
from anabranch.engine.workflow import Node, Workflow

__all__ = ["MAX_DEPTH", "Nested", "nest"]

MAX_DEPTH = 8


@dataclass
class Nested:
    """Workflows with their parts, and those that can't have them, each with the reason."""

    declarations: dict[str, Declaration] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    depths: dict[str, int] = field(default_factory=dict)


def nest(declared: Mapping[str, Declaration]) -> Nested:
    """Pin every workflow to the definitions of those it runs; one that runs itself, in the end, is refused."""
    nested = Nested()
    for name in declared:
        _place(name, declared, nested, ())
    nested.declarations = {name: nested.declarations[name] for name in declared if name in nested.declarations}
    return nested


def _place(name: str, declared: Mapping[str, Declaration], nested: Nested, way: tuple[str, ...]) -> None:
    if name in nested.declarations or name in nested.refused:
        return
    if name in way:
        around = " → ".join([*way[way.index(name) :], name])
        nested.refused[name] = f"it would run itself: {around}"
        return
    workflow = declared[name].workflow
    for node in _running_jobs(workflow):
        if node.workflow in declared:
            _place(node.workflow, declared, nested, (*way, name))
    reasons = list(_mistakes(workflow, nested))
    if name in nested.refused:
        return
    if reasons:
        nested.refused[name] = "; ".join(reasons)
        return
    below = [nested.declarations[node.workflow] for node in _running_jobs(workflow)]
    nested.depths[name] = 1 + max((nested.depths[part.workflow.id] for part in below), default=0)
    nodes = tuple(_pinned(node, nested) for node in workflow.nodes)
    parts = {part.hash: part for one in below for part in (one.workflow, *one.parts)}
    nested.declarations[name] = replace(
        declared[name], workflow=replace(workflow, nodes=nodes), parts=tuple(parts.values())
    )


def _running_jobs(workflow: Workflow) -> Iterator[Node]:
    return (node for node in workflow.nodes if node.workflow)


def _mistakes(workflow: Workflow, nested: Nested) -> Iterator[str]:
    for node in _running_jobs(workflow):
        if node.workflow in nested.refused:
            yield f"{node.name}: the workflow {node.workflow!r} was refused"
        elif node.workflow not in nested.declarations:
            hint = nearest(node.workflow, list(nested.declarations))
            yield f"{node.name}: there is no workflow {node.workflow!r}. {hint}".strip()
        elif nested.depths[node.workflow] >= MAX_DEPTH:
            yield f"{node.name}: workflows run workflows more than {MAX_DEPTH} deep"
        else:
            yield from _input_mistakes(node, nested.declarations[node.workflow].workflow)


def _input_mistakes(node: Node, child: Workflow) -> Iterator[str]:
    given = node.params or {}
    if child.inputs is None:
        return
    for name in given:
        if name not in child.inputs:
            hint = nearest(name, list(child.inputs)) or f"It takes {', '.join(child.inputs) or 'nothing'}."
            yield f"{node.name}: {child.id} takes no input {name!r}. {hint}"
    for name, wanted in child.inputs.items():
        if wanted.required and not wanted.has_default and name not in given:
            yield f"{node.name}: {child.id} needs the input {name!r}"


def _pinned(node: Node, nested: Nested) -> Node:
    return replace(node, workflow_hash=nested.declarations[node.workflow].workflow.hash) if node.workflow else node
