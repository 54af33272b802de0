"""Queryables: those that pgstac knows, and the properties of the newest items."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from fastapi import Request
from stac_fastapi.pgstac.extensions.filter import FiltersClient
from stac_fastapi.types.errors import NotFoundError

from anabranch.serving.caller import platform_of
from anabranch.serving.stac.pool import Catalog
from anabranch.serving.stac.search.cql2 import SHOWN_ONLY

__all__ = ["Queryables", "find_common", "find_queryables"]

SAMPLE_ITEMS = 100
MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)")
TYPES = {bool: "boolean", int: "number", float: "number", str: "string"}
COLLECTION = {"title": "Collection", "type": "string"}
Schema = dict[str, Any]  # JSON Schema's own shape
Properties = Mapping[str, Any]  # STAC's own shape


class Queryables(FiltersClient):  # type: ignore[misc]  # of a package without types
    """The queryables of a collection, or those common to all collections."""

    async def get_queryables(self, request: Request, collection_id: str | None = None, **named: Any) -> Schema:
        """The JSON Schema of what a filter may name."""
        catalog: Catalog = request.app.state.catalog.seen_by(platform_of(request))
        visible = await catalog.list_visible()
        if visible is not None and not (collection_id in visible if collection_id else visible):
            raise NotFoundError(f"Collection {collection_id} not found")
        schema: Schema = await super().get_queryables(request, collection_id, **named)
        wanted = {"limit": SAMPLE_ITEMS, **({"collections": [collection_id]} if collection_id else {})}
        by_collection: dict[str, list[Properties]] = defaultdict(list)
        for item in await catalog.search(wanted):
            by_collection[item["collection"]].append(item["properties"])
        common = find_common(by_collection.values())
        return {**schema, "properties": {"collection": COLLECTION, **common, **schema["properties"]}}


def find_common(collections: Iterable[Iterable[Properties]]) -> dict[str, Schema]:
    """The properties that all collections have, with the same type."""
    first, *others = [find_queryables(items) for items in collections] or [{}]
    return {name: schema for name, schema in first.items() if all(other.get(name) == schema for other in others)}


def find_queryables(items: Iterable[Properties]) -> dict[str, Schema]:
    """The properties of items that are strings, numbers, times or booleans, each with its schema.

    A property with different types is left out, as are lists and objects, which can't be compared, and what searches
    can't use.
    """
    found: dict[str, list[Schema | None]] = defaultdict(list)
    for properties in items:
        for name, value in properties.items():
            if value is not None and name != SHOWN_ONLY:
                found[name].append(_schema(name, value))
    return {name: kinds[0] for name, kinds in sorted(found.items()) if kinds[0] and kinds.count(kinds[0]) == len(kinds)}


def _schema(name: str, value: object) -> Schema | None:
    kind = TYPES.get(type(value))
    if kind is None:
        return None
    moment = {"format": "date-time"} if isinstance(value, str) and MOMENT.fullmatch(value) else {}
    return {"title": name, "type": kind, **moment}
