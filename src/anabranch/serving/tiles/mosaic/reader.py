"""Reads a mosaic as if it were one GeoTIFF: each request opens only the tiles that it touches."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
from affine import Affine
from rasterio._err import CPLE_BaseError  # rasterio raises it where GDAL fails; it has no public name
from rasterio.crs import CRS
from rasterio.errors import RasterioError
from rasterio.warp import transform, transform_bounds
from rio_tiler.constants import WGS84_CRS
from rio_tiler.models import ImageData, PointData
from rio_tiler.utils import get_vrt_transform

from anabranch.contract.mosaic import MosaicTile
from anabranch.errors import InputError
from anabranch.serving.tiles.antimeridian import turn_of
from anabranch.serving.tiles.geotiff import GeoTiff, open_geotiff
from anabranch.serving.tiles.mosaic.sources import MosaicSource
from anabranch.serving.tiles.mosaic.vrt import Part, compose

__all__ = ["MosaicReader", "open_mosaic", "open_reader"]

EDGE_POINTS = 21
# What the kernels of resampling read around a request, and how far its edges bend between the transformed points.
MARGIN_PIXELS, MARGIN_SHARE = 8, 0.02

Span = tuple[float, float, float, float]  # left, top, right and bottom, in pixels of the grid


def open_reader(source: Any, **options: Any) -> GeoTiff:  # a Path, Remote or MosaicSource; options of rio-tiler
    """A reader of a raster, in one file or in tiles."""
    return open_mosaic(source, **options) if isinstance(source, MosaicSource) else GeoTiff(source, **options)


def open_mosaic(source: Any, **options: Any) -> "MosaicReader":  # as above
    """A reader of a mosaic."""
    return MosaicReader(source, **options)


class MosaicReader(GeoTiff):
    """A reader of tiles that are one raster."""

    input: MosaicSource

    def open_dataset(self) -> Any:  # rasterio's, which has no types
        """The whole raster without its tiles: all of its metadata, and the overviews of the whole."""
        document = self.input.document
        self._overview = self._ctx_stack.enter_context(open_geotiff(self.input.locate(document.overview)))
        return self._ctx_stack.enter_context(compose(document.grid, self._overview, ()))

    def read(self, indexes: Any = None, expression: Any = None, **options: Any) -> ImageData:  # as in rio-tiler
        """The whole raster, from the overview or from all of its tiles."""
        grid, (height, width) = self.input.document.grid, self._size(options)
        sized = {**options, "height": height, "width": width, "max_size": None}
        with self._reading((0, 0, grid.width, grid.height), min(grid.width / width, grid.height / height)):
            return super().read(indexes, expression, **sized)

    def part(self, bbox: Any, *, height: int, width: int, indexes: Any = None, **options: Any) -> ImageData:  # type: ignore[override]  # as its parent
        """A tile of the map, from the overview or from the tiles that it touches."""
        target: CRS = options["dst_crs"]
        _, native_width, native_height = get_vrt_transform(self.dataset, bbox, height, width, dst_crs=target)
        with self._reading(
            self._find_span(bbox, target, options), min(native_width / width, native_height / height)
        ) as factor:
            placed = _scale_placement(options, factor)
            return super().part(bbox, height=height, width=width, indexes=indexes, **placed)

    def point(self, lon: float, lat: float, coord_crs: CRS = WGS84_CRS, **options: Any) -> PointData:  # type: ignore[override]  # as its parent
        """The values at a point, from the tile that it is in."""
        (x,), (y,) = transform(coord_crs, self.crs, [lon], [lat])
        turn = turn_of(self.crs, self.bounds)
        near = [x + east for east in (0.0, turn, -turn) if self.bounds[0] < x + east < self.bounds[2]]
        column, row = ~self.dataset.transform * (near[0] if near else x, y)
        with self._reading((column - 1, row - 1, column + 1, row + 1), 1.0):
            return super().point(lon, lat, coord_crs, **options)

    @contextmanager
    def _reading(self, span: Span | None, ratio: float) -> Iterator[int]:
        """Put in place what a request reads, where one of its pixels is `ratio` of the raster's; its factor."""
        grid, kept = self.input.document.grid, self.dataset
        with ExitStack() as stack:
            if ratio >= grid.factor:
                self.dataset, factor = self._overview, grid.factor
            else:
                parts = [
                    Part(stack.enter_context(open_geotiff(self.input.locate(tile))), tile.window)
                    for tile in self._find_tiles(span, ratio)
                ]
                self.dataset, factor = stack.enter_context(compose(grid, self._overview, parts)), 1
            try:
                yield factor
            finally:
                self.dataset = kept

    def _find_tiles(self, span: Span | None, ratio: float) -> Sequence[MosaicTile]:
        tiles = self.input.document.tiles
        found = [tile for tile in tiles if span is None or _touches(tile, span, MARGIN_PIXELS * max(1.0, ratio))]
        if len(found) > self.max_files:
            raise InputError(
                "raster.assets",
                f"the request needs {len(found)} tiles of the mosaic, and the limit is {self.max_files}",
                remedy="Request a smaller area, or fewer pixels: then the overview of the mosaic is read.",
            )
        self.opened_files += len(found)
        return found

    def _find_span(self, bbox: Span, target: CRS, options: Mapping[str, Any]) -> Span | None:
        """The part of the grid that a box is made from; None where it can't be computed."""
        place = (options.get("vrt_options") or {}).get("src_transform", self.dataset.transform)
        try:
            box = transform_bounds(target, self.crs, *bbox, densify_pts=EDGE_POINTS)
        except (RasterioError, CPLE_BaseError):  # a part of it has no place there
            return None
        if not np.isfinite(box).all() or box[0] > box[2]:  # it crosses 180 degrees
            return None
        (left, top), (right, bottom) = ~place * (box[0], box[3]), ~place * (box[2], box[1])
        across, down = MARGIN_SHARE * (right - left), MARGIN_SHARE * (bottom - top)
        return left - across, top - down, right + across, bottom + down


def _touches(tile: MosaicTile, span: Span, margin: float) -> bool:
    at, (left, top, right, bottom) = tile.window, span
    across = at.column - margin < right and at.column + at.width + margin > left
    return across and at.row - margin < bottom and at.row + at.height + margin > top


def _scale_placement(options: Mapping[str, Any], factor: int) -> Mapping[str, Any]:
    """The options with the placement of a raster past 180 degrees, for pixels that are larger by a factor."""
    placed = options.get("vrt_options")
    if not placed or factor == 1:
        return options
    return {**options, "vrt_options": {**placed, "src_transform": placed["src_transform"] * Affine.scale(factor)}}
