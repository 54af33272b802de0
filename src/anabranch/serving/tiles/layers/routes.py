"""The routes of layers: a whole collection, or what a search finds, as tiles and values."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

from anyio import from_thread
from fastapi import APIRouter, Depends, Query, Request
from fastapi import Path as FromPath
from morecantile import Tile, TileMatrixSet
from morecantile.errors import InvalidIdentifier
from titiler.core.dependencies import DefaultDependency

from anabranch.errors import InputError, NotFound
from anabranch.geo.boxes import POLE, Box
from anabranch.serving.caller import platform_of
from anabranch.serving.concurrency import DEADLINE_SECONDS
from anabranch.serving.tiles.assets import Assets
from anabranch.serving.tiles.drawing import assets_of
from anabranch.serving.tiles.layers.budget import Budget
from anabranch.serving.tiles.layers.items import Head, LayerItem, LayerItems, version_of
from anabranch.serving.tiles.layers.picture import LayerPictures, is_complete
from anabranch.serving.tiles.layers.reader import LayerReader, LayerSource
from anabranch.serving.tiles.layers.search import LayerSearch, SearchParameters, read_search
from anabranch.serving.tiles.tagged_route import Query as Parameters
from anabranch.serving.tiles.tagged_route import TaggedRoute, is_drawn
from anabranch.serving.tiles.tiler import GRIDS, make_router

__all__ = ["LAYERS", "make_layer_router"]

KINDS = ("tile", "tilejson", "point")
SEE_TILEJSON = "The bounds are in tilejson.json."
# Around a tile, as a share of it, and around a point, in degrees: footprints are drawn with straight lines.
MARGIN_SHARE, MARGIN_DEGREES = 0.02, 1e-4


@dataclass(frozen=True)
class Layer:
    """What one request needs of a layer."""

    items: tuple[LayerItem, ...]  # to read, the newest first
    head: Head | None  # of the whole layer, by which it is drawn; None where the caller says all of it
    bounds: Box
    search: LayerSearch

    @property
    def version(self) -> str:
        """A hash of everything that the response depends on."""
        return version_of(self.items, self.head.items if self.head else ())


class LayerRoute(TaggedRoute):
    """A route that draws all items of a layer the same way."""

    subject_key = "anabranch.layer"

    async def find(self, request: Request) -> Layer:
        """The items of a tile or point, or of the whole layer, and those by which it is drawn."""
        layers = _layers_of(request)
        search, area = read_search(request), _area_of(request)
        needs_head = area is None or not is_complete(request.query_params.multi_items(), draws=is_drawn(request))
        head = await layers.find_head(search) if needs_head else None
        items = await layers.find(search, area) if area else head.items if head else ()
        if not items or (head and not head.items):
            await layers.check_collection(search)
            raise NotFound("raster.outside", "the layer has no raster here", remedy=SEE_TILEJSON)
        return Layer(items, head, area or await layers.find_bounds(search), search)

    async def complete(self, request: Request) -> Parameters:
        """The query with all that decides how the layer is drawn."""
        pictures: LayerPictures = request.app.state.pictures.seen_by(assets_of(request))
        query, head = request.query_params.multi_items(), layer_of_request(request).head
        return await pictures.complete(query, head.items, draws=is_drawn(request)) if head else query


class LayerPurpose(DefaultDependency):
    """Why the rasters of a layer are opened."""

    def __init__(self, request: Request) -> None:
        """Either to draw them, or to return their values."""
        styled = {"rescale", "colormap", "colormap_name"} & request.query_params.keys()
        self.draws = is_drawn(request) and request.scope["route"].name == "tile"
        self.is_plain = self.draws and not styled


def make_layer_router(prefix: str, path: Callable[..., Any]) -> APIRouter:
    """The routes of layers below a prefix."""
    return make_router(prefix, KINDS, route=LayerRoute, path=path, reader=LayerReader, purpose=LayerPurpose)


def layer_of_request(request: Request) -> Layer:
    """The layer that a request is about."""
    found: Layer = request.scope[LayerRoute.subject_key]
    return found


def _layers_of(request: Request) -> LayerItems:
    layers: LayerItems = request.app.state.layers
    return layers.seen_by(platform_of(request))


def _area_of(request: Request) -> Box | None:
    """The part of the Earth that a request is about; None for the whole layer."""
    given = request.path_params
    try:
        if "lon" in given:
            lon, lat = float(given["lon"]), float(given["lat"])
            return _widen(Box(lon, lat, lon, lat), MARGIN_DEGREES, MARGIN_DEGREES)
        grid = GRIDS.get(given["tileMatrixSetId"])
        if "z" not in given:
            return None
        tile = Tile(*(int(given[name]) for name in ("x", "y", "z")))
    except (ValueError, KeyError, InvalidIdentifier) as error:
        raise InputError("request.invalid", f"the path is not valid: {error}") from error
    if not grid.is_valid(tile, strict=False):
        raise NotFound("raster.outside", f"the grid has no tile {tile.z}/{tile.x}/{tile.y}", remedy=SEE_TILEJSON)
    return _area_of_tile(grid, tile)


def _area_of_tile(grid: TileMatrixSet, tile: Tile) -> Box:
    box = Box(*grid.bounds(tile))
    return _widen(box, MARGIN_SHARE * (box.east - box.west), MARGIN_SHARE * (box.north - box.south))


def _widen(box: Box, across: float, up: float) -> Box:
    west, south, east, north = box
    return Box(west - across, max(south - up, -POLE), east + across, min(north + up, POLE)).within_globe()


def _source(request: Request, asset: str | None) -> LayerSource:
    layer, assets = layer_of_request(request), assets_of(request)
    items = [item for item in layer.items if asset is None or asset in item.rasters.addresses]
    if not items:
        raise NotFound("item.no_raster", f"no item here has a raster {asset}", remedy="See the items at /stac/search.")
    is_small, budget = layer.head is None or layer.head.is_small, Budget(time.monotonic() + DEADLINE_SECONDS)
    fits = partial(_fits, _layers_of(request), layer.search)
    return LayerSource(items, partial(_locate, assets, asset), layer.bounds, is_small, budget, fits)


def _locate(assets: Assets, asset: str | None, item: LayerItem) -> Any:  # a source of a reader
    """Where the raster of an item is; in a thread, and only when the item is reached."""
    return from_thread.run(assets.locate, item.rasters, item.id, asset)


def _fits(layers: LayerItems, search: LayerSearch, grid: TileMatrixSet, tile: Tile) -> bool:
    """Whether a tile has no more items than one request may draw; in a thread."""
    return from_thread.run(layers.fits, search, _area_of_tile(grid, tile))


Asset = Annotated[
    str | None,
    Query(description="The GeoTIFF or mosaic to draw of each item; by default its first with the role data."),
]


async def _collection_path(
    request: Request,
    collection_id: Annotated[str, FromPath(description="The id of a collection.")],  # noqa: ARG001  # the route reads it
    asset: Asset = None,
) -> LayerSource:
    return _source(request, asset)


async def _search_path(
    request: Request,
    search: Annotated[SearchParameters, Depends()],  # noqa: ARG001  # as above
    asset: Asset = None,
) -> LayerSource:
    return _source(request, asset)


LAYERS: Mapping[str, Callable[..., Any]] = {
    "/collections/{collection_id}": _collection_path,
    "/search": _search_path,
}
