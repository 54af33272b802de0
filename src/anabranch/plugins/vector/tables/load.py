"""Loads files of rows into tables of schema geo: short transactions, each fenced by its attempt (E3)."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from psycopg import Connection
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from anabranch.engine.worker.context import Context
from anabranch.errors import Conflict, Interrupted, NotFound, Permanent
from anabranch.plugins.vector.handler_models import ChunkRows, PublishedLayer, ShownLayer, StagedTable
from anabranch.plugins.vector.models import Bounds, TableShape
from anabranch.plugins.vector.tables.statements import name_in, run, text

__all__ = [
    "copy_chunk",
    "find_item_layer",
    "find_last_gid",
    "find_layer",
    "find_published",
    "finish_table",
    "make_table",
    "may_publish",
    "measure_table",
    "mix_table",
    "renumber_table",
    "require_own_name",
]

BLOCK_BYTES = 2**20
BOUNDS_TOLERANCE_DEGREES = 1e-9


def find_layer(ctx: Context, name: str) -> ShownLayer | None:
    """The layer that readers see under a name."""
    found = find_published(ctx, name)
    return found.shown if found else None


def find_published(ctx: Context, name: str) -> PublishedLayer | None:
    """The same, with its item and the files of that."""
    with ctx.catalog() as connection, connection.cursor(row_factory=dict_row) as cursor:
        found = cursor.execute(text("find_layer"), {"name": name, "job_id": ctx.job_id}).fetchone()
    if found is None:
        return None
    document, files = found.pop("document"), found.pop("files")
    found["columns"] = [{**column, "source": column["name"]} for column in found["columns"]]
    return PublishedLayer.model_validate({"shown": found, "document": document, "files": files})


def find_item_layer(ctx: Context, collection: str, item: str) -> str | None:
    """The name of the layer that an item shows, if it shows one."""
    with ctx.catalog() as connection:
        found = run(connection, "find_item_layer", collection=collection, item=item)
    return found[0][0] if found else None


def find_last_gid(ctx: Context, layer: str) -> int:
    """The largest number of a layer's rows, which may be more than their count."""
    with ctx.database() as connection:
        ((gid,),) = connection.execute(name_in("find_last_gid", layer=layer)).fetchall()
    return int(gid)


def may_publish(ctx: Context, collection: str, item: str) -> bool:
    """Whether nobody else's item has this id."""
    with ctx.catalog() as connection:
        ((answer,),) = run(connection, "may_publish", job_id=ctx.job_id, collection=collection, item=item)
    return bool(answer)


def require_own_name(ctx: Context, name: str, collection: str, item: str) -> None:
    """Refuse the name of another layer, or of a user's table, before any work; publishing refuses it, too."""
    with ctx.catalog() as connection:
        ((holder,),) = run(connection, "find_name_holder", job_id=ctx.job_id, name=name, key=f"{collection}/{item}")
    if holder:
        raise Conflict("publication.name_taken", f"geo.{name} belongs to {holder}", remedy="Give another `table`.")


def make_table(ctx: Context, name: str, table: TableShape) -> None:
    """Make an empty table; Interrupted when the attempt is not the current one any more."""
    columns = Jsonb([{"name": column.name, "type": column.type} for column in table.columns])
    facts = {"geometry_type": table.geometry_type, "mixed": table.mixed, "has_z": table.has_z, "columns": columns}
    with ctx.catalog() as connection:
        ((made,),) = run(connection, "make_table", table=name, **facts, **_fence(ctx))
        if not made:
            raise _lost()


def mix_table(ctx: Context, name: str, table: TableShape) -> None:
    """Let a table of points take multiple ones besides; Interrupted as above."""
    facts = {"geometry_type": table.geometry_type, "has_z": table.has_z}
    with ctx.catalog() as connection:
        run(connection, "no_time_limit")
        ((done,),) = run(connection, "mix_table", table=name, **facts, **_fence(ctx))
        if not done:
            raise _lost()


def copy_chunk(ctx: Context, chunk: ChunkRows, path: Path) -> int:
    """Copy a file of rows; returns how many, and 0 where an earlier attempt has copied them."""
    with _fenced(ctx) as connection:
        ((begun,),) = run(connection, "begin_chunk", table=chunk.table, chunk=chunk.number, rows=chunk.rows)
        if begun is None:
            raise _no_table(chunk.table)
        if not begun:
            return 0
        with connection.cursor() as cursor, path.open("rb") as file:
            with cursor.copy(name_in("copy_rows", table=chunk.table)) as copy:
                while block := file.read(BLOCK_BYTES):
                    copy.write(block)
            if cursor.rowcount != chunk.rows:
                raise _mismatch(chunk.table, f"{cursor.rowcount} rows of a file were copied, not {chunk.rows}")
    return chunk.rows


