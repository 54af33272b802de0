"""Signals, timers, retries, child jobs and limits, met by each other and by the rest in every order."""

import itertools
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from typing import Any

import pytest
from psycopg import Connection
from psycopg.rows import TupleRow

from anabranch.adapters.postgres.connect import connect
from anabranch.adapters.postgres.store.rows import write_batch
from anabranch.canonical import encode
from anabranch.engine.advancing.evaluator import plan
from anabranch.engine.advancing.transitions import Facts, LaneEnded, SetJob, SetNode, Transition
from anabranch.engine.model import ApplyResult, Claim, Ended, LimitKind, RightView
from anabranch.engine.ports import TakenRight
from anabranch.engine.submitting.submission import Submission
from anabranch.testing.clock import Clock
from anabranch.workflows.definition import Workflow
from anabranch.workflows.nesting import nest
from anabranch.workflows.nodes import Kind, Spread
from anabranch.workflows.stages import Declaration
from tests.support.engine import EngineHarness, open_harness
from tests.support.interleave import Actor, Scene, call, open_connections, orders, pin, pinned_orders
from tests.support.nodes import make_node

pytestmark = pytest.mark.postgres

CHILD = Workflow("child", (make_node("one", "do"), make_node("two", "do")))
RUNS = make_node("subs", kind=Kind.FAN_OUT, workflow="child", params={"n": "{{ item }}"}, source=list(range(6)))
PARENT = Workflow(
    "parent",
    (
        RUNS,
        make_node("gate", kind=Kind.GATE, timeout=timedelta(hours=1)),
        make_node("wait", kind=Kind.WAIT, duration_seconds=60),
        make_node("limited", "do", spread=Spread.FIXED, count=4, queue="limited", limit="scarce"),
        make_node("join", "do", ("subs", "gate", "wait", "limited")),
    ),
)
ORPHANS = Workflow("orphans", (RUNS, make_node("bad", "do")), priority=1)
FAILED = Workflow(
    "failed",
    (
        make_node("work", "do", spread=Spread.FIXED, count=4, queue="failed"),
        make_node("gate", kind=Kind.GATE, after=("work",)),
    ),
)
LIMITED = Workflow(
    "limited",
    (
        make_node(
            "limited",
            "do",
            spread=Spread.FIXED,
            count=2,
            queue="limited",
            limit="scarce",
            queue_timeout=timedelta(hours=1),
        ),
    ),
)
MOST = 2


