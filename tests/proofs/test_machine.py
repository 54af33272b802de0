"""Every command of the SQL functions in any order, held against a small model after each step."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from psycopg import Connection
from psycopg.rows import TupleRow

from anabranch.adapters.postgres.calls import call_text
from anabranch.adapters.postgres.connect import Role, connect
from anabranch.adapters.postgres.store import PostgresPulse, PostgresStore
from anabranch.engine import model as engine
from anabranch.engine.canonical import Json, encode
from anabranch.engine.evaluator import Facts, Needs, Transition, plan
from anabranch.engine.events import Replayed, replay
from anabranch.engine.model import Event, InHand, JobState, Purpose, Report, RightView, SessionId, SessionKind, TaskKey
from anabranch.engine.ports import SessionGone, Submission, TakenRight, Wanted
from anabranch.engine.workflow import Node, OnFailure, Retry, Spread, Workflow
from anabranch.testing.clock import Clock
from anabranch.testing.machine import LEASE, Attempt, LaneKey, Model, Session, event_of

pytestmark = pytest.mark.postgres

EVERY, GRACE, TICK = 5, 30, 10
SHORT = timedelta(seconds=60)

FAN_OUT = Workflow(
    "fan_out",
    (Node("work", "do", spread=Spread.FIXED, count=3), Node("join", "do", ("work",), Spread.FAN_IN)),
)
DIAMOND = Workflow(
    "diamond",
    (
        Node("top", "do", timeout=SHORT, retry=Retry(max_attempts=2, initial_delay=timedelta(0))),
        Node("left", "do", ("top",), Spread.FIXED, count=2),
        Node("right", "do", ("top",), timeout=SHORT, retry=Retry(initial_delay=timedelta(0))),
        Node("join", "do", ("left", "right")),
    ),
)
WINDOW = Workflow(
    "window",
    (
        Node("work", "do", spread=Spread.FIXED, count=5, max_running=2),
        Node("match", "do", ("work",), Spread.MATCH_PREVIOUS),
    ),
)
LENIENT = Workflow(
    "lenient",
    (
        Node("finish", "do", spread=Spread.FIXED, count=2, on_failure=OnFailure.FINISH),
        Node("goon", "do", spread=Spread.FIXED, count=2, max_running=1, on_failure=OnFailure.CONTINUE),
        Node("nothing", "do", ("goon",), Spread.FIXED, count=0),
        Node("join", "do", ("finish", "nothing")),
    ),
)
PLANNED = Workflow(
    "planned", (Node("first", "do"), Node("many", "do", ("first",), Spread.FAN_OUT, planned=True, aggregated=True))
)
SHAPES = {workflow.id: workflow for workflow in (FAN_OUT, DIAMOND, WINDOW, LENIENT, PLANNED)}
QUEUES = ("plan:planned", "default")

TABLES = (
    "workflows, jobs, nodes, lanes, items, claims, due, outcomes, attempts, traces, rights, waits, signals, children, "
    "limits, events, sessions, duties"
)
SNAPSHOT = Path(__file__).with_name("snapshot.sql").read_bytes()


class Given(NamedTuple):
    """What all examples share."""

    clock: Clock
    runner: asyncio.Runner
    store: PostgresStore
    pulse: PostgresPulse
    admin: Connection[TupleRow]
    app: Connection[TupleRow]


class Planned(NamedTuple):
    """A plan that was made, and may be applied too late."""

    key: LaneKey
    session: int
    view: RightView
    transitions: tuple[Transition, ...]

    def __repr__(self) -> str:
        return f"<plan of {self.key!r} by {self.session} at version {self.view.version}>"


shapes, priorities, mostly = (
    st.sampled_from(sorted(SHAPES)),
    st.sampled_from([5, 1, 3]),
    st.sampled_from([True] * 3 + [False]),
)
workers = st.sampled_from("ab")
ends = st.sampled_from(["completed", "completed", "failed", "retry", "handed_back", "crashed"])


class EngineMachine(RuleBasedStateMachine):
    """Two workers and a sweeper. A worker believes to hold what it claimed until it reported it, whoever has it now."""

    def __init__(self, given: Given) -> None:
        super().__init__()
        self.model = Model()
        self.clock, self.run, self.store, self.pulse = given.clock, given.runner.run, given.store, given.pulse
        self.admin, self.app = given.admin, given.app
        self.admin.execute(
            "truncate " + ", ".join(f"app.{table}" for table in TABLES.split(", ")) + " restart identity"
        )
        self.zero = self.clock.now()
        self.names: dict[str, str] = {}  # a job's id: its name
        self.results = 0
        self.in_hand: list[Attempt] = []
        self.reported: list[Attempt] = []
        self.plans: list[Planned] = []
        self.seen_outcomes: dict[tuple[int, int], Any] = {}
        self.seen_terminal: dict[str, str] = {}
        self.tables: dict[str, Any] = {}
        self.sessions = {worker: self._open_session() for worker in ("sweeper", "a", "b")}

    @initialize(shape=shapes, priority=priorities)
    def start(self, shape: str, priority: int) -> None:
        self._submit(shape, priority, self.sessions["sweeper"], starts=True)

    @rule(shape=shapes, priority=priorities, worker=workers, starts=mostly)
    @precondition(lambda self: sum(job.state not in engine.TERMINAL for job in self.model.jobs.values()) < 3)
    def submit(self, shape: str, priority: int, worker: str, starts: bool) -> None:
        self._submit(shape, priority, self.sessions[worker], starts=starts)

    @rule(data=st.data())
    @precondition(lambda self: self._held_rights())
    def plan(self, data: st.DataObject) -> None:
        """Load a right and plan; the plan is applied by another rule, perhaps after the job moved on."""
        key = data.draw(st.sampled_from(self._held_rights()), "right")
        self.plans.append(self._plan(key))

    @rule(data=st.data())
    @precondition(lambda self: self.plans)
    def apply(self, data: st.DataObject) -> None:
        planned = data.draw(st.sampled_from(self.plans), "plan")
        self.plans.remove(planned)
        self._apply(planned)

    @rule(worker=workers)
    @precondition(lambda self: self.model.free_rights())
    def take_rights(self, worker: str) -> None:
        """Take what nobody has, and spend it."""
        session = self.sessions[worker]
        taken = self.run(self.store.take_rights(SessionId(session), 100))
        free = [] if self.model.sessions[session].dead else self.model.free_rights()
        assert sorted(right.id for right in taken) == sorted(self._right_id(key) for key in free)
        for key in free:
            self.model.take_right(key, session)
        self._advance_all(session)

    @rule(worker=workers, limit=st.integers(1, 6))
    @precondition(lambda self: self.model.is_claimable(*QUEUES))
    def claim(self, worker: str, limit: int) -> None:
        self.in_hand += self._claim(worker, limit)

    @rule(worker=workers, limit=st.integers(1, 6))
    @precondition(lambda self: self.model.is_claimable(*QUEUES))
    def work(self, worker: str, limit: int) -> None:
        """Claim, complete and advance, as a worker does when nothing goes wrong."""
        batch = self._claim(worker, limit)
        for purpose in sorted({attempt.lane.purpose for attempt in batch}):
            alike = [attempt for attempt in batch if attempt.lane.purpose is purpose]
            self._report(self.sessions[worker], alike, "completed", 0)
        self._advance_all(self.sessions[worker])

    @rule(data=st.data(), how=ends, delay=st.sampled_from([0, 30]), advances=mostly)
    @precondition(lambda self: self.in_hand)
    def report(self, data: st.DataObject, how: str, delay: int, advances: bool) -> None:
        """A session ends what it has; it may spend the rights that this makes, as a worker does at once."""
        batch = self._draw_batch(data)
        self._report(batch[0].session, batch, how, delay)
        if advances:
            self._advance_all(batch[0].session)

    @rule(data=st.data(), how=ends)
    @precondition(lambda self: self.reported)
    def report_again(self, data: st.DataObject, how: str) -> None:
        attempt = data.draw(st.sampled_from(self.reported), "attempt")
        self._report(attempt.session, [attempt], how, 0)

    @rule(data=st.data(), worker=workers)
    @precondition(lambda self: self.in_hand)
    def report_for_another(self, data: st.DataObject, worker: str) -> None:
        """Only the session that holds an attempt can end it."""
        attempt = data.draw(st.sampled_from(self.in_hand), "attempt")._replace(session=self.sessions[worker])
        self._report(attempt.session, [attempt], "completed", 0)

    @rule(data=st.data(), limit=st.integers(1, 4))
    @precondition(lambda self: self.in_hand)
    def turn(self, data: st.DataObject, limit: int) -> None:
        """Report and claim in one transaction; a dead session does neither."""
        batch, wanted = self._draw_batch(data), Wanted(["default"], limit, {})
        session, body = batch[0].session, self._body(batch[0])
        reports = [self._report_of(attempt, "completed", body, 0) for attempt in batch]
        if self.model.sessions[session].dead:
            with pytest.raises(SessionGone):
                self.run(self.store.turn(SessionId(session), reports, wanted))
            return
        turn = self.run(self.store.turn(SessionId(session), reports, wanted))
        note(f"  answers: {', '.join(turn.answers)}")
        assert turn.answers == self.model.report(session, batch, "completed", body, 0)
        self._move_to_reported(batch)
        self.in_hand += self._claimed(turn.claims, session, limit, ["default"])

    @rule(data=st.data(), worker=workers, has_started=st.booleans())
    @precondition(lambda self: self.model.running(*self.model.sessions))
    def beat(self, data: st.DataObject, worker: str, has_started: bool) -> None:
        """Replies may have been lost: what the session doesn't name goes back when it is old enough."""
        held = self.model.running(self.sessions[worker])
        in_hand = data.draw(st.lists(st.sampled_from(held), unique=True), "in hand") if held else []
        self._beat(self.sessions[worker], in_hand, has_started)

    @rule(data=st.data())
    @precondition(lambda self: any(lane.closed for lane in self.model.lanes.values()))
    def cancel(self, data: st.DataObject) -> None:
        job_id, name = data.draw(st.sampled_from(sorted(self.names.items(), key=lambda known: known[1])), "job")
        assert self.run(self.store.cancel(job_id, "test")) is self.model.cancel(name)

    @rule(worker=workers)
    @precondition(lambda self: self.model.running(*self.model.sessions))
    def die(self, worker: str) -> None:
        self.run(self.store.end_session(SessionId(self.sessions[worker]), "test"))
        self.model.sessions[self.sessions[worker]].dead = True

    @rule()
    @precondition(lambda self: any(session.dead for session in self.model.sessions.values()))
    def release_dead(self) -> None:
        assert self._call("release_dead", 1000) == self.model.release_dead()

    @rule(ticks=st.integers(1, 8), alive=st.sampled_from(["", "a", "b", "ab"]), has_started=st.booleans())
    def let_time_pass(self, ticks: int, alive: str, has_started: bool) -> None:
        """Some workers beat, the others are silent, and the sweeper is at work."""
        for _ in range(ticks):
            self.clock.advance(timedelta(seconds=TICK))
            self.model.now += TICK
            for worker in ("sweeper", *alive):
                self._beat(self.sessions[worker], self.model.running(self.sessions[worker]), has_started)
            sweeper = SessionId(self.sessions["sweeper"])
            swept = self.run(self.store.sweep(sweeper, timedelta(seconds=EVERY), timedelta(seconds=GRACE)))
            assert swept.expired == len(self.model.expire())
            assert swept.released == self.model.release_dead() + self.model.end_overdue(GRACE)
            self.model.tidy()

    @invariant()
    def all_is_well(self) -> None:
        self._read()
        self._check_tables()
        self._check_jobs()
        self._check_that_ends_stay()
        self._check_counters()
        assert self.tables["stuck"] == [], "E1: no job is stuck"

    def _check_tables(self) -> None:
        lanes = {
            repr(key): (lane.width, lane.next_index, lane.remaining, lane.failed, lane.closed)
            for key, lane in self.model.lanes.items()
        }
        rights = {
            repr(key): (right.session, right.takes, right.taken_until) for key, right in self.model.rights.items()
        }
        assert _differing(self._tables_of_lanes(), lanes) == {}
        assert _differing(dict(self._tables_of_tasks()), dict(self._tasks_of_model())) == {}
        assert _differing(dict(self._tables_of_rights()), rights) == {}
        assert self.tables["dead"] == [number for number, session in self.model.sessions.items() if session.dead]

    def _check_jobs(self) -> None:
        """E17: events are numbered without a gap, and replaying them gives the states."""
        for job_id, found in self.tables["jobs"].items():
            job = self.model.jobs[self.names[job_id]]
            assert (found["state"], found["nodes"], found["version"]) == (job.state, job.nodes, job.version)
            events = [Event(0, seq, self.zero, kind, node, {}) for seq, kind, node in found["events"]]
            assert replay(events, list(job.nodes)) == Replayed(JobState(found["state"]), found["nodes"])

    def _check_that_ends_stay(self) -> None:
        """E4, E5: by what was read before, not by the model."""
        outcomes = {
            (task["lane"], task["idx"]): task
            for task in self.tables["tasks"]
            if task["place"] not in ("running", "due")
        }
        states = {job_id: job["state"] for job_id, job in self.tables["jobs"].items()}
        assert {key: outcomes[key] for key in self.seen_outcomes} == self.seen_outcomes
        assert {job_id: states[job_id] for job_id in self.seen_terminal} == self.seen_terminal
        self.seen_outcomes = outcomes
        self.seen_terminal = {job_id: state for job_id, state in states.items() if JobState(state) in engine.TERMINAL}

    def _check_counters(self) -> None:
        for lane in self.tables["lanes"]:
            places = [task["place"] for task in self.tables["tasks"] if task["lane"] == lane["id"]]
            indexes = [task["idx"] for task in self.tables["tasks"] if task["lane"] == lane["id"]]
            assert len(indexes) == len(set(indexes)), "a task is in one place"
            assert lane["closed"] or sorted(indexes) == list(range(lane["next_index"])), "and always in one"
            assert lane["remaining"] == lane["width"] - places.count("completed") - places.count("failed")
            assert lane["failed"] == places.count("failed")
            assert lane["closed"] or lane["running"] == places.count("running")
            due = [
                task["due_at"] for task in self.tables["tasks"] if (task["lane"], task["place"]) == (lane["id"], "due")
            ]
            assert lane["closed"] or lane["due_at"] == min(due, default=None), "a lane knows when its next task is due"
            assert not lane["ripe"] or lane["closed"] or lane["due_at"] <= self.model.now

    def _submit(self, shape: str, priority: int, session: int, *, starts: bool) -> None:
        name = f"{shape}{len(self.names)}"
        submission = Submission(SHAPES[shape], {"name": name}, "test", priority, rerun=False, correlation_id="c")
        submitted = self.run(self.store.submit(submission, SessionId(session)))
        again = self.run(self.store.submit(submission, SessionId(session)))
        assert (submitted.created, again.created, again.job_id) == (True, False, submitted.job_id)
        self.names[submitted.job_id] = name
        key = self.model.submit(name, SHAPES[shape], priority, session)
        if starts:
            self._read()
            self._apply(self._plan(key))

    def _held_rights(self) -> list[LaneKey]:
        return sorted(key for key, right in self.model.rights.items() if right.session is not None)

    def _plan(self, key: LaneKey) -> Planned:
        session, job = self.model.rights[key].session, self.model.jobs[key.job]
        assert session is not None
        view = self.run(self.store.load_right(self._taken(key), SessionId(session)))
        assert view is not None
        assert (view.version, view.states) == (job.version, job.nodes)
        facts = Facts(view.job_id, {}, view.states, view.taken, view.failure, state=view.state)
        planned = plan(job.workflow, facts, event_of(key, self.model.lanes.get(key)))
        assert not isinstance(planned, Needs)
        return Planned(key, session, view, planned)

    def _apply(self, planned: Planned) -> None:
        right, job = self.model.rights.get(planned.key), self.model.jobs[planned.key.job]
        held = right is not None and (right.session, right.takes) == (planned.session, planned.view.takes)
        expected = (job.version == planned.view.version) if held else None
        taken = TakenRight(planned.view.id, planned.view.takes)
        applied = self.run(self.store.apply(taken, SessionId(planned.session), planned.view, planned.transitions))
        note(f"  applied {planned!r}: {applied.applied}")
        assert applied.applied is expected
        if expected:
            self.model.apply(planned.key, planned.session, planned.transitions)

    def _advance_all(self, session: int) -> None:
        while held := [key for key, right in self.model.rights.items() if right.session == session]:
            self._read()
            self._apply(self._plan(held[0]))

    def _claim(self, worker: str, limit: int) -> list[Attempt]:
        """A worker that learns that it was taken for dead begins a new session."""
        session = self.sessions[worker]
        if self.model.sessions[session].dead:
            with pytest.raises(SessionGone):
                self.run(self.store.claim(SessionId(session), QUEUES, limit))
            session = self.sessions[worker] = self._open_session()
        return self._claimed(self.run(self.store.claim(SessionId(session), QUEUES, limit)), session, limit, QUEUES)

    def _draw_batch(self, data: st.DataObject) -> list[Attempt]:
        """Some of what one session believes to hold, all of one purpose."""
        first = data.draw(st.sampled_from(self.in_hand), "first")
        fitting = [
            a
            for a in self.in_hand
            if a.session == first.session and a.lane.purpose is first.lane.purpose and a is not first
        ]
        more = data.draw(st.lists(st.sampled_from(fitting), unique=True, max_size=3), "more") if fitting else []
        return [first, *more]

    def _move_to_reported(self, batch: Sequence[Attempt]) -> None:
        self.in_hand = [attempt for attempt in self.in_hand if attempt not in batch]
        self.reported += batch

    def _open_session(self) -> int:
        number = self.run(self.store.open_session(SessionKind.WORKER, QUEUES, 1, timedelta(seconds=LEASE)))
        self.model.sessions[number] = Session(self.model.now)
        return number

    def _beat(self, session: int, in_hand: Sequence[Attempt], has_started: bool) -> None:
        answer = self.pulse.beat(SessionId(session), [InHand(self._attempt(a), has_started) for a in in_hand])
        if self.model.sessions[session].dead:
            assert answer is None
            return
        assert answer is not None
        assert set(answer) == {self._attempt(a) for a in in_hand if self.model.lanes[a.lane].closed}
        self.model.beat(session, in_hand, in_hand if has_started else [])

    def _claimed(
        self, claims: Sequence[engine.Claim], session: int, limit: int, queues: Sequence[str]
    ) -> list[Attempt]:
        """Every attempt must have been on offer, the most urgent first, and with an offer none goes away empty."""
        claims = sorted(claims, key=lambda claim: claim.key)
        taken = [Attempt(self._lane_key(claim.lane), claim.key.place, claim.attempt, session) for claim in claims]
        note(f"  claimed {taken}")
        assert len(taken) <= limit
        assert taken or not self.model.is_claimable(*queues)
        for claim, attempt in zip(claims, taken, strict=True):
            self.model.claim(attempt)
            task = self.model.task(attempt)
            assert (claim.failures, claim.crashes) == (task.failures, task.crashes)
        least = max((self.model.lanes[attempt.lane].priority for attempt in taken), default=0)
        for lane in self.model.lanes.values():
            assert lane.queue not in queues or lane.priority >= least or not self.model.offered(lane), "E22"
        return taken

    def _report(self, session: int, batch: Sequence[Attempt], how: str, delay: int) -> None:
        body: Json = self._body(batch[0]) if how == "completed" else {"code": "test", "message": "no"}
        self._read()
        reports = [self._report_of(attempt, how, body, delay) for attempt in batch]
        answers, _ = self.run(self.store.report(SessionId(session), reports))
        note(f"  answers: {', '.join(answers)}")
        assert answers == self.model.report(session, batch, how, body, delay)
        self._move_to_reported(batch)

    def _body(self, attempt: Attempt) -> Json:
        """A result that no other report has; a planner's is a list of tasks."""
        self.results += 1
        if attempt.lane.purpose is Purpose.PLAN:
            count = self.results % 4
            return [{"key": f"k{i}", "parameters": {"of": self.results}} for i in range(count)]
        return {"result": self.results}

    def _report_of(self, attempt: Attempt, how: str, body: Json, delay: int) -> Report:
        return Report(self._key(attempt), attempt.number, how, encode(body), timedelta(seconds=delay))

    def _taken(self, key: LaneKey) -> TakenRight:
        return TakenRight(engine.RightId(self._right_id(key)), self.model.rights[key].takes)

    def _right_id(self, key: LaneKey) -> int:
        return next(int(right["id"]) for right in self.tables["rights"] if self._key_of(right) == key)

    def _lane_key(self, facts: engine.LaneFacts) -> LaneKey:
        return LaneKey(self.names[facts.job_id], facts.node, facts.purpose)

    def _key_of(self, row: dict[str, Any]) -> LaneKey:
        return LaneKey(self.names[row["job"]], row["node"], Purpose(row["purpose"]))

    def _key(self, attempt: Attempt) -> TaskKey:
        lane = next(int(lane["id"]) for lane in self.tables["lanes"] if self._key_of(lane) == attempt.lane)
        return TaskKey(lane, attempt.idx)

    def _attempt(self, attempt: Attempt) -> engine.Attempt:
        return engine.Attempt(self._key(attempt), attempt.number)

    def _call(self, function: str, *arguments: object) -> Any:
        row = self.app.execute(call_text(function).encode(), arguments).fetchone()
        return row and row[0]

    def _read(self) -> None:
        row = self.admin.execute(SNAPSHOT, {"zero": self.zero}).fetchone()
        assert row is not None
        self.tables = row[0]

    def _tables_of_lanes(self) -> dict[str, tuple[Any, ...]]:
        columns = ("width", "next_index", "remaining", "failed", "closed")
        return {repr(self._key_of(lane)): tuple(lane[c] for c in columns) for lane in self.tables["lanes"]}

    def _tables_of_tasks(self) -> Iterator[tuple[str, tuple[Any, ...]]]:
        lanes = {lane["id"]: self._key_of(lane) for lane in self.tables["lanes"]}
        columns = ("place", "attempt", "session", "failures", "crashes", "due_at")
        for task in self.tables["tasks"]:
            body = task["body"] if task["place"] == "completed" else None
            yield f"{lanes[task['lane']]!r}[{task['idx']}]", (*(task[c] for c in columns), body)

    def _tasks_of_model(self) -> Iterator[tuple[str, tuple[Any, ...]]]:
        for key, lane in self.model.lanes.items():
            for index, task in enumerate(lane.tasks[: lane.next_index]):
                body = task.body if task.place == "completed" else None
                facts = (task.place, task.attempt, task.session, task.failures, task.crashes, task.due_at, body)
                yield f"{key!r}[{index}]", facts

    def _tables_of_rights(self) -> Iterator[tuple[str, tuple[Any, ...]]]:
        for right in self.tables["rights"]:
            yield repr(self._key_of(right)), (right["session"], right["takes"], right["taken_until"])


