"""What kind of raster it is, by its bands and pixels, and what a caller may say instead."""

import numpy as np
from rasterio.enums import ColorInterp
from rasterio.io import DatasetReader

from anabranch.engine.errors import Permanent
from anabranch.plugins.raster.content import Content
from anabranch.plugins.raster.models import Kind
from anabranch.plugins.raster.pixels import data_bands

__all__ = ["detect", "settle"]

FEW = 32
SMOOTH = 0.1
STEADY = 0.01
_PICTURE = {"uint8", "uint16", "int16", "int8"}


def detect(src: DatasetReader, content: Content) -> Kind:
    """The kind that bands and pixels show."""
    bands = len(data_bands(src))
    alpha = ColorInterp.alpha in src.colorinterp
    picture = set(src.dtypes) <= _PICTURE
    if bands == 1:
        return _one_band(src, content)
    if bands == 3 and picture:
        return Kind.RGBA if alpha else Kind.RGB
    if bands == 4:
        return Kind.RGBA if picture and _is_steady(content, 4) else Kind.NIR
    return Kind.MULTISPECTRAL


def settle(src: DatasetReader, detected: Kind, declared: Kind | None, content: Content) -> Kind:
    """The declared kind where the raster can be of it, else an error that says why not."""
    if declared is None or declared == detected:
        return detected
    why = _why_not(src, declared, content)
    if why:
        raise Permanent(
            f"the raster is declared as {declared}, but {why}; it looks like {detected}",
            code="raster.kind",
            remedy=f"Leave `raster_type` out, or say `{detected}`.",
        )
    return declared


def _one_band(src: DatasetReader, content: Content) -> Kind:
    dtype = np.dtype(src.dtypes[0])
    total = content.bands[min(content.bands)]
    if dtype.kind in "iu":
        palette = src.colorinterp[0] == ColorInterp.palette
        if palette or 0 < len(content.values) <= FEW:
            return Kind.CATEGORICAL
    elif total.valid and total.minimum >= -1 and total.maximum <= 1:
        return Kind.VEGETATION_INDEX
    return Kind.DEM if content.smoothness <= SMOOTH else Kind.CONTINUOUS


def _is_steady(content: Content, band: int) -> bool:
    found = content.bands[band].statistics(exact=False)
    return found is not None and found.stddev <= STEADY * max(1.0, abs(found.maximum))


def _why_not(src: DatasetReader, declared: Kind, content: Content) -> str:
    bands = len(data_bands(src))
    whole = all(np.dtype(name).kind in "iu" for name in src.dtypes)
    match declared:
        case Kind.RGB:
            return _unless(bands == 3 and set(src.dtypes) <= _PICTURE, f"has {bands} bands of {src.dtypes[0]}")
        case Kind.RGBA:
            return _unless(src.count == 4 and set(src.dtypes) <= _PICTURE, f"has {src.count} bands of {src.dtypes[0]}")
        case Kind.NIR:
            return _unless(bands >= 4, f"has {bands} bands")
        case Kind.MULTISPECTRAL:
            return _unless(bands >= 2, "has one band")
        case Kind.TEMPORAL:
            return ""
        case Kind.CATEGORICAL:
            return _unless(bands == 1 and whole, f"has {bands} bands of {src.dtypes[0]}")
        case _:
            return _one_band_of_numbers(src, bands)


def _one_band_of_numbers(src: DatasetReader, bands: int) -> str:
    if src.colorinterp[0] == ColorInterp.palette:
        return "it has a palette"
    return _unless(bands == 1, f"has {bands} bands")


def _unless(fits: bool, why: str) -> str:
    return "" if fits else f"it {why}"
