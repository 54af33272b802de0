"""Between a worker and PostgreSQL replies are lost, requests are lost, and nothing gets through for a while."""

import asyncio
import json
import time
from collections.abc import AsyncIterator

import psycopg
import pytest

from tests.support.crew import STEADY_LEASE, Member, Stage
from tests.support.proxy import Lose, Proxy, Row
from tests.support.waiting import PATIENCE_SECONDS, wait_until_async

pytestmark = pytest.mark.postgres
LEASE = 3.0
SWEEP = 5.0
WAITING = "select pid from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()"


@pytest.fixture
async def proxy(stage: Stage) -> AsyncIterator[Proxy]:
    async with Proxy(stage.url) as opened:
        yield opened


async def start_behind(stage: Stage, proxy: Proxy, lease: float = LEASE) -> Member:
    """An orchestrator, and a worker that reaches the database through the proxy."""
    worker = stage.crew.start("worker", url=proxy.url, lease_seconds=lease)
    await stage.crew.start_ready("orchestrator")
    await worker.started()
    return worker


def has_claims(row: Row) -> bool:
    return row[-1] is not None


def has_reports(row: Row) -> bool:
    return "applied" in str(row[0])


def has_rights(row: Row) -> bool:
    return row[1] != "{}"


async def test_e12_claims_whose_reply_was_lost_go_back_free_of_charge(stage: Stage, proxy: Proxy) -> None:
    traps = [proxy.lose(name, Lose.REPLY, times=2, when=has_claims) for name in ("claim", "turn")]
    worker = await start_behind(stage, proxy, STEADY_LEASE)
    job_id = await stage.submit("mixed", quick=40, plain=20)
    await asyncio.gather(*(asyncio.wait_for(trap.sprung.wait(), PATIENCE_SECONDS) for trap in traps))
    job = await stage.finish(job_id)
    replies = [json.loads(str(call.row[-1])) for trap in traps for call in trap.caught]
    lost = sum(len(reply["tasks"]) + sum(count for _, _, count, _ in reply["fresh"]) for reply in replies)
    assert stage.query("select count(*) from app.attempts where ended = 'lost'") == [(lost,)]
    assert all(task.failures == task.crashes == 0 for task in await stage.tasks(job, "work"))
    assert len(stage.noted("ended")) == 60
    assert len(worker.said("session.began")) == 1


async def test_e4_a_report_whose_reply_was_lost_is_repeated_and_answered_duplicate(stage: Stage, proxy: Proxy) -> None:
    trap = proxy.lose("turn", Lose.REPLY, times=5, when=has_reports)
    worker = await start_behind(stage, proxy)
    job_id = await stage.submit("mixed", quick=60, plain=20)
    job = await stage.finish(job_id)
    assert trap.sprung.is_set()
    reported = sum(str(call.row[0]).count("applied") for call in trap.caught)
    # A report that is lost twice is answered so twice.
    assert proxy.count_answers("turn", "duplicate") >= reported >= 5
    assert worker.said("report.stale") == []
    assert job.nodes[0].tasks.completed == 80
    # A result that was lost on its way is not worked out again.
    assert len(stage.noted("ended")) == 80


@pytest.mark.slow
async def test_e4_requests_that_never_arrive_are_sent_again(stage: Stage, proxy: Proxy) -> None:
    traps = [
        proxy.lose(name, Lose.REQUEST, times=3) for name in ("claim", "turn", "load_right", "apply", "ring", "beat")
    ]
    await start_behind(stage, proxy)
    job_id = await stage.submit("mixed", quick=60, plain=20)
    await stage.finish(job_id)
    assert len(stage.noted("ended")) == 80
    assert sum(trap.left for trap in traps) < 18


async def test_e6_a_right_whose_holder_never_heard_of_it_is_taken_over(stage: Stage, proxy: Proxy) -> None:
    trap = proxy.lose("turn", Lose.REPLY, when=has_rights)
    await start_behind(stage, proxy)
    job_id = await stage.submit("chain")
    await asyncio.wait_for(trap.sprung.wait(), PATIENCE_SECONDS)
    await stage.until(job_id, lambda job: job.nodes[1].tasks.total)
    await stage.finish(job_id)
    assert stage.query("select count(*) from app.outcomes") == [(60,)]


@pytest.mark.slow
@pytest.mark.parametrize("function", ["turn", "load_right", "apply"])
async def test_e6_a_worker_killed_between_the_report_and_the_advance(stage: Stage, proxy: Proxy, function: str) -> None:
    trap = proxy.lose(function, Lose.SILENCE, when=has_rights if function == "turn" else any)
    worker = await start_behind(stage, proxy)
    job_id = await stage.submit("chain")
    await asyncio.wait_for(trap.sprung.wait(), PATIENCE_SECONDS)
    worker.kill()
    await stage.until(job_id, lambda job: job.nodes[1].tasks.total)
    await stage.crew.start_ready("worker")
    await stage.finish(job_id)
    assert stage.query("select count(*) from app.outcomes") == [(60,)]


