"""Where a raster has valid pixels, on a small grid: a cell is set if any of its pixels is valid (C1)."""

import numpy as np
from affine import Affine
from rasterio.io import DatasetReader
from rasterio.windows import Window, subdivide

from anabranch.plugins.raster.files.pixels import Mask, data_bands, read_mask

__all__ = ["any_along", "edges", "read_valid_mask", "valid_cells"]

WINDOW_PIXELS = 2048
Cells = tuple[slice, slice]


def valid_cells(src: DatasetReader, side: int) -> tuple[Mask, Affine]:
    """The cells with any valid pixel, at most `side` along the longer side, and their geotransform."""
    shrink = max(1.0, max(src.width, src.height) / side)
    shape = max(1, round(src.height / shrink)), max(1, round(src.width / shrink))
    grid = src.transform * Affine.scale(src.width / shape[1], src.height / shape[0])
    cells = read_valid_mask(src, Window(0, 0, src.width, src.height), shape)
    if shape != src.shape:
        step = max(1, int(WINDOW_PIXELS / shrink))
        for part in (window.toslices() for window in subdivide(Window(0, 0, shape[1], shape[0]), step, step)):
            if not cells[part].all():  # an overview may miss areas smaller than a cell
                cells[part] |= _pool(src, shape, part)
    return cells, grid


def read_valid_mask(src: DatasetReader, window: Window, shape: tuple[int, int]) -> Mask:
    """Which pixels are valid in any band; NaN is not, whether it is declared as nodata or not."""
    valid = read_mask(src, window, shape)
    if np.dtype(src.dtypes[0]).kind == "f" and not (src.nodata is not None and np.isnan(src.nodata)):
        missing = np.ones(shape, bool)
        for band in data_bands(src):
            missing &= np.isnan(src.read(band, window=window, out_shape=shape))
        valid &= ~missing
    return valid


def _pool(src: DatasetReader, shape: tuple[int, int], part: Cells) -> Mask:
    """The cells of a part with any valid pixel, by reading every pixel that they touch."""
    rows, columns = (edges(size, cells, at) for size, cells, at in zip(src.shape, shape, part, strict=True))
    (top, bottom), (left, right) = rows[[0, -1], [0, 1]], columns[[0, -1], [0, 1]]
    size = int(bottom - top), int(right - left)
    valid = read_valid_mask(src, Window(int(left), int(top), size[1], size[0]), size)
    return any_along(any_along(valid, rows - top).T, columns - left).T


def edges(size: int, cells: int, at: slice) -> np.ndarray:
    """The first pixel of each cell along a side, and the one after its last; neighbouring cells may share a pixel."""
    numbers = np.arange(at.start, at.stop)
    return np.stack([numbers * size // cells, -(-(numbers + 1) * size // cells)], axis=1)


def any_along(valid: Mask, spans: np.ndarray) -> Mask:
    """Whether any row of each span of rows is set, column by column."""
    return np.asarray(np.logical_or.reduceat(valid, spans.ravel()[:-1], axis=0)[::2])
