"""Transitions of one job, met by each other in every order: no deadlock, no double advance, counters right."""

import itertools
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from typing import Any

import pytest
from psycopg import Connection
from psycopg.rows import TupleRow

from anabranch.adapters.postgres.connect import connect
from anabranch.canonical import encode
from anabranch.engine.advancing.transitions import SetJob, SetNode, Transition
from anabranch.engine.model import Ended, JobState, NodeState, RightView, SessionId
from anabranch.testing.clock import Clock
from anabranch.workflows.definition import Workflow
from anabranch.workflows.nodes import OnFailure, Spread
from tests.support.engine import EngineHarness, fan_out, open_harness
from tests.support.interleave import Actor, Scene, call, open_connections, orders, pin, pinned_orders
from tests.support.nodes import make_node

pytestmark = pytest.mark.postgres

MINUTE = timedelta(minutes=1)  # claims that look older than five would be stuck
ALL_LANES = (0, 2**62)
WORKFLOW = Workflow(
    "meeting",
    (
        make_node("done", "do"),
        make_node("bad", "do", on_failure=OnFailure.FINISH),
        make_node("lost", "do"),
        make_node("left", "do", spread=Spread.FIXED, count=2, timeout=timedelta(seconds=60)),
        make_node("right", "do", spread=Spread.FIXED, count=3, queue_timeout=timedelta(seconds=60)),
        make_node("fresh", "do", spread=Spread.FIXED, count=2, queue_timeout=timedelta(seconds=60)),
        make_node("join", "do", ("done", "left", "right", "fresh")),
    ),
)
OTHER = Workflow("other", (make_node("single", "do"),))


