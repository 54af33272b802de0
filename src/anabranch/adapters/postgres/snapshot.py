"""A snapshot of the database that `pg_dump` reads, while nothing that it names is removed."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import partial
from typing import NamedTuple

from psycopg import Connection, OperationalError
from psycopg.rows import TupleRow, namedtuple_row

from anabranch.adapters.postgres.advisory_locks import AdvisoryLock, holds_lock, take_lock
from anabranch.adapters.postgres.connect import Role, connect
from anabranch.adapters.postgres.database import query_text, translate
from anabranch.adapters.postgres.schema.migration_log import Deployed, read_deployed
from anabranch.errors import Conflict, Unavailable

__all__ = ["NamedObject", "Snapshot", "hold_removals", "open_snapshot"]

LOCK_PATIENCE = timedelta(seconds=60)
PAGE_ROWS = 10_000
# The settings of readers are for short queries; a snapshot is read for as long as it takes.
NO_TIMEOUTS = "set statement_timeout = 0; set idle_in_transaction_session_timeout = 0"


class NamedObject(NamedTuple):
    """An object that a database names: its area, key, size and hash."""

    area: str
    key: str
    size: int
    sha256: str


class Snapshot:
    """What the database was at one moment."""

    def __init__(self, connection: Connection[TupleRow], name: str, deployed: Deployed) -> None:
        """Made by `open_snapshot`."""
        self._connection = connection
        self.name = name
        self.deployed = deployed
        self.server_major = connection.info.server_version // 10_000

    def named_objects(self) -> Iterator[NamedObject]:
        """The objects that must be in a backup."""
        with self._connection.cursor("named", row_factory=namedtuple_row) as cursor:
            cursor.itersize = PAGE_ROWS
            yield from (NamedObject(*row) for row in cursor.execute(query_text("named_objects").encode()))


@contextmanager
def hold_removals(url: str) -> Iterator[Callable[[], None]]:
    """Let retention wait until the end; Conflict while another process holds it.

    What it yields raises Unavailable where that was lost meanwhile, with the connection or by the server.
    """
    with translate(url), connect(url, Role.READER, name="anabranch backup") as connection:
        running = Conflict(
            "backup.running", f"a backup of database {connection.info.dbname} is running, or a sweep of its storage"
        )
        take_lock(connection, AdvisoryLock.REMOVALS, LOCK_PATIENCE, running)
        try:
            yield partial(_require_held, connection)
        finally:
            with suppress(OperationalError):  # the end of the connection would release it, but at some later time
                connection.execute("select pg_advisory_unlock(%s)", [AdvisoryLock.REMOVALS.value])


def _require_held(connection: Connection[TupleRow]) -> None:
    if not holds_lock(connection, AdvisoryLock.REMOVALS):
        raise Unavailable("backup.interrupted", "the connection by which the backup kept objects from removal was lost")


@contextmanager
def open_snapshot(url: str) -> Iterator[Snapshot]:
    """A snapshot for `pg_dump` and for us, until the end."""
    with translate(url), connect(url, Role.READER, name="anabranch backup") as connection, connection.transaction():
        connection.execute(NO_TIMEOUTS)
        connection.execute("set transaction isolation level repeatable read, read only")
        deployed = read_deployed(connection)
        if deployed is None:
            raise Unavailable("database.not_migrated", f"database {connection.info.dbname} has no schema app")
        ((name,),) = connection.execute("select pg_export_snapshot()").fetchall()
        yield Snapshot(connection, name, deployed)
