"""The parameters that choose features, as conditions of SQL; each is bounded before anything parses it (S7)."""

import datetime as clock
from collections.abc import Iterator
from dataclasses import dataclass
from inspect import signature
from typing import Annotated, Any, Literal

from fastapi import Depends, HTTPException, Path, Query, Request
from stac_fastapi.types.rfc3339 import str_to_interval

from anabranch.geo.boxes import Box
from anabranch.serving.caller import platform_of
from anabranch.serving.features.cql2 import compile_filter, find_column
from anabranch.serving.features.layers import ID, Column, Layer, Layers
from anabranch.serving.features.sql import Part, column_of, compose, join, literal
from anabranch.serving.parameters import query_names, refuse_unknown
from anabranch.serving.stac.search.bounds import BOUNDS, refuse
from anabranch.serving.stac.search.cql2 import check_values
from anabranch.serving.stac.search.request import READ, check_query
from anabranch.serving.stac.search.times import DAY

__all__ = [
    "FeatureQuery",
    "RequestedFeatures",
    "RequestedLayer",
    "check_names",
    "choose_columns",
    "layers_of",
    "order_by",
    "read_id",
]

MAX_ID = 2**63 - 1


@dataclass
class FeatureQuery:
    """What chooses features; a parameter with the name of a column chooses those with that value."""

    bbox: Annotated[
        str | None, Query(description="West, south, east and north in degrees; west may be above east.")
    ] = None
    datetime: Annotated[
        str | None, Query(description="A time, or an interval of two with a slash between; `..` is an open end.")
    ] = None
    datetime_column: Annotated[
        str | None,
        Query(alias="datetime-column", description="The column of `datetime`; by default the first of times."),
    ] = None
    ids: Annotated[str | None, Query(description="Ids of features, separated by commas.")] = None
    filter: Annotated[str | None, Query(description="A CQL2 filter.")] = None
    filter_lang: Annotated[
        Literal["cql2-text", "cql2-json"], Query(alias="filter-lang", description="How the filter is written.")
    ] = "cql2-text"
    properties: Annotated[
        str | None, Query(description="The columns to return, separated by commas; by default all.")
    ] = None

    def condition(self, request: Request, layer: Layer) -> Part | None:
        """The condition of all that is given; None if nothing is."""
        parts = [*self._conditions(layer), *_equalities(request, layer)]
        return join(" and ", parts) if parts else None

    def _conditions(self, layer: Layer) -> Iterator[Part]:
        check_query((name, given) for name, given in (("bbox", self.bbox), ("datetime", self.datetime)) if given)
        if self.bbox:
            yield _within(Box.of(READ["bbox"](self.bbox)))  # type: ignore[arg-type]  # numbers, as was checked
        if self.datetime:
            yield from _at(self.datetime, self._time_column(layer))
        if self.ids:
            yield compose("among", value=column_of(ID), values=join(", ", [*map(literal, _read_ids(self.ids))]))
        if self.filter:
            yield compile_filter(self.filter, self.filter_lang, layer)

    def _time_column(self, layer: Layer) -> Column:
        name = self.datetime_column
        found = next((column for column in layer.columns if column.is_time and name in (None, column.name)), None)
        if found is None:
            refuse(f"layer {layer.name} has no {'such ' if name else ''}column of times", "See its queryables.")
        return found


async def _choose_features(**given: Any) -> FeatureQuery:  # as the class declares them
    """A coroutine, since FastAPI calls a class in a thread, which takes longer than the rest of a small request."""
    return FeatureQuery(**given)


_choose_features.__signature__ = signature(FeatureQuery)  # type: ignore[attr-defined]  # what inspect looks at first
RequestedFeatures = Annotated[FeatureQuery, Depends(_choose_features)]


def layers_of(request: Request) -> Layers:
    """The layers that the caller may see."""
    layers: Layers = request.app.state.layers
    return layers.seen_by(platform_of(request))


