"""Reads pages of features and vector tiles, both written by the database."""

from collections.abc import Sequence
from dataclasses import dataclass

from morecantile import Tile, TileMatrixSet

from anabranch.errors import InputError
from anabranch.geo.boxes import ANTIMERIDIAN, POLE
from anabranch.serving.features.layers import ID, Column, Layer, Layers
from anabranch.serving.features.sql import Part, column_of, compose, join, literal, name_column, name_table, to_text

__all__ = ["MAX_FEATURES", "MAX_OFFSET", "TILE_ATTRIBUTES", "Page", "PageQuery", "read_page", "read_tile"]

MAX_FEATURES, MAX_OFFSET = 10_000, 1_000_000
MAX_PAGE_BYTES, MAX_FEATURE_BYTES = 10_000_000, 100_000_000
MAX_COUNTED = 1_000_000  # matching features; beyond it their number is left out
EXTENT, BUFFER = 4096, 64  # of a tile: its buffer is 8 of 512 pixels, as wide as the symbols of maps are drawn
MAX_TILE_FEATURES, TILE_ATTRIBUTES, MAX_TILE_TEXT = 10_000, 50, 200
# Their values are short, and have a type in a tile, or a short text.
SHORT = frozenset({"smallint", "integer", "bigint", "real", "double precision", "boolean", "date", "timestamp",
                   "timestamptz", "time", "uuid"})  # fmt: skip


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


async def read_page(layers: Layers, layer: Layer, query: PageQuery) -> Page:
    """A page of features, with as many as are not too large together."""

    def make(layer: Layer) -> tuple[str, Sequence[object]]:
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
    if row["found"] and not row["returned"]:
        raise InputError(
            "features.size",
            f"a feature is larger than {MAX_FEATURE_BYTES // 10**6} MB as GeoJSON",
            remedy="Read the layer by its tiles or its files, or leave the feature out.",
        )
    matched = row["matched"] if row["matched"] is None or row["matched"] <= MAX_COUNTED or query.is_whole else None
    is_last = row["returned"] == row["found"] < query.limit
    return Page(row["features"], row["returned"], matched, row["last"], is_last)


def _count(layer: Layer, query: PageQuery, condition: Part) -> Part:
    if query.is_whole and layer.rows is not None:
        return literal(layer.rows)
    return compose("count", table=name_table(layer.name), condition=condition, limit=MAX_COUNTED + 1)


async def read_tile(
    layers: Layers, layer: Layer, grid: TileMatrixSet, tile: Tile, condition: Part | None, columns: Sequence[Column]
) -> tuple[Layer, bytes]:
    """A vector tile with at most the first 10,000 features by id, and the layer as it was then."""

    def make(layer: Layer) -> tuple[str, Sequence[object]]:
        statement = compose(
            "tile",
            table=name_table(layer.name),
            columns=join(", ", [column_of(ID), *map(_for_tile, columns)]),
            condition=condition or compose("everything"),
            extent=EXTENT,
            buffer=BUFFER,
            limit=MAX_TILE_FEATURES,
        )
        return to_text(statement), (tile.z, tile.x, tile.y, *_surround(grid, tile))

    layer, row = await layers.read(layer, make)
    return layer, bytes(row["tile"] or b"")


def _for_tile(column: Column) -> Part:
    given = column_of(column.name)
    if column.type in SHORT:
        return given
    if column.type == "numeric":
        return compose("double", column=given, name=name_column(column.name))
    return compose("cut", column=given, length=MAX_TILE_TEXT, name=name_column(column.name))


def _surround(grid: TileMatrixSet, tile: Tile) -> tuple[float, float, float, float]:
    """The box of a tile and its buffer in degrees; the outermost rows reach to the poles."""
    west, south, east, north = grid.bounds(tile)
    wide, last = (east - west) * BUFFER / EXTENT, 2**tile.z - 1  # and at most as high, in degrees
    return (
        max(west - wide, -ANTIMERIDIAN),
        -POLE if tile.y == last else south - wide,
        min(east + wide, ANTIMERIDIAN),
        POLE if tile.y == 0 else north + wide,
    )
