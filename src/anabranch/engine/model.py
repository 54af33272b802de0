"""Jobs, nodes, tasks and sessions as the tables hold them: frozen values, one per row."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum, StrEnum
from typing import NamedTuple, NewType, TypedDict

from anabranch.canonical import Json, JsonObject
from anabranch.engine.failure import Failure
from anabranch.engine.policy import TaskPolicy, TaskShape
from anabranch.enums import JobState, LimitKind, NodeState, SessionKind

__all__ = [
    "TERMINAL_STATES",
    "Answer",
    "ApplyResult",
    "Attempt",
    "AttemptProgress",
    "Checkpoint",
    "ChildJob",
    "Claim",
    "Ended",
    "Event",
    "InHand",
    "Job",
    "JobEnd",
    "JobState",
    "LaneFacts",
    "LimitChange",
    "LimitKind",
    "NodeRow",
    "NodeState",
    "PendingEnd",
    "ProgressReport",
    "Purpose",
    "Report",
    "RetryAnswer",
    "RightId",
    "RightView",
    "Session",
    "SessionId",
    "SessionKind",
    "SignalAnswer",
    "TaskKey",
    "Tombstone",
]

SessionId = NewType("SessionId", int)
RightId = NewType("RightId", int)


TERMINAL_STATES = frozenset({JobState.COMPLETED, JobState.FAILED, JobState.CANCELLED})
CALLER_EVENTS = frozenset({"job.submitted", "job.ending", "job.cancelled", "job.retried", "gate.signalled"})


class Purpose(StrEnum):
    """What a lane or an advance right is for: a node's tasks, or the engine's own. Gates and waits have no lane."""

    START = "start"
    PLAN = "plan"
    WORK = "work"
    AGGREGATE = "aggregate"
    GATE = "gate"
    WAIT = "wait"


class Ended(StrEnum):
    """How an attempt ended. The last two are the sweeper's: no worker reports them."""

    COMPLETED = "completed"
    REFERENCED = "referenced"  # completed; the body says where the result is
    FAILED = "failed"  # for good
    RETRY = "retry"  # failed; again after its delay
    CRASHED = "crashed"  # again, charged as a crash
    SUSPECT = "suspect"  # again, alone in a process of its own
    HANDED_BACK = "handed_back"  # again, free of charge
    MISSING = "missing"  # the worker has no handler for it; again, and not even an attempt
    TIMED_OUT = "timed_out"
    LOST = "lost"


class ApplyResult(Enum):
    """The result of applying a plan."""

    APPLIED = True
    JOB_MOVED = False  # the job changed since it was read
    RIGHT_LOST = None


class RetryAnswer(StrEnum):
    """The result of a retry."""

    RETRIED = "retried"
    MISSING = "missing"
    OPEN = "open"  # the job has not ended
    CHILD = "child"  # another job runs it
    OLDER = "older"  # it is not the newest of its parameters
    MOVED = "moved"  # it changed since it was read


class SignalAnswer(StrEnum):
    """The result of a signal to a gate."""

    ACCEPTED = "accepted"
    MISSING = "missing"
    ENDED = "ended"  # the job or the gate is over
    SAME = "same"  # it got an equal signal before
    OTHER = "other"  # it got another signal before


class Answer(StrEnum):
    """The result of a report; refused: the store can't hold it in any form."""

    APPLIED = "applied"
    DUPLICATE = "duplicate"
    STALE = "stale"
    REFUSED = "refused"


@dataclass(frozen=True)
class PendingEnd:
    """How a job ends once its cleanup nodes have ended."""

    state: JobState


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
    parameters: JsonObject
    priority: int
    state: JobState
    generation: int
    result: Json | None
    error: Failure | None
    correlation_id: str
    last_event: int
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    parent: int | None
    watched: bool
    platform: str
    tick: JsonObject | None
    ending: PendingEnd | None


@dataclass(frozen=True)
class NodeRow:
    """The state of one node of a job."""

    job: int
    name: str
    position: int
    state: NodeState
    generation: int
    output: Json | None
    error: Failure | None
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
    data: JsonObject

    @property
    def by(self) -> str | None:
        """Who did it, where a caller did, as the engine wrote it: data of other kinds may be a caller's own (P7)."""
        who = (self.data.get("by") or self.data.get("sender")) if self.kind in CALLER_EVENTS else None
        return who if isinstance(who, str) else None


class LimitChange(TypedDict, total=False):
    """What changes about a limit: how many tasks may run, whether it is a pause, and why. Without `most` it lasts."""

    most: int | None
    paused: bool
    reason: str


