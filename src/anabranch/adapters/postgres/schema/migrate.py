"""The schema made, kept and taken down: numbered migrations and functions, changed together (O4)."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

import psycopg
import structlog
from psycopg import Connection
from psycopg.rows import TupleRow

from anabranch.adapters.postgres.connect import Role, connect, mask, unreachable
from anabranch.adapters.postgres.schema.deploy import deploy
from anabranch.adapters.postgres.schema.files import Files, Migration
from anabranch.adapters.postgres.schema.live_sessions import refuse_live_sessions
from anabranch.adapters.postgres.schema.migration_log import (
    MIGRATION_LOG,
    Deployed,
    Entry,
    find_pending,
    read_deployed,
    read_entries,
    write_deployed,
    write_entry,
)
from anabranch.adapters.postgres.schema.outside_transaction import apply_outside
from anabranch.adapters.postgres.schema.roles import make_roles, not_allowed
from anabranch.adapters.postgres.schema.run_sql import execute
from anabranch.adapters.postgres.schema.transaction import (
    LOCK_TIMEOUT,
    hold_lock,
    hold_sessions_off,
    patiently,
    take_role,
)
from anabranch.errors import AnabranchError, Conflict, DefinitionError, Unavailable

__all__ = [
    "Applied",
    "Status",
    "connected",
    "migrate",
    "migrate_held",
    "redeploy",
    "require_migrated",
    "reset",
    "status",
]

log = structlog.get_logger(__name__)

MINIMUM_SERVER = 15
OWN_FILES = Files()

OWNS = f"select pg_catalog.pg_has_role(session_user, '{Role.OWNER.value}', 'member')"
SCHEMA_OWNER = "select pg_catalog.pg_get_userbyid(nspowner) from pg_catalog.pg_namespace where nspname = 'app'"


@dataclass(frozen=True)
class Applied:
    """What changed in a database."""

    migrations: tuple[str, ...]
    redeployed: bool


@dataclass(frozen=True)
class Status:
    """A database compared with the files."""

    database: str
    server_version: str
    applied: tuple[str, ...]
    pending: tuple[str, ...]
    functions_current: bool
    release: int | None
    files_release: int
    problem: str | None

    @property
    def is_later(self) -> bool:
        """Whether a later release was deployed, which this one leaves alone."""
        return self.release is not None and self.release > self.files_release

    @property
    def current(self) -> bool:
        """Whether there is nothing to migrate."""
        return (self.functions_current or self.is_later) and not self.pending and self.problem is None


def migrate(url: str, *, files: Files = OWN_FILES, patience: timedelta = LOCK_TIMEOUT) -> Applied:
    """Bring a database to the newest schema and functions; one that is there already, or further, stays untouched."""
    with _session(url, files, patience) as connection:
        return migrate_held(connection, files=files, patience=patience)


def redeploy(url: str, *, files: Files = OWN_FILES, patience: timedelta = LOCK_TIMEOUT) -> Applied:
    """Deploy functions, views, triggers and grants again in one transaction, whatever was done to them by hand."""
    with _session(url, files, patience) as connection:
        require_migrated(connection, files)
        patiently(connection, patience, partial(_change, connection, files, ()))
    return Applied((), True)


def reset(url: str, *, files: Files = OWN_FILES, patience: timedelta = LOCK_TIMEOUT) -> Applied:
    """Remove schemas app and geo with all their data, and make them again; Conflict while processes live on it."""
    with _session(url, files, patience) as connection:
        hold_sessions_off(connection, patience)
        refuse_live_sessions(connection)
        patiently(connection, patience, lambda: connection.execute("drop schema if exists app, geo cascade"))
        return migrate_held(connection, files=files, patience=patience)


def status(url: str, *, files: Files = OWN_FILES) -> Status:
    """Compare a database with the files; nothing is changed."""
    problem, pending = None, files.migrations
    with connected(url) as connection:
        entries, deployed = _read(connection)
        version = connection.info.parameter_status("server_version")
    try:
        pending = find_pending(files, entries, deployed)
    except AnabranchError as error:
        problem = error.message
    return Status(
        database=mask(url),
        server_version=str(version),
        applied=tuple(entry.name for entry in entries),
        pending=tuple(migration.name for migration in pending),
        functions_current=deployed is not None and deployed.checksum == files.functions_checksum,
        release=deployed.release if deployed else None,
        files_release=files.release.number,
        problem=problem,
    )


@contextmanager
def connected(url: str, *, writes: bool = False) -> Iterator[Connection[TupleRow]]:
    """A connection as the login user; what the server refuses is raised with the remedy."""
    with connect(url, None, name="anabranch db", writes=writes) as connection:
        try:
            yield connection
        except psycopg.errors.InsufficientPrivilege as error:
            raise not_allowed(connection, error) from error
        except psycopg.OperationalError as error:
            raise unreachable(url, error) from error


def require_migrated(connection: Connection[TupleRow], files: Files) -> None:
    """Refuse a database that lacks migrations, or that has a later release's."""
    entries, deployed = _read(connection)
    if deployed and deployed.release > files.release.number:
        raise Conflict(
            "database.newer",
            f"the database has release {deployed.release} of the schema; this is {files.release.number}",
            remedy="Use the release that migrated it, or a later one.",
        )
    if pending := find_pending(files, entries, deployed):
        raise Conflict(
            "database.not_migrated",
            f"database {connection.info.dbname} lacks migration {pending[0].name}",
            remedy="Run `anabranch db migrate` first.",
        )


