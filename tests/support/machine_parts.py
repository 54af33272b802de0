"""What the model of the engine's SQL is made of: jobs, lanes, tasks, rights, limits and sessions, held in memory."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from anabranch.canonical import Json
from anabranch.engine.model import JobState, LimitKind, NodeState, Purpose
from anabranch.workflows.definition import Workflow

__all__ = ["FINAL", "Attempt", "Job", "Lane", "LaneKey", "Limit", "Right", "Session", "Task"]

FINAL = ("completed", "failed")


class LaneKey(NamedTuple):
    """A lane, or the right that it gives, by what it is for."""

    job: str
    node: str
    purpose: Purpose
    generation: int = 0

    def __repr__(self) -> str:
        return (
            f"{self.job}.{self.node or 'start'}"
            + ("" if self.purpose is Purpose.WORK else f"({self.purpose})")
            + "'" * self.generation
        )


class Attempt(NamedTuple):
    """One try of a task, as its session holds it; kept after it is taken away, to be reported late."""

    lane: LaneKey
    idx: int
    number: int
    session: int

    def __repr__(self) -> str:
        return f"{self.lane!r}[{self.idx}]#{self.number}@{self.session}"


@dataclass
class Task:
    """A task is in one place: ready, running, a child job, due, or ended."""

    place: str = "ready"
    attempt: int = 0
    session: int | None = None
    last_session: int | None = None
    failures: int = 0
    crashes: int = 0
    deaths: int = 0
    due_at: int | None = None
    body: Json = None
    claimed_at: int = 0
    started_at: int | None = None
    child: str | None = None  # the job that it runs as
    ends: dict[int, int | None] = field(default_factory=dict)  # attempts that ended: the session that said so


@dataclass
class Lane:
    """An open node."""

    key: LaneKey
    queue: str
    priority: int
    tasks: list[Task]
    tolerated: int
    max_running: int | None
    timeout: float
    max_attempts: int
    handler: str
    workflow: str
    limit_key: str | None = None
    is_of_jobs: bool = False
    next_index: int = 0
    closed: bool = False
    repeats: int = 0  # attempts that did not end their task for a fault
    recorded: int | None = None  # how many of them events show

    def note_repeat(self, *, is_fault: bool) -> None:
        """Count an attempt that did not end its task."""
        if is_fault:
            self.repeats, self.recorded = self.repeats + 1, self.recorded or 0

    @property
    def width(self) -> int:
        """How many tasks there are."""
        return len(self.tasks)

    @property
    def running(self) -> int:
        """How many run."""
        return self.count("running", "child")

    @property
    def failed(self) -> int:
        """How many failed for good."""
        return self.count("failed")

    @property
    def remaining(self) -> int:
        """How many have not ended with a result or an error."""
        return self.width - self.count(*FINAL)

    @property
    def room(self) -> int:
        """How many more may run at once."""
        return self.width if self.max_running is None else self.max_running - self.running

    @property
    def last_attempt(self) -> int:
        """The highest number of an attempt."""
        return max((task.attempt for task in self.tasks), default=0)

    def count(self, *places: str) -> int:
        """How many tasks are in these places."""
        return sum(task.place in places for task in self.tasks)

    def names(self) -> Iterator[tuple[LimitKind, str]]:
        """What limits may go by."""
        yield LimitKind.QUEUE, self.queue
        yield LimitKind.WORKFLOW, self.workflow
        yield LimitKind.HANDLER, self.handler
        if self.limit_key is not None:
            yield LimitKind.KEY, self.limit_key


@dataclass
class Right:
    """The right to advance; `takes` fences it."""

    session: int | None
    taken_until: int | None
    takes: int = 1


@dataclass
class Job:
    """One run of a workflow; `version` is the number of its last event.

    `waits` are its open gates and waits, each with the time when it is up, if there is one; `task` is the attempt that
    it runs as, and `ended_at` when that was noted; `ending` is how it ends after its cleanup.
    """

    name: str
    workflow: Workflow
    priority: int
    state: JobState
    nodes: dict[str, NodeState]
    version: int
    generation: int = 0
    generations: dict[str, int] = field(default_factory=dict)
    kept: frozenset[str] = frozenset()
    waits: dict[str, int | None] = field(default_factory=dict)
    signals: dict[tuple[str, int], dict[str, Json]] = field(default_factory=dict)
    task: Attempt | None = None
    ended_at: int | None = None
    ending: JobState | None = None
    reported_until: int | None = None


@dataclass
class Limit:
    """How many may run at once; none while it is paused."""

    most: int | None
    paused: bool


@dataclass
class Session:
    """A process: it may be silent, it may drain, and it may be dead."""

    beat_at: int
    dead: bool = False
    draining: bool = False
