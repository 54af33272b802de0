"""Copies bands of a source into a plain GeoTIFF, with all metadata and without changing a value (R3, R6)."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import rasterio
from affine import Affine
from rasterio.crs import CRS
from rasterio.enums import ColorInterp, MaskFlags
from rasterio.io import DatasetReader, DatasetWriter
from rasterio.windows import Window

from anabranch.errors import Permanent
from anabranch.plugins.raster.checks.bands import fits, palette_of
from anabranch.plugins.raster.files.pixels import read_window
from anabranch.plugins.raster.files.reader import open_raster, quiet

__all__ = ["Copy", "compare_geotiff", "write_geotiff"]

TILE_PIXELS = 512
WINDOW_BYTES = 64 * 2**20
Progress = Callable[[int, int, str], None]


@dataclass(frozen=True)
class Copy:
    """The bands that are copied, and what the copy says of them."""

    bands: tuple[int, ...]
    crs: CRS | None
    transform: Affine
    nodata: float | None
    descriptions: Sequence[str]
    units: Sequence[str]
    scales: Sequence[tuple[float, float]]
    mask: Path | None = None
    tags: dict[str, str] = field(default_factory=dict)


def write_geotiff(src: DatasetReader, copy: Copy, target: Path, progress: Progress) -> None:
    """Write the copy, tiled and not compressed: it is read soon, and removed."""
    dtypes = {src.dtypes[band - 1] for band in copy.bands}
    if len(dtypes) > 1:
        raise Permanent(
            f"the bands are of different types: {', '.join(sorted(dtypes))}",
            code="raster.dtype",
            remedy="Send each band as its own file.",
        )
    (dtype,) = dtypes
    target.parent.mkdir(parents=True, exist_ok=True)
    placed = {} if copy.transform.is_identity else {"transform": copy.transform}
    shape = {"width": src.width, "height": src.height, "count": len(copy.bands), "dtype": dtype}
    layout = {"tiled": True, "blockxsize": TILE_PIXELS, "blockysize": TILE_PIXELS, "interleave": "band"}
    nodata = copy.nodata if fits(copy.nodata, dtype) else None
    with (
        quiet(),
        rasterio.open(
            target, "w", driver="GTiff", **shape, **layout, **placed, crs=copy.crs, nodata=nodata, bigtiff="if_safer"
        ) as out,
    ):
        _describe(src, copy, out)
        for done, number in enumerate(copy.bands):
            for window in _windows(src, dtype):
                out.write(read_window(src, window, [number])[0], done + 1, window=window)
            progress(100 * (done + 1) // len(copy.bands), 100, "reading the source")
        _write_mask(src, copy, out, dtype)


def compare_geotiff(src: DatasetReader, copy: Copy, target: Path) -> None:
    """Raise where a value of the copy differs from its source."""
    with open_raster(target) as ours:
        for place, number in enumerate(copy.bands, 1):
            for window in _windows(src, ours.dtypes[0]):
                theirs, mine = (read_window(each, window, [band]) for each, band in ((src, number), (ours, place)))
                if not np.array_equal(theirs, mine, equal_nan=theirs.dtype.kind in "fc"):
                    raise Permanent(
                        f"the copy of band {number} differs from the source",
                        code="raster.verify",
                        remedy="Report it with the source file; it was not published.",
                    )


def _windows(src: DatasetReader, dtype: str) -> Iterator[Window]:
    """Windows of whole tiles over the raster, row by row, as wide as the memory allows."""
    row = TILE_PIXELS * np.dtype(dtype).itemsize
    width = min(src.width, max(TILE_PIXELS, WINDOW_BYTES // row // TILE_PIXELS * TILE_PIXELS))
    height = max(TILE_PIXELS, WINDOW_BYTES // max(1, width * np.dtype(dtype).itemsize) // TILE_PIXELS * TILE_PIXELS)
    for top in range(0, src.height, height):
        for left in range(0, src.width, width):
            yield Window(left, top, min(width, src.width - left), min(height, src.height - top))


def _describe(src: DatasetReader, copy: Copy, out: DatasetWriter) -> None:
    if copy.transform.is_identity and src.gcps[0]:
        out.gcps = src.gcps
    if palette := palette_of(src):
        out.write_colormap(1, palette)
    else:
        out.colorinterp = tuple(_colour(src.colorinterp[band - 1]) for band in copy.bands)
    out.descriptions = tuple(text or None for text in copy.descriptions)
    out.units = tuple(copy.units)
    out.scales = tuple(scale for scale, _ in copy.scales)
    out.offsets = tuple(offset for _, offset in copy.scales)
    out.update_tags(**copy.tags)


def _colour(colour: ColorInterp) -> ColorInterp:
    """That of a band; a palette without colours is none."""
    return ColorInterp.undefined if colour == ColorInterp.palette else colour


def _write_mask(src: DatasetReader, copy: Copy, out: DatasetWriter, dtype: str) -> None:
    if copy.mask is not None:
        with open_raster(copy.mask) as mask:
            for window in _windows(src, dtype):
                out.write_mask(read_window(mask, window, [1])[0] > 0, window=window)
    elif src.mask_flag_enums[copy.bands[0] - 1] == [MaskFlags.per_dataset]:
        for window in _windows(src, dtype):
            out.write_mask(src.read_masks(copy.bands[0], window=window) > 0, window=window)
