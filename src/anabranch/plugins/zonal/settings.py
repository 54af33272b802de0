"""The settings of zonal statistics."""

from pydantic import Field

from anabranch.strict_model import StrictModel

__all__ = ["ZonalSettings"]


class ZonalSettings(StrictModel):
    """Limits of the work on polygons and rasters."""

    zonal_task_polygons: int = Field(5_000, ge=1, le=100_000, description="The largest number of polygons of one task.")
    zonal_task_mb: int = Field(32, ge=1, description="About how large the polygons of one task are, in the database.")
    zonal_memory_mb: int = Field(1_024, ge=256, description="Maximum memory for the statistics of one task.")
    zonal_cpu_seconds: int = Field(14_400, ge=1, description="Maximum CPU time for the statistics of one task.")
    zonal_file_mb: int = Field(8_192, ge=1, description="The largest file of rows that one task may write.")
