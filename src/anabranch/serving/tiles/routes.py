"""Tiles, previews and values of published rasters, by collection and item: no route takes a URL."""

import os
from pathlib import Path
from typing import Annotated, Any

import attrs
import structlog
from fastapi import APIRouter, FastAPI, Query, Request
from fastapi import Path as FromPath
from morecantile import tms
from morecantile.defaults import TileMatrixSets
from rasterio.errors import RasterioError
from rio_tiler.errors import PointOutsideBounds, RioTilerError, TileOutsideBounds
from starlette.types import ASGIApp
from titiler.core import dependencies
from titiler.core.factory import TilerFactory

from anabranch.errors import AnabranchError, InputError, NotFound
from anabranch.serving.concurrency import ConcurrencyLimit
from anabranch.serving.errors import Translate, raise_errors
from anabranch.serving.objects import Remote
from anabranch.serving.tiles.antimeridian import for_maps
from anabranch.serving.tiles.assets import Assets
from anabranch.serving.tiles.drawing import DrawnRoute, Purpose, nothing, rasters_of_request
from anabranch.serving.tiles.drivers import CONFIG, check_drivers
from anabranch.serving.tiles.image_encoding import draw
from anabranch.serving.tiles.malloc import return_freed_memory
from anabranch.serving.tiles.mosaic.reader import open_reader
from anabranch.serving.tiles.mosaic.sources import MosaicSource
from anabranch.serving.tiles.rescale import RescaleRanges

__all__ = ["describe_raster", "make_raster"]

log = structlog.get_logger()

PREFIX = "/collections/{collection_id}/items/{item_id}"
GRIDS = ("WebMercatorQuad", "WorldCRS84Quad", "WGS1984Quad")


@attrs.define(kw_only=True)
class Tiler(TilerFactory):
    """The read-only routes, without HTML pages."""

    def register_routes(self) -> None:
        for register in (self.info, self.statistics, self.tile, self.tilejson, self.point, self.preview):
            register()  # type: ignore[no-untyped-call]  # as above
        for route in self.router.routes:
            if route.name == "tilejson":  # type: ignore[attr-defined]  # all are of FastAPI
                route.endpoint = for_maps(route.endpoint)  # type: ignore[attr-defined]  # as above
        self.router.routes = [route for route in self.router.routes if route.methods == {"GET"}]  # type: ignore[attr-defined]  # all are of FastAPI


def make_raster(assets: Assets) -> ASGIApp:
    """The application; it opens only the rasters of these assets."""
    check_drivers()
    return_freed_memory()
    app = _application()
    app.state.assets = assets
    app.state.stretches = RescaleRanges()
    return ConcurrencyLimit(raise_errors(app, TRANSLATIONS), max(2, os.cpu_count() or 2))


def describe_raster() -> dict[str, Any]:  # OpenAPI's own shape
    """What titiler says of the routes of the application, in the form of OpenAPI."""
    return _application().openapi()


def _application() -> FastAPI:
    app = FastAPI(
        title="Anabranch rasters",
        openapi_url=None,  # the API describes all of its routes in one document
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    tiler = Tiler(
        router=APIRouter(route_class=DrawnRoute),
        reader=open_reader,  # type: ignore[arg-type]  # it is only called
        reader_dependency=Purpose,
        path_dependency=_path,
        layer_dependency=dependencies.BidxParams,  # titiler's default evaluates expressions of the caller (S2)
        tile_dependency=dependencies.DefaultDependency,  # padding warps all of a tile at the raster's own resolution
        process_dependency=nothing,
        environment_dependency=lambda: CONFIG,
        render_func=draw,
        supported_tms=TileMatrixSets({name: tms.get(name) for name in GRIDS}),
        router_prefix=PREFIX,
        add_viewer=False,
    )
    app.include_router(tiler.router, prefix=PREFIX)
    return app


async def _path(
    request: Request,
    collection_id: Annotated[str, FromPath(description="The id of a collection.")],  # noqa: ARG001  # as checksum
    item_id: Annotated[str, FromPath(description="The id of an item of it.")],
    asset: Annotated[
        str | None, Query(description="A GeoTIFF or mosaic of the item; by default the first with the role data.")
    ] = None,
    checksum: Annotated[  # noqa: ARG001  # the route reads it
        str | None,
        Query(description="As in the tile URLs of tilejson.json; with it, the response can be cached forever."),
    ] = None,
) -> Path | Remote | MosaicSource:
    assets: Assets = request.app.state.assets
    return await assets.locate(rasters_of_request(request), item_id, asset)


def _outside(error: Exception) -> AnabranchError:
    return NotFound("raster.outside", str(error), remedy="The bounds are in tilejson.json.")


def _wrong(error: Exception) -> AnabranchError:
    message = str(error) or type(error).__name__
    return InputError("raster.query", message, remedy="The parameters of each route are described at /openapi.json.")


def _unreadable(error: Exception) -> AnabranchError:
    log.warning("asset.unreadable", reason=str(error))
    return AnabranchError("asset.unreadable", "the raster can't be read; see the API's log")


TRANSLATIONS: dict[type[Exception], Translate] = {
    TileOutsideBounds: _outside,
    PointOutsideBounds: _outside,
    RioTilerError: _wrong,
    ValueError: _wrong,
    AssertionError: _wrong,
    KeyError: _wrong,
    IndexError: _wrong,
    TypeError: _wrong,
    ArithmeticError: _wrong,
    RecursionError: _wrong,
    RasterioError: _unreadable,
}
