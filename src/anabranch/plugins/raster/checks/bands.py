"""Band metadata of a file, and checks of data types, masks, alpha and nodata."""

import math
from typing import Literal

import numpy as np
from rasterio.enums import ColorInterp, MaskFlags
from rasterio.io import DatasetReader
from rasterio.windows import Window

from anabranch.errors import Permanent
from anabranch.geo.alpha import opaque_of
from anabranch.plugins.raster.files.pixels import Totals, alpha_band, read_window
from anabranch.plugins.raster.files.source import Openable
from anabranch.plugins.raster.files.tiff import read_nodata
from anabranch.plugins.raster.models import Band, Notice, Repairs, to_nodata

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

ALPHA_SAMPLE_PIXELS = 512
Palette = dict[int, tuple[int, int, int, int]]


def describe_bands(src: DatasetReader, totals: dict[int, Totals], *, exact: bool) -> tuple[Band, ...]:
    """Every band with its metadata, and with statistics where its pixels were read."""
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
    """The colours of classes; empty where the file declares a palette and has none."""
    try:
        return dict(src.colormap(1)) if src.colorinterp[0] == ColorInterp.palette else {}
    except ValueError:
        return {}


def colours_of(src: DatasetReader) -> tuple[ColorInterp, ...]:
    """The colour interpretation of each band; gray where it is undefined, or a palette without colours."""
    plain = {ColorInterp.undefined, *(() if palette_of(src) else (ColorInterp.palette,))}
    return tuple(ColorInterp.gray if colour in plain else colour for colour in src.colorinterp)


def mask_kind(src: DatasetReader) -> Literal["none", "nodata", "mask", "alpha"]:
    """How the file marks valid pixels."""
    flags = src.mask_flag_enums[0]
    if MaskFlags.alpha in flags:
        return "alpha"
    if MaskFlags.nodata in flags:
        return "nodata"
    if MaskFlags.per_dataset in flags:
        return "mask"
    return "none" if alpha_band(src) is None else "alpha"


def check_dtype(src: DatasetReader) -> Permanent | None:
    """An error where the pixels are complex numbers."""
    odd = next((name for name in src.dtypes if "complex" in name), None)
    return odd and Permanent(
        f"the pixels are complex numbers ({odd})",
        code="raster.dtype",
        remedy="Write amplitude and phase as bands of real numbers.",
    )


def check_masks(src: DatasetReader) -> Permanent | None:
    """An error where bands have separate masks: a COG has one mask for all bands."""
    if all(src.mask_flag_enums):
        return None
    return Permanent(
        "the bands have separate masks, but a COG has one mask for all bands",
        code="raster.band_masks",
        remedy="Write a nodata value where a band has no data, for example with `gdalwarp -dstnodata`; "
        "or send each band as a separate raster.",
    )


def check_alpha(src: DatasetReader) -> tuple[Notice, ...]:
    """Report an alpha band whose opaque value is below the maximum of its data type."""
    if (band := alpha_band(src)) is None:
        return ()
    shrink = max(1.0, max(src.width, src.height) / ALPHA_SAMPLE_PIXELS)
    shape = max(1, round(src.height / shrink)), max(1, round(src.width / shrink))
    opaque, dtype = (
        opaque_of(read_window(src, Window(0, 0, src.width, src.height), [band], shape)),
        src.dtypes[band - 1],
    )
    if dtype not in ("uint8", "uint16") or opaque == np.iinfo(dtype).max:
        return ()
    message = f"The alpha band is {dtype}, but no value exceeds {opaque:g}; maps treat {opaque:g} as opaque."
    return (Notice(code="raster.alpha_range", message=message),)


def check_nodata(src: DatasetReader, path: Openable) -> tuple[Repairs, tuple[Notice, ...]]:
    """Drop a nodata value that no pixel can have; GDAL may not report it, but would copy it."""
    declared = read_nodata(path) if src.driver == "GTiff" else ""
    odd = [f"{value:g}" for value, dtype in zip(src.nodatavals, src.dtypes, strict=True) if not fits(value, dtype)]
    if not odd and not (declared and src.nodata is None):
        return Repairs(), ()
    value = odd[0] if odd else declared
    message = f"The nodata value {value} can't occur in {src.dtypes[0]}; it is dropped, and every pixel is valid."
    return Repairs(nodata="drop"), (Notice(code="raster.nodata_outside", message=message),)


def fits(value: float | None, dtype: str) -> bool:
    """Whether a pixel of this type can have this value."""
    if value is None or "complex" in dtype:
        return True
    if np.dtype(dtype).kind == "f":
        return not math.isfinite(value) or abs(value) <= float(np.finfo(dtype).max)
    limits = np.iinfo(dtype)
    return math.isfinite(value) and value == int(value) and int(limits.min) <= int(value) <= int(limits.max)
