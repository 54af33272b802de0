"""What STAC says of a raster's grid and bands: the fields of projection v2 and raster v2."""

from pathlib import Path
from typing import Any

import rasterio
from pydantic import BaseModel, ConfigDict

from anabranch.plugins.raster.crs import name_crs
from anabranch.plugins.raster.models import Band
from anabranch.plugins.raster.reader import quiet

__all__ = ["Projection", "project", "stac_band"]


class Projection(BaseModel):
    """The grid of a COG; either `code` or `projjson` says its coordinate system."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    code: str | None
    projjson: dict[str, Any] | None  # a JSON object of PROJ's own schema
    shape: tuple[int, int]
    transform: tuple[float, float, float, float, float, float]
    bbox: tuple[float, float, float, float]

    def to_stac(self) -> dict[str, Any]:  # the fields of an item
        """The fields of the projection extension, v2."""
        named = {"proj:code": self.code} if self.code else {"proj:code": None, "proj:projjson": self.projjson}
        return {
            **named,
            "proj:shape": list(self.shape),
            "proj:transform": list(self.transform),
            "proj:bbox": list(self.bbox),
        }


def project(cog: Path) -> Projection:
    """The grid of a COG."""
    with quiet(), rasterio.open(cog, driver="GTiff") as src:
        code = name_crs(src.crs) or None
        return Projection(
            code=code,
            projjson=None if code else src.crs.to_dict(projjson=True),
            shape=(src.height, src.width),
            transform=tuple(src.transform[:6]),
            bbox=tuple(src.bounds),
        )


def stac_band(band: Band) -> dict[str, Any]:  # the fields of a band
    """A band as STAC 1.1 and the raster extension v2 say it."""
    found: dict[str, Any] = {"name": band.name or f"b{band.index}", "data_type": band.dtype}
    if band.nodata is not None:
        found["nodata"] = band.nodata
    if band.unit:
        found["unit"] = band.unit
    if (band.scale, band.offset) != (1.0, 0.0):
        found |= {"raster:scale": band.scale, "raster:offset": band.offset}
    if band.statistics:
        found["statistics"] = band.statistics.model_dump(exclude={"exact"})
    return found
