"""Checks the engine's state against its invariants: every statement of `audit.sql` finds violations of one."""

from dataclasses import dataclass
from datetime import timedelta
from functools import cache

from psycopg import Connection
from psycopg.rows import TupleRow, class_row

from anabranch.adapters.postgres.connect import Role
from anabranch.adapters.postgres.schema.files import ROOT
from anabranch.adapters.postgres.schema.migrate import connected
from anabranch.adapters.postgres.schema.transaction import take_role
from anabranch.sql_files import read_statements

__all__ = ["GRACE", "Violation", "audit", "checks", "examine"]

# As long as what the sweeper is there for may wait for it: many of its rounds.
GRACE = timedelta(minutes=15)
MAX_PER_CHECK = 20
SNAPSHOT = "set transaction isolation level repeatable read, read only"
FIND_VIOLATIONS = "select %(check)s as check, found.* from ({}) found limit %(most)s"


@dataclass(frozen=True)
class Violation:
    """An invariant that does not hold: the check that found it, the job where it is one's, and what is wrong."""

    check: str
    job_id: str | None
    what: str

    def __str__(self) -> str:
        return f"{self.check}: {f'job {self.job_id}: ' if self.job_id else ''}{self.what}"


def checks() -> list[str]:
    """The names of all checks; each begins with the invariant that it is for."""
    return sorted(read_statements(ROOT / "audit.sql"))


def audit(url: str, *, since: timedelta | None = None) -> list[Violation]:
    """The current violations, the first ones of each check; `since` leaves out jobs that ended earlier.

    All is read from one snapshot, so that nothing is found which is only on its way.
    """
    with connected(url) as connection:
        return examine(connection, since=since)


def examine(connection: Connection[TupleRow], *, since: timedelta | None = None) -> list[Violation]:
    """The same over a connection of the login user's."""
    found: list[Violation] = []
    with connection.transaction(), connection.cursor(row_factory=class_row(Violation)) as cursor:
        connection.execute(SNAPSHOT)
        take_role(connection, Role.READER)
        for check in checks():
            given = {"check": check, "most": MAX_PER_CHECK, "since": since, "grace": GRACE}
            found += cursor.execute(_query(check), given).fetchall()
    return found


@cache
def _query(check: str) -> bytes:
    return FIND_VIOLATIONS.format(read_statements(ROOT / "audit.sql")[check]).encode()