class Stage(Scene):
    """One job with a lane in every condition, and another job."""

    def __init__(self, harness: EngineHarness, admin: Connection[TupleRow]) -> None:
        """Made by `set_up`."""
        super().__init__(admin)
        self._harness = harness
        self.job = ""
        self.lanes: dict[str, int] = {}
        self.actors: dict[str, Actor] = {}

    async def set_up(self) -> None:
        """Build the scene by the functions themselves, and keep a copy of it."""
        harness = self._harness
        a, b, c, d, silent = harness.session, *[await harness.new_session() for _ in range(4)]
        other = await harness.submit(OTHER, priority=1)
        self.job = (await harness.submit(WORKFLOW)).job_id
        claims = {f"{claim.lane.node}{claim.index}": claim for claim in await harness.claim(9)}
        assert other.created
        assert set(claims) == {"single0", "done0", "bad0", "lost0", "left0", "left1", "right0", "right1", "right2"}
        self.lanes = {claim.lane.node: claim.key.lane for claim in claims.values()}
        for holder, held in ((b, ["lost0", "left1"]), (d, ["single0", "bad0", "right1"])):
            for name in held:
                self.alter("claims", f"session = {holder}", f"(lane, idx) = {_place(claims[name])}")
        _, done = await harness.end([claims["done0"]])
        _, bad = await harness.end([claims["bad0"]], Ended.FAILED, session=d)
        _, lost = await harness.end([claims["lost0"]], session=b)
        await harness.end([claims["right2"]], Ended.RETRY)
        await harness.sweep()
        await harness.store.end_session(d, "test")
        views = [await harness.store.load_right(right, s) for right, s in ((done[0], a), (bad[0], d))]
        past = "claimed_at - interval '1 hour'"
        self.alter("claims", f"claimed_at = {past}, started_at = {past}", f"(lane, idx) = {_place(claims['left1'])}")
        self.alter("claims", "started_at = claimed_at", f"session = {d}")
        self.alter("rights", "taken_until = made_at", f"id = {lost[0].id}")
        before = "opened_at - interval '1 hour'"
        unserved = "node in ('fresh', 'right')"  # one with new tasks, and one with a task that is due again
        self.alter("lanes", f"opened_at = {before}, served_at = {before}, freed_at = {before}", unserved)
        self.alter("lanes", "due_at = due_at - interval '1 hour', ripe = false", "node = 'right'")
        self.alter("due", "due_at = due_at - interval '1 hour'", f"lane = {self.lanes['right']}")
        self.alter("lanes", "reported = 0", "node in ('left', 'right')")
        self.alter("duties", "unbroken_since = unbroken_since - interval '2 hours'", "name = 'sweeper'")
        self.alter("sessions", "beat_at = beat_at - interval '1 hour', lease = '1 ms'", f"id = {silent}")
        self._make_actors(claims, (a, b, c, d), views)
        self.keep()

    def _make_actors(
        self, claims: dict[str, Any], sessions: Sequence[SessionId], views: Sequence[RightView | None]
    ) -> None:
        a, b, c, d = sessions
        done, bad = views
        assert done
        assert bad
        completed: list[Transition] = [SetNode("done", NodeState.COMPLETED)]
        failed: list[Transition] = [
            SetNode("bad", NodeState.FAILED),
            *(SetNode(name, NodeState.CANCELLED) for name in ("done", "lost", "left", "right", "fresh")),
            SetNode("join", NodeState.SKIPPED),
            SetJob(JobState.FAILED),
        ]
        hand = encode(
            [
                {**_report(claims[name]), "started": True, "progress": {"at": 1}, "log": "a line\n"}
                for name in ("right0", "left0")
            ]
        )
        left0 = claims["left0"]
        reports = {
            name: encode([_report(claims[task], ended) for task in tasks])
            for name, ended, tasks in (
                ("first", "completed", ["left0"]),
                ("last", "completed", ["left1"]),
                ("both", "completed", ["right0", "left0"]),
                ("failed", "failed", ["left1"]),
                ("retry", "retry", ["right0", "left0"]),
            )
        }
        made = [
            call("report first", "report", a, reports["first"]),
            call("report last", "report", b, reports["last"]),
            call("report both", "report", a, reports["both"]),
            call("report failed", "report", b, reports["failed"]),
            call("report retry", "report", a, reports["retry"]),
            call("turn", "turn", a, reports["both"], ["default"], 10, "{}"),
            call("claim", "claim", c, ["default"], 10, "{}", True),
            call("cancel", "cancel", self.job, "test", "test"),
            call("apply", "apply", done.id, a, done.takes, done.version, _changes(completed)),
            call("apply failure", "apply", bad.id, d, bad.takes, bad.version, _changes(failed)),
            call("stage items", "stage_items", done.id, a, done.takes, "join", 0, "[1, 2]"),
            call("take rights", "take_rights", c, 10, None),
            call("free rights", "free_rights", a, [done.id], "test", timedelta(0)),
            call("renew rights", "beat", a, "[]", [done.id], "trouble"),
            call("claim apart", "claim_apart", c, ["default"]),
            call("beat", "beat", a, hand, [], None),
            call("progress", "progress", a, hand),
            call("keep output", "keep_output", a, hand),
            call("checkpoint", "checkpoint", a, *left0.key, left0.attempt, 1, "phase", "{}", left0.token),
            call("reconcile", "reconcile", b, "[]", [], None, None),
            call("begin round", "begin_round", c, timedelta(seconds=5), 100),
            call("release dead", "release_dead", 100, *ALL_LANES),
            call("end overdue", "end_overdue", timedelta(seconds=30), 100, *ALL_LANES),
            call("end unserved", "end_unserved", c, 100, *ALL_LANES),
            call("tidy due", "tidy_due", 100, *ALL_LANES),
            call("record repeats", "record_repeats", 100, *ALL_LANES),
            call("step clock", "step_clock", c, -MINUTE, timedelta(0), timedelta(seconds=5)),
            call("step clock unseen", "step_clock", c, -MINUTE, timedelta(0), None),
            call("end member sessions", "end_member_sessions", "nobody"),
        ]
        self.actors = {actor.name: actor for actor in made}

    def pins(self) -> list[Actor]:
        """Rows at which transitions meet."""
        left = self.lanes["left"]
        return [
            pin("job", "jobs", f"job_id = '{self.job}'"),
            pin("left", "lanes", f"id = {left}"),
            pin("right", "lanes", f"id = {self.lanes['right']}"),
            pin("left0", "claims", f"lane = {left} and idx = 0"),
            pin("left1", "claims", f"lane = {left} and idx = 1"),
            pin("right0", "claims", f"lane = {self.lanes['right']} and idx = 0"),
            pin("right of lost", "rights", "node = 'lost'"),
        ]


def _place(claim: Any) -> str:
    return f"({claim.key.lane}, {claim.key.place})"


def _report(claim: Any, ended: str = "completed") -> dict[str, Any]:
    return {
        "lane": claim.key.lane,
        "idx": claim.key.place,
        "attempt": claim.attempt,
        "token": claim.token,
        "ended": ended,
        "body": {"code": "x"},
    }


def _changes(transitions: Sequence[Transition]) -> str:
    names = {SetNode: "node", SetJob: "job"}
    return encode([{"do": names[type(change)], **vars(change)} for change in transitions])


@pytest.fixture
async def stage(database_url: str, clock: Clock) -> AsyncIterator[Stage]:
    """Its clock stands still, so that nothing is called stuck because the matrix took long."""
    async with open_harness(database_url) as harness:
        with connect(database_url, None, name="stage") as admin:
            made = Stage(harness, admin)
            await made.set_up()
            clock.advance(timedelta(seconds=1))  # more than the lease of the silent one
            yield made


