"""Writes a view as a tiled GeoTIFF, for changes that the COG driver can't make while it copies."""

import math
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import rasterio
from rasterio.io import DatasetReader, DatasetWriter
from rasterio.windows import Window

from anabranch.plugins.raster.checks.bands import colours_of, palette_of
from anabranch.plugins.raster.cog.target_view import View
from anabranch.plugins.raster.files.reader import quiet

__all__ = ["describe", "retile", "strips"]

TILE_PIXELS = 512
WINDOW_BYTES = 16 * 1024**2


def retile(view: View, target: Path, report: Callable[[float], None]) -> None:
    """Write the view with all its metadata; lossless, and optimized for speed rather than size."""
    with quiet(), rasterio.open(target, "w", **_creation(view)) as out:
        describe(view.src, out)
        done = 0
        for window in strips(view, WINDOW_BYTES):
            pixels, valid = view.read_both(window)
            out.write(pixels, window=window)
            if valid is not None:
                out.write_mask(valid, window=window)
            done += window.width * window.height
            report(done / (view.width * view.height))


def strips(view: View, budget: int) -> Iterator[Window]:
    """Windows of whole tiles that cover the view, each of at most about this many bytes."""
    pixel = max(1, sum(np.dtype(name).itemsize + 1 for name in view.src.dtypes))
    width = max(
        TILE_PIXELS,
        min(-(-view.width // TILE_PIXELS) * TILE_PIXELS, budget // (TILE_PIXELS * pixel) // TILE_PIXELS * TILE_PIXELS),
    )
    if view.warped:  # squares: their pixels are close together in the source, too
        width = max(TILE_PIXELS, min(width, math.isqrt(budget // pixel) // TILE_PIXELS * TILE_PIXELS))
    height = max(TILE_PIXELS, budget // (width * pixel) // TILE_PIXELS * TILE_PIXELS)
    for row in range(0, view.height, height):
        for column in range(0, view.width, width):
            yield Window(column, row, min(width, view.width - column), min(height, view.height - row))


def _creation(view: View) -> dict[str, object]:
    bits = view.src.tags(1, ns="IMAGE_STRUCTURE").get("NBITS")
    return {
        **({"nbits": bits} if bits else {}),
        "driver": "GTiff",
        "width": view.width,
        "height": view.height,
        "count": view.count,
        "dtype": view.src.dtypes[0],
        "crs": view.crs,
        "transform": view.transform,
        "nodata": view.nodata,
        "tiled": True,
        "blockxsize": TILE_PIXELS,
        "blockysize": TILE_PIXELS,
        "interleave": "pixel" if view.count <= 4 and not view.options.window else "band",
        # A tile of a large raster is small enough for the disk as it is, and compressing takes longer than writing.
        **({} if view.options.window else {"compress": "zstd", "zstd_level": 1}),
        "num_threads": view.options.threads or "all_cpus",
        "bigtiff": "if_safer",
    }


def describe(src: DatasetReader, out: DatasetWriter) -> None:
    """Copy the metadata of a raster and its bands, except for what depends on the pixels."""
    if palette := palette_of(src):
        out.write_colormap(1, palette)
    out.colorinterp = colours_of(src)
    out.descriptions = src.descriptions
    out.scales, out.offsets, out.units = src.scales, src.offsets, src.units
    out.update_tags(**_lasting(src.tags()))
    for band in src.indexes:
        out.update_tags(band, **_lasting(src.tags(band)))


def _lasting(tags: dict[str, str]) -> dict[str, str]:
    """Tags that remain true when pixels change."""
    return {key: value for key, value in tags.items() if not key.startswith("STATISTICS_")}
