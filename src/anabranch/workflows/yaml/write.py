"""Writes a workflow as YAML; loading the text gives the same workflow."""

from collections.abc import Mapping
from typing import Any

import yaml

from anabranch.canonical import Json, JsonObject
from anabranch.errors import InputError
from anabranch.workflows.definition import Workflow
from anabranch.workflows.edges import Branch
from anabranch.workflows.inputs import declare_input
from anabranch.workflows.nodes import (
    AnyNode,
    ConditionalNode,
    FanInNode,
    FanOutNode,
    Folding,
    GateNode,
    Kind,
    StageNode,
    Tolerance,
)
from anabranch.workflows.rules import declared_values
from anabranch.workflows.work import Handler, HandlerWork, Work

__all__ = ["write_document", "write_yaml"]

_DECIDED = ("queue", "timeout", "retry")  # by the handler, where a node says nothing


def write_yaml(workflow: Workflow, handlers: Mapping[str, Handler]) -> str:
    """The text of a file; what the handlers decide anyway is left out."""
    document = write_document(workflow, handlers)
    return yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)


def write_document(workflow: Workflow, handlers: Mapping[str, Handler]) -> JsonObject:
    """What the file holds."""
    if any(isinstance(node, StageNode) for node in workflow.nodes):
        raise InputError(
            "workflow.stages",
            f"{workflow.id} is declared by a class with stages, whose tasks Python code plans",
            remedy="Only workflows in YAML and workflow functions can be shown as YAML.",
        )
    own = declared_values(workflow)
    output = {} if workflow.output is None else {"output": own.pop("output")}
    inputs: JsonObject = {name: declare_input(wanted) for name, wanted in (workflow.inputs or {}).items()}
    nodes: JsonObject = {node.name: _node(node, workflow, handlers) for node in workflow.nodes}
    return {**own, **({"inputs": inputs} if inputs else {}), "nodes": nodes, **output}


def _node(node: AnyNode, workflow: Workflow, handlers: Mapping[str, Handler]) -> Json:
    said: dict[str, Any] = declared_values(node)  # of the file
    if isinstance(node, FanOutNode):
        said["task"] = _work(node.task, declared_values(node.task), handlers)
        if node.tolerate != Tolerance():
            said["tolerate"] = f"{node.tolerate.percent:g} %" if node.tolerate.percent else node.tolerate.count
    elif isinstance(node, FanInNode):
        said["aggregation"] = _aggregation(node.folding)
    elif isinstance(node, GateNode) and node.answer is not None:
        said["answer"] = {name: declare_input(wanted) for name, wanted in node.answer.items()}
    elif isinstance(node, ConditionalNode):
        said["branches"] = [_branch(branch) for branch in node.branches]
    elif isinstance(node, Work):
        said = _work(node, said, handlers)
    kind = {} if node.kind is Kind.TASK else {"type": str(node.kind)}
    return {**kind, **said, **_depends_on(node, workflow)}


def _work(work: Work, said: JsonObject, handlers: Mapping[str, Handler]) -> JsonObject:
    found = handlers.get(work.handler) if isinstance(work, HandlerWork) else None
    decided = [name for name in _DECIDED if found and getattr(work, name) == getattr(found, name)]
    hidden = {"timeout_seconds" if name == "timeout" else name for name in decided}
    shown = {key: value for key, value in said.items() if key not in hidden and not (key == "params" and value == {})}
    return {key: shown[key] for key in sorted(shown, key=("workflow", "handler").__contains__, reverse=True)}


def _branch(branch: Branch) -> Json:
    condition: JsonObject = {"default": True} if branch.is_default else {"condition": branch.condition}
    return {**condition, "next": [*branch.next]}


def _aggregation(folding: tuple[Folding, ...]) -> Json:
    if len(folding) == 1 and not folding[0].field:
        return str(folding[0].fold)
    return {fold.name: {str(fold.fold): fold.field} for fold in folding}


def _depends_on(node: AnyNode, workflow: Workflow) -> JsonObject:
    """What it waits for, said where the node is; of cleanup nodes only each other, for they come last anyway."""
    sources = node.sources if isinstance(node, FanInNode) else ()
    named = [name for name in node.after if workflow.node(name).cleanup or not node.cleanup]
    all_of: list[Json] = [*sources, *(name for name in named if name not in sources)]
    any_of: list[Json] = [*node.after_any]
    if any_of:
        return {"depends_on": {**({"all_of": all_of} if all_of else {}), "any_of": any_of}}
    return {"depends_on": all_of} if all_of else {}


class _Dumper(yaml.SafeDumper):
    """Without anchors, which our files may not have; lists are indented."""

    def ignore_aliases(self, data: Any) -> bool:  # any value
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> Any:  # as the library has it
        return super().increase_indent(flow, False)
