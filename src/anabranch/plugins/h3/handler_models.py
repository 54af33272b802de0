"""Parameters and results of the H3 handlers, validated where they enter."""

from typing import Annotated

from pydantic import Field, JsonValue

from anabranch.plugins.h3.request import Resolution
from anabranch.plugins.vector.models import PartRows
from anabranch.plugins.vector.publishing.derived import DerivedLayer, LayerFacts
from anabranch.plugins.zonal.handler_models import PinnedLayer, PinnedRaster
from anabranch.plugins.zonal.models import BandStatistics, Measured
from anabranch.strict_model import StrictModel

__all__ = [
    "CascadeParams", "CellPart", "FinishGridParams", "FinishStatisticsParams", "GridPlan", "GridReport", "GridWork",
    "MeasureCellsParams", "StatisticsPlan", "StatisticsReport", "StatisticsWork",
]  # fmt: skip

CellText = Annotated[str, Field(pattern=r"^[0-9a-f]{15}$")]


class CellPart(StrictModel):
    """The parents whose descendants one task makes, and the gid of the first of them."""

    number: int
    parents: tuple[CellText, ...] = Field(min_length=1)
    first_gid: int


class GridWork(StrictModel):
    """What all tasks of a grid know; the area is a work file of WKB."""

    layer: DerivedLayer
    resolution: Resolution
    area: dict[str, JsonValue]
    source: PinnedLayer | None = None
    facts: LayerFacts


class GridPlan(StrictModel):
    """The work, and its division into tasks."""

    work: GridWork
    parts: tuple[CellPart, ...]


class CascadeParams(StrictModel):
    """The cells of one task."""

    work: GridWork
    part: CellPart


class FinishGridParams(StrictModel):
    """What all tasks wrote."""

    work: GridWork
    parts: tuple[PartRows, ...]


class GridReport(StrictModel):
    """What a grid was made of."""

    resolution: Resolution
    cells: int
    source: PinnedLayer | None
    software: dict[str, str]


class StatisticsWork(GridWork):
    """What all tasks of statistics in cells know."""

    raster: PinnedRaster
    wanted: BandStatistics


class StatisticsPlan(StrictModel):
    """The work, and its division into tasks."""

    work: StatisticsWork
    parts: tuple[CellPart, ...]


class MeasureCellsParams(StrictModel):
    """The cells of one task."""

    work: StatisticsWork
    part: CellPart


class FinishStatisticsParams(StrictModel):
    """What all tasks wrote."""

    work: StatisticsWork
    parts: tuple[Measured, ...]


class StatisticsReport(GridReport):
    """What was measured; cells without a valid pixel are left out, and counted."""

    raster: PinnedRaster
    wanted: BandStatistics
    left_out: int
