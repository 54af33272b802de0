"""All that the engine asks of the world."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Generic, Literal, Protocol, TypeVar

from anabranch.canonical import Json, JsonObject
from anabranch.contract.control import Limit
from anabranch.engine.advancing.transitions import Transition
from anabranch.engine.job_retry import RetryPlan
from anabranch.engine.model import (
    Answer,
    ApplyResult,
    Attempt,
    AttemptOutput,
    AttemptProgress,
    ChildJob,
    Claim,
    InHand,
    JobEnd,
    JobState,
    LimitChange,
    LimitKind,
    Report,
    RetryAnswer,
    RightId,
    RightView,
    SessionId,
    SessionKind,
    SignalAnswer,
    TaskKey,
)
from anabranch.engine.submitting.submission import IdempotencyKey, Submission
from anabranch.errors import AnabranchError, Conflict
from anabranch.workflows.definition import Workflow
from anabranch.workflows.expressions import Reference
from anabranch.workflows.work import Breaker

if TYPE_CHECKING:
    from anabranch.engine.submitting.schedules.ports import TickStore
    from anabranch.engine.submitting.watching.ports import WatchStore

__all__ = [
    "NO_TRACER",
    "AnswerT",
    "Applied",
    "ClaimRequest",
    "HeartbeatConnection",
    "Holdings",
    "JobStore",
    "KeyTaken",
    "Refused",
    "Remains",
    "ResultPage",
    "RetentionStore",
    "SessionGone",
    "Span",
    "SpanAttributes",
    "SpanKind",
    "Spawned",
    "Store",
    "StoredValue",
    "Submission",
    "Submitted",
    "Survey",
    "Swept",
    "TakenRight",
    "TaskQueue",
    "Tracer",
    "Turn",
    "Verdict",
]

AnswerT = TypeVar("AnswerT", RetryAnswer, SignalAnswer)


class SessionGone(Conflict):
    """The session expired: its tasks are with others, and the process must begin a new one."""

    def __init__(self, session: SessionId) -> None:
        super().__init__("session.gone", f"session {session} expired")


class KeyTaken(Conflict):
    """The key was used before, for another request."""

    def __init__(self) -> None:
        super().__init__(
            "idempotency.conflict",
            "this idempotency key was used before, for another request",
            remedy="Take a new key for a new request; one that is repeated must ask for the same.",
        )


class Refused(AnabranchError):
    """The store can't hold what it was given; trying the same again can't help."""


@dataclass(frozen=True)
class Submitted:
    """The job of a submission with the rights to advance it if it is new; or, replayed, an earlier answer.

    `failed_before` is the job of the same parameters that failed, if it is new for that reason.
    """

    job_id: str
    state: JobState
    created: bool
    rights: "tuple[TakenRight, ...]" = ()
    replayed: bool = False
    failed_before: str | None = None

    @property
    def is_new(self) -> bool:
        """Whether this submission created the job; a replayed answer is `created` as it was the first time."""
        return self.created and not self.replayed


@dataclass(frozen=True)
class Verdict(Generic[AnswerT]):
    """The result of a retry or a signal, with the right to advance the job, if there is one."""

    answer: AnswerT
    right: "TakenRight | None"


@dataclass(frozen=True)
class Spawned:
    """The child job of a task, with the rights to advance it if it is new."""

    job_id: str
    rights: "tuple[TakenRight, ...]" = ()


@dataclass(frozen=True)
class TakenRight:
    """A right that a process holds; `takes` fences it, as the number of an attempt does."""

    id: RightId
    takes: int


@dataclass(frozen=True)
class Applied:
    """The result of applying a plan, with new rights."""

    result: ApplyResult
    rights: tuple[TakenRight, ...]


@dataclass(frozen=True)
class ClaimRequest:
    """The claims that a worker wants: `limit` tasks of these queues, but `fast[handler]` of a fast handler."""

    queues: Sequence[str]
    limit: int
    fast: Mapping[str, int]


@dataclass(frozen=True)
class Turn:
    """The answers to a batch of reports, the rights they made, and the tasks taken."""

    answers: list[Answer]
    rights: list[TakenRight]
    claims: list[Claim]


@dataclass(frozen=True)
class StoredValue:
    """A part of a node's output; or, for the whole: a reference, or the results of many tasks."""

    value: Json
    reference: dict[str, Json] | None
    many: dict[str, Json] | None


@dataclass(frozen=True)
class ResultPage:
    """Some results of a node's tasks, as JSON texts, one a line, up to the last index; some may be references."""

    lines: str
    count: int
    last: int
    has_references: bool


@dataclass(frozen=True)
class Swept:
    """What one round of the sweeper did."""

    expired: int
    released: int


