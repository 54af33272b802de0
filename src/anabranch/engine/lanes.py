"""The lanes that a node opens: what each of its tasks needs, and by which rules they run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from anabranch.canonical import Json
from anabranch.engine.model import Purpose
from anabranch.errors import InputError
from anabranch.workflows.definition import Workflow
from anabranch.workflows.nodes import (
    FanInNode,
    FanOutNode,
    Kind,
    Node,
    OnFailure,
    Spread,
    StageNode,
    TaskNode,
    WorkingNode,
)
from anabranch.workflows.rules import MAX_TASKS
from anabranch.workflows.work import DEFAULT_QUEUE, DEFAULT_TIMEOUT, HandlerWork, Retry, Work, WorkflowWork

__all__ = [
    "CHILD_JOB",
    "INTERNAL",
    "KeepLane",
    "OpenLane",
    "Source",
    "aggregate_lane",
    "fan_in_lane",
    "internal_queue",
    "is_internal_queue",
    "plan_lane",
    "work_lane",
    "work_queue",
]

NO_LIMIT = 2**31 - 1
INTERNAL_SECONDS = 300
CHILD_JOB = "anabranch.workflow"


@dataclass(frozen=True)
class Source:
    """Where a lane's tasks come from: a count, items, a planner's stored answer, or the tasks of the node before."""

    kind: str
    count: int | None = None
    items: Sequence[Json] | None = None
    node: str | None = None
    purpose: Purpose | None = None


@dataclass(frozen=True)
class OpenLane:
    """Open a lane; the store makes its tasks from the source, and gives them what those of `heir_of` handed over."""

    node: str
    purpose: Purpose
    queue: str
    handler: str
    source: Source
    policy: dict[str, Json]
    with_parameters: bool = True
    tolerated: int = 0
    max_running: int | None = None
    priority: int | None = None
    heir_of: str | None = None
    limit_key: str | None = None


@dataclass(frozen=True)
class KeepLane:
    """Open a node's lane of an earlier generation anew: what completed is kept, all else is tried again."""

    node: str
    queue: str


INTERNAL = "plan:"  # alone, the queue that every worker serves


def internal_queue(workflow_id: str) -> str:
    """The queue of a workflow's planner and of its child jobs: only processes that registered it serve it."""
    return f"{INTERNAL}{workflow_id}"


def is_internal_queue(queue: str) -> bool:
    """Whether a queue is the engine's own: no workflow names it, and operators need not know of it."""
    return queue.startswith(INTERNAL)


def work_queue(node: Node) -> str:
    """The queue of a node's own tasks."""
    match node.work:
        case WorkflowWork(workflow=workflow):
            return internal_queue(workflow)
        case HandlerWork(queue=queue):
            return queue or DEFAULT_QUEUE
        case None:
            return DEFAULT_QUEUE


def plan_lane(workflow: Workflow, node: StageNode) -> OpenLane:
    """The one task that asks a declaration's planner for the tasks of a node."""
    previous = node.after[0] if node.after else None
    return _internal(node, Purpose.PLAN, internal_queue(workflow.id), {"previous": previous})


def aggregate_lane(workflow: Workflow, node: Node) -> OpenLane:
    """The one task that asks a declaration to aggregate the results of a node."""
    return _internal(node, Purpose.AGGREGATE, internal_queue(workflow.id), {"previous": node.name})


def fan_in_lane(node: FanInNode, source: str) -> OpenLane:
    """The one task that folds the results of a fan-out; every worker can do it."""
    folding: list[Json] = [{"name": f.name, "fold": f.fold, "field": f.field} for f in node.folding]
    return _internal(node, Purpose.AGGREGATE, INTERNAL, {"previous": source, "folding": folding})


