"""Child jobs that ended, taken to report for them."""

from collections.abc import AsyncIterator

import structlog
from psycopg.rows import DictRow

from anabranch.adapters.postgres.database import Database
from anabranch.adapters.postgres.store.rows import read_child
from anabranch.adapters.postgres.store.sweep import may_be_a_rows
from anabranch.engine.model import ChildJob, SessionId
from anabranch.errors import AnabranchError

__all__ = ["take_children"]

log = structlog.get_logger()


async def take_children(database: Database, session: SessionId, limit: int) -> list[ChildJob]:
    """Take child jobs that ended; one by one where some row spoils that for all (E10)."""
    try:
        rows = await database.call("take_ended_children", session, limit, None)
    except AnabranchError as error:
        if not may_be_a_rows(error):
            raise
        rows = [row async for row in _take_each(database, session, limit)]
    return [read_child(row) for row in rows]


async def _take_each(database: Database, session: SessionId, limit: int) -> AsyncIterator[DictRow]:
    last = taken = 0
    while taken < limit and (found := await database.call("find_ended_children", last, limit)):
        for child in (row["find_ended_children"] for row in found):
            last = child
            try:
                rows = await database.call("take_ended_children", session, 1, child)
            except AnabranchError as error:
                if not may_be_a_rows(error):
                    raise
                log.warning("child.not_taken", child=child, reason=error.message)
                continue
            taken += len(rows)
            for row in rows:
                yield row
