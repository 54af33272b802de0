"""A raster as its COG shall be: mended, warped, cut to a window; read piece by piece in bounded memory."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from affine import Affine
from rasterio._err import CPLE_BaseError  # what rasterio raises bare where GDAL fails; it has no public name
from rasterio.crs import CRS
from rasterio.errors import RasterioError
from rasterio.io import DatasetReader
from rasterio.transform import from_origin
from rasterio.vrt import WarpedVRT
from rasterio.windows import Window

from anabranch.errors import Permanent
from anabranch.plugins.raster.bands import mask_kind
from anabranch.plugins.raster.codecs import say
from anabranch.plugins.raster.crs import parse_crs
from anabranch.plugins.raster.georef import check_grid, upright
from anabranch.plugins.raster.models import CogOptions
from anabranch.plugins.raster.pixels import Array, Mask, read_window
from anabranch.plugins.raster.profiles import Profile, profile_of
from anabranch.plugins.raster.reader import open_raster

__all__ = ["View", "count_pixels", "open_view"]

WARP_SHARE = 8


@dataclass(frozen=True)
class View:
    """What the COG shall show, over the file that it comes from."""

    src: DatasetReader
    grid: DatasetReader  # the source itself, or a warped view of it
    options: CogOptions
    profile: Profile
    crs: CRS
    transform: Affine
    part: Window
    nodata: float | None
    masked: bool  # whether a mask of its own says which pixels are valid

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
        """The bands, without one that warping adds for the mask."""
        return int(self.src.count)

    @property
    def warped(self) -> bool:
        """Whether values are resampled."""
        return self.grid is not self.src

    @property
    def as_it_is(self) -> bool:
        """Whether the file itself can be copied."""
        whole = self.options.window is None and not self.warped and not self.options.mends.any
        same = str(self.nodata) == str(self.src.nodata) and self.masked == (mask_kind(self.src) == "mask")
        return whole and same

    def read(self, window: Window, bands: list[int] | None = None) -> Array:
        """Pixels of a window of this view."""
        return self._turn(read_window(self.grid, self._place(window), bands or list(range(1, self.count + 1))))

    def read_both(self, window: Window) -> tuple[Array, Mask | None]:
        """Pixels, and which are valid where a mask says so; a warped piece is computed once for both."""
        if not self.masked:
            return self.read(window), None
        if not (self.warped and self.grid.count > self.count):
            return self.read(window), self.read_mask(window)
        every = read_window(self.grid, self._place(window))
        return every[: self.count], every[self.count] > 0

    def read_mask(self, window: Window) -> Mask:
        """Which pixels of a window are valid in any band."""
        place = self._place(window)
        if self.options.mends.nodata == "drop":
            return np.ones((place.height, place.width), bool)
        if self.warped and self.grid.count > self.count:
            return np.asarray(read_window(self.grid, place, [self.grid.count])[0] > 0)
        return self._turn(np.asarray(self.grid.dataset_mask(window=place)) > 0)

    def _place(self, window: Window) -> Window:
        column, row = self.part.col_off + window.col_off, self.part.row_off + window.row_off
        if self.options.mends.flip_columns and not self.warped:
            column = self.src.width - column - window.width
        if self.options.mends.flip_rows and not self.warped:
            row = self.src.height - row - window.height
        return Window(column, row, window.width, window.height)

    def _turn(self, array: Array) -> Array:
        if self.warped:
            return array
        array = array[..., ::-1, :] if self.options.mends.flip_rows else array
        return array[..., ::-1] if self.options.mends.flip_columns else array


@contextmanager
def open_view(source: Path, options: CogOptions) -> Iterator[View]:
    """Open a source as its COG shall be."""
    with ExitStack() as stack:
        src = stack.enter_context(open_raster(source))
        profile = profile_of(options.kind, options.tier, src.dtypes[0], discrete=options.discrete)
        crs = parse_crs(options.mends.crs, "input_crs") if options.mends.crs else src.crs
        target = parse_crs(options.target_crs, "target_crs") if options.target_crs else crs
        nodata, masked = _validity(src, options, profile, warps=_warps(src, crs, target, options))
        grid = src
        if _warps(src, crs, target, options):
            grid = stack.enter_context(_warp(src, options, profile, crs, target, nodata, masked=masked))
        yield _cut(src, grid, options, profile, target, nodata, masked=masked)


def count_pixels(source: Path, options: CogOptions) -> int:
    """The pixels that the COG will have; none is read."""
    with open_view(source, options) as view:
        return view.width * view.height


def _cut(
    src: DatasetReader,
    grid: DatasetReader,
    options: CogOptions,
    profile: Profile,
    crs: CRS,
    nodata: float | None,
    *,
    masked: bool,
) -> View:
    whole = grid.transform if grid is not src else upright(src, options.mends)
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
    return View(src, grid, options, profile, crs, transform, part, nodata, masked)


def _warps(src: DatasetReader, crs: CRS, target: CRS, options: CogOptions) -> bool:
    if options.target_crs is None:
        return False
    return target != crs or options.resolution is not None or bool(check_grid(src, warped=False).mistakes)


def _validity(src: DatasetReader, options: CogOptions, profile: Profile, *, warps: bool) -> tuple[float | None, bool]:
    """The nodata value of the COG, and whether it has a mask."""
    kind = mask_kind(src)
    nodata = {"keep": src.nodata, "drop": None, "nan": float("nan")}[options.mends.nodata]
    if profile.lossy and nodata is not None:
        return None, True  # a lossy value is not exactly the nodata value any more
    if kind in ("mask", "alpha") or nodata is not None or not warps:
        return nodata, kind == "mask"
    # The corners of a warped raster have no data, and something must say so.
    return (float("nan"), False) if np.dtype(src.dtypes[0]).kind == "f" else (None, True)


def _warp(
    src: DatasetReader,
    options: CogOptions,
    profile: Profile,
    crs: CRS,
    target: CRS,
    nodata: float | None,
    *,
    masked: bool,
) -> WarpedVRT:
    asked = {
        "crs": target,
        "src_crs": crs,
        "resampling": profile.reprojection,
        "add_alpha": masked and mask_kind(src) != "alpha",
        "warp_mem_limit": max(16, options.memory_mb // WARP_SHARE),
        "NUM_THREADS": options.threads or "ALL_CPUS",
    }
    if nodata is not None:
        asked["nodata"] = nodata
    if options.mends.nodata == "keep" and src.nodata is not None:
        asked["src_nodata"] = src.nodata
    try:
        grid = WarpedVRT(src, **asked)
        if options.resolution is None:
            return grid
        with grid:
            size = _sized(grid, options.resolution)
        return WarpedVRT(src, **asked, **size)
    except (RasterioError, CPLE_BaseError) as error:
        raise Permanent(
            f"the raster can't be brought into {options.target_crs}: {say(error)}",
            code="raster.reprojection",
            remedy="Choose a `target_crs` that covers where the raster is.",
        ) from error


def _sized(grid: WarpedVRT, resolution: float) -> dict[str, object]:
    left, bottom, right, top = grid.bounds
    width, height = max(1, round((right - left) / resolution)), max(1, round((top - bottom) / resolution))
    return {"transform": from_origin(left, top, resolution, resolution), "width": width, "height": height}
