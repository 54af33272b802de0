"""The sweeper: what one act, one row or one slow round can't do keeps nothing else from being done."""

import asyncio
import re
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from anabranch.adapters.objects.folder import Folder
from anabranch.adapters.postgres.store.invariants import audit
from anabranch.adapters.postgres.store.store import PostgresStore
from anabranch.adapters.postgres.store.vitals import PostgresVitals
from anabranch.api.health.diagnosis import Part, diagnose
from anabranch.engine.advancing.advancer import Advancer
from anabranch.engine.child_jobs import ChildJobs, collect_children
from anabranch.engine.model import Answer, Claim, Ended, InHand, JobState, LimitKind, SessionId, SessionKind
from anabranch.engine.orchestrator import Orchestrator
from anabranch.engine.ports import Holdings, Submission, Swept, TakenRight
from anabranch.engine.registry import Registry
from anabranch.engine.sessions.live_session import LiveSession
from anabranch.engine.sweeping.retention import Purge, RetentionPeriods
from anabranch.engine.sweeping.sweeper import Sweeper
from anabranch.engine.task_parameters import Definitions
from anabranch.errors import Unavailable
from anabranch.storage.large_results import Results
from anabranch.storage.tiers import Storage
from anabranch.testing.clock import Clock
from anabranch.workflows.definition import Workflow
from anabranch.workflows.nesting import nest
from anabranch.workflows.nodes import Kind, OnFailure, Spread
from anabranch.workflows.stages import Declaration
from anabranch.workflows.work import Retry
from tests.support.engine import EngineHarness, fan_out, open_harness
from tests.support.nodes import make_node
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.postgres

SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)
TIMED_OUT = "select count(*) from app.outcomes where error ->> 'code' = 'task.queue_timeout'"


def ask(url: str, query: str, *arguments: object) -> list[Any]:
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(query.encode(), arguments)
        return cursor.fetchall() if cursor.description else []


def of(name: str, count: int = 1, **more: object) -> Workflow:
    return Workflow(name, (make_node("work", "do", spread=Spread.FIXED, count=count, **more),))  # type: ignore[arg-type]


async def let_pass(engine: EngineHarness, clock: Clock, time: timedelta, held: list[Claim]) -> None:
    """Time goes by in steps of five seconds, the worker beats with what it runs, and the sweeper is at work."""
    pulse = engine.store.pulse()
    for _ in range(int(time / (5 * SECOND))):
        clock.advance(5 * SECOND)
        pulse.beat(engine.session, Holdings([InHand(claim.fence, started=True) for claim in held]))
        await engine.sweep()
    pulse.close()


async def die(engine: EngineHarness, *claims: Claim, session: SessionId) -> None:
    """The worker of a session dies with these tasks begun."""
    pulse = engine.store.pulse()
    pulse.beat(session, Holdings([InHand(claim.fence, started=True) for claim in claims]))
    pulse.close()
    await engine.store.end_session(session, "killed")


async def health_of_sweeper(url: str) -> Part:
    signs = PostgresVitals(url, name="test")
    await signs.open()
    try:
        return next(part for part in diagnose(await signs.read_vitals(), 0.0) if part.name == "sweeper")
    finally:
        await signs.close()


async def test_a7_a_lane_whose_policy_cannot_be_read_hurts_itself_alone(
    engine: EngineHarness, database_url: str, clock: Clock
) -> None:
    await engine.submit(of("poison"))
    victims = [await engine.submit(of(f"victim{n}", timeout=MINUTE, retry=Retry(max_attempts=1))) for n in range(2)]
    held = await engine.claim()
    ask(database_url, """
        update app.lanes l set policy = l.policy || '{"timeout_seconds": "soon"}'
          from app.jobs j where j.id = l.job and j.workflow = 'poison'""")  # fmt: skip
    await let_pass(engine, clock, 2 * MINUTE, held)
    await engine.advance(await engine.store.take_rights(engine.session, 10))

    assert [await engine.state(job.job_id) for job in victims] == [JobState.FAILED, JobState.FAILED]
    part = await health_of_sweeper(database_url)
    assert part.status == "degraded"
    assert "end_overdue fails: lane" in part.detail


