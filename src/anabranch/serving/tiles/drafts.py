"""Tiles, pictures and values of rasters that wait for a review, for those who decide on them (P6)."""

from pathlib import Path
from typing import Annotated

from fastapi import Path as FromPath
from fastapi import Query, Request

from anabranch.releases.drafts import Drafts
from anabranch.serving.caller import platform_of
from anabranch.serving.objects import Remote
from anabranch.serving.tiles.assets import Rasters
from anabranch.serving.tiles.drawing import AssetName, DrawnRoute, assets_of, rasters_of_request
from anabranch.serving.tiles.mosaic.sources import MosaicSource

__all__ = ["DRAFT_PREFIX", "DraftRoute", "find_draft"]

DRAFT_PREFIX = "/previews/{job_id}/items/{item_id}"


class DraftRoute(DrawnRoute):
    """A route to an item of a job in review; each request looks whether it still is."""

    async def find(self, request: Request) -> Rasters:
        """The rasters of the item, if the caller may see its job."""
        drafts: Drafts = request.app.state.drafts
        found = await drafts.find(request.path_params["job_id"], platform_of(request))
        item = found.item(request.path_params["item_id"])
        return assets_of(request).read_draft(item.document, item.files)

    def cache_control(self, request: Request, version: str) -> str:  # as its parent
        """Nobody keeps what may never be published."""
        return "private, no-cache"


async def find_draft(
    request: Request,
    job_id: Annotated[str, FromPath(description="The id of a job that waits for a review.")],  # noqa: ARG001  # as checksum
    item_id: Annotated[str, FromPath(description="The id of an item that it would publish.")],
    asset: AssetName = None,
    checksum: Annotated[str | None, Query(description="As in the tile URLs of tilejson.json.")] = None,  # noqa: ARG001  # the route reads it
) -> Path | Remote | MosaicSource:
    """Where the bytes of an asset are."""
    return await assets_of(request).locate(rasters_of_request(request), item_id, asset)
