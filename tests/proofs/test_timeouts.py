"""Four limits on a task's time, each by the database's clock and none in place of another (E8, E18)."""

from datetime import timedelta

import pytest

from anabranch.adapters.postgres.connect import connect
from anabranch.engine.model import Answer, Claim, Ended, InHand, JobState, SessionId
from anabranch.engine.ports import Holdings
from anabranch.engine.read_models import TaskDetail
from anabranch.testing.clock import Clock
from anabranch.workflows.definition import Workflow
from anabranch.workflows.nodes import OnFailure, Spread
from anabranch.workflows.work import Retry
from tests.support.engine import EngineHarness
from tests.support.nodes import make_node

pytestmark = [pytest.mark.postgres, pytest.mark.usefixtures("clock")]

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)


def of(count: int = 1, **more: object) -> Workflow:
    return Workflow("timed", (make_node("work", "do", spread=Spread.FIXED, count=count, **more),))  # type: ignore[arg-type]


async def let_pass(engine: EngineHarness, clock: Clock, time: timedelta, held: list[Claim], *, started: bool) -> None:
    """Time goes by, the worker beats with what it has in hand, and the sweeper is at work."""
    pulse = engine.store.pulse()
    for _ in range(int(time / timedelta(seconds=5))):
        clock.advance(timedelta(seconds=5))
        pulse.beat(engine.session, Holdings([InHand(claim.fence, started) for claim in held]))
        await engine.sweep()
    pulse.close()


async def settle(engine: EngineHarness) -> None:
    """Spend the rights that the sweeper made."""
    await engine.advance(await engine.store.take_rights(engine.session, 10))


async def tasks_of(engine: EngineHarness, job_id: str) -> list[TaskDetail]:
    job = (await engine.reads.job(job_id)).job
    return await engine.reads.tasks(job.id, limit=100, after=None, node="work", status=None)


async def test_e8_tasks_that_nobody_takes_in_time_fail(engine: EngineHarness, clock: Clock) -> None:
    job = await engine.submit(of(3, queue_timeout=MINUTE, on_failure=OnFailure.FINISH))
    (served,) = await engine.claim(1)
    await let_pass(engine, clock, MINUTE, [served], started=True)
    assert [task.status for task in await tasks_of(engine, job.job_id)] == ["running", "ready", "ready"]

    await let_pass(engine, clock, timedelta(seconds=5), [served], started=True)
    assert [task.status for task in await tasks_of(engine, job.job_id)] == ["running", "failed", "failed"]
    await engine.finish([served])
    await settle(engine)
    found = (await engine.reads.job(job.job_id)).job
    assert (found.state, found.error and found.error.code) == (JobState.FAILED, "task.queue_timeout")


async def test_e8_a_window_that_is_full_is_served_and_fails_nobody(engine: EngineHarness, clock: Clock) -> None:
    job = await engine.submit(of(3, queue_timeout=MINUTE, max_running=1, timeout=HOUR))
    held = await engine.claim()
    await let_pass(engine, clock, 3 * MINUTE, held, started=True)
    assert [task.status for task in await tasks_of(engine, job.job_id)] == ["running", "ready", "ready"]


async def test_e8_waiting_in_the_queue_is_not_running(engine: EngineHarness, clock: Clock) -> None:
    """Nor is waiting in a worker's hand, before it is started."""
    await engine.submit(of(timeout=MINUTE, total_timeout=4 * MINUTE))
    await let_pass(engine, clock, 5 * MINUTE, [], started=False)
    (claim,) = await engine.claim()
    await let_pass(engine, clock, 3 * MINUTE, [claim], started=False)
    assert (await engine.end([claim]))[0] == [Answer.APPLIED]


async def test_e8_a_worker_has_a_grace_to_end_what_runs_too_long(engine: EngineHarness, clock: Clock) -> None:
    await engine.submit(of(timeout=MINUTE))
    (claim,) = await engine.claim()
    await let_pass(engine, clock, timedelta(seconds=95), [claim], started=True)
    assert await engine.claim() == []
    await let_pass(engine, clock, timedelta(seconds=5), [claim], started=True)

    assert (await engine.end([claim]))[0] == [Answer.STALE]
    clock.advance(MINUTE)
    (again,) = await engine.claim()
    assert (again.key, again.attempt, again.failures) == (claim.key, 2, 1)


async def test_e9_running_too_long_counts_as_an_attempt(engine: EngineHarness, clock: Clock) -> None:
    job = await engine.submit(of(timeout=MINUTE, retry=Retry(max_attempts=1)))
    held = await engine.claim()
    await let_pass(engine, clock, 2 * MINUTE, held, started=True)
    await settle(engine)
    found = (await engine.reads.job(job.job_id)).job
    assert (found.state, found.error and found.error.code) == (JobState.FAILED, "task.timed_out")


