"""The catalog made anew from our rows, and held against them (C3)."""

from collections import defaultdict
from dataclasses import dataclass

from anabranch.errors import Unavailable
from anabranch.plugins.stac.catalog import Work, run
from anabranch.plugins.stac.collection import covers_items

__all__ = ["Difference", "Rebuilt", "check", "rebuild"]

BATCH = 1_000
# pgstac's functions find each other and PostGIS by it.
PATH = "set local search_path = pgstac, public"


@dataclass(frozen=True)
class Rebuilt:
    """How much the catalog has."""

    collections: int
    items: int


@dataclass(frozen=True)
class Difference:
    """Where the catalog is not what our rows say, of an item or of a whole collection; WORDS has the kinds."""

    kind: str
    collection: str
    item: str | None = None

    def __str__(self) -> str:
        where = f"{self.collection}/{self.item}" if self.item else self.collection
        return f"{where}: {WORDS[self.kind]}"


WORDS = {
    "missing": "published, and not in the catalog",
    "unknown": "in the catalog, and not published",
    "different": "not what was published",
    "extent": "its extent does not cover its items",
}


def rebuild(connection: Work) -> Rebuilt:
    """Empty pgstac and fill it from our rows, in one transaction: readers see what was, then what is."""
    with connection.transaction():
        connection.execute(PATH)
        connection.execute("select app.lock_catalog()")
        run(connection, "clear")
        run(connection, "refill_collections")
        for (collection,) in run(connection, "collections"):
            _refill(connection, collection)
        ((collections, items, shown_collections, shown_items),) = run(connection, "counts")
        if (collections, items) != (shown_collections, shown_items):
            raise Unavailable(
                "catalog.incomplete",
                f"pgstac took {shown_items} of {items} items and {shown_collections} of {collections} collections",
                remedy="Nothing was changed; try again.",
            )
    return Rebuilt(collections, items)


def check(connection: Work) -> list[Difference]:
    """Where the catalog differs from our rows, and extents from their items; nothing is changed."""
    with connection.transaction():
        connection.execute("set transaction isolation level repeatable read, read only")
        connection.execute(PATH)
        found = [Difference(kind, collection) for collection, kind in run(connection, "different_collections")]
        found += [Difference(kind, collection, item) for collection, item, kind in run(connection, "different_items")]
        return found + [Difference("extent", collection) for collection in _narrow(connection)]


def _refill(connection: Work, collection: str) -> None:
    after: str | None = ""
    while after is not None:
        ((after,),) = run(connection, "refill_items", collection=collection, after=after, most=BATCH)


def _narrow(connection: Work) -> list[str]:
    """The collections whose extent does not cover their items."""
    items, extents = defaultdict(list), {}
    for collection, extent, item in run(connection, "extents"):
        items[collection].append(item)
        extents[collection] = extent
    return sorted(name for name, extent in extents.items() if not covers_items(extent, items[name]))
