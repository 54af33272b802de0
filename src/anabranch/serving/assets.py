"""Rasters of published items: what GDAL opens for a collection, an item and an asset."""

import time
from collections.abc import Mapping
from typing import Any

from anabranch.engine.errors import NotFound
from anabranch.serving.catalog import Catalog
from anabranch.serving.objects import Objects
from anabranch.serving.published import Published, address_of

__all__ = ["Assets"]

GEOTIFF = "image/tiff"
FRESH_SECONDS = 5.0
MOST_KNOWN = 512


class Assets:
    """Finds rasters; a map asks for many tiles of one at once, so what was found is known for a few seconds."""

    def __init__(self, catalog: Catalog, published: Published, objects: Objects) -> None:
        """Nothing is known yet."""
        self._catalog = catalog
        self._published = published
        self._objects = objects
        self._known: dict[tuple[str, str], tuple[float, dict[str, str]]] = {}

    async def locate(self, collection: str, item: str, name: str | None) -> str:
        """What GDAL opens for an asset of an item, or for its first raster that is data."""
        rasters = await self._rasters(collection, item)
        wanted = next(iter(rasters), None) if name is None else name
        if wanted is None or wanted not in rasters:
            known = ", ".join(rasters) or "none"
            what = "raster" if name is None else f"raster {name}"
            raise NotFound("asset.not_found", f"item {item} has no {what}", remedy=f"Its rasters are: {known}.")
        return await self._objects.locate(rasters[wanted])

    async def _rasters(self, collection: str, item: str) -> dict[str, str]:
        at, known = self._known.get((collection, item), (0.0, {}))
        if time.monotonic() - at < FRESH_SECONDS:
            return known
        found = rasters_of(await self._catalog.item(collection, item))
        # An item may have been written by others: only what is published is opened.
        published = await self._published.find_all(set(found.values()))
        found = {name: address for name, address in found.items() if address in published}
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
