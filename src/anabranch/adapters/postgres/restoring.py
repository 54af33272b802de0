"""What a restore asks of a database, and changes in it beside the dump."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from math import ceil
from typing import NamedTuple

from psycopg import Connection
from psycopg.rows import TupleRow

from anabranch.adapters.postgres.advisory_locks import AdvisoryLock, holds_lock
from anabranch.adapters.postgres.connect import mask, too_many_locks
from anabranch.adapters.postgres.schema.migrate import connected
from anabranch.adapters.postgres.schema.transaction import hold_lock, hold_sessions_off
from anabranch.errors import Unavailable

__all__ = [
    "FileVersion", "find_file_versions", "find_schemas", "hold_database", "identify_database", "move_file_version",
    "require_held", "require_locks",
]  # fmt: skip

LOCK_PATIENCE = timedelta(seconds=60)
FIND_SCHEMAS = "select nspname from pg_catalog.pg_namespace where nspname = any(%s) order by nspname"
IDENTIFY_DATABASE = """
    select d.datname::text, d.oid::text, s.system_identifier::text
      from pg_catalog.pg_database d, pg_catalog.pg_control_system() s where d.datname = current_database()
"""
# Each object that is dropped is locked, with the table and index behind it that hold its large values.
COUNT_DROPPED = """
    with spaces as (select oid from pg_catalog.pg_namespace where nspname = any(%s)),
    relations as (
        select c.oid, c.reltoastrelid from pg_catalog.pg_class c where c.relnamespace in (select oid from spaces))
    select (select count(*) from spaces)
         + (select count(*) + 2 * count(*) filter (where r.reltoastrelid <> 0) from relations r)
         + (select count(*) from pg_catalog.pg_type where typnamespace in (select oid from spaces))
         + (select count(*) from pg_catalog.pg_proc where pronamespace in (select oid from spaces))
         + (select count(*) from pg_catalog.pg_constraint where connamespace in (select oid from spaces))
         + (select count(*) from pg_catalog.pg_trigger where tgrelid in (select oid from relations))
         + (select count(*) from pg_catalog.pg_attrdef where adrelid in (select oid from relations))
         + (select count(*) from pg_catalog.pg_rewrite where ev_class in (select oid from relations))
         + (select count(*) from pg_catalog.pg_policy where polrelid in (select oid from relations))
"""
COUNT_TRANSACTIONS = """
    select current_setting('max_connections')::int + current_setting('max_prepared_transactions')::int,
           current_setting('max_locks_per_transaction')::int
"""
SPARE_LOCKS = 500  # of the restore's other statements, and of those who read meanwhile
FIND_VERSIONS = """
    select tier, key, version from app.published_files where version is not null
     union
    select split_part(k.address, '://', 1), split_part(k.address, '://', 2), v.version
      from app.watched_objects k cross join lateral (values (k.version), (k.done)) v(version)
     where v.version is not null
"""
MOVE_VERSION = """
    with published as (
        update app.published_files set version = %(to)s where tier = %(tier)s and key = %(key)s and version = %(tag)s)
    update app.watched_objects k
       set version = case k.version when %(tag)s then %(to)s else k.version end,
           done = case k.done when %(tag)s then %(to)s else k.done end
     where k.schedule = any(array(select w.schedule from app.watches w)) and k.address = %(tier)s || '://' || %(key)s
       and %(tag)s in (k.version, k.done)
"""


class FileVersion(NamedTuple):
    """An object that others may replace, and a version that was published or seen by a schedule: its tag then."""

    tier: str
    key: str
    tag: str | None


@contextmanager
def hold_database(url: str) -> Iterator[Connection[TupleRow]]:
    """A connection, as the login user, that keeps migrations and new sessions of processes out until the end."""
    with connected(url, writes=True) as connection:
        connection.execute("set idle_session_timeout = 0")
        hold_lock(connection, LOCK_PATIENCE)
        hold_sessions_off(connection, LOCK_PATIENCE)
        yield connection


def require_held(connection: Connection[TupleRow]) -> None:
    """Raise Unavailable where what `hold_database` keeps out was let in, with its connection or by the server."""
    if not (holds_lock(connection, AdvisoryLock.MIGRATION) and holds_lock(connection, AdvisoryLock.RESTORE)):
        raise Unavailable(
            "restore.interrupted", "the connection by which the restore kept processes from the database was lost"
        )


def require_locks(connection: Connection[TupleRow], url: str, dropped: Sequence[str], loaded: int) -> None:
    """Refuse a transaction that drops these schemas and makes so many relations, where a server has not the locks."""
    ((removed,),) = connection.execute(COUNT_DROPPED, [list(dropped)]).fetchall()
    ((transactions, each),) = connection.execute(COUNT_TRANSACTIONS).fetchall()
    needed = removed + loaded + SPARE_LOCKS
    if needed > transactions * each:
        what = f"the restore needs {needed} locks, and the server has room for {transactions * each}"
        raise too_many_locks(mask(url), what, setting=ceil(needed / transactions))


def find_schemas(connection: Connection[TupleRow], names: Sequence[str]) -> list[str]:
    """Those of these schemas that there are."""
    return [name for (name,) in connection.execute(FIND_SCHEMAS, [list(names)])]


def identify_database(connection: Connection[TupleRow]) -> list[str]:
    """What is unique to this database: its name, its number and that of its cluster."""
    return list(connection.execute(IDENTIFY_DATABASE).fetchone() or ())


def find_file_versions(connection: Connection[TupleRow]) -> set[FileVersion]:
    """The objects that others may replace, in the versions that the database knows."""
    return {FileVersion(*row) for row in connection.execute(FIND_VERSIONS)}


def move_file_version(connection: Connection[TupleRow], known: FileVersion, tag: str) -> None:
    """Know a version by another tag."""
    connection.execute(MOVE_VERSION, {"to": tag, **known._asdict()})
