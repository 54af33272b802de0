"""Compare every overview of a COG with the level above it, pixel by pixel (R4)."""

import math
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import rasterio
from rasterio.enums import Resampling
from rasterio.io import DatasetReader
from rasterio.windows import Window

from anabranch.plugins.raster.cog.class_overviews import any_of_four, most_common, read_data
from anabranch.plugins.raster.cog.target_view import View
from anabranch.plugins.raster.files.pixels import Array, Mask, windows
from anabranch.plugins.raster.files.reader import quiet

__all__ = ["check_overviews"]

WINDOW_BYTES = 512 * 1024  # a block of a level, so that those without data are passed over
# Where a side is odd, GDAL's edges fall between pixels, and a mask may end one pixel later. An overview of other data
# has far more odd values. Overviews of classes are written by us, and exact.
ODD_SHARE, ODD_ROOT_FACTOR = 0.01, 3.0
LOSSY_SLACK = 48.0  # how far lossy compression may move a value
ROUNDING = 1e-6

Level = tuple[Array, Mask]  # pixels, and which are data


@dataclass
class _Odd:
    """Pixels of an overview that can't come from the level above."""

    pixels: int = 0
    gained: int = 0
    lost: int = 0
    outside: int = 0
    example: str = field(default="")


def check_overviews(cog: Path, view: View) -> list[str]:
    """Errors of the overviews; each pixel is compared with those that it stands for, and their neighbours."""
    with ExitStack() as stack, quiet():
        full = stack.enter_context(rasterio.open(cog, driver="GTiff"))
        reduced = range(len(full.overviews(1)))
        levels = [full, *(stack.enter_context(_open(cog, level)) for level in reduced)]
        return [
            text
            for number, (upper, lower) in enumerate(pairwise(levels))
            for text in _describe(number, lower, _compare(upper, lower, view), exact=_is_exact(view))
        ]


def _open(cog: Path, level: int) -> DatasetReader:
    return rasterio.open(cog, driver="GTiff", OVERVIEW_LEVEL=level)


def _describe(number: int, lower: DatasetReader, odd: _Odd, *, exact: bool) -> list[str]:
    few = 0.0 if exact else ODD_SHARE * odd.pixels + ODD_ROOT_FACTOR * math.sqrt(odd.pixels)
    name = f"overview {number} ({lower.width} x {lower.height})"
    counts = (
        (odd.gained, 0, "pixels have data where the level above has none"),
        (odd.lost, 0, "pixels have no data where the level above has some"),
        (odd.outside, few, f"values are not like those of the level above, for example {odd.example}"),
    )
    return [f"{name}: {count:,} {text}" for count, most, text in counts if count > most]


def _compare(upper: DatasetReader, lower: DatasetReader, view: View) -> _Odd:
    odd = _Odd()
    exact = _is_exact(view)
    for band in lower.indexes:
        for window in windows(lower, WINDOW_BYTES):
            below = read_data(lower, window, band, view.nodata, masked=view.masked)
            above = _read_above(upper, window, band, view, around=0 if exact else 1)
            _count(odd, above, below, exact=exact, slack=LOSSY_SLACK if view.encoding.lossy else None)
    return odd


def _is_exact(view: View) -> bool:
    return view.encoding.overviews is Resampling.mode


def _read_above(upper: DatasetReader, window: Window, band: int, view: View, around: int) -> tuple[Array, Mask]:
    """The pixels of the level above, with a margin; pixels outside the raster are no data."""
    left, top = 2 * window.col_off - around, 2 * window.row_off - around
    right, bottom = left + 2 * (window.width + around), top + 2 * (window.height + around)
    inside = Window.from_slices((max(0, top), min(upper.height, bottom)), (max(0, left), min(upper.width, right)))
    values, valid = read_data(upper, inside, band, view.nodata, masked=view.masked)
    beyond = (max(0, -top), max(0, bottom - upper.height)), (max(0, -left), max(0, right - upper.width))
    return np.pad(values, beyond, mode="edge"), np.pad(valid, beyond)


def _count(odd: _Odd, above: Level, below: Level, *, exact: bool, slack: float | None) -> None:
    values, valid = below
    odd.pixels += values.size
    if not valid.any() and not above[1].any():
        return
    some = any_of_four(above[1]) if exact else _pool(above[1], np.logical_or)
    every = some if exact else _pool(above[1], np.logical_and)
    outside = most_common(*above) != values if exact else _is_outside(above, values, slack)
    # A mean may equal the nodata value by chance; a class can't.
    lost, wrong = ~valid & every & outside, valid & some & outside
    odd.gained += int(np.count_nonzero(valid & ~some))
    odd.lost += int(np.count_nonzero(lost))
    odd.outside += int(np.count_nonzero(wrong))
    if not odd.example and wrong.any():
        odd.example = f"{values[wrong][0]:g}"


def _is_outside(above: Level, values: Array, slack: float | None) -> Mask:
    """Whether values are outside the range of the pixels that they stand for."""
    low, high = _limits(values.dtype)
    least = _widen(_pool(_fill(above, high), np.minimum))
    most = _widen(_pool(_fill(above, low), np.maximum))
    rounding = 1.0 if values.dtype.kind in "iu" else ROUNDING * np.maximum(np.abs(least), np.abs(most))
    apart = rounding if slack is None else slack
    found = _widen(values)
    with np.errstate(invalid="ignore"):  # infinite where the level above has no data
        return np.asarray(~((found >= least - apart) & (found <= most + apart)))


def _limits(dtype: np.dtype[Any]) -> tuple[float, float]:
    if dtype.kind == "f":
        return -np.inf, np.inf
    return int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)


def _fill(above: Level, filler: float) -> Array:
    values, valid = above
    return values if valid.all() else np.where(valid, values, values.dtype.type(filler))


def _widen(values: Array) -> Array:
    """As floats, so that 1 can be subtracted; 64-bit integers lose their last digits and are compared without them."""
    return values.astype(np.float64)


def _pool(pixels: Array, how: np.ufunc) -> Array:
    """One value for each four pixels and those around them."""
    rows = how(how(pixels[:-2:2], pixels[1:-1:2]), how(pixels[2::2], pixels[3::2]))
    return np.asarray(how(how(rows[:, :-2:2], rows[:, 1:-1:2]), how(rows[:, 2::2], rows[:, 3::2])))
