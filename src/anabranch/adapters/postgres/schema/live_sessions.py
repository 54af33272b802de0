"""Refuses destructive changes of a database while processes use it."""

import psycopg
from psycopg import Connection
from psycopg.rows import TupleRow

from anabranch.adapters.postgres.connect import Role
from anabranch.adapters.postgres.database import query_text
from anabranch.adapters.postgres.schema.transaction import take_role
from anabranch.errors import Conflict

__all__ = ["refuse_live_sessions"]

MAX_NAMED = 5
# What lacks the tables or the clock of sessions has none.
MISSING_ERRORS = (
    psycopg.errors.UndefinedTable,
    psycopg.errors.UndefinedColumn,
    psycopg.errors.UndefinedFunction,
    psycopg.errors.InvalidSchemaName,
)


def refuse_live_sessions(connection: Connection[TupleRow]) -> None:
    """Refuse a database that live processes use, and name them."""
    if not (living := _find_live_sessions(connection)):
        return
    more = f" and {len(living) - MAX_NAMED} more" if len(living) > MAX_NAMED else ""
    raise Conflict(
        "database.in_use",
        f"processes live on database {connection.info.dbname}: {', '.join(living[:MAX_NAMED])}{more}",
        remedy="Stop them first, with `anabranch down` where each stack was started; those that were killed count until"
        " their lease ends. An embedded database, which runs only with its stack, goes by `anabranch down --purge`.",
    )


def _find_live_sessions(connection: Connection[TupleRow]) -> list[str]:
    try:
        with connection.transaction():
            take_role(connection, Role.OWNER)
            found = connection.execute(query_text("living").encode()).fetchall()
    except MISSING_ERRORS:
        return []
    return [f"{kind} {pid} on {host}" for kind, host, pid in found]
