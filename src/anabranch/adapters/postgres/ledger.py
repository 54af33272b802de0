"""What was done to a database: its migrations with their checksums, and the functions deployed last."""

from collections.abc import Mapping
from dataclasses import dataclass

from psycopg import Connection
from psycopg.rows import TupleRow, class_row

from anabranch.adapters.postgres.files import Files, Migration, SqlFile
from anabranch.engine.errors import Conflict

__all__ = ["LEDGER", "Entry", "find_pending", "read_deployed", "read_entries", "write_deployed", "write_entry"]

# Made by the machinery itself, before the first migration.
LEDGER = SqlFile(
    "ledger.py",
    """create table if not exists app.migrations (
    number integer primary key,
    name text not null,
    checksum text not null,
    applied_at timestamptz not null
);
create table if not exists app.deployment (
    one boolean primary key default true check (one),
    functions_checksum text not null,
    deployed_at timestamptz not null
);""",
)


@dataclass(frozen=True)
class Entry:
    """A migration that was applied."""

    number: int
    name: str
    checksum: str


def read_entries(connection: Connection[TupleRow]) -> tuple[Entry, ...]:
    """The applied migrations in order; none where nothing was ever migrated."""
    if not _exists(connection, "migrations"):
        return ()
    with connection.cursor(row_factory=class_row(Entry)) as cursor:
        return tuple(cursor.execute("select number, name, checksum from app.migrations order by number"))


def find_pending(files: Files, entries: tuple[Entry, ...]) -> tuple[Migration, ...]:
    """The migrations to apply; Conflict when database and files tell different stories."""
    known = {migration.number: migration for migration in files.migrations}
    for entry in entries:
        _compare(entry, known)
    applied = {entry.number for entry in entries}
    pending = tuple(migration for migration in files.migrations if migration.number not in applied)
    if pending and pending[0].number < len(applied):
        raise Conflict(
            "database.migration_skipped",
            f"migration {pending[0].name} was never applied, and later ones were",
            remedy="Restore the database from a backup; its ledger was changed by hand.",
        )
    return pending


def write_entry(connection: Connection[TupleRow], migration: Migration) -> None:
    """Record a migration in the transaction that applied it."""
    connection.execute(
        "insert into app.migrations (number, name, checksum, applied_at) values (%s, %s, %s, now())",
        [migration.number, migration.name, migration.checksum],
    )
    # The functions may have lost a view or a trigger: a crash before they are deployed again must not go unseen.
    connection.execute("delete from app.deployment")


def read_deployed(connection: Connection[TupleRow]) -> str | None:
    """The checksum of the functions as deployed last."""
    if not _exists(connection, "deployment"):
        return None
    row = connection.execute("select functions_checksum from app.deployment").fetchone()
    return row[0] if row else None


def write_deployed(connection: Connection[TupleRow], checksum: str) -> None:
    """Record a deployment of the functions in its transaction."""
    connection.execute(
        """insert into app.deployment (functions_checksum, deployed_at) values (%s, now())
           on conflict (one) do update set functions_checksum = excluded.functions_checksum,
                                           deployed_at = excluded.deployed_at""",
        [checksum],
    )


def _exists(connection: Connection[TupleRow], table: str) -> bool:
    query = "select from pg_catalog.pg_tables where schemaname = 'app' and tablename = %s"
    return connection.execute(query, [table]).fetchone() is not None


def _compare(entry: Entry, known: Mapping[int, Migration]) -> None:
    migration = known.get(entry.number)
    if migration is None and entry.number > max(known, default=0):
        raise Conflict(
            "database.newer",
            f"the database has migration {entry.name}, which this release of Anabranch does not know",
            remedy="Use the release that migrated it, or a later one.",
        )
    if migration is None:
        raise Conflict(
            "database.migration_missing",
            f"migration {entry.name} was applied, and its file is gone",
            remedy="Restore the file: migrations are never removed.",
        )
    if (migration.name, migration.checksum) != (entry.name, entry.checksum):
        raise Conflict(
            "database.migration_changed",
            f"migration {migration.name} is not what was applied as {entry.name}",
            remedy="Run the release that made this database, or another database: set ANABRANCH_HOME, or remove "
            "what a home holds with `anabranch down --purge --yes`. A changed migration belongs into a new file.",
        )