async def test_a7_a_row_that_the_server_itself_fails_at_keeps_no_other(
    engine: EngineHarness, database_url: str, clock: Clock
) -> None:
    """A damaged page or index is no data error, and hurts those rows alone all the same."""
    await engine.submit(of("poison", timeout=MINUTE, retry=Retry(max_attempts=1)))
    victims = [await engine.submit(of(f"victim{n}", timeout=MINUTE, retry=Retry(max_attempts=1))) for n in range(2)]
    held = await engine.claim()
    poison = next(claim for claim in held if claim.lane.workflow == "poison")
    ask(database_url, f"""
        create function app.fail() returns trigger language plpgsql as $$
        begin raise exception 'could not read block 7' using errcode = 'XX001'; end; $$;
        create trigger fail before insert on app.outcomes for each row when (new.lane = {poison.key.lane})
        execute function app.fail()""")  # fmt: skip
    await let_pass(engine, clock, 2 * MINUTE, held)
    await engine.advance(await engine.store.take_rights(engine.session, 10))

    assert [await engine.state(job.job_id) for job in victims] == [JobState.FAILED, JobState.FAILED]
    part = await health_of_sweeper(database_url)
    assert part.status == "degraded"
    assert f"end_overdue fails: lane {poison.key.lane}: " in part.detail


async def test_a7_a_row_that_cannot_be_given_back_keeps_no_other(engine: EngineHarness, database_url: str) -> None:
    for name in ("one", "bad", "two"):
        await engine.submit(of(name))
    victim = await engine.new_session()
    held = await engine.claim(session=victim)
    bad = next(claim for claim in held if claim.lane.workflow == "bad")
    ask(database_url, """
        insert into app.due (lane, idx, attempt, failures, crashes, first_at, due_at)
        values (%s, 0, 1, 0, 0, now(), now() + interval '1 day')""", bad.key.lane)  # fmt: skip
    await die(engine, *held, session=victim)
    await engine.sweep()
    assert {claim.lane.workflow for claim in await engine.claim()} == {"one", "two"}


async def test_a7_an_act_that_fails_skips_no_other_and_shows_in_health(
    engine: EngineHarness, database_url: str
) -> None:
    await engine.submit(of("one"))
    ask(database_url, "alter function app.release_dead rename to release_the_dead")
    ask(database_url, "alter function app.end_overdue rename to end_the_overdue")
    ask(database_url, "select app.measure('wait', 'one', '', interval '1 s')")
    for _ in range(2):
        await engine.sweep()

    assert ask(database_url, "select count(*) from app.durations") == [(0,)]
    part = await health_of_sweeper(database_url)
    assert part.status == "degraded"
    assert "release_dead fails" in part.detail
    assert "end_overdue fails" in part.detail
    ask(database_url, "alter function app.release_the_dead rename to release_dead")
    ask(database_url, "alter function app.end_the_overdue rename to end_overdue")
    await engine.sweep()
    assert (await health_of_sweeper(database_url)).status == "ok"


async def test_a7_numbers_beyond_all_bounds_end_nothing(engine: EngineHarness, database_url: str, clock: Clock) -> None:
    """Jobs that were pinned before declarations had bounds."""
    await engine.submit(of("wide"))
    ask(database_url, """
        update app.lanes set queue_timeout = '2147483647 months', policy = policy
            || '{"total_timeout_seconds": 1e13, "timeout_seconds": 60, "max_attempts": 4294967296}'""")  # fmt: skip
    held = await engine.claim()
    await let_pass(engine, clock, 2 * MINUTE, held)
    assert ask(database_url, "select ended::text from app.attempts") == [("timed_out",)]
    assert ask(database_url, "select trouble from app.duties") == [(None,)]


async def test_o2_the_sweeper_ticks_when_its_round_is_done(
    engine: EngineHarness, database_url: str, clock: Clock
) -> None:
    await engine.sweep()
    before = clock.now()
    clock.advance(5 * SECOND)
    ask(database_url, "select app.begin_round(%s, '5 s', 10)", engine.session)
    assert ask(database_url, "select ticked_at from app.duties where name = 'sweeper'") == [(before,)]
    await engine.sweep()
    assert ask(database_url, "select ticked_at from app.duties where name = 'sweeper'") == [(clock.now(),)]


async def test_a14_slow_rounds_expire_the_dead(engine: EngineHarness, database_url: str, clock: Clock) -> None:
    victim = await engine.new_session()
    await engine.submit(fan_out(1))
    await engine.claim(session=victim)
    pulse = engine.store.pulse()
    for _ in range(10):
        clock.advance(16 * SECOND)
        pulse.beat(engine.session, Holdings())
        await engine.sweep()
    pulse.close()
    assert ask(database_url, "select dead_at is not null from app.sessions where id = %s", victim) == [(True,)]
    assert ask(database_url, "select count(*) from app.claims") == [(0,)]


