"""Calls every function once, without effect, to check that its callers may call it."""

import psycopg
from psycopg import Connection
from psycopg.rows import TupleRow

from anabranch.adapters.postgres.database import query_text
from anabranch.adapters.postgres.schema.describe import Difference
from anabranch.adapters.postgres.schema.migrate import connected

__all__ = ["call_functions"]

SET_TIMEOUTS = "select set_config('statement_timeout', '2s', true), set_config('lock_timeout', '1s', true)"
# It names what is not there or not allowed, or something inside is broken; else it answered, or refused nothing at all
# as arguments, or to write, which it may not here.
BROKEN_SQLSTATES = ("0A", "25P", "2F", "42", "57014", "58", "XX")


def call_functions(url: str) -> tuple[int, list[Difference]]:
    """How many functions were called, with null for every argument where nothing can be written; and which can't be."""
    with connected(url) as connection, connection.transaction(force_rollback=True):
        connection.execute("set transaction read only")
        connection.execute(SET_TIMEOUTS)
        found = connection.execute(query_text("callable_functions").encode(), {}).fetchall()
        failed = [(name, error) for name, call, role in found if (error := _call(connection, call, role))]
    return len(found), [Difference("call", name, "an answer", error) for name, error in failed]


def _call(connection: Connection[TupleRow], call: str, role: str) -> str | None:
    try:
        with connection.transaction(force_rollback=True):
            connection.execute("select set_config('role', %s, true)", [role])
            connection.execute(call.encode()).fetchall()
    except psycopg.Error as error:
        if error.sqlstate is None:
            raise
        return error.diag.message_primary if error.sqlstate.startswith(BROKEN_SQLSTATES) else None
    return None
