"""Reads pages of features and vector tiles, both written by the database."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from anabranch.errors import InputError
from anabranch.geo.boxes import ANTIMERIDIAN, FULL_TURN, POLE
from anabranch.serving.features.layers import ID, Column, Layer, Layers
from anabranch.serving.features.sql import Part, column_of, compose, join, literal, name_column, name_table, to_text

__all__ = ["MAX_FEATURES", "MAX_OFFSET", "TILE_ATTRIBUTES", "Page", "PageQuery", "Tile", "read_page", "read_tile"]

MAX_FEATURES, MAX_OFFSET = 10_000, 1_000_000
MAX_PAGE_BYTES, MAX_FEATURE_BYTES = 10_000_000, 100_000_000
MAX_COUNTED = 1_000_000  # matching features; beyond it their number is left out
EXTENT, BUFFER = 4096, 64  # of a tile: its buffer is 8 of 512 pixels, as wide as the symbols of maps are drawn
MAX_TILE_FEATURES, TILE_ATTRIBUTES, MAX_TILE_TEXT = 10_000, 50, 200
MAX_WHOLE_TILES = 100  # statements that are kept
# Their values are short, and have a type in a tile, or a short text.
SHORT = frozenset({"smallint", "integer", "bigint", "real", "double precision", "boolean", "date", "timestamp",
                   "timestamptz", "time", "uuid"})  # fmt: skip


class Tile(NamedTuple):
    """A tile of Web Mercator."""

    z: int
    x: int
    y: int


@dataclass(frozen=True)
class PageQuery:
    """Which features of a layer, in which order, and what of them."""

    condition: Part | None
    order: Part
    columns: Sequence[Column]
    limit: int
    offset: int
    after: int | None = None  # the last id of the page before it, where the order is that of ids

    @property
    def is_whole(self) -> bool:
        """Whether it is about all features of the layer."""
        return self.condition is None


@dataclass(frozen=True)
class Page:
    """Features as GeoJSON, separated by commas."""

    features: str
    returned: int
    matched: int | None
    last: int | None
    is_last: bool


async def read_page(layers: Layers, layer: Layer, choose: Callable[[Layer], PageQuery]) -> tuple[PageQuery, Page]:
    """A page of features, with as many as are not too large together; `choose` says which, by the layer's columns."""

    def make(layer: Layer) -> tuple[str, Sequence[object]]:
        query = choose(layer)
        everything = compose("everything")
        chosen = query.condition or everything
        seen = [chosen] if query.after is None else [chosen, join(" > ", [column_of(ID), literal(query.after)])]
        named = join(", ", [column_of(column.name) for column in query.columns])
        statement = compose(
            "features",
            table=name_table(layer.name),
            geometry=compose("geometry"),
            properties=compose("properties", columns=named),
            condition=join(" and ", seen),
            order=query.order,
            matched=_count(layer, query, chosen),
        )
        return to_text(statement), (query.limit, query.offset, MAX_PAGE_BYTES, MAX_FEATURE_BYTES)

    layer, row = await layers.read(layer, make)
    query = choose(layer)
    if row["found"] and not row["returned"]:
        raise InputError(
            "features.size",
            f"a feature is larger than {MAX_FEATURE_BYTES // 10**6} MB as GeoJSON",
            remedy="Read the layer by its tiles or its files, or leave the feature out.",
        )
    matched = row["matched"] if row["matched"] is None or row["matched"] <= MAX_COUNTED or query.is_whole else None
    is_last = row["returned"] == row["found"] < query.limit
    return query, Page(row["features"], row["returned"], matched, row["last"], is_last)


def _count(layer: Layer, query: PageQuery, condition: Part) -> Part:
    if query.is_whole and layer.rows is not None:
        return literal(layer.rows)
    return compose("count", table=name_table(layer.name), condition=condition, limit=MAX_COUNTED + 1)


async def read_tile(
    layers: Layers,
    layer: Layer,
    tile: Tile,
    choose: Callable[[Layer], tuple[Part | None, Sequence[Column]]],
) -> tuple[Layer, bytes]:
    """A vector tile with at most the first 10,000 features by id, and the layer as it was then."""

    def make(layer: Layer) -> tuple[str, Sequence[object]]:
        condition, columns = choose(layer)
        if condition is None:
            statement = _whole_tile(layer.name, tuple(columns))
        else:
            statement = _tile(layer.name, columns, condition)
        return statement, (*tile, *_surround(tile))

    layer, row = await layers.read(layer, make)
    return layer, bytes(row["tile"] or b"")


def _tile(layer: str, columns: Sequence[Column], condition: Part) -> str:
    statement = compose(
        "tile",
        table=name_table(layer),
        columns=join(", ", [column_of(ID), *map(_for_tile, columns)]),
        condition=condition,
        extent=EXTENT,
        buffer=BUFFER,
        limit=MAX_TILE_FEATURES,
    )
    return to_text(statement)


@lru_cache(MAX_WHOLE_TILES)
def _whole_tile(layer: str, columns: Sequence[Column]) -> str:
    """The statement for tiles without a condition, which most are."""
    return _tile(layer, columns, compose("everything"))


def _for_tile(column: Column) -> Part:
    given = column_of(column.name)
    if column.type in SHORT:
        return given
    if column.type == "numeric":
        return compose("double", column=given, name=name_column(column.name))
    return compose("cut", column=given, length=MAX_TILE_TEXT, name=name_column(column.name))


def _surround(tile: Tile) -> tuple[float, float, float, float]:
    """The box of a tile and its buffer in degrees; the outermost rows reach to the poles."""
    count = 2**tile.z
    wide = FULL_TURN / count
    buffer = wide * BUFFER / EXTENT  # and at most as high, in degrees
    west = tile.x * wide - ANTIMERIDIAN
    return (
        max(west - buffer, -ANTIMERIDIAN),
        -POLE if tile.y == count - 1 else _latitude(tile.y + 1, count) - buffer,
        min(west + wide + buffer, ANTIMERIDIAN),
        POLE if tile.y == 0 else _latitude(tile.y, count) + buffer,
    )


def _latitude(row: int, count: int) -> float:
    """The latitude of a row's north in Web Mercator."""
    return math.degrees(math.atan(math.sinh(math.pi * (1 - 2 * row / count))))
