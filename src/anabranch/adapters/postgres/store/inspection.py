"""The database as an operator looks at it, from a process that serves others: one connection at a time, and soon."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeVar

from psycopg import Connection
from psycopg.rows import TupleRow, class_row, dict_row

from anabranch.adapters.postgres.connect import Role
from anabranch.adapters.postgres.database import query_text, translate
from anabranch.adapters.postgres.schema.call_functions import call_functions
from anabranch.adapters.postgres.schema.check import Difference, check
from anabranch.adapters.postgres.schema.files import Files
from anabranch.adapters.postgres.schema.migrate import connected, redeploy
from anabranch.adapters.postgres.schema.table_values import ROWS
from anabranch.adapters.postgres.schema.transaction import take_role

__all__ = ["CONNECTIONS", "Activity", "Checked", "Inspection", "Statistics", "TableSize"]

CONNECTIONS = 1
PATIENCE = timedelta(seconds=10)
BOUND = "select set_config('statement_timeout', '10s', true), set_config('transaction_read_only', 'on', true)"
Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Activity:
    """The database as a whole."""

    database_bytes: int
    connections: int
    max_connections: int
    oldest_transaction: Mapping[str, Any] | None  # seconds, process, state


@dataclass(frozen=True)
class TableSize:
    """A table; rows are what the server estimates."""

    name: str
    rows: int
    dead_rows: int
    table_bytes: int
    index_bytes: int
    vacuumed_at: datetime | None
    analyzed_at: datetime | None


@dataclass(frozen=True)
class Statistics:
    """How large all is, and how the jobs stand."""

    activity: Activity
    tables: tuple[TableSize, ...]
    jobs: Mapping[str, int]


@dataclass(frozen=True)
class Checked:
    """How many functions were called, and what is not as this release has it."""

    called: int
    differences: tuple[Difference, ...]


class Inspection:
    """Looks at a database, and redeploys its functions, as the login user does on the command line.

    That user may act as the owner only where it was made a member of that role; where it wasn't, the server refuses.
    """

    def __init__(self, url: str) -> None:
        """Nothing is opened yet."""
        self._url = url
        self._one = asyncio.Lock()

    async def statistics(self) -> Statistics:
        """Sizes and counts; no table of tasks is read."""
        return await self._alone(lambda: _look(self._url))

    async def check(self) -> Checked:
        """Where the database differs from this release, as `anabranch db check` finds it, and what can't be called."""
        return await self._alone(lambda: _check(self._url))

    async def redeploy(self) -> int:
        """Deploy functions, views, triggers and grants again; how many functions there are."""
        await self._alone(lambda: redeploy(self._url, patience=PATIENCE))
        return len(Files().functions)

    async def _alone(self, look: Callable[[], Answer]) -> Answer:
        def guarded() -> Answer:
            with translate(self._url):
                return look()

        async with self._one:
            return await asyncio.to_thread(guarded)


def _check(url: str) -> Checked:
    differences = check(url, ROWS, patience=PATIENCE)
    called, failed = call_functions(url)
    return Checked(called, (*differences, *failed))


def _look(url: str) -> Statistics:
    with connected(url) as connection:
        # As the login user: transactions of its own sessions, which are all of ours, are shown to no other role.
        with connection.transaction():
            connection.execute(BOUND)
            activity = _rows(connection, Activity, "activity")[0]
        with connection.transaction():
            connection.execute(BOUND)
            take_role(connection, Role.READER)
            tables = _rows(connection, TableSize, "table_sizes")
            cursor = connection.cursor(row_factory=dict_row)
            jobs = {row["state"]: row["jobs"] for row in cursor.execute(query_text("job_counts").encode())}
    return Statistics(activity, tuple(tables), jobs)


def _rows(connection: Connection[TupleRow], model: type[Answer], query: str) -> list[Answer]:
    with connection.cursor(row_factory=class_row(model)) as cursor:
        return cursor.execute(query_text(query).encode()).fetchall()
