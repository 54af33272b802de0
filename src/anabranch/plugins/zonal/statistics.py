"""Statistics of a raster in polygons, by the exact share of each pixel that a polygon covers."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import rasterio
import shapely
from exactextract import exact_extract
from exactextract.feature import Feature, FeatureSource
from exactextract.operation import Operation
from exactextract.raster import RasterioRasterSource
from exactextract.writer import Writer

from anabranch.errors import Permanent
from anabranch.plugins.zonal.models import BandStatistics, MosaicTiles, Statistic
from anabranch.plugins.zonal.mosaic import MosaicRaster
from anabranch.plugins.zonal.placement import place, require_north_up

if TYPE_CHECKING:
    import numpy.typing as npt
    from rasterio.io import DatasetReader

    from anabranch.plugins.vector.models import Geometries
    from anabranch.plugins.zonal.placement import RasterGrid

    Mask = npt.NDArray[np.bool_]

__all__ = ["Measures", "Progress", "find_tiles", "measure"]

MB = 2**20
BYTES_PER_CELL = 64  # of all arrays that exactextract holds of a cell at once
BATCH_POLYGONS = 500
PERCENTILES = {
    Statistic.P05: 5, Statistic.P10: 10, Statistic.P25: 25, Statistic.P75: 75, Statistic.P90: 90, Statistic.P95: 95
}  # fmt: skip
Progress = Callable[[float, float | None, str], None]


@dataclass(frozen=True)
class Measures:
    """The statistics of each polygon, null where it has none: it is outside the raster, or has no valid pixel."""

    columns: pa.RecordBatch
    outside: "Mask"
    without_data: "Mask"


def open_raster(path: Path, mosaic: MosaicTiles | None, tiles: Path | None) -> "DatasetReader | MosaicRaster":
    """A COG; or, of a mosaic, whose overview is at the path, the tiles in a folder as one raster."""
    raster = MosaicRaster(path, mosaic, tiles) if mosaic and tiles else rasterio.open(path, driver="GTiff")
    require_north_up(raster)
    return raster


def find_tiles(path: Path, mosaic: MosaicTiles, tiles: Path, geometry: "Geometries") -> MosaicTiles:
    """Those tiles of a mosaic that polygons in EPSG:4326 touch."""
    with open_raster(path, mosaic, tiles) as raster:
        placed = place(geometry, raster)
    boxes = shapely.box(*np.array([mosaic.grid.bounds(window) for window in mosaic.windows]).T)
    _, touched = shapely.STRtree(boxes).query(placed, predicate="intersects")
    return mosaic.model_copy(update={"windows": tuple(mosaic.windows[number] for number in np.unique(touched))})


def measure(
    path: Path,
    geometry: "Geometries",
    wanted: BandStatistics,
    memory_mb: int,
    progress: Progress,
    mosaic: MosaicTiles | None = None,
    tiles: Path | None = None,
) -> Measures:
    """The statistics of polygons in EPSG:4326; those outside the raster have a count of 0 and no other."""
    with open_raster(path, mosaic, tiles) as raster:
        _require_band(raster, wanted.band)
        placed = place(geometry, raster)
        inside = shapely.intersects(shapely.box(*raster.bounds), placed)
        names = tuple(dict.fromkeys((Statistic.COUNT, *wanted.statistics)))
        values = np.full((len(names), len(geometry)), np.nan)
        values[:, inside] = _extract(raster, wanted.band, names, placed[inside], memory_mb, progress)
    counts = np.nan_to_num(values[0])
    values[1:, counts == 0] = np.nan
    values[0] = counts
    columns = {name: _column(name, values[names.index(name)]) for name in wanted.statistics}
    return Measures(pa.record_batch(columns), ~inside, inside & (counts == 0))


def _require_band(raster: "RasterGrid", band: int) -> None:
    if band > raster.count:
        raise Permanent(
            f"the raster has {raster.count} bands, and no band {band}",
            code="zonal.band",
            remedy=f"Give a `band` from 1 to {raster.count}.",
        )


def _extract(
    raster: "DatasetReader | MosaicRaster",
    band: int,
    names: Sequence[Statistic],
    geometry: "Geometries",
    memory_mb: int,
    progress: Progress,
) -> "npt.NDArray[np.float64]":
    source = raster.read_band(band) if isinstance(raster, MosaicRaster) else RasterioRasterSource(raster, band)
    operations = [_operation(name, source) for name in names]
    rows: list[list[float]] = []
    for start in range(0, len(geometry), BATCH_POLYGONS):
        polygons = _Polygons(shapely.to_wkb(geometry[start : start + BATCH_POLYGONS]))
        cells = memory_mb * MB // BYTES_PER_CELL
        rows += exact_extract(source, polygons, operations, output=_Rows(names), max_cells_in_memory=cells)
        progress(len(rows), len(geometry), "polygons")
    return np.array(rows, np.float64).reshape(len(geometry), len(names)).T


def _operation(name: Statistic, source: RasterioRasterSource) -> Operation:
    if name in PERCENTILES:
        return Operation("quantile", name.value, source, None, {"q": PERCENTILES[name] / 100})
    return Operation("mode" if name is Statistic.MAJORITY else name.value, name.value, source)


def _field(name: Statistic) -> str:
    """The name that exactextract gives a value: that of a quantile ends in its percentage."""
    return f"{name}_{PERCENTILES[name]}" if name in PERCENTILES else name.value


def _column(name: Statistic, values: "npt.NDArray[np.float64]") -> pa.Array:
    found = pa.array(values, from_pandas=True)
    return found.cast(pa.int64()) if name is Statistic.VARIETY else found


class _Polygons(FeatureSource):  # type: ignore[misc]  # exactextract has no types
    """Polygons as WKB, which exactextract reads faster than what its own sources give."""

    def __init__(self, polygons: Sequence[bytes]) -> None:
        super().__init__()
        self._polygons = polygons

    def count(self) -> int:
        return len(self._polygons)

    def srs_wkt(self) -> None:
        return None

    def __iter__(self) -> Iterator[Feature]:
        yield from map(_Polygon, self._polygons)


class _Polygon(Feature):  # type: ignore[misc]  # exactextract has no types
    def __init__(self, polygon: bytes) -> None:
        Feature.__init__(self)
        self._polygon = polygon

    def geometry(self) -> bytes:
        return self._polygon

    def fields(self) -> list[str]:
        return []


class _Rows(Writer):  # type: ignore[misc]  # exactextract has no types
    """Collects the values of each polygon; a statistic that has none is NaN."""

    def __init__(self, names: Sequence[Statistic]) -> None:
        super().__init__()
        self._names = [_field(name) for name in names]
        self._rows: list[list[float]] = []

    def add_operation(self, operation: Operation) -> None:
        """Each has a name, which values come with."""

    def write(self, feature: Feature) -> None:
        found = _Values()
        feature.copy_to(found)
        self._rows.append([found.values.get(name, np.nan) for name in self._names])

    def features(self) -> list[list[float]]:
        return self._rows


class _Values(Feature):  # type: ignore[misc]  # exactextract has no types
    def __init__(self) -> None:
        Feature.__init__(self)
        self.values: dict[str, float] = {}

    def set(self, name: str, value: float) -> None:
        self.values[name] = value

    def set_geometry(self, polygon: bytes | None) -> None:
        """It is known already."""

    def set_geometry_format(self) -> str:
        return "wkb"
