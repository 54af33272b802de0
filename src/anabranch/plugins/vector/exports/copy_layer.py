"""Copies the rows of a published layer out of the database, as one snapshot of it."""

from collections.abc import Sequence
from pathlib import Path

from psycopg import sql
from psycopg.errors import UndefinedColumn, UndefinedTable

from anabranch.engine.worker.context import Context
from anabranch.errors import Conflict, Permanent
from anabranch.plugins.vector.models import Column
from anabranch.plugins.vector.settings import VectorSettings
from anabranch.plugins.vector.tables.statements import SQL
from anabranch.sql_files import read_statements

__all__ = ["copy_layer"]

MB = 2**20


def copy_layer(ctx: Context, layer: str, columns: Sequence[Column], target: Path) -> Path:
    """Write the rows of a layer to a file in the binary COPY format, along a Hilbert curve."""
    texts, most = read_statements(SQL), ctx.settings(VectorSettings).vector_file_mb
    names = sql.SQL(", ").join(sql.Identifier(name) for name in ("gid", "geom", *(each.name for each in columns)))
    query = sql.SQL(texts["copy_layer"]).format(columns=names, layer=sql.Identifier(layer))
    size = 0
    try:
        with ctx.database() as connection, target.open("wb") as file:
            connection.execute(texts["no_time_limit"])
            with connection.cursor().copy(query) as copy:
                for block in copy:
                    size += file.write(block)
                    if size > most * MB:
                        raise _too_large(layer, most)
    except (UndefinedTable, UndefinedColumn) as error:
        raise Conflict(
            "publication.moved", f"layer {layer} was withdrawn or replaced meanwhile", remedy="Submit the job again."
        ) from error
    return target


def _too_large(layer: str, most_mb: int) -> Permanent:
    return Permanent(
        f"the rows of layer {layer} have more than {most_mb} MB",
        code="vector.too_large",
        remedy="Ask the operator to raise ANABRANCH_VECTOR_FILE_MB.",
    )
