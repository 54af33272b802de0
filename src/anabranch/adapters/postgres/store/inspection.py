"""The database as operators inspect it through the API: one connection at a time, with short timeouts."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import TypeVar

from psycopg import Connection
from psycopg.rows import DictRow, TupleRow, dict_row

from anabranch.adapters.postgres.connect import Role
from anabranch.adapters.postgres.database import query_text, translate
from anabranch.adapters.postgres.schema.call_functions import call_functions
from anabranch.adapters.postgres.schema.check import check
from anabranch.adapters.postgres.schema.files import Files
from anabranch.adapters.postgres.schema.migrate import connected, redeploy
from anabranch.adapters.postgres.schema.table_values import ROW_TYPES
from anabranch.adapters.postgres.schema.transaction import take_role
from anabranch.contract.answer import build, read
from anabranch.contract.stack import CheckedFunctions, Difference, Statistics, TableSize, Transaction

__all__ = ["CONNECTIONS", "Inspection"]

CONNECTIONS = 1
LOCK_TIMEOUT = timedelta(seconds=10)
SET_LIMITS = "select set_config('statement_timeout', '10s', true), set_config('transaction_read_only', 'on', true)"
Answer = TypeVar("Answer")


class Inspection:
    """Looks at a database, and redeploys its functions, as the login user does on the command line.

    That user may act as the owner only where it was made a member of that role; where it wasn't, the server refuses.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._one = asyncio.Lock()

    async def statistics(self) -> Statistics:
        """Sizes and counts; no table of tasks is read."""
        return await self._alone(lambda: _look(self._url))

    async def check(self) -> CheckedFunctions:
        """Where the database differs from this release, as `anabranch db check` finds it, and what can't be called."""
        return await self._alone(lambda: _check(self._url))

    async def redeploy(self) -> int:
        """Deploy functions, views, triggers and grants again; how many functions there are."""
        await self._alone(lambda: redeploy(self._url, patience=LOCK_TIMEOUT))
        return len(Files().functions)

    async def _alone(self, look: Callable[[], Answer]) -> Answer:
        def guarded() -> Answer:
            with translate(self._url):
                return look()

        async with self._one:
            return await asyncio.to_thread(guarded)


def _check(url: str) -> CheckedFunctions:
    differences = check(url, ROW_TYPES, patience=LOCK_TIMEOUT)
    called, failed = call_functions(url)
    found = [build(Difference, difference) for difference in (*differences, *failed)]
    return CheckedFunctions(not found, len(Files().functions), called, found)


def _look(url: str) -> Statistics:
    with connected(url) as connection:
        # As the login user: transactions of its own sessions, which are all of ours, are shown to no other role.
        with connection.transaction():
            connection.execute(SET_LIMITS)
            (activity,) = _rows(connection, "activity")
        with connection.transaction():
            connection.execute(SET_LIMITS)
            take_role(connection, Role.READER)
            tables = tuple(TableSize(**row) for row in _rows(connection, "table_sizes"))
            jobs = {row["state"]: row["jobs"] for row in _rows(connection, "job_counts")}
    oldest = activity.pop("oldest_transaction")
    oldest = None if oldest is None else read(Transaction, oldest)
    return Statistics(**activity, oldest_transaction=oldest, jobs=jobs, tables=tables)


def _rows(connection: Connection[TupleRow], query: str) -> list[DictRow]:
    with connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(query_text(query).encode()).fetchall()
