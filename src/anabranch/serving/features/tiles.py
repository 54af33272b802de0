"""The routes of vector tiles."""

from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi import Path as FromPath

from anabranch.errors import NotFound
from anabranch.geo.boxes import ANTIMERIDIAN
from anabranch.serving.etags import cache_control, has, tag_of
from anabranch.serving.features.layers import Column, Layer
from anabranch.serving.features.links import MVT, Urls
from anabranch.serving.features.metadata import GRID, JsonRoute, json_type
from anabranch.serving.features.models import TileJson, VectorLayer
from anabranch.serving.features.query import (
    FeatureQuery,
    RequestedFeatures,
    RequestedLayer,
    check_names,
    choose_columns,
    layers_of,
)
from anabranch.serving.features.reading import TILE_ATTRIBUTES, Tile, read_tile
from anabranch.serving.features.sql import Part

__all__ = ["router"]

MIN_ZOOM, MAX_ZOOM = 0, 16  # of a tilejson: at 16 a tile shows 15 cm, and maps enlarge its tiles beyond
DEEPEST_ZOOM = 24
router = APIRouter(route_class=JsonRoute)
Publication = Annotated[
    str | None, Query(description="As in the tile URLs of tilejson.json; with it, the tile can be cached forever.")
]


async def _only_grid(
    grid: Annotated[
        Literal["WebMercatorQuad"], FromPath(alias="tileMatrixSetId", description="The grid of the tiles.")
    ],
) -> None:
    """The grid of tiles; there is one."""


@router.get(
    "/collections/{collectionId}/tiles/{tileMatrixSetId}/tilejson.json",
    dependencies=[Depends(_only_grid)],
    response_model_exclude_none=True,
)
async def tilejson(
    request: Request,
    response: Response,
    layer: RequestedLayer,
    query: RequestedFeatures,
) -> TileJson:
    check_names(request, layer)
    query.condition(request, layer)  # what is wrong with it is said here, and not for each tile
    columns = _choose(layer, query)
    _, south, _, north = layer.box
    west, east = (-ANTIMERIDIAN, ANTIMERIDIAN) if layer.box.crosses else (layer.box.west, layer.box.east)
    fields = {column.name: json_type(column) for column in columns}
    given = [*request.query_params.multi_items(), ("publication", layer.publication)]
    response.headers["Cache-Control"] = "private, no-cache"
    response.headers["ETag"] = tag_of(layer.publication, str(request.url))
    return TileJson(
        name=layer.title,
        description=layer.description,
        tiles=[Urls.of(request).tiles(layer.name, given)],
        minzoom=MIN_ZOOM,
        maxzoom=MAX_ZOOM,
        bounds=[west, south, east, north],
        vector_layers=[VectorLayer(id=layer.name, fields=fields, minzoom=MIN_ZOOM, maxzoom=MAX_ZOOM)],
    )


async def _find_published(
    request: Request,
    name: Annotated[str, FromPath(alias="collectionId", description="The name of a layer.")],
    publication: Publication = None,
) -> Layer:
    """The layer of a tile: one that was read before, if it is of the publication that is asked for.

    It need not be looked up, because the statement that reads the tile checks whether it is still current.
    """
    remembered = layers_of(request).remembered(name, publication) if "If-None-Match" not in request.headers else None
    return remembered or await layers_of(request).find(name)


@router.get(
    "/collections/{collectionId}/tiles/{tileMatrixSetId}/{z}/{x}/{y}",
    dependencies=[Depends(_only_grid)],
    response_class=Response,
    responses={200: {"content": {MVT: {"schema": {"type": "string", "format": "binary"}}}}},
)
async def collection_get_tile(
    request: Request,
    layer: Annotated[Layer, Depends(_find_published)],
    z: Annotated[int, FromPath(description="The zoom.")],
    x: Annotated[int, FromPath(description="The column, from the west.")],
    y: Annotated[int, FromPath(description="The row, from the north.")],
    query: RequestedFeatures,
    publication: Publication = None,
) -> Response:
    if not 0 <= z <= DEEPEST_ZOOM or not (0 <= x < 2**z and 0 <= y < 2**z):
        raise NotFound("features.tile", f"{GRID} has no tile {z}/{x}/{y}"[:200])
    if has(request.headers.get("If-None-Match"), tag_of(layer.publication, str(request.url))):
        return Response(status_code=304, headers=_headers(request, layer, publication))

    def choose(layer: Layer) -> tuple[Part | None, list[Column]]:
        check_names(request, layer)
        return query.condition(request, layer), _choose(layer, query)

    layer, tile = await read_tile(layers_of(request), layer, Tile(z, x, y), choose)
    return Response(tile, media_type=MVT, headers=_headers(request, layer, publication))


def _headers(request: Request, layer: Layer, publication: str | None) -> dict[str, str]:
    kept = cache_control(keyed=request.scope["state"]["keyed"], for_good=publication == layer.publication)
    return {"ETag": tag_of(layer.publication, str(request.url)), "Cache-Control": kept}


def _choose(layer: Layer, query: FeatureQuery) -> list[Column]:
    columns = choose_columns(layer, query.properties)
    return columns if query.properties is not None else columns[:TILE_ATTRIBUTES]
