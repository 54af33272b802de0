"""A small PNG of a COG, stretched or coloured for viewing."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import rasterio
from rasterio.enums import ColorInterp, Resampling
from rasterio.io import DatasetReader

from anabranch.plugins.raster.checks.bands import palette_of
from anabranch.plugins.raster.files.pixels import Array, Mask, read_mask
from anabranch.plugins.raster.files.reader import bounded, quiet
from anabranch.plugins.raster.item.png import write_png
from anabranch.plugins.raster.models import Kind

__all__ = ["Shown", "Stretch", "preview"]

MEMORY_MB = 256
MAX_SIDE_PIXELS = 512
LOW_PERCENTILE, HIGH_PERCENTILE = 2.0, 98.0
# Dark blue over green to yellow: readable in greyscale and for red-blind viewers.
RAMP = ((0.0, (68, 1, 84)), (0.25, (59, 82, 139)), (0.5, (33, 145, 140)), (0.75, (94, 201, 98)), (1.0, (253, 231, 37)))
# Distinct colours for classes without a palette.
CLASS_COLOURS: tuple[tuple[int, int, int], ...] = (
    *((166, 206, 227), (31, 120, 180), (178, 223, 138), (51, 160, 44), (251, 154, 153), (227, 26, 28)),
    *((253, 191, 111), (255, 127, 0), (202, 178, 214), (106, 61, 154), (255, 255, 153), (177, 89, 40)),
)

RGB = ("red", "green", "blue")

Stretch = list[tuple[float, float]]


@dataclass(frozen=True)
class Shown:
    """The bands of a picture, and the range of values that each was stretched from."""

    bands: list[int]
    stretch: Stretch


def preview(cog: Path, target: Path, kind: Kind, side: int = MAX_SIDE_PIXELS, *, discrete: bool = False) -> Shown:
    """Write a PNG, its longer side at most `side`, with alpha where there is nodata; return how the bands are shown."""
    with bounded(MEMORY_MB), quiet(), rasterio.open(cog, driver="GTiff") as src:
        bands = _choose(src)
        colours, valid, stretch = _paint(src, kind, bands, _shape(src, side), discrete=discrete)
    alpha = np.where(valid, 255, 0).astype(np.uint8)[None]
    write_png(colours if valid.all() else np.concatenate([colours, alpha]), target)
    return Shown(bands, stretch)


def _choose(src: DatasetReader) -> list[int]:
    """Red, green and blue by band name, else by colour interpretation; else the first three, or the first."""
    names = [(name or "").strip().lower() for name in src.descriptions]
    for said in (names, [colour.name for colour in src.colorinterp]):
        if all(said.count(colour) == 1 for colour in RGB):
            return [said.index(colour) + 1 for colour in RGB]
    return [1, 2, 3] if src.count >= 3 and src.colorinterp[2] != ColorInterp.alpha else [1]


def _shape(src: DatasetReader, side: int) -> tuple[int, int]:
    shrink = max(1.0, max(src.width, src.height) / side)
    return max(1, round(src.height / shrink)), max(1, round(src.width / shrink))


def _paint(
    src: DatasetReader, kind: Kind, bands: list[int], shape: tuple[int, int], *, discrete: bool
) -> tuple[Array, Mask, Stretch]:
    """Red, green and blue, which pixels are valid, and the range of values that each band was stretched from."""
    classes = kind == Kind.CATEGORICAL
    how = Resampling.nearest if classes or discrete else Resampling.average
    data = np.asarray(src.read(bands, out_shape=(len(bands), *shape), resampling=how))
    valid = read_mask(src, shape=shape)
    if data.dtype.kind == "f":
        valid &= ~np.isnan(data).any(axis=0)
    if classes:
        return _classes(src, data[0]), valid, []
    if data.dtype == np.uint8 and len(bands) == 3:
        return data, valid, [(0.0, 255.0)] * 3
    stretch = [_limits(band, valid) for band in data]
    scaled = np.stack([_scale(band, *limits) for band, limits in zip(data, stretch, strict=True)])
    colours = (scaled * 255).round().astype(np.uint8) if len(bands) == 3 else _ramp(scaled[0])
    return colours, valid, stretch


def _limits(band: Array, valid: Mask) -> tuple[float, float]:
    values = band[valid]
    if not values.size:
        return 0.0, 1.0
    low, high = (float(value) for value in np.percentile(values.astype(np.float64), (LOW_PERCENTILE, HIGH_PERCENTILE)))
    return (low, high) if high > low else (low, low + 1.0)


def _scale(band: Array, low: float, high: float) -> Array:
    scaled = (np.nan_to_num(band.astype(np.float64)) - low) / (high - low)
    return np.asarray(np.clip(scaled, 0.0, 1.0))


def _ramp(scaled: Array) -> Array:
    places = [place for place, _ in RAMP]
    bands = [np.interp(scaled, places, [colour[band] for _, colour in RAMP]) for band in range(3)]
    return np.stack(bands).round().astype(np.uint8)


def _classes(src: DatasetReader, values: Array) -> Array:
    found, places = np.unique(values, return_inverse=True)
    palette = palette_of(src)
    colours = [palette.get(int(value), CLASS_COLOURS[int(value) % len(CLASS_COLOURS)])[:3] for value in found]
    return np.moveaxis(np.asarray(colours, np.uint8)[places.reshape(values.shape)], -1, 0)
