"""Handlers that publish: thin shells over plain functions, with one short burst on the database each."""

from contextlib import AbstractContextManager
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Protocol, cast

from pydantic import BaseModel, ConfigDict, Field

from anabranch import Context, handler
from anabranch.plugins.stac.collection import CollectionFacts
from anabranch.plugins.stac.facts import RasterItem
from anabranch.plugins.stac.item import build_item, find_outputs

if TYPE_CHECKING:
    from psycopg import Connection

    from anabranch.plugins.stac.catalog import Published

__all__ = ["ensure_collection", "register_item", "register_items"]

MOST_ITEMS = 10_000


class Strict(BaseModel):
    """Parameters that refuse what they don't know."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ItemReference(Strict):
    """An item in the catalog."""

    collection: str
    id: str


class CollectionResult(Strict):
    """The collection, and whether it is new or changed."""

    collection: str
    changed: bool


class ItemParams(Strict):
    """An item for a collection that is there."""

    collection: str
    item: RasterItem


class ItemsParams(Strict):
    """Items for a collection that is there; all of them are published, or none."""

    collection: str
    items: list[RasterItem] = Field(max_length=MOST_ITEMS)


class ItemsResult(Strict):
    """What is published now, and how many of them are new or changed."""

    items: list[ItemReference]
    changed: int


class HasDatabase(Protocol):
    """What these handlers ask of their context."""

    def database(self) -> "AbstractContextManager[Connection[Any]]":
        """A connection for one short burst, in the role of handlers."""


@handler("stac.ensure_collection", timeout_seconds=120)
def ensure_collection(params: CollectionFacts, ctx: Context) -> CollectionResult:
    """Make a collection, or change what is said of it."""
    from anabranch.plugins.stac import catalog  # late: only who publishes needs a database and the schemas

    with cast("HasDatabase", ctx).database() as connection:
        changed = catalog.ensure_collection(connection, params)
    return CollectionResult(collection=params.id, changed=changed)


@handler("stac.register_item", timeout_seconds=120)
def register_item(params: ItemParams, ctx: Context) -> ItemsResult:
    """Publish one item with its objects."""
    return _register(params.collection, [params.item], ctx)


@handler("stac.register_items", timeout_seconds=600)
def register_items(params: ItemsParams, ctx: Context) -> ItemsResult:
    """Publish many items with their objects, all or none."""
    return _register(params.collection, params.items, ctx)


def _register(collection: str, rasters: list[RasterItem], ctx: Context) -> ItemsResult:
    with cast("HasDatabase", ctx).database() as connection:
        published = register(connection, collection, rasters, ctx.job_id)
    references = [ItemReference(collection=collection, id=item) for item in published.items]
    return ItemsResult(items=references, changed=len(published.changed))


def register(connection: "Connection[Any]", collection: str, rasters: list[RasterItem], job_id: str) -> "Published":
    """Build the items of a job's rasters, and publish them."""
    from anabranch.plugins.stac import catalog

    origin, ours = catalog.find_origin(connection, job_id), version("anabranch")
    publications = [
        catalog.Publication(build_item(collection, raster, origin, ours), find_outputs(raster)) for raster in rasters
    ]
    return catalog.publish(connection, collection, job_id, publications)
