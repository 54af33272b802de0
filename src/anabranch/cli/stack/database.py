"""The stack's database: prepared before the start, and updated when a process dies."""

import asyncio

import structlog

from anabranch.adapters.postgres.schema.migrate import migrate
from anabranch.adapters.postgres.schema.pgstac import migrate_catalog
from anabranch.adapters.postgres.store.budget import check_budget
from anabranch.adapters.postgres.store.store import PostgresStore
from anabranch.app import connections_needed
from anabranch.embedded.home import Home
from anabranch.errors import AnabranchError

__all__ = ["StackDatabase"]

log = structlog.get_logger()


class StackDatabase:
    """Prepares the stack's database, and ends the sessions of dead processes in it."""

    def __init__(self, home: Home, workers: int) -> None:
        self._home = home
        self._workers = workers
        self._url = ""

    def prepare(self, url: str) -> None:
        """Migrate the database before anything uses it, and check that it has enough connections (E19)."""
        self._url = url
        migrate(url)
        if not (catalog := migrate_catalog(url)).current:
            log.warning("catalog.missing", reason=catalog.problem, remedy=catalog.remedy)
        asyncio.run(self._end_sessions(str(self._home.stack_id)))  # no process of an earlier stack is alive
        check_budget(url, connections_needed(self._workers, url))

    def end_session(self, role: str, pid: int) -> None:
        """Return a dead process's tasks at once; if that fails, they return when its lease expires."""
        try:
            ended = asyncio.run(self._end_sessions(f"{self._home.stack_id}/{pid}"))
        except AnabranchError as error:
            log.warning("session.not_ended", role=role, pid=pid, reason=error.message)
        else:
            log.info("session.ended", role=role, pid=pid, sessions=ended)

    async def _end_sessions(self, members: str) -> int:
        store = PostgresStore(self._url, name="anabranch supervisor", connections=1)
        await store.open()
        try:
            return await store.end_member_sessions(members)
        finally:
            await store.close()
