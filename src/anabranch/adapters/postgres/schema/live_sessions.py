"""The processes that live on a database, which nothing may be pulled away from under."""

import psycopg
from psycopg import Connection
from psycopg.rows import TupleRow

from anabranch.adapters.postgres.connect import Role
from anabranch.adapters.postgres.database import query_text
from anabranch.adapters.postgres.schema.transaction import take_role
from anabranch.errors import Conflict

__all__ = ["refuse_living"]

NAMED = 5
# What lacks the tables or the clock of sessions has none.
MISSING = (
    psycopg.errors.UndefinedTable,
    psycopg.errors.UndefinedColumn,
    psycopg.errors.UndefinedFunction,
    psycopg.errors.InvalidSchemaName,
)


def refuse_living(connection: Connection[TupleRow]) -> None:
    """Refuse a database that processes live on, and name them."""
    if not (living := _find_living(connection)):
        return
    more = f" and {len(living) - NAMED} more" if len(living) > NAMED else ""
    raise Conflict(
        "database.in_use",
        f"processes live on database {connection.info.dbname}: {', '.join(living[:NAMED])}{more}",
        remedy="Stop them first, with `anabranch down` where each stack was started; those that were killed count until"
        " their lease ends. An embedded database, which runs only with its stack, goes by `anabranch down --purge`.",
    )


def _find_living(connection: Connection[TupleRow]) -> list[str]:
    try:
        with connection.transaction():
            take_role(connection, Role.OWNER)
            found = connection.execute(query_text("living").encode()).fetchall()
    except MISSING:
        return []
    return [f"{kind} {pid} on {host}" for kind, host, pid in found]
