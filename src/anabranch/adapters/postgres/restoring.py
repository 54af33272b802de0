"""What a restore asks of a database, and changes in it beside the dump."""

from collections.abc import Sequence
from typing import NamedTuple

from psycopg import Connection
from psycopg.rows import TupleRow

__all__ = ["FileVersion", "find_file_versions", "find_schemas", "identify_database", "move_file_version"]

FIND_SCHEMAS = "select nspname from pg_catalog.pg_namespace where nspname = any(%s) order by nspname"
IDENTIFY_DATABASE = """
    select d.datname::text, d.oid::text, s.system_identifier::text
      from pg_catalog.pg_database d, pg_catalog.pg_control_system() s where d.datname = current_database()
"""
FIND_VERSIONS = "select tier, key, version from app.published_files where version is not null"
MOVE_VERSION = "update app.published_files set version = %s where tier = %s and key = %s and version = %s"


class FileVersion(NamedTuple):
    """A published file that others may replace, and the version in which it is shown: the tag of its object."""

    tier: str
    key: str
    tag: str | None


def find_schemas(connection: Connection[TupleRow], names: Sequence[str]) -> list[str]:
    """Those of these schemas that there are."""
    return [name for (name,) in connection.execute(FIND_SCHEMAS, [list(names)])]


def identify_database(connection: Connection[TupleRow]) -> list[str]:
    """What is unique to this database: its name, its number and that of its cluster."""
    return list(connection.execute(IDENTIFY_DATABASE).fetchone() or ())


def find_file_versions(connection: Connection[TupleRow]) -> set[FileVersion]:
    """The published files that others may replace."""
    return {FileVersion(*row) for row in connection.execute(FIND_VERSIONS)}


def move_file_version(connection: Connection[TupleRow], shown: FileVersion, tag: str) -> None:
    """Show a file in the version with this tag."""
    connection.execute(MOVE_VERSION, [tag, *shown])
