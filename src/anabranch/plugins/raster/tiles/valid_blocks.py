"""Where a tile has data, in blocks of pixels that line up with those of its neighbours."""

import base64
import zlib

import numpy as np
from rasterio.io import DatasetReader
from rasterio.windows import Window, subdivide

from anabranch.contract.mosaic import Grid
from anabranch.plugins.raster.files.pixels import Mask
from anabranch.plugins.raster.item.valid_grid import any_along, edges, read_valid_mask
from anabranch.plugins.raster.tiles.models import Joined, ValidBlocks

__all__ = ["find_valid_blocks", "join_valid_blocks", "pack", "pool_cells", "unpack"]

WINDOW_PIXELS = 2048


def find_valid_blocks(src: DatasetReader, level: DatasetReader, factor: int) -> Mask:
    """Blocks of `factor` pixels with any valid one; `level` is the overview with one pixel for each block."""
    blocks = read_valid_mask(level, Window(0, 0, level.width, level.height), level.shape)
    step = max(1, WINDOW_PIXELS // factor)
    for part in (window.toslices() for window in subdivide(Window(0, 0, level.width, level.height), step, step)):
        if factor > 1 and not blocks[part].all():  # an overview may miss areas smaller than its pixels
            blocks[part] |= _read_blocks(src, part, factor)
    return blocks


def _read_blocks(src: DatasetReader, part: tuple[slice, slice], factor: int) -> Mask:
    (top, bottom), (left, right) = (
        (at.start * factor, min(at.stop * factor, size)) for at, size in zip(part, src.shape, strict=True)
    )
    shape = bottom - top, right - left
    valid = read_valid_mask(src, Window(left, top, shape[1], shape[0]), shape)
    rows, columns = (np.arange(0, size, factor) for size in shape)
    return np.asarray(np.logical_or.reduceat(np.logical_or.reduceat(valid, rows, axis=0), columns, axis=1))


def pack(blocks: Mask) -> ValidBlocks:
    """The blocks as JSON."""
    height, width = blocks.shape
    bits = zlib.compress(np.packbits(blocks).tobytes())
    return ValidBlocks(shape=(height, width), bits=base64.b64encode(bits).decode())


def unpack(packed: ValidBlocks) -> Mask:
    """The blocks of a packed tile."""
    height, width = packed.shape
    size = height * width
    content = zlib.decompressobj().decompress(base64.b64decode(packed.bits), size // 8 + 1)
    return np.unpackbits(np.frombuffer(content, np.uint8), count=size).reshape(packed.shape).astype(bool)


def join_valid_blocks(joined: Joined) -> Mask:
    """The blocks of the whole raster."""
    whole, factor = np.zeros(joined.grid.reduced, bool), joined.grid.factor
    for tile, packed in zip(joined.tiles, joined.valid, strict=True):
        row, column = tile.window.row // factor, tile.window.column // factor
        whole[row : row + packed.shape[0], column : column + packed.shape[1]] = unpack(packed)
    return whole


def pool_cells(blocks: Mask, grid: Grid, side: int) -> Mask:
    """At most `side` cells along the longer side that fill the grid exactly; one is set if any of its blocks is."""
    cells = blocks
    shrink = max(1.0, grid.factor, max(grid.width, grid.height) / side)
    for size in (grid.height, grid.width):
        count = max(1, round(size / shrink))
        spans = edges(size, count, slice(0, count))
        spans = np.stack([spans[:, 0] // grid.factor, -(-spans[:, 1] // grid.factor)], axis=1)
        cells = any_along(cells, spans).T
    return cells
