"""Seeded campaigns of faults on real processes: nothing is lost, doubled, stuck or wrong at their end."""

import asyncio
import os
from pathlib import Path

import pytest

from anabranch.embedded.processes import family, marked
from tests.support.campaign import Problems, open_campaign
from tests.support.crew import Stage
from tests.support.faults import CLOCK, DESCRIPTORS, FAILOVER, KILLS, NETWORK, RESTORE, SERVER, handler_processes

pytestmark = [pytest.mark.postgres, pytest.mark.campaign]
PLUGINS = Path(__file__).parent / "plugins"


async def test_kills(seed: int, strikes: int, tmp_path: Path, database_url: str) -> None:
    async with open_campaign("kills", seed, tmp_path, PLUGINS, url=database_url) as campaign:
        await campaign.run(KILLS, strikes)


async def test_cleanup(seed: int, strikes: int, tmp_path: Path, database_url: str) -> None:
    """However jobs end and whatever is killed meanwhile, each runs its cleanup once."""
    async with open_campaign("cleanup", seed, tmp_path, PLUGINS, url=database_url) as campaign:
        campaign.kinds = ("cleaned",)
        await campaign.run(KILLS, strikes)


async def test_network(seed: int, strikes: int, tmp_path: Path, database_url: str) -> None:
    async with open_campaign("network", seed, tmp_path, PLUGINS, url=database_url) as campaign:
        await campaign.run(NETWORK, strikes - 1)


@pytest.mark.slow
async def test_server_crashes(seed: int, folder: Path) -> None:
    async with open_campaign("server_crashes", seed, folder, PLUGINS) as campaign:
        await campaign.run(SERVER, 5)


@pytest.mark.slow
async def test_failover(seed: int, folder: Path) -> None:
    async with open_campaign("failover", seed, folder, PLUGINS) as campaign:
        await campaign.run(FAILOVER, 3)


@pytest.mark.slow
async def test_restore(seed: int, folder: Path) -> None:
    """Four workers: session numbers of both histories meet."""
    async with open_campaign("restore", seed, folder, PLUGINS, workers=4) as campaign:
        await campaign.run(RESTORE, 2)


@pytest.mark.slow
async def test_descriptors(seed: int, tmp_path: Path, database_url: str) -> None:
    async with open_campaign("descriptors", seed, tmp_path, PLUGINS, url=database_url) as campaign:
        await campaign.run(DESCRIPTORS, 4)


@pytest.mark.slow
async def test_clock(seed: int, tmp_path: Path, database_url: str) -> None:
    async with open_campaign("clock", seed, tmp_path, PLUGINS, url=database_url) as campaign:
        await campaign.run(CLOCK, 4)


async def test_only_descendants_of_the_worker_are_taken_for_its_handlers(stage: Stage) -> None:
    """A fault that kills the wrong process would end the tests, or somebody else's work."""
    worker, other, _ = await stage.crew.start_ready("worker", "worker", "orchestrator")
    found, others = (handler_processes(stage, member) for member in (worker, other))
    assert found
    assert not set(found) & set(others)
    for process in found:
        assert worker.pid in family(process.pid)
        assert process.pid not in family(worker.pid) | family(os.getpid())


TAMPERED = {
    "wrong": """update app.outcomes set result = result || '{"value": -1}' where result ? 'count'""",
    "doubled": """update app.outcomes o set result = (select min(result::text)::jsonb from app.outcomes
                                                   where idx = 0 and result ? 'run')
                   where idx = 1 and result ? 'run'""",
    "lost": "delete from app.outcomes where idx = 2",
}


@pytest.mark.slow
async def test_the_accounts_show_what_was_tampered_with(tmp_path: Path, database_url: str) -> None:
    """A check that can't fail proves nothing."""
    async with open_campaign("accounts", 1, tmp_path, PLUGINS, url=database_url) as campaign:
        campaign.kinds = ("fan",)
        campaign.start()
        await campaign.advance_by(30)
        await campaign.drain()
        await campaign.verify()
        assert not campaign.problems, campaign.problems
        for kind, statement in TAMPERED.items():
            campaign.stage.query(statement)
            campaign.problems = Problems()
            await campaign.verify()
            assert vars(campaign.problems)[kind], kind
        with pytest.raises(AssertionError, match="-k accounts --seed 1"):
            campaign.report()


@pytest.mark.slow
async def test_a_campaign_that_is_broken_off_leaves_no_process_behind(tmp_path: Path, database_url: str) -> None:
    """What supervises its processes must not start others while they are ended."""
    async with open_campaign("failing", 1, tmp_path, PLUGINS, url=database_url) as campaign:
        campaign.start()
        await campaign.advance_by(5)
    await asyncio.sleep(1)  # several rounds of a supervisor
    assert all(member.process.poll() is not None for member in campaign.stage.crew.members)
    assert marked("ANABRANCH_HOME", str(tmp_path / "home")) == []
