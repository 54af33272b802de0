"""Verifies a COG: its structure with rio-cogeo, its pixels against the source (R4)."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import rasterio
from rasterio.crs import CRS
from rasterio.enums import ColorInterp, Resampling
from rasterio.io import DatasetReader
from rasterio.windows import Window

from anabranch.errors import Permanent
from anabranch.plugins.raster.checks.bands import Palette, colours_of, describe_bands, mask_kind, palette_of
from anabranch.plugins.raster.checks.crs import coincide, name_crs
from anabranch.plugins.raster.cog.cog_structure import check_structure, overview_factors
from anabranch.plugins.raster.cog.retile import strips
from anabranch.plugins.raster.cog.target_view import View, open_view, source_part
from anabranch.plugins.raster.cog.verify_overviews import check_overviews
from anabranch.plugins.raster.files.pixels import Array, Mask, Totals, data_bands, read_valid, read_window, windows
from anabranch.plugins.raster.files.reader import bounded, choose_threads, quiet
from anabranch.plugins.raster.files.source import Source
from anabranch.plugins.raster.models import CogOptions, Compared, Statistics

__all__ = ["verify"]

WINDOW_BYTES = 16 * 1024**2
LOSSY_MEAN_TOLERANCE = 4.0  # how far means may differ after lossy compression, in 8-bit values
# How far cubic resampling overshoots, as a share of the range: 0.28, and more where its kernel is scaled.
CUBIC_OVERSHOOT_SHARE = 0.5
ROUNDING_SHARE = 0.01
CRS_TOLERANCE_PIXELS = 1e-3  # of a pixel
MAX_SHOWN_VALUES = 16
MAX_CLASSES = 100_000
_BANDS_PER_READ = 16


@dataclass
class Comparison:
    """The result of a full comparison of source and COG."""

    source: dict[int, Totals] = field(default_factory=dict)  # of a COG that is resampled
    view: dict[int, Totals] = field(default_factory=dict)  # the exact pixels of a COG with lossy compression
    cog: dict[int, Totals] = field(default_factory=dict)
    classes: set[float] = field(default_factory=set)  # the class values of the source, or the first ones of too many
    shown: set[float] = field(default_factory=set)  # and in the COG
    differences: int = 0


def verify(source: Source, cog: Path, options: CogOptions) -> Compared:
    """Compare all of a COG with its source, and raise one error that lists every difference."""
    wrong = check_structure(cog)
    memory = bounded(options.memory_mb, options.threads or choose_threads(source))
    with memory, open_view(source, options) as view, quiet(), rasterio.open(cog, driver="GTiff") as out:
        wrong += _facts(view, out)
        if (out.width, out.height, out.count) != (view.width, view.height, view.count):
            raise _failed(cog, wrong)
        found = _compare(view, out)
        if view.warped and not view.options.window and _lost_all(found):
            raise _nowhere(options)
        wrong += [*_pixels(view, found), *_classes(found), *check_overviews(cog, view)]
        if wrong:
            raise _failed(cog, wrong)
        return Compared(
            size_bytes=cog.stat().st_size,
            bands=describe_bands(out, found.cog, exact=True),
            compared=_way(view),
            overviews=overview_factors(cog),
        )


def _way(view: View) -> str:
    if view.encoding.lossy:
        return "statistics after lossy compression"
    return "every pixel after resampling" if view.warped else "every pixel"


def _facts(view: View, out: DatasetReader) -> list[str]:
    src = view.src
    pairs = {
        "its size": ((out.width, out.height), (view.width, view.height)),
        "its number of bands": (out.count, view.count),
        "its data types": (out.dtypes, src.dtypes),
        "its nodata value": (str(out.nodata), str(view.nodata)),
        "its mask": (mask_kind(out) == "mask", view.masked),
        "its colours": (_colours(out, view), _colours(src, view)),
        "its band names": (out.descriptions, src.descriptions),
        "its units": (out.units, src.units),
        "its scales": (out.scales, src.scales),
        "its offsets": (out.offsets, src.offsets),
    }
    wrong = [
        f"{what}: {_format(found)} instead of {_format(wanted)}"
        for what, (found, wanted) in pairs.items()
        if found != wanted
    ]
    wrong += _palettes(palette_of(out), palette_of(src))
    if not _same_place(out, view):
        wrong.append(f"its CRS: {_name(out.crs)} instead of {_name(view.crs)}")
    if not out.transform.almost_equals(view.transform, precision=1e-6 * abs(view.transform.a)):
        wrong.append(f"its geotransform: {out.transform[:6]} instead of {view.transform[:6]}")
    return wrong


def _format(value: object) -> str:
    """A value for an error message."""
    if isinstance(value, tuple):
        return f"({', '.join(map(_format, value))})" if len(value) <= MAX_SHOWN_VALUES else f"{len(value)} values"
    return value.name if isinstance(value, ColorInterp) else f"{value}"


def _palettes(found: Palette, wanted: Palette) -> list[str]:
    odd = [value for value in wanted.keys() | found.keys() if found.get(value) != wanted.get(value)]
    return [f"its palette: the colours of {len(odd)} values, {min(odd)} the first of them"] if odd else []


def _same_place(out: DatasetReader, view: View) -> bool:
    """Whether both CRSs are the same; where one has no code, whether they give the raster the same coordinates."""
    if out.crs == view.crs:
        return True
    codes = [crs.to_epsg() if crs else None for crs in (out.crs, view.crs)]
    if all(codes) or not out.crs:
        return codes[0] == codes[1] is not None
    corners = [view.transform * corner for corner in ((0, 0), (view.width, 0), (0, view.height))]
    return coincide(view.crs, out.crs, corners, CRS_TOLERANCE_PIXELS * abs(view.transform.a))


def _name(crs: CRS | None) -> str:
    return (name_crs(crs) or crs.to_wkt()[:60]) if crs else "none"


def _colours(raster: DatasetReader, view: View) -> tuple[ColorInterp, ...]:
    # JPEG and WEBP hold red, green and blue, whatever the source calls its three bands.
    return colours_of(raster)[3 if view.encoding.lossy else 0 :]


def _compare(view: View, out: DatasetReader) -> Comparison:
    bands = data_bands(out)
    source, seen, cog = ({band: Totals() for band in bands} for _ in range(3))
    found = Comparison(source, seen, cog)
    classes = view.warped and view.encoding.reprojection is Resampling.nearest
    for window in strips(view, WINDOW_BYTES):  # as the writer reads it: warped pixels depend on their window
        found.differences += _differences(view, out, window)
        _add(out, window, bands, found.cog, found.shown if classes else None)
        _add_view(view, window, bands, found.view)
    if view.warped:
        for window in windows(view.src, WINDOW_BYTES, source_part(view)):
            _add(view.src, window, bands, found.source, found.classes if classes else None)
    return found


def _add(
    raster: DatasetReader,
    window: Window,
    bands: list[int],
    totals: dict[int, Totals],
    values: set[float] | None = None,
) -> None:
    for part in _some(bands):
        data, valid = read_valid(raster, window, part)
        for number, band in enumerate(part):
            totals[band].add(data[number], valid[number])
        if values is not None and len(values) <= MAX_CLASSES:
            values.update(np.unique(data[valid])[: MAX_CLASSES + 1].tolist())


def _add_view(view: View, window: Window, bands: list[int], totals: dict[int, Totals]) -> None:
    """Add the statistics of the view, needed only where lossy compression changed the values."""
    if not view.encoding.lossy:
        return
    valid = view.read_mask(window)
    for band in bands:
        totals[band].add(view.read(window, [band])[0], valid)


def _differences(view: View, out: DatasetReader, window: Window) -> int:
    if view.encoding.lossy:
        return 0
    count = 0
    for part in _some(list(range(1, view.count + 1))):
        count += _unequal(view.read(window, part), read_window(out, window, part))
    if view.masked:
        count += int(np.count_nonzero(view.read_mask(window) != (out.dataset_mask(window=window) > 0)))
    return count


def _unequal(first: Array, second: Array) -> int:
    if np.array_equal(first, second):
        return 0
    apart: Mask = first != second
    if first.dtype.kind == "f":
        apart &= ~(np.isnan(first) & np.isnan(second))
    return int(np.count_nonzero(apart))


def _some(bands: list[int]) -> Iterator[list[int]]:
    return (bands[start : start + _BANDS_PER_READ] for start in range(0, len(bands), _BANDS_PER_READ))


def _pixels(view: View, found: Comparison) -> list[str]:
    wrong = [f"{found.differences:,} values differ from the source"] if found.differences else []
    for band, totals in found.cog.items():
        ours = totals.statistics(exact=True)
        if view.encoding.lossy and not _same_mean(ours, before := found.view[band].statistics(exact=True)):
            wrong.append(f"the statistics of band {band}: {_sum_up(ours)} instead of {_sum_up(before)}")
        if view.warped and not _within(ours, before := found.source[band].statistics(exact=True), view):
            wrong.append(f"the range of band {band}: {_sum_up(ours)} instead of {_sum_up(before)}")
    return wrong


def _sum_up(found: Statistics | None) -> str:
    if found is None:
        return "no data"
    return f"{found.minimum:g} to {found.maximum:g} with a mean of {found.mean:g}"


def _same_mean(ours: Statistics | None, before: Statistics | None) -> bool:
    if ours is None or before is None:
        return ours is before
    return abs(ours.mean - before.mean) <= LOSSY_MEAN_TOLERANCE


def _within(ours: Statistics | None, before: Statistics | None, view: View) -> bool:
    """Whether resampling stayed in the range of the source."""
    if ours is None or before is None:
        return ours is None
    share = CUBIC_OVERSHOOT_SHARE if view.encoding.reprojection is Resampling.cubic else ROUNDING_SHARE
    beyond = share * (before.maximum - before.minimum)
    return ours.minimum >= before.minimum - beyond and ours.maximum <= before.maximum + beyond


def _classes(found: Comparison) -> list[str]:
    """Resampling must not make a class that the source lacks; a raster with too many values has no classes."""
    if len(found.classes) > MAX_CLASSES:
        return []
    odd = sorted(found.shown - found.classes)
    return [f"it has values that the source lacks: {', '.join(f'{value:g}' for value in odd[:5])}"] if odd else []


def _lost_all(found: Comparison) -> bool:
    before, ours = (sum(totals.valid for totals in each.values()) for each in (found.source, found.cog))
    return before > 0 and ours == 0


def _nowhere(options: CogOptions) -> Permanent:
    return Permanent(
        f"no pixel of the raster has a position in {options.target_crs}",
        code="raster.reprojection",
        remedy="Choose a `target_crs` that covers the raster.",
    )


def _failed(cog: Path, wrong: list[str]) -> Permanent:
    return Permanent(
        f"{cog.name} failed verification: {'; '.join(wrong)}",
        code="raster.verify",
        remedy="It was not published, and running the job again gives the same result: this is a bug in Anabranch. "
        "Report it with this message and the output of `gdalinfo` for the source.",
    )
