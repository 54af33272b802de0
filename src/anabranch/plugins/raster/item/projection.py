"""The grid of a COG, in the fields of STAC's projection extension."""

from pathlib import Path

import rasterio
from affine import Affine
from rasterio.crs import CRS
from rasterio.transform import array_bounds

from anabranch.geo.boxes import Box
from anabranch.plugins.raster.checks.crs import name_crs
from anabranch.plugins.raster.files.reader import quiet
from anabranch.plugins.raster.models import Projection

__all__ = ["project", "project_grid"]

KNOWN_AUTHORITIES = ("EPSG:", "ESRI:", "OGC:")


def project(cog: Path) -> Projection:
    """The grid of a COG."""
    with quiet(), rasterio.open(cog, driver="GTiff") as src:
        return project_grid(src.crs, src.transform, src.height, src.width)


def project_grid(crs: CRS, transform: Affine, height: int, width: int) -> Projection:
    """A grid of pixels."""
    code = name_crs(crs) or None
    return Projection(
        code=code,
        projjson=None if code and code.startswith(KNOWN_AUTHORITIES) else crs.to_dict(projjson=True),
        shape=(height, width),
        transform=tuple(transform[:6]),
        bbox=Box(*array_bounds(height, width, transform)),
    )