async def test_a14_a_sweeper_that_was_away_expires_nobody_for_a_lease(
    engine: EngineHarness, database_url: str, clock: Clock
) -> None:
    await engine.sweep()
    victim = await engine.new_session()
    clock.advance(5 * MINUTE)
    assert (await engine.sweep()).expired == 0
    pulse = engine.store.pulse()
    assert pulse.beat(victim, Holdings()) is not None
    pulse.close()
    await let_pass(engine, clock, 65 * SECOND, [])
    assert ask(database_url, "select dead_at is not null from app.sessions where id = %s", victim) == [(True,)]


async def test_e21_one_sweep_takes_over_everything_of_dead_sessions(engine: EngineHarness, database_url: str) -> None:
    victim = await engine.new_session()
    await engine.submit(fan_out(3_500))
    held = await engine.claim(3_500, session=victim)
    assert len(held) == 3_500
    await engine.store.end_session(victim, "killed")
    assert (await engine.sweep()).released == 3_500
    assert ask(database_url, "select count(*) from app.claims") == [(0,)]


class StuckStore(PostgresStore):
    """A store in which advancing never ends."""

    async def take_rights(self, session: SessionId, limit: int, before: datetime | None = None) -> list[TakenRight]:
        await asyncio.Event().wait()
        return []


async def test_a14_the_sweeper_waits_for_no_advance(engine: EngineHarness, database_url: str) -> None:
    store = StuckStore(database_url, name="stuck", connections=3)
    await store.open()
    session = await store.open_session(SessionKind.ORCHESTRATOR, [], 0, MINUTE)
    keep = RetentionPeriods(None, MINUTE, MINUTE)
    purge, often = Purge(store.retention(), engine.results, keep), timedelta(seconds=0.05)
    orchestrator = Orchestrator(store, engine.results, purge, Storage({}), sweep_every=often)
    serving = asyncio.create_task(orchestrator.serve(LiveSession(session), asyncio.Event()))
    victim = await engine.new_session()
    await engine.submit(fan_out(1))
    await engine.claim(session=victim)
    await asyncio.sleep(0.2)
    await engine.store.end_session(victim, "killed")
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while ask(database_url, "select count(*) from app.claims") != [(0,)]:
                await asyncio.sleep(0.05)
    finally:
        serving.cancel()
        await asyncio.wait([serving])
        await store.close()


async def test_a12_a_task_that_takes_its_worker_with_it_fails(engine: EngineHarness, database_url: str) -> None:
    """The first death marks it; after five more, in which it ran alone, it is not tried again (E1)."""
    job = await engine.submit(of("killer"))
    for death in range(6):
        victim = await engine.new_session()
        (claim,) = await engine.claim(session=victim)
        assert claim.crashes == min(death, 1)
        await die(engine, claim, session=victim)
        await engine.sweep()
    assert await engine.claim() == []
    await engine.advance(await engine.store.take_rights(engine.session, 10))
    found = (await engine.reads.job(job.job_id)).job
    assert (found.state, found.error and found.error.code) == (JobState.FAILED, "worker.died")


async def test_a12_one_that_kills_before_it_is_known_to_have_begun_fails_too(engine: EngineHarness) -> None:
    job = await engine.submit(of("killer"))
    for _ in range(10):
        victim = await engine.new_session()
        if not await engine.claim(session=victim):
            break
        await engine.store.end_session(victim, "killed")
        await engine.sweep()
    await engine.advance(await engine.store.take_rights(engine.session, 10))
    assert await engine.state(job.job_id) is JobState.FAILED


async def test_a12_a_task_that_only_waited_in_the_hand_of_its_worker_is_not_charged(engine: EngineHarness) -> None:
    """Each of these workers has one slot."""
    job = await engine.submit(of("many", 2))
    for _ in range(10):
        victim = await engine.new_session()
        assert len(await engine.claim(session=victim)) == 2
        await engine.store.end_session(victim, "killed")
        await engine.sweep()
    assert await engine.state(job.job_id) is JobState.RUNNING


async def test_a11_the_next_task_of_a_window_is_given_its_time(
    engine: EngineHarness, database_url: str, clock: Clock
) -> None:
    more: dict[str, Any] = {"queue_timeout": MINUTE, "max_running": 1, "timeout": timedelta(hours=1)}
    await engine.submit(of("timed", 5, on_failure=OnFailure.FINISH, **more))
    held = await engine.claim()
    await let_pass(engine, clock, 70 * SECOND, held)
    await engine.end(held)
    await engine.sweep()
    assert ask(database_url, "select outcome::text from app.outcomes") == [("completed",)]

    await let_pass(engine, clock, MINUTE, [])
    assert len(ask(database_url, "select 1 from app.outcomes")) == 1
    await let_pass(engine, clock, 5 * SECOND, [])
    assert ask(database_url, "select count(*) from app.outcomes where error ->> 'code' = 'task.queue_timeout'") == [
        (4,)
    ]


