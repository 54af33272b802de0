"""Removes old rows in batches: converts and calls; only the sizes of batches are decided here."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from anabranch.adapters.postgres.database import Database
from anabranch.engine.model import SessionId
from anabranch.engine.ports import Remains, Survey

__all__ = ["BATCH_ROWS", "PostgresRetention"]

DUTY = "retention"
# Each transaction takes some tens of milliseconds: a statement that waits for one of its rows is hardly delayed.
BATCH_JOBS = 100
BATCH_ROWS = 5_000
BATCH_BYTES = 32_000_000
BATCH_READS = 5_000
BATCH_TABLES = 10


class PostgresRetention:
    """Jobs, their remains, tombstones, sessions and definitions in schema app."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def has_turn(self, session: SessionId, every: timedelta) -> bool:
        """Whether no other process does it."""
        return bool(await self._value("has_turn", DUTY, session, every))

    async def note_turn(self, session: SessionId, every: timedelta) -> bool:
        """Note that it is done; False when another does it."""
        return bool(await self._value("note_turn", DUTY, session, every))

    async def purge(self, age: timedelta, after: int) -> tuple[int, int | None]:
        """Turn some jobs that ended this long ago into tombstones; how many, and the last id, or None at the end."""
        (row,) = await self._database.call("purge", age, after, BATCH_READS, BATCH_JOBS, BATCH_ROWS)
        return row["purged"], row["last"]

    async def survey(self, age: timedelta, after: int) -> tuple[Survey, int | None]:
        """What `purge` would remove, and the last id read, or None at the end."""
        (row,) = await self._database.call("survey_purge", age, after, BATCH_READS)
        last = row.pop("last")
        return Survey(**row), last

    async def remains(self, after: int) -> list[Remains]:
        """Some purged jobs that have left something, after one of them."""
        return [Remains(**row) for row in await self._database.call("find_remains", after, BATCH_JOBS)]

    async def clear(self, jobs: Sequence[Remains]) -> int:
        """Remove some of the rows that they left; how many, and 0 at the end."""
        return int(await self._value("clear_remains", [left.job for left in jobs], BATCH_ROWS, BATCH_BYTES))

    async def expire_publications(self, revisions: timedelta, withdrawn: timedelta) -> int:
        """Remove the files of some publications out of sight for this long; how many, and 0 at the end."""
        return int(await self._value("expire_publications", revisions, withdrawn, BATCH_JOBS))

    async def drop_unused_tables(self, age: timedelta) -> int:
        """Drop some tables that no publication shows, of jobs that ended this long ago; how many, and 0 at the end."""
        return int(await self._value("drop_unused_tables", age, BATCH_TABLES))

    async def find_expired_objects(self, after: str) -> list[str]:
        """The addresses of some objects that no publication uses any more, in their order after one."""
        return [row["address"] for row in await self._database.call("find_expired_objects", BATCH_JOBS, after)]

    async def forget_objects(self, addresses: Sequence[str]) -> int:
        """Forget such objects once they are removed; how many."""
        return int(await self._value("forget_objects", list(addresses)))

    async def remove_tombstones(self, age: timedelta) -> int:
        """Remove some tombstones of at least this age; how many, and 0 at the end."""
        return int(await self._value("remove_tombstones", age, BATCH_ROWS))

    async def remove_sessions(self, age: timedelta) -> int:
        """Remove some sessions that ended this long ago; how many, and 0 at the end."""
        return int(await self._value("remove_sessions", age, BATCH_ROWS))

    async def remove_workflows(self, age: timedelta) -> int:
        """Remove some unused definitions of at least this age; how many, and 0 at the end."""
        return int(await self._value("remove_workflows", age, BATCH_ROWS))

    async def _value(self, function: str, *arguments: object) -> Any:  # each caller says which type
        (row,) = await self._database.call(function, *arguments)
        return next(iter(row.values()))
