"""What an export of a layer takes and gives."""

from typing import Literal

from pydantic import Field

from anabranch.plugins.vector.models import Column
from anabranch.strict_model import StrictModel

__all__ = ["MAX_ZOOM", "ExportFormat", "ExportOptions", "ExportedFiles"]

ExportFormat = Literal["geoparquet", "flatgeobuf", "pmtiles", "csv"]
MAX_ZOOM = 18


class ExportOptions(StrictModel):
    """The rows of a COPY file, and the formats that they are written in."""

    layer: str
    geometry_type: str = Field(description="Like `Point`, or `MultiPolygon Z`.")
    columns: tuple[Column, ...]
    formats: tuple[ExportFormat, ...]
    max_zoom: int | None = None


class ExportedFiles(StrictModel):
    """The files by format, each verified, and what they hold."""

    rows: int
    files: dict[ExportFormat, str]
    max_zoom: int | None = Field(description="The largest scale of the tiles, if there are some.")
    software: dict[str, str]
