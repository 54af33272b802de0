"""A workflow as `workflows show` prints it."""

from collections.abc import Iterator, Mapping
from typing import Any

from anabranch.canonical import Json, encode
from anabranch.cli.terminal.output import in_one_line, print_json, print_line, print_table
from anabranch.cli.workflows.registry import summarize
from anabranch.engine.gate_answers import spell_answer, spell_command
from anabranch.workflows.definition import Workflow
from anabranch.workflows.nodes import FanInNode, GateNode, Kind, Node, Spread, StageNode
from anabranch.workflows.rules import declared_values
from anabranch.workflows.stages import Declaration
from anabranch.workflows.work import DEFAULT_TIMEOUT

__all__ = ["show_definition"]

Schema = Mapping[str, Any]  # JSON Schema, ours or pydantic's
BOUNDS = {
    "minimum": "at least {}",
    "exclusiveMinimum": "more than {}",
    "minLength": "at least {} long",
    "minItems": "at least {} items",
    "maximum": "at most {}",
    "exclusiveMaximum": "less than {}",
    "maxLength": "at most {} long",
    "maxItems": "at most {} items",
    "enum": "one of {}",
}

_ELSEWHERE = {
    "branches", "condition_field", "description", "handler", "output", "parallelism", "params", "queue", "source",
    "task", "task_type", "workflow",
}  # fmt: skip


def show_definition(declared: Declaration) -> None:
    """Print a workflow: its properties, inputs, nodes and output."""
    workflow = declared.workflow
    facts = {"priority": workflow.priority, "rerun": workflow.rerun or None, **summarize(declared).raw}
    for name in ("workflow_id", "name", "description", "version", "priority", "rerun", "origin", "hash"):
        if facts[name] not in ("", None):
            print_line(f"{name:11}  {in_one_line(facts[name])}")
    print_line("")
    _show_inputs(declared.inputs_schema)
    print_line("")
    print_table(["node", "type", "runs", "queue", "next", "policies"], _nodes(workflow))
    if workflow.output is not None:
        print_line("\noutput")
        print_json(workflow.output)


def _show_inputs(schema: Schema) -> None:
    inputs = schema.get("properties", {})
    if inputs:
        rows = ([name, *_input(given, name in schema.get("required", ()))] for name, given in inputs.items())
        print_table(["input", "type", "default", "rules", "description"], rows)
    else:
        print_line("inputs       any" if schema.get("additionalProperties", True) else "inputs       none")


def _input(given: Schema, required: bool) -> list[str | None]:
    default = encode(given["default"]) if "default" in given else None
    rules = [rule.format(_value(given[key])) for key, rule in BOUNDS.items() if key in given]
    words = ("required" if required else "", *rules)
    return [_type(given), default, ", ".join(filter(None, words)) or None, in_one_line(given.get("description"))]


def _type(given: Schema) -> str:
    if "anyOf" in given:
        return " or ".join(map(_type, given["anyOf"]))
    return str(given.get("type") or given.get("$ref", "any").rpartition("/")[2])


def _value(value: Any) -> str:  # JSON of any shape
    if isinstance(value, list):
        return ", ".join(map(encode, value))
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _nodes(workflow: Workflow) -> Iterator[list[str | None]]:
    for node in workflow.nodes:
        after = [other.name for other in workflow.nodes if node.name in other.parents]
        kind = node.spread if isinstance(node, StageNode) and node.spread is not Spread.SINGLE else node.kind
        queue = getattr(node if isinstance(node, FanInNode) else node.work, "queue", None)
        runs = node.work.runs if node.work else None
        yield [node.name, kind, runs, queue, ", ".join(after) or None, "; ".join(_policies(node)) or None]


def _policies(node: Node) -> Iterator[str]:
    """What a node declares, but for the defaults and what other columns show."""
    declared = declared_values(node) | (declared_values(node.work) if node.work else {})
    if declared.get("timeout_seconds") == DEFAULT_TIMEOUT.total_seconds() and node.kind is not Kind.GATE:
        del declared["timeout_seconds"]  # it is resolved from the handler's, which is rarely another
    if isinstance(node, GateNode):
        declared.pop("answer", None)
        yield f"answer {spell_answer(node.answer) or 'without fields'}" if node.answer is not None else "any answer"
        yield f"`{spell_command('JOB', node)}`"
    if node.after_any:
        yield f"after any of {', '.join(node.after_any)}"
    yield from (f"{key} {_spell(value)}" for key, value in declared.items() if key not in _ELSEWHERE and value != {})


def _spell(value: Json) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_spell(part)}" for key, part in value.items())
    return " and ".join(map(_spell, value)) if isinstance(value, list) else _value(value)
