"""The tiles of a mosaic as one raster, whose statistics are those of one COG of the same pixels (R2)."""

from collections import OrderedDict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import rasterio
from affine import Affine
from exactextract.raster import RasterioRasterSource
from rasterio.coords import BoundingBox

from anabranch.contract.mosaic import Window
from anabranch.errors import Permanent

if TYPE_CHECKING:
    from types import TracebackType

    from rasterio.io import DatasetReader

    from anabranch.plugins.zonal.models import MosaicTiles

__all__ = ["MosaicRaster"]

MAX_OPEN_TILES = 64


class MosaicRaster:
    """The raster that the tiles in a folder are parts of; a part without a tile has no data.

    `overview` is a COG of all of it in fewer pixels, with the same CRS and bands as its tiles.
    """

    def __init__(self, overview: Path, tiles: "MosaicTiles", folder: Path) -> None:
        grid = tiles.grid
        self.width, self.height, self.transform = grid.width, grid.height, Affine(*grid.transform)
        self.bounds = BoundingBox(*grid.bounds(Window(column=0, row=0, width=grid.width, height=grid.height)))
        self._described = rasterio.open(overview, driver="GTiff")
        self.crs, self.count = self._described.crs, self._described.count
        self._tiles, self._folder = tiles, folder
        self._opened: OrderedDict[Window, DatasetReader] = OrderedDict()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: "TracebackType | None"
    ) -> None:
        for raster in (self._described, *self._opened.values()):
            raster.close()

    def read_band(self, band: int) -> RasterioRasterSource:
        """The pixels of a band, for exactextract."""
        return _MosaicBand(self, self._described, band)

    def copy(self, band: int, column: int, row: int, pixels: "np.ma.MaskedArray[Any, Any]") -> None:
        """Copy those pixels from a column and a row on that tiles have."""
        height, width = pixels.shape
        for tile in self._tiles.windows:
            west, east = max(column, tile.column), min(column + width, tile.column + tile.width)
            north, south = max(row, tile.row), min(row + height, tile.row + tile.height)
            if west < east and north < south:
                source = RasterioRasterSource(self._open(tile), band)
                found = source.read_window(west - tile.column, north - tile.row, east - west, south - north)
                pixels[north - row : south - row, west - column : east - column] = found

    def _open(self, window: Window) -> "DatasetReader":
        """The tile of a window; those that were read last stay open, with the blocks that GDAL keeps of them."""
        if window not in self._opened:
            if len(self._opened) >= MAX_OPEN_TILES:
                self._opened.popitem(last=False)[1].close()
            tile = self._opened[window] = rasterio.open(self._folder / self._tiles.name(window), driver="GTiff")
            _check_tile(tile, self._described, window)
        self._opened.move_to_end(window)
        return self._opened[window]


def _check_tile(tile: "DatasetReader", described: "DatasetReader", window: Window) -> None:
    if tile.shape != (window.height, window.width) or tile.dtypes != described.dtypes:
        raise Permanent(
            f"the tile at column {window.column} and row {window.row} is not as its mosaic says",
            code="zonal.library",
            remedy="Verify the raster with `anabranch verify`; report a bug if it is as it was published.",
        )


class _MosaicBand(RasterioRasterSource):  # type: ignore[misc]  # exactextract has no types
    """A band of a mosaic; data type, nodata, scale and offset are those of its overview."""

    def __init__(self, mosaic: MosaicRaster, described: "DatasetReader", band: int) -> None:
        super().__init__(described, band)
        self._mosaic = mosaic
        self._dtype = np.dtype(described.dtypes[band - 1])
        if self.scaled and not self.isfloat:
            self._dtype = np.dtype(np.float64)

    def res(self) -> tuple[float, float]:
        bounds = self._mosaic.bounds
        return (bounds.right - bounds.left) / self._mosaic.width, (bounds.top - bounds.bottom) / self._mosaic.height

    def extent(self) -> tuple[float, float, float, float]:
        return tuple(self._mosaic.bounds)

    def read_window(self, x0: int, y0: int, nx: int, ny: int) -> "np.ma.MaskedArray[Any, Any]":
        pixels: np.ma.MaskedArray[Any, Any] = np.ma.array(np.zeros((ny, nx), self._dtype), mask=True)
        self._mosaic.copy(self.band_idx, x0, y0, pixels)
        return pixels
