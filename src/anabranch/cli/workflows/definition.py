"""A workflow as `workflows show` prints it."""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

from anabranch.canonical import encode
from anabranch.cli.terminal.output import in_one_line, print_json, print_line, print_table
from anabranch.cli.workflows.registry import summarize
from anabranch.workflows.definition import DEFAULT_TIMEOUT, Kind, Node, OnFailure, Retry, Spread, Tolerance, Workflow
from anabranch.workflows.stages import Declaration

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
        policies = "; ".join(_policies(node))
        kind = node.kind if node.spread is Spread.SINGLE else node.spread
        runs = node.handler or node.workflow or None
        yield [node.name, kind, runs, node.queue, ", ".join(after) or None, policies or None]


def _policies(node: Node) -> Iterator[str]:
    """The policies of a node that differ from the defaults."""
    yield from _waits(node)
    yield from _timeouts(node)
    yield from _limits(node)
    if node.retry not in (None, Retry()):
        yield _retry(node.retry)
    if node.on_failure is not OnFailure.FAIL:
        yield f"on failure {node.on_failure}"
    if node.after_any:
        yield f"after any of {', '.join(node.after_any)}"
    if node.when is not None:
        yield f"when {node.when if isinstance(node.when, str) else encode(node.when)}"


def _waits(node: Node) -> Iterator[str]:
    for given, words in ((node.duration_seconds, "waits {} s"), (node.until, "waits until {}")):
        if given is not None:
            yield words.format(given if isinstance(given, str) else encode(given))


def _timeouts(node: Node) -> Iterator[str]:
    if node.timeout != DEFAULT_TIMEOUT or node.kind is Kind.GATE:
        yield from _span("timeout", node.timeout)
    yield from _span("queue timeout", node.queue_timeout)
    yield from _span("heartbeat timeout", node.heartbeat_timeout)
    yield from _span("total timeout", node.total_timeout)


def _span(name: str, value: timedelta | None) -> Iterator[str]:
    if value is not None:
        yield f"{name} {value.total_seconds():g} s"


def _limits(node: Node) -> Iterator[str]:
    if node.priority is not None:
        yield f"priority {node.priority}"
    if node.limit is not None:
        yield f"limit {node.limit}"
    if node.max_items is not None:
        yield f"at most {node.max_items} items"
    if node.max_running is not None:
        yield f"{node.max_running} at once"
    if node.batch_size is not None:
        yield f"batches of {node.batch_size}"
    if node.folding:
        yield f"folds {', '.join(dict.fromkeys(folding.fold for folding in node.folding))}"
    if node.tolerate != Tolerance():
        yield f"tolerates {node.tolerate.count or f'{node.tolerate.percent:g} %'}"


def _retry(retry: Retry) -> str:
    attempts = f"{retry.max_attempts} attempts" if retry.max_attempts else "attempts by the error"
    delays = f"{retry.initial_delay.total_seconds():g} to {retry.max_delay.total_seconds():g} s"
    return f"{attempts}, {retry.backoff} {delays}"
