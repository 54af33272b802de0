"""The log of migrations with their checksums, and of the functions deployed last."""

from collections.abc import Mapping
from dataclasses import dataclass

from psycopg import Connection
from psycopg.rows import TupleRow, class_row

from anabranch.adapters.postgres.schema.files import Files, Migration, SqlFile
from anabranch.errors import Conflict

__all__ = [
    "MIGRATION_LOG",
    "Deployed",
    "Entry",
    "find_pending",
    "read_deployed",
    "read_entries",
    "unsupported",
    "write_deployed",
    "write_entry",
]

# Made by the machinery itself, before the first migration.
MIGRATION_LOG = SqlFile(
    "schema/migration_log.py",
    """create table if not exists app.migrations (
    number integer primary key,
    name text not null,
    checksum text not null,
    applied_at timestamptz not null
);
create table if not exists app.deployment (
    one boolean primary key default true check (one),
    functions_checksum text not null,
    deployed_at timestamptz not null,
    release integer not null,
    oldest_release integer not null
);""",
)


@dataclass(frozen=True)
class Entry:
    """A migration that was applied."""

    number: int
    name: str
    checksum: str


@dataclass(frozen=True)
class Deployed:
    """The functions deployed last: their release, the oldest one whose processes may call them, and their checksum."""

    release: int
    oldest: int
    checksum: str


def read_entries(connection: Connection[TupleRow]) -> tuple[Entry, ...]:
    """The applied migrations in order; none where nothing was ever migrated."""
    if not _exists(connection, "migrations"):
        return ()
    with connection.cursor(row_factory=class_row(Entry)) as cursor:
        return tuple(cursor.execute("select number, name, checksum from app.migrations order by number"))


def find_pending(files: Files, entries: tuple[Entry, ...], deployed: Deployed | None) -> tuple[Migration, ...]:
    """The migrations to apply, none where a later release was deployed; Conflict when database and files disagree."""
    known = {migration.number: migration for migration in files.migrations}
    is_later = deployed is not None and deployed.release > files.release.number
    entries = _fold(files, entries)
    for entry in entries:
        if not (is_later and entry.number > max(known, default=0)):
            _compare(entry, known)
    applied = {entry.number for entry in entries}
    pending = tuple(migration for migration in files.migrations if migration.number not in applied)
    if deployed and is_later and (pending or files.release.number < deployed.oldest):
        raise unsupported(files, deployed)
    if skipped := [m for m in pending if m.number < max(applied, default=0) and not m.is_outside]:
        raise Conflict(
            "database.migration_skipped",
            f"migration {skipped[0].name} was never applied, and later ones were",
            remedy="Restore the database from a backup; its ledger was changed by hand.",
        )
    return pending


def _fold(files: Files, entries: tuple[Entry, ...]) -> tuple[Entry, ...]:
    """The entries, with the baseline instead of the migrations that it replaces."""
    if not files.folded:
        return entries
    baseline = files.migrations[0]
    after = [group[0] for group in files.folded[1:]] + [(baseline.name, baseline.checksum)]
    for group, (name, checksum) in zip(files.folded, after, strict=True):
        folded = tuple(entry for entry in entries if (entry.name, entry.checksum) in group)
        if folded and len(folded) < len(group):
            raise Conflict(
                "database.migration_missing",
                f"the database ends with migration {folded[-1].name}; the next are part of {baseline.name} now",
                remedy=f"Run `anabranch db migrate` of a version that has {group[-1][0]} first; or remove all data "
                "with `anabranch db reset --yes`.",
            )
        if folded:
            entries = (Entry(int(name[:4]), name, checksum), *entries[len(folded) :])
    return entries


def write_entry(connection: Connection[TupleRow], migration: Migration) -> None:
    """Record a migration that was applied."""
    connection.execute(
        "insert into app.migrations (number, name, checksum, applied_at) values (%s, %s, %s, now())",
        [migration.number, migration.name, migration.checksum],
    )


def read_deployed(connection: Connection[TupleRow]) -> Deployed | None:
    """The functions as deployed last; releases had no number before the second."""
    if not _exists(connection, "deployment"):
        return None
    query = """select coalesce((to_jsonb(d) ->> 'release')::integer, 1),
                      coalesce((to_jsonb(d) ->> 'oldest_release')::integer, 1), d.functions_checksum
                 from app.deployment d"""
    row = connection.execute(query).fetchone()
    return Deployed(*row) if row else None


def write_deployed(connection: Connection[TupleRow], files: Files) -> None:
    """Record a deployment of the functions in its transaction."""
    connection.execute(
        """insert into app.deployment (release, oldest_release, functions_checksum, deployed_at)
           values (%s, %s, %s, now())
           on conflict (one) do update set release = excluded.release, oldest_release = excluded.oldest_release,
                                           functions_checksum = excluded.functions_checksum,
                                           deployed_at = excluded.deployed_at""",
        [files.release.number, files.release.oldest, files.functions_checksum],
    )


def _exists(connection: Connection[TupleRow], table: str) -> bool:
    query = "select from pg_catalog.pg_tables where schemaname = 'app' and tablename = %s"
    return connection.execute(query, [table]).fetchone() is not None


def _compare(entry: Entry, known: Mapping[int, Migration]) -> None:
    migration = known.get(entry.number)
    if migration is None and entry.number > max(known, default=0):
        raise _newer(f"migration {entry.name}, which this release of Anabranch does not know")
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


def unsupported(files: Files, deployed: Deployed) -> Conflict:
    """The error of a release whose processes can't use what a later one deployed."""
    return _newer(
        f"release {deployed.release} of the schema, for release {deployed.oldest} and later; "
        f"this is {files.release.number}"
    )


def _newer(what: str) -> Conflict:
    return Conflict(
        "database.newer", f"the database has {what}", remedy="Use the release that migrated it, or a later one."
    )
