"""What a raster's pixels are, from a sample of its blocks; what a sample would refuse is read whole first."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from rasterio.io import DatasetReader
from rasterio.windows import Window

from anabranch.errors import Permanent
from anabranch.plugins.raster.models import Notice
from anabranch.plugins.raster.pixels import Array, Mask, Totals, data_bands, read_valid, spread, windows

__all__ = ["FEW", "Content", "look"]

SAMPLES = 48
SIDE = 512
WHOLE = 16_000_000
VALUES = 256
FEW = 32
EMPTY, NEARLY_EMPTY = 99.0, 90.0
ABSURD = 1e30
BUDGET = 16 * 1024**2
_MANY = 16


@dataclass
class Content:
    """What the pixels that were read are."""

    exact: bool
    bands: dict[int, Totals] = field(default_factory=dict)
    pixels: int = 0
    invalid: int = 0
    values: set[float] = field(default_factory=set)
    steps: list[float] = field(default_factory=list)
    pairs: Counter[tuple[float, float]] = field(default_factory=Counter)  # of few values, those beside each other
    undeclared_nan: bool = False

    @property
    def nodata_percent(self) -> float:
        """How much of the raster has no data in any band."""
        return 100.0 * self.invalid / max(1, self.pixels)

    @property
    def smoothness(self) -> float:
        """The mean step between neighbours of the first band, over its standard deviation."""
        found = self.bands[min(self.bands)].statistics(exact=False)
        return float(np.mean(self.steps)) / found.stddev if found and found.stddev and self.steps else 0.0

    @property
    def looks_like_names(self) -> bool:
        """Whether patches of one value meet others of any other, as those of classes do, and not in steps."""
        ranks = {value: rank for rank, value in enumerate(sorted(self.values))}
        steps: Counter[int] = Counter()
        for (left, right), count in self.pairs.items():
            steps[abs(ranks[left] - ranks[right])] += count
        apart = steps.total() - steps[0]
        return steps[0] >= apart and steps[1] < apart / 2

    def mistakes(self) -> list[Permanent]:
        """What is wrong with the pixels."""
        found = [_empty(self.nodata_percent)] if self.nodata_percent >= EMPTY else []
        absurd = [band for band, total in self.bands.items() if _is_absurd(total)]
        return [*found, _absurd(absurd[0], self.bands[absurd[0]])] if absurd else found

    def notices(self) -> list[Notice]:
        """What is odd about the pixels."""
        found = []
        if NEARLY_EMPTY <= self.nodata_percent < EMPTY:
            message = f"{self.nodata_percent:.1f} % of the raster is nodata."
            found.append(Notice(code="raster.nearly_empty", message=message))
        if self.undeclared_nan:
            message = "The raster has NaN pixels and declares no nodata; NaN is declared in the output."
            found.append(Notice(code="raster.nan_undeclared", message=message))
        return found


def look(src: DatasetReader) -> Content:
    """Read a sample, or all where the raster is small or the sample says that it is empty."""
    if src.width * src.height * src.count <= WHOLE:
        return _read(src, windows(src, BUDGET), exact=True)
    found = _read(src, spread(src, max(8, SAMPLES // -(-src.count // _MANY)), SIDE), exact=False)
    return _read(src, windows(src, BUDGET), exact=True) if found.nodata_percent >= EMPTY else found


def _read(src: DatasetReader, places: Iterable[Window], *, exact: bool) -> Content:
    bands = data_bands(src)
    content = Content(exact, {band: Totals() for band in bands})
    for window in places:
        anywhere = np.zeros((window.height, window.width), bool)
        for start in range(0, len(bands), _MANY):
            part = bands[start : start + _MANY]
            data, valid = read_valid(src, window, part)
            anywhere |= valid.any(axis=0)
            _add(content, part, data, valid)
        content.pixels += anywhere.size
        content.invalid += int(anywhere.size - np.count_nonzero(anywhere))
    content.undeclared_nan = src.nodata is None and content.undeclared_nan
    return content


def _add(content: Content, bands: list[int], data: Array, valid: Mask) -> None:
    for number, band in enumerate(bands):
        content.bands[band].add(data[number], valid[number])
    if data.dtype.kind == "f" and not content.undeclared_nan:
        content.undeclared_nan = bool(np.isnan(data).any())
    if bands[0] == min(content.bands):
        _add_first(content, data[0], valid[0])


def _add_first(content: Content, data: Array, valid: Mask) -> None:
    """Note the distinct values of the first band, up to a number, and its steps from pixel to pixel."""
    if len(content.values) <= VALUES and data.dtype.kind in "iu":
        found = np.unique(data[valid])
        content.values.update(found[: VALUES + 1].tolist())
        if len(content.values) <= FEW:
            _add_pairs(content.pairs, found, data, valid)
    both = valid[:, 1:] & valid[:, :-1]
    if both.any():
        steps = np.abs(data[:, 1:].astype(np.float64) - data[:, :-1].astype(np.float64))[both]
        content.steps.append(float(steps.mean()))


def _add_pairs(pairs: Counter[tuple[float, float]], values: Array, data: Array, valid: Mask) -> None:
    """Count which of few values lie beside which."""
    both, places = valid[:, 1:] & valid[:, :-1], np.searchsorted(values, data)
    counts = np.bincount((places[:, :-1] * len(values) + places[:, 1:])[both], minlength=len(values) ** 2)
    for number in np.flatnonzero(counts).tolist():
        left, right = divmod(number, len(values))
        pairs[values[left].item(), values[right].item()] += int(counts[number])


def _is_absurd(total: Totals) -> bool:
    return max(abs(total.minimum), abs(total.maximum)) >= ABSURD and total.maximum >= total.minimum


def _empty(percent: float) -> Permanent:
    share = f"{percent:.2f} %" if percent < 100 else "all"
    return Permanent(
        f"{share} of the raster is nodata",
        code="raster.empty_pixels",
        remedy="Send a raster that has data; if it has some, mend its nodata value, mask or alpha band.",
    )


def _absurd(band: int, total: Totals) -> Permanent:
    worst = total.maximum if abs(total.maximum) >= ABSURD else total.minimum
    return Permanent(
        f"band {band} has the value {worst:g}, which looks like a fill value that is not declared as nodata",
        code="raster.fill_value",
        remedy="Declare it as nodata in the file, for example with `gdal_edit.py -a_nodata`.",
    )
