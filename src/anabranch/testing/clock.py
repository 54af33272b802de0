"""The database's clock in the hands of a test."""

from datetime import datetime, timedelta
from types import TracebackType
from typing import ClassVar, LiteralString, Self

from anabranch.adapters.postgres.connect import connect

__all__ = ["Clock", "SteppedClock"]

# In a table, so that every connection of every process sees it at once; read as the owner, for every caller.
STOP = """
    create schema test;
    create table test.clock as select date_trunc('second', clock_timestamp()) as at;
    grant usage on schema test to anabranch_owner;
    grant select on test.clock to anabranch_owner;
    create or replace function app.now() returns timestamptz
        language sql stable security definer set search_path = pg_catalog, pg_temp
        as 'select at from test.clock';
"""

STEP = """
    create schema if not exists test;
    create table if not exists test.step as select interval '0' as step;
    grant usage on schema test to anabranch_owner;
    grant select on test.step to anabranch_owner;
    create or replace function app.now() returns timestamptz
        language sql stable security definer set search_path = pg_catalog, pg_temp
        as 'select statement_timestamp() + step from test.step';
"""


class _OwnClock:
    """`app.now()` of one database, replaced."""

    setup: ClassVar[LiteralString]

    def __init__(self, url: str) -> None:
        self._connection = connect(url, None, name="test clock")
        self._connection.execute(self.setup)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()


class Clock(_OwnClock):
    """`app.now()` of one database, stopped: it moves when the test says so. A redeployment sets it free."""

    setup = STOP

    def now(self) -> datetime:
        """What the database takes for the present."""
        return self._read("select at from test.clock")

    def advance(self, step: timedelta) -> datetime:
        """The present after a step; every connection sees it with its next statement."""
        return self._read("update test.clock set at = at + %s returning at", step)

    def _read(self, query: str, *parameters: object) -> datetime:
        row = self._connection.execute(query, parameters).fetchone()
        assert row is not None
        at: datetime = row[0]
        return at


class SteppedClock(_OwnClock):
    """`app.now()` of one database, running, but so many seconds from the true time."""

    setup = STEP

    def step(self, seconds: float) -> None:
        """Be so far from the true time from now on."""
        self._connection.execute("update test.step set step = make_interval(secs => %s)", [seconds])
