"""Finds items that would be published with the content that they show already."""

from collections.abc import Mapping, Sequence
from typing import Any

from anabranch.canonical import JsonObject
from anabranch.plugins.stac.catalog import Publication, Work, run

__all__ = ["find_same"]

OF_THE_JOB = ("created", "processing:lineage", "processing:expression")


def find_same(connection: Work, collection: str, publications: Sequence[Publication]) -> set[str]:
    """Those of the given items that are shown already, with the same content made by the same software."""
    ids = [publication.id for publication in publications]
    shown = run(connection, "list_documents", collection=collection, ids=ids)
    contents = {document["id"]: _content_of(document) for (document,) in shown}
    return {each.id for each in publications if contents.get(each.id) == _content_of(each.document)}


def _content_of(document: Mapping[str, Any]) -> JsonObject:
    """An item without what says by which job it was made, and where that put its files."""
    assets = {name: {**asset, "href": ""} for name, asset in document["assets"].items() if name != "report"}
    properties = {name: value for name, value in document["properties"].items() if name not in OF_THE_JOB}
    return {"geometry": document["geometry"], "bbox": document["bbox"], "properties": properties, "assets": assets}
