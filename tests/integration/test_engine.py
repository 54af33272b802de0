import asyncio
import json
import os
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import timedelta

import psycopg
import pytest

from anabranch.adapters.postgres.schema.migrate import reset
from anabranch.adapters.postgres.store.invariants import audit
from anabranch.engine.model import Answer, Ended, InHand, JobState, NodeState, SessionKind
from anabranch.engine.ports import Holdings, SessionGone
from anabranch.engine.submitting.submission import IdempotencyKey, Submission
from anabranch.errors import Conflict
from anabranch.testing.clock import Clock
from anabranch.workflows.definition import Workflow
from anabranch.workflows.nodes import OnFailure, Spread
from tests.support.engine import EngineHarness, fan_out
from tests.support.nodes import make_node

pytestmark = pytest.mark.postgres


@pytest.fixture(autouse=True)
def audited(database_url: str) -> Iterator[None]:
    """Whatever a test did, the engine's invariants hold."""
    yield
    assert [found for found in audit(database_url) if "_late_" not in found.check] == []


async def test_e2_a_job_has_its_nodes_and_event_from_the_first_moment(engine: EngineHarness, database_url: str) -> None:
    job = await engine.submit(fan_out(2))
    with psycopg.connect(database_url) as connection:
        events = connection.execute("select seq, kind from app.events order by seq").fetchall()
    assert await engine.nodes(job.job_id) == {"work": NodeState.RUNNING, "join": NodeState.PENDING}
    assert events == [(1, "job.submitted"), (2, "job.running"), (3, "node.running")]


async def test_e3_a_late_report_of_an_older_attempt_changes_nothing(
    engine: EngineHarness, database_url: str, clock: Clock
) -> None:
    job = await engine.submit(fan_out(1))
    zombie = await engine.new_session()
    (late,) = await engine.claim(session=zombie)
    await engine.store.end_session(zombie, "test")
    await engine.sweep()
    (current,) = await engine.claim()

    answers, rights = await engine.end([late], body="late", session=zombie)
    assert (answers, rights) == ([Answer.STALE], [])
    await engine.finish([current], body="current")
    (task,) = await _work(engine, job.job_id)
    assert (task.result, task.attempts) == ("current", 2)
    with psycopg.connect(database_url) as connection:
        assert connection.execute("select ended::text, stale_at is not null from app.attempts").fetchall() == [
            ("lost", True)
        ]


async def test_e4_a_second_report_of_the_same_attempt_is_a_duplicate(engine: EngineHarness) -> None:
    job = await engine.submit(fan_out(2))
    claims = await engine.claim()
    assert (await engine.end(claims[:1], body="first"))[0] == [Answer.APPLIED]
    assert (await engine.end(claims[:1], body="second"))[0] == [Answer.DUPLICATE]
    assert [task.result for task in await _work(engine, job.job_id)] == ["first", None]


async def test_e5_the_database_keeps_terminal_states(engine: EngineHarness, database_url: str) -> None:
    job = await engine.submit(fan_out(0))
    await engine.finish(await engine.claim())
    assert await engine.state(job.job_id) is JobState.COMPLETED
    with psycopg.connect(database_url, autocommit=True) as connection:
        for table in ("jobs", "nodes"):
            with pytest.raises(psycopg.errors.CheckViolation, match="stays so"):
                connection.execute(f"update app.{table} set state = 'running'")


async def test_e6_only_the_last_task_moves_the_job_on(engine: EngineHarness) -> None:
    job = await engine.submit(fan_out(3))
    first, second, third = await engine.claim()
    assert (await engine.end([third, first]))[1] == []
    answers, rights = await engine.end([second])
    assert (answers, len(rights)) == ([Answer.APPLIED], 1)

    await engine.advance(rights)
    assert await engine.nodes(job.job_id) == {"work": NodeState.COMPLETED, "join": NodeState.RUNNING}
    await engine.finish(await engine.claim())
    assert await engine.state(job.job_id) is JobState.COMPLETED


async def test_e6_of_many_last_reports_at_once_exactly_one_makes_the_right(engine: EngineHarness) -> None:
    await engine.submit(fan_out(8))
    claims = await engine.claim()
    answers = await asyncio.gather(*(engine.end([claim]) for claim in claims))
    assert sum(len(rights) for _, rights in answers) == 1


