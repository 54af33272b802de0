"""SQL files run as they are, or in another schema than their own."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import Connection
from psycopg.rows import TupleRow

from anabranch.adapters.postgres.schema.files import SqlFile
from anabranch.errors import DefinitionError

__all__ = ["SCHEMA", "blaming", "execute", "moved"]

SCHEMA = "app"
SCHEMA_NAME = re.compile(r"\bapp(?=\.|'::regnamespace)|(?<=\bschema )app\b")


def execute(connection: Connection[TupleRow], file: SqlFile, schema: str = SCHEMA) -> None:
    """Run a file; an error names it, and the line."""
    with blaming(file):
        connection.execute(moved(file.text, schema))


def moved(text: str, schema: str) -> str:
    """SQL with the names of our schema changed to those of another."""
    return text if schema == SCHEMA else SCHEMA_NAME.sub(schema, text)


@contextmanager
def blaming(file: SqlFile) -> Iterator[None]:
    """Blame a file for what the server says is wrong with it; trouble of the server's own passes."""
    try:
        yield
    except psycopg.OperationalError:
        raise
    except psycopg.Error as error:
        place = int(error.diag.statement_position or 0)
        line = f", line {file.text[:place].count(chr(10)) + 1}" if place else ""
        what = error.diag.message_primary or str(error)
        denied = isinstance(error, psycopg.errors.InsufficientPrivilege)
        remedy = "Something in schema app belongs to another role: `anabranch db check` names it." if denied else ""
        raise DefinitionError("database.sql_invalid", f"{file.path}{line}: {what}", remedy=remedy) from error
