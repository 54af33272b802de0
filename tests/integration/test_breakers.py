"""Breakers of handlers and queues, on the engine driven by hand."""

from collections.abc import Iterator
from datetime import timedelta

import pytest

from anabranch.adapters.postgres.connect import connect
from anabranch.adapters.postgres.store.invariants import audit
from anabranch.adapters.postgres.store.vitals import PostgresVitals
from anabranch.canonical import Json
from anabranch.engine.model import Claim, Ended, JobState, LimitKind, SessionId, SessionKind
from anabranch.testing.clock import Clock
from anabranch.workflows.definition import Workflow
from anabranch.workflows.work import Breaker, Retry
from tests.support.engine import EngineHarness, fan_out
from tests.support.nodes import make_node

pytestmark = pytest.mark.postgres

OUTSIDE: Json = {"code": "handler.transient", "category": "transient", "message": "no answer"}
THREE = Breaker(failures=3, window_seconds=60, open_seconds=30)
DO = (LimitKind.HANDLER, "do")


@pytest.fixture(autouse=True)
def audited(database_url: str) -> Iterator[None]:
    """Whatever a test did, the engine's invariants hold: no job is stuck, and no lane."""
    yield
    assert [found for found in audit(database_url) if "_late_" not in found.check] == []


async def declare(engine: EngineHarness, *of: tuple[LimitKind, str], breaker: Breaker = THREE) -> SessionId:
    """A worker starts that has the handler, and declares these."""
    known = dict.fromkeys(of, breaker)
    minute = timedelta(seconds=60)
    return await engine.store.open_session(
        SessionKind.WORKER, ["default"], 100, minute, handlers={"do": "1", "join": "1"}, breakers=known
    )


async def break_all(engine: EngineHarness, claims: list[Claim], body: Json = OUTSIDE) -> None:
    _, rights = await engine.end(claims, Ended.RETRY, body, delay=timedelta(0))
    await engine.advance(rights)


async def open_breaker(engine: EngineHarness, tasks: int = 5) -> str:
    """A job whose tasks opened the breaker; each of them has failed once."""
    await declare(engine, DO)
    job = await engine.submit(fan_out(tasks))
    await break_all(engine, await engine.claim())
    assert await engine.claim() == []
    return job.job_id


async def test_nothing_begins_while_a_breaker_is_open_and_no_attempt_is_spent(
    engine: EngineHarness, clock: Clock
) -> None:
    job_id = await open_breaker(engine)
    other = await engine.submit(Workflow("other", (make_node("work", "join"),)))
    (claim,) = await engine.claim()
    assert claim.lane.handler == "join", "others go on"
    await engine.finish([claim])
    assert await engine.state(other.job_id) is JobState.COMPLETED
    for _ in range(5):
        await engine.let_pass(clock, timedelta(seconds=5))
        assert await engine.claim() == []
    (reason,) = (await engine.reads.job(job_id)).waiting_for
    assert reason.startswith("node work: the breaker of handler do is open: one task tries at ")
    assert reason.endswith("; no answer")
    job = (await engine.reads.find(job_id)).id
    tasks = await engine.reads.tasks(job, limit=10, after=None, node=None, status=None)
    assert {task.attempts for task in tasks} == {1}


async def test_one_task_probes_and_closes_it(engine: EngineHarness, clock: Clock) -> None:
    job_id = await open_breaker(engine)
    await engine.let_pass(clock, timedelta(seconds=30))
    (probe,) = await engine.claim()
    assert (probe.attempt, await engine.claim()) == (2, [])
    await engine.finish([probe])
    rest = await engine.claim()
    assert [claim.attempt for claim in rest] == [2] * 4
    await engine.finish(rest)
    await engine.finish(await engine.claim())
    assert await engine.state(job_id) is JobState.COMPLETED


async def test_a_probe_that_fails_opens_it_again(engine: EngineHarness, clock: Clock) -> None:
    await open_breaker(engine)
    await engine.let_pass(clock, timedelta(seconds=30))
    await break_all(engine, await engine.claim())
    await engine.let_pass(clock, timedelta(seconds=25))
    assert await engine.claim() == []
    await engine.let_pass(clock, timedelta(seconds=5))
    assert len(await engine.claim()) == 1


