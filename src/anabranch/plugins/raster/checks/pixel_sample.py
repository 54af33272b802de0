"""Facts about a raster's pixels, from a sample of its blocks; a sample that looks empty is followed by a full read."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from rasterio.io import DatasetReader
from rasterio.windows import Window

from anabranch.errors import Permanent
from anabranch.plugins.raster.files.pixels import Array, Mask, Totals, data_bands, read_valid, spread, windows
from anabranch.plugins.raster.models import Notice

__all__ = ["MAX_CLASS_VALUES", "PixelSample", "sample_pixels"]

SAMPLE_WINDOWS = 48
WINDOW_PIXELS = 512
MAX_FULL_READ_VALUES = 16_000_000
MAX_DISTINCT_VALUES = 256
MAX_CLASS_VALUES = 32
EMPTY_PERCENT, NEARLY_EMPTY_PERCENT = 99.0, 90.0
IMPLAUSIBLE_VALUE = 1e30
WINDOW_BYTES = 16 * 1024**2
_BANDS_PER_READ = 16


@dataclass
class PixelSample:
    """Facts about the pixels that were read."""

    exact: bool
    bands: dict[int, Totals] = field(default_factory=dict)
    pixels: int = 0
    invalid: int = 0
    values: set[float] = field(default_factory=set)
    steps: list[float] = field(default_factory=list)
    pairs: Counter[tuple[float, float]] = field(default_factory=Counter)  # neighbours, where there are few values
    undeclared_nan: bool = False

    @property
    def nodata_percent(self) -> float:
        """The share of the raster without data in any band."""
        return 100.0 * self.invalid / max(1, self.pixels)

    @property
    def smoothness(self) -> float:
        """The mean difference of neighbours in the first band, divided by its standard deviation."""
        found = self.bands[min(self.bands)].statistics(exact=False)
        return float(np.mean(self.steps)) / found.stddev if found and found.stddev and self.steps else 0.0

    @property
    def looks_like_classes(self) -> bool:
        """Whether patches border on patches of any other value, as classes do, and not mostly on the next value."""
        ranks = {value: rank for rank, value in enumerate(sorted(self.values))}
        steps: Counter[int] = Counter()
        for (left, right), count in self.pairs.items():
            steps[abs(ranks[left] - ranks[right])] += count
        apart = steps.total() - steps[0]
        return steps[0] >= apart and steps[1] < apart / 2

    def errors(self) -> list[Permanent]:
        """Errors of the pixels."""
        found = [_empty(self.nodata_percent)] if self.nodata_percent >= EMPTY_PERCENT else []
        implausible = [band for band, total in self.bands.items() if _is_implausible(total)]
        return [*found, _fill_value(implausible[0], self.bands[implausible[0]])] if implausible else found

    def notices(self) -> list[Notice]:
        """Notices about the pixels."""
        found = []
        if NEARLY_EMPTY_PERCENT <= self.nodata_percent < EMPTY_PERCENT:
            message = f"{self.nodata_percent:.1f} % of the raster is nodata."
            found.append(Notice(code="raster.nearly_empty", message=message))
        if self.undeclared_nan:
            message = "The raster has NaN pixels and declares no nodata; NaN is declared in the output."
            found.append(Notice(code="raster.nan_undeclared", message=message))
        return found


def sample_pixels(src: DatasetReader) -> PixelSample:
    """Read a sample, or all pixels where the raster is small or the sample looks empty."""
    if src.width * src.height * src.count <= MAX_FULL_READ_VALUES:
        return _read(src, windows(src, WINDOW_BYTES), exact=True)
    found = _read(
        src, spread(src, max(8, SAMPLE_WINDOWS // -(-src.count // _BANDS_PER_READ)), WINDOW_PIXELS), exact=False
    )
    return _read(src, windows(src, WINDOW_BYTES), exact=True) if found.nodata_percent >= EMPTY_PERCENT else found


def _read(src: DatasetReader, places: Iterable[Window], *, exact: bool) -> PixelSample:
    bands = data_bands(src)
    sample = PixelSample(exact, {band: Totals() for band in bands})
    for window in places:
        anywhere = np.zeros((window.height, window.width), bool)
        for start in range(0, len(bands), _BANDS_PER_READ):
            part = bands[start : start + _BANDS_PER_READ]
            data, valid = read_valid(src, window, part)
            anywhere |= valid.any(axis=0)
            _add(sample, part, data, valid)
        sample.pixels += anywhere.size
        sample.invalid += int(anywhere.size - np.count_nonzero(anywhere))
    sample.undeclared_nan = src.nodata is None and sample.undeclared_nan
    return sample


def _add(sample: PixelSample, bands: list[int], data: Array, valid: Mask) -> None:
    for number, band in enumerate(bands):
        sample.bands[band].add(data[number], valid[number])
    if data.dtype.kind == "f" and not sample.undeclared_nan:
        sample.undeclared_nan = bool(np.isnan(data).any())
    if bands[0] == min(sample.bands):
        _add_first(sample, data[0], valid[0])


def _add_first(sample: PixelSample, data: Array, valid: Mask) -> None:
    """Collect the distinct values of the first band, up to a limit, and the differences of neighbours."""
    if len(sample.values) <= MAX_DISTINCT_VALUES and data.dtype.kind in "iu":
        found = np.unique(data[valid])
        sample.values.update(found[: MAX_DISTINCT_VALUES + 1].tolist())
        if len(sample.values) <= MAX_CLASS_VALUES:
            _add_pairs(sample.pairs, found, data, valid)
    both = valid[:, 1:] & valid[:, :-1]
    if both.any():
        exact = np.result_type(data.dtype, np.float32)  # of 8 and 16 bits, half as wide as for others
        steps = np.abs(np.subtract(data[:, 1:], data[:, :-1], dtype=exact))
        sample.steps.append(float(steps.mean(where=both, dtype=np.float64)))


def _add_pairs(pairs: Counter[tuple[float, float]], values: Array, data: Array, valid: Mask) -> None:
    """Count which values are neighbours of which."""
    both, places = valid[:, 1:] & valid[:, :-1], np.searchsorted(values, data)
    counts = np.bincount((places[:, :-1] * len(values) + places[:, 1:])[both], minlength=len(values) ** 2)
    for number in np.flatnonzero(counts).tolist():
        left, right = divmod(number, len(values))
        pairs[values[left].item(), values[right].item()] += int(counts[number])


def _is_implausible(total: Totals) -> bool:
    return max(abs(total.minimum), abs(total.maximum)) >= IMPLAUSIBLE_VALUE and total.maximum >= total.minimum


def _empty(percent: float) -> Permanent:
    share = f"{percent:.2f} %" if percent < 100 else "all"
    return Permanent(
        f"{share} of the raster is nodata",
        code="raster.empty_pixels",
        remedy="Send a raster that has data; if this one does, fix its nodata value, mask or alpha band.",
    )


def _fill_value(band: int, total: Totals) -> Permanent:
    worst = total.maximum if abs(total.maximum) >= IMPLAUSIBLE_VALUE else total.minimum
    return Permanent(
        f"band {band} has the value {worst:g}, which looks like an undeclared fill value",
        code="raster.fill_value",
        remedy="Declare it as nodata in the file, for example with `gdal_edit.py -a_nodata`.",
    )
