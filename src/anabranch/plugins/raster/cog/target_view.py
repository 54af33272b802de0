"""A raster as its COG will be: repaired, warped, clipped to a window; read piece by piece in bounded memory."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import numpy as np
from affine import Affine
from rasterio._err import CPLE_BaseError  # rasterio raises it where GDAL fails; it has no public name
from rasterio.crs import CRS
from rasterio.errors import RasterioError
from rasterio.io import DatasetReader
from rasterio.transform import array_bounds, from_origin
from rasterio.vrt import WarpedVRT
from rasterio.warp import transform_bounds
from rasterio.windows import Window

from anabranch.errors import Permanent
from anabranch.plugins.raster.checks.bands import mask_kind
from anabranch.plugins.raster.checks.crs import name_crs, parse_crs
from anabranch.plugins.raster.checks.georef import check_grid, crs_of, upright
from anabranch.plugins.raster.cog.encoding import Encoding, encoding_of
from anabranch.plugins.raster.cog.target_area import choose_grid
from anabranch.plugins.raster.files.codecs import gdal_message
from anabranch.plugins.raster.files.pixels import Array, Mask, is_unstored, read_mask, read_window
from anabranch.plugins.raster.files.reader import open_raster
from anabranch.plugins.raster.files.source import Source
from anabranch.plugins.raster.models import CogOptions, Target

__all__ = ["View", "find_target", "open_view", "source_part"]

WARP_MEMORY_DIVISOR = 8
EDGE_POINTS = 101
# What the kernel reads around a tile, and how far its edges bend between the points that are transformed.
MARGIN_PIXELS, MARGIN_SHARE = 16, 0.02


@dataclass(frozen=True)
class View:
    """The target of a COG, as a view of its source file."""

    src: DatasetReader
    grid: DatasetReader  # the source itself, or a warped view of it
    options: CogOptions
    encoding: Encoding
    crs: CRS
    transform: Affine
    part: Window
    nodata: float | None
    masked: bool  # whether a separate mask marks valid pixels

    @property
    def width(self) -> int:
        """In pixels."""
        return int(self.part.width)

    @property
    def height(self) -> int:
        """In pixels."""
        return int(self.part.height)

    @property
    def count(self) -> int:
        """The number of bands, without the one that warping adds for the mask."""
        return int(self.src.count)

    @property
    def warped(self) -> bool:
        """Whether values are resampled."""
        return self.grid is not self.src

    @property
    def as_it_is(self) -> bool:
        """Whether the source file can be copied unchanged."""
        whole = self.options.window is None and not self.warped and not self.options.repairs.any
        same = str(self.nodata) == str(self.src.nodata) and self.masked == (mask_kind(self.src) == "mask")
        return whole and same

    def read(self, window: Window, bands: list[int] | None = None) -> Array:
        """Pixels of a window of this view."""
        return self._turn(read_window(self.grid, self._place(window), bands or list(range(1, self.count + 1))))

    def read_both(self, window: Window) -> tuple[Array, Mask | None]:
        """Pixels, and their validity where there is a mask; a warped piece is computed once for both."""
        if not self.masked:
            return self.read(window), None
        if not (self.warped and self.grid.count > self.count):
            return self.read(window), self.read_mask(window)
        every = read_window(self.grid, self._place(window))
        return every[: self.count], every[self.count] > 0

    def is_unstored(self, window: Window) -> bool:
        """Whether the source is sparse, and stores nothing of a window."""
        return not self.warped and self.options.repairs.nodata == "keep" and is_unstored(self.src, self._place(window))

    def read_mask(self, window: Window) -> Mask:
        """Which pixels of a window are valid in any band."""
        place = self._place(window)
        if self.options.repairs.nodata == "drop":
            return np.ones((place.height, place.width), bool)
        if self.warped and self.grid.count > self.count:
            return np.asarray(read_window(self.grid, place, [self.grid.count])[0] > 0)
        return self._turn(read_mask(self.grid, place))

    def _place(self, window: Window) -> Window:
        column, row = self.part.col_off + window.col_off, self.part.row_off + window.row_off
        if self.options.repairs.flip_columns and not self.warped:
            column = self.src.width - column - window.width
        if self.options.repairs.flip_rows and not self.warped:
            row = self.src.height - row - window.height
        return Window(column, row, window.width, window.height)

    def _turn(self, array: Array) -> Array:
        if self.warped:
            return array
        array = array[..., ::-1, :] if self.options.repairs.flip_rows else array
        return array[..., ::-1] if self.options.repairs.flip_columns else array


@contextmanager
def open_view(source: Source, options: CogOptions) -> Iterator[View]:
    """Open a source as its COG will be."""
    with ExitStack() as stack:
        src = stack.enter_context(open_raster(source))
        encoding = encoding_of(options.kind, options.profile, src.dtypes[0], discrete=options.discrete)
        crs = parse_crs(options.repairs.crs, "input_crs") if options.repairs.crs else crs_of(src)
        target = parse_crs(options.target_crs, "target_crs") if options.target_crs else crs
        nodata, masked = _validity(src, options, encoding, warps=_warps(src, crs, target, options))
        grid = src
        if _warps(src, crs, target, options):
            grid = stack.enter_context(_warp(src, options, encoding, crs, target, nodata, masked=masked))
        yield _cut(src, grid, options, encoding, target, nodata, masked=masked)


def source_part(view: View) -> Window | None:
    """The part of the source that a window of a warped view is made from, with a margin; None for all of it."""
    if view.options.window is None or not view.warped:
        return None
    bounds = array_bounds(view.height, view.width, view.transform)
    own = parse_crs(view.options.repairs.crs, "input_crs") if view.options.repairs.crs else view.src.crs
    try:
        left, bottom, right, top = transform_bounds(view.crs, own, *bounds, densify_pts=EDGE_POINTS)
    except (RasterioError, CPLE_BaseError):  # a part of it has no place there
        return None
    if not np.isfinite([left, bottom, right, top]).all() or left >= right:  # it crosses 180 degrees
        return None
    corners = [~view.src.transform * corner for corner in ((left, bottom), (left, top), (right, bottom), (right, top))]
    columns, rows = ([corner[axis] for corner in corners] for axis in (0, 1))
    across, down = (MARGIN_PIXELS + MARGIN_SHARE * (max(ends) - min(ends)) for ends in (columns, rows))
    return Window(
        min(columns) - across, min(rows) - down, max(columns) - min(columns) + 2 * across,
        max(rows) - min(rows) + 2 * down,
    )  # fmt: skip


def find_target(source: Source, options: CogOptions) -> Target:
    """The grid of the COG; no pixel is read."""
    with open_view(source, options) as view:
        return Target(
            width=view.width,
            height=view.height,
            crs=name_crs(view.crs) or view.crs.to_wkt(),
            pixel_size=(abs(view.transform.a), abs(view.transform.e)),
        )


def _cut(
    src: DatasetReader,
    grid: DatasetReader,
    options: CogOptions,
    encoding: Encoding,
    crs: CRS,
    nodata: float | None,
    *,
    masked: bool,
) -> View:
    whole = grid.transform if grid is not src else upright(src, options.repairs)
    asked = options.window
    part = (
        Window(asked.column, asked.row, asked.width, asked.height) if asked else Window(0, 0, grid.width, grid.height)
    )
    if part.col_off + part.width > grid.width or part.row_off + part.height > grid.height:
        raise Permanent(
            f"the window ends beyond the grid of {grid.width} x {grid.height} pixels",
            code="raster.window",
            remedy="Plan the tiles again, for this source and this target_crs.",
        )
    transform = whole * Affine.translation(part.col_off, part.row_off)
    return View(src, grid, options, encoding, crs, transform, part, nodata, masked)


def _warps(src: DatasetReader, crs: CRS, target: CRS, options: CogOptions) -> bool:
    if options.target_crs is None:
        return False
    return target != crs or options.resolution is not None or bool(check_grid(src, warped=False).errors)


def _validity(src: DatasetReader, options: CogOptions, encoding: Encoding, *, warps: bool) -> tuple[float | None, bool]:
    """The nodata value of the COG, and whether it has a mask."""
    kind = mask_kind(src)
    nodata = {"keep": src.nodata, "drop": None, "nan": float("nan")}[options.repairs.nodata]
    if encoding.lossy and nodata is not None:
        return None, True  # lossy compression does not keep the nodata value exact
    if kind in ("mask", "alpha") or nodata is not None or not warps:
        return nodata, kind == "mask"
    # The corners of a warped raster have no data, and must be marked.
    return (float("nan"), False) if np.dtype(src.dtypes[0]).kind == "f" else (None, True)


def _warp(
    src: DatasetReader,
    options: CogOptions,
    encoding: Encoding,
    crs: CRS,
    target: CRS,
    nodata: float | None,
    *,
    masked: bool,
) -> WarpedVRT:
    asked = {
        "crs": target,
        "src_crs": crs,
        "resampling": encoding.reprojection,
        "add_alpha": masked and mask_kind(src) != "alpha",
        "warp_mem_limit": max(16, options.memory_mb // WARP_MEMORY_DIVISOR),
        "NUM_THREADS": options.threads or "ALL_CPUS",
    }
    if nodata is not None:
        asked["nodata"] = nodata
    if options.repairs.nodata == "keep" and src.nodata is not None:
        asked["src_nodata"] = src.nodata
    try:
        grid = WarpedVRT(src, **asked, **choose_grid(src, crs, target))
        if options.resolution is None:
            return grid
        with grid:
            size = _sized(grid, options.resolution)
        return WarpedVRT(src, **asked, **size)
    except (RasterioError, CPLE_BaseError) as error:
        raise Permanent(
            f"the raster can't be reprojected to {options.target_crs}: {gdal_message(error)}",
            code="raster.reprojection",
            remedy="Choose a `target_crs` that covers the raster.",
        ) from error


def _sized(grid: WarpedVRT, resolution: float) -> dict[str, object]:
    left, bottom, right, top = grid.bounds
    width, height = max(1, round((right - left) / resolution)), max(1, round((top - bottom) / resolution))
    return {"transform": from_origin(left, top, resolution, resolution), "width": width, "height": height}
