"""A caller's request for zonal statistics: what is wrong in it is known before the job exists."""

from pydantic import Field, field_validator

from anabranch.plugins.stac.names import require_collection_id, require_item_id
from anabranch.plugins.vector.request import check_table
from anabranch.plugins.zonal.models import BandStatistics, Statistic

__all__ = ["RasterRequest", "ZonalRequest"]


class RasterRequest(BandStatistics):
    """A published raster, the statistics that are wanted of it, and where they are published."""

    collection: str
    item: str
    asset: str = Field("data", max_length=63)
    table: str | None = None
    result_collection: str
    title: str | None = Field(None, max_length=200)

    _check_collection = field_validator("collection", "result_collection")(require_collection_id)
    _check_item = field_validator("item")(require_item_id)
    _check_table = field_validator("table")(check_table)

    @field_validator("statistics")
    @classmethod
    def _leave_out_repeated(cls, statistics: tuple[Statistic, ...]) -> tuple[Statistic, ...]:
        return tuple(dict.fromkeys(statistics))


class ZonalRequest(RasterRequest):
    """Statistics of a raster in the polygons of a published layer."""

    layer: str = Field(max_length=63)
