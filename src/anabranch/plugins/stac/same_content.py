"""Finds items that would be published with the content that they show already."""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from anabranch.canonical import JsonObject
from anabranch.plugins.stac.catalog import Publication, Work, run

__all__ = ["find_same"]

OF_THE_JOB = ("created", "processing:lineage", "processing:expression")


def find_same(connection: Work, collection: str, publications: Sequence[Publication]) -> dict[str, UUID]:
    """Those of the given items that are shown already, with the same content made by the same software.

    Each with the publication that brought it.
    """
    contents = {each.id: _content_of(each.document) for each in publications}
    shown = run(connection, "find_shown", collection=collection, ids=list(contents))
    return {
        document["id"]: publication
        for publication, document in shown
        if contents[document["id"]] == _content_of(document)
    }


def _content_of(document: Mapping[str, Any]) -> JsonObject:
    """An item without what says by which job it was made, and where that put its files."""
    assets = {name: {**asset, "href": ""} for name, asset in document["assets"].items() if name != "report"}
    properties = {name: value for name, value in document["properties"].items() if name not in OF_THE_JOB}
    return {"geometry": document["geometry"], "bbox": document["bbox"], "properties": properties, "assets": assets}
