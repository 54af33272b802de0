"""What the engine's SQL promises, as a small model in memory: the state machine of `tests/proofs` is held against it.

Times are seconds since the model began. Nothing here talks to a database.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from anabranch.engine.canonical import Json
from anabranch.engine.evaluator import Facts, LaneEnded, Needs, SetJob, SetNode, Started, Transition, plan
from anabranch.engine.lanes import OpenLane
from anabranch.engine.model import TERMINAL, JobState, NodeState, Purpose
from anabranch.engine.workflow import Workflow

__all__ = ["Attempt", "Job", "Lane", "LaneKey", "Model", "Right", "Session", "Task", "event_of"]

LEASE = 60
HEARD = LEASE // 3  # what a session took longer ago than this, it must know of
DEATHS = 3  # a task whose sessions died so often is a suspect, started or not
FINAL = ("completed", "failed")


class LaneKey(NamedTuple):
    """A lane, or the right that it gives, by what it is for."""

    job: str
    node: str
    purpose: Purpose

    def __repr__(self) -> str:
        return f"{self.job}.{self.node or 'start'}" + ("" if self.purpose is Purpose.WORK else f"({self.purpose})")


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
    """A task is in one place: ready, running, due, or ended."""

    place: str = "ready"
    attempt: int = 0
    session: int | None = None
    last_session: int | None = None
    failures: int = 0
    crashes: int = 0
    due_at: int | None = None
    body: Json = None
    claimed_at: int = 0
    started_at: int | None = None
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
    served_at: int
    timeout: float
    max_attempts: int
    next_index: int = 0
    closed: bool = False

    @property
    def width(self) -> int:
        """How many tasks there are."""
        return len(self.tasks)

    @property
    def running(self) -> int:
        """How many run."""
        return self.count("running")

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

    def count(self, *places: str) -> int:
        """How many tasks are in these places."""
        return sum(task.place in places for task in self.tasks)


@dataclass
class Right:
    """The right to advance; `takes` fences it."""

    session: int | None
    taken_until: int | None
    takes: int = 1


@dataclass
class Job:
    """One run of a workflow; `version` is the number of its last event."""

    name: str
    workflow: Workflow
    priority: int
    state: JobState
    nodes: dict[str, NodeState]
    version: int


@dataclass
class Session:
    """A process: it may be silent, and it may be dead."""

    beat_at: int
    dead: bool = False


class Model:
    """Jobs, lanes, rights and sessions after each command."""

    def __init__(self) -> None:
        """Nothing has happened yet."""
        self.now = 0
        self.swept_since: int | None = None
        self.sessions: dict[int, Session] = {}
        self.jobs: dict[str, Job] = {}
        self.lanes: dict[LaneKey, Lane] = {}
        self.rights: dict[LaneKey, Right] = {}

    def submit(self, name: str, workflow: Workflow, priority: int, session: int) -> LaneKey:
        """Create a job with the right to start it."""
        pending = {node.name: NodeState.PENDING for node in workflow.nodes}
        self.jobs[name] = Job(name, workflow, priority, JobState.PENDING, pending, version=1)
        key = LaneKey(name, "", Purpose.START)
        self.rights[key] = Right(session, self.now + LEASE)
        return key

    def free_rights(self) -> list[LaneKey]:
        """Those that anyone may take."""
        return [key for key, right in self.rights.items() if self._is_free(right)]

    def take_right(self, key: LaneKey, session: int) -> None:
        """Give a right to another session."""
        self.rights[key] = Right(session, self.now + LEASE, self.rights[key].takes + 1)

    def plan(self, key: LaneKey) -> tuple[Transition, ...]:
        """What follows from a right."""
        job = self.jobs[key.job]
        failure: dict[str, Json] | None = {"code": "test"} if NodeState.FAILED in job.nodes.values() else None
        facts = Facts(job.name, {}, job.nodes, {}, failure, state=job.state)
        planned = plan(job.workflow, facts, event_of(key, self.lanes.get(key)))
        assert not isinstance(planned, Needs)
        return planned

    def apply(self, key: LaneKey, session: int, transitions: Sequence[Transition]) -> None:
        """Spend a right."""
        job = self.jobs[key.job]
        del self.rights[key]
        for change in transitions:
            match change:
                case OpenLane():
                    self._open(job, change, session)
                case SetNode():
                    self._set_node(job, change.node, change.state)
                case SetJob():
                    self._set_job(job, change.state)
                case _:
                    raise NotImplementedError(change)

    def cancel(self, name: str) -> JobState:
        """Cancel a job, unless it has ended."""
        job = self.jobs[name]
        if job.state in TERMINAL:
            return job.state
        for node, state in list(job.nodes.items()):
            if state in (NodeState.PENDING, NodeState.RUNNING):
                self._set_node(job, node, NodeState.CANCELLED)
        self._set_job(job, JobState.CANCELLED)
        for key in [key for key in self.rights if key.job == name]:
            del self.rights[key]
        return JobState.CANCELLED

    def is_claimable(self, *queues: str) -> bool:
        """Whether a claim would find anything."""
        return any(self.offered(lane) for lane in self.lanes.values() if lane.queue in queues)

    def offered(self, lane: Lane) -> int:
        """How many tasks of a lane could be claimed now."""
        if lane.closed or lane.room <= 0:
            return 0
        return min(lane.room, lane.width - lane.next_index + sum(map(self._is_due, lane.tasks)))

    def claim(self, attempt: Attempt) -> None:
        """Start an attempt: fresh tasks in the order of their indexes, others when they are due."""
        lane = self.lanes[attempt.lane]
        task = lane.tasks[attempt.idx]
        assert self.offered(lane), f"{attempt!r} was not on offer"
        assert attempt.number == task.attempt + 1
        assert self._is_due(task) or (task.place == "ready" and attempt.idx == lane.next_index)
        lane.next_index += task.place == "ready"
        task.place, task.attempt, task.session = "running", attempt.number, attempt.session
        task.due_at, task.started_at, task.claimed_at = None, None, self.now

    def report(self, session: int, attempts: Sequence[Attempt], ended: str, body: Json, delay: int) -> list[str]:
        """End attempts, all in one batch: whether a lane is closed is judged once."""
        closed = {key for key, lane in self.lanes.items() if lane.closed}
        answers = [self._end(a, ended, body, delay, is_closed=a.lane in closed, by=session) for a in attempts]
        for key in {attempt.lane for attempt in attempts} - closed:
            self._close_if_ended(self.lanes[key], session)
        return answers

    def running(self, *sessions: int) -> list[Attempt]:
        """What these sessions hold by the tables."""
        return [
            Attempt(lane.key, index, task.attempt, task.session)
            for lane in self.lanes.values()
            for index, task in enumerate(lane.tasks)
            if task.place == "running" and task.session is not None and task.session in sessions
        ]

    def task(self, attempt: Attempt) -> Task:
        """The task of an attempt."""
        return self.lanes[attempt.lane].tasks[attempt.idx]

    def holds(self, attempt: Attempt) -> bool:
        """Whether the attempt is the current one."""
        task = self.task(attempt)
        return (task.place, task.attempt, task.session) == ("running", attempt.number, attempt.session)

    def beat(self, session: int, in_hand: Sequence[Attempt], started: Sequence[Attempt]) -> None:
        """Renew a lease, note which attempts have started, and take back what the session seems not to know of."""
        self.sessions[session].beat_at = self.now
        for attempt in started:
            task = self.task(attempt)
            if self.holds(attempt) and task.started_at is None:
                task.started_at = self.now
        for key, right in self.rights.items():
            if (
                right.session == session
                and right.taken_until is not None
                and right.taken_until < self.now + LEASE - HEARD
            ):
                self.rights[key] = Right(None, None, right.takes)
        unknown = [attempt for attempt in self.running(session) if attempt not in in_hand]
        self.release([(a, "lost") for a in unknown if self.task(a).claimed_at < self.now - HEARD])

    def expire(self) -> list[int]:
        """Mark silent sessions dead; the sweeper itself must have watched for a lease."""
        self.swept_since = self.now if self.swept_since is None else self.swept_since
        silent = [
            number
            for number, session in self.sessions.items()
            if not session.dead and max(session.beat_at, self.swept_since) + LEASE < self.now
        ]
        for number in silent:
            self.sessions[number].dead = True
        return silent

    def release_dead(self) -> int:
        """Give back what dead sessions hold."""
        held = self.running(*(number for number, session in self.sessions.items() if session.dead))
        return self.release([(attempt, "suspect" if self._is_suspect(attempt) else "lost") for attempt in held])

    def end_overdue(self, grace: int) -> int:
        """End what ran past its timeout and a grace that its worker let pass."""
        return self.release([(attempt, self._overdue(attempt)) for attempt in self._find_overdue(grace)])

    def tidy(self) -> None:
        """End tasks that wait for an attempt that will never be: their lane is closed."""
        for lane in self.lanes.values():
            for task in lane.tasks:
                if lane.closed and task.place == "due":
                    task.place, task.session, task.due_at = "cancelled", task.last_session, None

    def release(self, held: Sequence[tuple[Attempt, str]]) -> int:
        """End attempts on behalf of those who hold them; the rights that come of it are free."""
        closed = {key for key, lane in self.lanes.items() if lane.closed}
        for attempt, ended in held:
            self._end(attempt, ended, None, 0, is_closed=attempt.lane in closed, by=None)
        for key in {attempt.lane for attempt, _ in held} - closed:
            self._close_if_ended(self.lanes[key], None)
        return len(held)

    def _find_overdue(self, grace: int) -> Iterator[Attempt]:
        for attempt in self.running(*self.sessions):
            started, lane = self.task(attempt).started_at, self.lanes[attempt.lane]
            if started is not None and started + lane.timeout + grace < self.now:
                yield attempt

    def _overdue(self, attempt: Attempt) -> str:
        last = self.task(attempt).failures + 1 >= self.lanes[attempt.lane].max_attempts
        return "failed" if last else "timed_out"

    def _is_free(self, right: Right) -> bool:
        lapsed = right.taken_until is not None and right.taken_until < self.now
        return right.session is None or lapsed or self.sessions[right.session].dead

    def _is_suspect(self, attempt: Attempt) -> bool:
        return self.task(attempt).started_at is not None or attempt.number >= DEATHS

    def _is_due(self, task: Task) -> bool:
        return task.place == "due" and task.due_at is not None and task.due_at <= self.now

    def _end(self, attempt: Attempt, ended: str, body: Json, delay: int, *, is_closed: bool, by: int | None) -> str:
        task = self.task(attempt)
        if not self.holds(attempt):
            return "duplicate" if task.ends.get(attempt.number) == by is not None else "stale"
        if is_closed:
            task.place, task.failures = "cancelled", task.failures + (ended == "failed")
            return "stale"
        task.ends[attempt.number] = by
        task.failures += ended in ("failed", "retry", "timed_out")
        if ended in FINAL:
            task.place, task.body = ended, body
        else:
            task.place, task.session, task.due_at = "due", None, self.now + delay
            task.last_session = attempt.session
            task.crashes = {"crashed": task.crashes + 1, "suspect": max(task.crashes, 1)}.get(ended, task.crashes)
        return "applied"

    def _close_if_ended(self, lane: Lane, by: int | None) -> None:
        if lane.remaining == 0 or lane.failed > lane.tolerated:
            self._close(lane, by)

    def _close(self, lane: Lane, by: int | None) -> None:
        lane.closed = True
        holder = None if by is None or self.sessions[by].dead else by
        self.rights[lane.key] = Right(holder, None if holder is None else self.now + LEASE)

    def _open(self, job: Job, change: OpenLane, session: int) -> None:
        key, policy = LaneKey(job.name, change.node, change.purpose), change.policy
        declared = policy["max_attempts"]
        lane = self.lanes[key] = Lane(
            key,
            change.queue,
            job.priority,
            [Task() for _ in range(self._width(job, change))],
            change.tolerated,
            change.max_running,
            self.now,
            float(str(policy["timeout_seconds"])),
            declared if isinstance(declared, int) else 3,
        )
        if lane.width == 0:
            self._close(lane, session)

    def _width(self, job: Job, change: OpenLane) -> int:
        source = change.source
        if source.node is None or source.purpose is None:
            return source.count or 0
        origin = self.lanes[LaneKey(job.name, source.node, source.purpose)]
        if source.kind == "match":
            return origin.width
        planned = origin.tasks[0].body
        return len(planned) if isinstance(planned, list) else 0

    def _set_node(self, job: Job, node: str, state: NodeState) -> None:
        job.version += job.nodes[node] is not state
        job.nodes[node] = state

    def _set_job(self, job: Job, state: JobState) -> None:
        job.state = state
        job.version += 1
        for lane in self.lanes.values():
            lane.closed |= lane.key.job == job.name and state in TERMINAL


def event_of(key: LaneKey, lane: Lane | None) -> Started | LaneEnded:
    """What a right tells the evaluator."""
    return Started() if lane is None else LaneEnded(key.node, key.purpose, lane.failed)
