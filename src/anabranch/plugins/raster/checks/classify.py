"""The kind of a raster, from its bands and pixels, or as the caller declares it."""

import re
from dataclasses import dataclass

import numpy as np
from rasterio.enums import ColorInterp
from rasterio.io import DatasetReader

from anabranch.errors import Permanent
from anabranch.plugins.raster.checks.bands import palette_of
from anabranch.plugins.raster.checks.pixel_sample import MAX_CLASS_VALUES, PixelSample
from anabranch.plugins.raster.files.pixels import data_bands
from anabranch.plugins.raster.models import Kind, Notice

__all__ = ["Guess", "detect_kind", "resolve_kind"]

SMOOTH_STEP_RATIO = 0.1
CONSTANT_STDDEV_RATIO = 0.01
_PICTURE_DTYPES = {"uint8", "uint16", "int16", "int8"}
_VEGETATION_INDICES = {
    "ndvi",
    "evi",
    "evi2",
    "savi",
    "msavi",
    "osavi",
    "gndvi",
    "ndre",
    "ndwi",
    "ndmi",
    "nbr",
    "arvi",
    "vari",
    "gci",
}


@dataclass(frozen=True)
class Guess:
    """The kind of a raster, and why; `discrete` where its few values may or may not be classes."""

    kind: Kind
    why: str
    discrete: bool = False

    @property
    def notices(self) -> tuple[Notice, ...]:
        """Notices that ask the caller for the kind."""
        if not self.discrete:
            return ()
        drawn = "Its values are not interpolated, and maps show them with a colour ramp."
        remedy = "Set `raster_type`: `categorical` for classes, `continuous` or `dem` for measurements."
        message = f"The raster may show classes or measurements: {self.why}. {drawn} {remedy}"
        return (Notice(code="raster.kind_unsure", message=message),)


def detect_kind(src: DatasetReader, sample: PixelSample, name: str = "") -> Guess:
    """The kind that bands, pixels and names suggest."""
    bands = len(data_bands(src))
    alpha = ColorInterp.alpha in src.colorinterp
    picture = set(src.dtypes) <= _PICTURE_DTYPES
    reason = f"it has {bands} bands of {src.dtypes[0]}"
    if bands == 1:
        return _one_band(src, sample, name)
    if bands == 3 and picture:
        return Guess(Kind.RGBA, f"{reason} and an alpha band") if alpha else Guess(Kind.RGB, reason)
    if bands == 4:
        rgba = picture and _is_constant(sample, data_bands(src)[3])
        return Guess(Kind.RGBA, f"{reason}, the fourth nearly constant") if rgba else Guess(Kind.NIR, reason)
    return Guess(Kind.MULTISPECTRAL, reason)


def resolve_kind(src: DatasetReader, detected: Guess, declared: Kind | None) -> Guess:
    """The declared kind where the raster can have it, else an error that says why not."""
    if declared is None:
        return detected
    if declared == detected.kind:
        return Guess(declared, f"raster_type declares it, and {detected.why}")
    why = _why_not(src, declared)
    if why:
        raise Permanent(
            f"the raster is declared as {declared}, but {why}; it looks like {detected.kind}",
            code="raster.kind",
            remedy=f"Remove `raster_type`, or set it to `{detected.kind}`.",
        )
    return Guess(declared, "raster_type declares it")


def _one_band(src: DatasetReader, sample: PixelSample, name: str) -> Guess:
    dtype = np.dtype(src.dtypes[0])
    total = sample.bands[min(sample.bands)]
    if palette_of(src):
        return Guess(Kind.CATEGORICAL, "it has a palette")
    smooth = sample.smoothness <= SMOOTH_STEP_RATIO
    measured = Kind.DEM if smooth else Kind.CONTINUOUS
    why = f"it has one band, and neighbours differ {'little' if smooth else 'much'}"
    if dtype.kind in "iu" and 0 < len(sample.values) <= MAX_CLASS_VALUES:
        return _few_values(len(sample.values), sample)
    if dtype.kind == "f" and total.valid and total.minimum >= -1 and total.maximum <= 1:
        words = {word for text in (name, src.descriptions[0] or "") for word in re.split(r"[^a-z0-9]+", text.lower())}
        if found := sorted(words & _VEGETATION_INDICES):
            return Guess(Kind.VEGETATION_INDEX, f"its values are within -1 and 1, and it is called {found[0]}")
        return Guess(Kind.CONTINUOUS, "its values are within -1 and 1, and nothing calls it a vegetation index")
    return Guess(measured, why)


def _few_values(count: int, sample: PixelSample) -> Guess:
    values = f"it has {count} different value{'s' if count > 1 else ''} and no palette"
    if count in (2, 3):
        return Guess(Kind.CATEGORICAL, values)
    if count > 1 and sample.looks_like_classes:
        return Guess(Kind.CATEGORICAL, f"{values}, in patches without an order")
    return Guess(Kind.CONTINUOUS, values, discrete=True)


def _is_constant(sample: PixelSample, band: int) -> bool:
    found = sample.bands[band].statistics(exact=False)
    return found is not None and found.stddev <= CONSTANT_STDDEV_RATIO * max(1.0, abs(found.maximum))


def _why_not(src: DatasetReader, declared: Kind) -> str:
    bands = len(data_bands(src))
    whole = all(np.dtype(name).kind in "iu" for name in src.dtypes)
    match declared:
        case Kind.RGB:
            return _unless(bands == 3 and set(src.dtypes) <= _PICTURE_DTYPES, f"has {bands} bands of {src.dtypes[0]}")
        case Kind.RGBA:
            return _unless(
                src.count == 4 and set(src.dtypes) <= _PICTURE_DTYPES, f"has {src.count} bands of {src.dtypes[0]}"
            )
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
    if palette_of(src):
        return "it has a palette"
    return _unless(bands == 1, f"has {bands} bands")


def _unless(fits: bool, why: str) -> str:
    return "" if fits else f"it {why}"
