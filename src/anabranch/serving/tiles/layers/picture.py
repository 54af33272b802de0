"""Chooses how a layer is drawn, once for all of its tiles: else two neighbours would differ."""

import asyncio
import copy
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import rasterio
from rio_tiler.utils import non_alpha_indexes

from anabranch.errors import Gone, InputError, NotFound
from anabranch.serving.tiles.assets import Assets
from anabranch.serving.tiles.drivers import CONFIG
from anabranch.serving.tiles.layers.items import LayerItem
from anabranch.serving.tiles.mosaic.reader import open_reader
from anabranch.serving.tiles.render_hints import STYLE_PARAMETERS, hints_of
from anabranch.serving.tiles.rescale import MAX_BANDS, Range, RescaleRanges, ranges_of, wanted_of
from anabranch.serving.tiles.tagged_route import Query, add_missing

__all__ = ["LayerPictures", "is_complete"]

MAX_CACHED_BANDS = 512
Found = TypeVar("Found")


@dataclass(frozen=True)
class Bands:
    """The bands of a raster: those of a picture, and all that have values."""

    drawn: tuple[int, ...]
    valued: tuple[int, ...]


class LayerPictures:
    """Chooses pictures; what a raster has is cached by address and version, whose content never changes."""

    def __init__(self, assets: Assets, stretches: RescaleRanges) -> None:
        """The cache is empty."""
        self._assets = assets
        self._stretches = stretches
        self._bands: dict[tuple[str, str | None], Bands] = {}

    def seen_by(self, assets: Assets) -> "LayerPictures":
        """The same with the rasters that a caller may see."""
        seen = copy.copy(self)
        seen._assets = assets
        return seen

    async def complete(self, query: Query, newest: Sequence[LayerItem], *, draws: bool) -> Query:
        """The query with all that decides the picture, or with the bands of the values."""
        if draws and not STYLE_PARAMETERS & dict(query).keys():
            query = add_missing(query, _find_shared_hints(newest, dict(query).get("asset")))
        sample = _select(newest, dict(query).get("asset"))
        if "bidx" not in dict(query):
            query = query + [("bidx", str(band)) for band in await self._choose_bands(sample, query, draws=draws)]
        if is_complete(query, draws=draws):
            return query
        return query + [("rescale", f"{low!r},{high!r}") for low, high in await self._merge_ranges(sample, query)]

    async def _choose_bands(self, sample: Sequence[LayerItem], query: Query, *, draws: bool) -> Sequence[int]:
        bands = await anext(_skip_gone(sample, lambda item: self._find_bands(item, dict(query).get("asset"))))
        wanted = bands.drawn if draws else bands.valued
        if len(wanted) > MAX_BANDS:
            message = f"the rasters of the layer have {len(wanted)} bands, and the limit is {MAX_BANDS}"
            raise InputError("raster.size", message, remedy="Choose bands with bidx.")
        return wanted

    async def _merge_ranges(self, sample: Sequence[LayerItem], query: Query) -> Sequence[Range]:
        """For each band the range around those of all items; none where the newest is drawn as it is."""
        found: list[Sequence[Range]] = []
        async for ranges in _skip_gone(sample, lambda item: self._find_ranges(item, query)):
            if ranges:
                found.append(ranges)
            elif not found:
                return []
        return _unite(found)

    async def _find_ranges(self, item: LayerItem, query: Query) -> Sequence[Range]:
        name = _asset_of(item, dict(query).get("asset"))
        rasters = item.rasters
        wanted = wanted_of(rasters.addresses[name], query, rasters.pins.get(name))
        declared = ranges_of(rasters.assets[name])
        if wanted is None:
            return ()  # the route reports it
        return await self._stretches.find(wanted, declared, lambda: self._assets.locate(item.rasters, item.id, name))

    async def _find_bands(self, item: LayerItem, asset: str | None) -> Bands:
        name = _asset_of(item, asset)
        key = item.rasters.addresses[name], item.rasters.pins.get(name)
        if key not in self._bands:
            source = await self._assets.locate(item.rasters, item.id, name)
            if len(self._bands) >= MAX_CACHED_BANDS:
                self._bands.clear()
            self._bands[key] = await asyncio.to_thread(_read_bands, source)
        return self._bands[key]


async def _skip_gone(
    items: Sequence[LayerItem], read: Callable[[LayerItem], Awaitable[Found]]
) -> AsyncGenerator[Found]:
    """What is read of each item, without those whose file was replaced since; Gone where that is all of them."""
    gone, count = list[Gone](), 0
    for item in items:
        try:
            found = await read(item)
        except Gone as error:
            gone.append(error)
            continue
        count += 1
        yield found
    if gone and not count:
        raise gone[0]


def is_complete(query: Query, *, draws: bool) -> bool:
    """Whether a query says all that decides the picture, or the bands of the values."""
    named = dict(query).keys()
    return "bidx" in named and (not draws or bool({"rescale", "colormap"} & named))


def _select(newest: Sequence[LayerItem], asset: str | None) -> Sequence[LayerItem]:
    """The items that have an asset; NotFound where none has."""
    if found := [item for item in newest if asset is None or asset in item.rasters.addresses]:
        return found
    message = f"none of the newest {len(newest)} items of the layer has a raster {asset}"
    raise NotFound("item.no_raster", message, remedy="Narrow the search to items that have one.")


def _asset_of(item: LayerItem, asset: str | None) -> str:
    return next(iter(item.rasters.addresses)) if asset is None else asset


def _read_bands(source: Any) -> Bands:  # a source of a reader
    with rasterio.Env(**CONFIG), open_reader(source, draws=True) as raster:
        return Bands(tuple(raster.drawn()), tuple(non_alpha_indexes(raster.dataset)))


def _find_shared_hints(newest: Sequence[LayerItem], asset: str | None) -> Query:
    """The hints of the newest item, if all have the same; each item's range is its own, so those are united."""
    found = [hints for item in newest if (hints := hints_of(item.rasters, item.id, asset))]
    ranges = [hints.rescale or [] for hints in found]
    alike = [hints.model_copy(update={"rescale": None}) for hints in found]
    if len(found) < len(newest) or any(hints != alike[0] for hints in alike) or len(set(map(len, ranges))) > 1:
        return []
    shared = found[0].model_copy(update={"rescale": _unite(ranges)})
    return [*shared.asset(), *shared.queries()]


def _unite(rasters: Sequence[Sequence[Range]]) -> list[Range]:
    """For each band the range around those of all rasters."""
    return [(min(low for low, _ in band), max(high for _, high in band)) for band in zip(*rasters, strict=True)]
