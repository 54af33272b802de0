"""Joins the smallest overviews of all tiles into one COG of the whole raster, which its item is described from."""

from pathlib import Path

import rasterio
from affine import Affine
from rasterio.io import DatasetReader, DatasetWriter
from rasterio.windows import Window

from anabranch.geo.rings import find_extent
from anabranch.plugins.raster.checks.bands import mask_kind
from anabranch.plugins.raster.cog.retile import describe
from anabranch.plugins.raster.cog.verify import verify
from anabranch.plugins.raster.cog.write import Progress, write_cog
from anabranch.plugins.raster.files.reader import bounded, quiet
from anabranch.plugins.raster.item.footprint import GRID_CELLS, outline
from anabranch.plugins.raster.item.preview import preview
from anabranch.plugins.raster.item.projection import project_grid
from anabranch.plugins.raster.models import CogOptions, Inspected, to_number
from anabranch.plugins.raster.tiles.models import Joined
from anabranch.plugins.raster.tiles.valid_blocks import join_valid_blocks, pool_cells
from anabranch.plugins.stac.facts import Footprint

__all__ = ["join_tiles"]


def join_tiles(
    folder: Path, joined: Joined, cog: Path, thumbnail: Path, options: CogOptions, progress: Progress
) -> Inspected:
    """Write the overview COG and the thumbnail of a mosaic, and describe the mosaic."""
    whole = folder / "whole.tif"
    with bounded(options.memory_mb, options.threads), quiet():
        _join(folder, joined, whole)
    write_cog(whole, cog, options, progress)
    compared = verify(whole, cog, options)
    shown = preview(cog, thumbnail, options.kind, discrete=options.discrete)
    grid, place = joined.grid, Affine(*joined.grid.transform)
    with quiet(), rasterio.open(cog, driver="GTiff") as src:
        crs = src.crs
    cells = pool_cells(join_valid_blocks(joined), grid, GRID_CELLS)
    on_cells = place * Affine.scale(grid.width / cells.shape[1], grid.height / cells.shape[0])
    found = outline(cells, on_cells, crs, find_extent(crs, place, grid.width, grid.height))
    return Inspected(
        compared=compared,
        footprint=Footprint.model_validate(found.geometry()),
        bbox=found.bbox,
        projection=project_grid(crs, place, grid.height, grid.width),
        shown=tuple(shown.bands),
        stretch=tuple(shown.stretch),
        software={"gdal": rasterio.__gdal_version__, "rasterio": rasterio.__version__},
    )


def _join(folder: Path, joined: Joined, target: Path) -> None:
    """Put the overviews side by side; where a tile is empty, there is no data."""
    with (
        rasterio.open(folder / f"{joined.tiles[0].name}.tif", driver="GTiff") as first,
        rasterio.open(target, "w", **_creation(first, joined)) as out,
    ):
        describe(first, out)
        for tile in joined.tiles:
            with rasterio.open(folder / f"{tile.name}.tif", driver="GTiff") as part:
                factor = joined.grid.factor
                _place(part, out, Window(tile.window.column // factor, tile.window.row // factor, *part.shape[::-1]))


def _creation(first: DatasetReader, joined: Joined) -> dict[str, object]:
    grid = joined.grid
    height, width = grid.reduced
    return {
        "driver": "GTiff",
        "width": width,
        "height": height,
        "count": first.count,
        "dtype": first.dtypes[0],
        "crs": first.crs,
        "transform": Affine(*grid.transform) * Affine.scale(grid.factor),
        "nodata": to_number(joined.nodata),
        "tiled": True,
        "blockxsize": 512,
        "blockysize": 512,
        "interleave": "pixel" if first.count <= 4 else "band",
        "compress": "zstd",
        "zstd_level": 1,
        "bigtiff": "if_safer",
    }


def _place(part: DatasetReader, out: DatasetWriter, window: Window) -> None:
    for band in part.indexes:  # one by one: there may be hundreds
        out.write(part.read(band), band, window=window)
    if mask_kind(part) == "mask":
        out.write_mask(part.dataset_mask() > 0, window=window)
