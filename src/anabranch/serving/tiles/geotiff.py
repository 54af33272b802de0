"""Reads GeoTIFFs anywhere on Earth, and no more values at once than can be computed."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import attr
import numpy as np
import rasterio
from affine import Affine
from rasterio._err import CPLE_BaseError  # rasterio raises it where GDAL fails; it has no public name
from rasterio.coords import BoundingBox
from rasterio.crs import CRS
from rasterio.enums import ColorInterp
from rasterio.errors import RasterioError
from rasterio.transform import array_bounds, from_bounds
from rasterio.warp import transform, transform_bounds
from rasterio.windows import Window
from rio_tiler.constants import WGS84_CRS
from rio_tiler.io import Reader
from rio_tiler.io.base import SpatialMixin
from rio_tiler.models import BandStatistics, ImageData, PointData
from rio_tiler.utils import non_alpha_indexes, output_size

from anabranch.errors import InputError
from anabranch.geo.alpha import Alpha, opaque_of, stretch_alpha
from anabranch.geo.boxes import Box
from anabranch.serving.objects import Remote
from anabranch.serving.tiles.antimeridian import moves_of, pixel_in, turn_of
from anabranch.serving.tiles.stacking import lay_under, with_alpha

__all__ = ["MAX_FILES", "GeoTiff", "open_geotiff"]

MAX_FILES = 50  # that one request may open: tiles of a mosaic, or rasters of a layer
MAX_VALUES = 2**24
MAX_BYTES = 2**26
SMALL_SHARE = 0.25
COLORS = 3
ALPHA_SAMPLE_PIXELS = 256
OPAQUE_8_BIT = 255
ASK_FOR_LESS = "Request less: choose bands with bidx, or a smaller size."


@dataclass(frozen=True)
class Cell:
    """Some of the pixels of a tile."""

    column: int
    row: int
    width: int
    height: int

    @classmethod
    def of(cls, tile: Sequence[float], height: int, width: int, bounds: Sequence[float]) -> Self | None:
        """Those that touch these bounds; None where there are none."""
        (left, bottom, right, top), (west, south, east, north) = tile, bounds
        if not all(map(math.isfinite, bounds)):
            return None
        across, down = (right - left) / width, (top - bottom) / height
        columns = max(0, math.floor((west - left) / across)), min(width, math.ceil((east - left) / across))
        rows = max(0, math.floor((top - north) / down)), min(height, math.ceil((top - south) / down))
        size = columns[1] - columns[0], rows[1] - rows[0]
        return cls(columns[0], rows[0], *size) if min(size) > 0 else None

    def bounds(self, tile: Sequence[float], height: int, width: int) -> tuple[float, float, float, float]:
        """Its bounds in a tile of this size."""
        grid = from_bounds(*tile, width, height) * Affine.translation(self.column, self.row)
        found: tuple[float, float, float, float] = array_bounds(self.height, self.width, grid)
        return found

    def place(self, image: ImageData, tile: Sequence[float], height: int, width: int) -> ImageData:
        """The whole tile, in which all else is empty."""
        rows, columns = slice(self.row, self.row + self.height), slice(self.column, self.column + self.width)
        empty = 0 if image.nodata is None else image.nodata
        array = np.ma.MaskedArray(np.full((image.count, height, width), empty, image.array.dtype), mask=True)
        array[:, rows, columns] = image.array
        alpha = None if image.alpha_mask is None else np.zeros((height, width), image.alpha_mask.dtype)
        if alpha is not None:
            alpha[rows, columns] = image.alpha_mask
        return with_alpha(attr.evolve(image, array=array, alpha_mask=None, bounds=BoundingBox(*tile)), alpha)


@attr.s
class GeoTiff(Reader):
    """A reader of one format only, whatever the file claims to be (S4)."""

    dataset: Any  # in rio-tiler it may be None before it is open
    input: Any  # a Path, a Remote, or what a subclass reads
    draws: bool = attr.ib(default=False)  # for an image, which has one band or three
    max_files: int = attr.ib(default=MAX_FILES)  # that one request may open
    opened_files: int = attr.ib(default=1, init=False)

    def __attrs_post_init__(self) -> None:
        self.dataset = self.open_dataset()
        super().__attrs_post_init__()  # type: ignore[no-untyped-call]  # of a package without types

    def open_dataset(self) -> Any:  # rasterio's, which has no types
        """The raster; it is closed with the reader."""
        return self._ctx_stack.enter_context(open_geotiff(self.input))

    def read(self, indexes: Any = None, expression: Any = None, **options: Any) -> ImageData:  # as in rio-tiler
        """The whole raster, at a size that can be computed."""
        indexes = indexes or self._choose()
        self._check(indexes, *self._size(options))
        return self._fix_mask(super().read(indexes, expression, **options))

    def part(self, bbox: Any, *, height: int, width: int, indexes: Any = None, **options: Any) -> ImageData:  # type: ignore[override]  # tiles always have a size
        """A tile of the raster, with as many bands as can be computed."""
        indexes = indexes or self._choose()
        self._check(indexes, height, width)
        cell = self._find_cell(bbox, height, width, options)
        if cell is None:
            return self._fix_mask(super().part(bbox, height=height, width=width, indexes=indexes, **options))
        bounds = cell.bounds(bbox, height, width)
        found = super().part(bounds, height=cell.height, width=cell.width, indexes=indexes, **options)
        return cell.place(self._fix_mask(found), bbox, height, width)

    def statistics(self, *, indexes: Any = None, **options: Any) -> dict[str, BandStatistics]:  # type: ignore[override]  # all our parameters are named
        """Statistics of bands, computed one band after the other."""
        bands = indexes or non_alpha_indexes(self.dataset)
        self._check(bands, *self._size(options))
        found: dict[str, BandStatistics] = {}
        for band in bands:
            found |= super().statistics(indexes=[band], **options)
        return found

    def tile(self, tile_x: int, tile_y: int, tile_z: int, **options: Any) -> ImageData:  # type: ignore[override]  # all our parameters are named
        """A tile, including the parts of the raster past 180 degrees."""
        first, *more = self._moves_into(tile_x, tile_y, tile_z) or [0.0]
        drawn = super().tile(tile_x, tile_y, tile_z, **{**options, **self._placed(first)})
        for east in more:
            drawn = lay_under(drawn, super().tile(tile_x, tile_y, tile_z, **{**options, **self._placed(east)}))
        return drawn

    def tile_exists(self, tile_x: int, tile_y: int, tile_z: int) -> bool:
        """Whether a tile intersects the raster, also past 180 degrees."""
        return bool(self._moves_into(tile_x, tile_y, tile_z))

    def point(self, lon: float, lat: float, coord_crs: CRS = WGS84_CRS, **options: Any) -> PointData:  # type: ignore[override]  # as above
        """The values at a point, whichever way its longitude is counted."""
        if coord_crs != self.crs:
            (lon,), (lat,) = transform(coord_crs, self.crs, [lon], [lat])
        turn = turn_of(self.crs, self.bounds)
        near = [lon + east for east in (0.0, turn, -turn) if self.bounds[0] < lon + east < self.bounds[2]]
        found = super().point(near[0] if near else lon, lat, self.crs, **options)
        if ColorInterp.alpha in self.dataset.colorinterp and found.pixel_location is not None:
            column, row = map(int, found.pixel_location)
            band = self.dataset.colorinterp.index(ColorInterp.alpha) + 1
            alpha = self.dataset.read(band, window=Window(column, row, 1, 1))
            found.array.mask = np.full(found.array.shape, bool((alpha == 0).all()))  # rio-tiler's: less than opaque
        return found

    def get_geographic_bounds(self, crs: CRS) -> Box:
        """The bounds in degrees; west is greater than east where they cross 180."""
        return Box(*super().get_geographic_bounds(crs)).within_globe()

    @cached_property
    def _moves(self) -> tuple[float, ...]:
        return moves_of(self.crs, self.bounds)

    @cached_property
    def _dst_geom_in_tms_crs(self) -> tuple[Affine, int, int]:
        """The grid from which zooms are computed; rio-tiler's is as wide as the world across 180 degrees."""
        crosses = self.get_geographic_bounds(WGS84_CRS).crosses or len(self._moves) > 1
        side = self._pixel() if crosses else None
        if side is None:
            theirs: tuple[Affine, int, int] = super()._dst_geom_in_tms_crs
            return theirs
        return Affine.scale(side, -side), self.dataset.width, self.dataset.height

    def _pixel(self) -> float | None:
        left, _, right, _ = self.tms.xy_bbox
        middle = self.dataset.width / 2, self.dataset.height / 2
        corners = [self.dataset.transform * (x, y) for x, y in (middle, (middle[0] + 1, middle[1] + 1))]
        return pixel_in(self.tms.rasterio_crs, corners, self.crs, right - left)

    def _moves_into(self, tile_x: int, tile_y: int, tile_z: int) -> list[float]:
        place, found = SpatialMixin(tms=self.tms), []
        left, bottom, right, top = self.bounds
        place.crs = self.crs
        for east in self._moves:
            place.bounds = (left + east, bottom, right + east, top)
            if place.tile_exists(tile_x, tile_y, tile_z):
                found.append(east)
        return found

    def _find_cell(self, bbox: Any, height: int, width: int, options: Mapping[str, Any]) -> Cell | None:  # as above
        """The part of a tile that the raster covers; None where that is much of it.

        GDAL warps all of a tile at the raster's own resolution where it reads some bands or masks of several.
        """
        grid = (options.get("vrt_options") or {}).get("src_transform", self.dataset.transform)
        bounds = array_bounds(self.dataset.height, self.dataset.width, grid)
        try:
            cell = Cell.of(bbox, height, width, transform_bounds(self.crs, options["dst_crs"], *bounds))
        except (RasterioError, CPLE_BaseError):  # it has no bounds there, around a pole
            return None
        return cell if cell and cell.width * cell.height < SMALL_SHARE * width * height else None

    def _placed(self, east: float) -> dict[str, Any]:  # options of rio-tiler
        moved = Affine.translation(east, 0) * self.dataset.transform
        return {"vrt_options": {"src_transform": moved}} if east else {}

    def drawn(self) -> Sequence[int]:
        """The bands of an image where the caller names none."""
        chosen: Sequence[int] = self._choose() or non_alpha_indexes(self.dataset)
        return chosen

    def _fix_mask(self, image: ImageData) -> ImageData:
        """Mask only fully transparent pixels: rio-tiler masks all that are not fully opaque."""
        alpha = image.alpha_mask
        if alpha is not None:
            image.array.mask = np.broadcast_to(alpha == 0, image.array.shape).copy()
            image.alpha_mask = stretch_alpha(alpha, self._opaque(alpha)) if self.draws else alpha
        # NaN and infinity are not drawn, whether the raster declares them as nodata or not.
        if self.draws and image.array.dtype.kind == "f":
            image.array = np.ma.masked_invalid(image.array, copy=False)
        return image

    def _opaque(self, alpha: Alpha) -> float:
        """The alpha of an opaque pixel, which in wide bands is often below the highest value."""
        if alpha.dtype == np.uint8 and alpha.size and alpha.max() > 1:
            return float(OPAQUE_8_BIT)
        band = self.dataset.colorinterp.index(ColorInterp.alpha) + 1
        height, width = self._size({"max_size": ALPHA_SAMPLE_PIXELS})
        return opaque_of(self.dataset.read(band, out_shape=(height, width)))

    def _choose(self) -> Sequence[int] | None:
        bands: Sequence[int] = non_alpha_indexes(self.dataset)
        if not self.draws or len(bands) in (1, COLORS):
            return None
        return bands[:COLORS] if len(bands) > COLORS else bands[:1]

    def _size(self, options: Mapping[str, Any]) -> tuple[int, int]:  # options of rio-tiler
        """The height and width at which the whole raster is read."""
        height, width = output_size(
            dataset_height=self.dataset.height,
            dataset_width=self.dataset.width,
            output_height=options.get("height"),
            output_width=options.get("width"),
            max_size=options.get("max_size"),
        )
        return height, width

    def _check(self, indexes: Any, height: int, width: int) -> None:
        count = height * width * len(indexes or self.dataset.indexes)
        if count > MAX_VALUES:
            message = f"the request needs {count} values, and the limit is {MAX_VALUES}"
            raise InputError("raster.size", message, remedy=ASK_FOR_LESS)
        size = count * max(np.dtype(kind).itemsize for kind in self.dataset.dtypes)
        if size > MAX_BYTES:
            message = f"the request needs {size} bytes, and the limit is {MAX_BYTES}"
            raise InputError("raster.size", message, remedy=ASK_FOR_LESS)


def open_geotiff(source: Any) -> Any:  # takes a Path or Remote, returns a rasterio dataset, which has no types
    """Open a file or an object as a GeoTIFF, or not at all."""
    if isinstance(source, Remote):
        return rasterio.open("object.tif", driver="GTiff", opener=lambda *_, **__: source.open())
    return rasterio.open(source, driver="GTiff")
