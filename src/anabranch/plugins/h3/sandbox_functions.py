"""Statistics of a raster in H3 cells, which run in the sandbox: JSON in, JSON out (decision 011)."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.ma  # numpy imports it at its first use, which would be in each call
import pyarrow as pa
import shapely

from anabranch.plugins.h3.cells import generate_descendants
from anabranch.plugins.h3.grid_table import CELL_COLUMNS
from anabranch.plugins.h3.handler_models import CellPart
from anabranch.plugins.h3.polygons import polygons_of
from anabranch.plugins.h3.rows import describe_cells
from anabranch.plugins.vector.tables.chunk_writer import write_part
from anabranch.plugins.zonal.models import BandStatistics, Measured, MosaicTiles, columns_of
from anabranch.plugins.zonal.sandbox_functions import in_sandbox
from anabranch.plugins.zonal.settings import ZonalSettings
from anabranch.plugins.zonal.statistics import Progress, find_tiles, measure

if TYPE_CHECKING:
    from anabranch.plugins.h3.cells import Cells

__all__ = ["find_cell_tiles", "measure_cells"]


@in_sandbox
def find_cell_tiles(
    raster: Path, mosaic: MosaicTiles, tiles: Path, area: Path, part: CellPart, resolution: int, *, progress: Progress
) -> MosaicTiles:
    """The tiles of a mosaic that cells touch; `raster` is its overview, and no tile is read."""
    return find_tiles(raster, mosaic, tiles, polygons_of(_find_cells(area, part, resolution)))


@in_sandbox
def measure_cells(
    raster: Path,
    area: Path,
    folder: Path,
    part: CellPart,
    resolution: int,
    wanted: BandStatistics,
    settings: ZonalSettings,
    mosaic: MosaicTiles | None = None,
    tiles: Path | None = None,
    *,
    progress: Progress,
) -> Measured:
    """Write the rows of the cells that have data, with their statistics; of a mosaic, `raster` is the overview."""
    cells = _find_cells(area, part, resolution)
    geometry = polygons_of(cells)
    found = measure(raster, geometry, wanted, settings.zonal_memory_mb, progress, mosaic, tiles)
    kept = ~(found.outside | found.without_data)
    values = {name.value: found.columns[name].filter(pa.array(kept)) for name in wanted.statistics}
    rows = pa.record_batch(describe_cells(cells[kept], resolution) | values)
    gids = part.first_gid + np.arange(len(rows))
    written = write_part(folder, (*CELL_COLUMNS, *columns_of(wanted.statistics)), gids, geometry[kept], rows)
    outside, without_data = int(found.outside.sum()), int(found.without_data.sum())
    return Measured(**dict(written), outside=outside, without_data=without_data)


def _find_cells(area: Path, part: CellPart, resolution: int) -> "Cells":
    parents = np.array([int(cell, 16) for cell in part.parents], np.uint64)
    return np.sort(generate_descendants(shapely.from_wkb(area.read_bytes()), parents, resolution))
