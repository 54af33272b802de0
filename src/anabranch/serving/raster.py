"""Tiles, previews and values of published rasters, by collection and item: no route takes a URL."""

import os
from pathlib import Path
from typing import Annotated

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
from anabranch.serving.around import for_maps
from anabranch.serving.assets import Assets
from anabranch.serving.drawing import DrawnRoute, Purpose, nothing, rasters_of_request
from anabranch.serving.drivers import CONFIG, check_drivers
from anabranch.serving.geotiff import GeoTiff
from anabranch.serving.memory import give_back
from anabranch.serving.objects import Remote
from anabranch.serving.pictures import draw
from anabranch.serving.refusals import Translate, let_out
from anabranch.serving.stretch import Stretches
from anabranch.serving.turns import Turns

__all__ = ["make_raster"]

log = structlog.get_logger()

PREFIX = "/collections/{collection_id}/items/{item_id}"
GRIDS = ("WebMercatorQuad", "WorldCRS84Quad", "WGS1984Quad")


@attrs.define(kw_only=True)
class Tiler(TilerFactory):
    """The routes that only read, and that need no page of their own."""

    def register_routes(self) -> None:
        for register in (self.info, self.statistics, self.tile, self.tilejson, self.point, self.preview):
            register()  # type: ignore[no-untyped-call]  # as above
        for route in self.router.routes:
            if route.name == "tilejson":  # type: ignore[attr-defined]  # all are of FastAPI
                route.endpoint = for_maps(route.endpoint)  # type: ignore[attr-defined]  # as above
        self.router.routes = [route for route in self.router.routes if route.methods == {"GET"}]  # type: ignore[attr-defined]  # all are of FastAPI


def make_raster(assets: Assets) -> ASGIApp:
    """The application; it opens what these assets are, and nothing else."""
    check_drivers()
    give_back()
    app = FastAPI(
        title="Anabranch rasters",
        openapi_url="/api",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.assets = assets
    app.state.stretches = Stretches()
    tiler = Tiler(
        router=APIRouter(route_class=DrawnRoute),
        reader=GeoTiff,
        reader_dependency=Purpose,
        path_dependency=_path,
        layer_dependency=dependencies.BidxParams,  # theirs for expressions evaluates what a caller writes (S2)
        tile_dependency=dependencies.DefaultDependency,  # padding warps all of a tile at the raster's own resolution
        process_dependency=nothing,
        environment_dependency=lambda: CONFIG,
        render_func=draw,
        supported_tms=TileMatrixSets({name: tms.get(name) for name in GRIDS}),
        router_prefix=PREFIX,
        add_viewer=False,
    )
    app.include_router(tiler.router, prefix=PREFIX)
    return Turns(let_out(app, REFUSALS), max(2, os.cpu_count() or 2))


async def _path(
    request: Request,
    collection_id: Annotated[str, FromPath(description="The id of a collection.")],  # noqa: ARG001  # as checksum
    item_id: Annotated[str, FromPath(description="The id of an item of it.")],
    asset: Annotated[str | None, Query(description="A GeoTIFF of the item; by default the first that is data.")] = None,
    checksum: Annotated[  # noqa: ARG001  # the route looks at it
        str | None, Query(description="Of what is drawn, as tilejson.json names it: the answer may be kept for good.")
    ] = None,
) -> Path | Remote:
    assets: Assets = request.app.state.assets
    return await assets.locate(rasters_of_request(request), item_id, asset)


def _outside(error: Exception) -> AnabranchError:
    return NotFound("raster.outside", str(error), remedy="The bounds are in tilejson.json.")


def _wrong(error: Exception) -> AnabranchError:
    told = str(error) or type(error).__name__
    return InputError("raster.query", told, remedy="What a route takes is described at /raster/api.")


def _unreadable(error: Exception) -> AnabranchError:
    log.warning("asset.unreadable", reason=str(error))
    return AnabranchError("asset.unreadable", "the raster can't be read; the API's log says why")


REFUSALS: dict[type[Exception], Translate] = {
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