@contextmanager
def _session(url: str, files: Files, patience: timedelta) -> Iterator[Connection[TupleRow]]:
    """A connection that keeps other migrations of the database out, after all that can be refused beforehand was."""
    if not files.migrations:
        raise DefinitionError("database.migrations_invalid", f"there are no migrations in {files.root}")
    with connected(url, writes=True) as connection:
        if connection.info.server_version < MINIMUM_SERVER * 10_000:
            raise Unavailable(
                "database.too_old",
                f"the server is PostgreSQL {connection.info.parameter_status('server_version')}",
                remedy=f"Use PostgreSQL {MINIMUM_SERVER} or newer.",
            )
        hold_lock(connection, patience)
        make_roles(connection, files["roles.sql"], url)
        _check_owner(connection)
        yield connection


def migrate_held(
    connection: Connection[TupleRow], *, files: Files = OWN_FILES, patience: timedelta = LOCK_TIMEOUT
) -> Applied:
    """The same over a connection that keeps other migrations out already."""
    entries, deployed = _read(connection)
    pending = find_pending(files, entries, deployed)
    if deployed and deployed.release > files.release.number:
        log.info("functions.left_alone", deployed=deployed.release, release=files.release.number)
        return Applied((), False)
    _make_schema(connection)
    inside = [migration for migration in pending if not migration.is_outside]
    if deployed is None:  # nobody calls anything yet; and what one migration adds to an enum, the next may use
        for migration in inside:
            patiently(connection, patience, partial(_apply, connection, migration))
    stale = bool(inside) or deployed is None or deployed.checksum != files.functions_checksum
    if stale:
        # Together: functions never meet tables that another release made, and a crash leaves the old release whole.
        together = inside if deployed else ()
        patiently(connection, patience, partial(_change, connection, files, together))
        log.info("functions.deployed", release=files.release.number, database=connection.info.dbname)
    for migration in pending:
        if migration.is_outside:
            apply_outside(connection, migration, patience)
        log.info("migration.applied", migration=migration.name, database=connection.info.dbname)
    return Applied(tuple(migration.name for migration in pending), stale)


def _read(connection: Connection[TupleRow]) -> tuple[tuple[Entry, ...], Deployed | None]:
    """The migrations applied and the functions deployed."""
    with connection.transaction():
        if not _check_owner(connection):
            return (), None
        take_role(connection, Role.OWNER if connection.execute(OWNS).fetchone() == (True,) else Role.READER)
        return read_entries(connection), read_deployed(connection)


def _check_owner(connection: Connection[TupleRow]) -> bool:
    """Whether schema app is there; Conflict when it is not ours."""
    row = connection.execute(SCHEMA_OWNER).fetchone()
    if row and row[0] != Role.OWNER.value:
        raise Conflict(
            "database.schema_taken",
            f"database {connection.info.dbname} has a schema app that belongs to {row[0]}",
            remedy="Give Anabranch a database of its own; if it is ours, alter schema app owner to anabranch_owner.",
        )
    return row is not None


def _make_schema(connection: Connection[TupleRow]) -> None:
    with connection.transaction():
        if not _check_owner(connection):
            connection.execute("create schema app authorization anabranch_owner")
            take_role(connection, Role.OWNER)
            execute(connection, MIGRATION_LOG)
    connection.execute("create schema if not exists geo authorization anabranch_owner")


def _apply(connection: Connection[TupleRow], migration: Migration) -> None:
    execute(connection, migration.file)
    write_entry(connection, migration)


def _change(connection: Connection[TupleRow], files: Files, migrations: Iterable[Migration]) -> None:
    for migration in migrations:
        _apply(connection, migration)
    deploy(connection, files)
    write_deployed(connection, files)
