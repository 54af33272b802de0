"""The settings of rasters."""

from pydantic import Field

from anabranch.strict_model import StrictModel

__all__ = ["RasterSettings"]


class RasterSettings(StrictModel):
    """Limits of rasters and of the work on them."""

    raster_max_mb: int = Field(65_536, ge=1, description="The largest raster that is accepted.")
    raster_single_bytes: int = Field(
        2_000_000_000, ge=1, description="The largest file that becomes one COG; larger ones become tiles."
    )
    raster_single_pixels: int = Field(
        250_000_000,
        ge=1,
        description="The largest number of pixels that becomes one COG; more become tiles.",
    )
    raster_ranged_mb: int = Field(
        512,
        ge=0,
        description="The largest tiled TIFF in object storage that is copied whole, not read by ranges.",
    )
    raster_tile_mb: int = Field(300, ge=1, description="About how large the pixels of a tile are.")
    raster_tile_min_pixels: int = Field(5_120, ge=512, multiple_of=512, description="The smallest side of a tile.")
    raster_tile_max_pixels: int = Field(20_480, ge=512, multiple_of=512, description="The largest side of a tile.")
    raster_max_pixels: int = Field(50_000_000_000, ge=1, description="The largest number of pixels of a raster.")
    raster_max_bands: int = Field(512, ge=1, description="The largest number of bands of a raster.")
    raster_max_times: int = Field(1_000, ge=1, description="The largest number of times that become items of one job.")
    raster_max_files: int = Field(10_000, ge=1, description="The largest number of rasters of one collection job.")
    raster_pixel_tolerance: float = Field(
        0.2, ge=0, description="How much the pixel sizes of rasters that are published together may differ, as a share."
    )
    raster_max_block_mb: int = Field(128, ge=1, description="The largest block of a raster, decompressed.")
    raster_max_expansion: int = Field(
        1_000, ge=1, description="How many times larger than its file a raster over a gigabyte may be, decompressed."
    )
    raster_archive_files: int = Field(1_000, ge=1, description="The largest number of files in a ZIP archive.")
    raster_archive_ratio: int = Field(
        100, ge=1, description="How many times larger than packed a file over 64 MB in a ZIP archive may be."
    )
    raster_memory_mb: int = Field(1024, ge=256, description="Maximum memory for the processing of one raster.")
    raster_cpu_seconds: int = Field(14_400, ge=1, description="Maximum CPU time for one processing step of a raster.")
    raster_file_mb: int = Field(65_536, ge=1, description="The largest file that the processing of a raster may write.")
