"""Functions, views, triggers and grants, replaced whole while others call them (O4)."""

import re

import psycopg
from psycopg import Connection, sql
from psycopg.rows import TupleRow

from anabranch.adapters.postgres.schema.files import Files, SqlFile
from anabranch.adapters.postgres.schema.run_sql import SCHEMA, blaming, execute, moved
from anabranch.adapters.postgres.schema.triggers_and_views import (
    find_triggers,
    renew_triggers,
    renew_views,
    without_triggers,
)

__all__ = ["deploy"]

CREATE = re.compile(r"^create\s+(function|procedure)\b", re.IGNORECASE | re.MULTILINE)

# Another result, another kind, another owner: then there is no way but to drop it first.
CANNOT_REPLACE = (
    psycopg.errors.InvalidFunctionDefinition,
    psycopg.errors.WrongObjectType,
    psycopg.errors.InsufficientPrivilege,
)

# The row version changes when a file replaces the routine: one that has the same afterwards is in no file.
VERSIONS = """
    select p.oid, p.xmin::text, p.oid::regprocedure::text, p.proname from pg_catalog.pg_proc p
     where p.pronamespace = %s::regnamespace"""

ROUTINES = """
    select p.oid, p.oid::regprocedure::text, p.proname, l.lanname,
           exists (select from unnest(p.proconfig) setting where setting like 'search_path=%%')
      from pg_catalog.pg_proc p join pg_catalog.pg_language l on l.oid = p.prolang
     where p.pronamespace = %s::regnamespace and l.lanname in ('sql', 'plpgsql') order by p.proname"""

# A small function that reads no table may ask to run as its caller: only then the planner can put its body in line.
AS_CALLER = re.compile(r"\bsecurity\s+invoker\b", re.IGNORECASE)


def deploy(connection: Connection[TupleRow], files: Files, schema: str = SCHEMA) -> None:
    """Make functions, views, triggers and grants what the files say, in the caller's transaction as the owner."""
    _replace_functions(connection, files, schema)
    _harden(connection, files, schema)
    renew_triggers(connection, find_triggers(files.functions), schema)
    renew_views(connection, files.views, schema)
    execute(connection, files["grants.sql"], schema)
    _validate(connection, files, schema)


def _replace_functions(connection: Connection[TupleRow], files: Files, schema: str) -> None:
    # A caller that has just looked up a function fails with "cache lookup failed" if it is dropped and created; one
    # that is replaced keeps its identity. So only what no file makes any more is dropped.
    connection.execute("set local check_function_bodies = off")
    before = _versions(connection, schema)
    for file in files.functions:
        _replace(connection, without_triggers(file), schema)
    for _, _, routine, _ in before & _versions(connection, schema):
        connection.execute(f"drop routine if exists {routine} cascade")


def _replace(connection: Connection[TupleRow], file: SqlFile, schema: str) -> None:
    text = moved(CREATE.sub(r"create or replace \1", file.text), schema)
    with blaming(file):
        try:
            with connection.transaction():
                connection.execute(text)
        except CANNOT_REPLACE:
            for _, _, routine, name in _versions(connection, schema):
                if name == file.stem:
                    connection.execute(f"drop routine if exists {routine} cascade")
            connection.execute(text)


def _versions(connection: Connection[TupleRow], schema: str) -> set[TupleRow]:
    return set(connection.execute(VERSIONS, [schema]))


def _harden(connection: Connection[TupleRow], files: Files, schema: str) -> None:
    """Let functions run as the owner, and find no name in a caller's temporary schema before our own."""
    as_caller = {file.stem for file in files.functions if AS_CALLER.search(file.text)}
    for _, routine, name, _, has_path in connection.execute(ROUTINES, [schema]).fetchall():
        if name not in as_caller:
            path = "" if has_path else "set search_path = pg_catalog, pg_temp"
            connection.execute(f"alter routine {routine} security definer {path}")


def _validate(connection: Connection[TupleRow], files: Files, schema: str) -> None:
    """Check the bodies of all functions, now that everything they name is there."""
    connection.execute("set local check_function_bodies = on")
    by_name = {file.stem: file for file in files.functions}
    validators = {"sql": "fmgr_sql_validator", "plpgsql": "plpgsql_validator"}
    for oid, _, name, language, _ in connection.execute(ROUTINES, [schema]).fetchall():
        validator = sql.Identifier("pg_catalog", validators[language])
        with blaming(by_name.get(name) or SqlFile(name, "")):
            connection.execute(sql.SQL("select {}(%s)").format(validator), [oid])
