"""Chooses the sides of the tiles of a large raster on its target grid."""

import math

import numpy as np

from anabranch.contract.mosaic import Grid
from anabranch.errors import Permanent
from anabranch.plugins.raster.cog.target_view import open_view
from anabranch.plugins.raster.files.source import Source
from anabranch.plugins.raster.models import CogOptions
from anabranch.plugins.raster.tiles.models import TileLimits

__all__ = ["plan_grid"]

BLOCK_PIXELS = 512


def plan_grid(source: Source, options: CogOptions, limits: TileLimits) -> Grid:
    """The target grid, and the sides of its tiles."""
    with open_view(source, options) as view:
        pixel_bytes = view.count * np.dtype(view.src.dtypes[0]).itemsize
        side = _choose_side(view.width, view.height, pixel_bytes, limits)
        return Grid(
            width=view.width,
            height=view.height,
            transform=tuple(view.transform[:6]),
            side=side,
            overviews=(side // BLOCK_PIXELS - 1).bit_length(),
        )


def _choose_side(width: int, height: int, pixel_bytes: int, limits: TileLimits) -> int:
    """Whole blocks, as close to the wanted size as the limits allow, and larger where there would be too many tiles."""
    ideal = math.sqrt(limits.wanted_bytes / pixel_bytes)
    side = min(limits.max_pixels, max(limits.min_pixels, BLOCK_PIXELS * round(ideal / BLOCK_PIXELS)))
    while side < limits.max_pixels and _count(width, height, side) > limits.max_tiles:
        side += BLOCK_PIXELS
    if (count := _count(width, height, side)) > limits.max_tiles:
        raise Permanent(
            f"the raster would have {count:,} tiles of {side:,} pixels, and the limit is {limits.max_tiles:,} tiles",
            code="raster.too_large",
            remedy="Ask the operator to raise ANABRANCH_RASTER_TILE_MAX_PIXELS.",
        )
    return side


def _count(width: int, height: int, side: int) -> int:
    return -(-width // side) * -(-height // side)