async def test_e8_the_total_counts_from_the_first_attempt(engine: EngineHarness, clock: Clock) -> None:
    job = await engine.submit(of(total_timeout=10 * MINUTE, timeout=HOUR))
    first = await engine.claim()
    await let_pass(engine, clock, 6 * MINUTE, first, started=True)
    await engine.end(first, Ended.RETRY)
    second = await engine.claim()
    await let_pass(engine, clock, 3 * MINUTE, second, started=True)
    assert await engine.state(job.job_id) is JobState.RUNNING

    await let_pass(engine, clock, 2 * MINUTE, second, started=True)
    await settle(engine)
    found = (await engine.reads.job(job.job_id)).job
    assert (found.state, found.error and found.error.code) == (JobState.FAILED, "task.total_timeout")


async def test_e18_nothing_ends_while_the_databases_clock_stands(engine: EngineHarness, clock: Clock) -> None:
    job = await engine.submit(of(2, timeout=timedelta(milliseconds=1), queue_timeout=timedelta(milliseconds=1)))
    (claim,) = await engine.claim(1)
    pulse = engine.store.pulse()
    pulse.beat(engine.session, Holdings([InHand(claim.fence, started=True)]))
    pulse.close()
    assert (await engine.sweep()).released == 0
    assert [task.status for task in await tasks_of(engine, job.job_id)] == ["running", "ready"]


async def test_e8_the_total_ends_a_task_that_waits_for_its_next_attempt(engine: EngineHarness, clock: Clock) -> None:
    """Its worker died and no other came: the job must not wait for ever."""
    job = await engine.submit(of(total_timeout=MINUTE))
    await engine.end(await engine.claim(), Ended.RETRY)
    await let_pass(engine, clock, 5 * MINUTE, [], started=False)
    await settle(engine)
    assert await engine.state(job.job_id) is JobState.FAILED


async def test_e3_a_report_after_the_sweeper_ended_the_attempt_for_good_is_stale(
    engine: EngineHarness, clock: Clock
) -> None:
    await engine.submit(of(total_timeout=MINUTE, timeout=HOUR))
    held = await engine.claim()
    await let_pass(engine, clock, 2 * MINUTE, held, started=True)
    assert (await engine.end(held))[0] == [Answer.STALE]


async def test_e9_the_next_attempt_after_a_timeout_waits_as_its_node_says(engine: EngineHarness, clock: Clock) -> None:
    await engine.submit(of(timeout=MINUTE, retry=Retry(max_attempts=3, initial_delay=timedelta(minutes=4))))
    held = await engine.claim()
    await let_pass(engine, clock, timedelta(seconds=100), held, started=True)
    assert await engine.claim() == []


async def test_an_attempt_that_the_sweeper_ended_keeps_when_it_started(
    engine: EngineHarness, database_url: str, clock: Clock
) -> None:
    await engine.submit(of(timeout=MINUTE))
    held = await engine.claim()
    await let_pass(engine, clock, 2 * MINUTE, held, started=True)
    with connect(database_url, None) as admin:
        assert admin.execute("select ended::text, started_at is not null from app.attempts").fetchall() == [
            ("timed_out", True)
        ]


async def test_e7_a_cancelled_job_still_lists_all_of_its_tasks(engine: EngineHarness, clock: Clock) -> None:
    job = await engine.submit(of(3))
    await engine.end((await engine.claim())[:1], Ended.RETRY, delay=HOUR)
    await engine.store.cancel(job.job_id, "test")
    await let_pass(engine, clock, timedelta(seconds=5), [], started=False)
    assert [task.index for task in await tasks_of(engine, job.job_id)] == [0, 1, 2]


async def test_e22_a_retry_goes_before_the_fresh_tasks_of_a_less_urgent_job(engine: EngineHarness) -> None:
    retried = await engine.submit(of(), priority=5, name="retried")
    await engine.end(await engine.claim(), Ended.HANDED_BACK)
    urgent = await engine.submit(of(), priority=1, name="urgent")
    await engine.submit(of(5), priority=9, name="later")
    assert {claim.lane.job_id for claim in await engine.claim(2)} == {urgent.job_id, retried.job_id}


async def test_e21_a_session_that_beats_keeps_what_it_holds(engine: EngineHarness, clock: Clock) -> None:
    await engine.submit(of(timeout=HOUR))
    held = await engine.claim()
    other: SessionId = await engine.new_session()
    await let_pass(engine, clock, 10 * MINUTE, held, started=True)
    assert (await engine.end(held))[0] == [Answer.APPLIED]
    assert (await engine.end(held, session=other))[0] == [Answer.STALE]
