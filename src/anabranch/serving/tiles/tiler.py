"""Routes of titiler with our own reader, drawing and parameters, for items and for layers of items."""

from collections.abc import Callable, Sequence
from typing import Any

import attrs
from fastapi import APIRouter
from morecantile import tms
from morecantile.defaults import TileMatrixSets
from titiler.core import dependencies
from titiler.core.factory import TilerFactory

from anabranch.serving.tiles.antimeridian import for_maps
from anabranch.serving.tiles.drivers import CONFIG
from anabranch.serving.tiles.image_encoding import draw
from anabranch.serving.tiles.tagged_route import TaggedRoute, nothing

__all__ = ["GRIDS", "make_router"]

GRIDS = TileMatrixSets({name: tms.get(name) for name in ("WebMercatorQuad", "WorldCRS84Quad", "WGS1984Quad")})


@attrs.define(kw_only=True)
class Tiler(TilerFactory):
    """Read-only routes, without HTML pages."""

    kinds: Sequence[str]

    def register_routes(self) -> None:
        for kind in self.kinds:
            getattr(self, kind)()
        for route in self.router.routes:
            if route.name == "tilejson":  # type: ignore[attr-defined]  # all are of FastAPI
                route.endpoint = for_maps(route.endpoint)  # type: ignore[attr-defined]  # as above
        self.router.routes = [route for route in self.router.routes if route.methods == {"GET"}]  # type: ignore[attr-defined]  # as above


def make_router(
    prefix: str,
    kinds: Sequence[str],
    *,
    route: type[TaggedRoute],
    path: Callable[..., Any],
    reader: Callable[..., Any],
    purpose: type[dependencies.DefaultDependency],
) -> APIRouter:
    """Routes of these kinds below a prefix; `path` finds what the reader opens, and `purpose` its options."""
    tiler = Tiler(
        kinds=kinds,
        router=APIRouter(route_class=route),
        reader=reader,  # type: ignore[arg-type]  # it is only called
        reader_dependency=purpose,
        path_dependency=path,
        layer_dependency=dependencies.BidxParams,  # titiler's default evaluates expressions of the caller (S2)
        tile_dependency=dependencies.DefaultDependency,  # padding warps all of a tile at the raster's own resolution
        process_dependency=nothing,
        environment_dependency=lambda: CONFIG,
        render_func=draw,
        supported_tms=GRIDS,
        router_prefix=prefix,
        add_viewer=False,
    )
    return tiler.router
