"""The grid of a COG, in the fields of STAC's projection extension."""

from pathlib import Path
from typing import Any

import rasterio
from pydantic import BaseModel, ConfigDict

from anabranch.plugins.raster.crs import name_crs
from anabranch.plugins.raster.reader import quiet

__all__ = ["Projection", "project"]

KNOWN_AUTHORITIES = ("EPSG:", "ESRI:", "OGC:")


class Projection(BaseModel):
    """The grid of a COG; its CRS is `code` or `projjson`, or both where its authority is not a common one."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    code: str | None
    projjson: dict[str, Any] | None  # a JSON object of PROJ's own schema
    shape: tuple[int, int]
    transform: tuple[float, float, float, float, float, float]
    bbox: tuple[float, float, float, float]


def project(cog: Path) -> Projection:
    """The grid of a COG."""
    with quiet(), rasterio.open(cog, driver="GTiff") as src:
        code = name_crs(src.crs) or None
        return Projection(
            code=code,
            projjson=None if code and code.startswith(KNOWN_AUTHORITIES) else src.crs.to_dict(projjson=True),
            shape=(src.height, src.width),
            transform=tuple(src.transform[:6]),
            bbox=tuple(src.bounds),
        )
