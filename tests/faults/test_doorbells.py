"""Doorbells are lost, or ring without end: that costs time and nothing else (E12)."""

import asyncio
import time

import psycopg
import pytest

from tests.support.crew import Stage
from tests.support.proxy import Proxy

pytestmark = [pytest.mark.postgres, pytest.mark.slow]


async def test_e12_doorbells_that_ring_in_masses_change_nothing(stage: Stage) -> None:
    (worker, *_) = await stage.crew.start_ready("worker", "worker", "orchestrator")
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


async def test_e12_a_worker_that_hears_no_doorbell_finds_work_by_its_poll(stage: Stage) -> None:
    async with Proxy(stage.url) as proxy:
        proxy.mute = True
        await stage.crew.start_ready("worker", url=proxy.url)
        for run in range(3):
            began = time.monotonic()
            await stage.finish(await stage.submit("chain", run=run))
            # One poll until it finds the first stage; it advances the others itself.
            assert time.monotonic() - began < 10
    assert len(stage.noted("ended")) == 3 * 60
