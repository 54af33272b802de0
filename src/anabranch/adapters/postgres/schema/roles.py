"""The roles, and what to ask of an administrator where the login user may not make them."""

import psycopg
from psycopg import Connection, sql
from psycopg.rows import TupleRow

from anabranch.adapters.postgres.connect import Role
from anabranch.adapters.postgres.schema.files import SqlFile
from anabranch.errors import InputError

__all__ = ["make_roles", "not_allowed"]


def make_roles(connection: Connection[TupleRow], file: SqlFile) -> None:
    """Make the roles that are missing, and the login user a member."""
    connection.execute(file.text)


def not_allowed(connection: Connection[TupleRow], error: psycopg.Error) -> InputError:
    """The error that names what an administrator must run for this user and database."""
    return InputError(
        "database.not_allowed",
        f"user {connection.info.user} may not prepare database {connection.info.dbname}: {error.diag.message_primary}",
        remedy=f"Let an administrator run: {_administrators_part(connection)}",
    )


def _administrators_part(connection: Connection[TupleRow]) -> str:
    user, database = sql.Identifier(connection.info.user), sql.Identifier(connection.info.dbname)
    statements = [
        *(sql.SQL("create role {} nologin;").format(sql.Identifier(name)) for name in _missing(connection)),
        sql.SQL("grant {} to {};").format(sql.SQL(", ").join(sql.Identifier(role.value) for role in Role), user),
        sql.SQL("grant create on database {} to {};").format(database, user),
    ]
    return sql.SQL(" ").join(statements).as_string(connection)


def _missing(connection: Connection[TupleRow]) -> list[str]:
    found = {name for (name,) in connection.execute("select rolname from pg_catalog.pg_roles")}
    return [role.value for role in Role if role.value not in found]
