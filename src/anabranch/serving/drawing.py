"""An item is drawn as its hints say, or its statistics, where the caller doesn't; values are never changed by them."""

from collections.abc import Callable, Coroutine, Iterator
from functools import cached_property
from inspect import signature
from typing import Any
from urllib.parse import urlencode

from fastapi import Depends, Request, Response
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from titiler.core.dependencies import CoordCRSParams, CRSParams, DefaultDependency, DstCRSParams

from anabranch.serving.assets import Assets, Rasters
from anabranch.serving.etags import has, tag_of
from anabranch.serving.hints import Hints, hints_of
from anabranch.serving.parameters import check_parameters
from anabranch.serving.stretch import MOST_BANDS, Stretches, Wanted, ranges_of

__all__ = ["DrawnRoute", "Purpose", "nothing", "rasters_of_request"]

# Images to look at; the others carry values.
IMAGES = frozenset({None, "png", "jpg", "jpeg", "webp"})
CHECKSUM = "checksum"
RASTERS = "anabranch.rasters"
YEAR_SECONDS, FRESH_SECONDS = 31_536_000, 300
CHOICES = frozenset({"bidx", "rescale", "colormap", "colormap_name", "color_formula"})

# rasterio fetches a coordinate system that is given as a URL.
SYSTEMS = (CRSParams, CoordCRSParams, DstCRSParams)

Query = list[tuple[str, str]]
Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class DrawnRoute(APIRoute):
    """A route that knows what an item's hints are, and takes no coordinate system."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        """As theirs; what a caller says of coordinate systems is not asked for."""
        super().__init__(path, _without_systems(endpoint), **options)

    def get_route_handler(self) -> Handler:
        """The route's own handler, which is asked what the caller meant."""
        handle = super().get_route_handler()

        async def draw(request: Request) -> Response:
            check_parameters(request, self._names)
            # Found once: all of an answer is about the item as it was at one moment.
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
        return frozenset(field.alias for part in _parts_of(self.dependant) for field in part.query_params)


def nothing() -> None:
    """A dependency that is not used."""


def _without_systems(endpoint: Callable[..., Any]) -> Callable[..., Any]:
    given = signature(endpoint)
    known = [
        part.replace(default=Depends(nothing)) if getattr(part.default, "dependency", None) in SYSTEMS else part
        for part in given.parameters.values()
    ]
    endpoint.__signature__ = given.replace(parameters=known)  # type: ignore[attr-defined]  # what inspect looks at first
    return endpoint


def _parts_of(dependant: Dependant) -> Iterator[Dependant]:
    yield dependant
    for part in dependant.dependencies:
        yield from _parts_of(part)


class Purpose(DefaultDependency):
    """What a raster is opened for."""

    def __init__(self, request: Request) -> None:
        """It is drawn, or its values are wanted."""
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
    """The tiles apply the hints themselves: their address stays short, and true when the item changes."""
    hints = await _hints(request) if request.query_params.get("tile_format") in IMAGES else None
    version = rasters_of_request(request).version
    return query + _missing(query, [(CHECKSUM, version), *_asset(hints)])


async def _stretch(request: Request, query: Query) -> Query:
    """What the values are drawn between, where neither caller nor hints say; colors by value need none."""
    named = dict(query)
    if {"rescale", "colormap"} & named.keys():
        return []
    assets: Assets = request.app.state.assets
    rasters, item = rasters_of_request(request), request.path_params["item_id"]
    asset = named.get("asset") or next(iter(rasters.addresses), "")
    if asset not in rasters.addresses:
        return []  # which the route tells
    wanted = _wanted(rasters.addresses[asset], query)
    if wanted is None:
        return []  # as above
    stretches: Stretches = request.app.state.stretches
    told = ranges_of(rasters.assets[asset])
    found = await stretches.find(wanted, told, lambda: assets.locate(rasters, item, asset))
    return [("rescale", f"{low!r},{high!r}") for low, high in found]


def _wanted(address: str, query: Query) -> Wanted | None:
    """What is to be measured; None: the caller wrote something that the route refuses."""
    bands, nodata = [value for name, value in query if name == "bidx"], dict(query).get("nodata")
    if len(bands) > MOST_BANDS:
        return None
    try:
        float(0 if nodata is None else nodata)
        return Wanted(address, tuple(map(int, bands)), nodata)
    except ValueError:
        return None


def _missing(query: Query, more: Query) -> Query:
    named = {name for name, _ in query}
    return [(name, value) for name, value in more if name not in named]


def _asset(hints: Hints | None) -> Query:
    return [("asset", hints.assets[0])] if hints and hints.assets else []


async def _hints(request: Request) -> Hints | None:
    if CHOICES & request.query_params.keys():
        return None
    rasters = rasters_of_request(request)
    hints = hints_of(rasters.renders, request.path_params["item_id"])
    if hints is None or not rasters.addresses:
        return None
    meant = hints.assets[0] if hints.assets else next(iter(rasters.addresses))
    # Hints for one raster say nothing of another.
    return hints if meant in rasters.addresses and request.query_params.get("asset", meant) == meant else None


def rasters_of_request(request: Request) -> Rasters:
    """The rasters of the item that a request is about."""
    found: Rasters = request.scope[RASTERS]
    return found


async def _find(request: Request) -> Rasters:
    assets: Assets = request.app.state.assets
    return await assets.find(request.path_params["collection_id"], request.path_params["item_id"])


def _cache_control(request: Request, version: str) -> str:
    """What an address with the checksum stands for never changes; all else may, when the item is published again."""
    who = "private" if request.scope["state"]["keyed"] else "public"
    for_good = request.query_params.get(CHECKSUM) == version and request.scope["route"].name != "tilejson"
    return f"{who}, max-age={YEAR_SECONDS}, immutable" if for_good else f"{who}, max-age={FRESH_SECONDS}"
