"""One transaction that changes the catalog, and the statements in it; errors of the database are translated."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson
import psycopg
from psycopg import Connection
from psycopg.types.json import Jsonb

from anabranch.errors import AnabranchError, Conflict, Denied, InputError, NotFound, Transient, Unavailable
from anabranch.sql_files import read_statements

__all__ = ["Work", "jsonb", "publishing", "run", "stream"]

SQL = Path(__file__).parents[1] / "statements.sql"
# Longer than a queue of publishers takes, and shorter than the statement timeout.
LOCK_TIMEOUT = "50s"
PARTITION_PREFIX = '"_items_'
LOCK_ERRORS = (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected)
MISSING_ERRORS = (psycopg.errors.UndefinedTable, psycopg.errors.UndefinedFunction, psycopg.errors.InvalidSchemaName)
# SQLSTATE classes of errors in the items; any other is an error of the server, a failover for example.
DATA_ERROR_CLASSES = ("21", "22", "23", "54", "0A", "P0")
# What app.refuse_publications and app.show_tables raise, with the code that it has here.
REFUSALS: Mapping[str, tuple[type[AnabranchError], str]] = {
    "AN010": (Conflict, "publication.moved"),
    "AN011": (Conflict, "publication.owner"),
    "AN012": (NotFound, "publication.not_found"),
    "AN013": (Conflict, "publication.same"),
    "AN014": (Conflict, "publication.expired"),
    "AN015": (Conflict, "catalog.not_empty"),
    "AN016": (Denied, "publication.forbidden"),
    "AN017": (Conflict, "publication.name_taken"),
    "AN018": (Conflict, "publication.tables"),
    "AN019": (NotFound, "catalog.no_collection"),
    "AN030": (Conflict, "publication.not_approved"),
    "AN031": (Conflict, "publication.release"),
    "AN033": (Conflict, "publication.unapproved"),
    "2BP01": (Conflict, "publication.in_use"),  # somebody's own views use the view
}
Work = Connection[Any]  # with any row factory


@contextmanager
def publishing(connection: Work, *, dry_run: bool = False) -> Iterator[None]:
    """One transaction, which a dry run takes back; database errors are translated."""
    try:
        with connection.transaction(force_rollback=dry_run):
            connection.execute("select set_config('lock_timeout', %s, true)", [LOCK_TIMEOUT])
            yield
    except psycopg.Error as error:
        raise _translate(error, collapsed=connection.closed) from error


def run(connection: Work, query: str, **parameters: object) -> list[tuple[Any, ...]]:
    """Run one of the statements, and return its rows."""
    # Never prepared: a generic plan would lock the partitions of all collections.
    return [_values(row) for row in connection.execute(_text(query), parameters, prepare=False).fetchall()]


def stream(connection: Work, query: str, **parameters: object) -> Iterator[tuple[Any, ...]]:
    """Run one of the statements, and return its rows as they come, a few at a time."""
    with connection.cursor(query) as cursor:
        cursor.execute(_text(query), parameters)
        yield from map(_values, cursor)


def jsonb(value: object) -> Jsonb:
    """A value as a parameter of a statement."""
    return Jsonb(value, dumps=_dump)


def _translate(error: psycopg.Error, *, collapsed: bool) -> AnabranchError:
    said = error.diag.message_primary or str(error)
    if refusal := REFUSALS.get(error.sqlstate or ""):
        kind, code = refusal
        what = f"{said}: {error.diag.message_detail}" if error.diag.message_detail else said
        return kind(code, what)
    # pgstac does not report that it could not get the lock to create a partition; the partition is just missing.
    if isinstance(error, LOCK_ERRORS) or (isinstance(error, MISSING_ERRORS) and PARTITION_PREFIX in said):
        return Transient(f"the catalog is in use: {said}", code="catalog.busy", remedy="The task is retried.")
    if isinstance(error, MISSING_ERRORS) and not collapsed:
        remedy = "Run `anabranch db migrate`; it reports what the server lacks."
        return Unavailable("catalog.missing", f"there is no catalog: {said}", remedy=remedy)
    if (error.sqlstate or "").startswith(DATA_ERROR_CLASSES) and not collapsed:
        remedy = "Fix the data of the items; they were not published."
        return InputError("catalog.refused", f"pgstac refused a publication: {said}", remedy=remedy)
    what = f"the database aborted a publication: {said}"
    return Transient(what, code="catalog.unreachable", remedy="They were not published; the task is retried.")


def _dump(value: object) -> str | bytes:
    """JSON, quickly where no integer has over 64 bits."""
    try:
        return orjson.dumps(value)
    except TypeError:
        return json.dumps(value)


def _text(query: str) -> bytes:
    return read_statements(SQL)[query].encode()


def _values(row: Any) -> tuple[Any, ...]:  # a tuple or a mapping, by the connection's row factory
    return tuple(row.values()) if isinstance(row, Mapping) else tuple(row)
