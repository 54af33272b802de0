"""The base grid: all cells of a coarse resolution, made, loaded and published by one task."""

from pydantic import Field

from anabranch.engine.worker.context import Context
from anabranch.engine.worker.handler import handler
from anabranch.geo.boxes import GLOBE
from anabranch.plugins.h3.grid_table import GRID_SHAPE, QUEUE, SOFTWARE
from anabranch.plugins.h3.handler_models import GridReport
from anabranch.plugins.stac.facts import ItemReference
from anabranch.plugins.stac.handlers import ItemsParams, register_items
from anabranch.plugins.vector.publishing.derived import begin_layer, finish_layer, load_part, timeless
from anabranch.sandbox.handler_calls import sandbox_folder
from anabranch.strict_model import StrictModel

__all__ = ["generate_base"]

MAX_RESOLUTION = 4


class BaseParams(StrictModel):
    """The resolution of the base grid; finer grids are made by `h3_grid`, in many tasks."""

    resolution: int = Field(2, ge=0, le=MAX_RESOLUTION)
    collection: str = "h3_grids"


class BaseGrid(StrictModel):
    """The published grid."""

    table: str
    cells: int
    items: list[ItemReference]


@handler("h3.generate_base", queue=QUEUE, timeout_seconds=3_600)
@handler("h3_base_generate", queue=QUEUE, timeout_seconds=3_600)
def generate_base(params: BaseParams, ctx: Context) -> BaseGrid:
    """Make all cells of a resolution, copy them in one burst, and publish them."""
    import shapely  # late, as all that draws: a worker that makes no grids does without

    from anabranch.plugins.h3.cells import cover, find_cells
    from anabranch.plugins.h3.rows import write_cells

    name, globe = f"h3_base_{params.resolution}", shapely.box(*GLOBE)
    cells = find_cells(globe, cover(globe, 0), params.resolution)
    part = write_cells(sandbox_folder(ctx), cells, params.resolution, first_gid=1)
    layer = begin_layer(ctx, params.collection, name, GRID_SHAPE)
    load_part(ctx, layer, 0, part, sandbox_folder(ctx))
    facts = timeless(None, f"All H3 cells of resolution {params.resolution}.", SOFTWARE)
    report = GridReport(resolution=params.resolution, cells=part.rows, source=None, software=SOFTWARE)
    finished = finish_layer(ctx, layer, [part], facts, report)
    wanted = ItemsParams(collection=params.collection, items=list(finished.items), create_collection=True)
    return BaseGrid(table=f"geo.{name}", cells=part.rows, items=register_items(wanted, ctx).items)
