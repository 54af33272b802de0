"""Writes one tile of a raster as a COG, verifies it, and keeps its smallest overview."""

from pathlib import Path

import rasterio
from rasterio.shutil import copy

from anabranch.plugins.raster.cog.retile import strips
from anabranch.plugins.raster.cog.target_view import open_view
from anabranch.plugins.raster.cog.verify import verify
from anabranch.plugins.raster.cog.write import Progress, write_cog
from anabranch.plugins.raster.files.reader import bounded, quiet
from anabranch.plugins.raster.files.source import Source
from anabranch.plugins.raster.models import CogOptions
from anabranch.plugins.raster.tiles.models import WrittenTile
from anabranch.plugins.raster.tiles.valid_blocks import find_valid_blocks, pack

__all__ = ["write_tile"]

WINDOW_BYTES = 16 * 1024**2


def write_tile(source: Source, cog: Path, overview: Path, options: CogOptions, progress: Progress) -> WrittenTile:
    """Write the COG of a window and compare it with the source; nothing where the window has no valid pixel."""
    if _is_empty(source, options):
        return WrittenTile()
    write_cog(source, cog, options, progress)
    compared = verify(source, cog, options)
    count = options.overviews or 0
    level = {"OVERVIEW_LEVEL": count - 1} if count else {}
    with (
        bounded(options.memory_mb, options.threads),
        quiet(),
        rasterio.open(cog, driver="GTiff") as src,
        rasterio.open(cog, driver="GTiff", **level) as smallest,
    ):
        blocks = find_valid_blocks(src, smallest, 2**count)
        if not blocks.any():
            return WrittenTile()
        copy(smallest, overview, driver="GTiff", COMPRESS="ZSTD", ZSTD_LEVEL="1", COPY_SRC_OVERVIEWS="NO")
        return WrittenTile(compared=compared, transform=tuple(src.transform[:6]), valid=pack(blocks))


def _is_empty(source: Source, options: CogOptions) -> bool:
    """Whether no pixel of the window is valid; most tiles have one in the first piece that is read."""
    with bounded(options.memory_mb, options.threads), open_view(source, options) as view:
        return not any(
            not view.is_unstored(window) and view.read_mask(window).any() for window in strips(view, WINDOW_BYTES)
        )
