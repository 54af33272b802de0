"""Rasters of published items: where they are, by collection, item and asset."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from anabranch.canonical import encode
from anabranch.errors import NotFound
from anabranch.serving.catalog import Catalog
from anabranch.serving.etags import tag_of
from anabranch.serving.objects import Objects, Remote
from anabranch.serving.published import Published, address_of

__all__ = ["Assets", "Rasters"]

GEOTIFF = "image/tiff"
FRESH_SECONDS = 5.0
MOST_KNOWN = 512


@dataclass(frozen=True)
class Rasters:
    """What of an item can be drawn, and how it says that this is done."""

    addresses: Mapping[str, str]
    renders: object = None  # as whoever wrote the item put it
    assets: Mapping[str, Any] = field(default_factory=dict)  # the same, by the names of the addresses
    version: str = ""  # of all that an answer about them depends on


class Assets:
    """Finds rasters; a map asks for many tiles of one at once, so what was found is known for a few seconds."""

    def __init__(self, catalog: Catalog, published: Published, objects: Objects) -> None:
        """Nothing is known yet."""
        self._catalog = catalog
        self._published = published
        self._objects = objects
        self._known: dict[tuple[str, str], tuple[float, Rasters]] = {}

    async def locate(self, rasters: Rasters, item: str, name: str | None) -> Path | Remote:
        """Where the bytes are of an asset of an item, or of its first raster that is data."""
        addresses = rasters.addresses
        wanted = next(iter(addresses), None) if name is None else name
        if wanted is None or wanted not in addresses:
            known = ", ".join(addresses) or "none"
            what = "raster" if name is None else f"raster {name}"
            raise NotFound("asset.not_found", f"item {item} has no {what}", remedy=f"Its rasters are: {known}.")
        return await self._objects.locate(addresses[wanted])

    async def find(self, collection: str, item: str) -> Rasters:
        """The published rasters of an item, data first."""
        at, known = self._known.get((collection, item), (0.0, Rasters({})))
        if time.monotonic() - at < FRESH_SECONDS:
            return known
        document = await self._catalog.item(collection, item)
        addresses = rasters_of(document)
        # An item may have been written by others: only what is published is opened.
        published = await self._published.find_all(set(addresses.values()))
        addresses = {name: address for name, address in addresses.items() if address in published}
        assets = {name: document["assets"][name] for name in addresses}
        renders = (document.get("properties") or {}).get("renders")
        content = encode([addresses, [published[address].sha256 for address in addresses.values()], assets, renders])
        found = Rasters(addresses, renders, assets, tag_of(content).strip('"'))
        if len(self._known) >= MOST_KNOWN:
            self._known.clear()
        self._known[collection, item] = time.monotonic(), found
        return found


def rasters_of(item: Mapping[str, Any]) -> dict[str, str]:  # STAC's own shape
    """The addresses of an item's GeoTIFFs by the names of their assets, data first."""
    assets = {name: asset for name, asset in item["assets"].items() if _is_raster(asset)}
    ordered = sorted(assets, key=lambda name: "data" not in assets[name].get("roles", ()))
    return {name: assets[name]["href"] for name in ordered}


def _is_raster(asset: Mapping[str, Any]) -> bool:
    kind = str(asset.get("type", "")).partition(";")[0].strip().lower()
    return kind == GEOTIFF and address_of(asset.get("href")) is not None