@pytest.mark.parametrize("how", ["handed back", "died", "said nothing of the outside"])
async def test_a_probe_that_says_nothing_is_followed_by_another(engine: EngineHarness, clock: Clock, how: str) -> None:
    await open_breaker(engine)
    await engine.let_pass(clock, timedelta(seconds=30))
    worker = await engine.new_session()
    (probe,) = await engine.claim(session=worker)
    if how == "handed back":
        await engine.end([probe], Ended.HANDED_BACK, session=worker)
    elif how == "died":
        await engine.store.end_session(worker, "killed")
        await engine.let_pass(clock, timedelta(seconds=5))
    else:
        await engine.end([probe], Ended.FAILED, {"code": "x", "category": "permanent", "message": ""}, session=worker)
        assert (await engine.submit(fan_out(1), number=2)).created, "and that job failed for good"
    assert len(await engine.claim()) == 1


@pytest.mark.parametrize(
    ("ended", "category", "code", "opens"),
    [
        (Ended.RETRY, "transient", "handler.transient", True),
        (Ended.RETRY, "throttled", "handler.throttled", True),
        (Ended.FAILED, "transient", "task.timed_out", True),
        (Ended.RETRY, "resource", "handler.resource", False),
        (Ended.RETRY, "error", "handler.error", False),
        (Ended.FAILED, "permanent", "handler.permanent", False),
        (Ended.CRASHED, "transient", "worker.died", False),
        (Ended.HANDED_BACK, "transient", "handler.transient", False),
    ],
)
async def test_only_failures_count_that_blame_the_outside(
    engine: EngineHarness, ended: Ended, category: str, code: str, opens: bool
) -> None:
    await declare(engine, DO)
    jobs = [await engine.submit(fan_out(1), number=number) for number in range(5)]
    claims = await engine.claim(3)
    await engine.end(claims, ended, {"code": code, "category": category, "message": ""}, delay=timedelta(hours=1))
    assert len(await engine.claim()) == (0 if opens else 2)
    assert len(jobs) == 5


async def test_failures_count_together_within_the_window_only(engine: EngineHarness, clock: Clock) -> None:
    await declare(engine, DO)
    await engine.submit(fan_out(10))
    for _ in range(2):
        await engine.end(await engine.claim(2), Ended.RETRY, OUTSIDE, delay=timedelta(hours=1))
        await engine.let_pass(clock, timedelta(seconds=65))
    assert len(await engine.claim(2)) == 2


async def test_a_breaker_of_a_queue_stops_all_its_handlers(engine: EngineHarness, clock: Clock) -> None:
    await declare(engine, (LimitKind.QUEUE, "default"))
    await engine.submit(fan_out(5))
    other = await engine.submit(Workflow("other", (make_node("work", "join"),)))
    claims = [claim for claim in await engine.claim() if claim.lane.handler == "do"]
    await break_all(engine, claims)
    await engine.submit(Workflow("third", (make_node("work", "join"),)))
    assert await engine.claim() == []
    assert other.created


async def test_e8_queue_and_total_timeouts_wait_with_the_tasks(engine: EngineHarness, clock: Clock) -> None:
    """The open time is no time of theirs."""
    await declare(engine, DO, breaker=Breaker(failures=3, window_seconds=60, open_seconds=300))
    job = await engine.submit(
        fan_out(
            4, queue_timeout=timedelta(seconds=60), total_timeout=timedelta(seconds=100), retry=Retry(max_attempts=9)
        )
    )
    await break_all(engine, await engine.claim(3))
    assert (await engine.let_pass(clock, timedelta(seconds=300))).released == 0
    (probe,) = await engine.claim()
    await engine.sweep()
    await engine.finish([probe])
    rest = await engine.claim()
    assert len(rest) == 3
    for _ in range(10):
        clock.advance(timedelta(seconds=5))
        assert (await engine.sweep()).released == 0
    await engine.finish(rest)
    await engine.finish(await engine.claim())
    assert await engine.state(job.job_id) is JobState.COMPLETED


