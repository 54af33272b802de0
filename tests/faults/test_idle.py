"""An idle system does nothing for jobs that wait (E14)."""

import asyncio

import pytest

from tests.support.crew import Stage, until_async

pytestmark = pytest.mark.postgres

COMMITS = "select xact_commit + xact_rollback from pg_stat_database where datname = current_database()"
SECONDS = 4


async def commits(stage: Stage) -> int:
    """How many transactions there are in a few seconds."""
    await asyncio.sleep(1.5)  # the server's counters lag by a second
    before = stage.query(COMMITS)[0][0]
    await asyncio.sleep(SECONDS)
    return int(stage.query(COMMITS)[0][0] - before)


async def test_e14_jobs_that_wait_cost_no_statement(stage: Stage) -> None:
    await stage.crew.start_ready("orchestrator")
    alone = await commits(stage)
    for run in range(300):
        await stage.submit("chain", run=run)
    await until_async(lambda: stage.query("select count(*) from app.lanes where claimable") == [(300,)])
    assert await commits(stage) <= alone * 1.3 + 10