def finish_table(ctx: Context, table: StagedTable) -> None:
    """Index a table, and compare what it holds with what was read; Permanent where they differ (V1).

    Two connections index at once, if a second one is free; an attempt that was lost changes nothing else.
    """
    with _fenced(ctx) as connection:
        run(connection, "no_time_limit")
        ((finished,),) = run(connection, "close_table", table=table.table)
    if finished is None:
        raise _no_table(table.table)
    if finished:
        _index(ctx, table)
    else:
        with ThreadPoolExecutor(1) as thread:
            shapes = thread.submit(_index_shapes_if_free, ctx, table)
            _index(ctx, table)
            is_done = shapes.result()
        if not is_done:
            with ctx.catalog() as connection:
                _index_column(connection, table, "geom")
        with _fenced(ctx) as connection:
            run(connection, "no_time_limit")
            run(connection, "complete_table", table=table.table, rows=table.rows)


def measure_table(ctx: Context, table: str) -> tuple[int, Bounds]:
    """How many rows a table has, and the box around them."""
    with ctx.catalog() as connection:
        run(connection, "no_time_limit")
        ((rows, _, bounds, _),) = run(connection, "measure_table", table=table)
    return rows, tuple(bounds)


def renumber_table(ctx: Context, table: str, first: int) -> bool:
    """Number the rows of a table from a number on; returns False where it is published, and stays as it is."""
    with _fenced(ctx) as connection:
        run(connection, "no_time_limit")
        ((done,),) = run(connection, "renumber_table", table=table, first=first)
    return bool(done)


def _index(ctx: Context, table: StagedTable) -> None:
    with ctx.catalog() as connection:
        _index_column(connection, table, "gid")
        _compare(table, *run(connection, "measure_table", table=table.table)[0])


def _index_shapes_if_free(ctx: Context, table: StagedTable) -> bool:
    with ctx.catalog_if_free() as connection:
        if connection:
            _index_column(connection, table, "geom")
        return connection is not None


def _index_column(connection: Connection[Any], table: StagedTable, column: str) -> None:
    run(connection, "no_time_limit")
    run(connection, "index_table", table=table.table, column=column)


def _compare(table: StagedTable, rows: int, chunks: int, bounds: Sequence[float], types: Sequence[str]) -> None:
    if (rows, chunks) != (table.rows, table.chunks):
        raise _mismatch(table.table, f"{rows} rows of {chunks} files, not {table.rows} of {table.chunks}")
    if any(abs(a - b) > BOUNDS_TOLERANCE_DEGREES for a, b in zip(bounds, table.bounds, strict=True)):
        raise _mismatch(table.table, f"the extent {bounds}, not {list(table.bounds)}")
    if types != [table.geometry_type.upper()]:
        raise _mismatch(table.table, f"geometries of the types {types}, not {table.geometry_type}")


@contextmanager
def _fenced(ctx: Context) -> Iterator[Connection[Any]]:
    """A transaction that commits only if the attempt is the current one at its end, when the job is locked."""
    with ctx.catalog() as connection:
        yield connection
        ((held,),) = run(connection, "hold_attempt", **_fence(ctx))
        if not held:
            raise _lost()


def _fence(ctx: Context) -> dict[str, object]:
    if ctx.fence is None:
        raise _lost()
    (lane, place), attempt, token = ctx.fence
    fence = {"attempt": attempt, "lane": lane, "place": place, "token": token}
    return {"job_id": ctx.job_id, "node": ctx.node_id, **fence}


def _lost() -> Interrupted:
    return Interrupted("the task was cancelled, or another attempt has it now", code="task.lost")


def _no_table(table: str) -> NotFound:
    return NotFound(
        "vector.table_lost",
        f"table geo.{table} is gone: it was dropped after its job had ended",
        remedy="Submit the job again with `--rerun`.",
    )


def _mismatch(table: str, what: str) -> Permanent:
    return Permanent(
        f"table geo.{table} has {what}",
        code="vector.load_mismatch",
        remedy="Submit the job again with `--rerun`; report a bug if that fails, too.",
    )
