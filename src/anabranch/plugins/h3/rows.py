"""The rows of H3 cells, as tables have them."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from anabranch.plugins.h3.cells import find_parents
from anabranch.plugins.h3.grid_table import CELL_COLUMNS
from anabranch.plugins.h3.polygons import polygons_of
from anabranch.plugins.vector.models import PartRows
from anabranch.plugins.vector.tables.chunk_writer import write_part

if TYPE_CHECKING:
    from anabranch.plugins.h3.cells import Cells

__all__ = ["describe_cells", "write_cells"]


def describe_cells(cells: "Cells", resolution: int) -> dict[str, pa.Array]:
    """The columns of cells: their numbers, the same as text, their resolution, and their parents."""
    parents = find_parents(cells, resolution)
    return {
        "h3": pa.array(cells.astype(np.int64)),
        "h3_text": pa.array([f"{cell:x}" for cell in cells.tolist()], pa.string()),
        "resolution": pa.array(np.full(len(cells), resolution, np.int32)),
        "parent": pa.nulls(len(cells), pa.int64()) if parents is None else pa.array(parents.astype(np.int64)),
    }


def write_cells(folder: Path, cells: "Cells", resolution: int, first_gid: int) -> PartRows:
    """Write cells with their polygons; their gids go on from the first."""
    gids, geometry = first_gid + np.arange(len(cells)), polygons_of(cells)
    return write_part(folder, CELL_COLUMNS, gids, geometry, pa.record_batch(describe_cells(cells, resolution)))
