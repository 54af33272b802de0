"""Connections are budgeted over all processes of a database (E19, B2)."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from anabranch.adapters.postgres.server.url import ServerUrl
from anabranch.adapters.postgres.store.budget import check_budget, read_budget, require_room
from anabranch.adapters.postgres.store.store import PostgresStore
from anabranch.app import connections_needed, connections_of
from anabranch.engine.model import SessionId, SessionKind
from anabranch.errors import InputError, Unavailable
from tests.support.crew import Crew, Start
from tests.support.waiting import wait_until_async

LEASE = timedelta(minutes=10)


@asynccontextmanager
async def declare(url: str, connections: int) -> AsyncIterator[tuple[PostgresStore, SessionId]]:
    """A live process that takes this many connections."""
    store = PostgresStore(url, name="test", connections=1, declared=connections)
    await store.open()
    try:
        yield store, await store.open_session(SessionKind.WORKER, ["light"], 1, LEASE)
    finally:
        await store.close()


async def test_e19_all_processes_of_a_database_count(database_url: str) -> None:
    """Also those that another machine started, until they end."""
    half = read_budget(database_url).maximum // 2
    check_budget(database_url, half)
    with pytest.raises(InputError, match="more than half"):
        check_budget(database_url, half + 1)
    async with declare(database_url, 7) as (store, session):
        found = read_budget(database_url)
        assert (found.declared, found.processes) == (7, 1)
        assert 0 < found.opened <= found.maximum
        check_budget(database_url, half - 7)
        with pytest.raises(InputError, match="beside the 7 of 1 other"):
            check_budget(database_url, half - 6)
        await store.end_session(session, "test")
        check_budget(database_url, half)


async def test_e19_a_process_that_starts_is_warned_and_a_worker_waits(
    database_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = read_budget(database_url)
    assert found.usable < found.maximum  # some are reserved for superusers
    require_room(database_url, found.maximum // 2, waits=True)
    assert "connections.many" not in capsys.readouterr().out
    require_room(database_url, found.usable, waits=True)
    assert "connections.many" in capsys.readouterr().out
    async with declare(database_url, found.usable):
        require_room(database_url, 1, waits=False)
        with pytest.raises(Unavailable, match="1 processes may take") as caught:
            require_room(database_url, 1, waits=True)
        assert caught.value.code == "database.full"


async def test_e19_a_worker_begins_when_there_is_room(database_url: str, tmp_path: Path) -> None:
    crew = Crew(Start(tmp_path, "", database_url, lease=30))
    try:
        async with declare(database_url, read_budget(database_url).usable) as (store, session):
            worker = crew.start("worker")
            await wait_until_async(lambda: worker.said("start.waiting"), "a worker that waits")
            assert worker.said("start.waiting")[0]["code"] == "database.full"
            assert not worker.said("session.began")
            await store.end_session(session, "test")
            await worker.started()
            assert read_budget(database_url).declared == connections_of(SessionKind.WORKER)
    finally:
        crew.close()


def test_e19_every_worker_counts() -> None:
    assert connections_needed(2) - connections_needed(1) == connections_of(SessionKind.WORKER) == 8


def test_e19_what_goes_through_a_pooler_does_not_count() -> None:
    pooled = ServerUrl("postgresql://me@pooler/data", {"direct": "postgresql://me@server/data"})
    assert [connections_of(kind, pooled) for kind in SessionKind] == [1, 4, 3]
    past = ServerUrl(pooled, {**pooled.ways, "handler": "postgresql://handlers@server/data"})
    assert connections_of(SessionKind.WORKER, past) == 1 + 5
