"""`ctx.geo`: copies a user's table into one of ours and publishes it, in one transaction of its attempt (E3)."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import psycopg
from psycopg.types.json import Jsonb

from anabranch.engine.worker.context import Context
from anabranch.engine.worker.geo_library import PublishedTable
from anabranch.errors import Interrupted, Permanent
from anabranch.plugins.stac.catalog import Work, find_origin
from anabranch.plugins.stac.facts import Output
from anabranch.plugins.stac.handlers import ItemsParams, build_publications, publish_items
from anabranch.plugins.stac.manifest import sign_item
from anabranch.plugins.vector.tables.names import name_table
from anabranch.plugins.vector.tables.statements import name_in, run
from anabranch.plugins.vector.user_tables.inspection import TableFacts, inspect_table
from anabranch.plugins.vector.user_tables.item import AdoptedTable, build_report, describe_item
from anabranch.plugins.vector.user_tables.request import PublishRequest, check_name, check_request

__all__ = ["TableLibrary"]

# What app.adopt_table refuses; no such table or column.
CHANGED = ("AN019", "42P01", "42703")


class TableLibrary:
    """`ctx.geo` of one attempt."""

    def __init__(self, ctx: Context) -> None:
        """Its connections are those of the context."""
        self._ctx = ctx
        self._parts: set[str] = set()

    def scratch_table(self, name: str) -> str:
        """The name of a table of this task's own, the same for all of its attempts."""
        return name_table(check_name(name), self._ctx.task_id)

    def publish_table(self, table: str, name: str, **options: Any) -> PublishedTable:  # as the protocol types them
        """Publish a table that handlers made in schema geo as the layer `name`."""
        wanted = check_request(table=table, name=name, **options)
        part = name_table(name, f"{self._ctx.task_id}/{table}")
        if part in self._parts:
            what = f"publish_table: this attempt has published a table geo.{table} as {name}"
            raise Permanent(what, code="geo.arguments", remedy="Give the second table, or its layer, another name.")
        rows = self._count_published(part)
        if rows is None:
            rows = self._publish(wanted, part)
        else:  # an earlier attempt has published it, and its report was lost
            with self._ctx.database() as connection:
                connection.execute(name_in("drop_user_table", table=table))
        self._parts.add(part)
        return PublishedTable(collection=wanted.collection, id=name, table=name, rows=rows)

    def _count_published(self, part: str) -> int | None:
        with self._ctx.catalog() as connection:
            ((rows,),) = run(connection, "find_adopted", table=part, job_id=self._ctx.job_id)
        return None if rows is None else int(rows)

    def _publish(self, wanted: PublishRequest, part: str) -> int:
        """Copy and publish it: both or nothing."""
        with _refusing(wanted.table), self._ctx.database() as connection:
            source = inspect_table(connection, wanted.table)
        with self._ctx.catalog() as connection, connection.transaction():
            with _refusing(wanted.table):
                adopted = self._adopt(connection, source, part)
            origin = find_origin(connection, self._ctx.job_id)
            facts = describe_item(wanted, source, adopted, self._put_report(source, adopted), origin)
            sign = partial(sign_item, origin, self._ctx.signing_key)
            publications = list(build_publications(wanted.collection, [facts], origin, sign))
            said = wanted.model_dump(include={"collection", "reason", "expected"})
            publish_items(connection, ItemsParams(**said, create_collection=True), publications, self._ctx)
        return adopted.rows

    def _adopt(self, connection: Work, source: TableFacts, part: str) -> AdoptedTable:
        run(connection, "no_time_limit")
        columns = Jsonb([column.model_dump(include={"name", "type"}) for column in source.columns])
        found = run(
            connection, "adopt_table", source=source.table, table=part, job_id=self._ctx.job_id, columns=columns,
            **{field: getattr(source, field) for field in ("geometry", "geometry_type", "has_z", "has_gid")},
        )  # fmt: skip
        if not found:
            raise Interrupted("another attempt has published the table", code="task.lost")
        rows, bounds, sha256 = found[0]
        return AdoptedTable(part, rows, tuple(bounds), sha256)

    def _put_report(self, source: TableFacts, adopted: AdoptedTable) -> Output:
        path = self._ctx.scratch / f"{adopted.name}.json"
        path.write_text(build_report(source, adopted).model_dump_json(indent=2) + "\n")
        put = self._ctx.storage.put(path, media_type="application/json")
        return Output(
            kind="report", href=put.address, media_type=put.media_type, size=put.size, sha256=put.sha256,
            asset="report", name="report.json",
        )  # fmt: skip


@contextmanager
def _refusing(table: str) -> Iterator[None]:
    """Say what the database refuses, where it is the table's fault."""
    try:
        yield
    except (psycopg.errors.UniqueViolation, psycopg.errors.NotNullViolation) as error:
        what = f"gid of geo.{table} does not number its rows: {error.diag.message_primary}"
        remedy = "Leave the column out, or name it otherwise: rows without it are numbered."
        raise Permanent(what, code="geo.gid", remedy=remedy) from error
    except psycopg.errors.DependentObjectsStillExist as error:
        what = f"geo.{table} is in use: {error.diag.message_detail}"
        remedy = "Drop what depends on it, and build it on the published layer."
        raise Permanent(what, code="geo.in_use", remedy=remedy) from error
    except psycopg.DatabaseError as error:
        if error.sqlstate not in CHANGED:
            raise
        what = f"geo.{table} was changed meanwhile: {error.diag.message_primary}"
        raise Permanent(what, code="geo.changed", remedy="Publish it when nobody changes it any more.") from error
