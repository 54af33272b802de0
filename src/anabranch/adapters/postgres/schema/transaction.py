"""Transactions that give way to callers, and the lock that serializes migrations."""

import random
import time
from collections.abc import Callable
from datetime import timedelta

import psycopg
from psycopg import Connection
from psycopg.rows import TupleRow

from anabranch.adapters.postgres.connect import Role
from anabranch.errors import Conflict

__all__ = ["LOCK_TIMEOUT", "hold_lock", "patiently", "take_role", "too_busy"]

LOCK_TIMEOUT = timedelta(seconds=60)

# Any number that nobody else uses.
LOCK_NUMBER = 0x616E61627261
TAKE_LOCK = "select pg_catalog.pg_try_advisory_lock(%s)"
SHARE_LOCK = "select pg_catalog.pg_try_advisory_xact_lock_shared(%s)"

BUSY_ERRORS = (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected)

DEADLOCK_TIMEOUT = "select setting::integer from pg_catalog.pg_settings where name = 'deadlock_timeout'"


def take_role(connection: Connection[TupleRow], role: Role) -> None:
    """Act in a role until the transaction ends."""
    connection.execute("select set_config('role', %s, true)", [role.value])


def hold_lock(connection: Connection[TupleRow], patience: timedelta, *, shared: bool = False) -> None:
    """Keep other migrations out until the connection is closed; with `shared` until the transaction ends."""
    take = SHARE_LOCK if shared else TAKE_LOCK
    began = time.monotonic()
    # Asked for again and again: one who waits inside a statement keeps a snapshot, and an index that the holder makes
    # concurrently would wait for it.
    while connection.execute(take, [LOCK_NUMBER]).fetchone() != (True,):
        if time.monotonic() > began + patience.total_seconds():
            raise Conflict(
                "database.locked",
                f"another migration of database {connection.info.dbname} did not end in {patience.total_seconds():g} s",
                remedy="Wait for it, or end it, and run this again.",
            )
        time.sleep(0.05)


def patiently(connection: Connection[TupleRow], patience: timedelta, work: Callable[[], object]) -> None:
    """Do work in a transaction of the owner that gives way to callers, again and again until it gets through."""
    began = time.monotonic()
    while True:
        waited = timedelta(seconds=time.monotonic() - began)
        try:
            with connection.transaction():
                _bound_waits(connection, waited, patience)
                take_role(connection, Role.OWNER)
                work()
                return
        except BUSY_ERRORS as error:
            if waited > patience:
                raise too_busy(connection, waited) from error
        time.sleep(random.uniform(0.02, 0.2))  # noqa: S311  # jitter, no secret


def _bound_waits(connection: Connection[TupleRow], waited: timedelta, patience: timedelta) -> None:
    # A wait far below the server's deadlock timeout is over before a caller can become a deadlock's victim. Only one
    # above it ends an autovacuum that stands in the way, so that is the last resort.
    (setting,) = connection.execute(DEADLOCK_TIMEOUT).fetchone() or (1000,)
    deadlock = timedelta(milliseconds=setting)
    wait = deadlock / 10 if waited < patience / 2 else min(deadlock * 3, patience - waited)
    connection.execute("select set_config('lock_timeout', %s, true)", [_milliseconds(wait)])


def _milliseconds(wait: timedelta) -> str:
    return f"{max(wait // timedelta(milliseconds=1), 1)}ms"


def too_busy(connection: Connection[TupleRow], waited: timedelta) -> Conflict:
    """The error of one who waited in vain for others' transactions to end."""
    return Conflict(
        "database.busy",
        f"the tables of database {connection.info.dbname} were in use for {waited.total_seconds():.0f} s",
        remedy="Look for long transactions in pg_stat_activity, end them, and run this again.",
    )
