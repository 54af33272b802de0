"""Draws an item by its render hints or its statistics, where the caller gives no options; values never change."""

from typing import Annotated

from fastapi import Query as QueryParameter
from fastapi import Request
from titiler.core.dependencies import DefaultDependency

from anabranch.serving.caller import platform_of
from anabranch.serving.tiles.assets import Assets, Rasters
from anabranch.serving.tiles.render_hints import STYLE_PARAMETERS, RenderHints, hints_of
from anabranch.serving.tiles.rescale import RescaleRanges, ranges_of, wanted_of
from anabranch.serving.tiles.tagged_route import CHECKSUM, Query, TaggedRoute, add_missing, is_drawn

__all__ = ["AssetName", "DrawnRoute", "Purpose", "assets_of", "rasters_of_request"]

AssetName = Annotated[
    str | None,
    QueryParameter(description="A GeoTIFF or mosaic of the item; by default the first with the role data."),
]


class DrawnRoute(TaggedRoute):
    """A route that applies an item's render hints."""

    subject_key = "anabranch.rasters"

    async def find(self, request: Request) -> Rasters:
        """The rasters of the item."""
        return await assets_of(request).find(request.path_params["collection_id"], request.path_params["item_id"])

    async def complete(self, request: Request) -> Query:
        """The query with hints and a range, where they are missing."""
        query, hints = request.query_params.multi_items(), _hints(request)
        if request.scope["route"].name == "tilejson":
            # The tiles apply the hints themselves: their URL stays short, and valid when the item changes.
            asset = hints.asset() if hints else []
            return add_missing(query, [(CHECKSUM, rasters_of_request(request).version), *asset])
        if not is_drawn(request):
            return query
        hinted = add_missing(query, [*hints.asset(), *hints.queries()]) if hints else query
        return hinted + await _stretch(request, hinted)


class Purpose(DefaultDependency):
    """Why a raster is opened."""

    def __init__(self, request: Request) -> None:
        """Either to draw it, or to return its values."""
        self.draws = is_drawn(request) and request.scope["route"].name != "tilejson"


async def _stretch(request: Request, query: Query) -> Query:
    """The range to draw values in, where neither caller nor hints give one; a colormap by value needs none."""
    named = dict(query)
    if {"rescale", "colormap"} & named.keys():
        return []
    assets = assets_of(request)
    rasters, item = rasters_of_request(request), request.path_params["item_id"]
    asset = named.get("asset") or next(iter(rasters.addresses), "")
    if asset not in rasters.addresses:
        return []  # the route reports it
    wanted = wanted_of(rasters.addresses[asset], query, rasters.pins.get(asset))
    if wanted is None:
        return []  # likewise
    stretches: RescaleRanges = request.app.state.stretches
    declared = ranges_of(rasters.assets[asset])
    found = await stretches.find(wanted, declared, lambda: assets.locate(rasters, item, asset))
    return [("rescale", f"{low!r},{high!r}") for low, high in found]


def _hints(request: Request) -> RenderHints | None:
    if STYLE_PARAMETERS & request.query_params.keys() or not is_drawn(request):
        return None
    return hints_of(rasters_of_request(request), request.path_params["item_id"], request.query_params.get("asset"))


def assets_of(request: Request) -> Assets:
    """The rasters that the caller may see."""
    assets: Assets = request.app.state.assets
    return assets.seen_by(platform_of(request))


def rasters_of_request(request: Request) -> Rasters:
    """The rasters of the item that a request is about."""
    found: Rasters = request.scope[DrawnRoute.subject_key]
    return found