async def test_a11_a_task_that_no_worker_takes_again_fails(
    engine: EngineHarness, database_url: str, clock: Clock
) -> None:
    """Its worker died, or its attempt failed, and no other worker serves its queue; new tasks wait for nobody."""
    await engine.submit(of("timed", 2, queue_timeout=MINUTE, on_failure=OnFailure.FINISH))
    lost, failed = await engine.claim(2)
    await engine.end([lost], Ended.HANDED_BACK)
    await engine.end([failed], Ended.RETRY, delay=3 * MINUTE)
    await let_pass(engine, clock, 55 * SECOND, [])
    assert ask(database_url, "select count(*) from app.outcomes") == [(0,)]
    await let_pass(engine, clock, 10 * SECOND, [])
    assert ask(database_url, TIMED_OUT) == [(1,)]

    await let_pass(engine, clock, 2 * MINUTE + 50 * SECOND, [])
    assert ask(database_url, TIMED_OUT) == [(1,)]
    await let_pass(engine, clock, 10 * SECOND, [])
    assert ask(database_url, TIMED_OUT) == [(2,)]
    assert audit(database_url) == []
    await engine.advance(await engine.store.take_rights(engine.session, 10))
    assert ask(database_url, "select state::text from app.jobs") == [("failed",)]


@pytest.mark.parametrize("is_asked_for", [True, False])
async def test_a11_the_time_of_a_pause_does_not_count(
    engine: EngineHarness, database_url: str, clock: Clock, *, is_asked_for: bool
) -> None:
    """Whether or not a worker asks while the queue is paused."""
    await engine.submit(of("timed", 5, queue_timeout=MINUTE, on_failure=OnFailure.FINISH))
    await engine.store.limit(LimitKind.QUEUE, "default", {"paused": True}, "test")
    if is_asked_for:
        assert await engine.claim() == []
    await let_pass(engine, clock, 100 * SECOND, [])
    await engine.store.limit(LimitKind.QUEUE, "default", {"paused": False}, "test")
    await let_pass(engine, clock, 55 * SECOND, [])
    assert ask(database_url, "select count(*) from app.outcomes") == [(0,)]

    await let_pass(engine, clock, 10 * SECOND, [])
    assert ask(database_url, "select count(*) from app.outcomes") == [(5,)]


async def test_a11_a_pause_that_ends_before_the_time_does_gives_it_all(
    engine: EngineHarness, database_url: str, clock: Clock
) -> None:
    await engine.submit(of("timed", queue_timeout=MINUTE))
    await engine.store.limit(LimitKind.QUEUE, "default", {"paused": True}, "test")
    await let_pass(engine, clock, 50 * SECOND, [])
    await engine.store.limit(LimitKind.QUEUE, "default", {"paused": False}, "test")
    await let_pass(engine, clock, 55 * SECOND, [])
    assert len(await engine.claim()) == 1


async def test_a11_a_limit_without_room_is_not_the_workers_absence(
    engine: EngineHarness, database_url: str, clock: Clock
) -> None:
    """Two lanes share a limit of one: while a task of the first runs, the second can't be taken; after it, it can."""
    await engine.store.limit(LimitKind.HANDLER, "do", {"most": 1}, "test")
    await engine.submit(of("first", timeout=timedelta(hours=1)))
    held = await engine.claim()
    await engine.submit(of("second", queue_timeout=MINUTE))
    await let_pass(engine, clock, 3 * MINUTE, held)
    assert ask(database_url, "select count(*) from app.outcomes") == [(0,)]

    await engine.end(held)
    await let_pass(engine, clock, 55 * SECOND, [])
    assert ask(database_url, "select count(*) from app.outcomes") == [(1,)]
    await let_pass(engine, clock, 15 * SECOND, [])
    assert ask(database_url, "select count(*) from app.outcomes where error ->> 'code' = 'task.queue_timeout'") == [
        (1,)
    ]


HOUR = timedelta(hours=1)
TIMED = Workflow(
    "timed",
    (
        make_node("gate", kind=Kind.GATE, timeout=10 * MINUTE),
        make_node("wait", kind=Kind.WAIT, duration_seconds=600),
    ),
)


def sweeper_of(engine: EngineHarness) -> Sweeper:
    """A sweeper for which no time passes, as for the database's clock while nobody moves it."""
    return Sweeper(engine.store, engine.session, now=lambda: 0.0)


