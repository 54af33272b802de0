"""The SQL statements of vectors, by name."""

from pathlib import Path
from typing import Any

from psycopg import Connection, sql

from anabranch.sql_files import read_statements

__all__ = ["SQL", "Rows", "name_in", "run", "text"]

SQL = Path(__file__).with_name("statements.sql")
Rows = list[tuple[Any, ...]]


def run(connection: Connection[Any], query: str, **parameters: object) -> Rows:
    """Run one of the statements, and return its rows."""
    cursor = connection.execute(text(query), parameters, prepare=False)
    return cursor.fetchall() if cursor.description else []


def text(query: str) -> bytes:
    """The text of a statement."""
    return read_statements(SQL)[query].encode()


def name_in(query: str, **names: str) -> sql.Composed:
    """A statement with the names of tables and columns in it, quoted (S2)."""
    quoted = {place: sql.Identifier(name) for place, name in names.items()}
    return sql.SQL(text(query).decode()).format(**quoted)
