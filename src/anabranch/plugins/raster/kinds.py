"""What kind of raster it is, by its bands and pixels, and what a caller may say instead."""

import re
from dataclasses import dataclass

import numpy as np
from rasterio.enums import ColorInterp
from rasterio.io import DatasetReader

from anabranch.errors import Permanent
from anabranch.plugins.raster.bands import palette_of
from anabranch.plugins.raster.content import FEW, Content
from anabranch.plugins.raster.models import Kind, Notice
from anabranch.plugins.raster.pixels import data_bands

__all__ = ["Guess", "detect", "settle"]

SMOOTH = 0.1
STEADY = 0.01
_PICTURE = {"uint8", "uint16", "int16", "int8"}
_INDICES = {
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
    """What a raster is taken for, and why; `discrete` where its few values may be classes, and may not."""

    kind: Kind
    why: str
    discrete: bool = False

    @property
    def notices(self) -> tuple[Notice, ...]:
        """What a caller should know of it, and can say better."""
        if not self.discrete:
            return ()
        how = "No values are made between them, and maps show them in steps of one ramp."
        say = "Give `raster_type` to say it: `categorical` for classes, `continuous` or `dem` for measurements."
        return (
            Notice(code="raster.kind_unsure", message=f"The raster may show classes or not: {self.why}. {how} {say}"),
        )


def detect(src: DatasetReader, content: Content, name: str = "") -> Guess:
    """The kind that bands, pixels and names show."""
    bands = len(data_bands(src))
    alpha = ColorInterp.alpha in src.colorinterp
    picture = set(src.dtypes) <= _PICTURE
    told = f"it has {bands} bands of {src.dtypes[0]}"
    if bands == 1:
        return _one_band(src, content, name)
    if bands == 3 and picture:
        return Guess(Kind.RGBA, f"{told} and an alpha band") if alpha else Guess(Kind.RGB, told)
    if bands == 4:
        rgba = picture and _is_steady(content, data_bands(src)[3])
        return Guess(Kind.RGBA, f"{told}, the fourth nearly constant") if rgba else Guess(Kind.NIR, told)
    return Guess(Kind.MULTISPECTRAL, told)


def settle(src: DatasetReader, detected: Guess, declared: Kind | None) -> Guess:
    """What the caller declared where the raster can be of it, else an error that says why not."""
    if declared is None:
        return detected
    if declared == detected.kind:
        return Guess(declared, f"raster_type says so, and {detected.why}")
    why = _why_not(src, declared)
    if why:
        raise Permanent(
            f"the raster is declared as {declared}, but {why}; it looks like {detected.kind}",
            code="raster.kind",
            remedy=f"Leave `raster_type` out, or say `{detected.kind}`.",
        )
    return Guess(declared, "raster_type says so")


def _one_band(src: DatasetReader, content: Content, name: str) -> Guess:
    dtype = np.dtype(src.dtypes[0])
    total = content.bands[min(content.bands)]
    if palette_of(src):
        return Guess(Kind.CATEGORICAL, "it has a palette")
    smooth = content.smoothness <= SMOOTH
    measured = Kind.DEM if smooth else Kind.CONTINUOUS
    why = f"it has one band, and neighbours differ {'little' if smooth else 'much'}"
    if dtype.kind in "iu" and 0 < len(content.values) <= FEW:
        return _few_values(len(content.values), content)
    if dtype.kind == "f" and total.valid and total.minimum >= -1 and total.maximum <= 1:
        words = {word for text in (name, src.descriptions[0] or "") for word in re.split(r"[^a-z0-9]+", text.lower())}
        if found := sorted(words & _INDICES):
            return Guess(Kind.VEGETATION_INDEX, f"its values are within -1 and 1, and it is called {found[0]}")
        return Guess(Kind.CONTINUOUS, "its values are within -1 and 1, and nothing calls it a vegetation index")
    return Guess(measured, why)


def _few_values(count: int, content: Content) -> Guess:
    values = f"it has {count} different value{'s' if count > 1 else ''} and no palette"
    if count in (2, 3):
        return Guess(Kind.CATEGORICAL, values)
    if count > 1 and content.looks_like_names:
        return Guess(Kind.CATEGORICAL, f"{values}, in patches that meet in no order")
    return Guess(Kind.CONTINUOUS, values, discrete=True)


def _is_steady(content: Content, band: int) -> bool:
    found = content.bands[band].statistics(exact=False)
    return found is not None and found.stddev <= STEADY * max(1.0, abs(found.maximum))


def _why_not(src: DatasetReader, declared: Kind) -> str:
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
    if palette_of(src):
        return "it has a palette"
    return _unless(bands == 1, f"has {bands} bands")


def _unless(fits: bool, why: str) -> str:
    return "" if fits else f"it {why}"