class Stage(Scene):
    """A job that waits, runs jobs and is limited; one that failed and left its children; and one to be retried."""

    def __init__(self, harness: EngineHarness, admin: Connection[TupleRow]) -> None:
        """Made by `set_up`."""
        super().__init__(admin)
        self._harness = harness
        self.actors: dict[str, Actor] = {}
        self.jobs: dict[str, str] = {}
        self.lanes: dict[str, int] = {}

    async def set_up(self) -> None:
        """Build the scene by the functions themselves, and keep a copy of it."""
        harness = self._harness
        await harness.store.limit(LimitKind.KEY, "scarce", {"most": MOST}, "test")
        parent = await self._build_parent()
        orphaned = await self._leave_orphans()
        old = await self._fail()
        self.alter("waits", "until = until - interval '2 hours'", "true")
        other = await harness.new_session()
        self.actors = {actor.name: actor for actor in self._make_actors(other, parent, orphaned, old)}
        failed = await harness.reads.find(self.jobs["failed"])
        again = (failed.job_id, failed.last_event, ["work", "gate"], ["work"], '{"kept": ["work"]}')
        self.actors["retry"] = call("retry", "retry", *again, harness.session, "test")
        same = write_batch([Submission(FAILED, {}, "test", 5, False, "c")])
        self.actors["submit again"] = call("submit again", "submit_batch", harness.session, *same)
        self.keep()

    def wrongs(self) -> list[str]:
        """What the audit finds, when what a limit held that is gone was let go, as its setter does right after."""
        self._admin.execute("select app.heal_holds(100)")
        row = self._admin.execute(
            "select count(*) from app.claims c join app.lanes l on l.id = c.lane"
            " where l.limit_key = 'scarce' and exists (select from app.limits m where m.most is not null)"
        ).fetchone()
        assert row
        twins = self._admin.execute(
            "select workflow || ' runs twice' from app.jobs where workflow = 'failed'"
            " and state not in ('completed', 'failed', 'cancelled') group by workflow having count(*) > 1"
        ).fetchall()
        return [*super().wrongs(), *(said for (said,) in twins), *[f"{row[0]} run limited"] * (row[0] > MOST)]

    def pins(self) -> dict[str, Actor]:
        """Rows at which transitions meet."""
        rows = {
            "parent": ("jobs", f"job_id = '{self.jobs['parent']}'"),
            "child": ("jobs", f"job_id = '{self.jobs['child3']}'"),
            "failed": ("jobs", f"job_id = '{self.jobs['failed']}'"),
            "subs": ("lanes", f"id = {self.lanes['subs']}"),
            "old": ("lanes", f"id = {self.lanes['old']}"),
            "limited": ("lanes", f"id = {self.lanes['limited']}"),
            "first orphan": ("lanes", f"id = {self.lanes['orphan0']}"),
            "last orphan": ("lanes", f"id = {self.lanes['orphan1']}"),
            "ended child": ("children", f"job = {self._id('child0')}"),
            "gate": ("waits", "node = 'gate'"),
            "limit": ("limits", "name = 'scarce'"),
        }
        return {name: pin(name, *row) for name, row in rows.items()}

    async def _build_parent(self) -> dict[str, Any]:
        """HandlerProcesses that completed, failed, are about to complete, and run; and one that is about to be."""
        harness = self._harness
        await self._submit(PARENT)
        spawning = await harness.claim(5, queues=["plan:child"])
        self.lanes["subs"] = spawning[0].key.lane
        for number, claim in enumerate(spawning[:4]):
            self.jobs[f"child{number}"], rights = await self._spawn(claim)
            await harness.advance(rights)
        tasks = {(claim.lane.job_id, claim.lane.node): claim for claim in await harness.claim(8)}
        first, second, third, fourth = (self.jobs[f"child{number}"] for number in range(4))
        for name in ("one", "two"):
            await self._end(tasks[first, name])
        await self._end(tasks[second, "one"], Ended.FAILED)
        await self._end(tasks[third, "one"])
        _, rights = await harness.end([tasks[third, "two"]])
        ending = await harness.store.load_right(rights[0], harness.session)
        assert ending
        (limited,) = await harness.claim(1, queues=["limited"])
        await self._submit(LIMITED)
        self.lanes["limited"] = limited.key.lane
        inner = [tasks[fourth, "one"], tasks[fourth, "two"]]
        return {"tasks": spawning, "limited": limited, "inner": inner, "ending": ending, "end": _planned(CHILD, ending)}

    async def _leave_orphans(self) -> list[Claim]:
        """Two children of a job that failed; the lanes of the later one are older."""
        harness = self._harness
        await self._submit(ORPHANS)
        spawned = [await self._spawn(claim) for claim in await harness.claim(2, queues=["plan:child"])]
        for _, rights in reversed(spawned):
            await harness.advance(rights)
        claims = await harness.claim(5)
        tasks = {(claim.lane.job_id, claim.lane.node): claim for claim in claims}
        await self._end(tasks[self.jobs["orphans"], "bad"], Ended.FAILED)
        for number, (job, _) in enumerate(spawned):
            self.lanes[f"orphan{number}"] = tasks[job, "one"].key.lane
            self.jobs[f"orphan{number}"] = job
        assert self.lanes["orphan1"] < self.lanes["orphan0"]
        return [tasks[job, name] for job, _ in spawned for name in ("one", "two")]

    async def _fail(self) -> list[Claim]:
        """A job that failed while two of its tasks run; the holder of one is dead."""
        harness = self._harness
        dead = await harness.new_session()
        await self._submit(FAILED)
        done, bad, late = await harness.claim(3, queues=["failed"])
        self.lanes["old"] = late.key.lane
        await harness.claim(1, queues=["failed"], session=dead)
        await self._end(done)
        await self._end(bad, Ended.FAILED)
        await harness.store.end_session(dead, "test")
        return [late]

    def _make_actors(
        self, other: int, parent: dict[str, Any], orphaned: Sequence[Claim], old: Sequence[Claim]
    ) -> list[Actor]:
        own, ending = self._harness.session, parent["ending"]
        first, second, _, _, fifth = parent["tasks"]
        new = ("spawned", "", "spawned", "child", CHILD.hash, CHILD.text, ["one", "two"], "{}", None)
        held = encode([_report(claim) | {"started": True} for claim in (parent["limited"], *parent["inner"])])
        return [
            call("cancel parent", "cancel", self.jobs["parent"], "test", "test"),
            call("cancel child", "cancel", self.jobs["child3"], "test", "test"),
            call("cancel orphan", "cancel_orphan", self._id("orphan0"), True),
            call("cancel last orphan", "cancel_orphan", self._id("orphan1"), False),
            call("apply the child's end", "apply", ending.id, own, ending.takes, ending.version, parent["end"]),
            call("take children", "take_ended_children", other, 10, None),
            call("end child", "end_child", own, self._id("child0"), encode(_report(first)), first.token),
            call(
                "fail child",
                "end_child",
                other,
                self._id("child1"),
                encode(_report(second, Ended.FAILED)),
                second.token,
            ),
            call("spawn", "spawn", own, *fifth.key, fifth.attempt, *new, fifth.token, None),
            call("report in the child", "report", own, _reports(parent["inner"])),
            call("report orphans", "report", own, _reports(orphaned)),
            call("approve", "signal", self.jobs["parent"], "gate", '{"approved": true}', "ann", other),
            call("reject", "signal", self.jobs["parent"], "gate", '{"approved": false}', "bob", other),
            call("take rights", "take_rights", other, 10, None),
            call("report old", "report", own, _reports(old)),
            call("release dead", "release_dead", 100, 0, 2**62),
            call("claim limited", "claim", own, ["limited"], 10, "{}", False),
            call("claim limited too", "claim", other, ["limited", "plan:child"], 3, "{}", True),
            call("turn limited", "turn", own, _reports([parent["limited"]]), ["limited"], 10, "{}"),
            call("lower", "limit", "key", "scarce", '{"most": 1}', "test"),
            call("limit parent", "limit", "workflow", "parent", '{"most": 50}', "test"),
            call("pause", "limit", "key", "scarce", '{"paused": true}', "test"),
            call("unlimit", "limit", "key", "scarce", '{"most": null}', "test"),
            call("heal", "heal_holds", 100, 0, 2**62),
            call("follow limits", "follow_limits"),
            call("drain", "drain", own, True),
            call("beat", "beat", own, held, [], None),
            call("reconcile", "reconcile", own, held, [], None, None),
        ]

    async def _submit(self, workflow: Workflow) -> None:
        nested = nest({"child": Declaration(CHILD), workflow.id: Declaration(workflow)}).declarations[workflow.id]
        submission = Submission(nested.workflow, {}, "test", workflow.priority, False, "c", parts=nested.parts)
        submitted = await self._harness.store.submit(submission, self._harness.session)
        self.jobs[workflow.id] = submitted.job_id
        await self._harness.advance(submitted.rights)

    async def _spawn(self, claim: Claim) -> tuple[str, Sequence[TakenRight]]:
        """Trade a claim for a child that has yet to be started."""
        child = Submission(CHILD, {}, f"child {claim.task_id}", 5, False, "c")
        spawned = await self._harness.store.spawn(claim, child, self._harness.session)
        assert spawned
        return spawned.job_id, spawned.rights

    async def _end(self, claim: Claim, ended: Ended = Ended.COMPLETED) -> None:
        """End a task, and apply what comes of it and no more: no child is reported, no orphan cancelled."""
        store, session = self._harness.store, self._harness.session
        _, rights = await self._harness.end([claim], ended)
        for right in rights:
            view = await store.load_right(right, session)
            assert view
            workflow = await store.definition(view.workflow_hash)
            assert (await store.apply(right, session, view, _plan(workflow, view))).result is ApplyResult.APPLIED

    def _id(self, name: str) -> int:
        row = self._admin.execute("select id from app.jobs where job_id = %s", [self.jobs[name]]).fetchone()
        assert row
        return int(row[0])


