"""A workflow as `workflows show` prints it."""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

from anabranch.canonical import Json, encode
from anabranch.cli.registry import schema_of, summarize
from anabranch.cli.show import in_one_line, print_json, print_line, print_table
from anabranch.workflows.definition import Workflow
from anabranch.workflows.nodes import (
    FanInNode,
    FanOutNode,
    GateNode,
    Node,
    OnFailure,
    Spread,
    StageNode,
    Tolerance,
    WaitNode,
)
from anabranch.workflows.stages import Declaration
from anabranch.workflows.work import DEFAULT_TIMEOUT, HandlerWork, Retry, Work

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


def show_definition(declared: Declaration) -> None:
    """Print a workflow: its properties, inputs, nodes and output."""
    workflow = declared.workflow
    facts = {"priority": workflow.priority, **summarize(declared)}
    for name in ("workflow_id", "name", "description", "version", "priority", "origin", "hash"):
        if facts[name] not in ("", None):
            print_line(f"{name:11}  {in_one_line(facts[name])}")
    print_line("")
    _show_inputs(schema_of(declared))
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
    """The policies of a node that differ from the defaults."""
    yield from _policies_of_kind(node)
    if node.work is not None:
        yield from _policies_of_work(node.work)
    if node.on_failure is not OnFailure.FAIL:
        yield f"on failure {node.on_failure}"
    if node.after_any:
        yield f"after any of {', '.join(node.after_any)}"
    if node.when is not None:
        yield f"when {_spell(node.when)}"


def _policies_of_kind(node: Node) -> Iterator[str]:
    match node:
        case WaitNode(until=None):
            yield f"waits {_spell(node.duration_seconds)} s"
        case WaitNode():
            yield f"waits until {_spell(node.until)}"
        case GateNode(timeout=timedelta() as timeout):
            yield f"timeout {timeout.total_seconds():g} s"
        case FanInNode() if node.folding:
            yield f"folds {', '.join(dict.fromkeys(folding.fold for folding in node.folding))}"
        case FanOutNode():
            yield from _limits(node)
        case StageNode(max_running=int() as most):
            yield f"{most} at once"
        case _:
            pass


def _policies_of_work(work: Work) -> Iterator[str]:
    for key, limit in work.timeouts.items() if isinstance(work, HandlerWork) else ():
        if key != "timeout_seconds" or limit != DEFAULT_TIMEOUT:
            yield f"{key.removesuffix('_seconds').replace('_', ' ')} {limit.total_seconds():g} s"
    if work.priority is not None:
        yield f"priority {work.priority}"
    if work.limit is not None:
        yield f"limit {work.limit}"
    if work.retry not in (None, Retry()):
        yield _retry(work.retry)


def _limits(node: FanOutNode) -> Iterator[str]:
    if node.max_items is not None:
        yield f"at most {node.max_items} items"
    if node.max_running is not None:
        yield f"{node.max_running} at once"
    if node.batch_size is not None:
        yield f"batches of {node.batch_size}"
    if node.tolerate != Tolerance():
        yield f"tolerates {node.tolerate.count or f'{node.tolerate.percent:g} %'}"


def _spell(value: Json) -> str:
    return value if isinstance(value, str) else encode(value)


def _retry(retry: Retry) -> str:
    attempts = f"{retry.max_attempts} attempts" if retry.max_attempts else "attempts by the error"
    delays = f"{retry.initial_delay.total_seconds():g} to {retry.max_delay.total_seconds():g} s"
    return f"{attempts}, {retry.backoff} {delays}"
