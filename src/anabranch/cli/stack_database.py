"""What the supervisor does to the database: prepares it, and tells it of processes that died."""

import asyncio

import structlog

from anabranch.adapters.postgres.budget import check_budget
from anabranch.adapters.postgres.migrate import migrate
from anabranch.adapters.postgres.pgstac import migrate_catalog
from anabranch.adapters.postgres.store import PostgresStore
from anabranch.embedded.home import Home
from anabranch.errors import AnabranchError

__all__ = ["StackDatabase"]

log = structlog.get_logger()


class StackDatabase:
    """Knows the stack's database from its preparation on."""

    def __init__(self, home: Home, connections: int) -> None:
        self._home = home
        self._connections = connections
        self._url = ""

    def prepare(self, url: str) -> None:
        """Migrate the database before anything uses it, and see that it has connections for all (E19)."""
        self._url = url
        migrate(url)
        if not (catalog := migrate_catalog(url)).current:
            log.warning("catalog.missing", reason=catalog.problem, remedy=catalog.remedy)
        check_budget(url, self._connections)
        asyncio.run(self._bury(str(self._home.stack_id)))  # nothing of an earlier stack is left alive

    def bury(self, role: str, pid: int) -> None:
        """Give a dead process's tasks back at once; where that fails, they come back when its lease ends."""
        try:
            buried = asyncio.run(self._bury(f"{self._home.stack_id}/{pid}"))
        except AnabranchError as error:
            log.warning("session.not_buried", role=role, pid=pid, reason=error.message)
        else:
            log.info("session.buried", role=role, pid=pid, sessions=buried)

    async def _bury(self, members: str) -> int:
        store = PostgresStore(self._url, name="anabranch supervisor", connections=1)
        await store.open()
        try:
            return await store.bury(members)
        finally:
            await store.close()
