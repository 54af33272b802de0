"""Handlers that publish items: thin wrappers of plain functions, with short database transactions."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

from pydantic import Field, JsonValue

from anabranch import Context, handler
from anabranch.canonical import Json, JsonObject
from anabranch.engine.model import Attempt
from anabranch.errors import NotFound
from anabranch.plugins.stac.collection import CollectionFacts
from anabranch.plugins.stac.facts import AnyItem, Item, ItemFacts, ItemReference, VectorItem, read_facts
from anabranch.plugins.stac.item import Origin, build_item, find_outputs
from anabranch.plugins.stac.manifest import Manifest, our_version, sign_item
from anabranch.strict_model import StrictModel

if TYPE_CHECKING:
    from anabranch.plugins.stac.catalog import Publication, Work

__all__ = ["build_publications", "ensure_collection", "publish_items", "register_item", "register_items"]

MAX_ITEMS = 10_000


class CollectionResult(StrictModel):
    """The collection, and whether it is new or changed."""

    collection: str
    changed: bool


class ItemParams(StrictModel):
    """An item for a collection, which must exist unless it is to be created.

    With `files`, work files of the job with an item on each line, these are published instead, all or none.
    """

    collection: str
    item: AnyItem
    files: list[dict[str, JsonValue]] = Field([], max_length=MAX_ITEMS)
    reason: str | None = Field(None, max_length=1000)
    expected: int | None = Field(None, ge=0, description="The number that it had when the caller looked; 0 for none.")
    create_collection: bool = False


class ItemsParams(StrictModel):
    """Items for a collection; all of them are published, or none.

    `files` are work files of the job with an item on each line, instead of `items`. With `create_collection` the
    collection is created, or gets the title and description that are given, in the same transaction. With `keep_same`
    items that are shown with the same content are left as they are, whichever job made them.
    """

    collection: str
    items: list[AnyItem] = Field([], max_length=MAX_ITEMS)
    files: list[dict[str, JsonValue]] = Field([], max_length=MAX_ITEMS)
    reason: str | None = Field(None, max_length=1000)
    expected: int | None = Field(None, ge=0, description="The number that each had when the caller looked; 0 for none.")
    create_collection: bool = False
    title: str | None = None
    description: str | None = Field(None, min_length=1)
    keep_same: bool = False


class ItemsResult(StrictModel):
    """The published items, and how many of them are new or changed."""

    items: list[ItemReference]
    changed: int


@handler("stac.ensure_collection", timeout_seconds=120)
@handler("raster.stac_ensure_collection", timeout_seconds=120)
def ensure_collection(params: CollectionFacts, ctx: Context) -> CollectionResult:
    """Create a collection, or update its fields."""
    from anabranch.plugins.stac import catalog  # late: only publishing needs a database and the schemas

    with ctx.catalog() as connection:
        changed = catalog.ensure_collection(connection, params, catalog.By(ctx.job_id), _attempt(ctx))
    return CollectionResult(collection=params.id, changed=changed)


@handler("stac.register_item", timeout_seconds=120)
@handler("raster.stac_register_item", timeout_seconds=120)
def register_item(params: ItemParams, ctx: Context) -> ItemsResult:
    """Publish one item with its objects, or the parts that it comes in."""
    items = [] if params.files else [params.item]
    wanted = ItemsParams(items=items, **params.model_dump(exclude={"item"}))
    return register_items(wanted, ctx)


@handler("stac.register_items", timeout_seconds=3_600)
@handler("raster.stac_register_items", timeout_seconds=3_600)
def register_items(params: ItemsParams, ctx: Context) -> ItemsResult:
    """Publish many items with their objects, all or none.

    They are built and validated while no connection is open, then published in one transaction.
    """
    from anabranch.plugins.stac import catalog
    from anabranch.plugins.stac.catalog import Publication
    from anabranch.plugins.stac.publication_file import PublicationFile

    with ctx.catalog() as connection:
        origin = catalog.find_origin(connection, ctx.job_id)
    sign = partial(sign_item, origin, ctx.signing_key)
    facts = chain(params.items, _read_items(params.files, ctx))
    kept = PublicationFile(ctx.scratch / "publications.ndjson") if params.files else list[Publication]()
    references: list[ItemReference] = []
    for batch in catalog.split(build_publications(params.collection, facts, origin, sign)):
        references += [ItemReference(collection=params.collection, id=each.id) for each in batch]
        kept.extend(batch)
        ctx.progress(len(references), None, "items are valid")
    with ctx.catalog() as connection, connection.transaction():  # the collection and its items, or nothing
        changed = publish_items(connection, params, kept, ctx)
    return ItemsResult(items=references, changed=len(changed))


def _read_items(files: Sequence[Json], ctx: Context) -> Iterator[Item]:
    for file in files:
        with ctx.work.require(file).open() as lines:
            yield from map(read_facts, lines)


def publish_items(
    connection: "Work", params: ItemsParams, publications: "Iterable[Publication]", ctx: Context
) -> Sequence[str]:
    """The ids that changed; a collection is created only where it is missing or something is said of it."""
    from anabranch.plugins.stac import catalog

    facts = CollectionFacts(id=params.collection, title=params.title, description=params.description)
    publish = partial(
        catalog.publish, connection, params.collection, ctx.job_id, publications, _attempt(ctx),
        reason=params.reason, expected=params.expected, keep_same=params.keep_same,
    )  # fmt: skip
    if not (params.create_collection and (params.title or params.description)):
        try:
            return publish().changed
        except NotFound:
            if not params.create_collection:
                raise
    # Without a fence: publishing takes it at the end of this transaction, so that the job is not locked for long (E7).
    catalog.ensure_collection(connection, facts, catalog.By(ctx.job_id))
    return publish().changed


def _attempt(ctx: Context) -> tuple[str, Attempt] | None:
    """The attempt that publishes, with its node."""
    return (ctx.node_id, ctx.fence) if ctx.fence else None


def build_publications(
    collection: str,
    items: Iterable[Item],
    origin: Origin,
    sign: Callable[[str, ItemFacts], Manifest | None] | None = None,
) -> "Iterator[Publication]":
    """Items with their published objects, validated, and with signed manifests."""
    from anabranch.plugins.stac.catalog import Layer, Publication

    for facts in items:
        document = build_item(collection, facts, origin, our_version())
        manifest = sign(collection, facts) if sign else None
        table = facts.table if isinstance(facts, VectorItem) else None
        layer = Layer(table.name, table.parts) if table else None
        yield Publication(document, find_outputs(facts), manifest, _made_from(facts), facts.expected, layer)


def _made_from(facts: ItemFacts) -> JsonObject | None:
    """The source with its versions and hashes, as our tables record it; no reader sees the address."""
    source = facts.source
    if source is None or source.address is None or not source.versions:
        return None
    made_from: JsonObject = {"address": source.address, "versions": dict[str, Json](source.versions)}
    if source.sha256:
        made_from["sha256"] = {source.address: source.sha256, **source.sidecars}
    return made_from
