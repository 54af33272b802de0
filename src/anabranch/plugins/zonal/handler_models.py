"""Parameters and results of the zonal handlers, validated where they enter."""

from anabranch.plugins.vector.publishing.derived import DerivedLayer, LayerFacts
from anabranch.plugins.zonal.models import BandStatistics, Measured
from anabranch.strict_model import StrictModel

__all__ = ["FinishParams", "GidRange", "MeasureParams", "PinnedLayer", "PinnedRaster", "ZonalPlan", "ZonalReport",
           "ZonalWork"]  # fmt: skip


class PinnedLayer(StrictModel):
    """A layer as it was published when the job began."""

    name: str
    collection: str
    item: str
    publication: int
    has_z: bool

    @property
    def said(self) -> str:
        """What a person reads of it."""
        return f"layer geo.{self.name} (item {self.collection}/{self.item}, publication {self.publication})"


class PinnedRaster(StrictModel):
    """A raster as it was published when the job began: later publications change nothing."""

    collection: str
    item: str
    publication: int
    asset: str
    address: str
    sha256: str | None
    version: str | None
    tiled: bool = False  # the file is a mosaic document

    @property
    def said(self) -> str:
        """What a person reads of it."""
        return f"raster {self.collection}/{self.item} (publication {self.publication}, asset {self.asset})"


class GidRange(StrictModel):
    """Some polygons of a layer, by their gids."""

    number: int
    first: int
    last: int
    rows: int


class ZonalWork(StrictModel):
    """What all tasks of a job know."""

    layer: DerivedLayer
    polygons: PinnedLayer
    raster: PinnedRaster
    wanted: BandStatistics
    facts: LayerFacts


class ZonalPlan(StrictModel):
    """The work, and its division into tasks."""

    work: ZonalWork
    ranges: tuple[GidRange, ...]


class MeasureParams(StrictModel):
    """The polygons of one task."""

    work: ZonalWork
    range: GidRange


class FinishParams(StrictModel):
    """What all tasks wrote."""

    work: ZonalWork
    parts: tuple[Measured, ...]


class ZonalReport(StrictModel):
    """What was measured, and which polygons have no statistics: their numbers, and the gids of a few."""

    raster: PinnedRaster
    polygons: PinnedLayer
    wanted: BandStatistics
    rows: int
    outside: int
    outside_gids: tuple[int, ...]
    without_data: int
    without_data_gids: tuple[int, ...]
    software: dict[str, str]
