"""The settings of vectors."""

from pydantic import Field

from anabranch.strict_model import StrictModel

__all__ = ["VectorSettings"]


class VectorSettings(StrictModel):
    """Limits of vector files and of the work on them."""

    vector_max_mb: int = Field(5_120, ge=1, description="The largest vector file that is accepted.")
    vector_max_columns: int = Field(1_500, ge=1, le=1_590, description="The largest number of columns of a layer.")
    vector_max_layers: int = Field(100, ge=1, description="The largest number of layers of a file that are published.")
    vector_max_files: int = Field(1_000, ge=1, le=10_000, description="The largest number of files of a collection.")
    vector_max_vertices: int = Field(10_000_000, ge=1, description="The largest number of vertices of one feature.")
    vector_max_bad_rows: int = Field(
        10, ge=0, le=100, description="Which share of the rows of a CSV file may be unreadable, in percent."
    )
    vector_archive_files: int = Field(1_000, ge=1, description="The largest number of files in a ZIP archive.")
    vector_archive_ratio: int = Field(
        100, ge=1, description="How many times larger than packed a file over 64 MB in a ZIP archive may be."
    )
    vector_batch_rows: int = Field(50_000, ge=1, description="The largest number of rows that are cleaned at once.")
    vector_chunk_mb: int = Field(16, ge=1, description="About how large a file of rows is that is copied at once.")
    vector_memory_mb: int = Field(1_024, ge=256, description="Maximum memory for the processing of one vector file.")
    vector_cpu_seconds: int = Field(14_400, ge=1, description="Maximum CPU time for one step on a vector file.")
    vector_file_mb: int = Field(65_536, ge=1, description="The largest file that the processing of vectors may write.")
    vector_pmtiles_max_rows: int = Field(
        1_000_000, ge=0, description="The largest number of features of a layer that PMTiles are made of."
    )
