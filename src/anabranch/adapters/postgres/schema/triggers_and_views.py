"""Triggers and views: what holds on to tables and functions, and is left alone where it is as its file says.

Making one needs locks that callers would have to wait for. So each is made beside the real one first, and that is
touched only if the two differ.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

import psycopg
from psycopg import Connection
from psycopg.rows import TupleRow

from anabranch.adapters.postgres.schema.files import SqlFile
from anabranch.adapters.postgres.schema.run_sql import blaming, execute, moved

__all__ = ["Trigger", "find_triggers", "renew_triggers", "renew_views", "without_triggers"]

TRIGGER = re.compile(r"^create\s+trigger\s+(\w+)\b[^;]*?\bon\s+app\.(\w+)\b[^;]*;", re.IGNORECASE | re.MULTILINE)

TRIGGERS = """
    select c.relname, t.tgname from pg_catalog.pg_trigger t join pg_catalog.pg_class c on c.oid = t.tgrelid
     where c.relnamespace = %s::regnamespace and not t.tgisinternal order by 1, 2"""

VIEWS = "select relname from pg_catalog.pg_class where relnamespace = %s::regnamespace and relkind = 'v'"

SAME_TRIGGER = """
    select pg_get_triggerdef(old.oid) = replace(pg_get_triggerdef(new.oid), %(beside)s, %(table)s)
           and old.tgenabled = new.tgenabled
      from pg_catalog.pg_trigger old, pg_catalog.pg_trigger new
     where old.tgrelid = %(table)s::regclass and old.tgname = %(name)s
       and new.tgrelid = %(beside)s::regclass and new.tgname = %(name)s"""

SAME_VIEW = """
    select pg_get_viewdef(old.oid) = pg_get_viewdef(new.oid) and old.relowner = new.relowner
           and old.reloptions is not distinct from new.reloptions
      from pg_catalog.pg_class old, pg_catalog.pg_class new
     where old.oid = %(view)s::regclass and new.oid = %(beside)s::regclass"""


@dataclass(frozen=True)
class Trigger:
    """A trigger as the file of its function makes it."""

    table: str
    name: str
    file: SqlFile


def find_triggers(files: Iterable[SqlFile]) -> list[Trigger]:
    """The triggers in the files of functions."""
    return [
        # Led by as many empty lines, so that an error names the right one.
        Trigger(found[2], found[1], SqlFile(file.path, file.text[: found.start()].count("\n") * "\n" + found[0]))
        for file in files
        for found in TRIGGER.finditer(file.text)
    ]


def without_triggers(file: SqlFile) -> SqlFile:
    """The function alone."""
    return SqlFile(file.path, TRIGGER.sub("", file.text))


def renew_triggers(connection: Connection[TupleRow], wanted: Iterable[Trigger], schema: str) -> None:
    """Make the triggers of all tables what the files say."""
    by_place = {(trigger.table, trigger.name): trigger for trigger in wanted}
    there = connection.execute(TRIGGERS, [schema]).fetchall()
    same = {place for place in there if place in by_place and _is_same_trigger(connection, by_place[place], schema)}
    for table, name in there:
        if (table, name) not in same:
            connection.execute(f'drop trigger if exists "{name}" on {schema}.{table}')
    for place, trigger in by_place.items():
        if place not in same:
            execute(connection, trigger.file, schema)


def renew_views(connection: Connection[TupleRow], wanted: Iterable[SqlFile], schema: str) -> None:
    """Make the views what the files say, in the order of the files."""
    by_name = {file.stem: file for file in wanted}
    for name in _views(connection, schema):
        if name not in by_name or not _is_same_view(connection, by_name[name], schema):
            connection.execute(f'drop view if exists {schema}."{name}" cascade')
    there = _views(connection, schema)
    for name, file in by_name.items():
        if name not in there:
            execute(connection, file, schema)


def _views(connection: Connection[TupleRow], schema: str) -> list[str]:
    return [name for (name,) in connection.execute(VIEWS, [schema])]


def _is_same_trigger(connection: Connection[TupleRow], trigger: Trigger, schema: str) -> bool:
    table = f"{schema}.{trigger.table}"
    text = moved(trigger.file.text, schema).replace(table, f"{table}__new")
    with blaming(trigger.file), connection.transaction(force_rollback=True):
        connection.execute(f"create table {table}__new (like {table})")
        connection.execute(text)
        parameters = {"table": table, "beside": f"{table}__new", "name": trigger.name}
        return connection.execute(SAME_TRIGGER, parameters).fetchone() == (True,)


def _is_same_view(connection: Connection[TupleRow], file: SqlFile, schema: str) -> bool:
    view = f"{schema}.{file.stem}"
    text = re.sub(rf"(?<=view {re.escape(view)})\b", "__new", moved(file.text, schema), count=1)
    try:
        with connection.transaction(force_rollback=True):
            connection.execute(text)
            return connection.execute(SAME_VIEW, {"view": view, "beside": f"{view}__new"}).fetchone() == (True,)
    except psycopg.ProgrammingError:
        # It may need another view that is yet to change; a mistake of its own shows when it is made.
        return False
