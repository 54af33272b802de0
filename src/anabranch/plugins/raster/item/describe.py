"""Describes a raster that stays where it is: of its pixels only a sample is read."""

import numpy as np
import rasterio
from affine import Affine
from rasterio.io import DatasetReader

from anabranch.geo.rings import find_extent
from anabranch.plugins.raster.checks.validate import validate
from anabranch.plugins.raster.cog.cog_structure import TILE_PIXELS, check_tags
from anabranch.plugins.raster.files.reader import bounded, open_raster
from anabranch.plugins.raster.files.source import Source
from anabranch.plugins.raster.files.tiff import read_images
from anabranch.plugins.raster.item import footprint
from anabranch.plugins.raster.item.projection import project_grid
from anabranch.plugins.raster.models import Described, ValidateOptions
from anabranch.plugins.raster.settings import RasterSettings
from anabranch.plugins.stac.facts import Footprint

__all__ = ["describe"]

GRID_CELLS = 16
MAX_TOP_PIXELS = 2 * TILE_PIXELS  # of the smallest overview: a map of all of the raster reads that


def describe(source: Source, settings: RasterSettings) -> Described:
    """The facts of a raster, if it passes the checks of one that is to be published."""
    raster = validate(source, ValidateOptions(), settings)
    with bounded(settings.raster_memory_mb), open_raster(source) as src:
        area = _outline(src)
        grid = project_grid(src.crs, src.transform, src.height, src.width)
    return Described(
        raster=raster,
        footprint=Footprint.model_validate(area.geometry()),
        bbox=area.bbox,
        projection=grid,
        cloud_optimized=_is_cloud_optimized(source),
        software={"gdal": rasterio.__gdal_version__, "rasterio": rasterio.__version__},
    )


def _outline(src: DatasetReader) -> footprint.Footprint:
    """The outline of all pixels, whether they are valid or not."""
    cells = np.ones((GRID_CELLS, GRID_CELLS), bool)
    grid = src.transform * Affine.scale(src.width / GRID_CELLS, src.height / GRID_CELLS)
    return footprint.outline(cells, grid, src.crs, find_extent(src.crs, src.transform, src.width, src.height))


def _is_cloud_optimized(source: Source) -> bool:
    """Whether tiles can be drawn from it with few reads: it is tiled, and has overviews down to a small one."""
    images = read_images(source)
    levels = [image for image in images if not image.mask]
    return bool(levels) and not check_tags(images) and max(levels[-1].width, levels[-1].height) <= MAX_TOP_PIXELS
