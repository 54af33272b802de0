"""Jobs, nodes, tasks and sessions as the tables hold them: frozen values, one per row."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple, NewType

from anabranch.engine.canonical import Json

__all__ = [
    "TERMINAL",
    "Answer",
    "Attempt",
    "Checkpoint",
    "ChildJob",
    "Claim",
    "DeadLetter",
    "Duty",
    "Event",
    "Gauges",
    "InHand",
    "Job",
    "JobDetail",
    "JobEnd",
    "JobHead",
    "JobState",
    "LaneFacts",
    "Limit",
    "LimitKind",
    "NodeDetail",
    "NodeRow",
    "NodeState",
    "Purpose",
    "QueueDetail",
    "Report",
    "RightId",
    "RightView",
    "Said",
    "Session",
    "SessionDetail",
    "SessionId",
    "SessionKind",
    "StuckJobs",
    "TaskDetail",
    "TaskKey",
    "TaskRow",
    "Tombstone",
    "Trace",
    "Vitals",
]

SessionId = NewType("SessionId", int)
RightId = NewType("RightId", int)


class JobState(StrEnum):
    """Where a job stands."""

    PENDING = "pending"
    RUNNING = "running"
    WAITING = "waiting"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


class NodeState(StrEnum):
    """Where a node stands; `running` means opened."""

    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    SKIPPED = "skipped"
    CANCELLED = "cancelled"


TERMINAL = frozenset({JobState.COMPLETED, JobState.FAILED, JobState.CANCELLED})


class Purpose(StrEnum):
    """What a lane is for: the node's own work, or the engine's small tasks around it; what has no lane waits."""

    START = "start"
    PLAN = "plan"
    WORK = "work"
    AGGREGATE = "aggregate"
    GATE = "gate"
    WAIT = "wait"


class SessionKind(StrEnum):
    """What kind of process a session is."""

    WORKER = "worker"
    ORCHESTRATOR = "orchestrator"
    API = "api"


class Answer(StrEnum):
    """What became of a report."""

    APPLIED = "applied"
    DUPLICATE = "duplicate"
    STALE = "stale"


@dataclass(frozen=True)
class Job:
    """One run of a workflow."""

    id: int
    job_id: str
    identity: str
    ordinal: int
    scope: str
    workflow: str
    workflow_hash: str
    parameters: dict[str, Json]
    priority: int
    state: JobState
    generation: int
    result: Json | None
    error: dict[str, Json] | None
    correlation_id: str
    last_event: int
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    parent: int | None


@dataclass(frozen=True)
class NodeRow:
    """The state of one node of a job."""

    job: int
    name: str
    position: int
    state: NodeState
    generation: int
    output: Json | None
    error: dict[str, Json] | None
    opened_at: datetime | None
    finished_at: datetime | None
    kept: bool


@dataclass(frozen=True)
class Event:
    """One thing that happened to a job."""

    job: int
    seq: int
    at: datetime
    kind: str
    node: str | None
    data: dict[str, Json]


@dataclass(frozen=True)
class Tombstone:
    """A job that was purged."""

    job: int
    job_id: str
    identity: str
    ordinal: int
    scope: str
    workflow: str
    state: JobState
    created_at: datetime
    finished_at: datetime
    purged_at: datetime


@dataclass(frozen=True)
class Session:
    """One process from its start to its end."""

    id: int
    kind: SessionKind
    host: str
    pid: int
    member: str
    queues: list[str]
    slots: int
    lease: timedelta
    began_at: datetime
    beat_at: datetime
    dead_at: datetime | None
    end_reason: str | None
    draining: bool


class TaskKey(NamedTuple):
    """A task inside the engine: its lane and its place in it."""

    lane: int
    place: int


class Attempt(NamedTuple):
    """One try of a task."""

    key: TaskKey
    number: int


class InHand(NamedTuple):
    """An attempt that a worker has, as its heart tells it."""

    attempt: Attempt
    started: bool


class Said(NamedTuple):
    """How far a handler says that its attempt is."""

    attempt: Attempt
    progress: dict[str, Json]


@dataclass(frozen=True)
class Checkpoint:
    """What an attempt of a task saved for the next one: how far it was, and what is needed to go on from there."""

    phase: str
    state: Json
    attempt: int


@dataclass(frozen=True)
class LaneFacts:
    """What all tasks of a lane have in common."""

    job_id: str
    workflow: str
    workflow_hash: str
    correlation_id: str
    node: str
    purpose: Purpose
    generation: int
    tried: int
    handler: str
    parameters: dict[str, Json]
    policy: dict[str, Json]
    values: dict[str, Json] | None


@dataclass(slots=True)  # not frozen: there is one for each task, and frozen values are slow to make
class Claim:
    """A task in hand: attempt and session fence every report of it (E3)."""

    key: TaskKey
    attempt: int
    failures: int
    crashes: int
    index: int | str
    handler: str
    item: Json
    predecessor: list[Json] | None
    lane: LaneFacts
    checkpoint: Checkpoint | None = None

    @property
    def task_id(self) -> str:
        """The task's name outside the engine."""
        return f"{self.lane.job_id}-{self.lane.node}-{self.index}"

    @property
    def ids(self) -> dict[str, str | int]:
        """What a log line about this attempt carries (O3)."""
        lane = self.lane
        return {
            "job": lane.job_id, "task": self.task_id, "attempt": self.attempt, "correlation_id": lane.correlation_id
        }  # fmt: skip

    @property
    def parameters(self) -> dict[str, Json]:
        """What a task without a template gets: the job's parameters, its own, and its index where the node counts."""
        index: dict[str, Json] = {"index": self.index} if "indexed" in self.lane.policy else {}
        return {**self.lane.parameters, **(self.item if isinstance(self.item, dict) else {}), **index}


