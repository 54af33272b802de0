"""Size limits of a raster, checked from its header before a pixel is read (S4)."""

import re
from pathlib import PurePath

import numpy as np
from rasterio.io import DatasetReader

from anabranch.errors import Permanent
from anabranch.geo.boxes import Box
from anabranch.plugins.raster.settings import RasterSettings

__all__ = ["MAX_GROWTH_FACTOR", "check_limits", "check_target", "check_whole", "raw_bytes"]

MB = 1024**2
_MIN_EXPANSION_BYTES = 1024**3
_MAX_BLOCKS_CHECKED = 20_000
MAX_GROWTH_FACTOR = 16
_MAX_SHRINK_FACTOR = 4
_DIGITS = re.compile(r"^\d+$")


def raw_bytes(src: DatasetReader, count: int | None = None) -> int:
    """The bytes of all pixels of all bands, or of this many."""
    return int(src.width * src.height * sum(np.dtype(_plain(name)).itemsize for name in src.dtypes[:count]))


def check_limits(src: DatasetReader, size: int, settings: RasterSettings, count: int | None = None) -> list[Permanent]:
    """An error for every limit that the raster exceeds, or this many bands of it."""
    count = src.count if count is None else count
    block, max_bytes, max_block_bytes = block_bytes(src), settings.raster_max_mb * MB, settings.raster_max_block_mb * MB
    pixels, raw = src.width * src.height, raw_bytes(src, count)
    asked = (
        (size > max_bytes, f"{size:,} bytes, over the limit of {max_bytes:,}", "raster_max_mb"),
        (
            pixels > settings.raster_max_pixels,
            f"{pixels:,} pixels, over the limit of {settings.raster_max_pixels:,}",
            "raster_max_pixels",
        ),
        (
            count > settings.raster_max_bands,
            f"{count:,} bands, over the limit of {settings.raster_max_bands:,}",
            "raster_max_bands",
        ),
        (
            block > max_block_bytes,
            f"blocks of {block:,} bytes, over the limit of {max_block_bytes:,}",
            "raster_max_block_mb",
        ),
        (
            raw > _MIN_EXPANSION_BYTES and raw > size * settings.raster_max_expansion,
            f"{raw:,} bytes of pixels in a file of {size:,}, over the limit of {settings.raster_max_expansion:,} times",
            "raster_max_expansion",
        ),
    )
    return [_over(text, setting) for broken, text, setting in asked if broken]


def check_target(
    src: DatasetReader, bounds: Box, pixels: int, target: str | None, settings: RasterSettings
) -> Permanent | None:
    """An error where the COG would have far more or far fewer pixels than its source, or too many (R6)."""
    own = src.width * src.height
    least, most = -(-own // _MAX_SHRINK_FACTOR), min(settings.raster_max_pixels, MAX_GROWTH_FACTOR * own)
    if pixels > most:
        return _reprojection(
            f"{own:,} pixels become {pixels:,} in {target}, and at most {most:,} are allowed",
            "Choose a `target_crs` that covers the raster, or clip the raster to the area of that CRS.",
        )
    if pixels < least and bounds.within_globe().crosses:
        return _reprojection(
            f"the raster crosses 180 degrees, where {target} jumps from its east edge to its west edge: the COG would "
            f"span the whole Earth, and {own:,} pixels would become only {pixels:,}",
            "Set no `target_crs`: the raster is published in its own CRS, and maps draw both sides. Or choose one that "
            "continues across 180 degrees, for example EPSG:3832.",
        )
    if pixels < least:
        return _reprojection(
            f"{own:,} pixels become only {pixels:,} in {target}, and at least {least:,} are required; "
            "this happens to rasters around the Earth or near a pole",
            "Choose a `target_crs` that covers the raster in one piece, or set none.",
        )
    return None


def _reprojection(message: str, remedy: str) -> Permanent:
    return Permanent(message, code="raster.reprojection", remedy=remedy)


def block_bytes(src: DatasetReader) -> int:
    """The bytes that reading one pixel brings into memory."""
    rows, columns = max(src.block_shapes, key=lambda shape: shape[0] * shape[1])
    together = src.count if src.interleaving and src.interleaving.name == "pixel" else 1
    return int(rows * columns * together * max(np.dtype(_plain(name)).itemsize for name in src.dtypes))


def check_whole(src: DatasetReader, size: int) -> Permanent | None:
    """An error where a block of a TIFF lies beyond the end of the file."""
    if src.driver != "GTiff":
        return None
    rows, columns = src.block_shapes[0]
    down, across = -(-src.height // rows), -(-src.width // columns)
    step = max(1, down * across // _MAX_BLOCKS_CHECKED)
    last = src.count if src.interleaving and src.interleaving.name != "pixel" else 1
    numbers = (*range(0, down * across, step), down * across - 1)
    end = max(_block_end(src, band, number % across, number // across) for band in {1, last} for number in numbers)
    return _cut_off(src, end, size) if end > size else None


def _block_end(src: DatasetReader, band: int, x: int, y: int) -> int:
    offset = src.get_tag_item(f"BLOCK_OFFSET_{x}_{y}", "TIFF", bidx=band) or ""
    length = src.get_tag_item(f"BLOCK_SIZE_{x}_{y}", "TIFF", bidx=band) or ""
    return int(offset) + int(length) if _DIGITS.match(offset) and _DIGITS.match(length) else 0


def _plain(dtype: str) -> str:
    return {"complex_int16": "complex64", "complex_int32": "complex64"}.get(dtype, dtype)


def _over(text: str, setting: str) -> Permanent:
    return Permanent(
        f"the raster has {text}",
        code="raster.too_large",
        remedy=f"Write it as a regular tiled GeoTIFF, split it, or raise the limit: ANABRANCH_{setting.upper()}.",
    )


def _cut_off(src: DatasetReader, end: int, size: int) -> Permanent:
    return Permanent(
        f"{PurePath(src.name).name} is truncated: its last block ends at byte {end:,}, but the file has {size:,} bytes",
        code="raster.truncated",
        remedy="Upload the file again; compare its size and checksum with the original.",
    )
