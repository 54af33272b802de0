"""Divides the cells of an area into tasks, and refuses too many before any work."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import h3.api.numpy_int as h3
import shapely
from pydantic import JsonValue

from anabranch.engine.worker.context import Context
from anabranch.errors import Permanent
from anabranch.plugins.h3.cells import cover, estimate_cells
from anabranch.plugins.h3.handler_models import CellPart
from anabranch.plugins.h3.settings import H3Settings

if TYPE_CHECKING:
    from anabranch.plugins.h3.cells import Cells

__all__ = ["divide", "put_area", "require_few"]

CHILDREN = 7


def require_few(area: shapely.Geometry, resolution: int, most: int) -> None:
    """Refuse an area with too many cells of a resolution; their number is an estimate by area."""
    if (cells := estimate_cells(area, resolution)) > most:
        raise Permanent(
            f"the area has about {cells:,} cells of resolution {resolution}, and the limit is {most:,}",
            code="h3.too_many",
            remedy="Choose a coarser `resolution` or a smaller area, or ask the operator to raise"
            " ANABRANCH_H3_MAX_CELLS.",
        )


def divide(area: shapely.Geometry, resolution: int, settings: H3Settings) -> tuple[CellPart, ...]:
    """The tasks: each makes the descendants of some neighbouring parents, at most about so many cells."""
    require_few(area, resolution, settings.h3_max_cells)
    level = resolution
    while level > 0 and CHILDREN ** (resolution - level + 2) <= settings.h3_task_cells:
        level -= 1
    return tuple(_group(sorted(cover(area, level)), resolution, settings.h3_task_cells))


def _group(parents: "list[Cells]", resolution: int, task_cells: int) -> Iterator[CellPart]:
    group, size, first_gid, number = list[str](), 0, 1, 0
    for parent in parents:
        children = h3.cell_to_children_size(parent, resolution)
        if group and size + children > task_cells:
            yield CellPart(number=number, parents=tuple(group), first_gid=first_gid)
            group, size, first_gid, number = [], 0, first_gid + size, number + 1
        group.append(f"{int(parent):x}")
        size += children
    if group:
        yield CellPart(number=number, parents=tuple(group), first_gid=first_gid)


def put_area(ctx: Context, area: shapely.Geometry) -> dict[str, JsonValue]:
    """Store an area for the tasks."""
    path = ctx.scratch / "area.wkb"
    path.write_bytes(shapely.to_wkb(area))
    return ctx.work.put(path)
