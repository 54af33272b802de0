"""Collections: builds their documents, and extents that are the union of the items (C2)."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from pydantic import Field

from anabranch.canonical import Json, JsonObject
from anabranch.geo.boxes import Box, unite
from anabranch.plugins.stac.item import STAC_VERSION, write_time
from anabranch.plugins.stac.names import check_collection_id
from anabranch.strict_model import StrictModel

__all__ = [
    "WORLD_EXTENT", "CollectionFacts", "Provider", "build_collection", "covers_items", "pick_times",
    "shapes_extent", "widen",
]  # fmt: skip

Document = Mapping[str, Any]  # JSON that was checked against its schema
# STAC requires an extent even of an empty collection; that of the first items replaces it.
WORLD_EXTENT: JsonObject = {
    "spatial": {"bbox": [[-180, -90, 180, 90]]},
    "temporal": {"interval": [[None, None]]},
}
Span = tuple[datetime | None, datetime | None]


class Provider(StrictModel):
    """Who made, processed or serves the data."""

    name: str = Field(min_length=1)
    description: str | None = None
    roles: list[str] = Field([])
    url: str | None = None


class CollectionFacts(StrictModel):
    """The fields of a collection; omitted ones stay unchanged, or get a default when the collection is new."""

    id: str
    title: str | None = None
    description: str | None = Field(None, min_length=1)
    license: str | None = Field(None, min_length=1, description="An SPDX expression, or other.")
    keywords: list[str] | None = None
    providers: list[Provider] | None = None


def build_collection(facts: CollectionFacts) -> tuple[JsonObject, JsonObject]:
    """The full document of a new collection, and the given fields alone, to update an existing one."""
    said: JsonObject = facts.model_dump(mode="json", exclude_none=True)
    document: JsonObject = {
        "type": "Collection",
        "stac_version": STAC_VERSION,
        "stac_extensions": [],
        "id": check_collection_id(facts.id),
        "description": f"Items of {facts.id}.",
        "license": "other",
        "extent": WORLD_EXTENT,
        "links": [],
    }
    return document | said, said


def widen(extent: Document | None, items: Sequence[Document]) -> JsonObject:
    """The union of an extent and the items, never smaller than before; without an extent, that of the items (C2)."""
    if extent is None and not items:
        return WORLD_EXTENT
    boxes, spans = [Box.of(item["bbox"]) for item in items], [_span_of(item) for item in items]
    if extent is not None:
        boxes.append(Box.of(extent["spatial"]["bbox"][0]))
        spans.append(_span(extent["temporal"]["interval"][0]))
    return {
        "spatial": {"bbox": [list(unite(boxes))]},
        "temporal": {"interval": [_write_span(_unite_spans(spans))]},
    }


def shapes_extent(extent: Document, item: Document) -> bool:
    """Whether an extent may be smaller without an item: it reaches one of its sides, or they go around the globe."""
    outer, inner = Box.of(extent["spatial"]["bbox"][0]), Box.of(item["bbox"])
    span, times = _span(extent["temporal"]["interval"][0]), _span_of(item)
    return outer.crosses or any(a == b for a, b in zip((*outer, *span), (*inner, *times), strict=True))


def covers_items(extent: Document, items: Iterable[Document]) -> bool:
    """Whether an extent contains all items."""
    outer, (start, end) = Box.of(extent["spatial"]["bbox"][0]), _span(extent["temporal"]["interval"][0])
    for item in items:
        first, last = _span_of(item)
        early = start is None or (first is not None and start <= first)
        late = end is None or (last is not None and last <= end)
        if not (outer.covers(Box.of(item["bbox"])) and early and late):
            return False
    return True


def pick_times(item: Document) -> JsonObject:
    """The times among the properties of an item."""
    properties = item["properties"]
    return {key: properties[key] for key in ("datetime", "start_datetime", "end_datetime") if key in properties}


def _span_of(item: Document) -> Span:
    properties = item["properties"]
    moment = properties.get("datetime")
    return _span((properties.get("start_datetime") or moment, properties.get("end_datetime") or moment))


def _span(texts: Sequence[str | None]) -> Span:
    start, end = (datetime.fromisoformat(text).astimezone(UTC) if text else None for text in texts)
    return start, end


def _unite_spans(spans: Sequence[Span]) -> Span:
    starts, ends = [start for start, _ in spans], [end for _, end in spans]
    return (
        None if None in starts else min(start for start in starts if start),
        None if None in ends else max(end for end in ends if end),
    )


def _write_span(span: Span) -> list[Json]:
    return [write_time(moment) if moment else None for moment in span]
