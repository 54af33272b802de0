"""What the engine's SQL promises, as a small model in memory: the state machine of `tests/proofs` is held against it.

Times are seconds since the model began. Nothing here talks to a database.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from anabranch.canonical import Json
from anabranch.engine.advancing.evaluator import plan
from anabranch.engine.advancing.lanes import KeepLane, OpenLane
from anabranch.engine.advancing.transitions import (
    BeginCleanup,
    EndJob,
    Event,
    Facts,
    LaneEnded,
    Needs,
    OpenWait,
    SetJob,
    SetNode,
    Signalled,
    Started,
    TimeUp,
    Transition,
)
from anabranch.engine.failure import Failure
from anabranch.engine.job_retry import RetryPlan
from anabranch.engine.model import TERMINAL_STATES, JobState, LimitChange, LimitKind, NodeState, Purpose
from anabranch.workflows.definition import Workflow
from tests.support.machine_parts import FINAL, Attempt, Job, Lane, LaneKey, Limit, Right, Session, Task

__all__ = ["LEASE", "Model"]

LEASE = 60
HEARD = LEASE // 3  # what a session took longer ago than this, it must know of
DEATHS = 3  # a task whose sessions died so often is a suspect, started or not
DEATHS_ALONE = 5  # a suspect whose sessions died so often more fails
SLOTS = 1  # of every session
MANY = 10**9
OPEN = (NodeState.PENDING, NodeState.RUNNING)


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
        self.limits: dict[tuple[LimitKind, str], Limit] = {}

    def submit(self, name: str, workflow: Workflow, priority: int, session: int) -> LaneKey:
        """Create a job with the right to start it."""
        pending = {node.name: NodeState.PENDING for node in workflow.nodes}
        generations = dict.fromkeys(pending, 0)
        self.jobs[name] = Job(name, workflow, priority, JobState.PENDING, pending, 1, generations=generations)
        key = LaneKey(name, "", Purpose.START)
        self.rights[key] = Right(session, self.now + LEASE)
        return key

    def free_rights(self) -> list[LaneKey]:
        """Those that anyone may take."""
        free = [key for key, right in self.rights.items() if self._is_free(right)]
        return [key for key in free if key.purpose is not Purpose.START or not self._is_stopping(key.job)]

    def take_right(self, key: LaneKey, session: int) -> None:
        """Give a right to another session."""
        self.rights[key] = Right(session, self.now + LEASE, self.rights[key].takes + 1)

    def plan(self, key: LaneKey) -> tuple[Transition, ...]:
        """What follows from a right."""
        job = self.jobs[key.job]
        failure = Failure(code="test", message="") if NodeState.FAILED in job.nodes.values() else None
        facts = Facts(job.name, {}, job.nodes, {}, failure, state=job.state, kept=job.kept, ending=job.ending)
        planned = plan(job.workflow, facts, self.event_of(key))
        assert not isinstance(planned, Needs)
        return planned

    def event_of(self, key: LaneKey) -> Event:
        """What a right tells the evaluator; a gate that was told in its last moment was told."""
        if key.purpose is Purpose.START:
            return Started()
        if key.purpose in (Purpose.GATE, Purpose.WAIT):
            told = self.jobs[key.job].signals.get((key.node, key.generation))
            return TimeUp(key.node) if told is None else Signalled(key.node, told)
        lane = self.lanes[key]
        return LaneEnded(key.node, key.purpose, lane.failed, width=lane.width)

    def apply(self, key: LaneKey, session: int, transitions: Sequence[Transition]) -> None:
        """Spend a right."""
        job = self.jobs[key.job]
        del self.rights[key]
        for change in transitions:
            match change:
                case OpenLane():
                    self._open(job, change, session)
                case KeepLane():
                    self._keep(job, change.node, session)
                case OpenWait():
                    self._wait(job, change, session)
                case SetNode():
                    self._set_node(job, change.node, change.state)
                case SetJob():
                    self._set_job(job, change.state)
                case BeginCleanup():
                    self._begin_cleanup(job, change.end.state, session)
                case EndJob():
                    assert job.ending is not None
                    self._set_job(job, job.ending)

    def cancel(self, name: str) -> tuple[JobState, bool]:
        """Cancel a job, unless it has ended or ends; its state, and whether this changed it."""
        job = self.jobs[name]
        if job.state in TERMINAL_STATES or job.ending is not None:
            return job.state, False
        cleanup = job.workflow.cleanup if job.state is not JobState.PENDING else ()
        cleanup = tuple(node for node in cleanup if job.nodes[node] is NodeState.PENDING)
        for node, state in list(job.nodes.items()):
            if state in OPEN and node not in cleanup:
                self._set_node(job, node, NodeState.CANCELLED)
        self._forget_rights(name)
        if cleanup:
            self._begin_cleanup(job, JobState.CANCELLED, None)
        else:
            self._set_job(job, JobState.CANCELLED)
        return job.state, True

    def retry(self, name: str, version: int, again: RetryPlan, session: int) -> str:
        """Begin a new generation of a job that ended; in a word, what came of it."""
        job = self.jobs[name]
        if job.state not in TERMINAL_STATES:
            return "open"
        if job.task is not None:
            return "child"
        if job.version != version:
            return "moved"
        job.generation += 1
        job.state, job.version, job.ending = JobState.PENDING, job.version + 1, None
        worked = {key.node for key in self.lanes if key.job == name and key.purpose is Purpose.WORK}
        job.kept = (job.kept - set(again.nodes)) | (again.kept & worked)
        job.nodes |= dict.fromkeys(again.nodes, NodeState.PENDING)
        job.generations |= dict.fromkeys(again.nodes, job.generation)
        self._forget_rights(name)
        self.rights[LaneKey(name, "", Purpose.START, job.generation)] = Right(session, self.now + LEASE)
        return "retried"

    def signal(self, name: str, node: str, payload: dict[str, Json], session: int) -> str:
        """Tell a gate what it waits for; in a word, what came of it."""
        job = self.jobs[name]
        generation = job.generations[node]
        told = job.signals.get((node, generation))
        if told is not None:
            return "same" if told == payload else "other"
        if job.nodes[node] not in OPEN:
            return "ended"
        job.signals[node, generation] = payload
        job.version += 1
        if node in job.waits:
            self._end_wait(job, node, Purpose.GATE, session)
        return "accepted"

    def has_over(self) -> bool:
        """Whether a gate or wait is open whose time is up."""
        return any(u is not None and u <= self.now for job in self.jobs.values() for u in job.waits.values())

    def end_waits(self) -> None:
        """Give rights for gates and waits whose time is up, free to take."""
        for job in self.jobs.values():
            for node, until in job.waits.items():
                if until is not None and until <= self.now:
                    job.waits[node] = None
                    self._end_wait(job, node, Purpose.WAIT, None)

    def spawn(self, attempt: Attempt, name: str, workflow: Workflow) -> bool:
        """Trade a claim for a child job; false when the claim is not the session's any more."""
        lane, task = self.lanes[attempt.lane], self.task(attempt)
        if not self.holds(attempt) or lane.closed:
            return False
        self.submit(name, workflow, self.jobs[attempt.lane.job].priority, attempt.session)
        self.jobs[name].task = attempt
        task.place, task.session, task.child = "child", None, name
        return True

    def ended_children(self) -> list[str]:
        """Child jobs that ended and that nobody reports for now."""
        return [
            job.name
            for job in self.jobs.values()
            if job.ended_at is not None and (job.reported_until is None or job.reported_until < self.now)
        ]

    def end_child(self, name: str, how: str, body: Json, session: int) -> bool:
        """Report for a child job, once; false when that was done before."""
        job = self.jobs[name]
        if job.task is None or job.ended_at is None:
            return False
        attempt, task, lane = job.task, self.task(job.task), self.lanes[job.task.lane]
        job.ended_at = None
        task.place, task.session, task.child = "running", session, None
        self._end(attempt._replace(session=session), how, body, 0, is_closed=lane.closed, by=session)
        if not lane.closed:
            self._close_if_ended(lane, session)
        return True

    def cancel_orphans(self) -> int:
        """Cancel the child jobs whose task is over, and theirs."""
        cancelled = 0
        while orphans := [job for job in self.jobs.values() if self.is_orphan(job)]:
            self.cancel(orphans[0].name)
            cancelled += 1
        return cancelled

    def is_orphan(self, job: Job) -> bool:
        """Whether a child job runs for a task that is over, and does not end already."""
        goes_on = job.state not in TERMINAL_STATES and job.ending is None
        return job.task is not None and goes_on and self.lanes[job.task.lane].closed

    def limit(self, kind: LimitKind, name: str, change: LimitChange) -> Limit | None:
        """Set, change or take away a limit."""
        known = self.limits.pop((kind, name), Limit(None, paused=False))
        most, paused = change.get("most", known.most), change.get("paused", known.paused)
        if most is None and not paused:
            return None
        limit = self.limits[kind, name] = Limit(most, paused)
        return limit

    def allowed(self, lane: Lane) -> int:
        """How many more tasks of a lane the limits let run."""
        found = [(key, self.limits[key]) for key in lane.names() if key in self.limits]
        return min((0 if limit.paused else (limit.most or 0) - self._count(*key) for key, limit in found), default=MANY)

    def is_claimable(self, *queues: str) -> bool:
        """Whether a claim would find anything."""
        return any(self.offered(lane) for lane in self.lanes.values() if lane.queue in queues)

    def offered(self, lane: Lane) -> int:
        """How many tasks of a lane could be claimed now."""
        if lane.closed:
            return 0
        waiting = lane.width - lane.next_index + sum(map(self._is_due, lane.tasks))
        return max(min(lane.room, self.allowed(lane), waiting), 0)

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
        unheard = [(attempt, "lost") for attempt in unknown if self.task(attempt).claimed_at < self.now - HEARD]
        self.release(unheard, is_fault=False)

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
        return self.release([(attempt, self._after_death(attempt)) for attempt in held])

    def end_overdue(self, grace: int) -> int:
        """End what ran past its timeout and a grace that its worker let pass."""
        return self.release([(attempt, self._overdue(attempt)) for attempt in self._find_overdue(grace)])

    def tidy(self) -> None:
        """End tasks that wait for an attempt that will never be: their lane is closed."""
        for lane in self.lanes.values():
            for task in lane.tasks:
                if lane.closed and task.place == "due":
                    task.place, task.session, task.due_at = "cancelled", task.last_session or 0, None

    def record_repeats(self) -> None:
        """Record, once for each open lane, that tasks of it are tried again."""
        for lane in self.lanes.values():
            job = self.jobs[lane.key.job]
            if lane.recorded == 0 and not lane.closed and job.state not in TERMINAL_STATES:
                lane.recorded = lane.repeats
                job.version += 1

    def release(self, held: Sequence[tuple[Attempt, str]], *, is_fault: bool = True) -> int:
        """End attempts on behalf of those who hold them; the rights that come of it are free."""
        closed = {key for key, lane in self.lanes.items() if lane.closed}
        for attempt, ended in held:
            self._end(attempt, ended, None, 0, is_closed=attempt.lane in closed, by=None, is_fault=is_fault)
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

    def _is_stopping(self, name: str) -> bool:
        """Whether tasks of a job run in lanes that are closed."""
        return any(
            lane.closed and lane.count("running", "child") for lane in self.lanes.values() if lane.key.job == name
        )

    def _begin_cleanup(self, job: Job, ending: JobState, session: int | None) -> None:
        job.state, job.ending = JobState.RUNNING, ending
        job.version += 1
        for lane in self.lanes.values():
            lane.closed |= lane.key.job == job.name
        holder = None if session is None or self.sessions[session].dead or self._is_stopping(job.name) else session
        key = LaneKey(job.name, "", Purpose.START, job.generation)
        self.rights[key] = Right(holder, None if holder is None else self.now + LEASE)

    def _is_suspect(self, attempt: Attempt) -> bool:
        return self.task(attempt).started_at is not None or attempt.number >= DEATHS

    def _after_death(self, attempt: Attempt) -> str:
        task = self.task(attempt)
        if not self._is_suspect(attempt):
            return "lost"
        is_charged = task.started_at is not None or len(self.running(attempt.session)) <= SLOTS
        return "failed" if task.crashes and task.deaths >= DEATHS_ALONE and is_charged else "suspect"

    def _is_due(self, task: Task) -> bool:
        return task.place == "due" and task.due_at is not None and task.due_at <= self.now

    def _end(
        self,
        attempt: Attempt,
        ended: str,
        body: Json,
        delay: int,
        *,
        is_closed: bool,
        by: int | None,
        is_fault: bool = True,
    ) -> str:
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
            task.deaths += ended == "suspect"
            self.lanes[attempt.lane].note_repeat(is_fault=is_fault)
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
        key, policy = LaneKey(job.name, change.node, change.purpose, job.generation), change.policy
        tried = max((lane.last_attempt for lane in self._lanes_of(job, change.node, change.purpose)), default=0)
        lane = self.lanes[key] = Lane(
            key,
            change.queue,
            job.priority,
            [Task(attempt=tried) for _ in range(self._width(job, change))],
            change.tolerated,
            change.max_running,
            policy.timeout.total_seconds(),
            3 if policy.retry.max_attempts is None else policy.retry.max_attempts,
            change.handler,
            job.workflow.id,
            change.limit_key,
            change.shape.workflow is not None,
        )
        if lane.width == 0:
            self._close(lane, session)

    def _keep(self, job: Job, node: str, session: int) -> None:
        """Copy what completed; all else is due at once, with the number of its last attempt."""
        old = max(self._lanes_of(job, node, Purpose.WORK), key=lambda lane: lane.key.generation)
        key = old.key._replace(generation=job.generation)
        lane = self.lanes[key] = replace(old, key=key, tasks=[self._kept(task) for task in old.tasks], closed=False)
        lane.repeats, lane.recorded = 0, None
        lane.next_index = lane.width
        if lane.remaining == 0:
            self._close(lane, session)

    def _kept(self, task: Task) -> Task:
        if task.place == "completed":
            return replace(task, ends={})
        return Task("due", task.attempt, due_at=self.now)

    def _lanes_of(self, job: Job, node: str, purpose: Purpose) -> list[Lane]:
        return [lane for key, lane in self.lanes.items() if key[:3] == (job.name, node, purpose)]

    def _wait(self, job: Job, change: OpenWait, session: int) -> None:
        until = None if change.seconds is None else self.now + int(change.seconds)
        job.waits[change.node] = until
        if change.is_gate and (change.node, job.generations[change.node]) in job.signals:
            self._end_wait(job, change.node, Purpose.GATE, session)
        elif not change.is_gate and until is not None and until <= self.now:
            self._end_wait(job, change.node, Purpose.WAIT, session)

    def _end_wait(self, job: Job, node: str, purpose: Purpose, session: int | None) -> None:
        key = LaneKey(job.name, node, purpose, job.generations[node])
        holder = None if session is None or self.sessions[session].dead else session
        self.rights.setdefault(key, Right(holder, None, 0) if holder is None else Right(holder, self.now + LEASE))
        if session is not None and holder is None:
            self.rights[key].takes = 1

    def _count(self, kind: LimitKind, name: str) -> int:
        """How many run under a limit; a task that runs as a job holds no worker."""
        places = ("running", "child") if kind in (LimitKind.WORKFLOW, LimitKind.KEY) else ("running",)
        return sum(lane.count(*places) for lane in self.lanes.values() if (kind, name) in lane.names())

    def _forget_rights(self, name: str) -> None:
        for key in [key for key in self.rights if key.job == name]:
            del self.rights[key]

    def _width(self, job: Job, change: OpenLane) -> int:
        source = change.source
        if source.items is not None:
            return len(source.items)
        if source.node is None or source.purpose is None:
            return source.count or 0
        origins = [key for key in self.lanes if key[:3] == (job.name, source.node, source.purpose)]
        origin = self.lanes[max(origins, key=lambda key: key.generation)]
        if source.kind == "match":
            return origin.width
        planned = origin.tasks[0].body
        return len(planned) if isinstance(planned, list) else 0

    def _set_node(self, job: Job, node: str, state: NodeState) -> None:
        if job.nodes[node] is not state:
            job.version += 1 + (state is not NodeState.RUNNING and self._has_untold(job, node))
        job.nodes[node] = state
        if state is not NodeState.RUNNING:
            job.waits.pop(node, None)

    def _has_untold(self, job: Job, node: str) -> bool:
        generation = job.generations[node]
        lanes = [
            lane
            for key, lane in self.lanes.items()
            if (key.job, key.node, key.generation) == (job.name, node, generation)
        ]
        return any(lane.repeats > (lane.recorded or 0) for lane in lanes)

    def _set_job(self, job: Job, state: JobState) -> None:
        job.state = state
        job.version += 1
        job.ending = None
        if state not in TERMINAL_STATES:
            return
        job.ended_at = self.now if job.task else None
        for lane in self.lanes.values():
            lane.closed |= lane.key.job == job.name
