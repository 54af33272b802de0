"""Finds the rasters of published items, by collection, item and asset."""

import copy
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from anabranch.adapters.postgres.store.published.files import PublishedFile, StoredFile
from anabranch.canonical import encode
from anabranch.contract.mosaic import DRAWN, MOSAIC_TYPE
from anabranch.contract.published_links import address_of
from anabranch.errors import NotFound
from anabranch.serving.etags import tag_of
from anabranch.serving.objects import Objects, Remote
from anabranch.serving.published import DraftFiles, FilesByItem, Published, mark_in_place
from anabranch.serving.stac.pool import Catalog
from anabranch.serving.tiles.mosaic.sources import MosaicSource, MosaicSources

__all__ = ["Assets", "Rasters"]

GEOTIFF = "image/tiff"
RASTERS = frozenset({GEOTIFF, MOSAIC_TYPE})
OUR_FILE = re.compile(r"(silver|gold)://")
FRESH_SECONDS = 5.0
MAX_CACHED_ITEMS = 512


@dataclass(frozen=True)
class Rasters:
    """The rasters of an item that can be drawn, and the item's render hints."""

    addresses: Mapping[str, str]
    renders: object = None  # unchecked, as in the item
    assets: Mapping[str, Any] = field(default_factory=dict)  # likewise, by the same names as the addresses
    version: str = ""  # a hash of everything that a response about them depends on
    pins: Mapping[str, str] = field(default_factory=dict)  # the versions of those that lie where others write
    plain: tuple[str, ...] = ()  # assets that are not drawn
    mosaics: MosaicSources | None = None  # those of what is not published


class Assets:
    """Finds rasters, and caches them for a few seconds: a map requests many tiles of one at once."""

    def __init__(self, catalog: Catalog, published: Published, objects: Objects, *, draws_in_place: bool) -> None:
        """The cache is empty; `draws_in_place` allows rasters that lie where others write."""
        self._catalog = catalog
        self._published = published
        self._objects = objects
        self._draws_in_place = draws_in_place
        self._mosaics = MosaicSources(published, objects)
        self._platform: str | None = None
        self._known: dict[tuple[str | None, str, str], tuple[float, Rasters]] = {}

    def seen_by(self, platform: str | None) -> "Assets":
        """The same for a platform, which finds the rasters of its own collections only; None: all."""
        seen = copy.copy(self)
        seen._platform, seen._mosaics = platform, self._mosaics.seen_by(platform)
        seen._catalog, seen._published = self._catalog.seen_by(platform), self._published.seen_by(platform)
        return seen

    async def locate(self, rasters: Rasters, item: str, name: str | None) -> Path | Remote | MosaicSource:
        """Where the bytes of an asset are; without a name, those of the item's first data raster."""
        addresses = rasters.addresses
        wanted = next(iter(addresses), None) if name is None else name
        if (wanted is None and rasters.plain) or name in rasters.plain:
            raise NotFound(
                "item.no_raster",
                f"no tiles are made of {name or rasters.plain[0]} of item {item}",
                remedy="Fetch the file, or publish it with process_raster. Operators can allow tiles of files "
                "that were cataloged in place: draw_files_in_place.",
            )
        if wanted is None or wanted not in addresses:
            known = ", ".join(addresses) or "none"
            what = "raster" if name is None else f"raster {name}"
            raise NotFound("item.no_raster", f"item {item} has no {what}", remedy=f"Its rasters are: {known}.")
        if _media_type(rasters.assets[wanted]) == MOSAIC_TYPE:
            return await (rasters.mosaics or self._mosaics).load(addresses[wanted])
        return await self._objects.locate(addresses[wanted], rasters.pins.get(wanted))

    async def find(self, collection: str, item: str) -> Rasters:
        """The published rasters of an item, data first."""
        at, known = self._known.get((self._platform, collection, item), (0.0, Rasters({})))
        fresh = time.monotonic() - at < FRESH_SECONDS and await self._catalog.may_read(collection)
        if fresh and await self._shows(f"{collection}/{item}", known):
            return known
        found = await self._read_current(collection, item)
        if len(self._known) >= MAX_CACHED_ITEMS:
            self._known.clear()
        self._known[self._platform, collection, item] = time.monotonic(), found
        return found

    async def _read_current(self, collection: str, item: str) -> Rasters:
        """The rasters of an item; it is read again if it was replaced before its files were found (P5)."""
        document = await self._catalog.item(collection, item)
        while True:
            (found,) = await self.read([document])
            if found.addresses.keys() == rasters_of(document).keys():
                return found
            again = await self._catalog.item(collection, item)
            if again == document:
                return found
            document = again

    async def _shows(self, key: str, rasters: Rasters) -> bool:
        """Whether an item still shows these: what was withdrawn or replaced is not drawn from the cache (P6)."""
        files = FilesByItem(await self._published.find_all(set(rasters.addresses.values()))).find(key)
        return all(address in files for address in rasters.addresses.values())

    async def read(self, items: Sequence[Mapping[str, Any]]) -> list[Rasters]:  # STAC's own shape
        """The published rasters of each of these items of the catalog, data first."""
        addresses = {address for item in items for address in rasters_of(item).values()}
        files = FilesByItem(await self._published.find_all(addresses))
        return [self._read(item, files.find(f"{item['collection']}/{item['id']}")) for item in items]

    def read_draft(self, item: Mapping[str, Any], files: Mapping[str, StoredFile]) -> Rasters:  # as above
        """The rasters of an item that is not published, or no more, of these files; others are not opened."""
        ours = {address: file for address, file in files.items() if OUR_FILE.match(address) and file.version is None}
        return replace(_read(item, ours), mosaics=MosaicSources(DraftFiles(ours), self._objects))

    def _read(self, item: Mapping[str, Any], published: Mapping[str, PublishedFile]) -> Rasters:  # as above
        return _read(item if self._draws_in_place else mark_in_place(item, published), published)


