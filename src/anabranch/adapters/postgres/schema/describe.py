"""A schema as the catalogs describe it, to be compared with another or with models."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from psycopg import Connection
from psycopg.rows import TupleRow, class_row

from anabranch.adapters.postgres.connect import Role
from anabranch.adapters.postgres.schema.files import read_queries

__all__ = ["Description", "Difference", "Field", "describe", "describe_roles"]

KINDS = {
    "schema": "schema",
    "tables": "table",
    "columns": "column",
    "constraints": "constraint",
    "indexes": "index",
    "triggers": "trigger",
    "policies": "policy",
    "views": "view",
    "functions": "function",
    "types": "type",
    "others": "object",
    "grants": "grant",
}


@dataclass(frozen=True)
class Difference:
    """One thing that is not as it should be; None where there is nothing."""

    what: str
    where: str
    expected: str | None
    found: str | None

    def __str__(self) -> str:
        return f"{self.what} {self.where}: expected {self.expected or 'none'}, found {self.found or 'none'}"


@dataclass(frozen=True)
class Field:
    """A column as a model sees it; `nullable` is None where the server doesn't know."""

    table: str
    name: str
    type: str
    is_array: bool
    nullable: bool | None
    labels: list[str]


@dataclass(frozen=True)
class Description:
    """What a schema holds: a definition for each kind and name, and the fields of each table and view."""

    facts: Mapping[tuple[str, str], str]
    fields: Mapping[str, tuple[Field, ...]]


def describe(connection: Connection[TupleRow], schema: str) -> Description:
    """A schema, written as if its name were app; names of others stand with their schema."""
    with connection.transaction():
        # What is not on the path is written with its schema, the same for every user.
        connection.execute("set local search_path = ''")
        facts = {}
        for plural, kind in KINDS.items():
            for name, definition in connection.execute(_query(plural), {"schema": schema}):
                facts[kind, name.replace(schema, "app")] = definition.replace(schema, "app")
        return Description(facts, _fields(connection, schema))


def describe_roles(connection: Connection[TupleRow]) -> list[Difference]:
    """The roles of ours that were given more than they should have."""
    rows = connection.execute(_query("roles"), {"roles": [role.value for role in Role]})
    return [Difference("role", name, None, surplus) for name, surplus in rows if surplus]


def _fields(connection: Connection[TupleRow], schema: str) -> Mapping[str, tuple[Field, ...]]:
    tables: dict[str, list[Field]] = defaultdict(list)
    with connection.cursor(row_factory=class_row(Field)) as cursor:
        for field in cursor.execute(_query("fields"), {"schema": schema}):
            tables[field.table].append(field)
    return {table: tuple(fields) for table, fields in tables.items()}


def _query(name: str) -> str:
    return read_queries()[name]
