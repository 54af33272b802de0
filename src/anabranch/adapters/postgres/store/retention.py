"""What is kept for a time, removed in batches: converts, calls, and adds nothing but the size of a batch."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from anabranch.adapters.postgres.database import Database
from anabranch.engine.model import SessionId
from anabranch.engine.ports import Remains, Survey

__all__ = ["ROWS", "PostgresRetention"]

DUTY = "retention"
# Each transaction takes some tens of milliseconds: a statement that waits for one of its rows is hardly delayed.
JOBS = 100
ROWS = 5_000
BYTES = 32_000_000
LOOK = 5_000


class PostgresRetention:
    """Jobs, their remains, tombstones, sessions and definitions in schema app."""

    def __init__(self, database: Database) -> None:
        """Over these connections."""
        self._database = database

    async def has_turn(self, session: SessionId, every: timedelta) -> bool:
        """Whether no other process does it."""
        return bool(await self._value("has_turn", DUTY, session, every))

    async def note_turn(self, session: SessionId, every: timedelta) -> bool:
        """Note that it is done; False when another does it."""
        return bool(await self._value("note_turn", DUTY, session, every))

    async def purge(self, age: timedelta, after: int) -> tuple[int, int | None]:
        """Turn some jobs that ended so long ago into tombstones; how many, and where to go on, or None at the end."""
        (row,) = await self._database.call("purge", age, after, LOOK, JOBS, ROWS)
        return row["purged"], row["last"]

    async def survey(self, age: timedelta, after: int) -> tuple[Survey, int | None]:
        """What `purge` would do, and where to go on."""
        (row,) = await self._database.call("survey_purge", age, after, LOOK)
        last = row.pop("last")
        return Survey(**row), last

    async def remains(self, after: int) -> list[Remains]:
        """Some purged jobs that have left something, after one of them."""
        return [Remains(**row) for row in await self._database.call("find_remains", after, JOBS)]

    async def clear(self, jobs: Sequence[Remains]) -> int:
        """Remove some of the rows that they left; how many, and 0 at the end."""
        return int(await self._value("clear_remains", [left.job for left in jobs], ROWS, BYTES))

    async def remove_tombstones(self, age: timedelta) -> int:
        """Remove some that are so old; how many, and 0 at the end."""
        return int(await self._value("remove_tombstones", age, ROWS))

    async def remove_sessions(self, age: timedelta) -> int:
        """Remove some that died so long ago; how many, and 0 at the end."""
        return int(await self._value("remove_sessions", age, ROWS))

    async def remove_workflows(self, age: timedelta) -> int:
        """Remove some definitions so old that no job names; how many, and 0 at the end."""
        return int(await self._value("remove_workflows", age, ROWS))

    async def _value(self, function: str, *arguments: object) -> Any:  # each caller says which type
        (row,) = await self._database.call(function, *arguments)
        return next(iter(row.values()))