async def test_e6_a_right_whose_holder_died_is_taken_by_another(engine: EngineHarness) -> None:
    job = await engine.submit(fan_out(1))
    dying = await engine.new_session()
    (claim,) = await engine.claim(session=dying)
    assert len((await engine.end([claim], session=dying))[1]) == 1
    assert await engine.store.take_rights(engine.session, 10) == []

    await engine.store.end_session(dying, "test")
    await engine.advance(await engine.store.take_rights(engine.session, 10))
    assert (await engine.nodes(job.job_id))["join"] is NodeState.RUNNING


async def test_e6_a_right_is_spent_once(engine: EngineHarness) -> None:
    await engine.submit(fan_out(1))
    _, rights = await engine.end(await engine.claim())
    spent = await asyncio.gather(*(engine.advance(rights) for _ in range(5)))
    assert sum(spent) == 1


async def test_e1_one_failed_task_ends_the_job_and_its_siblings_report_in_vain(engine: EngineHarness) -> None:
    job = await engine.submit(fan_out(4))
    first, second, *_ = await engine.claim(3)
    _, rights = await engine.end([first], Ended.FAILED)
    await engine.advance(rights)
    assert await engine.state(job.job_id) is JobState.FAILED
    assert await engine.nodes(job.job_id) == {"work": NodeState.FAILED, "join": NodeState.SKIPPED}
    assert (await engine.end([second]))[0] == [Answer.STALE]
    assert await engine.claim() == []
    statuses = [task.status for task in await _work(engine, job.job_id)]
    assert statuses == ["failed", "cancelled", "running", "cancelled"]


async def test_on_failure_continue_goes_on_with_what_completed(engine: EngineHarness) -> None:
    job = await engine.submit(fan_out(2, on_failure=OnFailure.CONTINUE))
    first, second = await engine.claim()
    await engine.end([first], Ended.FAILED)
    await engine.finish([second], body="kept")
    (join,) = await engine.claim()
    page = await engine.store.node_results(job.job_id, "work", -1)
    assert page is not None
    assert [json.loads(line)["status"] for line in page.lines.split("\n")] == ["failed", "completed"]
    await engine.finish([join])
    assert await engine.state(job.job_id) is JobState.COMPLETED


async def test_e11_a_fan_out_of_nothing_succeeds(engine: EngineHarness) -> None:
    job = await engine.submit(fan_out(0))
    assert await engine.nodes(job.job_id) == {"work": NodeState.COMPLETED, "join": NodeState.RUNNING}
    assert await engine.store.node_results(job.job_id, "work", -1) is None


async def test_e15_the_same_request_is_the_same_job(engine: EngineHarness) -> None:
    first = await engine.submit(fan_out(1), a=1, b=[2])
    again = await engine.submit(fan_out(1), b=[2], a=1)
    other = await engine.submit(fan_out(1), a=1, b=[3])
    foreign = await engine.submit(fan_out(1), scope="other", a=1, b=[2])
    assert (again.job_id, again.created) == (first.job_id, False)
    assert len({first.job_id, other.job_id, foreign.job_id}) == 3


async def test_e15_a_hundred_submissions_at_once_are_one_job(engine: EngineHarness) -> None:
    answers = await asyncio.gather(*(engine.submit(fan_out(1), a=1) for _ in range(100)))
    assert len({answer.job_id for answer in answers}) == 1
    assert sum(answer.created for answer in answers) == 1


async def test_e15_a_job_that_failed_can_be_run_again(engine: EngineHarness) -> None:
    first = await engine.submit(fan_out(1))
    _, rights = await engine.end(await engine.claim(), Ended.FAILED)
    await engine.advance(rights)
    second = await engine.submit(fan_out(1))
    third = await engine.submit(fan_out(1), rerun=True)
    assert second.created
    assert len({first.job_id, second.job_id, third.job_id}) == 3


async def test_e15_a_completed_job_of_a_workflow_that_says_rerun_answers_for_no_other(engine: EngineHarness) -> None:
    """One that still runs does, and so does what a key was answered with."""
    again = replace(fan_out(1), rerun=True)
    key = IdempotencyKey("k", "request", timedelta(hours=1))
    asked = Submission(again, {}, "test", 5, rerun=False, correlation_id="c", key=key)
    first = await engine.submit(again)
    keyed = await engine.store.submit(asked, engine.session)
    assert [keyed.job_id, await engine.store.find_repeats([replace(asked, key=None)])] == [first.job_id, [True]]

    await engine.finish(await engine.claim())
    await engine.finish(await engine.claim())
    assert await engine.state(first.job_id) is JobState.COMPLETED
    assert await engine.store.find_repeats([replace(asked, key=None)]) == [False]
    second = await engine.submit(again)
    assert (second.created, second.job_id == first.job_id) == (True, False)
    assert (await engine.store.submit(asked, engine.session)).job_id == first.job_id