def _plan(workflow: Workflow, view: RightView) -> tuple[Transition, ...]:
    facts = Facts(view.job_id, {}, view.states, view.taken, view.failure, state=view.state)
    planned = plan(workflow, facts, LaneEnded(view.node, view.purpose, view.failed or 0, view.error, view.width or 0))
    assert isinstance(planned, tuple)
    return planned


def _planned(workflow: Workflow, view: RightView) -> str:
    names = {SetNode: "node", SetJob: "job"}
    return encode([{"do": names[type(change)], **vars(change)} for change in _plan(workflow, view)])


def _report(claim: Claim, ended: Ended = Ended.COMPLETED) -> dict[str, Any]:
    lane, place = claim.key
    fence = {"lane": lane, "idx": place, "attempt": claim.attempt, "token": claim.token}
    return {**fence, "ended": ended, "body": {"code": "x"}}


def _reports(claims: Sequence[Claim]) -> str:
    return encode([_report(claim) for claim in claims])


@pytest.fixture
async def stage(database_url: str, clock: Clock) -> AsyncIterator[Stage]:
    """Its clock stands still, so that nothing is called stuck because the matrix took long."""
    async with open_harness(database_url) as harness:
        with connect(database_url, None, name="stage") as admin:
            made = Stage(harness, admin)
            await made.set_up()
            yield made


