"""Tiles, previews and values of published rasters, by item or in layers of many: no route takes a URL."""

import os
from pathlib import Path
from typing import Annotated, Any

import structlog
from fastapi import FastAPI, Query, Request
from fastapi import Path as FromPath
from rasterio.errors import RasterioError
from rio_tiler.errors import PointOutsideBounds, RioTilerError, TileOutsideBounds
from starlette.types import ASGIApp

from anabranch.adapters.postgres.store.reads import PostgresReads
from anabranch.errors import AnabranchError, InputError, NotFound
from anabranch.releases.drafts import Drafts
from anabranch.serving.application import make_application
from anabranch.serving.concurrency import ConcurrencyLimit
from anabranch.serving.errors import Translate, raise_errors
from anabranch.serving.objects import Remote
from anabranch.serving.tiles.assets import Assets
from anabranch.serving.tiles.drafts import DRAFT_PREFIX, DraftRoute, find_draft
from anabranch.serving.tiles.drawing import AssetName, DrawnRoute, Purpose, assets_of, rasters_of_request
from anabranch.serving.tiles.drivers import check_drivers
from anabranch.serving.tiles.layers.items import LayerItems
from anabranch.serving.tiles.layers.picture import LayerPictures
from anabranch.serving.tiles.layers.routes import LAYERS, make_layer_router
from anabranch.serving.tiles.malloc import return_freed_memory
from anabranch.serving.tiles.mosaic.reader import open_reader
from anabranch.serving.tiles.mosaic.sources import MosaicSource
from anabranch.serving.tiles.rescale import RescaleRanges
from anabranch.serving.tiles.revisions import REVISION_PREFIX, RevisionRoute, find_revision
from anabranch.serving.tiles.tiler import make_router

__all__ = ["describe_raster", "make_raster"]

log = structlog.get_logger()

PREFIX = "/collections/{collection_id}/items/{item_id}"
KINDS = ("info", "statistics", "tile", "tilejson", "point", "preview")


def make_raster(assets: Assets, layers: LayerItems, drafts: Drafts, reads: PostgresReads) -> ASGIApp:
    """The application; it opens only the rasters of these assets, of their publications, and of drafts."""
    check_drivers()
    return_freed_memory()
    app = _application()
    app.state.assets = assets
    app.state.stretches = RescaleRanges()
    app.state.layers = layers
    app.state.drafts = drafts
    app.state.reads = reads
    app.state.pictures = LayerPictures(assets, app.state.stretches)
    return ConcurrencyLimit(raise_errors(app, TRANSLATIONS), max(2, os.cpu_count() or 2))


def describe_raster() -> dict[str, Any]:  # OpenAPI's own shape
    """What titiler says of the routes of the application, in the form of OpenAPI."""
    return _application().openapi()


def _application() -> FastAPI:
    app = make_application("Anabranch rasters")
    items = make_router(PREFIX, KINDS, route=DrawnRoute, path=_path, reader=open_reader, purpose=Purpose)
    app.include_router(items, prefix=PREFIX)
    drafts = make_router(DRAFT_PREFIX, KINDS, route=DraftRoute, path=find_draft, reader=open_reader, purpose=Purpose)
    app.include_router(drafts, prefix=DRAFT_PREFIX)
    revisions = make_router(
        REVISION_PREFIX, KINDS, route=RevisionRoute, path=find_revision, reader=open_reader, purpose=Purpose
    )
    app.include_router(revisions, prefix=REVISION_PREFIX)
    for prefix, path in LAYERS.items():
        app.include_router(make_layer_router(prefix, path), prefix=prefix)
    return app


async def _path(
    request: Request,
    collection_id: Annotated[str, FromPath(description="The id of a collection.")],  # noqa: ARG001  # as checksum
    item_id: Annotated[str, FromPath(description="The id of an item of it.")],
    asset: AssetName = None,
    checksum: Annotated[  # noqa: ARG001  # the route reads it
        str | None,
        Query(description="As in the tile URLs of tilejson.json; with it, the response can be cached forever."),
    ] = None,
) -> Path | Remote | MosaicSource:
    return await assets_of(request).locate(rasters_of_request(request), item_id, asset)


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
