"""The settings of the catalog."""

from pydantic import Field

from anabranch.strict_model import StrictModel

__all__ = ["StacSettings"]


class StacSettings(StrictModel):
    """Limits of what stac_ingest reads and export_catalog writes."""

    stac_document_mb: int = Field(64, ge=1, description="The largest JSON document that stac_ingest reads whole.")
    stac_item_kb: int = Field(4_096, ge=1, description="The largest item that stac_ingest accepts.")
    stac_max_items: int = Field(
        1_000_000, ge=1, description="The most items that one stac_ingest reads, refused ones included."
    )
    stac_max_documents: int = Field(
        100_000, ge=1, description="The most documents of a folder or a static catalog that one stac_ingest reads."
    )
    stac_export_max_items: int = Field(
        50_000, ge=1, description="The most items that one export_catalog writes; each becomes a file."
    )
    stac_memory_mb: int = Field(1_024, ge=64, description="The memory in which a GeoParquet file is opened.")
    stac_cpu_seconds: int = Field(600, ge=1, description="The CPU time in which a GeoParquet file is opened.")
    stac_file_mb: int = Field(8_192, ge=1, description="The largest file that the items of a GeoParquet file become.")
