"""Advisory locks by which commands keep others away from a database; each is held by one connection, until it ends."""

import time
from datetime import timedelta
from enum import IntEnum

from psycopg import Connection, OperationalError
from psycopg.rows import TupleRow

from anabranch.errors import Conflict

__all__ = ["AdvisoryLock", "holds_lock", "is_free", "take_lock"]

HOLDS_LOCK = """
    select exists (select from pg_catalog.pg_locks l
                    where l.locktype = 'advisory' and l.pid = pg_catalog.pg_backend_pid() and l.granted
                      and l.objsubid = 1 and (l.classid::bigint << 32) + l.objid::bigint = %s)
"""


class AdvisoryLock(IntEnum):
    """Numbers that nobody else uses."""

    MIGRATION = 0x616E61627261
    REMOVALS = 7093847162905  # app.may_remove() shares it
    RESTORE = 7093847162906  # app.open_session() shares it


def take_lock(
    connection: Connection[TupleRow],
    lock: AdvisoryLock,
    patience: timedelta,
    refusal: Conflict,
    *,
    shared: bool = False,
) -> None:
    """Take a lock until the connection ends, or with `shared` until the transaction does; else raise the refusal."""
    function = "pg_try_advisory_xact_lock_shared" if shared else "pg_try_advisory_lock"
    deadline = time.monotonic() + patience.total_seconds()
    # Asked for again and again: one who waits inside a statement keeps a snapshot, and an index that the holder makes
    # concurrently would wait for it.
    while connection.execute(f"select pg_catalog.{function}(%s)".encode(), [lock.value]).fetchone() != (True,):
        if time.monotonic() > deadline:
            raise refusal
        time.sleep(0.05)


def holds_lock(connection: Connection[TupleRow], lock: AdvisoryLock) -> bool:
    """Whether a connection still holds a lock: it is lost with the connection, or by the server."""
    try:
        return connection.execute(HOLDS_LOCK, [lock.value]).fetchone() == (True,)
    except OperationalError:
        return False


def is_free(connection: Connection[TupleRow], lock: AdvisoryLock) -> bool:
    """Whether nobody holds a lock; outside of a transaction it is not taken."""
    found = connection.execute("select pg_catalog.pg_try_advisory_xact_lock_shared(%s)", [lock.value]).fetchone()
    return found == (True,)
