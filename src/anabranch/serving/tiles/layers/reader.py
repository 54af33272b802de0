"""Reads the rasters of a layer as if they were one: the newest that has something at a pixel is what is seen there."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self, TypeVar

import numpy as np
import structlog
from morecantile import Tile, TileMatrixSet
from rasterio.crs import CRS
from rio_tiler.constants import WEB_MERCATOR_TMS, WGS84_CRS
from rio_tiler.errors import PointOutsideBounds, TileOutsideBounds
from rio_tiler.models import ImageData, PointData

from anabranch.errors import Gone, InputError
from anabranch.geo.boxes import Box
from anabranch.serving.objects import Remote
from anabranch.serving.tiles.colormap import apply_colormap
from anabranch.serving.tiles.geotiff import GeoTiff
from anabranch.serving.tiles.layers.budget import Budget
from anabranch.serving.tiles.layers.items import LayerItem
from anabranch.serving.tiles.mosaic.reader import open_reader
from anabranch.serving.tiles.mosaic.sources import MosaicSource
from anabranch.serving.tiles.stacking import find_empty, lay_under

__all__ = ["LayerReader", "LayerSource"]

log = structlog.get_logger()

Data = TypeVar("Data", ImageData, PointData)


@dataclass(frozen=True)
class LayerSource:
    """What one request reads of a layer."""

    items: Sequence[LayerItem]  # the newest first
    locate: Callable[[LayerItem], Path | Remote | MosaicSource]
    bounds: Box
    is_small: bool  # the layer has no more items than one request may draw
    budget: Budget
    fits: Callable[[TileMatrixSet, Tile], bool]  # whether one request may draw the items of a tile


@dataclass(frozen=True)
class Extent:
    """Where a raster is, and the zooms at which it is drawn."""

    bounds: Box
    minzoom: int
    maxzoom: int


class LayerReader:
    """A reader with what titiler calls of one."""

    def __init__(
        self, source: LayerSource, tms: TileMatrixSet = WEB_MERCATOR_TMS, *, draws: bool = False, is_plain: bool = False
    ) -> None:
        """Nothing is open; `is_plain` draws without a range or colors: bytes as they are, and palettes of rasters."""
        self.input = source
        self.tms = tms
        self.draws = draws
        self.is_plain = is_plain

    def __enter__(self) -> Self:
        """Nothing is open between two items."""
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is left to close."""

    def tile(
        self, tile_x: int, tile_y: int, tile_z: int, *, indexes: Any = None, **options: Any
    ) -> ImageData:  # options of rio-tiler
        """A tile, from as many items as it takes to fill it."""
        found: ImageData | None = None
        for image in self._read(lambda raster: self._draw(raster, tile_x, tile_y, tile_z, indexes, options), indexes):
            found = image if found is None else lay_under(found, image)
            if not find_empty(found).any():
                break
        if found is None:
            raise TileOutsideBounds(f"the layer has nothing in tile {tile_z}/{tile_x}/{tile_y}")
        return found

    def point(
        self, lon: float, lat: float, coord_crs: CRS, *, indexes: Any = None, **options: Any
    ) -> PointData:  # as above
        """The values of the newest item that has some at a point."""
        found: PointData | None = None
        for point in self._read(lambda raster: raster.point(lon, lat, coord_crs, indexes=indexes, **options), indexes):
            point.array = np.ma.masked_invalid(point.array)
            if not np.ma.getmaskarray(point.array).all():
                return point
            found = found or point
        if found is None:
            raise PointOutsideBounds(f"the layer has nothing at {lon},{lat}")
        return found

    def get_geographic_bounds(self, _: CRS) -> Box:
        """The bounds of the layer in degrees."""
        return self.input.bounds

    @property
    def minzoom(self) -> int:
        """0, or the lowest zoom of the newest items at which a tile does not need too many; else the highest."""
        if self.input.is_small:
            return 0
        lon, lat = self._newest[0].bounds.middle
        zooms = range(min(item.minzoom for item in self._newest), self.maxzoom)
        return next((zoom for zoom in zooms if self.input.fits(self.tms, self.tms.tile(lon, lat, zoom))), self.maxzoom)

    @property
    def maxzoom(self) -> int:
        """The highest zoom of the newest items."""
        return max(item.maxzoom for item in self._newest)

    def info(self) -> None:
        """Nothing that all of its rasters have."""

    @cached_property
    def _newest(self) -> list[Extent]:
        found, gone = [], list[Gone]()
        for item in self.input.items:
            if opened := self._try_open(item, gone):
                with opened as raster:
                    bounds = raster.get_geographic_bounds(WGS84_CRS)
                    found.append(Extent(bounds, raster.minzoom, raster.maxzoom))
        if not found:
            raise gone[0]
        return found

    def _read(self, read: Callable[[GeoTiff], Data], indexes: Sequence[int] | None) -> Iterator[Data]:
        """What each item has, the newest first, without those that can't be a part of the same picture."""
        budget, count, reasons, gone = self.input.budget, 0, list[str](), list[Gone]()
        for item in self.input.items:
            budget.check()
            if (opened := self._try_open(item, gone, max_files=budget.files)) is None:
                continue
            with opened as raster:
                if reason := self._find_misfit(raster, indexes):
                    reasons.append(f"item {item.id} of {item.collection} {reason}")
                    continue
                try:
                    data = read(raster)
                except (TileOutsideBounds, PointOutsideBounds):
                    continue
                budget.spend(raster.opened_files, data.array.size)
            count += 1
            yield data
        _report_skipped(reasons, is_empty=not count)
        if gone and not count:
            raise gone[0]

    def _try_open(self, item: LayerItem, gone: list[Gone], **options: Any) -> GeoTiff | None:
        """The raster of an item; None for a file in place that was replaced since."""
        try:
            return open_reader(self.input.locate(item), tms=self.tms, draws=self.draws, **options)
        except Gone as error:
            gone.append(error)
            log.info("layer.gone", item=item.id, collection=item.collection, reason=error.message)
            return None

    def _find_misfit(self, raster: GeoTiff, indexes: Sequence[int] | None) -> str | None:
        """Why a raster can't be a part of the same picture, or of the same values."""
        wanted = indexes or raster.drawn()
        if missing := sorted(set(wanted) - set(raster.dataset.indexes)):
            return f"has no band {missing[0]}"
        kinds = {raster.dataset.dtypes[band - 1] for band in wanted}
        if self.is_plain and kinds != {"uint8"}:
            return f"has values of type {min(kinds)}, and the layer no range to draw them in"
        return None

    def _draw(
        self, raster: GeoTiff, x: int, y: int, z: int, indexes: Any, options: dict[str, Any]
    ) -> ImageData:  # options of rio-tiler
        image = raster.tile(x, y, z, indexes=indexes, **options)
        if self.is_plain and raster.colormap and image.count == 1:
            return apply_colormap(image, raster.colormap)
        if not self.draws:
            image.alpha_mask = None  # the mask says the same, and not all items have one
        if image.array.dtype.kind == "f":
            image.array = np.ma.masked_invalid(image.array, copy=False)
        return image


def _report_skipped(reasons: Sequence[str], *, is_empty: bool) -> None:
    """Log that items are not drawn, or refuse the request if all of them are not."""
    if reasons:
        log.info("layer.skipped", items=len(reasons), reason=reasons[0])
    if reasons and is_empty:
        message = f"no raster of the layer can be drawn like this here: {reasons[0]}"
        raise InputError("raster.query", message, remedy="Choose bands that the items have, or set rescale.")
