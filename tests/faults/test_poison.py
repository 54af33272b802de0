"""Seeded poison: jobs and rows that do harm, and innocent jobs beside them that must all finish (E10)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest

from anabranch.canonical import Json
from anabranch.engine.model import TERMINAL_STATES
from anabranch.errors import DefinitionError, InputError, NotFound
from tests.support.campaign import Campaign, open_campaign

pytestmark = [pytest.mark.postgres, pytest.mark.campaign, pytest.mark.slow]
PLUGINS = Path(__file__).parent / "plugins"
POISON = Path(__file__).parent / "poison"

ACTS = ("shout", "whisper", "exit", "nan", "nul", "deep", "wide", "number", "keys", "self")
# What ends or spoils its own process is given to handlers that have one; a worker's own is not theirs to end.
ENDS = ("leave", "abort", "orphan", "close", "chdir")

LANES = "update app.lanes l set {} from app.jobs j where l.job = j.id and j.job_id = %s"
DUE = "update app.due d set {} from app.lanes l, app.jobs j where d.lane = l.id and l.job = j.id and j.job_id = %s"
ROWS = {
    "failures": DUE.format("failures = 32767"),
    "crashes": DUE.format("crashes = 32767"),
    "attempt": DUE.format("attempt = 2147483647"),
    "expires_at": DUE.format("expires_at = '-infinity'"),
    "due_at": DUE.format("due_at = '4713-01-01 BC'"),
    "policy": LANES.format("""policy = '{"max_attempts": "x", "backoff": 7}'"""),
    "policy_list": LANES.format("policy = '[]'"),
    "timeouts": LANES.format("""policy = policy || '{"timeout_seconds": 1e300, "total_timeout_seconds": 1e300}'"""),
    "values": LANES.format("values = '7'"),
    "counters": LANES.format("running = 2147483647, failed = 2147483647"),
    "tried": LANES.format("tried = 2147483647"),
    "last_event": "update app.jobs set last_event = 2147483647 where job_id = %s",
    "takes": "update app.rights r set takes = 2147483647 from app.jobs j where r.job = j.id and j.job_id = %s",
    "definition": """update app.workflows w set definition = '{"format": 99}' from app.jobs j
                      where j.workflow_hash = w.hash and j.job_id = %s""",
}


class Poisons:
    """Submits poison beside a campaign's own jobs, and spoils its rows."""

    def __init__(self, campaign: Campaign) -> None:
        self._campaign = campaign
        self._given = 0
        self.jobs: list[str] = []

    async def do_harm(self, campaign: Campaign) -> None:
        """A handler does harm."""
        kind = campaign.random.choice(("plain", "heavy", "quick", "async"))
        acts = ACTS if kind in ("quick", "async") else ACTS + ENDS
        await self._submit("poison_harm", kind=kind, act=campaign.random.choice(acts))

    async def declare_times(self, campaign: Campaign) -> None:
        """A declaration has times that no clock can hold; it may be refused."""
        await self._submit("poison_times", act="nan")

    async def want_unknown(self, campaign: Campaign) -> None:
        """Tasks want a handler that nobody has."""
        await self._submit("poison_unknown")

    async def be_bulky(self, campaign: Campaign) -> None:
        """A claim would carry more than a value of the database can hold."""
        await self._submit("poison_bulky", count=290, act="fine")

    async def spoil_row(self, campaign: Campaign) -> None:
        """Somebody writes into the engine's tables."""
        await self._submit("poison_steps")
        how = campaign.random.choice(sorted(ROWS))
        for _ in range(campaign.random.choice((1, 4))):  # at different moments of the job
            await asyncio.sleep(campaign.random.uniform(0, 0.6))
            await asyncio.to_thread(self._spoil, ROWS[how])

    async def end(self) -> None:
        """What has not ended by itself is cancelled, and then it has ended."""
        campaign = self._campaign
        for job_id in self.jobs:
            job = await campaign.stage.job(job_id)
            if job.job.state not in TERMINAL_STATES and job.job.workflow != "poison_unknown":
                job = await campaign.stage.until(job_id, lambda job: job.job.state in TERMINAL_STATES)
            if job.job.state not in TERMINAL_STATES:
                await campaign.stage.gateway.controls.cancel(job_id, "poison", "test")
                await campaign.stage.until(job_id, lambda job: job.job.state in TERMINAL_STATES)

    async def _submit(self, workflow: str, **parameters: Json) -> None:
        self._given += 1
        with suppress(NotFound, InputError, DefinitionError):  # refused: the best that can happen to it
            self.jobs.append(await self._campaign.stage.submit(workflow, run=self._given, **parameters))

    def _spoil(self, statement: str) -> None:
        with psycopg.connect(self._campaign.stage.url, autocommit=True) as connection:
            connection.execute(statement.encode(), [self.jobs[-1]])


@pytest.fixture
async def poisoned(
    request: pytest.FixtureRequest, seed: int, tmp_path: Path, database_url: str
) -> AsyncIterator[Campaign]:
    name = request.node.originalname.removeprefix("test_")
    async with open_campaign(name, seed, tmp_path, f"{PLUGINS},{POISON}", url=database_url) as campaign:
        yield campaign


async def test_poison_handlers(poisoned: Campaign) -> None:
    """Each ends, at the latest when a user cancels it."""
    poisons = Poisons(poisoned)
    poisoned.start()
    for fault in poisoned.draw([poisons.do_harm] * 6 + [poisons.declare_times, poisons.want_unknown], 8):
        await poisoned.strike(fault)
    await poisons.end()
    await poisoned.finish()


async def test_poison_claims(poisoned: Campaign) -> None:
    """The claim of one job can't be made, and those of the others are."""
    poisons = Poisons(poisoned)
    poisoned.start()
    await poisoned.strike(poisons.be_bulky)
    await poisoned.advance_by(400, "work beside a job whose claim is too large")
    await poisons.end()
    await poisoned.finish()


async def test_poison_rows(poisoned: Campaign) -> None:
    """What is spoiled behind the engine's back may never end; it stops nothing else."""
    poisoned.is_audited = False
    await poisoned.run([Poisons(poisoned).spoil_row], 6)