async def clock_of(url: str) -> Part | None:
    signs = PostgresVitals(url, name="test")
    await signs.open()
    try:
        return next((part for part in diagnose(await signs.read_vitals(), 0.0) if part.name == "clock"), None)
    finally:
        await signs.close()


@pytest.mark.parametrize("hours", [1, -1])
async def test_tf5_b13_timers_last_as_long_as_they_were_to_when_the_clock_steps(
    engine: EngineHarness, database_url: str, clock: Clock, hours: int
) -> None:
    """Gates, waits, delays, leases and timeouts that were opened before the step; what comes after it stays."""
    watching = sweeper_of(engine)
    await watching.sweep()
    await engine.submit(TIMED)
    await engine.submit(of("late", 2, timeout=MINUTE, total_timeout=10 * MINUTE, retry=Retry(max_attempts=1)))
    delayed, running = await engine.claim(2)
    await engine.end([delayed], Ended.RETRY, delay=10 * MINUTE)
    pulse = engine.store.pulse()
    pulse.beat(engine.session, Holdings([InHand(running.fence, started=True)]))
    clock.advance(hours * HOUR)
    await engine.submit(TIMED, n=2)  # after the step, and before it was seen
    await watching.sweep()

    assert ask(database_url, "select until - app.now() from app.waits") == [(10 * MINUTE,)] * 4
    assert ask(database_url, "select due_at - app.now() from app.due") == [(10 * MINUTE,)]
    assert ask(database_url, "select expires_at - app.now() from app.due") == [(10 * MINUTE,)]
    assert ask(database_url, "select due_at - app.now() from app.lanes where due_at is not null") == [(10 * MINUTE,)]
    assert ask(database_url, "select started_at - app.now() from app.claims") == [(0 * SECOND,)]
    assert ask(database_url, "select count(*) from app.sessions where dead_at is not null or beat_at <> app.now()") == [
        (0,)
    ]
    part = await clock_of(database_url)
    assert part is not None
    assert (part.status, f"{hours * 3600:+d} s" in part.detail) == ("degraded", True)

    await watching.sweep()  # it is seen once, by this process and by another
    await sweeper_of(engine).sweep()
    assert ask(database_url, "select shifted from app.clock") == [(hours * HOUR,)]
    assert await engine.store.take_rights(engine.session, 10) == []
    clock.advance(10 * MINUTE)
    assert len(await engine.store.take_rights(engine.session, 10)) == 4
    assert len(await engine.claim()) == 1
    pulse.close()


async def test_tf5_a_date_that_was_declared_stays_when_the_clock_steps(
    engine: EngineHarness, database_url: str, clock: Clock
) -> None:
    watching = sweeper_of(engine)
    await watching.sweep()
    until = (clock.now() + 2 * HOUR).isoformat()
    await engine.submit(Workflow("dated", (make_node("wait", kind=Kind.WAIT, until=until),)))
    clock.advance(HOUR)
    await watching.sweep()
    assert ask(database_url, "select until - app.now() from app.waits") == [(HOUR,)]


async def test_tf5_two_sweepers_move_what_is_scheduled_once(
    engine: EngineHarness, database_url: str, clock: Clock
) -> None:
    both = [sweeper_of(engine) for _ in range(2)]
    for each in both:
        await each.sweep()
    await engine.submit(TIMED)
    clock.advance(-HOUR)
    await asyncio.gather(*(each.sweep() for each in both))
    for each in both:
        await each.sweep()
    assert ask(database_url, "select shifted from app.clock") == [(-HOUR,)]
    assert ask(database_url, "select until - app.now() from app.waits") == [(10 * MINUTE,)] * 2


async def test_tf5_steps_in_rounds_that_follow_each_other_are_each_noted_once(
    engine: EngineHarness, database_url: str, clock: Clock
) -> None:
    watching = sweeper_of(engine)
    await watching.sweep()
    await engine.submit(TIMED)
    for hours in (-1, 2, -3, 2):
        clock.advance(hours * HOUR)
        await watching.sweep()
        assert ask(database_url, "select distinct until - app.now() from app.waits") == [(10 * MINUTE,)]
    assert ask(database_url, "select shifted from app.clock") == [(timedelta(0),)]


