"""The lanes that a node opens: what each of its tasks needs, and by which rules they run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from anabranch.canonical import Json, JsonObject
from anabranch.engine.model import Purpose
from anabranch.engine.policy import TaskPolicy, TaskShape
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
from anabranch.workflows.work import DEFAULT_QUEUE, HandlerWork, Retry, WorkflowWork

__all__ = [
    "CHILD_JOB_HANDLER",
    "INTERNAL_QUEUE",
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
INTERNAL_POLICY = TaskPolicy(timedelta(minutes=5), Retry(max_attempts=1))
CHILD_JOB_HANDLER = "anabranch.workflow"


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
    policy: TaskPolicy
    shape: TaskShape
    values: JsonObject | None = None
    with_parameters: bool = True
    tolerated: int = 0
    max_running: int | None = None
    priority: int | None = None
    heir_of: str | None = None
    limit_key: str | None = None
    handler_version: int | None = None


@dataclass(frozen=True)
class KeepLane:
    """Reopen a node's lane of an earlier generation: what completed is kept, all else is tried again."""

    node: str
    queue: str


INTERNAL_QUEUE = "plan:"  # alone, the queue that every worker serves


def internal_queue(workflow_id: str) -> str:
    """The queue of a workflow's planner and of its child jobs: only processes that registered it serve it."""
    return f"{INTERNAL_QUEUE}{workflow_id}"


def is_internal_queue(queue: str) -> bool:
    """Whether a queue is the engine's own: no workflow names it, and operators need not know of it."""
    return queue.startswith(INTERNAL_QUEUE)


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
    shape = TaskShape(previous=node.after[0] if node.after else None)
    return _internal(node, Purpose.PLAN, internal_queue(workflow.id), shape)


def aggregate_lane(workflow: Workflow, node: Node) -> OpenLane:
    """The one task that asks a declaration to aggregate the results of a node."""
    return _internal(node, Purpose.AGGREGATE, internal_queue(workflow.id), TaskShape(previous=node.name))


def fan_in_lane(node: FanInNode, sources: Sequence[str], skipped: Sequence[str]) -> OpenLane:
    """The one task that folds the results of nodes; every worker can do it."""
    several = tuple(sources) if len(sources) > 1 else ()
    one = sources[0] if len(sources) == 1 else None
    shape = TaskShape(previous=one, folding=node.folding, sources=several, skipped=tuple(skipped))
    return _internal(node, Purpose.AGGREGATE, INTERNAL_QUEUE, shape)


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
        handler=work.handler if isinstance(work, HandlerWork) else CHILD_JOB_HANDLER,
        source=source,
        policy=TaskPolicy.of(work),
        shape=_shape(node, planned=planned),
        values=None if work.params is None else dict(values or {}),
        with_parameters=not planned,
        tolerated=tolerated if node.on_failure is OnFailure.FAIL else NO_LIMIT,
        max_running=node.max_running if isinstance(node, FanOutNode | StageNode) else None,
        priority=work.priority,
        heir_of=_heir_of(node),
        limit_key=limit_key,
        handler_version=work.handler_version if isinstance(work, HandlerWork) else None,
    )


def _internal(node: Node, purpose: Purpose, queue: str, shape: TaskShape) -> OpenLane:
    return OpenLane(
        node=node.name,
        purpose=purpose,
        queue=queue,
        handler=f"anabranch.{purpose}",
        source=Source("count", count=1),
        policy=INTERNAL_POLICY,
        shape=shape,
    )


def _shape(node: WorkingNode, *, planned: bool) -> TaskShape:
    spread = node.spread if isinstance(node, StageNode) else Spread.SINGLE
    counts = not planned and node.kind in (Kind.TASK, Kind.WORKFLOW)
    single = spread in (Spread.SINGLE, Spread.FAN_IN)
    return TaskShape(
        lineage=node.after[0] if isinstance(node, StageNode) and node.lineage else None,
        previous=node.after[0] if spread is Spread.FAN_IN and len(node.after) == 1 else None,
        sources=node.after if spread is Spread.FAN_IN and len(node.after) > 1 else (),
        workflow=node.work.workflow_hash if isinstance(node.work, WorkflowWork) else None,
        single=counts and single,
        indexed=counts and not single,
    )


def _heir_of(node: Node) -> str | None:
    """The one node before; a node that fills in a template says by itself what its tasks get."""
    is_filled = not isinstance(node, TaskNode) or node.params is not None or node.cleanup
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