async def test_e9_a_retried_task_waits_and_keeps_its_count(engine: EngineHarness, clock: Clock) -> None:
    await engine.submit(fan_out(1))
    (first,) = await engine.claim()
    await engine.end([first], Ended.RETRY, delay=timedelta(seconds=30))
    assert await engine.claim() == []
    clock.advance(timedelta(seconds=31))
    (second,) = await engine.claim()
    assert (second.key, second.attempt, second.failures) == (first.key, 2, 1)


async def test_w3_a_task_handed_back_costs_no_attempt(engine: EngineHarness) -> None:
    await engine.submit(fan_out(1))
    (first,) = await engine.claim()
    await engine.end([first], Ended.HANDED_BACK)
    (second,) = await engine.claim()
    assert (second.attempt, second.failures, second.crashes) == (2, 0, 0)


async def test_e21_a_silent_session_is_marked_dead_and_its_tasks_are_taken_over(
    engine: EngineHarness, clock: Clock
) -> None:
    await engine.submit(fan_out(2))
    silent = await engine.new_session()
    started, waiting = await engine.claim(session=silent)
    pulse = engine.store.pulse()
    assert pulse.beat(silent, Holdings([InHand(started.fence, started=True)])) == []
    swept = await engine.let_pass(clock, timedelta(seconds=70))
    assert (swept.expired, swept.released) == (1, 2)

    assert pulse.beat(silent, Holdings()) is None
    with pytest.raises(SessionGone):
        await engine.claim(session=silent)
    pulse.close()
    again = {claim.key: claim.crashes for claim in await engine.claim()}
    assert again == {started.key: 1, waiting.key: 0}


async def test_e7_a_cancelled_job_dispatches_nothing_and_its_running_tasks_are_told(engine: EngineHarness) -> None:
    job = await engine.submit(fan_out(3))
    running, *_ = await engine.claim(1)
    assert await engine.store.cancel(job.job_id, "test") == (JobState.CANCELLED, True)
    assert await engine.claim() == []
    pulse = engine.store.pulse()
    told = pulse.beat(engine.session, Holdings([InHand(running.fence, started=True)]))
    pulse.close()
    assert told == [running.fence]
    assert (await engine.end([running]))[0] == [Answer.STALE]
    assert await engine.nodes(job.job_id) == {"work": NodeState.CANCELLED, "join": NodeState.CANCELLED}
    assert await engine.store.cancel(job.job_id, "again") == (JobState.CANCELLED, False)


async def test_e12_a_wait_ends_with_the_doorbell_or_when_it_is_woken(engine: EngineHarness) -> None:
    with closing(engine.store.pulse(["default"])) as pulse:
        await engine.store.ring(["default"])
        assert await asyncio.to_thread(pulse.wait, timedelta(hours=1)) is True
        waiting = asyncio.create_task(asyncio.to_thread(pulse.wait, timedelta(hours=1)))
        pulse.wake()
        assert await waiting is False


async def test_a_claim_whose_reply_was_lost_is_given_back(engine: EngineHarness, clock: Clock) -> None:
    await engine.submit(fan_out(3))
    kept, *_lost = await engine.claim()
    in_hand = [InHand(kept.fence, started=False)]
    pulse = engine.store.pulse()
    pulse.beat(engine.session, Holdings(in_hand))
    assert await engine.claim() == []
    clock.advance(timedelta(seconds=21))
    pulse.beat(engine.session, Holdings(in_hand))
    pulse.close()
    assert sorted(claim.attempt for claim in await engine.claim()) == [2, 2]


async def test_e6_a_report_whose_reply_was_lost_gives_its_right_when_it_is_repeated(engine: EngineHarness) -> None:
    await engine.submit(fan_out(1))
    claims = await engine.claim()
    _, lost = await engine.end(claims)
    answers, rights = await engine.end(claims)
    assert (answers, rights) == ([Answer.DUPLICATE], lost)


async def test_e22_tasks_that_are_due_again_wait_for_more_urgent_ones(engine: EngineHarness) -> None:
    await engine.submit(fan_out(5), priority=9, name="later")
    await engine.end(await engine.claim(), Ended.HANDED_BACK)
    urgent = await engine.submit(fan_out(2), priority=1, name="urgent")
    assert [claim.lane.job_id for claim in await engine.claim(2)] == [urgent.job_id] * 2


