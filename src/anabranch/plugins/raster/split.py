"""A large raster is planned as tiles of the target grid, each of which becomes a COG by itself (R2)."""

import math
from pathlib import Path

import numpy as np
from pydantic import BaseModel, ConfigDict

from anabranch.plugins.raster.models import CogOptions, Window
from anabranch.plugins.raster.view import open_view

__all__ = ["Scheme", "Tile", "needs_tiles", "plan_tiles"]

STEP = 512
LEAST, MOST = 5_120, 20_480
AIM_BYTES = 300_000_000
WHOLE_BYTES, WHOLE_PIXELS = 2_000_000_000, 250_000_000


class Tile(BaseModel):
    """One tile: its name, and its window of the target grid."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    name: str
    window: Window


class Scheme(BaseModel):
    """The tiles of a raster, row by row."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    width: int
    height: int
    side: int
    tiles: tuple[Tile, ...]


def needs_tiles(size_bytes: int, width: int, height: int) -> bool:
    """Whether a raster is too large for one COG by default."""
    return size_bytes > WHOLE_BYTES or width * height > WHOLE_PIXELS


def plan_tiles(
    source: Path, options: CogOptions, *, side: int | None = None, overlap: int = 0, aim_bytes: int = AIM_BYTES
) -> Scheme:
    """Tiles of the target grid that meet without a gap, and overlap by as many pixels as asked for."""
    with open_view(source, options.model_copy(update={"window": None})) as view:
        pixel = view.count * np.dtype(view.src.dtypes[0]).itemsize
        chosen = side or _side(aim_bytes, pixel)
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


def _side(aim_bytes: int, pixel: int) -> int:
    """Whole blocks, as near to the size aimed at as the bounds allow."""
    ideal = math.sqrt(aim_bytes / pixel)
    return min(MOST, max(LEAST, STEP * round(ideal / STEP)))


def _window(column: int, row: int, side: int, width: int, height: int) -> Window:
    return Window(column=column, row=row, width=min(side, width - column), height=min(side, height - row))
