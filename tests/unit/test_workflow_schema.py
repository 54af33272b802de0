"""The schema for editors has the loader's keys, takes what it takes, and refuses what a schema can see."""

import importlib.util
import json
import re
from collections.abc import Callable
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from anabranch.plugins import demo
from anabranch.workflows import inputs
from anabranch.workflows.definition import Workflow
from anabranch.workflows.edges import Branch, DependsOn
from anabranch.workflows.inputs import Input
from anabranch.workflows.nodes import NODES, Kind
from anabranch.workflows.rules import declared_keys
from anabranch.workflows.schedules.schedule import Schedule
from anabranch.workflows.work import HandlerWork, Retry, WorkflowWork
from anabranch.workflows.yaml.json_schema import workflow_schema
from anabranch.workflows.yaml.load import load_yaml
from tests.support.broken import BROKEN

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "workflows.md"
DEMOS = {file.stem: file.read_text() for file in sorted((Path(demo.__path__[0]) / "workflows").glob("*.yaml"))}
EXAMPLES = dict(enumerate(re.findall(r"```yaml\n(workflow_id.*?)```", PAGE.read_text(), re.DOTALL)))
SCHEMA: dict[str, Any] = json.loads(json.dumps(workflow_schema()))
PARTS: dict[str, tuple[str, ...]] = {
    **{
        model.__name__: tuple(declared_keys(model))
        for model in (Branch, DependsOn, HandlerWork, Input, Retry, Schedule, WorkflowWork)
    },
    **{node.__name__: ("type", *node.edges, *declared_keys(node)) for node in NODES.values()},
}
TYPES: dict[str, Callable[[Any], bool]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
}
Rule = Callable[[Any, Any, dict[str, Any]], bool]


def fits(value: Any, schema: dict[str, Any]) -> bool:
    """Whether a value is as a schema says; of JSON Schema, the words that ours uses."""
    unknown = schema.keys() - RULES.keys() - {"description", "default", "examples", "$schema", "title", "$defs", "then"}
    assert not unknown
    return all(rule(value, schema[word], schema) for word, rule in RULES.items() if word in schema)


def fits_properties(value: Any, rule: dict[str, Any], _schema: dict[str, Any]) -> bool:
    return not isinstance(value, dict) or all(fits(value[key], rule[key]) for key in rule if key in value)


def fits_other_properties(value: Any, rule: Any, schema: dict[str, Any]) -> bool:
    others = value.keys() - schema.get("properties", {}).keys() if isinstance(value, dict) else ()
    return not others if rule is False else all(fits(value[key], rule) for key in others)


RULES: dict[str, Rule] = {
    "$ref": lambda value, rule, _: fits(value, SCHEMA["$defs"][rule.removeprefix("#/$defs/")]),
    "type": lambda value, rule, _: any(TYPES[name](value) for name in ([rule] if isinstance(rule, str) else rule)),
    "enum": lambda value, rule, _: value in rule,
    "const": lambda value, rule, _: value == rule,
    "not": lambda value, rule, _: not fits(value, rule),
    "anyOf": lambda value, rule, _: any(fits(value, each) for each in rule),
    "allOf": lambda value, rule, _: all(fits(value, each) for each in rule),
    "if": lambda value, rule, schema: not fits(value, rule) or fits(value, schema["then"]),
    "required": lambda value, rule, _: not isinstance(value, dict) or value.keys() >= set(rule),
    "properties": fits_properties,
    "additionalProperties": fits_other_properties,
    "propertyNames": lambda value, rule, _: not isinstance(value, dict) or all(fits(key, rule) for key in value),
    "minProperties": lambda value, rule, _: not isinstance(value, dict) or len(value) >= rule,
    "maxProperties": lambda value, rule, _: not isinstance(value, dict) or len(value) <= rule,
    "items": lambda value, rule, _: not isinstance(value, list) or all(fits(each, rule) for each in value),
    "minItems": lambda value, rule, _: not isinstance(value, list) or len(value) >= rule,
    "uniqueItems": lambda value, rule, _: not isinstance(value, list) or len(set(map(str, value))) == len(value),
    "minLength": lambda value, rule, _: not isinstance(value, str) or len(value) >= rule,
    "pattern": lambda value, rule, _: not isinstance(value, str) or re.search(rule, value) is not None,
    "minimum": lambda value, rule, _: not TYPES["number"](value) or value >= rule,
    "maximum": lambda value, rule, _: not TYPES["number"](value) or value <= rule,
    "exclusiveMinimum": lambda value, rule, _: not TYPES["number"](value) or value > rule,
}


def is_valid(text: str) -> bool:
    """By our own reading, and by the package's where it is installed."""
    value = yaml.safe_load(text)
    fitting = fits(value, SCHEMA)
    if validator := checked_validator():
        assert validator.is_valid(value) == fitting
    return fitting


@cache
def checked_validator() -> Any:  # of a package that may be absent
    if not importlib.util.find_spec("jsonschema"):
        return None
    validator = importlib.import_module("jsonschema").Draft202012Validator
    validator.check_schema(SCHEMA)
    return validator(SCHEMA)


@pytest.mark.parametrize("part", PARTS)
def test_the_schema_has_the_keys_of_the_loader(part: str) -> None:
    assert sorted(SCHEMA["$defs"][part]["properties"]) == sorted(PARTS[part])
    assert SCHEMA["$defs"][part]["additionalProperties"] is False