@dataclass(frozen=True)
class ClockReading:
    """The server's time, and by how much noted steps have moved its clock."""

    at: datetime
    shifted: timedelta


@dataclass(frozen=True)
class Remains:
    """A purged job that has left files and rows of its tasks."""

    job: int
    job_id: str


@dataclass(frozen=True)
class Survey:
    """How many jobs a purge would take, by state, and how many tasks they have."""

    completed: int = 0
    failed: int = 0
    cancelled: int = 0
    tasks: int = 0


@dataclass(frozen=True)
class Holdings:
    """All that a process holds: attempts and advance rights; and what blocks its work, if anything."""

    attempts: Sequence[InHand] = ()
    rights: Sequence[RightId] = ()
    trouble: str | None = None


class JobStore(Protocol):
    """Jobs, their definitions and the rights to advance them."""

    async def submit(self, submission: Submission, session: SessionId) -> Submitted: ...
    async def submit_batch(
        self, submissions: Sequence[Submission], session: SessionId
    ) -> list[Submitted | KeyTaken]: ...
    async def recall(self, scope: str, key: IdempotencyKey) -> Submitted | None: ...
    async def find_repeats(self, submissions: Sequence[Submission]) -> list[bool]: ...
    async def definition(self, workflow_hash: str) -> Workflow: ...
    async def take_rights(self, session: SessionId, limit: int, before: datetime | None = None) -> list[TakenRight]: ...
    async def free_rights(
        self, session: SessionId, rights: Sequence[TakenRight], *, reason: str, delay: timedelta
    ) -> None: ...
    async def load_right(self, right: TakenRight, session: SessionId) -> RightView | None: ...
    async def apply(
        self, right: TakenRight, session: SessionId, view: RightView, transitions: Sequence[Transition]
    ) -> Applied: ...
    async def node_values(self, job_id: str, references: Sequence[Reference]) -> list[StoredValue | None]: ...
    async def node_results(self, job_id: str, node: str, after: int) -> ResultPage | None: ...
    async def cancel(self, job_id: str, reason: str, by: str | None = None) -> tuple[JobState, bool]: ...
    async def job_ends(self, session: SessionId, every: timedelta, job_ids: Sequence[str]) -> dict[str, JobEnd]: ...
    async def cancel_orphans(self) -> int: ...
    async def signal(
        self, job_id: str, node: str, payload: JsonObject, by: str, session: SessionId
    ) -> Verdict[SignalAnswer]: ...
    async def retry(
        self, job_id: str, version: int, again: RetryPlan, session: SessionId, by: str | None = None
    ) -> Verdict[RetryAnswer]: ...
    async def take_children(self, session: SessionId, limit: int) -> list[ChildJob]: ...
    async def end_child(self, child: ChildJob, report: Report, session: SessionId) -> list[TakenRight]: ...
    async def limit(self, kind: LimitKind, name: str, change: LimitChange, by: str) -> Limit | None: ...
    async def ring(self, queues: Sequence[str]) -> None: ...


class TaskQueue(Protocol):
    """Sessions, claims and reports."""

    async def open_session(
        self,
        kind: SessionKind,
        queues: Sequence[str],
        slots: int,
        lease: timedelta,
        handlers: Mapping[str, str] | None = None,
        breakers: Mapping[tuple[LimitKind, str], Breaker] | None = None,
    ) -> SessionId: ...
    async def end_session(self, session: SessionId, reason: str) -> None: ...
    async def checkpoint(self, session: SessionId, attempt: Attempt, number: int, phase: str, state: str) -> bool: ...
    async def drain(self, session: SessionId, *, draining: bool) -> bool: ...
    async def spawn(self, claim: Claim, child: Submission, session: SessionId) -> Spawned | None: ...
    async def turn(self, session: SessionId, reports: Sequence[Report], wanted: ClaimRequest) -> Turn: ...
    async def claim_apart(self, session: SessionId, queues: Sequence[str]) -> list[Claim]: ...
    async def reconcile(self, session: SessionId, in_hand: Sequence[InHand]) -> int: ...
    async def renew(self) -> None: ...
    async def sweep(
        self, session: SessionId, every: timedelta, grace: timedelta, latest: Callable[[], datetime]
    ) -> Swept: ...
    async def read_clock(self) -> ClockReading: ...
    async def find_lead(self) -> timedelta: ...
    async def step_clock(
        self, session: SessionId, step: timedelta, shifted: timedelta, elapsed: timedelta | None
    ) -> bool: ...


