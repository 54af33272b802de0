"""The handler that publishes layers. Appends commute: rows are added to what readers see when they are published."""

from hashlib import sha256

from pydantic import AwareDatetime

from anabranch.engine.worker.context import Context
from anabranch.engine.worker.handler import handler
from anabranch.errors import Conflict
from anabranch.plugins.stac.facts import Footprint, ItemReference, VectorItem
from anabranch.plugins.stac.handlers import ItemsParams, ItemsResult, register_items
from anabranch.plugins.stac.item_facts import read_vector_item
from anabranch.plugins.vector.handler_models import Plan, PublishedLayer, ShownLayer
from anabranch.plugins.vector.publishing.describe import describe_time, outline, unite
from anabranch.plugins.vector.tables.load import find_last_gid, find_published, measure_table, renumber_table

__all__ = ["publish_layers"]

MAX_APPENDS = 100  # of others that come between


class PublishParams(ItemsParams):
    """Items of layers, and the plan for their file with what the caller says of it."""

    plan: Plan
    title: str | None = None
    datetime: AwareDatetime | None = None


@handler("vector.publish_layers", timeout_seconds=3_600)
def publish_layers(params: PublishParams, ctx: Context) -> ItemsResult:
    """Publish layers as `stac.register_items` does; where others added rows meanwhile, these are added to theirs."""
    wanted = ItemsParams(**params.model_dump(include=set(ItemsParams.model_fields)))
    if params.plan.shown and params.reason is None:  # the history has it as any other replacement
        wanted = wanted.model_copy(update={"reason": f"the rows of {params.plan.name} were added"})
    for _ in range(MAX_APPENDS):
        try:
            return register_items(wanted, ctx)
        except Conflict as error:
            planned, item = params.plan.shown, params.items[0]
            given = params.expected is not None
            if error.code != "publication.moved" or given or planned is None or not isinstance(item, VectorItem):
                raise
            newest = find_published(ctx, params.plan.table)
            if newest is None or not _fits(planned, newest.shown):
                raise
            if not renumber_table(ctx, item.table.parts[-1], find_last_gid(ctx, params.plan.table) + 1):
                # An attempt whose report was lost has published it, whatever others did since.
                return ItemsResult(items=[ItemReference(collection=params.collection, id=item.id)], changed=0)
            wanted = wanted.model_copy(update={"items": [_append_to(newest, item, params, ctx)]})
    return register_items(wanted, ctx)


def _fits(planned: ShownLayer, newest: ShownLayer) -> bool:
    """Whether rows that were made for a layer fit into what it is now."""
    same = {"collection", "item", "geometry_type", "has_z", "columns"}
    return planned.model_dump(include=same) == newest.model_dump(include=same)


def _append_to(newest: PublishedLayer, item: VectorItem, params: PublishParams, ctx: Context) -> VectorItem:
    """The item with its rows after those of the newest publication."""
    shown, own = newest.shown, item.table.parts[-1]
    before = read_vector_item(newest.document, newest.files, shown.parts)
    rows, own_bounds = measure_table(ctx, own)
    bounds = unite(own_bounds, shown.bounds)
    table = item.table.model_copy(update={
        "parts": [*shown.parts, own],
        "columns": before.table.columns,
        "rows": rows + shown.rows,
        "sha256": sha256(" ".join([*shown.parts, item.table.sha256]).encode()).hexdigest(),
    })  # fmt: skip
    return item.model_copy(update={
        "title": params.title or before.title,
        "description": before.description,
        **describe_time(params.datetime, params.plan, before),
        "footprint": Footprint(type="Polygon", coordinates=[outline(bounds)]),
        "bbox": bounds,
        "expected": shown.number,
        "table": table,
    })  # fmt: skip