@dataclass(slots=True)
class Report:
    """How an attempt ended: its result or error, what it measured and what it hands over, all as JSON text."""

    key: TaskKey
    attempt: int
    ended: str
    body: str | None = None
    delay: timedelta | None = None
    ran: timedelta | None = None
    log: str | None = None
    metrics: str | None = None
    handed: str | None = None


@dataclass(frozen=True)
class RightView:
    """A right to advance with all that planning needs.

    `failure` is why a job fails that still lets others finish; `signal` is what a gate was told, in a list of one;
    `kept` are the nodes that go on with the results they have; `is_child` says that another job waits for this one.
    """

    id: RightId
    takes: int
    job_id: str
    correlation_id: str
    workflow_hash: str
    parameters: dict[str, Json]
    version: int
    state: JobState
    node: str
    purpose: Purpose
    width: int | None
    failed: int | None
    error: dict[str, Json] | None
    states: dict[str, NodeState]
    taken: dict[str, int]
    failure: dict[str, Json] | None
    signal: list[dict[str, Json]] | None = None
    kept: frozenset[str] = frozenset()
    is_child: bool = False


@dataclass(frozen=True)
class NodeDetail:
    """A node with the count of its tasks by state; a node that isn't open yet has none.

    `said` is how far the running ones are that said so, where few run.
    """

    name: str
    state: NodeState
    total: int
    ready: int
    running: int
    due: int
    completed: int
    failed: int
    cancelled: int
    said: list[dict[str, Json]] | None
    error: dict[str, Json] | None
    opened_at: datetime | None
    finished_at: datetime | None


class JobHead(NamedTuple):
    """Where a job stands, and the number of its last event."""

    job: int
    state: JobState
    last_event: int


@dataclass(frozen=True)
class JobDetail:
    """A job with its nodes, and the id of the job that runs it, if one does."""

    job: Job
    nodes: list[NodeDetail]
    parent_id: str | None = None


@dataclass(frozen=True)
class JobEnd:
    """Where a job stands, and how long ago it ended if it has."""

    state: JobState
    ended_for: timedelta | None


