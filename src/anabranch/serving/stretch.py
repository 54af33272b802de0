"""What values bands are drawn between where nobody says: those that the item tells of, else those of an overview."""

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import rasterio
from pydantic import BaseModel, ConfigDict, FiniteFloat, ValidationError
from rasterio.enums import ColorInterp

from anabranch.serving.drivers import CONFIG
from anabranch.serving.geotiff import GeoTiff
from anabranch.serving.objects import Remote

__all__ = ["MOST_BANDS", "Range", "Stretches", "Wanted", "ranges_of"]

Range = tuple[float, float]

SIDE = 256
LOW, HIGH = 2.0, 98.0
SPREAD = 2.0
MOST_KNOWN = 512
MOST_BANDS = 64  # that a caller may name


class Statistics(BaseModel):
    """What an item tells of the values of a band."""

    model_config = ConfigDict(frozen=True)
    minimum: FiniteFloat
    maximum: FiniteFloat
    mean: FiniteFloat | None = None
    stddev: FiniteFloat | None = None

    def range(self) -> Range:
        """From least to most, without what is far from the mean: one wrong pixel would make all others one colour."""
        low, high = self.minimum, self.maximum
        if self.mean is not None and self.stddev:
            low, high = max(low, self.mean - SPREAD * self.stddev), min(high, self.mean + SPREAD * self.stddev)
        return _apart(low, high)


def ranges_of(asset: Mapping[str, Any]) -> tuple[Range | None, ...]:  # STAC's own shape
    """A range for each band of an asset, as its statistics tell, also in the words of older items."""
    bands = asset.get("bands") or asset.get("raster:bands")
    if not isinstance(bands, list) or not bands:
        bands = [asset]
    return tuple(_range_of(band) for band in bands)


def _range_of(band: object) -> Range | None:
    if not isinstance(band, Mapping):
        return None
    # Of scaled values nobody says whether the statistics are before or after.
    scaled = any(band.get(f"{prefix}scale", 1) != 1 or band.get(f"{prefix}offset", 0) for prefix in ("", "raster:"))
    try:
        return None if scaled else Statistics.model_validate(band.get("statistics")).range()
    except ValidationError:
        return None


@dataclass(frozen=True)
class Wanted:
    """What is drawn: a raster, the bands that are named, and what value is none, as the caller writes it: a number."""

    address: str
    bands: tuple[int, ...] = ()
    nodata: str | None = None


class Stretches:
    """Knows for rasters what they were found to be drawn between; a file never changes under its address."""

    def __init__(self) -> None:
        """Nothing is known yet."""
        self._known: dict[object, Sequence[Range]] = {}

    async def find(
        self, wanted: Wanted, told: Sequence[Range | None], locate: Callable[[], Awaitable[Path | Remote]]
    ) -> Sequence[Range]:
        """A range for each band that is drawn, as the item tells or else as is found; none where no stretch is due."""
        key = wanted, tuple(told)
        if key not in self._known:
            found = await asyncio.to_thread(_measure, await locate(), wanted, told)
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            self._known[key] = found
        return self._known[key]


def _measure(source: Any, wanted: Wanted, told: Sequence[Range | None]) -> Sequence[Range]:  # as GeoTiff takes it
    with rasterio.Env(**CONFIG), GeoTiff(source, draws=True) as raster:
        bands = wanted.bands or tuple(raster.drawn())
        if not set(bands) <= set(raster.dataset.indexes) or not _is_due(raster.dataset, bands):
            return ()
        known = [told[band - 1] for band in bands] if len(told) == raster.dataset.count else []
        # Statistics of an item know nothing of a value that the caller takes for none.
        if all(known) and known and wanted.nodata is None:
            return [band for band in known if band]
        nodata = None if wanted.nodata is None else float(wanted.nodata)
        image = raster.read(list(bands), max_size=SIDE, nodata=nodata)
        return [_percentiles(band.compressed()) for band in image.array]


def _is_due(dataset: Any, bands: Sequence[int]) -> bool:  # rasterio's, which has no types
    """Bytes are drawn as they are, and a palette says itself how."""
    kinds = [np.dtype(dataset.dtypes[band - 1]) for band in bands]
    plain = all(kind == np.uint8 for kind in kinds) or any(kind.kind not in "iuf" for kind in kinds)
    return not plain and ColorInterp.palette not in dataset.colorinterp


def _percentiles(values: Any) -> Range:  # an array of numpy's
    if not values.size:
        return 0.0, 1.0
    low, high = np.percentile(values.astype(np.float64), (LOW, HIGH)).tolist()
    return _apart(low, high)


def _apart(low: float, high: float) -> Range:
    """The range, not empty."""
    return (low, high) if high > low else (low, max(low + 1.0, math.nextafter(low, math.inf)))
