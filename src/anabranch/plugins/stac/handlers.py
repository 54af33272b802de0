"""Handlers that publish items: thin wrappers of plain functions, with short database transactions."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from pydantic import Field, JsonValue

from anabranch import Context, handler
from anabranch.canonical import Json, JsonObject
from anabranch.errors import NotFound
from anabranch.plugins.stac.collection import CollectionFacts
from anabranch.plugins.stac.facts import RasterItem
from anabranch.plugins.stac.item import Origin, build_item, find_outputs
from anabranch.plugins.stac.manifest import Manifest, our_version, sign_manifest
from anabranch.strict_model import StrictModel

if TYPE_CHECKING:
    from anabranch.plugins.stac.catalog import Publication

__all__ = ["build_publications", "ensure_collection", "register_batch", "register_item", "register_items"]

MAX_ITEMS = 10_000


class ItemReference(StrictModel):
    """An item in the catalog."""

    collection: str
    id: str


class CollectionResult(StrictModel):
    """The collection, and whether it is new or changed."""

    collection: str
    changed: bool


class ItemParams(StrictModel):
    """An item for a collection, which must exist unless it is to be created."""

    collection: str
    item: RasterItem
    reason: str | None = Field(None, max_length=1000)
    expected: int | None = Field(None, ge=0, description="The number that it had when the caller looked; 0 for none.")
    create_collection: bool = False


class ItemsParams(StrictModel):
    """Items for an existing collection; all of them are published, or none."""

    collection: str
    items: list[RasterItem] = Field(max_length=MAX_ITEMS)
    reason: str | None = Field(None, max_length=1000)


class BatchParams(StrictModel):
    """A work file with items, a line for each, for a collection that is created if there is none."""

    collection: str
    part: dict[str, JsonValue]
    reason: str | None = Field(None, max_length=1000)


class ItemsResult(StrictModel):
    """The published items, and how many of them are new or changed."""

    items: list[ItemReference]
    changed: int


@handler("stac.ensure_collection", timeout_seconds=120)
@handler("raster.stac_ensure_collection", timeout_seconds=120)
def ensure_collection(params: CollectionFacts, ctx: Context) -> CollectionResult:
    """Create a collection, or update its fields."""
    from anabranch.plugins.stac import catalog  # late: only publishing needs a database and the schemas

    with ctx.database() as connection:
        changed = catalog.ensure_collection(connection, params)
    return CollectionResult(collection=params.id, changed=changed)


@handler("stac.register_item", timeout_seconds=120)
@handler("raster.stac_register_item", timeout_seconds=120)
def register_item(params: ItemParams, ctx: Context) -> ItemsResult:
    """Publish one item with its objects."""
    return _register(
        params.collection,
        [params.item],
        params.reason,
        ctx,
        params.expected,
        create_collection=params.create_collection,
    )


@handler("stac.register_items", timeout_seconds=600)
@handler("raster.stac_register_items", timeout_seconds=600)
def register_items(params: ItemsParams, ctx: Context) -> ItemsResult:
    """Publish many items with their objects, all or none."""
    return _register(params.collection, params.items, params.reason, ctx)


@handler("stac.register_batch", timeout_seconds=600)
def register_batch(params: BatchParams, ctx: Context) -> ItemsResult:
    """Publish the items that another task of the job wrote into a work file, all or none."""
    path = ctx.work.fetch(params.part)
    if path is None:
        raise NotFound(
            "storage.not_found", "the batch is not in the work area any more", remedy="Submit the job again."
        )
    with path.open() as lines:
        items = [RasterItem.model_validate_json(line) for line in lines]
    return _register(params.collection, items, params.reason, ctx, create_collection=True)


def _register(
    collection: str,
    rasters: list[RasterItem],
    reason: str | None,
    ctx: Context,
    expected: int | None = None,
    *,
    create_collection: bool = False,
) -> ItemsResult:
    """Build and validate the items while no connection is open, then publish them in one transaction."""
    from anabranch.plugins.stac import catalog

    with ctx.database() as connection:
        origin = catalog.find_origin(connection, ctx.job_id)
    publications = build_publications(collection, rasters, origin, partial(sign_manifest, origin, ctx.signing_key))
    attempt = (ctx.node_id, ctx.fence) if ctx.fence else None
    with ctx.database() as connection:
        publish = partial(
            catalog.publish, connection, collection, ctx.job_id, publications, attempt, reason=reason, expected=expected
        )
        try:
            published = publish()
        except NotFound:
            if not create_collection:
                raise
            catalog.ensure_collection(connection, CollectionFacts(id=collection))
            published = publish()
    references = [ItemReference(collection=collection, id=item) for item in published.items]
    return ItemsResult(items=references, changed=len(published.changed))


def build_publications(
    collection: str,
    rasters: Sequence[RasterItem],
    origin: Origin,
    sign: Callable[[str, RasterItem], Manifest | None] | None = None,
) -> "list[Publication]":
    """The items of rasters with their published objects, validated, and with signed manifests."""
    from anabranch.plugins.stac.catalog import Publication

    return [
        Publication(
            build_item(collection, raster, origin, our_version()),
            find_outputs(raster),
            sign(collection, raster) if sign else None,
            _made_from(raster),
        )
        for raster in rasters
    ]


def _made_from(raster: RasterItem) -> JsonObject | None:
    """The source with its versions, as our tables record it; no reader sees the address."""
    source = raster.source
    if source is None or source.address is None or not source.versions:
        return None
    return {"address": source.address, "versions": dict[str, Json](source.versions)}