def work_lane(
    node: WorkingNode,
    parameters: Mapping[str, Json],
    *,
    planned: bool = False,
    items: Sequence[Json] | None = None,
    values: Mapping[str, Json] | None = None,
    limit_key: str | None = None,
) -> OpenLane:
    """The tasks that a node is there for."""
    source = _source(node, parameters, planned=planned, items=items)
    tolerated = node.tolerate.of(len(items or ())) if isinstance(node, FanOutNode) else 0
    work = node.work
    return OpenLane(
        node=node.name,
        purpose=Purpose.WORK,
        queue=work_queue(node),
        handler=work.handler if isinstance(work, HandlerWork) else CHILD_JOB,
        source=source,
        policy={**_policy(work), **_shape(node, work, planned=planned, values=values)},
        with_parameters=not planned,
        tolerated=tolerated if node.on_failure is OnFailure.FAIL else NO_LIMIT,
        max_running=node.max_running if isinstance(node, FanOutNode | StageNode) else None,
        priority=work.priority,
        heir_of=_heir_of(node),
        limit_key=limit_key,
    )


def _internal(node: Node, purpose: Purpose, queue: str, policy: dict[str, Json]) -> OpenLane:
    return OpenLane(
        node=node.name,
        purpose=purpose,
        queue=queue,
        handler=f"anabranch.{purpose}",
        source=Source("count", count=1),
        policy={"timeout_seconds": INTERNAL_SECONDS, "max_attempts": 1, **policy},
    )


def _policy(work: Work) -> dict[str, Json]:
    limits = work.timeouts if isinstance(work, HandlerWork) else {}
    retry, timeout = work.retry or Retry(), limits.get("timeout_seconds", DEFAULT_TIMEOUT)
    policy: dict[str, Json] = {
        "timeout_seconds": timeout.total_seconds(),
        "max_attempts": retry.max_attempts,
        "backoff": retry.backoff,
        "initial_delay_seconds": retry.initial_delay.total_seconds(),
        "max_delay_seconds": retry.max_delay.total_seconds(),
    }
    return policy | {key: limit.total_seconds() for key, limit in limits.items()}


def _shape(node: Node, work: Work, *, planned: bool, values: Mapping[str, Json] | None) -> dict[str, Json]:
    """What the tasks are given besides their own parameters."""
    shape: dict[str, Json] = {}
    spread = node.spread if isinstance(node, StageNode) else Spread.SINGLE
    if isinstance(node, StageNode) and node.lineage:
        shape["lineage"] = node.after[0]
    if spread is Spread.FAN_IN:
        shape["previous"] = node.after[0]
    if work.params is not None:
        shape["values"] = dict(values or {})
    if isinstance(work, WorkflowWork):
        shape["workflow"] = work.workflow_hash
    if not planned and node.kind in (Kind.TASK, Kind.WORKFLOW):
        shape["single" if spread in (Spread.SINGLE, Spread.FAN_IN) else "indexed"] = True
    return shape


def _heir_of(node: Node) -> str | None:
    """The one node before; a node that fills in a template says by itself what its tasks get."""
    is_filled = not isinstance(node, TaskNode) or node.params is not None
    return node.parents[0] if len(node.parents) == 1 and not is_filled else None


def _source(
    node: WorkingNode, parameters: Mapping[str, Json], *, planned: bool, items: Sequence[Json] | None
) -> Source:
    if planned:
        return Source("plan", node=node.name, purpose=Purpose.PLAN)
    if items is not None:
        return Source("items", items=items)
    match node:
        case StageNode(spread=Spread.MATCH_PREVIOUS):
            return Source("match", node=node.after[0], purpose=Purpose.WORK)
        case StageNode(spread=Spread.DYNAMIC):
            return Source("count", count=_count(node, parameters))
        case StageNode(spread=Spread.FIXED):
            return Source("count", count=node.count)
        case _:
            return Source("count", count=1)


def _count(node: StageNode, parameters: Mapping[str, Json]) -> int:
    count = parameters.get(node.count_param or "")
    if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= MAX_TASKS:
        raise InputError(
            "node.count",
            f"{node.name}: {node.count_param} must be an integer from 0 to {MAX_TASKS:,}, not {str(count)[:40]}",
        )
    return count
