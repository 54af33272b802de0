"""The connections that the catalog is served over."""

import asyncio

import pytest

from anabranch.serving.stac.pool import Catalog

pytestmark = pytest.mark.postgres


async def test_a_connection_that_is_lost_while_it_is_used_is_replaced(catalog_url: str) -> None:
    """As one whose server died in the middle of a statement: it can't be given back."""
    catalog = Catalog(catalog_url, 1)
    async with catalog.connection() as connection:
        left = asyncio.create_task(connection.fetchval("select pg_sleep(600)"))
        await asyncio.sleep(0)
    async with catalog.connection() as connection:
        assert await connection.fetchval("select 1") == 1
    await asyncio.gather(left, return_exceptions=True)
    await catalog.close()
