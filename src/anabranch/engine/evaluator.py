"""Definition, states and event in; transitions out. Pure: no I/O, no clock, so every rule is a unit test (G10)."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from anabranch.engine.canonical import Json
from anabranch.engine.errors import InputError
from anabranch.engine.model import JobState, NodeState, Purpose
from anabranch.engine.workflow import DEFAULT_QUEUE, DEFAULT_TIMEOUT, Node, OnFailure, Retry, Spread, Workflow

__all__ = ["LaneEnded", "OpenLane", "SetJob", "SetNode", "Source", "Started", "Transition", "internal_queue", "plan"]

NO_LIMIT = 2**31 - 1


@dataclass(frozen=True)
class Started:
    """The job was submitted."""


@dataclass(frozen=True)
class LaneEnded:
    """A lane's last task ended, or it failed beyond what it tolerates."""

    node: str
    purpose: Purpose
    failed: int
    error: dict[str, Json] | None = None


@dataclass(frozen=True)
class Source:
    """Where a lane's tasks come from: a count, a planner's stored answer, or the tasks of the node before."""

    kind: str
    count: int | None = None
    node: str | None = None
    purpose: Purpose | None = None


@dataclass(frozen=True)
class OpenLane:
    """Open a lane; the store makes its tasks from the source."""

    node: str
    purpose: Purpose
    queue: str
    handler: str
    source: Source
    policy: dict[str, Json]
    with_parameters: bool = True
    tolerated: int = 0
    max_running: int | None = None


@dataclass(frozen=True)
class SetNode:
    """Move a node to a state."""

    node: str
    state: NodeState
    error: dict[str, Json] | None = None


@dataclass(frozen=True)
class SetJob:
    """Move the job to a state; a completed job's result is the output of the nodes named."""

    state: JobState
    error: dict[str, Json] | None = None
    results_of: tuple[str, ...] = ()


Transition = OpenLane | SetNode | SetJob
States = Mapping[str, NodeState]


def plan(
    workflow: Workflow, parameters: Mapping[str, Json], states: States, event: Started | LaneEnded
) -> tuple[Transition, ...]:
    """What follows from an event; nothing when the job has ended or the node has been decided."""
    if isinstance(event, Started):
        if any(state is not NodeState.PENDING for state in states.values()):
            return ()
        return (SetJob(JobState.RUNNING), *_open_ready(workflow, parameters, dict(states)))
    if states[event.node] is not NodeState.RUNNING:
        return ()
    node = workflow.node(event.node)
    if event.failed and not (event.purpose is Purpose.WORK and node.on_failure is OnFailure.CONTINUE):
        return tuple(_fail(states, event))
    if event.purpose is Purpose.PLAN:
        return (_work_lane(node, parameters, planned=True),)
    if event.purpose is Purpose.WORK and node.aggregated:
        return (_internal_lane(workflow, node, Purpose.AGGREGATE),)
    return tuple(_complete(workflow, parameters, dict(states), node))


def internal_queue(workflow_id: str) -> str:
    """The queue of a job type's planner: only processes that registered the type serve it."""
    return f"plan:{workflow_id}"


def _complete(
    workflow: Workflow, parameters: Mapping[str, Json], states: dict[str, NodeState], node: Node
) -> Iterator[Transition]:
    yield SetNode(node.name, NodeState.COMPLETED)
    states[node.name] = NodeState.COMPLETED
    yield from _open_ready(workflow, parameters, states)
    if all(state is NodeState.COMPLETED for state in states.values()):
        waited_for = {name for other in workflow.nodes for name in other.after}
        yield SetJob(JobState.COMPLETED, results_of=tuple(n.name for n in workflow.nodes if n.name not in waited_for))


def _fail(states: States, event: LaneEnded) -> Iterator[Transition]:
    error: dict[str, Json] = {
        **(event.error or {"code": "task.failed", "message": "a task failed"}),
        "node": event.node,
    }
    yield SetNode(event.node, NodeState.FAILED, error)
    for name, state in states.items():
        if name != event.node and state in (NodeState.PENDING, NodeState.RUNNING):
            yield SetNode(name, NodeState.SKIPPED if state is NodeState.PENDING else NodeState.CANCELLED)
    yield SetJob(JobState.FAILED, error)


def _open_ready(
    workflow: Workflow, parameters: Mapping[str, Json], states: dict[str, NodeState]
) -> Iterator[Transition]:
    for node in workflow.nodes:
        ready = all(states[name] is NodeState.COMPLETED for name in node.after)
        if ready and states[node.name] is NodeState.PENDING:
            states[node.name] = NodeState.RUNNING
            yield SetNode(node.name, NodeState.RUNNING)
            yield _internal_lane(workflow, node, Purpose.PLAN) if _is_planned(node) else _work_lane(node, parameters)


def _is_planned(node: Node) -> bool:
    return node.planned and node.spread is not Spread.FAN_IN


def _internal_lane(workflow: Workflow, node: Node, purpose: Purpose) -> OpenLane:
    source = node.name if purpose is Purpose.AGGREGATE else node.after[0] if node.after else None
    return OpenLane(
        node=node.name,
        purpose=purpose,
        queue=internal_queue(workflow.id),
        handler=f"anabranch.{purpose}",
        source=Source("count", count=1),
        policy={"timeout_seconds": 300, "max_attempts": 1, "previous": source},
    )


def _work_lane(node: Node, parameters: Mapping[str, Json], *, planned: bool = False) -> OpenLane:
    retry, timeout = node.retry or Retry(), node.timeout or DEFAULT_TIMEOUT
    policy: dict[str, Json] = {
        "timeout_seconds": timeout.total_seconds(),
        "max_attempts": retry.max_attempts,
        "backoff": retry.backoff,
        "initial_delay_seconds": retry.initial_delay.total_seconds(),
        "max_delay_seconds": retry.max_delay.total_seconds(),
    }
    for name in ("queue_timeout", "heartbeat_timeout", "total_timeout"):
        if (limit := getattr(node, name)) is not None:
            policy[f"{name}_seconds"] = limit.total_seconds()
    if node.lineage:
        policy["lineage"] = node.after[0]
    if node.spread is Spread.FAN_IN:
        policy["previous"] = node.after[0]
    if not planned and node.spread not in (Spread.SINGLE, Spread.FAN_IN):
        policy["indexed"] = True
    return OpenLane(
        node=node.name,
        purpose=Purpose.WORK,
        queue=node.queue or DEFAULT_QUEUE,
        handler=node.handler,
        source=Source("plan", node=node.name, purpose=Purpose.PLAN) if planned else _source(node, parameters),
        policy=policy,
        with_parameters=not planned,
        tolerated=0 if node.on_failure is OnFailure.FAIL else NO_LIMIT,
        max_running=node.max_running,
    )


def _source(node: Node, parameters: Mapping[str, Json]) -> Source:
    if node.spread is Spread.MATCH_PREVIOUS:
        return Source("match", node=node.after[0], purpose=Purpose.WORK)
    if node.spread is Spread.DYNAMIC:
        return Source("count", count=_count(node, parameters))
    return Source("count", count=node.count if node.spread is Spread.FIXED else 1)


def _count(node: Node, parameters: Mapping[str, Json]) -> int:
    count = parameters.get(node.count_param or "")
    if isinstance(count, bool) or not isinstance(count, int) or count < 0:
        raise InputError(
            "node.count", f"{node.name}: {node.count_param} must be an integer of 0 or more, not {count!r}"
        )
    return count
