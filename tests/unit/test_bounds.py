"""Numbers have the same bounds in YAML and in Python, and the error shows the bound."""

import re
from datetime import timedelta
from typing import Any

import pytest

from anabranch.canonical import decode
from anabranch.engine.worker.handler import handler
from anabranch.errors import DefinitionError, InputError
from anabranch.workflows.definition import Workflow
from anabranch.workflows.inputs import Input
from anabranch.workflows.nodes import Kind, Spread
from anabranch.workflows.stages import Declaration, declare
from anabranch.workflows.validation import require_sound
from anabranch.workflows.work import Retry
from anabranch.workflows.yaml.load import load_yaml
from tests.support.nodes import make_node

OUT_OF_BOUNDS: list[tuple[str, Any, str]] = [
    ("max_attempts", 1001, "1,?000"),
    ("max_attempts", 0, "1"),
    ("initial_delay_seconds", 1e13, "1,?000,?000,?000"),
    ("max_delay_seconds", 1e13, "1,?000,?000,?000"),
    ("timeout_seconds", 1e13, "1,?000,?000,?000"),
    ("queue_timeout_seconds", 1e13, "1,?000,?000,?000"),
    ("heartbeat_timeout_seconds", 1e13, "1,?000,?000,?000"),
    ("total_timeout_seconds", 1e13, "1,?000,?000,?000"),
    ("timeout_seconds", 0, "0"),
]
RETRY = ("max_attempts", "initial_delay_seconds", "max_delay_seconds")


def stage(name: str, value: object) -> dict[str, Any]:
    return {"retry": {name: value}} if name in RETRY else {name: value}


@pytest.mark.parametrize(("name", "value", "bound"), OUT_OF_BOUNDS)
def test_a7_a_stage_is_bounded_as_a_node_of_yaml_is(name: str, value: object, bound: str) -> None:
    declared = {"number": 1, "task_type": "do", **stage(name, value)}
    with pytest.raises(DefinitionError, match=f"{name}.*{bound}"):
        declare(type("Job", (), {"job_type": "job", "stages": [declared]}))
    key = f"retry: {{{name}: {value}}}" if name in RETRY else f"{name}: {value}"
    text = f"workflow_id: job\nnodes:\n  one: {{type: task, handler: do, {key}}}\n"
    assert re.search(f"{name}.*{bound}", str(load_yaml(text, "job.yaml").mistakes))


@pytest.mark.parametrize(
    ("more", "bound"),
    [
        ({"max_parallel_tasks": 2**31}, "max_parallel_tasks.*2,147,483,647"),
        ({"max_parallel_tasks": 0}, "max_parallel_tasks.*1"),
        ({"parallelism": "fixed", "count": 1_000_001}, "count.*1,000,000"),
    ],
)
def test_b14_a_stage_has_no_more_tasks_than_a_fan_out_has_items(more: dict[str, Any], bound: str) -> None:
    with pytest.raises(DefinitionError, match=bound):
        declare(type("Job", (), {"job_type": "job", "stages": [{"number": 1, "task_type": "do", **more}]}))


@pytest.mark.parametrize(
    ("more", "bound"),
    [
        ({"retry": Retry(max_attempts=1001)}, "retry.max_attempts is a whole number from 1 to 1,000"),
        ({"retry": Retry(max_delay=timedelta(days=20_000))}, "retry.max_delay_seconds .* up to 1,000,000,000"),
        ({"total_timeout": timedelta(days=20_000)}, "total_timeout_seconds .* up to 1,000,000,000"),
        ({"spread": Spread.FIXED, "count": 1_000_001}, "count is a whole number from 0 to 1,000,000"),
        ({"max_running": 2**31}, "max_parallel_tasks is a whole number from 1 to 2,147,483,647"),
        ({"kind": Kind.FAN_OUT, "max_items": 2**31}, "max_items is a whole number from 1 to 2,147,483,647"),
        ({"params": {}, "priority": 10}, "priority is a whole number from 1 to 9"),
    ],
)
def test_a7_a_workflow_made_in_python_is_bounded_too(more: dict[str, Any], bound: str) -> None:
    with pytest.raises(DefinitionError, match=bound):
        require_sound(Workflow("job", (make_node("one", "do", **more),)))


@pytest.mark.parametrize(
    ("more", "bound"),
    [
        ({"timeout_seconds": 1e13}, "timeout_seconds is a number of seconds up to 1,000,000,000"),
        ({"timeout_seconds": 0}, "timeout_seconds is a number of seconds above 0"),
        ({"retry": Retry(max_attempts=10**6)}, "retry.max_attempts is a whole number from 1 to 1,000"),
        ({"retry": Retry(initial_delay=timedelta(seconds=-1))}, "retry.initial_delay_seconds .* of 0 or more"),
    ],
)
def test_a7_a_handler_is_bounded_too(more: dict[str, Any], bound: str) -> None:
    with pytest.raises(DefinitionError, match=bound):
        handler("test.do", **more)


def test_b14_a_count_parameter_beyond_all_bounds_is_refused_at_submission() -> None:
    workflow = Workflow("job", (make_node("one", "do", spread=Spread.DYNAMIC, count_param="n"),))
    assert Declaration(workflow).check({"n": 1_000_000}) == {"n": 1_000_000}
    with pytest.raises(InputError, match="one: n is at most 1,000,000 tasks"):
        Declaration(workflow).check({"n": 2**31})


def test_e16_what_was_pinned_before_there_were_bounds_is_read() -> None:
    pinned = Workflow("job", (make_node("one", "do", retry=Retry(max_attempts=10**6)),))
    assert Workflow.from_json(decode(pinned.text)) == pinned


@pytest.mark.parametrize("place", ["", "nodes.0", "nodes.0.retry", "nodes.1", "inputs.n"])
def test_e16_what_a_later_release_pinned_with_keys_of_its_own_is_not_read(place: str) -> None:
    """To run it without what they say would be another workflow."""
    nodes = (make_node("one", "do", retry=Retry(max_attempts=2)), make_node("two", "do", kind=Kind.FAN_OUT, source=[1]))
    stored: Any = decode(Workflow("job", nodes, inputs={"n": Input(type="integer")}).text)
    assert Workflow.from_json(stored).nodes == nodes
    part = stored
    for key in filter(None, place.split(".")):
        part = part[int(key) if key.isdigit() else key]
    part["later"] = 1
    with pytest.raises(ValueError, match="later"):
        Workflow.from_json(stored)
