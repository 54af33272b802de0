"""Reads which items a layer has: a collection, or the parameters of a search, checked like those of the STAC API."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated, Literal

from fastapi import HTTPException, Query, Request
from stac_fastapi.types.rfc3339 import str_to_interval

from anabranch.canonical import Json, JsonObject
from anabranch.geo.boxes import Box
from anabranch.serving.stac.search.bounds import refuse
from anabranch.serving.stac.search.cql2 import parse_filter, spell_out
from anabranch.serving.stac.search.request import READ, check_query

__all__ = ["LayerSearch", "SearchParameters", "read_search"]

LANGUAGES = ("cql2-text", "cql2-json")
# The newest first; those whose time is the same, or unknown, by when they were published.
ORDER: list[Json] = [
    {"field": "datetime", "direction": "desc"},
    {"field": "properties.created", "direction": "desc"},
    {"field": "id", "direction": "asc"},
]
FIELDS: list[Json] = ["id", "collection", "bbox", "assets", "properties.renders"]


@dataclass
class SearchParameters:
    """The parameters of a search that choose items, as they are described; `read_search` reads them."""

    collections: Annotated[str | None, Query(description="Ids of collections, separated by commas.")] = None
    ids: Annotated[str | None, Query(description="Ids of items, separated by commas.")] = None
    bbox: Annotated[str | None, Query(description="West, south, east and north in degrees.")] = None
    datetime: Annotated[
        str | None, Query(description="A time, or an interval of two with a slash between; `..` is an open end.")
    ] = None
    filter: Annotated[str | None, Query(description="A CQL2 filter.")] = None
    filter_lang: Annotated[
        Literal["cql2-text", "cql2-json"], Query(alias="filter-lang", description="How the filter is written.")
    ] = "cql2-text"


@dataclass(frozen=True)
class LayerSearch:
    """The items of a layer, in pgstac's terms."""

    chosen: JsonObject = field(default_factory=dict)
    conditions: list[Json] = field(default_factory=list)  # in CQL2 JSON
    collection: str | None = None  # where the layer is a whole collection

    def body(self, area: Box | None, limit: int) -> JsonObject:
        """The search for the items of an area, or for all, the newest first."""
        areas: list[Json] = [] if area is None else [_meets(area)]
        filtered: JsonObject = {"op": "and", "args": [*areas, *self.conditions]}
        condition: JsonObject = {"filter": filtered, "filter-lang": "cql2-json"} if filtered["args"] else {}
        shown: JsonObject = {"fields": {"include": FIELDS}, "conf": {"context": "off"}}
        return {**self.chosen, **condition, **shown, "sortby": ORDER, "limit": limit}


def read_search(request: Request) -> LayerSearch:
    """The items that the path or the query of a request chooses; InputError where it would cost too much."""
    if collection := request.path_params.get("collection_id"):
        return LayerSearch({"collections": [collection]}, collection=collection)
    query = request.query_params
    check_query((name, query[name]) for name in ("collections", "ids", "bbox", "datetime") if query.get(name))
    named: JsonObject = {name: READ[name](query[name]) for name in ("collections", "ids") if query.get(name)}  # type: ignore[misc]  # lists of texts
    times: JsonObject = {"datetime": _check_times(query["datetime"])} if query.get("datetime") else {}
    return LayerSearch({**named, **times}, list(_conditions(request)))


def _conditions(request: Request) -> Iterator[Json]:
    query = request.query_params
    if query.get("bbox"):
        yield _meets(Box.of(READ["bbox"](query["bbox"])))  # type: ignore[arg-type]  # numbers, as was checked
    if query.get("filter"):
        language = query.get("filter-lang", LANGUAGES[0])
        if language not in LANGUAGES:
            refuse("filter-lang is not known", f"Set it to {' or '.join(LANGUAGES)}.")
        yield spell_out(parse_filter(query["filter"], language))


def _check_times(text: str) -> str:
    try:
        str_to_interval(text)
    except HTTPException as error:
        refuse(f"datetime: {error.detail}", "Write it like 2026-03-21T10:15:00Z, or two of them with a / between.")
    return text


def _meets(area: Box) -> JsonObject:
    return {"op": "s_intersects", "args": [{"property": "geometry"}, area.to_geojson()]}