async def _find_layer(
    request: Request, name: Annotated[str, Path(alias="collectionId", description="The name of a layer.")]
) -> Layer:
    return await layers_of(request).find(name)


RequestedLayer = Annotated[Layer, Depends(_find_layer)]


def check_names(request: Request, layer: Layer) -> None:
    """Refuse parameters that are neither of the route nor columns of the layer."""
    known = query_names(request.scope["route"].dependant)
    columns = {column.name for column in layer.columns}
    refuse_unknown(set(request.query_params.keys()) - columns, known, "features.query")


def choose_columns(layer: Layer, text: str | None) -> list[Column]:
    """The columns that are named, or all."""
    if text is None:
        return list(layer.columns)
    names = {name.strip() for name in text.split(",", len(layer.columns) + 1)} - {""}
    for name in names - {ID}:
        find_column(layer, name, "properties")
    return [column for column in layer.columns if column.name in names]


def order_by(layer: Layer, sortby: str | None) -> Part:
    """The order of features: by columns, - before a name is descending; equal ones by id."""
    names = sortby.split(",", BOUNDS.names + 1) if sortby else []
    if len(names) > BOUNDS.names:
        refuse(f"sortby has more than {BOUNDS.names} names")
    parts = [_order(layer, name.strip()) for name in names]
    return join(", ", [*parts, column_of(ID)])


def _order(layer: Layer, name: str) -> Part:
    column = find_column(layer, name.lstrip("+-"), "sortby")
    return compose("descending", column=column) if name.startswith("-") else column


def _equalities(request: Request, layer: Layer) -> Iterator[Part]:
    known = query_names(request.scope["route"].dependant)
    for name, text in request.query_params.multi_items():
        if name not in known and layer.find(name):
            check_values(text, name)
            yield join(" = ", [column_of(name), literal(text)])


def _within(box: Box) -> Part:
    sides = [compose("box", west=west, south=box.south, east=east, north=box.north) for west, east in box.spans]
    return compose("group", part=join(" or ", sides))


def _at(text: str, column: Column) -> Iterator[Part]:
    try:
        found = str_to_interval(_spell_days(text))
    except HTTPException as error:
        refuse(
            f"datetime: {error.detail}",
            "Write it like 2026-03-21 or 2026-03-21T10:15:00Z, or two of them with a / between.",
        )
    start, end = found if isinstance(found, tuple) else (found, found)
    for sign, moment in ((" >= ", start), (" <= ", end)):
        if moment is not None:
            yield join(sign, [column_of(column.name), literal(_spell(moment, column))])


def _spell_days(text: str) -> str:
    """The interval with the first and the last moment of a date in place of it."""
    start, slash, end = text.partition("/")
    if not DAY.fullmatch(start) and not DAY.fullmatch(end):
        return text
    first = f"{start}T00:00:00Z" if DAY.fullmatch(start) else start
    last = end if slash else start
    return f"{first}/{last}T23:59:59.999999Z" if DAY.fullmatch(last) else f"{first}/{last}"


def _spell(moment: clock.datetime, column: Column) -> str:
    """The moment in the column's type: a day is reached by every moment of it."""
    return (moment.astimezone(clock.UTC).date() if column.type == "date" else moment).isoformat()


def read_id(text: str) -> int | None:
    """The id of a feature; None if no feature can have it."""
    is_number = text.isascii() and text.isdecimal() and len(text) < len(str(MAX_ID)) + 1
    return int(text) if is_number and int(text) <= MAX_ID else None


def _read_ids(text: str) -> list[int]:
    given = text.split(",", BOUNDS.ids + 1)
    if len(given) > BOUNDS.ids:
        refuse(f"ids has more than {BOUNDS.ids:,} entries")
    if None in (read := [read_id(each.strip()) for each in given]):
        refuse(f"ids has {given[read.index(None)][:40]!r}, which is not an id", "Ids are numbers.")
    return [number for number in read if number is not None]