@pytest.mark.slow
async def test_e21_a_worker_killed_after_its_commit_and_before_the_reply(stage: Stage, proxy: Proxy) -> None:
    trap = proxy.lose("turn", Lose.SILENCE, when=lambda row: has_reports(row) and has_claims(row))
    worker = await start_behind(stage, proxy)
    job_id = await stage.submit("mixed", quick=60, plain=20)
    await asyncio.wait_for(trap.sprung.wait(), PATIENCE_SECONDS)
    worker.kill()
    await stage.crew.start_ready("worker")
    job = await stage.finish(job_id)
    assert len(stage.noted("ended")) >= 80
    assert all(task.failures == 0 for task in await stage.tasks(job, "work"))


@pytest.mark.slow
async def test_e3_a_report_that_arrives_after_its_worker_died_is_stale(stage: Stage, proxy: Proxy) -> None:
    """Killed between work and report; the report itself is on its way, and comes when another has the task."""
    worker = await start_behind(stage, proxy)
    file = stage.folder / "file"
    job_id = await stage.submit("steady", count=2, file=str(file))
    await wait_until_async(lambda: len(stage.noted("began")) == 2)
    proxy.stall()
    file.touch()
    await wait_until_async(lambda: len(stage.noted("ended")) == 2 and proxy.calls["turn"] > 0)
    worker.kill()
    file.unlink()
    await stage.crew.start_ready("worker")
    await wait_until_async(lambda: len(stage.noted("began")) == 4)
    proxy.heal()
    await wait_until_async(lambda: proxy.connections == 0)
    file.touch()
    job = await stage.finish(job_id)
    assert [(task.result, task.failures) for task in await stage.tasks(job, "beat")] == [(2, 0), (2, 0)]


@pytest.mark.slow
async def test_e21_a_worker_cut_off_stops_before_its_lease_ends_and_works_on_when_healed(
    stage: Stage, proxy: Proxy
) -> None:
    """It has a free slot, and so hangs in a claim while it should notice."""
    worker = await start_behind(stage, proxy)
    file = stage.folder / "file"
    job_id = await stage.submit("steady", count=1, file=str(file))
    await wait_until_async(lambda: stage.noted("began"))
    proxy.stall()
    await stage.crew.start_ready("worker")
    await wait_until_async(lambda: len(beats(stage, attempt=2)) > 20, "the work of others")
    ended, taken_over = beats(stage, attempt=1)[-1], beats(stage, attempt=2)[0]
    assert ended < taken_over, f"it went on for at least {ended - taken_over:.1f} s after others had begun"

    file.touch()
    job = await stage.finish(job_id)
    assert [task.result for task in await stage.tasks(job, "beat")] == [2]
    stage.crew.alive("worker")[-1].kill()
    proxy.heal()
    await worker.started(sessions=2)
    await stage.finish(await stage.submit("mixed", plain=4, heavy=2, quick=4))


def beats(stage: Stage, attempt: int) -> list[float]:
    """When an attempt was at work."""
    return sorted(float(words[-1]) for words in stage.noted("beat") if words[2] == str(attempt))


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 2])
async def test_e21_a_worker_that_is_cut_off_stops_when_nobody_else_is_there(
    stage: Stage, proxy: Proxy, count: int
) -> None:
    """Only the worker itself can know that its lease is over; with a free slot, it hangs in a claim meanwhile."""
    worker = stage.crew.start("worker", url=proxy.url)
    await worker.started()
    job_id = await stage.submit("steady", count=count, file=str(stage.folder / "file"))
    await wait_until_async(lambda: len(stage.noted("began")) == count)
    proxy.stall()
    cut = time.time()
    await wait_until_async(lambda: time.time() - beats(stage, attempt=1)[-1] > 1, "an end of the work")
    went_on = beats(stage, attempt=1)[-1] - cut
    assert went_on < LEASE, f"it went on for {went_on:.1f} s"
    (stage.folder / "file").touch()
    proxy.heal()
    await stage.crew.start_ready("orchestrator")
    await stage.finish(job_id)


@pytest.mark.slow
async def test_e12_a_claim_that_commits_long_after_its_connection_broke_is_found(stage: Stage, proxy: Proxy) -> None:
    """It waits for a lock, and commits when its worker has connected anew: nobody has it in hand."""
    worker = await start_behind(stage, proxy, STEADY_LEASE)
    proxy.stall()
    job_id = await stage.submit("chain")
    await stage.until(job_id, lambda job: job.nodes[0].tasks.total)
    with psycopg.connect(stage.url) as holder:
        holder.execute("select from app.lanes for update")
        proxy.heal()
        await wait_until_async(lambda: len(stage.query(WAITING)) == 1)
        proxy.cut()
        await wait_until_async(lambda: len(stage.query(WAITING)) == 2)
    await stage.finish(job_id)
    assert stage.query("select count(*) > 0 from app.attempts where ended = 'lost'") == [(True,)]
    assert len(worker.said("session.began")) == 1


@pytest.mark.slow
async def test_e21_a_call_that_is_never_answered_while_the_heart_beats_on_is_given_up(
    stage: Stage, proxy: Proxy
) -> None:
    """As when a firewall forgets a connection: the session lives, so nobody takes over what the call holds up."""
    trap = proxy.lose("turn", Lose.SILENCE, when=has_reports)
    worker = await start_behind(stage, proxy, STEADY_LEASE)
    job_id = await stage.submit("mixed", quick=20, plain=4)
    await asyncio.wait_for(trap.sprung.wait(), PATIENCE_SECONDS)
    await stage.finish(job_id)
    assert len(worker.said("session.began")) == 1
