"""Default rescale ranges of bands: from the item's statistics, else from an overview."""

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import rasterio
from pydantic import BaseModel, ConfigDict, FiniteFloat, ValidationError
from rasterio.enums import ColorInterp

from anabranch.serving.objects import Remote
from anabranch.serving.tiles.drivers import CONFIG
from anabranch.serving.tiles.mosaic.reader import open_reader
from anabranch.serving.tiles.mosaic.sources import MosaicSource

__all__ = ["MAX_BANDS", "Range", "RescaleRanges", "Wanted", "ranges_of", "wanted_of"]

Range = tuple[float, float]

SAMPLE_PIXELS = 256
LOW_PERCENTILE, HIGH_PERCENTILE = 2.0, 98.0
SPREAD_STDDEVS = 2.0
MAX_CACHED_RANGES = 512
MAX_BANDS = 64  # in one request


class Statistics(BaseModel):
    """The statistics of a band in an item."""

    model_config = ConfigDict(frozen=True)
    minimum: FiniteFloat
    maximum: FiniteFloat
    mean: FiniteFloat | None = None
    stddev: FiniteFloat | None = None

    def range(self) -> Range:
        """From minimum to maximum, clipped around the mean: one wrong pixel would make all others one colour."""
        low, high = self.minimum, self.maximum
        if self.mean is not None and self.stddev:
            low, high = (
                max(low, self.mean - SPREAD_STDDEVS * self.stddev),
                min(high, self.mean + SPREAD_STDDEVS * self.stddev),
            )
        return _apart(low, high)


def ranges_of(asset: Mapping[str, Any]) -> tuple[Range | None, ...]:  # STAC's own shape
    """A range for each band of an asset from its statistics, also in the fields of older items."""
    bands = asset.get("bands") or asset.get("raster:bands")
    if not isinstance(bands, list) or not bands:
        bands = [asset]
    return tuple(_range_of(band) for band in bands)


def _range_of(band: object) -> Range | None:
    if not isinstance(band, Mapping):
        return None
    # With a scale or offset, it is unknown whether the statistics are of raw or scaled values.
    scaled = any(band.get(f"{prefix}scale", 1) != 1 or band.get(f"{prefix}offset", 0) for prefix in ("", "raster:"))
    try:
        return None if scaled else Statistics.model_validate(band.get("statistics")).range()
    except ValidationError:
        return None


@dataclass(frozen=True)
class Wanted:
    """What to draw: a raster, the named bands, and the nodata value, a number as the caller writes it.

    A raster that others may replace has a version: the content of its address alone may change.
    """

    address: str
    bands: tuple[int, ...] = ()
    nodata: str | None = None
    version: str | None = None


def wanted_of(address: str, query: Iterable[tuple[str, str]], version: str | None = None) -> Wanted | None:
    """What to measure; None where the route will refuse the parameters."""
    given = list(query)
    bands, nodata = [value for name, value in given if name == "bidx"], dict(given).get("nodata")
    if len(bands) > MAX_BANDS:
        return None
    try:
        float(0 if nodata is None else nodata)
        return Wanted(address, tuple(map(int, bands)), nodata, version)
    except ValueError:
        return None


class RescaleRanges:
    """Caches the ranges of rasters by address and version, whose content never changes."""

    def __init__(self) -> None:
        """The cache is empty."""
        self._known: dict[object, Sequence[Range]] = {}

    async def find(
        self,
        wanted: Wanted,
        declared: Sequence[Range | None],
        locate: Callable[[], Awaitable[Path | Remote | MosaicSource]],
    ) -> Sequence[Range]:
        """A range for each drawn band, from the item or measured; empty where no rescaling is needed."""
        key = wanted, tuple(declared)
        if key not in self._known:
            found = await asyncio.to_thread(_measure, await locate(), wanted, declared)
            if len(self._known) >= MAX_CACHED_RANGES:
                self._known.clear()
            self._known[key] = found
        return self._known[key]


def _measure(source: Any, wanted: Wanted, declared: Sequence[Range | None]) -> Sequence[Range]:  # a source of a reader
    with rasterio.Env(**CONFIG), open_reader(source, draws=True) as raster:
        bands = wanted.bands or tuple(raster.drawn())
        if not set(bands) <= set(raster.dataset.indexes) or not _is_due(raster.dataset, bands):
            return ()
        known = [declared[band - 1] for band in bands] if len(declared) == raster.dataset.count else []
        # An item's statistics may include the value that the caller declares as nodata.
        if all(known) and known and wanted.nodata is None:
            return [band for band in known if band]
        nodata = None if wanted.nodata is None else float(wanted.nodata)
        image = raster.read(list(bands), max_size=SAMPLE_PIXELS, nodata=nodata)
        return [_percentiles(band.compressed()) for band in image.array]


def _is_due(dataset: Any, bands: Sequence[int]) -> bool:  # rasterio's, which has no types
    """Whether values need rescaling: 8-bit values and palettes are drawn unchanged."""
    kinds = [np.dtype(dataset.dtypes[band - 1]) for band in bands]
    plain = all(kind == np.uint8 for kind in kinds) or any(kind.kind not in "iuf" for kind in kinds)
    return not plain and ColorInterp.palette not in dataset.colorinterp


def _percentiles(values: Any) -> Range:  # a numpy array
    if not values.size:
        return 0.0, 1.0
    low, high = np.percentile(values.astype(np.float64), (LOW_PERCENTILE, HIGH_PERCENTILE)).tolist()
    return _apart(low, high)


def _apart(low: float, high: float) -> Range:
    """The range, widened where it is empty."""
    return (low, high) if high > low else (low, max(low + 1.0, math.nextafter(low, math.inf)))
