"""The error codes of H3."""

from anabranch.codes import Code
from anabranch.errors import Kind

__all__ = ["CODES"]

# fmt: off
CODES: tuple[Code, ...] = (
    Code("h3.no_cells", Kind.TASK, "No cell has its centre in the area, or none has data of the raster.", "Choose a finer `resolution`, or a larger area."),
    Code("h3.no_feature", Kind.NOT_FOUND, "The layer has no feature with this gid.", "Give the `gid` of a feature, or none for the whole layer."),
    Code("h3.too_many", Kind.TASK, "The area has more cells of this resolution than one job may make.", "Choose a coarser `resolution` or a smaller area, or ask the operator to raise ANABRANCH_H3_MAX_CELLS."),
)