def _differing(found: dict[str, Any], expected: dict[str, Any]) -> dict[str, Any]:
    """What the tables and the model say, where they say different things."""
    keys = sorted({*found, *expected})
    return {key: (found.get(key), expected.get(key)) for key in keys if found.get(key) != expected.get(key)}


def run_machine(url: str, clock: Clock, *, examples: int, steps: int, derandomize: bool) -> None:
    store = PostgresStore(url, name="machine")
    with (
        asyncio.Runner() as runner,
        closing(store.pulse()) as pulse,
        connect(url, None, name="machine") as admin,
        connect(url, Role.APP, name="machine") as app,
    ):

        class Machine(EngineMachine):
            def __init__(self) -> None:
                super().__init__(Given(clock, runner, store, pulse, admin, app))

        bounds = settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            derandomize=derandomize,
            print_blob=True,
            database=None,
            report_multiple_bugs=False,
            suppress_health_check=list(HealthCheck),
        )
        runner.run(store.open())
        try:
            run_state_machine_as_test(Machine, settings=bounds)
        finally:
            runner.run(store.close())


def test_e1_e3_e4_e5_e6_e17_the_functions_do_what_the_model_says(database_url: str, clock: Clock) -> None:
    run_machine(database_url, clock, examples=60, steps=40, derandomize=True)


@pytest.mark.slow
def test_e1_e3_e4_e5_e6_e17_the_functions_do_what_the_model_says_for_long(database_url: str, clock: Clock) -> None:
    run_machine(database_url, clock, examples=300, steps=60, derandomize=False)
