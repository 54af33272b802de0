"""Migrations that can't run in a transaction: indexes that are made while others write.

Such a file runs after all others and after the functions, statement by statement, so it holds only what nothing depends
on. One that was interrupted runs again from its start: its statements say `if not exists`, and an index that was left
half made is removed first.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import psycopg
from psycopg import Connection
from psycopg.rows import TupleRow

from anabranch.adapters.postgres.connect import Role
from anabranch.adapters.postgres.schema.files import Migration, SqlFile
from anabranch.adapters.postgres.schema.migration_log import write_entry
from anabranch.adapters.postgres.schema.run_sql import blaming
from anabranch.adapters.postgres.schema.transaction import too_busy

__all__ = ["apply_outside", "split"]

STATEMENT = re.compile(r"[^;]*;")
COMMENT = re.compile(r"--[^\n]*")
INDEX = re.compile(r"\bcreate\s+(?:unique\s+)?index\s+concurrently\s+if\s+not\s+exists\s+(\w+)", re.IGNORECASE)
IS_INVALID_INDEX = """
    select exists (select from pg_catalog.pg_index i join pg_catalog.pg_class c on c.oid = i.indexrelid
                    where c.relnamespace = 'app'::regnamespace and c.relname = %s and not i.indisvalid)"""


def apply_outside(connection: Connection[TupleRow], migration: Migration, patience: timedelta) -> None:
    """Run a migration that says that it runs outside a transaction; the caller keeps other migrations out."""
    with _as_owner(connection, patience):
        for statement in split(migration.file):
            for name in INDEX.findall(statement):
                if connection.execute(IS_INVALID_INDEX, [name]).fetchone() == (True,):
                    connection.execute(f"drop index concurrently app.{name}")
            try:
                with blaming(migration.file):
                    connection.execute(statement)
            except psycopg.errors.LockNotAvailable as error:
                raise too_busy(connection, patience) from error
        with connection.transaction():
            write_entry(connection, migration)


def split(file: SqlFile) -> list[str]:
    """The statements of a file; none of them holds a semicolon."""
    return [found.strip() for found in STATEMENT.findall(COMMENT.sub("", file.text))]


@contextmanager
def _as_owner(connection: Connection[TupleRow], patience: timedelta) -> Iterator[None]:
    # An index waits for transactions that were open before it; nobody waits for it meanwhile.
    connection.execute("select set_config('role', %s, false)", [Role.OWNER.value])
    connection.execute("select set_config('lock_timeout', %s, false)", [f"{patience // timedelta(milliseconds=1)}ms"])
    try:
        yield
    finally:
        connection.execute("reset role; reset lock_timeout")
