"""Sixty-four connections report the last sixty-four tasks at once: exactly one makes the right to advance (E6)."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack

import pytest
from psycopg import AsyncConnection
from psycopg.rows import TupleRow

from anabranch.adapters.postgres.connect import Role, connect_async
from anabranch.adapters.postgres.database import call_text
from anabranch.adapters.postgres.schema.migrate import migrate
from anabranch.canonical import encode
from anabranch.embedded.cluster import Cluster
from anabranch.engine.model import Claim
from anabranch.testing.shared_cluster import SharedCluster
from tests.support.engine import EngineHarness, fan_out, open_harness

pytestmark = pytest.mark.postgres

WIDTH = 64
REPORT = call_text("report").encode()
LEFT = b"""
    select l.running, l.remaining, l.closed, (select count(*) from app.rights r where r.lane = l.id),
           (select count(*) from app.outcomes o where o.lane = l.id)
      from app.lanes l where l.id = %s
"""


@pytest.fixture
def crowded_url() -> Iterator[str]:
    """A database on a server of its own: the run's server could not spare so many connections."""
    shared = SharedCluster.make()
    try:
        cluster = shared.start(_prepare)
        yield cluster.url()
    finally:
        shared.remove()


def _prepare(cluster: Cluster) -> None:
    cluster.ensure_database()
    migrate(cluster.url())


class Crowd:
    """Connections that report one task each, and a gate that holds them back until all have come."""

    def __init__(self, reporters: list[AsyncConnection[TupleRow]], gate: AsyncConnection[TupleRow]) -> None:
        self._reporters = reporters
        self._gate = gate

    async def report(self, claims: list[Claim], session: int, *, gated: bool) -> list[tuple[list[str], list[int]]]:
        """The answers and rights that each connection got."""
        async with self._gate.transaction():
            if gated:
                await self._gate.execute(b"select from app.lanes where id = %s for update", [claims[0].key.lane])
            tasks = [
                asyncio.create_task(_report(connection, claim, session))
                for connection, claim in zip(self._reporters, claims, strict=True)
            ]
            while gated and await self._waiting() < len(tasks):
                await asyncio.sleep(0.002)
        return list(await asyncio.gather(*tasks))

    async def find(self, lane: int) -> TupleRow | None:
        """How the lane was left."""
        return await (await self._gate.execute(LEFT, [lane])).fetchone()

    async def _waiting(self) -> int:
        text = b"select count(*) from pg_stat_activity where wait_event_type = 'Lock' and application_name = 'reporter'"
        row = await (await self._gate.execute(text)).fetchone()
        return int(row[0]) if row else 0


async def _report(connection: AsyncConnection[TupleRow], claim: Claim, session: int) -> tuple[list[str], list[int]]:
    fence = {"lane": claim.key.lane, "idx": claim.key.place, "attempt": claim.attempt, "token": claim.token}
    report = {**fence, "ended": "completed", "body": 1}
    row = await (await connection.execute(REPORT, (session, encode([report])))).fetchone()
    assert row is not None
    return row[0], row[1]


@pytest.fixture
async def crowd(crowded_url: str) -> AsyncIterator[tuple[Crowd, EngineHarness]]:
    async with AsyncExitStack() as stack:
        harness = await stack.enter_async_context(open_harness(crowded_url))
        opened = [await connect_async(crowded_url, Role.APP, name="reporter") for _ in range(WIDTH)]
        gate = await connect_async(crowded_url, None, name="gate")
        for connection in (*opened, gate):
            stack.push_async_callback(connection.close)
        yield Crowd(opened, gate), harness


@pytest.mark.parametrize("rounds", [25, pytest.param(1000, marks=pytest.mark.slow)])
async def test_e6_of_sixty_four_last_reports_at_once_one_makes_the_right(
    crowd: tuple[Crowd, EngineHarness], rounds: int
) -> None:
    """In half of the rounds all of them have begun, and wait for the lane, before the first may go on."""
    reporters, harness = crowd
    for number in range(rounds):
        job = await harness.submit(fan_out(WIDTH), number=number)
        claims = await harness.claim(WIDTH)
        assert {claim.lane.job_id for claim in claims} == {job.job_id}

        answers = await reporters.report(claims, harness.session, gated=number % 2 == 0)
        assert [answer for answer, _ in answers] == [["applied"]] * WIDTH
        assert sum(len(rights) for _, rights in answers) == 1
        assert await reporters.find(claims[0].key.lane) == (0, 0, True, 1, WIDTH)
        await harness.store.cancel(job.job_id, "the next round")
