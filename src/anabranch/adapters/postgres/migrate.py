"""The schema made, kept and taken down: numbered migrations, then functions whole (O4)."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

import psycopg
import structlog
from psycopg import Connection
from psycopg.rows import TupleRow

from anabranch.adapters.postgres.connect import Role, connect, mask, unreachable
from anabranch.adapters.postgres.deploy import deploy
from anabranch.adapters.postgres.files import Files, Migration
from anabranch.adapters.postgres.ledger import (
    LEDGER,
    Entry,
    find_pending,
    read_deployed,
    read_entries,
    write_deployed,
    write_entry,
)
from anabranch.adapters.postgres.living import refuse_living
from anabranch.adapters.postgres.roles import make_roles, not_allowed
from anabranch.adapters.postgres.script import execute
from anabranch.adapters.postgres.transaction import PATIENCE, hold_lock, patiently, take_role
from anabranch.engine.errors import AnabranchError, Conflict, DefinitionError, Unavailable

__all__ = ["Applied", "Status", "connected", "migrate", "redeploy", "require_migrated", "reset", "status"]

log = structlog.get_logger(__name__)

MINIMUM_SERVER = 15
OURS = Files()

SCHEMA_OWNER = "select pg_catalog.pg_get_userbyid(nspowner) from pg_catalog.pg_namespace where nspname = 'app'"


@dataclass(frozen=True)
class Applied:
    """What changed in a database."""

    migrations: tuple[str, ...]
    redeployed: bool


@dataclass(frozen=True)
class Status:
    """How a database stands to the files."""

    database: str
    server_version: str
    applied: tuple[str, ...]
    pending: tuple[str, ...]
    functions_current: bool
    problem: str | None

    @property
    def current(self) -> bool:
        """Whether there is nothing to migrate."""
        return self.functions_current and not self.pending and self.problem is None


def migrate(url: str, *, files: Files = OURS, patience: timedelta = PATIENCE) -> Applied:
    """Bring a database to the newest schema and functions; one that is there already stays untouched."""
    with _session(url, files, patience) as connection:
        return _migrate(connection, files, patience)


def redeploy(url: str, *, files: Files = OURS, patience: timedelta = PATIENCE) -> Applied:
    """Make functions, views, triggers and grants anew in one transaction, whatever was done to them by hand."""
    with _session(url, files, patience) as connection:
        require_migrated(connection, files)
        patiently(connection, patience, partial(_deploy, connection, files))
    return Applied((), True)


def reset(url: str, *, files: Files = OURS, patience: timedelta = PATIENCE) -> Applied:
    """Remove schema app with all its data, and make it anew; Conflict while processes live on it."""
    with _session(url, files, patience) as connection:
        refuse_living(connection)
        patiently(connection, patience, lambda: connection.execute("drop schema if exists app cascade"))
        return _migrate(connection, files, patience)


def status(url: str, *, files: Files = OURS) -> Status:
    """How a database stands to the files; nothing is changed."""
    problem, pending = None, files.migrations
    with connected(url) as connection:
        entries, deployed = _read(connection)
        version = connection.info.parameter_status("server_version")
    try:
        pending = find_pending(files, entries)
    except AnabranchError as error:
        problem = error.message
    return Status(
        database=mask(url),
        server_version=str(version),
        applied=tuple(entry.name for entry in entries),
        pending=tuple(migration.name for migration in pending),
        functions_current=deployed == files.functions_checksum,
        problem=problem,
    )


@contextmanager
def connected(url: str) -> Iterator[Connection[TupleRow]]:
    """A connection as the login user; what the server refuses it is told with the remedy."""
    with connect(url, None, name="anabranch db") as connection:
        try:
            yield connection
        except psycopg.errors.InsufficientPrivilege as error:
            raise not_allowed(connection, error) from error
        except psycopg.OperationalError as error:
            raise unreachable(url, error) from error


def require_migrated(connection: Connection[TupleRow], files: Files) -> None:
    """Refuse a database that lacks migrations."""
    entries, _ = _read(connection)
    if pending := find_pending(files, entries):
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
    with connected(url) as connection:
        if connection.info.server_version < MINIMUM_SERVER * 10_000:
            raise Unavailable(
                "database.too_old",
                f"the server is PostgreSQL {connection.info.parameter_status('server_version')}",
                remedy=f"Use PostgreSQL {MINIMUM_SERVER} or newer.",
            )
        hold_lock(connection, patience)
        make_roles(connection, files["roles.sql"])
        _check_owner(connection)
        yield connection


def _migrate(connection: Connection[TupleRow], files: Files, patience: timedelta) -> Applied:
    entries, deployed = _read(connection)
    pending = find_pending(files, entries)
    _make_schema(connection)
    for migration in pending:
        patiently(connection, patience, partial(_apply, connection, migration))
        log.info("migration.applied", migration=migration.name, database=connection.info.dbname)
    stale = bool(pending) or deployed != files.functions_checksum
    if stale:
        patiently(connection, patience, partial(_deploy, connection, files))
        log.info("functions.deployed", functions=len(files.functions), database=connection.info.dbname)
    return Applied(tuple(migration.name for migration in pending), stale)


def _read(connection: Connection[TupleRow]) -> tuple[tuple[Entry, ...], str | None]:
    """The migrations applied and the functions deployed."""
    with connection.transaction():
        if not _check_owner(connection):
            return (), None
        take_role(connection, Role.OWNER)
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
            execute(connection, LEDGER)


def _apply(connection: Connection[TupleRow], migration: Migration) -> None:
    execute(connection, migration.file)
    write_entry(connection, migration)


def _deploy(connection: Connection[TupleRow], files: Files) -> None:
    deploy(connection, files)
    write_deployed(connection, files.functions_checksum)
