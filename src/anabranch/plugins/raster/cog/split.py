"""Plans the tiles of a large raster on the target grid; each tile becomes a separate COG (R2)."""

import math

import numpy as np

from anabranch.plugins.raster.cog.target_view import open_view
from anabranch.plugins.raster.files.source import Source
from anabranch.plugins.raster.models import CogOptions, Window
from anabranch.strict_model import StrictModel

__all__ = ["Scheme", "Tile", "needs_tiles", "plan_tiles"]

BLOCK_PIXELS = 512
MIN_TILE_PIXELS, MAX_TILE_PIXELS = 5_120, 20_480
TARGET_TILE_BYTES = 300_000_000
MAX_SINGLE_BYTES, MAX_SINGLE_PIXELS = 2_000_000_000, 250_000_000


class Tile(StrictModel):
    """One tile: its name, and its window of the target grid."""

    name: str
    window: Window


class Scheme(StrictModel):
    """The tiles of a raster, row by row."""

    width: int
    height: int
    side: int
    tiles: tuple[Tile, ...]


def needs_tiles(size_bytes: int, width: int, height: int) -> bool:
    """Whether a raster is too large for one COG by default."""
    return size_bytes > MAX_SINGLE_BYTES or width * height > MAX_SINGLE_PIXELS


def plan_tiles(
    source: Source,
    options: CogOptions,
    *,
    side: int | None = None,
    overlap: int = 0,
    tile_bytes: int = TARGET_TILE_BYTES,
) -> Scheme:
    """Tiles of the target grid without gaps, which overlap by the given number of pixels."""
    with open_view(source, options.model_copy(update={"window": None})) as view:
        pixel = view.count * np.dtype(view.src.dtypes[0]).itemsize
        chosen = side or _side(tile_bytes, pixel)
        rows, columns = range(0, view.height, chosen), range(0, view.width, chosen)
        tiles = tuple(
            Tile(
                name=f"tile_r{row // chosen}_c{column // chosen}",
                window=_window(column, row, chosen + overlap, view.width, view.height),
            )
            for row in rows
            for column in columns
        )
        return Scheme(width=view.width, height=view.height, side=chosen, tiles=tiles)


def _side(tile_bytes: int, pixel: int) -> int:
    """Whole blocks, as close to the target size as the limits allow."""
    ideal = math.sqrt(tile_bytes / pixel)
    return min(MAX_TILE_PIXELS, max(MIN_TILE_PIXELS, BLOCK_PIXELS * round(ideal / BLOCK_PIXELS)))


def _window(column: int, row: int, side: int, width: int, height: int) -> Window:
    return Window(column=column, row=row, width=min(side, width - column), height=min(side, height - row))