async def _try_all(
    stage: Stage, url: str, meetings: Sequence[tuple[Sequence[Actor], Sequence[Sequence[int]]]]
) -> tuple[int, list[str]]:
    tried, wrongs = 0, []
    async with open_connections(url, 3) as connections:
        for actors, tries in meetings:
            for order in tries:
                wrongs += await stage.attempt(connections, actors, order)
                tried += 1
    return tried, wrongs


CORE = ("report last", "report both", "turn", "cancel", "apply failure", "release dead", "reconcile", "beat")
# They take lanes and rights in opposite orders: a deadlock that is known, and has a test of its own below.
KNOWN = {"cancel", "reconcile"}


async def test_every_transition_changes_something_when_alone(stage: Stage, database_url: str) -> None:
    """Except those that put right what another left."""
    async with open_connections(database_url, 1) as connections:
        assert await stage.find_idle(connections, stage.actors.values()) == ["tidy due"]


@pytest.mark.parametrize("share", [5, pytest.param(1, marks=pytest.mark.slow)])
async def test_e3_e6_e7_any_two_transitions_in_any_order(stage: Stage, database_url: str, share: int) -> None:
    """All of them among the proofs, and every fifth pair in each run."""
    pairs = list(itertools.combinations_with_replacement(stage.actors.values(), 2))[::share]
    tried, wrongs = await _try_all(stage, database_url, [(pair, list(orders(pair))) for pair in pairs])
    assert wrongs == []
    assert tried == len(pairs) * 6


async def test_e6_e7_two_transitions_that_meet_inside_their_statements(stage: Stage, database_url: str) -> None:
    """A third transaction holds a row at which both stop, so that each goes on with what it already holds."""
    assert await _meet_at_pins(stage, database_url, CORE, share=3) == []


@pytest.mark.slow
async def test_e6_e7_any_two_transitions_that_meet_inside_their_statements(stage: Stage, database_url: str) -> None:
    assert await _meet_at_pins(stage, database_url, list(stage.actors), share=1) == []


@pytest.mark.parametrize(
    "names",
    [
        ("report first", "report last", "cancel"),
        ("report both", "release dead", "apply failure"),
        ("turn", "end overdue", "apply"),
        ("report last", "reconcile", "claim"),
    ],
    ids=", ".join,
)
async def test_e6_e7_three_transitions_in_any_order(stage: Stage, database_url: str, names: Sequence[str]) -> None:
    actors = [stage.actors[name] for name in names]
    tried, wrongs = await _try_all(stage, database_url, [(actors, list(orders(actors)))])
    assert wrongs == []
    assert tried == 90


@pytest.mark.slow
async def test_e6_e7_any_three_transitions_in_any_order(stage: Stage, database_url: str) -> None:
    triples = itertools.combinations([stage.actors[name] for name in CORE], 3)
    meetings = [(triple, list(orders(triple))) for triple in triples if not {actor.name for actor in triple} >= KNOWN]
    _, wrongs = await _try_all(stage, database_url, meetings)
    assert wrongs == []


async def test_e7_a_cancel_and_a_reconcile_never_wait_for_each_other(stage: Stage, database_url: str) -> None:
    pair = [stage.actors[name] for name in sorted(KNOWN)]
    meetings = [((held, *pair), pinned_orders()) for held in stage.pins()]
    _, wrongs = await _try_all(stage, database_url, meetings)
    assert wrongs == []


async def test_e6_reports_lock_claims_before_lanes_whatever_the_planner_knows(database_url: str) -> None:
    """A worker reports two tasks while the sweeper ends one of them; statistics say that there is one lane."""
    async with open_harness(database_url) as harness, open_connections(database_url, 3) as connections:
        await harness.submit(fan_out(3))
        claims = await harness.claim(3)
        with connect(database_url, None) as admin:
            admin.execute("analyze app.lanes")
            admin.execute("update app.claims set started_at = now() - interval '2 hours' where idx = 1")
        reports = encode([_report(claim) for claim in claims[:2]])
        actors = [
            pin("lane", "lanes", f"id = {claims[0].key.lane}"),
            call("report", "report", harness.session, reports),
            call("end overdue", "end_overdue", timedelta(seconds=30), 100, *ALL_LANES),
        ]
        run = await connections.run(actors, (0, 1, 2, 0, 1, 2))
    assert run.errors == {}, run.story


async def _meet_at_pins(stage: Stage, url: str, names: Sequence[str], share: int) -> list[str]:
    pairs = itertools.combinations_with_replacement([stage.actors[name] for name in names], 2)
    strange = [pair for pair in pairs if {actor.name for actor in pair} != KNOWN]
    meetings = [((held, *pair), pinned_orders()) for held in stage.pins() for pair in strange]
    _, wrongs = await _try_all(stage, url, meetings[::share])
    return wrongs