@dataclass(frozen=True)
class TaskDetail:
    """A task as people see it."""

    task_id: str
    node: str
    index: int | str
    status: str
    handler: str
    parameters: dict[str, Json]
    attempts: int
    failures: int
    crashes: int
    claimed_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    due_at: datetime | None
    progress: dict[str, Json] | None
    result: Json | None
    error: dict[str, Json] | None
    cursor: str


@dataclass(frozen=True)
class TaskRow:
    """A task as its row stands, with the session that holds it or held it last."""

    task_id: str
    node: str
    generation: int
    lane: int
    position: int
    index: str
    state: str
    handler: str
    attempt: int
    failures: int
    crashes: int
    session: int | None
    host: str | None
    pid: int | None
    claimed_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    due_at: datetime | None
    result: Json | None
    error: dict[str, Json] | None


@dataclass(frozen=True)
class Trace:
    """What one attempt of a task printed and measured."""

    task_id: str
    node: str
    index: int | str
    attempt: int
    log: str | None
    metrics: dict[str, Json] | None
    cursor: str


@dataclass(frozen=True)
class SessionDetail:
    """A live session with the count of tasks it holds: those that run, and those taken ahead that wait for a slot."""

    id: int
    kind: SessionKind
    host: str
    pid: int
    queues: list[str]
    slots: int
    running: int
    draining: bool
    waiting: int
    began_at: datetime
    beat_at: datetime


@dataclass(frozen=True)
class ChildJob:
    """A job that ran as a task of another, and has ended; the task is the one to report for."""

    id: int
    job_id: str
    state: JobState
    result: Json | None
    error: dict[str, Json] | None
    key: TaskKey
    attempt: int
    failures: int
    policy: dict[str, Json]
    parent_id: str
    node: str


class LimitKind(StrEnum):
    """What a limit is for."""

    QUEUE = "queue"
    WORKFLOW = "workflow"
    HANDLER = "handler"
    KEY = "key"


@dataclass(frozen=True)
class Limit:
    """How many tasks of something may run at once; none while it is paused."""

    kind: LimitKind
    name: str
    most: int | None
    paused: bool
    reason: str
    set_by: str
    set_at: datetime


@dataclass(frozen=True)
class QueueDetail:
    """A queue: how many tasks wait and run, how many lanes a limit holds back, and who serves it."""

    name: str
    ready: int
    running: int
    held: int
    workers: int
    most: int | None
    paused: bool
    reason: str


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
    error: dict[str, Json] | None
    finished_at: datetime
    cursor: str


@dataclass(frozen=True)
class Duty:
    """The heartbeat of a background duty: how long ago it was, and how often it is due."""

    age_seconds: float
    every_seconds: float


@dataclass(frozen=True)
class Vitals:
    """What health is judged by: live processes, duties, rights that nobody took, ready tasks and workers by queue,
    tasks by the handler that no worker had for them, and connections to this database and to all of the server's."""

    workers: int
    orchestrators: int
    duties: dict[str, Duty]
    untaken_rights: int
    oldest_right_seconds: float | None
    queues: dict[str, int]
    served: dict[str, int]
    missing_handlers: dict[str, int]
    connections: int
    all_connections: int
    max_connections: int


@dataclass(frozen=True)
class Gauges:
    """What the database knows for metrics: counts by state, queue, kind and duty, sizes and ages."""

    jobs: dict[str, int]
    ready: dict[str, int]
    running: dict[str, int]
    due: dict[str, int]
    sessions: dict[str, int]
    slots: int
    duties: dict[str, float]
    untaken_rights: int
    oldest_right_seconds: float
    database_bytes: int
    connections: int
    max_connections: int
    oldest_transaction_seconds: float
    tables: dict[str, dict[str, int]]


@dataclass(frozen=True)
class StuckJobs:
    """Jobs that nothing will move on, among those up to the last that was looked at; 0: there are no more."""

    last: int
    job_ids: tuple[str, ...]