@pytest.mark.parametrize("hours", [1, 24])
async def test_tf5_what_was_noted_while_the_clock_was_ahead_between_two_rounds_is_moved(
    engine: EngineHarness, database_url: str, clock: Clock, hours: int
) -> None:
    watching, pulse = sweeper_of(engine), engine.store.pulse()
    await engine.submit(TIMED, name="before")
    await watching.sweep()
    clock.advance(hours * HOUR)
    gone = await engine.new_session()
    await engine.submit(TIMED, name="ahead")
    pulse.beat(engine.session, Holdings())
    clock.advance(-hours * HOUR)
    for _ in range(7):
        await watching.sweep()
    assert ask(database_url, "select distinct until - app.now() from app.waits") == [(10 * MINUTE,)]
    assert ask(database_url, "select beat_at - app.now() from app.sessions where id = %s", gone) == [(timedelta(0),)]
    assert ask(database_url, "select shifted from app.clock") == [(timedelta(0),)]
    part = await clock_of(database_url)
    assert part is not None
    assert part.status == "degraded"
    pulse.close()


class SteppedInTheRound:
    """A store whose clock steps after the sweeper has read it, and before anything is ended by it."""

    def __init__(self, store: PostgresStore, clock: Clock) -> None:
        self._store, self._clock = store, clock

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def sweep(self, *given: Any) -> Swept:
        self._clock.advance(HOUR)
        return await self._store.sweep(*given)


async def test_e18_a_clock_that_steps_in_the_middle_of_a_round_ends_nothing(
    engine: EngineHarness, database_url: str, clock: Clock
) -> None:
    once = of("late", 2, timeout=MINUTE, total_timeout=10 * MINUTE, queue_timeout=MINUTE, retry=Retry(max_attempts=1))
    await engine.submit(once)
    (running,) = await engine.claim(1)
    pulse = engine.store.pulse()
    pulse.beat(engine.session, Holdings([InHand(running.fence, started=True)]))
    other = await engine.new_session()
    stepped: Any = SteppedInTheRound(engine.store, clock)
    await Sweeper(stepped, engine.session, now=lambda: 0.0).sweep()
    answers, _ = await engine.end([running])
    assert answers == [Answer.APPLIED]
    assert ask(database_url, "select outcome::text, failures from app.outcomes") == [("completed", 0)]
    assert ask(database_url, "select dead_at from app.sessions where id = %s", other) == [(None,)]
    pulse.close()


async def test_e18_a_sweeper_that_starts_after_a_step_of_the_clock_ends_no_attempt(
    engine: EngineHarness, database_url: str, clock: Clock
) -> None:
    await engine.submit(of("late", 1, timeout=MINUTE, total_timeout=10 * MINUTE, retry=Retry(max_attempts=1)))
    (running,) = await engine.claim(1)
    pulse = engine.store.pulse()
    pulse.beat(engine.session, Holdings([InHand(running.fence, started=True)]))
    await sweeper_of(engine).sweep()
    clock.advance(HOUR)
    pulse.beat(engine.session, Holdings([InHand(running.fence, started=True)]))
    await sweeper_of(engine).sweep()
    answers, _ = await engine.end([running])
    assert answers == [Answer.APPLIED]
    assert ask(database_url, "select outcome::text, failures from app.outcomes") == [("completed", 0)]
    pulse.close()


async def test_e18_no_timer_ends_between_a_step_of_the_clock_and_the_next_round(
    engine: EngineHarness, database_url: str, clock: Clock
) -> None:
    watching = sweeper_of(engine)
    advancer = Advancer(engine.store, engine.session, engine.results)
    await engine.submit(TIMED)
    await watching.sweep()
    clock.advance(HOUR)
    assert await advancer.take_free(before=watching.latest()) == 0
    await watching.sweep()
    assert await advancer.take_free(before=watching.latest()) == 0
    assert ask(database_url, "select distinct until - app.now() from app.waits") == [(10 * MINUTE,)]


async def test_tf5_a_sweeper_that_slept_moves_nothing(engine: EngineHarness, database_url: str, clock: Clock) -> None:
    """To a process that was stopped with its machine the clock seems to have stepped; others beat meanwhile."""
    other = await engine.new_session()
    watching = sweeper_of(engine)
    await watching.sweep()
    await engine.submit(TIMED)
    pulse = engine.store.pulse()
    clock.advance(5 * MINUTE)
    pulse.beat(other, Holdings())
    clock.advance(4 * MINUTE)
    pulse.close()
    await watching.sweep()
    assert ask(database_url, "select distinct until - app.now() from app.waits") == [(MINUTE,)]


