"""Every command of the SQL functions in any order, held against a small model after each step."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

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

from anabranch.adapters.postgres.connect import Role, connect
from anabranch.adapters.postgres.database import call_text
from anabranch.adapters.postgres.store.heartbeat import PostgresHeartbeat
from anabranch.adapters.postgres.store.invariants import examine
from anabranch.adapters.postgres.store.store import PostgresStore
from anabranch.canonical import Json, encode
from anabranch.engine import model as engine
from anabranch.engine.advancing.evaluator import plan
from anabranch.engine.advancing.transitions import Facts, Needs, Transition
from anabranch.engine.job_retry import choose_retry
from anabranch.engine.model import (
    ApplyResult,
    Ended,
    Event,
    InHand,
    JobState,
    LimitChange,
    LimitKind,
    Purpose,
    Report,
    RightView,
    SessionId,
    SessionKind,
    TaskKey,
)
from anabranch.engine.policy import TaskPolicy, TaskShape
from anabranch.engine.ports import ClaimRequest, Holdings, SessionGone, Spawned, TakenRight
from anabranch.engine.submitting.submission import Submission
from anabranch.errors import Conflict
from anabranch.testing.clock import Clock
from anabranch.workflows.definition import Workflow
from anabranch.workflows.nesting import nest
from anabranch.workflows.nodes import Kind, OnFailure, Spread
from anabranch.workflows.stages import Declaration
from anabranch.workflows.work import Retry, WorkflowWork
from tests.support.engine import FOREVER
from tests.support.machine import LEASE, Model
from tests.support.machine_parts import Attempt, LaneKey, Session
from tests.support.nodes import make_node
from tests.support.replay import Replayed, replay

pytestmark = pytest.mark.postgres

EVERY, GRACE, TICK = 5, 30, 10
SHORT = timedelta(seconds=60)

FAN_OUT = Workflow(
    "fan_out",
    (make_node("work", "do", spread=Spread.FIXED, count=3), make_node("join", "do", ("work",), Spread.FAN_IN)),
)
DIAMOND = Workflow(
    "diamond",
    (
        make_node("top", "do", timeout=SHORT, retry=Retry(max_attempts=2, initial_delay=timedelta(0))),
        make_node("left", "do", ("top",), Spread.FIXED, count=2),
        make_node("right", "do", ("top",), timeout=SHORT, retry=Retry(initial_delay=timedelta(0))),
        make_node("join", "do", ("left", "right")),
    ),
)
WINDOW = Workflow(
    "window",
    (
        make_node("work", "do", spread=Spread.FIXED, count=5, max_running=2),
        make_node("match", "do", ("work",), Spread.MATCH_PREVIOUS),
    ),
)
LENIENT = Workflow(
    "lenient",
    (
        make_node("finish", "do", spread=Spread.FIXED, count=2, on_failure=OnFailure.FINISH),
        make_node("goon", "do", spread=Spread.FIXED, count=2, max_running=1, on_failure=OnFailure.CONTINUE),
        make_node("nothing", "do", ("goon",), Spread.FIXED, count=0),
        make_node("join", "do", ("finish", "nothing")),
    ),
)
PLANNED = Workflow(
    "planned",
    (make_node("first", "do"), make_node("many", "do", ("first",), Spread.FAN_OUT, planned=True, aggregated=True)),
)
GATED = Workflow(
    "gated",
    (
        make_node("first", "do", limit="scarce"),
        make_node("gate", kind=Kind.GATE, after=("first",), timeout=SHORT, on_failure=OnFailure.FINISH),
        make_node("open", kind=Kind.GATE),
        make_node("wait", kind=Kind.WAIT, after=("first",), duration_seconds=30),
        make_node("past", kind=Kind.WAIT, after=("open",), duration_seconds=0),
        make_node("last", "do", ("gate", "wait", "past"), Spread.FIXED, count=2, limit="scarce"),
    ),
)
INNER = Workflow(
    "inner",
    (
        make_node("work", "do", spread=Spread.FIXED, count=2),
        make_node("gate", kind=Kind.GATE),
        make_node("tidy", "do", ("work", "gate"), params={}, cleanup=True),
    ),
)
CLEANED = Workflow(
    "cleaned",
    (
        make_node("work", "do", spread=Spread.FIXED, count=2),
        make_node("finish", "do", on_failure=OnFailure.FINISH),
        make_node("last", "do", ("work", "finish")),
        make_node("tidy", "do", ("last",), params={}, cleanup=True),
        make_node("goon", "do", ("last",), params={}, cleanup=True, on_failure=OnFailure.CONTINUE),
        make_node("leave", "do", ("last", "tidy"), params={}, cleanup=True),
    ),
)
MIDDLE = Workflow("middle", (make_node("sub", kind=Kind.WORKFLOW, workflow="inner", params={}),))
OUTER = Workflow(
    "outer",
    (
        make_node(
            "subs", kind=Kind.FAN_OUT, workflow="inner", params={}, source=[1, 2, 3], limit="scarce", max_running=2
        ),
        make_node("sub", kind=Kind.WORKFLOW, workflow="middle", params={}, on_failure=OnFailure.CONTINUE),
        make_node("join", "do", ("subs",)),
    ),
)
NESTED = nest({flow.id: Declaration(flow) for flow in (INNER, MIDDLE, OUTER)}).declarations
PLAIN = {flow.id: Declaration(flow) for flow in (FAN_OUT, DIAMOND, WINDOW, LENIENT, PLANNED, GATED, CLEANED)}
SHAPES = {**PLAIN, "middle": NESTED["middle"], "outer": NESTED["outer"]}
CHILDREN = {declared.workflow.hash: declared.workflow for declared in NESTED.values()}
QUEUES = ("plan:planned", "plan:inner", "plan:middle", "default")
LIMITS = [
    (LimitKind.KEY, "scarce"),
    (LimitKind.WORKFLOW, "outer"),
    (LimitKind.WORKFLOW, "fan_out"),
    (LimitKind.QUEUE, "default"),
    (LimitKind.HANDLER, "do"),
]

# Each example begins with the same state: else its draws do other things when they are repeated.
EMPTY = """
    do $$ begin
        execute coalesce(
            (select 'truncate ' || string_agg(c.oid::regclass::text, ', ') || ' restart identity cascade'
               from pg_class c
              where c.relnamespace = 'app'::regnamespace and c.relkind = 'r' and pg_relation_size(c.oid) > 0
                and c.relname not in ('migrations', 'deployment', 'clock', 'platforms')), 'select');
        alter sequence app.turn_numbers restart;
    end; $$"""
SNAPSHOT = Path(__file__).with_name("snapshot.sql").read_bytes()


class Given(NamedTuple):
    """What all examples share."""

    clock: Clock
    runner: asyncio.Runner
    store: PostgresStore
    pulse: PostgresHeartbeat
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


priorities, mostly = st.sampled_from([5, 1, 3]), st.sampled_from([True] * 3 + [False])
workers = st.sampled_from("ab")
ends = st.sampled_from([Ended.COMPLETED, Ended.COMPLETED, Ended.FAILED, Ended.RETRY, Ended.HANDED_BACK, Ended.CRASHED])


class EngineMachine(RuleBasedStateMachine):
    """Two workers and a sweeper. A worker keeps what it claimed until its report, also when another has it by now."""

    shapes: ClassVar[tuple[str, ...]] = ("fan_out", "diamond", "window", "lenient", "planned", "cleaned")
    patience: ClassVar[int] = 0
    audited: ClassVar[int] = 4  # every so many steps

    def __init__(self, given: Given) -> None:
        super().__init__()
        self.model = Model()
        self.clock, self.run, self.store, self.pulse = given.clock, given.runner.run, given.store, given.pulse
        self.admin, self.app = given.admin, given.app
        self.admin.execute(EMPTY)
        self.zero = self.clock.now()
        self.names: dict[str, str] = {}  # a job's id: its name
        self.results = 0
        self.steps = 0
        self.in_hand: list[Attempt] = []
        self.reported: list[Attempt] = []
        self.plans: list[Planned] = []
        self.seen_outcomes: dict[tuple[int, int], Any] = {}
        self.seen_terminal: dict[tuple[str, int], str] = {}
        self.seen_attempts: dict[tuple[str, str, int], int] = {}
        self.tables: dict[str, Any] = {}
        self.tokens: dict[tuple[LaneKey, int, int], int] = {}
        self.sessions = {worker: self._open_session() for worker in ("sweeper", "a", "b")}

    @initialize(data=st.data(), priority=priorities)
    def start(self, data: st.DataObject, priority: int) -> None:
        self._submit(data.draw(st.sampled_from(self.shapes), "shape"), priority, self.sessions["sweeper"], starts=True)

    @rule(data=st.data(), priority=priorities, worker=workers, starts=mostly)
    @precondition(lambda self: sum(job.state not in engine.TERMINAL_STATES for job in self.model.jobs.values()) < 3)
    def submit(self, data: st.DataObject, priority: int, worker: str, starts: bool) -> None:
        self._submit(data.draw(st.sampled_from(self.shapes), "shape"), priority, self.sessions[worker], starts=starts)

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
    @precondition(lambda self: self.model.free_rights() or self.model.has_over())
    def take_rights(self, worker: str) -> None:
        """Take what nobody has, and spend it; what has waited long enough is among it."""
        session = self.sessions[worker]
        taken = self.run(self.store.take_rights(SessionId(session), 100))
        if self.model.sessions[session].dead:
            assert taken == []
            return
        self.model.end_waits()
        self._read()
        free = self.model.free_rights()
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
        self._work(worker, limit)

    @rule(data=st.data(), how=ends, delay=st.sampled_from([0, 30]), advances=mostly)
    @precondition(lambda self: self.in_hand)
    def report(self, data: st.DataObject, how: Ended, delay: int, advances: bool) -> None:
        """A session ends what it has; it may spend the rights that this makes, as a worker does at once."""
        batch = self._draw_batch(data)
        self._report(batch[0].session, batch, how, delay)
        if advances:
            self._advance_all(batch[0].session)

    @rule(data=st.data(), how=ends)
    @precondition(lambda self: self.reported)
    def report_again(self, data: st.DataObject, how: Ended) -> None:
        attempt = data.draw(st.sampled_from(self.reported), "attempt")
        self._report(attempt.session, [attempt], how, 0)

    @rule(data=st.data(), worker=workers)
    @precondition(lambda self: self.in_hand)
    def report_for_another(self, data: st.DataObject, worker: str) -> None:
        """Only the session that holds an attempt can end it."""
        attempt = data.draw(st.sampled_from(self.in_hand), "attempt")._replace(session=self.sessions[worker])
        self._report(attempt.session, [attempt], Ended.COMPLETED, 0)

    @rule(data=st.data(), limit=st.integers(1, 4))
    @precondition(lambda self: self.in_hand)
    def turn(self, data: st.DataObject, limit: int) -> None:
        """Report and claim in one transaction; a dead session does neither."""
        batch, wanted = self._draw_batch(data), ClaimRequest(["default"], limit, {})
        session, body = batch[0].session, self._body(batch[0])
        reports = [self._report_of(attempt, Ended.COMPLETED, body, 0) for attempt in batch]
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
        if data.draw(st.integers(0, self.patience), "patience"):
            return
        job_id, name = data.draw(st.sampled_from(sorted(self.names.items(), key=lambda known: known[1])), "job")
        assert self.run(self.store.cancel(job_id, "test")) == self.model.cancel(name)

    @rule(worker=workers)
    @precondition(lambda self: self.model.running(*self.model.sessions))
    def die(self, worker: str) -> None:
        self.run(self.store.end_session(SessionId(self.sessions[worker]), "test"))
        self.model.sessions[self.sessions[worker]].dead = True

    @rule()
    @precondition(lambda self: any(session.dead for session in self.model.sessions.values()))
    def release_dead(self) -> None:
        assert self._call("release_dead", 1000, 0, 2**62) == self.model.release_dead()

    @rule(ticks=st.integers(1, 8), alive=st.sampled_from(["", "a", "b", "ab"]), has_started=st.booleans())
    def let_time_pass(self, ticks: int, alive: str, has_started: bool) -> None:
        """Some workers beat, the others are silent, and the sweeper is at work."""
        for _ in range(ticks):
            self.clock.advance(timedelta(seconds=TICK))
            self.model.now += TICK
            for worker in ("sweeper", *alive):
                self._beat(self.sessions[worker], self.model.running(self.sessions[worker]), has_started)
            sweeper = SessionId(self.sessions["sweeper"])
            every, grace = timedelta(seconds=EVERY), timedelta(seconds=GRACE)
            swept = self.run(self.store.sweep(sweeper, every, grace, lambda: FOREVER))
            assert swept.expired == len(self.model.expire())
            assert swept.released == self.model.release_dead() + self.model.end_overdue(GRACE)
            self.model.tidy()
            self.model.record_repeats()
            self.model.cancel_orphans()

    @invariant()
    def all_is_well(self) -> None:
        self._read()
        self._check_tables()
        self._check_jobs()
        self._check_that_ends_stay()
        self._check_counters()
        self._check_attempts()
        assert self.tables["stuck"] == [], "E1: no job is stuck"
        self.steps += 1
        if self.steps % self.audited == 0:
            # Workers of the machine may sit on claims and rights for ever, and nobody stops them.
            found = [violation for violation in examine(self.admin) if "_late_" not in violation.check]
            assert found == [], "the audit raises no false alarm"

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
        assert sorted(self.tables["dead"]) == sorted(
            number for number, session in self.model.sessions.items() if session.dead
        )

    def _check_jobs(self) -> None:
        """E17: events are numbered without a gap, and replaying them gives the states."""
        for job_id, found in self.tables["jobs"].items():
            job = self.model.jobs[self.names[job_id]]
            assert (found["state"], found["nodes"], found["version"]) == (job.state, job.nodes, job.version)
            assert (found["generation"], found["waits"], found["ended_at"]) == (job.generation, job.waits, job.ended_at)
            events = [
                Event(0, seq, self.zero, kind, node, {"nodes": again}) for seq, kind, node, again in found["events"]
            ]
            assert replay(events, list(job.nodes)) == Replayed(JobState(found["state"]), found["nodes"])

    def _check_that_ends_stay(self) -> None:
        """E4, E5: by what was read before, not by the model."""
        outcomes = {
            (task["lane"], task["idx"]): task
            for task in self.tables["tasks"]
            if task["place"] not in ("running", "child", "due")
        }
        states = {(job_id, job["generation"]): job["state"] for job_id, job in self.tables["jobs"].items()}
        assert {key: outcomes[key] for key in self.seen_outcomes} == self.seen_outcomes
        assert {key: states[key] for key in self.seen_terminal if key in states} == {
            key: state for key, state in self.seen_terminal.items() if key in states
        }
        self.seen_outcomes = outcomes
        self.seen_terminal = {key: state for key, state in states.items() if JobState(state) in engine.TERMINAL_STATES}

    def _check_attempts(self) -> None:
        """E3: over all generations, the attempts of a task only rise."""
        lanes = {lane["id"]: self._key_of(lane) for lane in self.tables["lanes"]}
        newest: dict[tuple[str, str, int], tuple[int, int]] = {}
        for task in self.tables["tasks"]:
            key = lanes[task["lane"]]
            if key.purpose is Purpose.WORK:
                place = (key.job, key.node, task["idx"])
                newest[place] = max(newest.get(place, (0, 0)), (key.generation, task["attempt"]))
        found = {place: attempt for place, (_, attempt) in newest.items()}
        assert all(found[place] >= attempt for place, attempt in self.seen_attempts.items() if place in found)
        self.seen_attempts |= found

    def _check_counters(self) -> None:
        for lane in self.tables["lanes"]:
            places = [task["place"] for task in self.tables["tasks"] if task["lane"] == lane["id"]]
            indexes = [task["idx"] for task in self.tables["tasks"] if task["lane"] == lane["id"]]
            assert len(indexes) == len(set(indexes)), "a task is in one place"
            assert lane["closed"] or sorted(indexes) == list(range(lane["next_index"])), "and always in one"
            assert lane["remaining"] == lane["width"] - places.count("completed") - places.count("failed")
            assert lane["failed"] == places.count("failed")
            assert lane["closed"] or lane["running"] == places.count("running") + places.count("child")
            due = [
                task["due_at"] for task in self.tables["tasks"] if (task["lane"], task["place"]) == (lane["id"], "due")
            ]
            assert lane["closed"] or lane["due_at"] == min(due, default=None), "a lane knows when its next task is due"
            assert not lane["ripe"] or lane["closed"] or lane["due_at"] <= self.model.now
            key = self._key_of(lane)
            assert lane["superseded"] is (key.generation < self.model.jobs[key.job].generations[key.node])
            assert not lane["held_by_none"]

    def _submit(self, shape: str, priority: int, session: int, *, starts: bool) -> None:
        name = f"{shape}{len(self.names)}"
        declared = SHAPES[shape]
        submission = Submission(declared.workflow, {"name": name}, "test", priority, False, "c", parts=declared.parts)
        submitted = self.run(self.store.submit(submission, SessionId(session)))
        again = self.run(self.store.submit(submission, SessionId(session)))
        assert (submitted.created, again.created, again.job_id) == (True, False, submitted.job_id)
        self.names[submitted.job_id] = name
        key = self.model.submit(name, declared.workflow, priority, session)
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
        assert (view.kept, view.is_child) == (job.kept, job.task is not None)
        assert view.signal == ([told] if (told := job.signals.get((key.node, key.generation))) else None)
        assert view.ending is job.ending
        facts = Facts(
            view.job_id, {}, view.states, view.taken, view.failure, state=view.state, kept=view.kept, ending=view.ending
        )
        planned = plan(job.workflow, facts, self.model.event_of(key))
        assert not isinstance(planned, Needs)
        return Planned(key, session, view, planned)

    def _apply(self, planned: Planned) -> None:
        right, job = self.model.rights.get(planned.key), self.model.jobs[planned.key.job]
        held = right is not None and (right.session, right.takes) == (planned.session, planned.view.takes)
        expected = (job.version == planned.view.version) if held else None
        taken = TakenRight(planned.view.id, planned.view.takes)
        applied = self.run(self.store.apply(taken, SessionId(planned.session), planned.view, planned.transitions))
        note(f"  applied {planned!r}: {applied.result}")
        assert applied.result is ApplyResult(expected)
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
        claims = self.run(self.store.claim(SessionId(session), QUEUES, limit))
        tries = len(self.model.lanes)
        while not claims and tries and self._offers(session, QUEUES):  # what a limit held may be let go one by one
            claims, tries = self.run(self.store.claim(SessionId(session), QUEUES, limit)), tries - 1
        return self._claimed(claims, session, limit, QUEUES)

    def _offers(self, session: int, queues: Sequence[str]) -> bool:
        return not self.model.sessions[session].draining and self.model.is_claimable(*queues)

    def _work(self, worker: str, limit: int) -> None:
        batch = self._claim(worker, limit)
        for purpose in sorted({attempt.lane.purpose for attempt in batch}):
            alike = [attempt for attempt in batch if attempt.lane.purpose is purpose]
            self._report(self.sessions[worker], alike, Ended.COMPLETED, 0)
        self._advance_all(self.sessions[worker])

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
        answer = self.pulse.beat(SessionId(session), Holdings([InHand(self._attempt(a), has_started) for a in in_hand]))
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
        assert taken or self.model.limits or not self._offers(session, queues)
        assert not (taken and self.model.sessions[session].draining)
        for claim, attempt in zip(claims, taken, strict=True):
            self.tokens[attempt.lane, attempt.idx, attempt.number] = claim.token
            self.model.claim(attempt)
            task = self.model.task(attempt)
            assert (claim.failures, claim.crashes) == (task.failures, task.crashes)
        least = max((self.model.lanes[attempt.lane].priority for attempt in taken), default=0)
        for lane in self.model.lanes.values():
            is_due = lane.queue in queues and lane.priority < least and self.model.offered(lane)
            assert not is_due or len(self.model.limits) > 1, "E22"
        return taken

    def _report(self, session: int, batch: Sequence[Attempt], how: Ended, delay: int) -> None:
        body: Json = self._body(batch[0]) if how is Ended.COMPLETED else {"code": "test", "message": "no"}
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

    def _report_of(self, attempt: Attempt, how: Ended, body: Json, delay: int) -> Report:
        return Report(self._attempt(attempt), how, encode(body), timedelta(seconds=delay))

    def _taken(self, key: LaneKey) -> TakenRight:
        return TakenRight(engine.RightId(self._right_id(key)), self.model.rights[key].takes)

    def _right_id(self, key: LaneKey) -> int:
        return next(int(right["id"]) for right in self.tables["rights"] if self._key_of(right) == key)

    def _lane_key(self, facts: engine.LaneFacts) -> LaneKey:
        return LaneKey(self.names[facts.job_id], facts.node, facts.purpose, facts.generation)

    def _key_of(self, row: dict[str, Any]) -> LaneKey:
        return LaneKey(self.names[row["job"]], row["node"], Purpose(row["purpose"]), row["generation"])

    def _key(self, attempt: Attempt) -> TaskKey:
        lane = next(int(lane["id"]) for lane in self.tables["lanes"] if self._key_of(lane) == attempt.lane)
        return TaskKey(lane, attempt.idx)

    def _attempt(self, attempt: Attempt) -> engine.Attempt:
        return engine.Attempt(
            self._key(attempt), attempt.number, self.tokens[attempt.lane, attempt.idx, attempt.number]
        )

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


class ControlMachine(EngineMachine):
    """And people: who signal gates, retry jobs, set limits and drain workers; and tasks that run as jobs."""

    shapes: ClassVar[tuple[str, ...]] = ("outer", "gated", "middle", "lenient", "planned", "fan_out", "cleaned")
    patience: ClassVar[int] = 3

    @rule(data=st.data())
    @precondition(lambda self: self._to_spawn())
    def spawn(self, data: st.DataObject) -> None:
        """Trade a claim for a child job; asked again, it is the same job."""
        attempt = data.draw(st.sampled_from(self._to_spawn()), "attempt")
        self._spawn(attempt)

    @rule(worker=workers, how=st.sampled_from([Ended.FAILED, Ended.RETRY]), reports=mostly)
    @precondition(lambda self: self.model.ended_children())
    def collect(self, worker: str, how: Ended, reports: bool) -> None:
        """Report for child jobs that ended, or die before that: then another does when the lease has ended."""
        self._collect(worker, how, reports=reports)

    @rule(worker=workers, approves=st.booleans())
    @precondition(lambda self: any(job.state not in engine.TERMINAL_STATES for job in self.model.jobs.values()))
    def work_on(self, worker: str, approves: bool) -> None:
        """All that workers and people do while nothing goes wrong, for a while."""
        for _ in range(5):
            if self.model.is_claimable(*QUEUES):
                self._work(worker, 6)
            if self.model.ended_children():
                self._collect(worker, Ended.FAILED, reports=True)
            for job_id, node in self._gates() if approves else ():
                if node in self.model.jobs[self.names[job_id]].waits:
                    self._signal(job_id, node, {"says": True}, self.sessions[worker])
            self._advance_all(self.sessions[worker])

    @rule()
    @precondition(lambda self: any(map(self.model.is_orphan, self.model.jobs.values())))
    def cancel_orphans(self) -> None:
        assert self.run(self.store.cancel_orphans()) == self.model.cancel_orphans()

    @rule(data=st.data(), says=st.booleans(), worker=workers, advances=mostly)
    @precondition(lambda self: self._gates())
    def signal(self, data: st.DataObject, says: bool, worker: str, advances: bool) -> None:
        """Tell a gate something, before it is reached, while it waits, again, or too late."""
        job_id, node = data.draw(st.sampled_from(self._gates()), "gate")
        self._signal(job_id, node, {"says": says}, self.sessions[worker])
        if advances:
            self._advance_all(self.sessions[worker])

    @rule(data=st.data(), worker=workers, is_late=st.sampled_from([False] * 5 + [True]), starts=mostly)
    @precondition(lambda self: self._ended())
    def retry(self, data: st.DataObject, worker: str, is_late: bool, starts: bool) -> None:
        """Begin a new generation of a job, of what failed in it or from a node; late: it changed since it was read."""
        job_id = data.draw(st.sampled_from(self._ended()), "job")
        job, session = self.model.jobs[self.names[job_id]], self.sessions[worker]
        from_node = data.draw(st.none() | st.sampled_from(sorted(job.nodes)), "from")
        try:
            again = choose_retry(job.workflow, job.nodes, self._failures(job.name), from_node=from_node)
        except Conflict:
            return
        version = job.version - is_late
        verdict = self.run(self.store.retry(job_id, version, again, SessionId(session)))
        note(f"  {verdict.answer}: {', '.join(again.nodes)}; kept: {', '.join(again.kept)}")
        assert verdict.answer == self.model.retry(job.name, version, again, session)
        if starts:
            self._advance_all(session)

    @rule(
        which=st.sampled_from(LIMITS),
        change=st.sampled_from(
            [{"most": 2}, {"most": 1}, {"most": None}, {"paused": True}, {"paused": False}, {"paused": False}]
        ),
    )
    @precondition(lambda self: len(self.model.limits) < 3)
    def limit(self, which: tuple[LimitKind, str], change: LimitChange) -> None:
        found = self.run(self.store.limit(*which, change, "test"))
        expected = self.model.limit(*which, change)
        assert (found and (found.most, found.paused)) == (expected and (expected.most, expected.paused))

    @rule()
    @precondition(lambda self: self.model.limits)
    def lift_limits(self) -> None:
        """Take all limits away; nothing stays held."""
        for kind, name in list(self.model.limits):
            assert self.run(self.store.limit(kind, name, {"most": None, "paused": False}, "test")) is None
            self.model.limit(kind, name, {"most": None, "paused": False})

    @rule(worker=workers, draining=st.sampled_from([False, False, True]))
    def drain(self, worker: str, draining: bool) -> None:
        session = self.model.sessions[self.sessions[worker]]
        told = self.run(self.store.drain(SessionId(self.sessions[worker]), draining=draining))
        assert told is not session.dead
        session.draining = draining and not session.dead

    def _work(self, worker: str, limit: int) -> None:
        batch = self._claim(worker, limit)
        own = [attempt for attempt in batch if not self.model.lanes[attempt.lane].is_of_jobs]
        for attempt in batch:
            if attempt not in own:
                self._spawn(attempt)
        for purpose in sorted({attempt.lane.purpose for attempt in own}):
            alike = [attempt for attempt in own if attempt.lane.purpose is purpose]
            self._report(self.sessions[worker], alike, Ended.COMPLETED, 0)
        self._advance_all(self.sessions[worker])

    def _collect(self, worker: str, how: Ended, *, reports: bool) -> None:
        session = SessionId(self.sessions[worker])
        found = {self.names[child.job_id]: child for child in self.run(self.store.take_children(session, 100))}
        expected = [] if self.model.sessions[session].dead else self.model.ended_children()
        assert sorted(found) == sorted(expected)
        for name, child in sorted(found.items()):  # the order in which they are taken is the server's
            job = self.model.jobs[name]
            job.reported_until = self.model.now + LEASE
            body: Json = {"result": name}
            ended = Ended.COMPLETED if job.state is JobState.COMPLETED else how
            report = Report(child.fence, ended, encode(body), timedelta(0))
            if reports:
                self.run(self.store.end_child(child, report, session))
                assert self.model.end_child(name, ended, body, session)
                assert self.run(self.store.end_child(child, report, session)) == [], "asked again, it does nothing"

    def _signal(self, job_id: str, node: str, payload: dict[str, Json], session: int) -> None:
        verdict = self.run(self.store.signal(job_id, node, payload, "test", SessionId(session)))
        assert verdict.answer == self.model.signal(self.names[job_id], node, payload, session)

    def _to_spawn(self) -> list[Attempt]:
        return [attempt for attempt in self.in_hand if self.model.lanes[attempt.lane].is_of_jobs]

    def _spawn(self, attempt: Attempt) -> None:
        """A worker that has lost the claim gets nothing, or the job that it was traded for before."""
        self._read()
        name, lane = f"{attempt.lane!r}[{attempt.idx}]#{attempt.number}", self.model.lanes[attempt.lane]
        node = self.model.jobs[attempt.lane.job].workflow.node(lane.key.node)
        assert isinstance(node.work, WorkflowWork)
        workflow = CHILDREN[node.work.workflow_hash]
        facts = engine.LaneFacts("", "", "", "", "", Purpose.WORK, 0, 0, "", {}, TaskPolicy(), TaskShape(), None)
        claim = engine.Claim(*self._attempt(attempt), 0, 0, attempt.idx, "", None, None, facts)
        child = Submission(workflow, {"name": name}, name, 5, False, "c")
        before = self.model.task(attempt).child == name
        spawned = self.run(self.store.spawn(claim, child, SessionId(attempt.session)))
        is_new = self.model.spawn(attempt, name, workflow)
        assert (spawned is not None) is (is_new or before)
        if spawned:
            self.names[spawned.job_id] = name
            again = self.run(self.store.spawn(claim, child, SessionId(attempt.session)))
            assert again == Spawned(spawned.job_id)
        if is_new:
            self._move_to_reported([attempt])

    def _gates(self) -> list[tuple[str, str]]:
        return [
            (job_id, node.name)
            for job_id, name in sorted(self.names.items(), key=lambda known: known[1])
            for node in self.model.jobs[name].workflow.nodes
            if node.kind is Kind.GATE
        ]

    def _ended(self) -> list[str]:
        known = sorted(self.names.items(), key=lambda known: known[1])
        return [job_id for job_id, name in known if self.model.jobs[name].state in engine.TERMINAL_STATES]

    def _failures(self, name: str) -> dict[str, int]:
        newest: dict[str, tuple[int, int]] = {}
        for key, lane in self.model.lanes.items():
            if key.job == name and key.purpose is Purpose.WORK:
                newest[key.node] = max(newest.get(key.node, (-1, 0)), (key.generation, lane.failed))
        return {node: failed for node, (_, failed) in newest.items()}


def _differing(found: dict[str, Any], expected: dict[str, Any]) -> dict[str, Any]:
    """What the tables and the model say, where they say different things."""
    keys = sorted({*found, *expected})
    return {key: (found.get(key), expected.get(key)) for key in keys if found.get(key) != expected.get(key)}


@contextmanager
def open_given(url: str, clock: Clock) -> Iterator[Given]:
    store = PostgresStore(url, name="machine")
    with (
        asyncio.Runner() as runner,
        closing(store.pulse()) as pulse,
        connect(url, None, name="machine") as admin,
        connect(url, Role.APP, name="machine") as app,
    ):
        runner.run(store.open())
        try:
            yield Given(clock, runner, store, pulse, admin, app)
        finally:
            runner.run(store.close())


def run_machine(
    kind: type[EngineMachine], url: str, clock: Clock, *, examples: int, steps: int, derandomize: bool
) -> None:
    with open_given(url, clock) as given:

        class Machine(kind):  # type: ignore[misc, valid-type]  # the one that was given
            def __init__(self) -> None:
                super().__init__(given)

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
        run_state_machine_as_test(Machine, settings=bounds)


def test_an_example_leaves_nothing_to_the_next(database_url: str, clock: Clock) -> None:
    """Else the same draws do other things the second time."""
    begun: list[dict[str, int]] = []

    class Counted(ControlMachine):
        def __init__(self, given: Given) -> None:
            super().__init__(given)
            tables = self.admin.execute("select tablename from pg_tables where schemaname = 'app'").fetchall()
            begun.append({name: self.count(name) for (name,) in tables})

        def count(self, table: str) -> int:
            row = self.admin.execute(f"select count(*) from app.{table}".encode()).fetchone()
            return int(row[0]) if row else 0

    run_machine(Counted, database_url, clock, examples=4, steps=10, derandomize=True)
    assert len(begun) > 2
    assert [rows for rows in begun if rows != begun[0]] == []


def test_e1_e3_e4_e5_e6_e17_the_functions_do_what_the_model_says(database_url: str, clock: Clock) -> None:
    run_machine(EngineMachine, database_url, clock, examples=20, steps=40, derandomize=True)


def test_e1_e3_e5_e6_e7_e17_control_does_what_the_model_says(database_url: str, clock: Clock) -> None:
    run_machine(ControlMachine, database_url, clock, examples=20, steps=40, derandomize=True)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [EngineMachine, ControlMachine])
def test_e1_e3_e4_e5_e6_e7_e17_the_functions_do_what_the_model_says_for_long(
    kind: type[EngineMachine], database_url: str, clock: Clock
) -> None:
    run_machine(kind, database_url, clock, examples=300, steps=60, derandomize=False)
