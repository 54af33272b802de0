"""A view written out as a tiled GeoTIFF, for what the COG driver can't do while it copies."""

import math
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import rasterio
from rasterio.io import DatasetWriter
from rasterio.windows import Window

from anabranch.plugins.raster.bands import colours_of, palette_of
from anabranch.plugins.raster.reader import quiet
from anabranch.plugins.raster.view import View

__all__ = ["rewrite", "strips"]

SIDE = 512
BUDGET = 16 * 1024**2


def rewrite(view: View, target: Path, told: Callable[[float], None]) -> None:
    """Write the view with all that it carries; lossless, and quick rather than small."""
    with quiet(), rasterio.open(target, "w", **_creation(view)) as out:
        _describe(view, out)
        done = 0
        for window in strips(view, BUDGET):
            pixels, valid = view.read_both(window)
            out.write(pixels, window=window)
            if valid is not None:
                out.write_mask(valid, window=window)
            done += window.width * window.height
            told(done / (view.width * view.height))


def strips(view: View, budget: int) -> Iterator[Window]:
    """Windows of whole tiles that cover the view, each of at most about this many bytes."""
    pixel = max(1, sum(np.dtype(name).itemsize + 1 for name in view.src.dtypes))
    width = max(SIDE, min(-(-view.width // SIDE) * SIDE, budget // (SIDE * pixel) // SIDE * SIDE))
    if view.warped:  # squares: what is warped lies together in the source, too
        width = max(SIDE, min(width, math.isqrt(budget // pixel) // SIDE * SIDE))
    height = max(SIDE, budget // (width * pixel) // SIDE * SIDE)
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
        "blockxsize": SIDE,
        "blockysize": SIDE,
        "interleave": "pixel" if view.count <= 4 else "band",
        "compress": "zstd",
        "zstd_level": 1,
        "num_threads": view.options.threads or "all_cpus",
        "bigtiff": "if_safer",
    }


def _describe(view: View, out: DatasetWriter) -> None:
    src = view.src
    if palette := palette_of(src):
        out.write_colormap(1, palette)
    out.colorinterp = colours_of(src)
    out.descriptions = src.descriptions
    out.scales, out.offsets, out.units = src.scales, src.offsets, src.units
    out.update_tags(**_lasting(src.tags()))
    for band in src.indexes:
        out.update_tags(band, **_lasting(src.tags(band)))


def _lasting(tags: dict[str, str]) -> dict[str, str]:
    """Tags that stay true when pixels move."""
    return {key: value for key, value in tags.items() if not key.startswith("STATISTICS_")}
