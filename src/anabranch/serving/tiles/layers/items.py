"""Finds the items of a layer: those of one tile or point, or the newest of all."""

import copy
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from anabranch.canonical import encode
from anabranch.errors import InputError
from anabranch.geo.boxes import GLOBE, Box, unite
from anabranch.serving.etags import tag_of
from anabranch.serving.stac.pool import Catalog
from anabranch.serving.stac.search.bounds import BOUNDS
from anabranch.serving.tiles.assets import Assets, Rasters
from anabranch.serving.tiles.layers.search import LayerSearch

__all__ = ["SAMPLE_ITEMS", "Head", "LayerItem", "LayerItems", "version_of"]

MAX_ITEMS = 50  # that one request may draw
SAMPLE_ITEMS = 10  # the newest, by which a layer is drawn
FRESH_SECONDS = 5.0
MAX_CACHED_HEADS = 16


@dataclass(frozen=True)
class LayerItem:
    """An item whose rasters can be drawn."""

    collection: str
    id: str
    rasters: Rasters


@dataclass(frozen=True)
class Head:
    """The newest items of a layer, a few of them."""

    items: tuple[LayerItem, ...]
    is_small: bool  # the layer has no more items than one request may draw


class LayerItems:
    """Finds items; the newest of a layer are cached for a few seconds, since all of its tiles need them."""

    def __init__(self, catalog: Catalog, assets: Assets) -> None:
        """The cache is empty."""
        self._catalog = catalog
        self._assets = assets
        self._platform: str | None = None
        self._heads: dict[tuple[str | None, str], tuple[float, Head]] = {}

    def seen_by(self, platform: str | None) -> "LayerItems":
        """The same for a platform, which finds the items of its own collections only; None: all."""
        seen = copy.copy(self)
        seen._platform = platform
        seen._catalog, seen._assets = self._catalog.seen_by(platform), self._assets.seen_by(platform)
        return seen

    async def find(self, search: LayerSearch, area: Box) -> tuple[LayerItem, ...]:
        """The items whose geometry meets an area, the newest first; InputError where there are too many."""
        found = await self._search(search, area)
        if len(found) > MAX_ITEMS:
            raise InputError(
                "raster.assets",
                f"more than {MAX_ITEMS} items of the layer are in this area",
                remedy="Zoom in, or narrow the search by datetime, filter or ids: /raster/search takes them.",
            )
        return await self._read(found)

    async def fits(self, search: LayerSearch, area: Box) -> bool:
        """Whether one request may draw all items of an area."""
        return len(await self._search(search, area)) <= MAX_ITEMS

    async def _search(self, search: LayerSearch, area: Box) -> Sequence[dict[str, Any]]:  # STAC's own shape
        return await self._catalog.search(search.body(area, MAX_ITEMS + 1))

    async def find_head(self, search: LayerSearch) -> Head:
        """The newest items of the whole layer."""
        body = search.body(None, MAX_ITEMS + 1)
        key = self._platform, encode(body)
        at, known = self._heads.get(key, (0.0, Head((), is_small=True)))
        if time.monotonic() - at < FRESH_SECONDS:
            return known
        found = await self._catalog.search(body)
        newest = await self._read(found[:MAX_ITEMS])
        head = Head(newest[:SAMPLE_ITEMS], is_small=len(found) <= MAX_ITEMS)
        if len(self._heads) >= MAX_CACHED_HEADS:
            self._heads.clear()
        self._heads[key] = time.monotonic(), head
        return head

    async def find_bounds(self, search: LayerSearch) -> Box:
        """The extent of a collection, or the box around what a search finds; the Earth where that is too much."""
        if search.collection:
            document = await self._catalog.collection(search.collection)
            try:
                return Box.of(document["extent"]["spatial"]["bbox"][0])
            except (KeyError, IndexError, TypeError):  # other programs may write collections
                return GLOBE
        found = await self._catalog.search({**search.body(None, BOUNDS.page), "fields": {"include": ["bbox"]}})
        boxes = [Box.of(item["bbox"]) for item in found if item.get("bbox")]
        return unite(boxes) if boxes and len(found) < BOUNDS.page else GLOBE

    async def check_collection(self, search: LayerSearch) -> None:
        """NotFound where the layer is a collection that the catalog does not have."""
        if search.collection:
            await self._catalog.collection(search.collection)

    async def _read(self, documents: Sequence[dict[str, Any]]) -> tuple[LayerItem, ...]:  # STAC's own shape
        rasters = await self._assets.read(documents)
        found = zip(documents, rasters, strict=True)
        return tuple(LayerItem(each["collection"], each["id"], its) for each, its in found if its.addresses)


def version_of(*groups: Sequence[LayerItem]) -> str:
    """A hash of all that a response about these items depends on."""
    content = [[[item.collection, item.id, item.rasters.version] for item in items] for items in groups]
    return tag_of(encode(content)).strip('"')
