"""H3 cells of an area, found by their parents: from the 122 cells of resolution 0 down to the wanted one."""

from typing import TYPE_CHECKING

import h3.api.numpy_int as h3
import numpy as np
import shapely

from anabranch.geo.boxes import ANTIMERIDIAN, FULL_TURN, POLE

if TYPE_CHECKING:
    import numpy.typing as npt

    Cells = npt.NDArray[np.uint64]
    Floats = npt.NDArray[np.float64]

__all__ = ["cover", "estimate_cells", "find_cells", "find_parents", "generate_descendants"]

# How far descendants of a cell reach from its centre: at most 1.06 edges of the grid, and edges differ by place.
REACH_EDGES = 1.7
EARTH_RADIUS_KM = 6371.007
RESOLUTION_SHIFT = 52
DIGIT_BITS, LAST_DIGIT, UNUSED_DIGIT = 3, 15, 7


def estimate_cells(area: shapely.Geometry, resolution: int) -> int:
    """About how many cells have their centre in an area, by its share of the sphere."""
    flat = shapely.transform(area, lambda points: np.stack([points[:, 0], np.sin(np.radians(points[:, 1]))], axis=1))
    return int(h3.get_num_cells(resolution) * flat.area / (2 * FULL_TURN))


def cover(area: shapely.Geometry, resolution: int) -> "Cells":
    """The cells of a resolution whose descendants may be in an area, and some around them."""
    return _descend(area, np.array(h3.get_res0_cells(), np.uint64), 0, resolution)


def find_cells(area: shapely.Geometry, parents: "Cells", resolution: int) -> "Cells":
    """The descendants of cells whose centre is in an area, in the order of their numbers."""
    cells = generate_descendants(area, parents, resolution)
    lons, lats = _centres(cells)
    return np.sort(cells[shapely.intersects_xy(area, lons, lats)])


def generate_descendants(area: shapely.Geometry, parents: "Cells", resolution: int) -> "Cells":
    """The descendants of cells that may touch an area; it takes no connection."""
    return _descend(area, parents, h3.get_resolution(parents[0]), resolution)


def find_parents(cells: "Cells", resolution: int) -> "Cells | None":
    """The parent of each cell of a resolution; none of those of resolution 0."""
    if resolution == 0:
        return None
    level = np.uint64(0xF << RESOLUTION_SHIFT)
    unused = np.uint64(UNUSED_DIGIT << (DIGIT_BITS * (LAST_DIGIT - resolution)))
    return np.asarray((cells & ~level) | np.uint64((resolution - 1) << RESOLUTION_SHIFT) | unused)


def _descend(area: shapely.Geometry, cells: "Cells", level: int, resolution: int) -> "Cells":
    shapely.prepare(area)
    while True:
        cells = cells[_may_touch(area, cells, level)]
        if level == resolution or not len(cells):
            return cells
        level += 1
        cells = np.concatenate([h3.cell_to_children(cell, level) for cell in cells])


def _may_touch(area: shapely.Geometry, cells: "Cells", resolution: int) -> "npt.NDArray[np.bool_]":
    """Whether a box around each cell and its descendants meets the area."""
    lons, lats = _centres(cells)
    reach = REACH_EDGES * h3.average_hexagon_edge_length(resolution) / EARTH_RADIUS_KM
    high = np.degrees(reach)
    polar = np.abs(lats) + high >= POLE
    sines = np.sin(reach) / np.cos(np.radians(np.where(polar, 0, lats)))
    wide = np.where(polar, ANTIMERIDIAN, np.degrees(np.arcsin(np.minimum(sines, 1))))
    met = np.zeros(len(cells), bool)
    for turn in (0.0, FULL_TURN, -FULL_TURN):
        west, east = lons - wide + turn, lons + wide + turn
        on_globe = (east >= -ANTIMERIDIAN) & (west <= ANTIMERIDIAN) & ~met
        boxes = shapely.box(west, np.maximum(lats - high, -POLE), east, np.minimum(lats + high, POLE))
        met[on_globe] = shapely.intersects(area, boxes[on_globe])
    return met


def _centres(cells: "Cells") -> "tuple[Floats, Floats]":
    found = np.array([h3.cell_to_latlng(cell) for cell in cells]).reshape(-1, 2)
    return found[:, 1], found[:, 0]
