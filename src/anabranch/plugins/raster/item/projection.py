"""The grid of a COG, in the fields of STAC's projection extension."""

from pathlib import Path

import rasterio

from anabranch.geo.boxes import Box
from anabranch.plugins.raster.checks.crs import name_crs
from anabranch.plugins.raster.files.reader import quiet
from anabranch.plugins.raster.models import Projection

__all__ = ["project"]

KNOWN_AUTHORITIES = ("EPSG:", "ESRI:", "OGC:")


def project(cog: Path) -> Projection:
    """The grid of a COG."""
    with quiet(), rasterio.open(cog, driver="GTiff") as src:
        code = name_crs(src.crs) or None
        return Projection(
            code=code,
            projjson=None if code and code.startswith(KNOWN_AUTHORITIES) else src.crs.to_dict(projjson=True),
            shape=(src.height, src.width),
            transform=tuple(src.transform[:6]),
            bbox=Box(*src.bounds),
        )
