"""Policies and shapes of lanes, as they are stored: other releases and SQL functions read the same JSON."""

from datetime import timedelta

import pytest

from anabranch.adapters.postgres.store.rows import write_change
from anabranch.canonical import Json
from anabranch.engine.advancing.lanes import fan_in_lane, plan_lane, work_lane
from anabranch.engine.policy import TaskPolicy, TaskShape
from anabranch.workflows.definition import Workflow
from anabranch.workflows.nodes import FanInNode, Folding, Spread, StageNode, WorkflowNode
from anabranch.workflows.values import Fold
from anabranch.workflows.work import Backoff, Retry

SECOND = timedelta(seconds=1)
RETRY = Retry(4, Backoff.LINEAR, 2 * SECOND, 60 * SECOND)
NODE = StageNode(
    name="b",
    handler="h",
    after=("a",),
    spread=Spread.FIXED,
    count=3,
    timeout=90 * SECOND,
    retry=RETRY,
    queue_timeout=5 * SECOND,
    heartbeat_timeout=6 * SECOND,
    total_timeout=7 * SECOND,
    lineage=True,
)
STORED: dict[str, Json] = {
    "timeout_seconds": 90.0,
    "max_attempts": 4,
    "backoff": "linear",
    "initial_delay_seconds": 2.0,
    "max_delay_seconds": 60.0,
    "queue_timeout_seconds": 5.0,
    "heartbeat_timeout_seconds": 6.0,
    "total_timeout_seconds": 7.0,
    "lineage": "a",
    "indexed": True,
}


def test_the_policy_of_a_node_is_stored_in_one_object_with_its_shape() -> None:
    lane = work_lane(NODE, {})
    assert write_change(lane)["policy"] == STORED
    assert (TaskPolicy.from_json(STORED), TaskShape.from_json(STORED)) == (lane.policy, lane.shape)


def test_a_task_of_one_and_a_job_as_a_task_are_marked_so() -> None:
    lane = work_lane(
        WorkflowNode(name="a", workflow="child", workflow_hash="abc", params={}), {}, values={"inputs.n": 5}
    )
    given = {"workflow": "abc", "single": True, "values": {"inputs.n": 5}}
    assert write_change(lane)["policy"] == {**TaskPolicy().to_json(), **given}


def test_the_tasks_of_the_engine_itself_are_tried_once() -> None:
    node = StageNode(name="b", handler="h", after=("a",), spread=Spread.FAN_OUT)
    lane = plan_lane(Workflow("w", (StageNode(name="a", handler="h"), node)), node)
    assert (lane.policy.retry.max_attempts, lane.shape) == (1, TaskShape(previous="a"))


def test_the_foldings_of_a_fan_in_are_read_as_they_were_written() -> None:
    parts = (Folding("all", Fold.COLLECT), Folding("sum", Fold.SUM, "n"))
    lane = fan_in_lane(FanInNode(name="f", after=("a",), folding=parts), ["a"], [])
    policy = write_change(lane)["policy"]
    assert isinstance(policy, dict)
    assert policy["folding"] == [
        {"name": "all", "fold": "collect", "field": ""},
        {"name": "sum", "fold": "sum", "field": "n"},
    ]
    assert TaskShape.from_json(policy) == lane.shape


def test_the_sources_of_a_fan_in_are_read_as_they_were_written() -> None:
    lane = fan_in_lane(FanInNode(name="f", after=("a", "b", "c"), sources=("c", "a", "b")), ["c", "a"], ["b"])
    policy = write_change(lane)["policy"]
    assert isinstance(policy, dict)
    assert (policy["sources"], policy["skipped"], policy.get("previous")) == (["c", "a"], ["b"], None)
    assert TaskShape.from_json(policy) == lane.shape
    assert lane.shape.collected == ("c", "a")


def test_what_an_earlier_release_stored_for_its_own_tasks_is_read() -> None:
    stored: Json = {"timeout_seconds": 300, "max_attempts": 1, "previous": None, "heir_of": 7}
    assert TaskPolicy.from_json(stored) == TaskPolicy(timedelta(minutes=5), Retry(max_attempts=1))
    assert TaskShape.from_json(stored) == TaskShape()


@pytest.mark.parametrize(
    "stored",
    [
        [],
        7,
        {"max_attempts": "x", "backoff": 7},
        {"timeout_seconds": 1e300, "total_timeout_seconds": -1e300},
        {"timeout_seconds": [1], "previous": {"a": 1}, "folding": 3},
        {"backoff": "never", "folding": [{"fold": "sum"}], "single": {}},
        {"folding": [{"name": "a", "fold": "unknown", "field": ""}]},
    ],
)
def test_e10_what_can_not_be_read_of_a_stored_policy_is_replaced_by_defaults(stored: Json) -> None:
    assert (TaskPolicy.from_json(stored), TaskShape.from_json(stored)) == (TaskPolicy(), TaskShape())


def test_a_delay_of_zero_is_no_missing_delay() -> None:
    stored: Json = {"initial_delay_seconds": 0, "max_delay_seconds": 0.0}
    assert TaskPolicy.from_json(stored).retry == Retry(initial_delay=timedelta(0), max_delay=timedelta(0))
