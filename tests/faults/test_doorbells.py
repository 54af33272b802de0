"""Doorbells are lost or ring without end: that costs time and nothing else (E12); who waits costs nothing (E14)."""

import asyncio

import psycopg
import pytest

from tests.support.crew import STEADY_LEASE, Stage
from tests.support.proxy import Proxy
from tests.support.waiting import wait_until_async

pytestmark = pytest.mark.postgres


@pytest.mark.slow
async def test_e12_doorbells_that_ring_in_masses_change_nothing(stage: Stage) -> None:
    (worker, *_) = await stage.crew.start_ready("worker", "worker", "orchestrator", lease_seconds=STEADY_LEASE)
    ringing = asyncio.create_task(ring_in_masses(stage.url))
    jobs = [await stage.submit("mixed", quick=200, plain=40, heavy=4), await stage.submit("chain")]
    for job_id in jobs:
        await stage.complete(job_id)
    ringing.cancel()
    await stage.finish(*jobs)
    assert len(stage.noted("ended")) == 244 + 60
    assert len(worker.said("session.began")) == 1


async def ring_in_masses(url: str) -> None:
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        while True:
            await connection.execute("select pg_notify('anabranch', n::text) from generate_series(1, 500) n")
            await asyncio.sleep(0.01)


@pytest.mark.slow
async def test_e12_a_worker_that_hears_no_doorbell_finds_work_by_its_poll(stage: Stage) -> None:
    async with Proxy(stage.url) as proxy:
        proxy.mute = True
        await stage.crew.start_ready("worker", url=proxy.url)
        for run in range(3):
            await stage.finish(await stage.submit("chain", run=run))
    assert len(stage.noted("ended")) == 3 * 60


COMMITS = "select xact_commit + xact_rollback from pg_stat_database where datname = current_database()"
SECONDS = 4


async def commits(stage: Stage) -> int:
    """How many transactions there are in a few seconds."""
    await asyncio.sleep(1.5)  # the server's counters lag by a second
    before = stage.query(COMMITS)[0][0]
    await asyncio.sleep(SECONDS)
    return int(stage.query(COMMITS)[0][0] - before)


@pytest.mark.slow
async def test_e14_jobs_that_wait_cost_no_statement(stage: Stage) -> None:
    await stage.crew.start_ready("orchestrator")
    alone = await commits(stage)
    for run in range(300):
        await stage.submit("chain", run=run)
    await wait_until_async(lambda: stage.query("select count(*) from app.lanes where claimable") == [(300,)])
    # The server's counters may lag behind on a busy machine; what costs statements does so in every window.
    assert any([await commits(stage) <= alone * 1.3 + 10 for _ in range(3)])
