"""PostgreSQL restarts, crashes, and ends connections; all processes come back, and nothing is lost."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from anabranch.canonical import Json
from tests.support.crew import Stage, Start, open_stage
from tests.support.database_server import DatabaseServer
from tests.support.waiting import wait_until_async

pytestmark = pytest.mark.postgres
PLUGINS = Path(__file__).parent / "plugins"
HOWS = ("fast", "immediate", "kill", "backend")
TERMINATE = """select count(pg_terminate_backend(pid)) from pg_stat_activity
                where application_name like 'anabranch%' and datname = current_database()"""


@pytest.fixture
def server(folder: Path) -> Iterator[DatabaseServer]:
    made = DatabaseServer(folder)
    yield made
    made.purge()


@asynccontextmanager
async def stage_on(server: DatabaseServer, folder: Path, lease: float = 3) -> AsyncIterator[Stage]:
    async with open_stage(Start(folder, PLUGINS, server.url, lease)) as stage:
        await stage.crew.start_ready("orchestrator", "worker", "worker")
        yield stage


@pytest.mark.slow
async def test_e21_restarts_and_crashes_of_the_server_during_a_fan_out_lose_nothing(
    server: DatabaseServer, folder: Path
) -> None:
    async with stage_on(server, folder) as stage:
        await restart_during(stage, server, HOWS, quick=180, plain=50, heavy=4, **{"async": 16})


@pytest.mark.slow
async def test_e21_many_more_restarts_of_the_server_lose_nothing(server: DatabaseServer, folder: Path) -> None:
    async with stage_on(server, folder) as stage:
        await restart_during(stage, server, HOWS * 3, quick=700, plain=200, heavy=16, **{"async": 64})


async def restart_during(stage: Stage, server: DatabaseServer, hows: Sequence[str], **kinds: int) -> None:
    count = sum(kinds.values())
    job_id = await stage.submit("mixed", pause=0.05, **kinds)
    for step, how in enumerate(hows, 1):
        await stage.reach(job_id, count * step // (len(hows) + 2))
        await server.restart(how)
    job = await stage.finish(job_id)
    total: Json = {"count": count, "sum": sum(n * n for n in range(count))}
    assert job.job.result == {"add": total}
    assert all(task.failures == 0 for task in await stage.tasks(job, "work"))
    assert all(member.process.poll() is None for member in stage.crew.members)


@pytest.mark.slow
@pytest.mark.parametrize("how", HOWS)
async def test_e6_a_restart_amid_advances_costs_less_than_a_lease(
    server: DatabaseServer, folder: Path, how: str
) -> None:
    """The lease is longer than the test's patience: nobody died who would have to be waited for."""
    async with stage_on(server, folder, lease=600) as stage:
        jobs = [await stage.submit("chain", run=run) for run in range(12)]
        for kill in range(1, 4):
            await stage.until(jobs[0], lambda job, kill=kill: job.nodes[2 * kill].tasks.total)  # type: ignore[misc]  # bound
            await server.restart(how)
        await stage.finish(*jobs)


@pytest.mark.slow
async def test_e21_a_server_that_is_away_for_longer_than_the_lease(server: DatabaseServer, folder: Path) -> None:
    async with stage_on(server, folder) as stage:
        job_id = await stage.submit("mixed", pause=0.05, quick=100, plain=60, heavy=4)
        await stage.reach(job_id, 40)
        await server.restart("fast", pause=8)
        await stage.finish(job_id)
        assert all(member.process.poll() is None for member in stage.crew.members)


@pytest.mark.slow
async def test_e21_connections_ended_five_times_a_second(stage: Stage) -> None:
    await stage.crew.start_ready("orchestrator", "worker", "worker")
    jobs = [await stage.submit("mixed", pause=0.05, quick=300, plain=80, heavy=6), await stage.submit("chain")]
    ended = 0
    for _ in range(25):
        ended += stage.query(TERMINATE)[0][0]
        await asyncio.sleep(0.2)
    assert ended > 50
    await stage.finish(*jobs)
    job, chain = [await stage.job(job_id) for job_id in jobs]
    assert job.nodes[0].tasks.completed == 386
    assert [node.tasks.completed for node in chain.nodes] == [3] * 20
    assert all(member.process.poll() is None for member in stage.crew.members)


AWAY = ("beat", "begin_round", "take_rights", "claim")


@pytest.mark.slow
async def test_e21_a_function_that_is_away_for_a_moment_ends_no_process(stage: Stage) -> None:
    await stage.crew.start_ready("orchestrator", "worker", "worker")
    job_id = await stage.submit("mixed", pause=0.05, quick=100, plain=60, heavy=4)
    await stage.reach(job_id, 20)
    for name in AWAY:
        stage.query(f"alter function app.{name} rename to {name}_away")
        await asyncio.sleep(1.2)
        stage.query(f"alter function app.{name}_away rename to {name}")
    job = await stage.finish(job_id)
    assert all(task.failures == 0 for task in await stage.tasks(job, "work"))
    assert all(member.process.poll() is None for member in stage.crew.members)


@pytest.mark.slow
async def test_e21_a_server_that_only_reads_for_a_while_ends_no_process_and_fails_no_task(stage: Stage) -> None:
    """As after a failover to a standby that is not yet the primary."""
    await stage.crew.start_ready("orchestrator", "worker", "worker")
    jobs = [await stage.submit("mixed", pause=0.05, quick=100, plain=60, heavy=4), await stage.submit("chain")]
    await stage.reach(jobs[0], 20)
    name = stage.query("select current_database()")[0][0]
    stage.query(f"alter database {name} set default_transaction_read_only = on")
    stage.query(TERMINATE)
    await wait_until_async(lambda: all(member.said("session.waiting") for member in stage.crew.members))
    stage.query(f"set transaction_read_only = off; alter database {name} reset default_transaction_read_only")
    stage.query(TERMINATE)
    await stage.finish(*jobs)
    job = await stage.job(jobs[0])
    assert all(task.failures == 0 for task in await stage.tasks(job, "work"))
    assert all(member.process.poll() is None for member in stage.crew.members)


SLOW = """
    create schema slow;
    grant usage on schema slow to public;
    create function slow.down() returns trigger language plpgsql
        as 'begin perform pg_sleep({seconds}); return new; end';
    create trigger slow before insert on app.{table} for each row execute function slow.down();
"""


@pytest.mark.slow
@pytest.mark.parametrize(("table", "seconds"), [("events", 1.6), ("outcomes", 2.5)])
async def test_e1_calls_that_take_longer_than_the_lease_get_through(stage: Stage, table: str, seconds: float) -> None:
    """A large result or a slow disk: what a session waits for itself must not cost it the session, again and again."""
    members = await stage.crew.start_ready("orchestrator", "worker")
    stage.query(SLOW.format(table=table, seconds=seconds))
    await stage.finish(await stage.submit("mixed", quick=3, plain=1))
    assert [len(member.said("session.began")) for member in members] == [1, 1]
