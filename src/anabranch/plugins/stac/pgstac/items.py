"""Items and collections in pgstac, as our rows have them."""

from collections.abc import Mapping, Sequence
from typing import Any

from psycopg.types.json import Jsonb

from anabranch.errors import Transient
from anabranch.plugins.stac.collection import pick_times
from anabranch.plugins.stac.pgstac.transaction import Work, jsonb, run

__all__ = ["count_items", "find_missing", "fits_partition", "is_shown", "load_items", "show_collection"]


def fits_partition(connection: Work, collection: str, times: Jsonb) -> bool:
    """Whether a collection's partition takes items with these times without a change."""
    return run(connection, "fits_partition", collection=collection, times=times) == [(True,)]


def show_collection(connection: Work, document: Mapping[str, Any]) -> None:
    """Insert or update a collection, unless it is shown as it is."""
    if not is_shown(connection, document):
        run(connection, "load_collection", document=Jsonb(document))


def is_shown(connection: Work, document: Mapping[str, Any]) -> bool:
    """Whether a collection is shown as it is."""
    ((same,),) = run(connection, "has_collection", document=Jsonb(document))
    return bool(same)


def load_items(connection: Work, collection: str, documents: Sequence[Mapping[str, Any]]) -> None:
    """Insert items into pgstac, or replace them, from our rows; the documents are theirs."""
    if not documents:
        return
    times = jsonb([pick_times(document) for document in documents])
    whose = {"collection": collection, "ids": [document["id"] for document in documents]}
    if run(connection, "fit_partition", collection=collection, times=times):
        run(connection, "delete_items", **whose)
        run(connection, "load_items", **whose)
    else:
        run(connection, "load_items_of_times", **whose)


def find_missing(connection: Work, collection: str, ids: Sequence[str]) -> list[str]:
    """Which of these items are not there."""
    return [found for (found,) in run(connection, "missing", collection=collection, ids=list(ids))]


def count_items(connection: Work, collection: str, ids: Sequence[str]) -> None:
    """Raise an error if one of these items is not there."""
    if lost := find_missing(connection, collection, ids):
        raise Transient(
            f"pgstac lost {len(lost)} of {len(ids)} items of collection {collection}, {lost[0]} among them",
            code="catalog.lost",
            remedy="They were not published; the task is retried.",
        )