async def test_e8_total_time_goes_on_when_the_breaker_has_closed(engine: EngineHarness, clock: Clock) -> None:
    await declare(engine, DO)
    job = await engine.submit(fan_out(3, total_timeout=timedelta(seconds=60), retry=Retry(max_attempts=9)))
    await break_all(engine, await engine.claim())
    await engine.let_pass(clock, timedelta(seconds=30))
    await engine.finish(await engine.claim())
    await engine.let_pass(clock, timedelta(seconds=70))
    await engine.take_free()
    assert await engine.state(job.job_id) is JobState.FAILED


async def test_e1_a_job_whose_workers_are_gone_ends_by_its_queue_timeout_though_nobody_probes(
    engine: EngineHarness, clock: Clock
) -> None:
    await declare(engine, DO)
    job = await engine.submit(fan_out(5, queue_timeout=timedelta(seconds=60)))
    await break_all(engine, await engine.claim())
    await engine.let_pass(clock, timedelta(seconds=80))
    assert await engine.state(job.job_id) is JobState.RUNNING, "the time in which nothing may begin does not count"
    await engine.let_pass(clock, timedelta(seconds=20))
    await engine.take_free()
    assert await engine.state(job.job_id) is JobState.FAILED


async def test_e8_tasks_that_were_not_let_go_yet_when_a_breaker_closed_do_not_expire(
    engine: EngineHarness, database_url: str, clock: Clock
) -> None:
    """A report that closes a breaker lets a thousand lanes go, and a sweep the others."""
    await declare(engine, DO, breaker=Breaker(failures=3, window_seconds=60, open_seconds=300))
    await engine.submit(fan_out(3, total_timeout=timedelta(seconds=100), retry=Retry(max_attempts=9)))
    await break_all(engine, await engine.claim())
    await engine.let_pass(clock, timedelta(seconds=200))
    with connect(database_url, None) as admin:
        admin.execute("update app.breakers set is_open = false, closed_at = app.now()")
    assert (await engine.sweep()).released == 0
    assert len(await engine.claim()) == 3


async def test_a_probe_is_noted_only_where_a_task_is_given_out(engine: EngineHarness, clock: Clock) -> None:
    """What is claimed together has some megabytes: what does not fit is the next claim's."""
    await declare(engine, DO)
    large = "x" * 5_000_000
    await engine.submit(fan_out(3), large=large)
    await break_all(engine, await engine.claim())
    await engine.submit(Workflow("other", (make_node("work", "join"),)), priority=1, large=large)
    await engine.let_pass(clock, timedelta(seconds=30))
    assert [claim.lane.handler for claim in await engine.claim()] == ["join"]
    assert [claim.lane.handler for claim in await engine.claim()] == ["do"]


async def test_e1_what_is_declared_no_longer_holds_nothing(engine: EngineHarness, clock: Clock) -> None:
    await open_breaker(engine)
    await declare(engine)
    await engine.let_pass(clock, timedelta(seconds=5))
    assert len(await engine.claim()) == 5


async def test_health_and_metrics_show_an_open_breaker_as_long_as_it_stops_anything(
    engine: EngineHarness, database_url: str, clock: Clock
) -> None:
    signs = PostgresVitals(database_url, name="test signs")
    await signs.open()
    try:
        await declare(engine, DO)
        assert (await signs.read_vitals()).breakers == ()
        assert [tuple(one) for one in (await signs.gauges()).breakers] == [("handler", "do", False)]
        job_id = await open_breaker(engine)
        (shown,) = (await signs.read_vitals()).breakers
        assert (shown.kind, shown.name, shown.message) == ("handler", "do", "no answer")
        assert [tuple(one) for one in (await signs.gauges()).breakers] == [("handler", "do", True)]
        await engine.let_pass(clock, timedelta(seconds=30))
        assert len((await signs.read_vitals()).breakers) == 1, "its tasks wait for one that tries"
        await engine.store.cancel(job_id, "enough")
        assert (await signs.read_vitals()).breakers == (), "no task is left that could try"
        assert [tuple(one) for one in (await signs.gauges()).breakers] == [("handler", "do", False)]
    finally:
        await signs.close()
