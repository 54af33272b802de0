"""Pixels in pieces of bounded size: windows along blocks, valid pixels, and statistics that can be merged."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rasterio.enums import ColorInterp, MaskFlags
from rasterio.errors import RasterioError
from rasterio.io import DatasetReader
from rasterio.windows import Window, intersect

from anabranch.errors import Permanent
from anabranch.plugins.raster.files.codecs import gdal_message, missing_codec
from anabranch.plugins.raster.files.reader import quiet
from anabranch.plugins.raster.models import Statistics

__all__ = [
    "Array",
    "Mask",
    "Totals",
    "alpha_band",
    "data_bands",
    "is_unstored",
    "read_mask",
    "read_valid",
    "read_window",
    "spread",
    "windows",
]

Array = NDArray[Any]  # of the raster's own dtype
Mask = NDArray[np.bool_]


def windows(src: DatasetReader, budget: int, part: Window | None = None) -> Iterator[Window]:
    """Windows of whole blocks that cover the raster, or a part of it, each of at most about this many bytes."""
    rows, columns = src.block_shapes[0]
    pixel = max(1, sum(np.dtype(name).itemsize + 1 for name in src.dtypes))
    width = src.width
    if rows * width * pixel > budget:
        width = max(columns, budget // (rows * pixel) // columns * columns)
    height = max(rows, budget // (width * pixel) // rows * rows)
    for row in range(0, src.height, height):
        for column in range(0, src.width, width):
            window = Window(column, row, min(width, src.width - column), min(height, src.height - row))
            if part is None or intersect(window, part):
                yield window


def spread(src: DatasetReader, count: int, side: int) -> list[Window]:
    """Up to `count` windows along blocks, spread evenly over the raster; always the same ones."""
    rows, columns = (max(1, side // part) * part for part in src.block_shapes[0])
    rows, columns = min(rows, 4 * side), min(columns, 4 * side)
    across, down = -(-src.width // columns), -(-src.height // rows)
    total = across * down
    chosen = sorted({number * total // count for number in range(count)}) if total > count else range(total)
    # A prime stride over the chosen ones keeps them from lining up in a few columns.
    places = sorted({(number * 7919) % total if total > count else number for number in chosen})
    return [_at(src, place % across * columns, place // across * rows, columns, rows) for place in places]


def _at(src: DatasetReader, column: int, row: int, width: int, height: int) -> Window:
    return Window(column, row, min(width, src.width - column), min(height, src.height - row))


def is_unstored(src: DatasetReader, window: Window) -> bool:
    """Whether a sparse TIFF stores no block of a window, all of which is nodata then; nothing is read."""
    if src.driver != "GTiff" or src.nodata is None:
        return False
    rows, columns = src.block_shapes[0]
    last = src.count if src.interleaving and src.interleaving.name != "pixel" else 1
    return not any(
        src.get_tag_item(f"BLOCK_OFFSET_{x}_{y}", "TIFF", bidx=band)
        for y in range(int(window.row_off) // rows, -(-int(window.row_off + window.height) // rows))
        for x in range(int(window.col_off) // columns, -(-int(window.col_off + window.width) // columns))
        for band in range(1, last + 1)
    )


def data_bands(src: DatasetReader) -> list[int]:
    """The bands that are not alpha."""
    return [band for band, colour in enumerate(src.colorinterp, 1) if colour != ColorInterp.alpha] or [1]


def alpha_band(src: DatasetReader) -> int | None:
    """The alpha band, if there is one."""
    return next((band for band, colour in enumerate(src.colorinterp, 1) if colour == ColorInterp.alpha), None)


def read_mask(src: DatasetReader, window: Window | None = None, shape: tuple[int, int] | None = None) -> Mask:
    """Which pixels are valid in any band."""
    if (alpha := _unmasked_alpha(src)) is None:
        return np.asarray(src.dataset_mask(window=window, out_shape=shape)) > 0
    bands = data_bands(src)
    with quiet():
        masks = src.read_masks(bands, window=window, out_shape=shape and (len(bands), *shape))
    return np.asarray(masks.any(axis=0) & (src.read(alpha, window=window, out_shape=shape) > 0))


def _unmasked_alpha(src: DatasetReader) -> int | None:
    """The alpha band where GDAL's masks ignore it: they use that of two or four bands of unsigned integers only."""
    return None if MaskFlags.alpha in src.mask_flag_enums[0] else alpha_band(src)


def read_window(
    src: DatasetReader, window: Window, bands: list[int] | None = None, shape: tuple[int, int] | None = None
) -> Array:
    """Pixels, resampled where a shape is given; an error that names the position where they can't be read."""
    smaller = None if shape is None else (len(bands or src.indexes), *shape)
    try:
        return np.asarray(src.read(bands, window=window, out_shape=smaller))
    except (RasterioError, OSError, ValueError) as error:
        raise _damaged(src, window, error) from error


def read_valid(src: DatasetReader, window: Window, bands: list[int]) -> tuple[Array, Mask]:
    """Pixels and their validity, band by band."""
    data = read_window(src, window, bands)
    try:
        with quiet():
            valid = np.asarray(src.read_masks(bands, window=window)) > 0
        if (alpha := _unmasked_alpha(src)) is not None:
            valid &= src.read(alpha, window=window) > 0
    except (RasterioError, OSError, ValueError) as error:
        raise _damaged(src, window, error) from error
    if data.dtype.kind == "f":
        valid &= ~np.isnan(data)
    return data, valid


@dataclass
class Totals:
    """Running statistics, merged window by window around the mean, so that sums stay small."""

    pixels: int = 0
    valid: int = 0
    minimum: float = np.inf
    maximum: float = -np.inf
    mean: float = 0.0
    squares: float = field(default=0.0, repr=False)

    def add(self, data: Array, valid: Mask) -> None:
        """Add one window of one band."""
        self.pixels += valid.size
        values = data if valid.all() else data[valid]
        if not values.size:
            return
        low, high = float(values.min()), float(values.max())
        self.minimum, self.maximum = min(self.minimum, low), max(self.maximum, high)
        if np.isfinite(low) and np.isfinite(high):
            with np.errstate(over="ignore", invalid="ignore"):
                self._merge(values.size, float(values.mean(dtype=np.float64)), float(values.var(dtype=np.float64)))

    def _merge(self, count: int, mean: float, variance: float) -> None:
        total = self.valid + count
        apart = mean - self.mean
        self.squares += variance * count + apart * apart * self.valid * count / total
        self.mean += apart * count / total
        self.valid = total

    def statistics(self, *, exact: bool) -> Statistics | None:
        """The statistics; None where no pixel is valid."""
        if not self.valid or not np.isfinite([self.minimum, self.maximum, self.mean, self.squares]).all():
            return None
        return Statistics(
            minimum=self.minimum,
            maximum=self.maximum,
            mean=self.mean,
            stddev=float(np.sqrt(max(0.0, self.squares) / self.valid)),
            valid_percent=100.0 * self.valid / self.pixels,
            exact=exact,
        )


def _damaged(src: DatasetReader, window: Window, error: Exception) -> Permanent:
    path, place = Path(src.name), f"column {window.col_off:,}, row {window.row_off:,}"
    return missing_codec(path, path.name) or Permanent(
        f"pixels at {place} can't be read; the file is damaged or truncated: {gdal_message(error)}",
        code="raster.unreadable",
        remedy="Upload the file again; compare its size and checksum with the original.",
    )
