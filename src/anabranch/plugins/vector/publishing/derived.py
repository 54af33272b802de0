"""Layers that jobs compute: a table is made once, many tasks fill it, and it is finished and described."""

from collections.abc import Sequence
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

from pydantic import AwareDatetime, BaseModel

from anabranch.engine.worker.context import Context
from anabranch.errors import Conflict
from anabranch.plugins.stac.facts import Footprint, Source, Table, TableColumn, VectorItem
from anabranch.plugins.stac.facts import Output as ItemOutput
from anabranch.plugins.vector.handler_models import ChunkRows, Finished, Output, StagedTable
from anabranch.plugins.vector.models import Bounds, Family, PartRows, TableShape
from anabranch.plugins.vector.publishing.describe import EPOCH, OURS, outline, table_output
from anabranch.plugins.vector.tables.load import copy_chunk, finish_table, make_table, may_publish
from anabranch.plugins.vector.tables.names import name_table
from anabranch.strict_model import StrictModel

__all__ = [
    "DerivedLayer", "LayerFacts", "begin_layer", "finish_layer", "load_part", "put_report", "require_own_item",
    "timeless",
]  # fmt: skip


class DerivedLayer(StrictModel):
    """A layer of polygons that a job computes: its name, which is its item's id, and the job's own table."""

    name: str
    table: str
    shape: TableShape


class LayerFacts(StrictModel):
    """What the item of a layer says besides its table."""

    title: str | None = None
    description: str
    datetime: AwareDatetime | None = None
    start_datetime: AwareDatetime | None = None
    end_datetime: AwareDatetime | None = None
    source: Source | None = None
    software: dict[str, str]


def timeless(title: str | None, description: str, software: dict[str, str]) -> LayerFacts:
    """What the item of a layer says whose data are of no time: all of it until now."""
    now = datetime.now(UTC)
    return LayerFacts(
        title=title, description=description, start_datetime=EPOCH, end_datetime=now, software=dict(software)
    )


def begin_layer(ctx: Context, collection: str, name: str, shape: TableShape) -> DerivedLayer:
    """Make the empty table of a layer, whose name no other platform has in this collection."""
    require_own_item(ctx, collection, name)
    layer = DerivedLayer(name=name, table=name_table(name, ctx.job_id), shape=shape)
    make_table(ctx, layer.table, shape)
    return layer


def load_part(ctx: Context, layer: DerivedLayer, number: int, part: PartRows, folder: Path) -> None:
    """Copy the rows that a task wrote; a repeated attempt copies nothing twice."""
    if part.file:
        copy_chunk(ctx, ChunkRows(table=layer.table, number=number, rows=part.rows), folder / part.file)


def finish_layer(
    ctx: Context, layer: DerivedLayer, parts: Sequence[PartRows], facts: LayerFacts, report: BaseModel, *warnings: str
) -> Finished:
    """Index and check the table, of which at least one part has rows, and describe its item."""
    written = put_report(ctx, report)
    table = _stage(layer, [part for part in parts if part.bounds])
    finish_table(ctx, table)
    item = VectorItem(
        **dict(facts),
        id=layer.name,
        footprint=Footprint(type="Polygon", coordinates=[outline(table.bounds)]),
        bbox=table.bounds,
        outputs=[ItemOutput(**written.model_dump(), asset="report", name="report.json")],
        table=Table(
            name=layer.name,
            parts=[layer.table],
            columns=[*OURS, *(TableColumn(name=column.name, type=column.type) for column in table.columns)],
            rows=table.rows,
            geometry_type=table.geometry_type,
            sha256=table.sha256,
        ),
    )
    return Finished(outputs=(table_output(table), written), items=(item,), warnings=warnings, report=written.href)


def _stage(layer: DerivedLayer, parts: Sequence[PartRows]) -> StagedTable:
    return StagedTable(
        table=layer.table,
        name=layer.name,
        layer=layer.name,
        family=Family.POLYGON,
        geometry_type=layer.shape.geometry_type,
        columns=layer.shape.columns,
        rows=sum(part.rows for part in parts),
        chunks=len(parts),
        size=sum(part.size for part in parts),
        bounds=_unite([part.bounds for part in parts if part.bounds]),
        sha256=sha256(" ".join(part.sha256 for part in parts).encode()).hexdigest(),
    )


def _unite(boxes: Sequence[Bounds]) -> Bounds:
    west, south, east, north = zip(*boxes, strict=True)
    return min(west), min(south), max(east), max(north)


def put_report(ctx: Context, report: BaseModel) -> Output:
    """Store the report of a job."""
    path = ctx.scratch / "report.json"
    path.write_text(report.model_dump_json(indent=2) + "\n")
    put = ctx.storage.put(path, media_type="application/json")
    return Output(kind="report", href=put.address, media_type=put.media_type, size=put.size, sha256=put.sha256)


def require_own_item(ctx: Context, collection: str, item: str) -> None:
    """Refuse an id of another platform's item before any work; publishing refuses it, too."""
    if not may_publish(ctx, collection, item):
        raise Conflict(
            "publication.owner",
            f"item {collection}/{item} belongs to another platform",
            remedy="Choose another `table` and `item_id`.",
        )