async def test_b9_a_node_that_gave_up_shows_no_results_of_an_older_generation(
    engine: EngineHarness, database_url: str
) -> None:
    job = await engine.submit(of("old"))
    await engine.end(await engine.claim(), body={"is": "old"})
    (job_id,) = ask(database_url, "select id from app.jobs")[0]
    node = '["work"]'
    assert "old" in str(ask(database_url, "select app.job_result(%s, %s)", job_id, node))
    ask(database_url, "update app.lanes set superseded = true")  # as a retry leaves them
    assert ask(database_url, "select app.job_result(%s, %s)", job_id, node) == [({"anabranch:outputs": {}},)]
    assert await engine.store.node_results(job.job_id, "work", -1) is None
    assert ask(database_url, "select * from app.node_value(%s, 'work', '{}')", job.job_id) == []


async def test_b8_a_claim_that_waits_holds_no_lane_that_it_cannot_take_from(
    engine: EngineHarness, database_url: str
) -> None:
    """A lane that is held back by a limit which is gone, with a task that is due; another lane is waited for."""
    await engine.submit(of("held"))
    await engine.end(await engine.claim(), Ended.RETRY)
    ask(database_url, "update app.lanes set held = 'key gone', ripe = false, due_at = now() - interval '1 s'")
    (held,) = ask(database_url, "select id from app.lanes")[0]
    await engine.submit(of("other"))
    with psycopg.connect(database_url) as locker:
        locker.execute("select from app.lanes where id <> %s for update", [held])
        claiming = asyncio.create_task(engine.claim())
        while ask(database_url, "select count(*) from pg_stat_activity where wait_event_type = 'Lock'") == [(0,)]:
            await asyncio.sleep(0.02)
        ask(database_url, "select from app.lanes where id = %s for update nowait", held)
        locker.rollback()
    assert [claim.lane.workflow for claim in await claiming] == ["other"]


@pytest.fixture
async def impatient(database_url: str) -> AsyncIterator[EngineHarness]:
    """An engine that waits for locks for a moment only: what it waits for here is never released."""
    async with open_harness(f"{database_url}?options=-c%20lock_timeout%3D50ms") as harness:
        yield harness


async def test_b10_a_job_that_a_handler_publishes_for_is_busy_and_not_unreachable(
    engine: EngineHarness, impatient: EngineHarness, database_url: str
) -> None:
    job = await engine.submit(fan_out(1))
    with psycopg.connect(database_url) as handler:
        handler.execute("select from app.jobs for share")
        with pytest.raises(Unavailable, match="is held by a task that publishes") as raised:
            await impatient.store.cancel(job.job_id, "test")
        assert raised.value.code == "job.busy"
        handler.rollback()
    assert await engine.store.cancel(job.job_id, "test") == (JobState.CANCELLED, True)


CHILD = Workflow("child", (make_node("inner", "do"),))


async def begin_children(engine: EngineHarness, count: int) -> str:
    """A job whose node runs a child job for each item, each of which has ended."""
    node = make_node("subs", kind=Kind.FAN_OUT, workflow="child", source=list(range(count)), params={"n": "{{ item }}"})
    nested = nest({"child": Declaration(CHILD), "parent": Declaration(Workflow("parent", (node,)))})
    declared = nested.declarations["parent"]
    submission = Submission(declared.workflow, {}, "test", 5, False, "c", parts=declared.parts)
    parent = await engine.store.submit(submission, engine.session)
    await engine.advance(parent.rights)
    child_jobs = ChildJobs(engine.store, Registry(), Definitions(engine.store), engine.session)
    for claim in await engine.claim(queues=["plan:child"]):
        spawned = await child_jobs.spawn(claim, {"n": claim.item})
        assert spawned
        await engine.advance(spawned.rights)
    return parent.job_id


async def test_b6_a_child_that_cannot_be_reported_keeps_no_other(
    engine: EngineHarness, database_url: str, clock: Clock
) -> None:
    parent = await begin_children(engine, 3)
    _, rights = await engine.end(await engine.claim())
    ask(database_url, """
        insert into app.claims (lane, idx, attempt, session, failures, crashes, first_at, claimed_at)
        select k.lane, k.idx, k.attempt, 0, 0, 0, now(), now() from app.children k where k.idx = 0""")  # fmt: skip
    await engine.advance(rights)
    reported = "select o.idx from app.outcomes o join app.lanes l on l.id = o.lane where l.node = 'subs' order by 1"
    assert ask(database_url, reported) == [(1,), (2,)]

    ask(database_url, "delete from app.claims where session = 0")
    clock.advance(MINUTE + SECOND)
    await engine.advance(await collect_children(engine.store, engine.session, engine.results))
    assert await engine.state(parent) is JobState.COMPLETED