def test_the_schema_has_the_keys_of_a_workflow_and_no_other_parts() -> None:
    assert SCHEMA["properties"].keys() == {*declared_keys(Workflow), "inputs", "nodes"}
    assert SCHEMA["$defs"].keys() == {*PARTS, "Backoff", "CatchUp", "Existing", "OnFailure", "Overlap"}
    assert NODES.keys() == set(Kind)


def test_the_schema_has_the_words_of_inputs() -> None:
    assert set(SCHEMA["$defs"]["Input"]["properties"]["type"]["enum"]) == inputs._SPELLINGS.keys()


def test_every_key_has_a_description() -> None:
    objects = [SCHEMA, *(part for part in SCHEMA["$defs"].values() if "properties" in part)]
    keys = [(key, known) for part in objects for key, known in part["properties"].items()]
    assert [key for key, known in keys if not known.get("description", "").endswith(".")] == []


@pytest.mark.parametrize("text", [*DEMOS.values(), *EXAMPLES.values()], ids=[*DEMOS, *map(str, EXAMPLES)])
def test_a_workflow_that_loads_fits_the_schema(text: str) -> None:
    assert load_yaml(text, "w.yaml").mistakes == ()
    assert is_valid(text)


SEEN = (
    "wait_with_*",
    "wait_of_*",
    "until_is_[!d]*",
    "workflow_with_*",
    "task_*workflow*",
    "unknown_key_*",
    "no_[!ied]*",
    "*_is_a_*",
    "*_are_a_*",
    "priority_*",
    "timeout_*",
    "max_attempts_0",
    "type_*",
)


@pytest.mark.parametrize("name", [name for name in BROKEN if any(fnmatchcase(name, part) for part in SEEN)])
def test_the_schema_refuses_the_mistakes_it_can_see(name: str) -> None:
    assert not is_valid(BROKEN[name])


@pytest.mark.parametrize(
    ("key", "inside", "outside"),
    [
        ("priority", ["1", "9"], ["0", "10", "1.5"]),
        ("timeout_seconds", ["0.5", "1000000000"], ["0", "-1", "1000000001", "'5'"]),
        ("retry", ["{max_attempts: 1}", "{max_attempts: 1000}"], ["{max_attempts: 0}", "{max_attempts: 1001}"]),
        ("retry", ["{initial_delay_seconds: 0}"], ["{initial_delay_seconds: -1}", "{backoff: cubic}", "5"]),
        ("on_failure", ["fail", "finish", "continue"], ["ignore", "true"]),
        ("depends_on", ["[]", "{any_of: []}"], ["5", "{none_of: []}", "[5]"]),
    ],
)
def test_the_schema_and_the_loader_have_the_same_bounds(key: str, inside: list[str], outside: list[str]) -> None:
    for value in [*inside, *outside]:
        text = f"workflow_id: w\nnodes:\n  a: {{handler: echo, {key}: {value}}}\n"
        assert is_valid(text) == (load_yaml(text, "w.yaml").workflow is not None) == (value in inside), value


@pytest.mark.parametrize(
    ("key", "inside", "outside"),
    [
        ("tolerate", ["0", "5", "5 %", "12.5%", "100 %"], ["-1", "1.5", "120 %", "some"]),
        ("batch_size", ["1"], ["0", "1.5"]),
        ("max_items", ["1", "2147483647"], ["0", "2147483648"]),
        ("concurrency", ["1"], ["0", "many"]),
        ("source", ["[]", "'{{ inputs.x }}'"], ["5", "{a: 1}"]),
    ],
)
def test_of_a_fan_out_too(key: str, inside: list[str], outside: list[str]) -> None:
    for value in [*inside, *outside]:
        source = "" if key == "source" else "source: [], "
        body = f"{{type: fan_out, {source}task: {{handler: echo}}, {key}: {value}}}"
        text = f"workflow_id: w\ninputs: {{x: }}\nnodes:\n  a: {body}\n"
        assert is_valid(text) == (load_yaml(text, "w.yaml").workflow is not None) == (value in inside), value


@pytest.mark.parametrize(
    ("kind", "key", "inside", "outside"),
    [
        (
            "wait",
            "duration_seconds",
            ["0", "0.5", "1000000000", "'{{ inputs.x }}'"],
            ["-1", "1000000001", "'5'", "true"],
        ),
        ("wait", "until", ["'2030-01-31T12:00:00Z'", "'2030-01-31 12:00+02:00'"], ["'2030-01-31'", "tomorrow", "5"]),
        ("gate", "timeout_seconds", ["1", "null"], ["0", "'{{ inputs.x }}'"]),
        ("task, handler: echo", "limit", ["x", "'{{ inputs.x }}'"], ["5", "''"]),
        ("workflow", "workflow", ["child"], ["5", "''", "'a child'"]),
    ],
)
def test_of_what_waits_and_nests_too(kind: str, key: str, inside: list[str], outside: list[str]) -> None:
    for value in [*inside, *outside]:
        text = f"workflow_id: w\ninputs: {{x: }}\nnodes:\n  a: {{type: {kind}, {key}: {value}}}\n"
        fits_loader = load_yaml(text, "w.yaml").workflow is not None
        assert (is_valid(text) or value == "null") == fits_loader == (value in inside), value
