"""Jobs, tasks, queues and the state of a stack as people and monitors read them: frozen values, never written back."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from anabranch.canonical import Json, JsonObject
from anabranch.contract.jobs import Progress, SavedCheckpoint, TaskCounts
from anabranch.engine.failure import Failure
from anabranch.engine.model import Job, JobState, NodeState
from anabranch.enums import NodeStatus
from anabranch.workflows.nodes import GateNode

__all__ = [
    "DeadLetter",
    "Duty",
    "Gauges",
    "Horizon",
    "JobDetail",
    "JobHead",
    "LabelledJob",
    "NodeDetail",
    "OpenBreaker",
    "StuckJobs",
    "TaskDetail",
    "Trace",
    "Trouble",
    "Vitals",
]


@dataclass(frozen=True)
class NodeDetail:
    """A node with the count of its tasks by state; a node that isn't open yet has none.

    `said` is how far the running ones are that said so, where few run; `is_waiting` for a gate or a wait that is open,
    `gate` is what such a gate declares.
    """

    name: str
    state: NodeState
    is_waiting: bool
    tasks: TaskCounts
    said: tuple[Progress, ...]
    error: Failure | None
    opened_at: datetime | None
    finished_at: datetime | None
    gate: GateNode | None = None

    @property
    def status(self) -> NodeStatus:
        """The status that is shown."""
        return NodeStatus.WAITING if self.is_waiting else NodeStatus(self.state)


@dataclass(frozen=True)
class LabelledJob(Job):
    """A job as its row is, with its labels, the time between its ends and its retries, and that of its last event.

    `release_id` is the release whose decisions answer its gates.
    """

    labels: Mapping[str, str]
    release_id: str | None
    idle_seconds: float
    updated_at: datetime


class JobHead(NamedTuple):
    """The status of a job, and the number of its last event."""

    job: int
    state: JobState
    last_event: int


@dataclass(frozen=True)
class JobDetail:
    """A job with its nodes, the id of the job that runs it, if one does, and what keeps it from going on.

    `outputs` are those of finished nodes that are small.
    """

    job: LabelledJob
    nodes: list[NodeDetail]
    parent_id: str | None = None
    waiting_for: tuple[str, ...] = ()
    outputs: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True)
class TaskDetail:
    """A task as people see it."""

    task_id: str
    node: str
    index: int | str
    status: str
    handler: str
    handler_version: str | None
    parameters: JsonObject
    attempts: int
    failures: int
    crashes: int
    claimed_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    due_at: datetime | None
    progress: Progress | None
    metadata: JsonObject | None
    checkpoint: SavedCheckpoint | None
    result: Json | None
    error: Failure | None
    cursor: str


@dataclass(frozen=True)
class Trace:
    """What one attempt of a task printed and measured."""

    task_id: str
    node: str
    index: int | str
    attempt: int
    log: str | None
    metrics: JsonObject | None
    cursor: str


@dataclass(frozen=True)
class DeadLetter:
    """A task that failed for good."""

    job_id: str
    workflow: str
    job_state: JobState
    task_id: str
    node: str
    index: int | str
    handler: str
    attempts: int
    error: Failure | None
    finished_at: datetime
    cursor: str


@dataclass(frozen=True)
class Duty:
    """The heartbeat of a background duty: how long ago it was, how often it is due, and which of its acts fail.

    `served_seconds` is how long since then a process that does it has run; known where it may be late.
    """

    age_seconds: float
    every_seconds: float
    trouble: dict[str, str] | None = None
    served_seconds: float | None = None


@dataclass(frozen=True)
class ClockStep:
    """The last step of the server's clock, and how long ago it was noted."""

    step_seconds: float
    age_seconds: float


@dataclass(frozen=True)
class Trouble:
    """What keeps a process from its work, or a job from going on, and for how long."""

    who: str
    trouble: str
    age_seconds: float


@dataclass(frozen=True)
class OpenBreaker:
    """A breaker that lets nothing of a queue or handler begin, for how long it has, and why."""

    kind: str
    name: str
    open_seconds: float
    message: str | None


@dataclass(frozen=True)
class Horizon:
    """What keeps dead rows from being vacuumed, and for how long."""

    holder: str
    seconds: float


@dataclass(frozen=True)
class Vitals:
    """The figures that health is judged by: live processes, duties, free rights, ready tasks and workers by queue,
    tasks by the handler that no worker has, what keeps processes and jobs from going on, connections to this database
    and to all of the server's, the release of the schema that was deployed, and of ours, what holds the horizon of
    vacuums, the last step of the server's clock, and the breakers that are open."""

    workers: int
    orchestrators: int
    duties: dict[str, Duty]
    untaken_rights: int
    oldest_right_seconds: float | None
    queues: dict[str, int]
    served: dict[str, int]
    missing_handlers: dict[str, int]
    troubles: list[Trouble]
    connections: int
    all_connections: int
    max_connections: int
    release: int | None
    our_release: int
    horizon: Horizon | None
    clock_step: ClockStep | None = None
    breakers: tuple[OpenBreaker, ...] = ()


@dataclass(frozen=True)
class Gauges:
    """The figures for metrics: counts by state, queue, kind and duty, sizes and ages.

    `durations` are kind, name, detail, how many are in which bucket, and the sum of their seconds; '' as a name stands
    for those that have no series of their own.
    """

    jobs: dict[str, int]
    duration_bounds: list[float]
    durations: list[tuple[str, str, str, dict[str, int], float]]
    ready: dict[str, int]
    running: dict[str, int]
    due: dict[str, int]
    sessions: dict[str, int]
    served: dict[str, int]
    breakers: list[tuple[str, str, bool]]
    slots: int
    duties: dict[str, float]
    untaken_rights: int
    oldest_right_seconds: float
    deliveries: dict[str, float]
    database_bytes: int
    connections: int
    max_connections: int
    oldest_transaction_seconds: float
    horizon_seconds: float
    tables: dict[str, dict[str, int]]


@dataclass(frozen=True)
class StuckJobs:
    """Jobs that nothing will move on, among those up to the last that was looked at; 0: there are no more."""

    last: int
    job_ids: tuple[str, ...]
