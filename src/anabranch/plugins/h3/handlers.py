"""Handlers of H3 grids and statistics: a connection is open only to read what is published, and to copy rows."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anabranch.engine.worker.context import Context
from anabranch.engine.worker.handler import handler
from anabranch.errors import NotFound, Permanent
from anabranch.geo.boxes import Box
from anabranch.plugins.h3.grid_table import CELL_COLUMNS, GRID_SHAPE, QUEUE, SOFTWARE
from anabranch.plugins.h3.handler_models import (
    CascadeParams,
    FinishGridParams,
    FinishStatisticsParams,
    GridPlan,
    GridReport,
    GridWork,
    MeasureCellsParams,
    StatisticsPlan,
    StatisticsReport,
    StatisticsWork,
)
from anabranch.plugins.h3.request import CellStatisticsRequest, GridRequest
from anabranch.plugins.h3.settings import H3Settings
from anabranch.plugins.vector.handler_models import Finished
from anabranch.plugins.vector.models import PartRows
from anabranch.plugins.vector.publishing.derived import begin_layer, finish_layer, load_part, timeless
from anabranch.plugins.vector.tables.names import name_base
from anabranch.plugins.zonal import published
from anabranch.plugins.zonal.handler_models import PinnedLayer
from anabranch.plugins.zonal.models import BandStatistics, Measured, columns_of
from anabranch.plugins.zonal.sandbox_calls import gdal_environment, work_limits
from anabranch.plugins.zonal.settings import ZonalSettings
from anabranch.sandbox.handler_calls import HandlerSandbox, sandbox_folder
from anabranch.sql_files import read_statements

if TYPE_CHECKING:
    import shapely

__all__ = [
    "cascade_descendants", "finish_grid", "finish_statistics", "measure_cells", "plan_grid", "plan_statistics",
]  # fmt: skip

SQL = Path(__file__).with_name("statements.sql")
SANDBOX = HandlerSandbox("anabranch.plugins.h3.sandbox_functions", gdal_environment)


@handler("h3.plan_grid", queue=QUEUE, timeout_seconds=3_600)
def plan_grid(params: GridRequest, ctx: Context) -> GridPlan:
    """Find the area, refuse it if it has too many cells, divide it by parents, and make the empty table."""
    import shapely  # late, as all that draws: a worker that makes no grids does without

    from anabranch.plugins.h3.planning import divide, put_area

    source = published.find_polygons(ctx, params.layer) if params.layer else None
    found = _read_area(ctx, source, params.gid) if source else shapely.geometry.shape(params.geometry)
    area = shapely.make_valid(found)
    parts = divide(area, params.resolution, ctx.settings(H3Settings))
    feature = f", gid {params.gid}" if params.gid is not None else ""
    where = f" in {source.said}{feature}" if source else ""
    facts = timeless(params.title, f"H3 cells of resolution {params.resolution}{where}.", SOFTWARE)
    work = GridWork(
        layer=begin_layer(ctx, params.collection, params.table, GRID_SHAPE),
        resolution=params.resolution,
        area=put_area(ctx, area),
        source=source,
        facts=facts,
    )
    return GridPlan(work=work, parts=parts)


def _read_area(ctx: Context, layer: PinnedLayer, gid: int | None) -> "shapely.Geometry":
    import shapely

    with published.open_layer(ctx, layer) as connection, connection.cursor(binary=True) as cursor:
        cursor.execute(read_statements(SQL)["no_time_limit"].encode())
        ((found,),) = cursor.execute(published.layer_query(SQL, "read_area", layer), {"gid": gid}).fetchall()
    if found is None:
        raise NotFound(
            "h3.no_feature",
            f"layer geo.{layer.name} has no feature with the gid {gid}",
            remedy="Give the `gid` of a feature, or none for the whole layer.",
        )
    return shapely.from_wkb(found)


@handler("h3.cascade_descendants", queue=QUEUE, timeout_seconds=3_600)
@handler("cascade_h3_descendants", queue=QUEUE, timeout_seconds=3_600)
def cascade_descendants(params: CascadeParams, ctx: Context) -> PartRows:
    """Make the descendants of some parents that are in the area, and copy them in one burst."""
    import numpy as np
    import shapely

    from anabranch.plugins.h3.cells import find_cells
    from anabranch.plugins.h3.rows import write_cells

    work, folder = params.work, sandbox_folder(ctx)
    area = shapely.from_wkb(_require_area(ctx, work).read_bytes())
    parents = np.array([int(cell, 16) for cell in params.part.parents], np.uint64)
    cells = find_cells(area, parents, work.resolution)
    part = write_cells(folder, cells, work.resolution, params.part.first_gid)
    load_part(ctx, work.layer, params.part.number, part, folder)
    return part


def _require_area(ctx: Context, work: GridWork) -> Path:
    return ctx.work.fetch(work.area, cached=True) or ctx.work.require(work.area)


@handler("h3.finish_grid", queue=QUEUE, timeout_seconds=21_600)
def finish_grid(params: FinishGridParams, ctx: Context) -> Finished:
    """Index and check the table of cells, and describe its item."""
    work, cells = params.work, _require_cells(params.work, params.parts)
    report = GridReport(resolution=work.resolution, cells=cells, source=work.source, software=work.facts.software)
    return finish_layer(ctx, work.layer, params.parts, work.facts, report)


def _require_cells(work: GridWork, parts: Sequence[PartRows]) -> int:
    if cells := sum(part.rows for part in parts):
        return cells
    raise Permanent(
        f"the area has no cell of resolution {work.resolution}: it contains the centre of none, or none has data",
        code="h3.no_cells",
        remedy="Choose a finer `resolution`, or a larger area.",
    )


@handler("h3.plan_statistics", queue=QUEUE, timeout_seconds=3_600)
def plan_statistics(params: CellStatisticsRequest, ctx: Context) -> StatisticsPlan:
    """Find the raster, refuse too many cells, divide them by parents, and make the empty table."""
    import shapely

    from anabranch.plugins.h3.planning import divide, put_area

    raster, document = published.find_raster(ctx, params.collection, params.item, params.asset)
    area = shapely.geometry.shape(Box.of(document["bbox"]).to_geojson())
    parts = divide(area, params.resolution, ctx.settings(H3Settings))
    shape = GRID_SHAPE.model_copy(update={"columns": (*CELL_COLUMNS, *columns_of(params.statistics))})
    description = f"Statistics of {raster.said}, band {params.band}, in H3 cells of resolution {params.resolution}."
    facts = published.raster_facts(raster, document, params.title, description)
    work = StatisticsWork(
        layer=begin_layer(ctx, params.result_collection, _name(params), shape),
        resolution=params.resolution,
        area=put_area(ctx, area),
        facts=facts.model_copy(update={"software": {**facts.software, **SOFTWARE}}),
        raster=raster,
        wanted=BandStatistics(band=params.band, statistics=params.statistics),
    )
    return StatisticsPlan(work=work, parts=parts)


def _name(params: CellStatisticsRequest) -> str:
    return params.table or name_base(f"{params.item[:32]}_h3_{params.resolution}".replace(".", "_"))


@handler("h3.measure_cells", queue=QUEUE, timeout_seconds=21_600)
def measure_cells(params: MeasureCellsParams, ctx: Context) -> Measured:
    """Compute the statistics of the cells of some parents, and copy those that have data in one burst."""
    work, folder, settings = params.work, sandbox_folder(ctx), ctx.settings(ZonalSettings)
    cells: dict[str, Any] = {"area": _require_area(ctx, work), "part": params.part, "resolution": work.resolution}
    files = published.stage_raster(
        ctx, work.raster, partial(SANDBOX.run, ctx, "find_cell_tiles", work_limits(settings), **cells)
    )
    found = SANDBOX.run(
        ctx, "measure_cells", work_limits(settings), **files, **cells, folder=folder, wanted=work.wanted,
        settings=settings,
    )  # fmt: skip
    part = Measured.model_validate(found)
    load_part(ctx, work.layer, params.part.number, part, folder)
    return part


@handler("h3.finish_statistics", queue=QUEUE, timeout_seconds=21_600)
def finish_statistics(params: FinishStatisticsParams, ctx: Context) -> Finished:
    """Index and check the table of statistics, and describe its item."""
    work, parts = params.work, params.parts
    report = StatisticsReport(
        resolution=work.resolution,
        cells=_require_cells(work, parts),
        source=None,
        software=work.facts.software,
        raster=work.raster,
        wanted=work.wanted,
        left_out=sum(part.outside + part.without_data for part in parts),
    )
    return finish_layer(ctx, work.layer, parts, work.facts, report)