async def test_e13_what_was_due_in_a_closed_lane_is_removed(engine: EngineHarness, database_url: str) -> None:
    job = await engine.submit(fan_out(5))
    await engine.end(await engine.claim(), Ended.HANDED_BACK)
    await engine.store.cancel(job.job_id, "test")
    await engine.sweep()
    with psycopg.connect(database_url) as connection:
        assert connection.execute("select count(*) from app.due").fetchone() == (0,)


async def test_e7_a_cancel_and_last_reports_at_once_do_not_deadlock(engine: EngineHarness) -> None:
    wide = Workflow("wide", tuple(make_node(f"n{number}", "h") for number in range(8)))
    for round_ in range(5):
        job = await engine.submit(wide, round=round_)
        claims = await engine.claim()
        ends = [engine.end([claim]) for claim in claims]
        await asyncio.gather(*ends, engine.store.cancel(job.job_id, "test"))
        assert await engine.state(job.job_id) is JobState.CANCELLED


async def test_e22_the_more_urgent_job_is_claimed_first(engine: EngineHarness) -> None:
    await engine.submit(fan_out(5), priority=5, name="later")
    urgent = await engine.submit(fan_out(1), priority=1, name="urgent")
    (claim,) = await engine.claim(1)
    assert claim.lane.job_id == urgent.job_id


async def test_e22_a_large_job_does_not_starve_a_small_one(engine: EngineHarness) -> None:
    large = await engine.submit(fan_out(10_000), name="large")
    small = await engine.submit(fan_out(2), name="small")
    taken = [(await engine.claim(1))[0].lane.job_id for _ in range(4)]
    assert taken == [large.job_id, small.job_id, large.job_id, small.job_id]


async def test_a_window_bounds_how_many_run_at_once(engine: EngineHarness) -> None:
    await engine.submit(fan_out(5, max_running=2))
    claims = await engine.claim()
    assert len(claims) == 2
    await engine.end(claims[:1])
    assert len(await engine.claim()) == 1
    await engine.end(claims[1:], Ended.HANDED_BACK)
    assert len(await engine.claim()) == 1


async def test_match_previous_has_the_same_indexes_and_lineage(engine: EngineHarness) -> None:
    lineage = Workflow(
        "lineage",
        (
            make_node("first", "a", spread=Spread.FIXED, count=3),
            make_node("second", "b", ("first",), Spread.MATCH_PREVIOUS, lineage=True),
        ),
    )
    await engine.submit(lineage)
    for claim in await engine.claim():
        await engine.finish([claim], body={"of": claim.index})
    assert [(claim.index, claim.predecessor) for claim in await engine.claim()] == [
        (0, [{"of": 0}]),
        (1, [{"of": 1}]),
        (2, [{"of": 2}]),
    ]


async def test_two_branches_that_end_at_once_open_their_join_once(engine: EngineHarness) -> None:
    diamond = Workflow("diamond", (make_node("a", "h"), make_node("b", "h"), make_node("c", "h", ("a", "b"))))
    job = await engine.submit(diamond)
    ended = [await engine.end([claim]) for claim in await engine.claim()]
    await asyncio.gather(*(engine.advance(rights) for _, rights in ended))
    assert await engine.nodes(job.job_id) == {
        "a": NodeState.COMPLETED,
        "b": NodeState.COMPLETED,
        "c": NodeState.RUNNING,
    }
    assert len(await engine.claim()) == 1


async def _work(engine: EngineHarness, job_id: str) -> list:  # type: ignore[type-arg]  # rows of any task
    job = (await engine.reads.job(job_id)).job
    return await engine.reads.tasks(job.id, limit=100, after=None, node="work", status=None)


async def test_e3_a_reset_waits_for_the_living_and_gives_no_session_number_twice(
    engine: EngineHarness, database_url: str
) -> None:
    with Clock(database_url) as clock:
        with pytest.raises(Conflict, match=rf"worker {os.getpid()} on ") as caught:
            await asyncio.to_thread(reset, database_url)
        assert caught.value.code == "database.in_use"
        clock.advance(timedelta(hours=1))
        await asyncio.to_thread(reset, database_url)
    assert await engine.store.open_session(SessionKind.WORKER, [], 1, timedelta(seconds=3)) != engine.session
    pulse = engine.store.pulse()
    assert pulse.beat(engine.session, Holdings()) is None
    pulse.close()