def spoil(url: str, event: str, row: str) -> None:
    """Let a change of some row fail, as where its page is damaged."""
    ask(url, f"""create function app.spoil() returns trigger language plpgsql as $$
            begin raise exception 'it is damaged' using errcode = 'XX001'; end; $$;
        create trigger spoil before {event} for each row when ({row}) execute function app.spoil()""")  # fmt: skip


async def test_b6_a_child_that_cannot_be_taken_keeps_no_other(
    engine: EngineHarness, database_url: str, clock: Clock
) -> None:
    parent = await begin_children(engine, 3)
    _, rights = await engine.end(await engine.claim())
    spoil(database_url, "update of taken_until on app.children", "old.idx = 0")
    await engine.advance(rights)
    reported = "select o.idx from app.outcomes o join app.lanes l on l.id = o.lane where l.node = 'subs' order by 1"
    assert ask(database_url, reported) == [(1,), (2,)]

    ask(database_url, "drop function app.spoil() cascade")
    await engine.advance(await collect_children(engine.store, engine.session, engine.results))
    assert await engine.state(parent) is JobState.COMPLETED


async def test_b6_a_wait_that_cannot_end_keeps_no_other(engine: EngineHarness, database_url: str, clock: Clock) -> None:
    bad, *others = [
        await engine.submit(Workflow("w", (make_node("wait", kind=Kind.WAIT, duration_seconds=5),)), n=n)
        for n in range(3)
    ]
    spoil(database_url, "insert on app.rights", "new.purpose = 'wait' and new.job = 1")
    clock.advance(6 * SECOND)
    await engine.take_free()
    assert [await engine.state(job.job_id) for job in others] == [JobState.COMPLETED] * 2
    assert await engine.state(bad.job_id) is JobState.WAITING

    ask(database_url, "drop function app.spoil() cascade")
    clock.advance(MINUTE)
    await engine.take_free()
    assert await engine.state(bad.job_id) is JobState.COMPLETED


class FullResults(Results):
    """Results for which there is no room for a while."""

    def copy(self, *_: Any) -> tuple[str, str | None]:
        raise Unavailable("storage.unreachable", "the tier work could not be used")


async def test_a1_a_child_s_result_that_can_t_be_stored_now_is_no_failure_of_it(
    engine: EngineHarness, database_url: str, clock: Clock
) -> None:
    parent = await begin_children(engine, 2)
    _, rights = await engine.end(await engine.claim())
    full = FullResults(Folder(Path("unused"), "work"))
    await Advancer(engine.store, engine.session, full).advance(rights)
    assert await engine.state(parent) is JobState.RUNNING
    clock.advance(5 * MINUTE + SECOND)
    (reason, _) = (await engine.reads.job(parent)).waiting_for
    assert re.fullmatch(r"node subs: the result of its child job \w{12} can't be taken", reason)
    assert ask(database_url, "select job_id from app.stuck_jobs") == [(parent,)]
    await engine.advance(await collect_children(engine.store, engine.session, engine.results))
    assert await engine.state(parent) is JobState.COMPLETED
    assert ask(database_url, "select max(failures), max(attempt) from app.outcomes") == [(0, 1)]


async def test_a14_an_orphan_that_is_held_delays_no_other(
    engine: EngineHarness, impatient: EngineHarness, database_url: str
) -> None:
    parent = await begin_children(engine, 3)
    await engine.store.cancel(parent, "test")
    with psycopg.connect(database_url) as handler:
        handler.execute("select from app.jobs where id = (select min(job) from app.children) for share")
        assert await impatient.store.cancel_orphans() == 2
        handler.rollback()
    assert await engine.store.cancel_orphans() == 1


async def test_o4_a_sweeper_of_the_release_before_goes_on(engine: EngineHarness, database_url: str) -> None:
    """In a rolling upgrade its processes call the functions as they were."""
    parent = await begin_children(engine, 2)
    await engine.store.cancel(parent, "test")
    calls = [f"select app.begin_round({engine.session}, '5 s', 1000)", "select app.release_dead(1000)"]
    calls += ["select app.end_overdue('30 s', 1000)", f"select app.end_expired({engine.session}, 1000)"]
    calls += [f"select app.end_unserved({engine.session}, 1000)", "select app.tidy_due(1000)"]
    calls += ["select app.record_repeats(100)", "select app.heal_holds(1000)"]
    assert [ask(database_url, text) for text in calls] == [[(0,)]] * len(calls)
    assert [ask(database_url, "select app.cancel_orphan()") for _ in range(3)] == [[(True,)], [(True,)], [(False,)]]
