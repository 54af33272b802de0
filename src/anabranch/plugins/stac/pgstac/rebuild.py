"""Rebuilds the catalog from our tables, and compares it with them (C3)."""

from collections import defaultdict
from dataclasses import dataclass

from anabranch.errors import Unavailable
from anabranch.plugins.stac.catalog import Work, run
from anabranch.plugins.stac.collection import covers_items

__all__ = ["Difference", "Rebuilt", "check", "rebuild"]

BATCH_ITEMS = 1_000
# pgstac's functions need it to find each other and PostGIS.
SET_SEARCH_PATH = "set local search_path = pgstac, public"


@dataclass(frozen=True)
class Rebuilt:
    """The size of the rebuilt catalog."""

    collections: int
    items: int


@dataclass(frozen=True)
class Difference:
    """A difference between the catalog and our tables, of an item or a collection; DESCRIPTIONS lists the kinds."""

    kind: str
    collection: str
    item: str | None = None

    def __str__(self) -> str:
        where = f"{self.collection}/{self.item}" if self.item else self.collection
        return f"{where}: {DESCRIPTIONS[self.kind]}"


DESCRIPTIONS = {
    "missing": "published, but not in the catalog",
    "unknown": "in the catalog, but not published",
    "different": "differs from what was published",
    "extent": "its extent does not cover its items",
    "row": "its row differs from its current publication",
}


def rebuild(connection: Work) -> Rebuilt:
    """Empty pgstac and fill it from our tables, in one transaction: readers see the old one until it ends."""
    with connection.transaction():
        connection.execute(SET_SEARCH_PATH)
        connection.execute("select app.lock_catalog()")
        run(connection, "rebuild_items")
        run(connection, "clear")
        run(connection, "refill_collections")
        for (collection,) in run(connection, "collections"):
            _refill(connection, collection)
        ((collections, items, shown_collections, shown_items),) = run(connection, "counts")
        if (collections, items) != (shown_collections, shown_items):
            raise Unavailable(
                "catalog.incomplete",
                f"pgstac loaded {shown_items} of {items} items and {shown_collections} of {collections} collections",
                remedy="Nothing was changed; try again.",
            )
    return Rebuilt(collections, items)


def check(connection: Work) -> list[Difference]:
    """Compare the catalog with our tables, and extents with their items; nothing is changed."""
    with connection.transaction():
        connection.execute("set transaction isolation level repeatable read, read only")
        connection.execute(SET_SEARCH_PATH)
        found = [Difference(kind, collection) for collection, kind in run(connection, "different_collections")]
        found += [Difference(kind, collection, item) for collection, item, kind in run(connection, "different_items")]
        found += [Difference("row", *key.split("/")) for (key,) in run(connection, "different_rows")]
        return found + [Difference("extent", collection) for collection in _narrow(connection)]


def _refill(connection: Work, collection: str) -> None:
    after: str | None = ""
    while after is not None:
        ((after,),) = run(connection, "refill_items", collection=collection, after=after, most=BATCH_ITEMS)


def _narrow(connection: Work) -> list[str]:
    """The collections whose extent does not cover their items."""
    items, extents = defaultdict(list), {}
    for collection, extent, item in run(connection, "extents"):
        items[collection].append(item)
        extents[collection] = extent
    return sorted(name for name, extent in extents.items() if not covers_items(extent, items[name]))