async def _try_all(
    stage: Stage, url: str, meetings: Sequence[tuple[Sequence[Actor], Sequence[Sequence[int]]]]
) -> list[str]:
    wrongs = []
    async with open_connections(url, 3) as connections:
        for actors, tries in meetings:
            for order in tries:
                wrongs += await stage.attempt(connections, actors, order)
    return wrongs


# Who meets whom, and the rows at which each would stop inside its statement.
MEETINGS = [
    (("cancel parent", "end child"), ("parent", "subs", "ended child")),
    (("cancel parent", "spawn"), ("parent", "subs")),
    (("cancel parent", "take rights"), ("parent", "gate")),
    (("cancel parent", "turn limited"), ("limited",)),
    (("cancel child", "report in the child"), ("child",)),
    (("cancel child", "cancel orphan"), ("child",)),
    (("cancel orphan", "report orphans"), ("first orphan", "last orphan")),
    (("cancel orphan", "cancel orphan"), ("first orphan", "last orphan")),
    (("cancel orphan", "cancel last orphan"), ("first orphan", "last orphan")),
    (("end child", "fail child"), ("subs", "ended child")),
    (("end child", "take children"), ("ended child",)),
    (("retry", "report old"), ("old",)),
    (("retry", "release dead"), ("old",)),
    (("retry", "submit again"), ("failed",)),
    (("approve", "reject"), ("parent",)),
    (("approve", "take rights"), ("parent", "gate")),
    (("claim limited", "claim limited too"), ("limit",)),
    (("claim limited", "lower"), ("limit",)),
    (("turn limited", "claim limited too"), ("limited", "limit")),
    (("turn limited", "unlimit"), ("limited", "limit")),
    (("turn limited", "heal"), ("limited",)),
    (("turn limited", "follow limits"), ("limited", "limit")),
    (("pause", "follow limits"), ("limited", "limit")),
    (("claim limited too", "follow limits"), ("limited", "limit")),
    (("spawn", "claim limited too"), ("subs",)),
    (("lower", "turn limited"), ("limited", "limit")),
    (("lower", "follow limits"), ("limit",)),
    (("limit parent", "lower"), ("limit",)),
    (("limit parent", "turn limited"), ("limited", "limit")),
    (("limit parent", "claim limited too"), ("limited", "limit")),
    (("limit parent", "spawn"), ("subs", "parent")),
    (("limit parent", "end child"), ("subs", "ended child")),
    (("limit parent", "cancel parent"), ("parent", "subs")),
    (("limit parent", "apply the child's end"), ("parent", "subs")),
    (("limit parent", "release dead"), ("old",)),
]