def _read(item: Mapping[str, Any], published: Mapping[str, StoredFile]) -> Rasters:  # as above
    # Other programs may write items: only published files are opened.
    addresses = {name: address for name, address in rasters_of(item).items() if address in published}
    assets = {name: item["assets"][name] for name in addresses}
    renders = (item.get("properties") or {}).get("renders")
    files = {name: published[address] for name, address in addresses.items()}
    content = encode([addresses, [file.sha256 or file.version for file in files.values()], assets, renders])
    pins = {name: file.version for name, file in files.items() if file.version}
    plain = tuple(name for name, asset in _assets_of(item).items() if asset.get(DRAWN) is False)
    return Rasters(addresses, renders, assets, tag_of(content).strip('"'), pins, plain)


def rasters_of(item: Mapping[str, Any]) -> dict[str, str]:  # STAC's own shape
    """The addresses of an item's GeoTIFFs and mosaics by the names of their assets, data first."""
    assets = {name: asset for name, asset in _assets_of(item).items() if _is_raster(asset)}
    ordered = sorted(assets, key=lambda name: "data" not in (assets[name].get("roles") or ()))
    return {name: assets[name]["href"] for name in ordered}


def _assets_of(item: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:  # as above
    """The assets of an item that other programs may have written, without those that are no objects."""
    assets = item.get("assets")
    found = assets.items() if isinstance(assets, Mapping) else ()
    return {name: asset for name, asset in found if isinstance(asset, Mapping)}


def _is_raster(asset: Mapping[str, Any]) -> bool:  # as above
    return _media_type(asset) in RASTERS and asset.get(DRAWN) is not False and address_of(asset.get("href")) is not None


def _media_type(asset: Mapping[str, Any]) -> str:
    return str(asset.get("type", "")).partition(";")[0].strip().lower()
