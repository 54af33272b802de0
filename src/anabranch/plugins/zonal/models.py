"""What the parts of zonal statistics pass to each other."""

from enum import StrEnum

from pydantic import Field

from anabranch.contract.mosaic import Grid, Window
from anabranch.plugins.vector.models import Column, ColumnType, PartRows
from anabranch.strict_model import StrictModel

__all__ = ["DEFAULT_STATISTICS", "BandStatistics", "Measured", "MosaicTiles", "Statistic", "columns_of"]


class Statistic(StrEnum):
    """A statistic of the pixels of a polygon, each weighted by the share of it that the polygon covers."""

    COUNT = "count"
    SUM = "sum"
    MEAN = "mean"
    MIN = "min"
    MAX = "max"
    STDEV = "stdev"
    VARIANCE = "variance"
    MEDIAN = "median"
    MAJORITY = "majority"
    MINORITY = "minority"
    VARIETY = "variety"
    P05 = "p05"
    P10 = "p10"
    P25 = "p25"
    P75 = "p75"
    P90 = "p90"
    P95 = "p95"


DEFAULT_STATISTICS = (
    Statistic.COUNT, Statistic.SUM, Statistic.MEAN, Statistic.MIN, Statistic.MAX, Statistic.STDEV
)  # fmt: skip


class BandStatistics(StrictModel):
    """Which statistics are computed of which band."""

    band: int = Field(1, ge=1)
    statistics: tuple[Statistic, ...] = Field(DEFAULT_STATISTICS, min_length=1)


class MosaicTiles(StrictModel):
    """Tiles of a mosaic, or those of them that are read: their windows of its grid."""

    grid: Grid
    windows: tuple[Window, ...]

    def name(self, window: Window) -> str:
        """The name of the file of a tile, in the folder of those that are read."""
        return f"{window.row}_{window.column}.tif"


class Measured(PartRows):
    """The rows of some polygons, and which of them have no statistics: how many, and the gids of a few."""

    outside: int
    outside_gids: tuple[int, ...] = ()
    without_data: int
    without_data_gids: tuple[int, ...] = ()


def columns_of(statistics: tuple[Statistic, ...]) -> tuple[Column, ...]:
    """The columns of a table of statistics."""
    return tuple(
        Column(name=name, type=ColumnType.BIGINT if name is Statistic.VARIETY else ColumnType.DOUBLE, source=name)
        for name in statistics
    )
