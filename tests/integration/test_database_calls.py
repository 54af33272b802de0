"""Calls over the pool of connections: what a caller who is cancelled meanwhile can rely on."""

import asyncio

import pytest

from anabranch.adapters.postgres.connect import Role
from anabranch.adapters.postgres.database import Database


@pytest.mark.parametrize("turns", range(6))
async def test_a_call_is_cancelled_also_when_it_gets_its_connection_at_that_moment(
    database_url: str, turns: int
) -> None:
    database = Database(database_url, Role.APP, name="test", size=1, checked=False)
    await database.open()
    try:
        first, second = (asyncio.create_task(database.call("now")) for _ in range(2))
        while not first.done():
            await asyncio.sleep(0)
        for _ in range(turns):  # of the event loop, in one of which the second takes the connection of the first
            await asyncio.sleep(0)
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
    finally:
        await database.close()
