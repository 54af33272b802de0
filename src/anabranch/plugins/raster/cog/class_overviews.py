"""Overviews of classes, by majority. Those of GDAL 3.10 lose negative nodata values."""

from pathlib import Path

import numpy as np
import rasterio
from rasterio.io import DatasetReader
from rasterio.windows import Window

from anabranch.plugins.raster.checks.bands import mask_kind
from anabranch.plugins.raster.files.pixels import Array, Mask, alpha_band, read_window
from anabranch.plugins.raster.files.reader import quiet

__all__ = ["any_of_four", "most_common", "read_data", "write_class_overviews"]

WINDOW_PIXELS = 1024


def write_class_overviews(base: Path, count: int) -> None:
    """Write a file for each overview of a raster; GDAL finds them by name."""
    level = base
    for _ in range(count):
        level = _write_half(level)


def read_data(
    raster: DatasetReader, window: Window, band: int, nodata: float | None, *, masked: bool
) -> tuple[Array, Mask]:
    """Pixels of a band, and which are valid: overviews of 64-bit integers lack a nodata value, so it is passed."""
    values = read_window(raster, window, [band])[0]
    alpha = alpha_band(raster)
    valid = np.ones(values.shape, bool)
    if masked:
        valid = np.asarray(raster.dataset_mask(window=window)) > 0
    elif band == alpha:
        return values, valid
    elif nodata is not None:
        valid = values != nodata
    elif alpha is not None:
        valid = read_window(raster, window, [alpha])[0] > 0
    return values, valid & ~np.isnan(values) if values.dtype.kind == "f" else valid


def most_common(pixels: Array, valid: Mask) -> Array:
    """The most common value of each four pixels, among valid ones; the first where several tie."""
    four, known = _fours(pixels), _fours(valid)
    votes = np.zeros(four.shape, np.int8)
    for one, counts in zip(four, known, strict=True):
        votes += (four == one) & counts
    votes[~known] = 0
    return np.asarray(np.take_along_axis(four, votes.argmax(axis=0)[None], axis=0)[0])


def any_of_four(valid: Mask) -> Mask:
    """Whether any of each four pixels is valid."""
    return np.asarray(_fours(valid).any(axis=0))


def _fours(pixels: Array) -> Array:
    """The four pixels of each block, stacked; an odd edge is repeated, and the repetition is not valid."""
    height, width = pixels.shape
    wider = ((0, height % 2), (0, width % 2))
    even = np.pad(pixels, wider) if pixels.dtype == bool else np.pad(pixels, wider, mode="edge")
    return np.stack([even[row::2, column::2] for row in (0, 1) for column in (0, 1)])


def _write_half(base: Path) -> Path:
    half = base.with_name(f"{base.name}.ovr")
    with quiet(), rasterio.open(base, driver="GTiff") as src:
        size = {"width": -(-src.width // 2), "height": -(-src.height // 2), "count": src.count}
        kept = {"dtype": src.dtypes[0], "nodata": src.nodata, "tiled": True, "bigtiff": "if_safer"}
        with rasterio.open(half, "w", driver="GTiff", **size, **kept) as out:
            out.colorinterp = src.colorinterp
            for row in range(0, out.height, WINDOW_PIXELS):
                for column in range(0, out.width, WINDOW_PIXELS):
                    _fill(src, out, column, row)
    return half


def _fill(src: DatasetReader, out: DatasetReader, column: int, row: int) -> None:
    here = Window(column, row, min(WINDOW_PIXELS, out.width - column), min(WINDOW_PIXELS, out.height - row))
    there = Window.from_slices(
        (2 * row, min(src.height, 2 * (row + here.height))), (2 * column, min(src.width, 2 * (column + here.width)))
    )
    masked = mask_kind(src) == "mask"
    for band in src.indexes:
        values, valid = read_data(src, there, band, src.nodata, masked=masked)
        out.write(most_common(values, valid), band, window=here)
        if masked and band == 1:
            out.write_mask(any_of_four(valid), window=here)