class RetentionStore(Protocol):
    """Removes old rows in batches, each in a short transaction."""

    async def has_turn(self, session: SessionId, every: timedelta) -> bool:
        """Whether no other process does it."""

    async def note_turn(self, session: SessionId, every: timedelta) -> bool:
        """Note that it is done; False when another does it."""

    async def purge(self, age: timedelta, after: int) -> tuple[int, int | None]:
        """Turn some jobs that ended this long ago into tombstones; how many, and the last id, or None at the end."""

    async def survey(self, age: timedelta, after: int) -> tuple[Survey, int | None]:
        """What `purge` would remove, and the last id read, or None at the end."""

    async def remains(self, after: int) -> list[Remains]:
        """Some purged jobs that have left something, after one of them."""

    async def clear(self, jobs: Sequence[Remains]) -> int:
        """Remove some of the rows that they left; how many, and 0 at the end."""

    async def expire_publications(self, revisions: timedelta, withdrawn: timedelta) -> int:
        """Remove the files of some publications out of sight for this long; how many, and 0 at the end."""

    async def drop_unused_tables(self, age: timedelta) -> int:
        """Drop some tables that no publication shows, of jobs that ended this long ago; how many, and 0 at the end."""

    async def find_expired_objects(self, after: str) -> list[str]:
        """The addresses of some objects that no publication uses any more, in their order after one."""

    async def forget_objects(self, addresses: Sequence[str]) -> int:
        """Forget such objects once they are removed; how many."""

    async def remove_tombstones(self, age: timedelta) -> int:
        """Remove some tombstones of at least this age; how many, and 0 at the end."""

    async def remove_sessions(self, age: timedelta) -> int: ...
    async def remove_workflows(self, age: timedelta) -> int: ...


class HeartbeatConnection(Protocol):
    """A blocking connection for beats, progress and doorbells; one thread uses it, and others may wake it."""

    def beat(self, session: SessionId, hands: Holdings) -> list[Attempt] | None:
        """Renew the leases of the session and its rights; returns the attempts to stop, or None when it expired."""

    def keep_output(self, session: SessionId, printed: Sequence[AttemptOutput]) -> set[TaskKey]:
        """Store what tasks have printed so far; returns those stored: the others have ended, or are locked."""

    def progress(self, session: SessionId, said: Sequence[AttemptProgress]) -> set[TaskKey]:
        """Store the progress of tasks; returns those stored: the others have ended, or are locked."""

    def wait(self, timeout: timedelta) -> bool:
        """True when a doorbell rang before the timeout; a wait that was woken ends early."""

    def wake(self) -> None:
        """End this wait, and every later one at once; from any thread."""

    def close(self) -> None:
        """Close the connection; it can't be woken any more."""


class Store(JobStore, TaskQueue, Protocol):
    """Both, in one place."""

    def pulse(self, queues: Collection[str] = ()) -> HeartbeatConnection:
        """A new connection for beats, and for the doorbells of queues."""

    def retention(self) -> RetentionStore:
        """The store of retention."""

    def ticks(self) -> "TickStore":
        """The store of schedules' ticks."""

    def watches(self) -> "WatchStore":
        """The store of what schedules watch."""


SpanKind = Literal["server", "consumer", "client"]
SpanAttributes = Callable[[], Mapping[str, str | int]]


class Span(Protocol):
    """A piece of work in a trace."""

    @property
    def traceparent(self) -> str | None:
        """What work that follows from it goes on with; None where there is no trace."""

    def rename(self, name: str) -> None:
        """Give it a name that was not known at its start."""

    def note(self, name: str, value: str) -> None:
        """Give it another attribute."""

    def fail(self, code: str) -> None:
        """Mark it as failed, with a code and never with what went wrong: that may contain data."""


class Tracer(Protocol):
    """Shows work to a tracing system; it never makes the work wait or fail."""

    def span(
        self, name: str, kind: SpanKind, parent: str | None, attributes: SpanAttributes
    ) -> AbstractContextManager[Span]:
        """A span around what is done within; `parent` is the `traceparent` that it goes on with.

        Its attributes are asked for when it is shown.
        """

    def close(self) -> None:
        """Send what is left, for a few seconds at most."""


@dataclass(frozen=True, slots=True)
class _NoSpan:
    """Passes on the trace of its parent."""

    traceparent: str | None

    def rename(self, name: str) -> None:
        """Nobody sees it."""

    def note(self, name: str, value: str) -> None:
        """Nobody sees it."""

    def fail(self, code: str) -> None:
        """Nobody sees it."""


class _NoTracer:
    """Makes no spans; a trace goes through all the same."""

    @contextmanager
    def span(self, name: str, kind: SpanKind, parent: str | None, attributes: SpanAttributes) -> Iterator[Span]:
        yield _NoSpan(parent)

    def close(self) -> None:
        """Nothing is open."""


NO_TRACER = _NoTracer()
