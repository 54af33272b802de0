"""Tiles, pictures and values of an item's raster as a publication showed it, while its files are kept."""

from pathlib import Path
from typing import Annotated

from fastapi import Path as FromPath
from fastapi import Query, Request

from anabranch.access import ANONYMOUS
from anabranch.adapters.postgres.store.reads import PostgresReads
from anabranch.errors import NotFound
from anabranch.serving.caller import platform_of
from anabranch.serving.objects import Remote
from anabranch.serving.tiles.assets import Rasters
from anabranch.serving.tiles.drawing import AssetName, DrawnRoute, assets_of, rasters_of_request
from anabranch.serving.tiles.mosaic.sources import MosaicSource

__all__ = ["REVISION_PREFIX", "RevisionRoute", "find_revision"]

REVISION_PREFIX = "/collections/{collection_id}/items/{item_id}/publications/{number}"


class RevisionRoute(DrawnRoute):
    """A route to an item as one of its publications showed it."""

    async def find(self, request: Request) -> Rasters:
        """The rasters of the publication, if the caller may see its collection; not for anonymous callers."""
        reads: PostgresReads = request.app.state.reads
        collection, item = request.path_params["collection_id"], request.path_params["item_id"]
        number = request.path_params["number"]
        if request.scope["state"]["principal"] == ANONYMOUS or not _is_number(number):
            raise NotFound("publication.not_found", f"item {collection}/{item} has no publication {number[:20]}")
        document, files = await reads.seen_by(platform_of(request)).items().content(collection, item, int(number))
        return assets_of(request).read_draft(document, files)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and 0 < int(text[:11]) < 2**31


async def find_revision(
    request: Request,
    collection_id: Annotated[str, FromPath(description="The id of a collection.")],  # noqa: ARG001  # as checksum
    item_id: Annotated[str, FromPath(description="The id of an item of it.")],
    number: Annotated[int, FromPath(ge=1, lt=2**31, description="The number of a publication of the item.")],  # noqa: ARG001  # as checksum
    asset: AssetName = None,
    checksum: Annotated[str | None, Query(description="As in the tile URLs of tilejson.json.")] = None,  # noqa: ARG001  # the route reads it
) -> Path | Remote | MosaicSource:
    """Where the bytes of an asset are."""
    return await assets_of(request).locate(rasters_of_request(request), item_id, asset)
