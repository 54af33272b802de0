"""What a file says of its bands, and what their data types allow."""

import math
from pathlib import Path
from typing import Literal

import numpy as np
from rasterio.enums import ColorInterp, MaskFlags
from rasterio.io import DatasetReader
from rasterio.windows import Window

from anabranch.errors import Permanent
from anabranch.plugins.raster.alpha import opaque_of
from anabranch.plugins.raster.models import Band, Mends, Notice, to_nodata
from anabranch.plugins.raster.pixels import Totals, read_window
from anabranch.plugins.raster.tiff import read_nodata

__all__ = [
    "check_alpha",
    "check_dtype",
    "check_masks",
    "check_nodata",
    "colours_of",
    "describe_bands",
    "fits",
    "mask_kind",
    "palette_of",
]

LOOK = 512
Palette = dict[int, tuple[int, int, int, int]]


def describe_bands(src: DatasetReader, totals: dict[int, Totals], *, exact: bool) -> tuple[Band, ...]:
    """Every band with its facts, and statistics where it was looked at."""
    return tuple(_describe(src, band, totals.get(band), exact=exact) for band in src.indexes)


def _describe(src: DatasetReader, band: int, total: Totals | None, *, exact: bool) -> Band:
    at = band - 1
    return Band(
        index=band,
        dtype=src.dtypes[at],
        nodata=to_nodata(src.nodatavals[at], src.dtypes[at]),
        colour=src.colorinterp[at].name,
        name=src.descriptions[at] or "",
        unit=src.units[at] or "",
        scale=src.scales[at],
        offset=src.offsets[at],
        palette=at == 0 and bool(palette_of(src)),
        statistics=total.statistics(exact=exact) if total else None,
    )


def palette_of(src: DatasetReader) -> Palette:
    """The colours of classes; none where the file only says that it has some."""
    try:
        return dict(src.colormap(1)) if src.colorinterp[0] == ColorInterp.palette else {}
    except ValueError:
        return {}


def colours_of(src: DatasetReader) -> tuple[ColorInterp, ...]:
    """What bands show. Grey is what a first band is where nothing says it, and a palette without colours is none."""
    plain = {ColorInterp.undefined, *(() if palette_of(src) else (ColorInterp.palette,))}
    return tuple(ColorInterp.gray if colour in plain else colour for colour in src.colorinterp)


def mask_kind(src: DatasetReader) -> Literal["none", "nodata", "mask", "alpha"]:
    """How the file says which pixels are valid."""
    flags = src.mask_flag_enums[0]
    if MaskFlags.alpha in flags:
        return "alpha"
    if MaskFlags.nodata in flags:
        return "nodata"
    return "mask" if MaskFlags.per_dataset in flags else "none"


def check_dtype(src: DatasetReader) -> Permanent | None:
    """A mistake where the pixels are complex numbers."""
    odd = next((name for name in src.dtypes if "complex" in name), None)
    return odd and Permanent(
        f"the pixels are complex numbers ({odd})",
        code="raster.dtype",
        remedy="Write amplitude and phase as bands of real numbers.",
    )


def check_masks(src: DatasetReader) -> Permanent | None:
    """A mistake where bands have masks of their own: a COG has one for all of them."""
    if all(src.mask_flag_enums):
        return None
    return Permanent(
        "the bands have masks of their own, and a COG has one mask for all bands",
        code="raster.band_masks",
        remedy="Write a nodata value where a band has no data, for example with `gdalwarp -dstnodata`; "
        "or send each band as a raster by itself.",
    )


def check_alpha(src: DatasetReader) -> tuple[Notice, ...]:
    """Tell of an alpha band that takes less than its type for opaque."""
    if ColorInterp.alpha not in src.colorinterp:
        return ()
    band = src.colorinterp.index(ColorInterp.alpha) + 1
    shrink = max(1.0, max(src.width, src.height) / LOOK)
    shape = max(1, round(src.height / shrink)), max(1, round(src.width / shrink))
    opaque, dtype = (
        opaque_of(read_window(src, Window(0, 0, src.width, src.height), [band], shape)),
        src.dtypes[band - 1],
    )
    if dtype not in ("uint8", "uint16") or opaque == np.iinfo(dtype).max:
        return ()
    message = f"The alpha band is of {dtype}, and no value of it is over {opaque:g}; maps take that for opaque."
    return (Notice(code="raster.alpha_range", message=message),)


def check_nodata(src: DatasetReader, path: Path) -> tuple[Mends, tuple[Notice, ...]]:
    """Drop a nodata value that no pixel can have; GDAL may not tell of it, and would copy it all the same."""
    told = read_nodata(path) if src.driver == "GTiff" else ""
    odd = [f"{value:g}" for value, dtype in zip(src.nodatavals, src.dtypes, strict=True) if not fits(value, dtype)]
    if not odd and not (told and src.nodata is None):
        return Mends(), ()
    value = odd[0] if odd else told
    message = f"The nodata value {value} can't occur in {src.dtypes[0]}; it is left out, and every pixel is valid."
    return Mends(nodata="drop"), (Notice(code="raster.nodata_outside", message=message),)


def fits(value: float | None, dtype: str) -> bool:
    """Whether a pixel of this type can have this value."""
    if value is None or "complex" in dtype:
        return True
    if np.dtype(dtype).kind == "f":
        return not math.isfinite(value) or abs(value) <= float(np.finfo(dtype).max)
    limits = np.iinfo(dtype)
    return math.isfinite(value) and value == int(value) and int(limits.min) <= int(value) <= int(limits.max)
