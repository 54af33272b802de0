"""The roles, and what to ask of an administrator where the login user may not make them."""

from collections.abc import Sequence

import psycopg
from psycopg import Connection, sql
from psycopg.rows import TupleRow

from anabranch.adapters.postgres.schema.files import SqlFile
from anabranch.adapters.postgres.server.url import Role, ServerUrl
from anabranch.errors import InputError

__all__ = ["make_roles", "not_allowed"]

# Of a login that there is not, all.
LACKING = """
    select wanted from unnest(%s::text[]) wanted
     where not exists (select from pg_catalog.pg_roles r
                        where r.rolname = %s and pg_catalog.pg_has_role(r.oid, wanted, 'member'))"""


def make_roles(connection: Connection[TupleRow], file: SqlFile, url: str) -> None:
    """Make the roles that are missing, and the login users members: the owner's of all, others of those they take."""
    connection.execute(file.text)
    for login, roles in ServerUrl.of(url).members().items():
        if missing := [role for (role,) in connection.execute(LACKING, [[r.value for r in roles], login])]:
            _grant(connection, missing, login)


def _grant(connection: Connection[TupleRow], roles: Sequence[str], login: str) -> None:
    names, user = sql.SQL(", ").join(map(sql.Identifier, roles)), sql.Identifier(login)
    grant = sql.SQL("grant {} to {}").format(names, user)
    try:
        connection.execute(grant)
    except psycopg.errors.UndefinedObject as error:
        raise InputError(
            "database.not_allowed",
            f"there is no login {login}, which the settings name: {error.diag.message_primary}",
            remedy=f"Let an administrator run: create role {user.as_string(connection)} login password '…'",
        ) from error
    except psycopg.errors.InsufficientPrivilege as error:
        raise InputError(
            "database.not_allowed",
            f"user {connection.info.user} may not let {login} act in our roles: {error.diag.message_primary}",
            remedy=f"Let an administrator run: {grant.as_string(connection)};",
        ) from error


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