async def test_every_transition_changes_something_when_alone(stage: Stage, database_url: str) -> None:
    """Except those that put right what another left."""
    async with open_connections(database_url, 1) as connections:
        idle = await stage.find_idle(connections, stage.actors.values())
    assert idle == ["heal", "reconcile"]


async def test_e3_e6_e7_two_transitions_in_any_order(stage: Stage, database_url: str) -> None:
    pairs = [[stage.actors[name] for name in names] for names, _ in MEETINGS]
    assert await _try_all(stage, database_url, [(pair, list(orders(pair))) for pair in pairs]) == []


async def test_e6_e7_two_transitions_that_meet_inside_their_statements(stage: Stage, database_url: str) -> None:
    """A third transaction holds a row at which both stop, so that each goes on with what it already holds."""
    pins = stage.pins()
    met = [
        ((pins[at], *(stage.actors[name] for name in names)), pinned_orders())
        for names, all_at in MEETINGS
        for at in all_at
    ]
    assert await _try_all(stage, database_url, met) == []


@pytest.mark.slow
async def test_e3_e6_e7_any_two_transitions_in_any_order(stage: Stage, database_url: str) -> None:
    pairs = itertools.combinations_with_replacement(stage.actors.values(), 2)
    assert await _try_all(stage, database_url, [(pair, list(orders(pair))) for pair in pairs]) == []


@pytest.mark.slow
async def test_e6_e7_any_two_transitions_that_meet_inside_their_statements(stage: Stage, database_url: str) -> None:
    pairs = list(itertools.combinations_with_replacement(stage.actors.values(), 2))
    met = [((held, *pair), pinned_orders()) for held in stage.pins().values() for pair in pairs]
    assert await _try_all(stage, database_url, met) == []


@pytest.mark.parametrize(
    "names",
    [
        ("approve", "take rights", "cancel parent"),
        ("end child", "spawn", "cancel parent"),
        ("claim limited", "claim limited too", "turn limited"),
        ("claim limited", "unlimit", "pause"),
        ("limit parent", "turn limited", "spawn"),
        ("lower", "claim limited", "turn limited"),
        ("retry", "report old", "release dead"),
    ],
    ids=", ".join,
)
async def test_e6_e7_three_transitions_in_any_order(stage: Stage, database_url: str, names: Sequence[str]) -> None:
    actors = [stage.actors[name] for name in names]
    assert await _try_all(stage, database_url, [(actors, list(orders(actors)))]) == []


@pytest.mark.parametrize("change", ["lower", "pause"])
async def test_a_claim_goes_by_the_limit_that_it_waited_for(stage: Stage, database_url: str, change: str) -> None:
    actors = [stage.actors[change], stage.actors["claim limited"]]
    async with open_connections(database_url, 3) as connections:
        stage.put_back()
        run = await connections.run(actors, (0, 1, 0, 1))
    assert run.errors == {}
    assert "waiting: claim limited" in run.story
    assert run.answers["claim limited"] == [(None,)]