@dataclass(frozen=True)
class Tombstone:
    """A job that was purged."""

    job: int
    job_id: str
    identity: str
    ordinal: int
    platform: str
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
    trouble: str | None
    troubled_at: datetime | None
    handlers: list[str] | None
    schema_release: int | None
    connections: int | None


class TaskKey(NamedTuple):
    """A task inside the engine: its lane and its place in it."""

    lane: int
    place: int


class Attempt(NamedTuple):
    """One try of a task. The token is drawn by the database for its claim: it fences every report of it (E3), also
    against a database that was restored to an earlier point, where all the other numbers are given out again."""

    key: TaskKey
    number: int
    token: int


class InHand(NamedTuple):
    """An attempt that a worker holds, as its heartbeat reports it."""

    attempt: Attempt
    started: bool


@dataclass(frozen=True)
class ProgressReport:
    """The progress of a handler, as it reports it."""

    done: float
    total: float | None = None
    message: str = ""


class AttemptProgress(NamedTuple):
    """The progress that a handler reports for its attempt."""

    attempt: Attempt
    progress: ProgressReport


class AttemptOutput(NamedTuple):
    """What an attempt has printed so far."""

    attempt: Attempt
    text: str


@dataclass(frozen=True)
class Checkpoint:
    """The progress that an attempt saved for the next one: its phase, and the state to resume from."""

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
    parameters: JsonObject
    policy: TaskPolicy
    shape: TaskShape
    values: JsonObject | None
    platform: str = ""
    tick: JsonObject | None = None
    traceparent: str | None = None


@dataclass(slots=True)  # not frozen: there is one for each task, and frozen values are slow to make
class Claim:
    """A claimed task: attempt, session and token fence every report of it (E3)."""

    key: TaskKey
    attempt: int
    token: int
    failures: int
    crashes: int
    index: int | str
    handler: str
    item: Json
    predecessor: list[Json] | None
    lane: LaneFacts
    checkpoint: Checkpoint | None = None
    metadata: JsonObject | None = None

    @property
    def fence(self) -> Attempt:
        """What every report of it carries."""
        return Attempt(self.key, self.attempt, self.token)

    @property
    def task_id(self) -> str:
        """The task's name outside the engine."""
        return f"{self.lane.job_id}-{self.lane.node}-{self.index}"

    @property
    def ids(self) -> dict[str, str | int]:
        """The ids in a log line about this attempt (O3)."""
        lane = self.lane
        return {
            "job": lane.job_id, "task": self.task_id, "attempt": self.attempt, "correlation_id": lane.correlation_id
        }  # fmt: skip

    @property
    def parameters(self) -> JsonObject:
        """The parameters of a task without a template: the job's, its own, and its index where the node counts."""
        index: JsonObject = {"index": self.index} if self.lane.shape.indexed else {}
        return {**self.lane.parameters, **(self.item if isinstance(self.item, dict) else {}), **index}


@dataclass(slots=True)
class Report:
    """How an attempt ended: its result or error, what it measured and what it hands over, all as JSON text."""

    attempt: Attempt
    ended: Ended
    body: str | None = None
    delay: timedelta | None = None
    ran: timedelta | None = None
    log: str | None = None
    metrics: str | None = None
    handed: str | None = None


@dataclass(frozen=True)
class RightView:
    """An advance right with all that planning needs.

    `failure` is why a job fails that still lets others finish; `signal` is what a gate received, in a list of one;
    `kept` are the nodes that go on with the results they have; `is_child` says that another job waits for this one.
    `ending` is how the job ends once its cleanup nodes have ended.
    """

    id: RightId
    takes: int
    job_id: str
    correlation_id: str
    workflow_hash: str
    parameters: JsonObject
    version: int
    state: JobState
    node: str
    purpose: Purpose
    width: int | None
    failed: int | None
    error: Failure | None
    states: dict[str, NodeState]
    taken: dict[str, int]
    failure: Failure | None
    signal: list[JsonObject] | None = None
    kept: frozenset[str] = frozenset()
    is_child: bool = False
    tick: JsonObject | None = None
    ending: JobState | None = None


@dataclass(frozen=True)
class JobEnd:
    """The status of a job, and how long ago it ended, if it has."""

    state: JobState
    ended_for: timedelta | None


@dataclass(frozen=True)
class ChildJob:
    """A job that ran as a task of another, and has ended; the task is the one to report for."""

    id: int
    job_id: str
    state: JobState
    result: Json | None
    error: Failure | None
    fence: Attempt
    failures: int
    policy: TaskPolicy
    parent_id: str
    node: str
