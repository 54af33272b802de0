"""Transactions that give way to callers, and the lock that serializes migrations."""

import random
import time
from collections.abc import Callable
from datetime import timedelta

import psycopg
from psycopg import Connection
from psycopg.rows import TupleRow

from anabranch.adapters.postgres.advisory_locks import AdvisoryLock, take_lock
from anabranch.adapters.postgres.connect import Role
from anabranch.errors import Conflict

__all__ = ["LOCK_TIMEOUT", "hold_lock", "hold_sessions_off", "patiently", "take_role", "too_busy"]

LOCK_TIMEOUT = timedelta(seconds=60)

BUSY_ERRORS = (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected)

DEADLOCK_TIMEOUT = "select setting::integer from pg_catalog.pg_settings where name = 'deadlock_timeout'"


def take_role(connection: Connection[TupleRow], role: Role) -> None:
    """Act in a role until the transaction ends."""
    connection.execute("select set_config('role', %s, true)", [role.value])


def hold_lock(connection: Connection[TupleRow], patience: timedelta, *, shared: bool = False) -> None:
    """Keep migrations and restores out until the connection is closed; with `shared` until the transaction ends."""
    refused = Conflict(
        "database.locked",
        f"another migration or a restore of database {connection.info.dbname} did not end"
        f" in {patience.total_seconds():g} s",
        remedy="Wait for it, or end it, and run this again.",
    )
    take_lock(connection, AdvisoryLock.MIGRATION, patience, refused, shared=shared)


def hold_sessions_off(connection: Connection[TupleRow], patience: timedelta) -> None:
    """Let no process begin a session until the connection is closed."""
    refused = Conflict("database.locked", f"another restore or reset of database {connection.info.dbname} is running")
    take_lock(connection, AdvisoryLock.RESTORE, patience, refused)


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
