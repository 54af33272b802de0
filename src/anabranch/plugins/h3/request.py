"""A caller's request for H3 cells: what is wrong in it is known before the job exists."""

from typing import Annotated, Any, Self

from pydantic import Field, field_validator, model_validator

from anabranch.geo.boxes import ANTIMERIDIAN, POLE, Box
from anabranch.plugins.stac.facts import Footprint
from anabranch.plugins.stac.names import require_collection_id
from anabranch.plugins.vector.request import check_table
from anabranch.plugins.zonal.request import RasterRequest
from anabranch.strict_model import StrictModel

__all__ = ["CellStatisticsRequest", "GridRequest", "Resolution"]

Resolution = Annotated[int, Field(ge=0, le=15)]


class GridRequest(StrictModel):
    """The cells of a resolution whose centres are in a box, a polygon, or a published layer or one feature of it."""

    resolution: Resolution
    table: str
    collection: str
    bbox: tuple[float, float, float, float] | None = None
    polygon: Footprint | None = None
    layer: str | None = Field(None, max_length=63)
    gid: int | None = None
    title: str | None = Field(None, max_length=200)

    _check_collection = field_validator("collection")(require_collection_id)
    _check_table = field_validator("table")(check_table)

    @field_validator("bbox")
    @classmethod
    def _check_bbox(cls, bbox: tuple[float, float, float, float] | None) -> tuple[float, float, float, float] | None:
        if bbox is None:
            return None
        west, south, east, north = bbox
        if not (max(abs(west), abs(east)) <= ANTIMERIDIAN and -POLE <= south < north <= POLE and west != east):
            raise ValueError("give west, south, east and north in degrees; west may be greater than east, across 180")
        return bbox

    @model_validator(mode="after")
    def _has_one_area(self) -> Self:
        if sum(area is not None for area in (self.bbox, self.polygon, self.layer)) != 1:
            raise ValueError("give one of `bbox`, `polygon` and `layer`")
        if self.gid is not None and self.layer is None:
            raise ValueError("`gid` is that of a feature of `layer`, which is missing")
        return self

    @property
    def geometry(self) -> dict[str, Any] | None:
        """The box or the polygon as GeoJSON; None for a layer."""
        if self.bbox:
            return Box(*self.bbox).to_geojson()
        return dict(self.polygon.geometry) if self.polygon else None


class CellStatisticsRequest(RasterRequest):
    """Statistics of a published raster in the cells of a resolution."""

    resolution: Resolution
