"""Draws an item by its render hints or its statistics, where the caller gives no options; values never change."""

from collections.abc import Callable, Coroutine
from functools import cached_property
from inspect import signature
from typing import Any
from urllib.parse import urlencode

from fastapi import Depends, Request, Response
from fastapi.routing import APIRoute
from titiler.core.dependencies import CoordCRSParams, CRSParams, DefaultDependency, DstCRSParams

from anabranch.serving.etags import has, tag_of
from anabranch.serving.parameters import query_names
from anabranch.serving.tiles.assets import Assets, Rasters
from anabranch.serving.tiles.parameters import check_parameters
from anabranch.serving.tiles.render_hints import RenderHints, hints_of
from anabranch.serving.tiles.rescale import MAX_BANDS, RescaleRanges, Wanted, ranges_of

__all__ = ["DrawnRoute", "Purpose", "nothing", "rasters_of_request"]

# Image formats for viewing; the other formats carry values.
IMAGES = frozenset({None, "png", "jpg", "jpeg", "webp"})
CHECKSUM = "checksum"
RASTERS = "anabranch.rasters"
YEAR_SECONDS, FRESH_SECONDS = 31_536_000, 300
STYLE_PARAMETERS = frozenset({"bidx", "rescale", "colormap", "colormap_name", "color_formula"})

# rasterio fetches a CRS that is given as a URL.
CRS_DEPENDENCIES = (CRSParams, CoordCRSParams, DstCRSParams)

Query = list[tuple[str, str]]
Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class DrawnRoute(APIRoute):
    """A route that applies an item's render hints, and takes no CRS parameter."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        """As in FastAPI, without the CRS parameters."""
        super().__init__(path, _without_crs(endpoint), **options)

    def get_route_handler(self) -> Handler:
        """The route's own handler, called with the completed query."""
        handle = super().get_route_handler()

        async def draw(request: Request) -> Response:
            check_parameters(request, self._names)
            # Found once, so that the whole response is about one version of the item.
            request = Request({**request.scope, RASTERS: await _find(request)}, request.receive)
            version = rasters_of_request(request).version
            headers = {"ETag": tag_of(version, str(request.url)), "Cache-Control": _cache_control(request, version)}
            known = request.headers.get("If-None-Match", "")
            if known.strip() != "*" and has(known, headers["ETag"]):
                return Response(status_code=304, headers=headers)
            query = await _complete(request)
            scope = {**request.scope, "query_string": urlencode(query).encode()}
            response = await handle(Request(scope, request.receive))
            response.headers.update(headers)
            return response

        return draw

    @cached_property
    def _names(self) -> frozenset[str]:
        return query_names(self.dependant)


def nothing() -> None:
    """A dependency that is not used."""


def _without_crs(endpoint: Callable[..., Any]) -> Callable[..., Any]:
    given = signature(endpoint)
    known = [
        part.replace(default=Depends(nothing))
        if getattr(part.default, "dependency", None) in CRS_DEPENDENCIES
        else part
        for part in given.parameters.values()
    ]
    endpoint.__signature__ = given.replace(parameters=known)  # type: ignore[attr-defined]  # what inspect looks at first
    return endpoint


class Purpose(DefaultDependency):
    """Why a raster is opened."""

    def __init__(self, request: Request) -> None:
        """Either to draw it, or to return its values."""
        self.draws = _is_drawn(request)


def _is_drawn(request: Request) -> bool:
    drawn = request.scope["route"].name in ("tile", "preview")
    return drawn and request.path_params.get("format") in IMAGES


async def _complete(request: Request) -> Query:
    query = request.query_params.multi_items()
    if request.scope["route"].name == "tilejson":
        return await _complete_tilejson(request, query)
    if not _is_drawn(request):
        return query
    hints = await _hints(request)
    hinted = query + _missing(query, [*_asset(hints), *hints.queries()]) if hints else query
    return hinted + await _stretch(request, hinted)


async def _complete_tilejson(request: Request, query: Query) -> Query:
    """The tiles apply the hints themselves: their URL stays short, and valid when the item changes."""
    hints = await _hints(request) if request.query_params.get("tile_format") in IMAGES else None
    version = rasters_of_request(request).version
    return query + _missing(query, [(CHECKSUM, version), *_asset(hints)])


async def _stretch(request: Request, query: Query) -> Query:
    """The range to draw values in, where neither caller nor hints give one; a colormap by value needs none."""
    named = dict(query)
    if {"rescale", "colormap"} & named.keys():
        return []
    assets: Assets = request.app.state.assets
    rasters, item = rasters_of_request(request), request.path_params["item_id"]
    asset = named.get("asset") or next(iter(rasters.addresses), "")
    if asset not in rasters.addresses:
        return []  # the route reports it
    wanted = _wanted(rasters.addresses[asset], query)
    if wanted is None:
        return []  # likewise
    stretches: RescaleRanges = request.app.state.stretches
    declared = ranges_of(rasters.assets[asset])
    found = await stretches.find(wanted, declared, lambda: assets.locate(rasters, item, asset))
    return [("rescale", f"{low!r},{high!r}") for low, high in found]


def _wanted(address: str, query: Query) -> Wanted | None:
    """What to measure; None where the route will refuse the parameters."""
    bands, nodata = [value for name, value in query if name == "bidx"], dict(query).get("nodata")
    if len(bands) > MAX_BANDS:
        return None
    try:
        float(0 if nodata is None else nodata)
        return Wanted(address, tuple(map(int, bands)), nodata)
    except ValueError:
        return None


def _missing(query: Query, more: Query) -> Query:
    named = {name for name, _ in query}
    return [(name, value) for name, value in more if name not in named]


def _asset(hints: RenderHints | None) -> Query:
    return [("asset", hints.assets[0])] if hints and hints.assets else []


async def _hints(request: Request) -> RenderHints | None:
    if STYLE_PARAMETERS & request.query_params.keys():
        return None
    rasters = rasters_of_request(request)
    hints = hints_of(rasters.renders, request.path_params["item_id"])
    if hints is None or not rasters.addresses:
        return None
    meant = hints.assets[0] if hints.assets else next(iter(rasters.addresses))
    # Hints for one raster don't apply to another.
    return hints if meant in rasters.addresses and request.query_params.get("asset", meant) == meant else None


def rasters_of_request(request: Request) -> Rasters:
    """The rasters of the item that a request is about."""
    found: Rasters = request.scope[RASTERS]
    return found


async def _find(request: Request) -> Rasters:
    assets: Assets = request.app.state.assets
    return await assets.find(request.path_params["collection_id"], request.path_params["item_id"])


def _cache_control(request: Request, version: str) -> str:
    """A URL with the checksum never changes its content; others may, when the item is published again."""
    who = "private" if request.scope["state"]["keyed"] else "public"
    for_good = request.query_params.get(CHECKSUM) == version and request.scope["route"].name != "tilejson"
    return f"{who}, max-age={YEAR_SECONDS}, immutable" if for_good else f"{who}, max-age={FRESH_SECONDS}"
