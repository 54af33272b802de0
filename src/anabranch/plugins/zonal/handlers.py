"""Handlers of zonal statistics: they find and read what is published, and compute in a sandbox."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from psycopg.rows import dict_row

from anabranch.engine.worker.context import Context
from anabranch.engine.worker.handler import handler
from anabranch.plugins.vector.handler_models import Finished
from anabranch.plugins.vector.models import MAX_SAMPLES, TableShape
from anabranch.plugins.vector.publishing.derived import begin_layer, finish_layer, load_part
from anabranch.plugins.vector.tables.names import name_base
from anabranch.plugins.zonal.handler_models import (
    FinishParams,
    GidRange,
    MeasureParams,
    PinnedLayer,
    ZonalPlan,
    ZonalReport,
    ZonalWork,
)
from anabranch.plugins.zonal.models import BandStatistics, Measured, columns_of
from anabranch.plugins.zonal.published import (
    SQL,
    find_polygons,
    find_raster,
    layer_query,
    open_layer,
    raster_facts,
    stage_raster,
)
from anabranch.plugins.zonal.request import ZonalRequest
from anabranch.plugins.zonal.sandbox_calls import run_in_sandbox, sandbox_folder
from anabranch.plugins.zonal.settings import ZonalSettings
from anabranch.sql_files import read_statements

__all__ = ["finish", "measure", "plan"]

QUEUE = "vector"
MB = 2**20


@handler("zonal.plan", queue=QUEUE, timeout_seconds=3_600)
def plan(params: ZonalRequest, ctx: Context) -> ZonalPlan:
    """Find the raster and the layer, divide the polygons into tasks, and make the empty table."""
    polygons = find_polygons(ctx, params.layer)
    raster, document = find_raster(ctx, params.collection, params.item, params.asset)
    ranges = _divide(ctx, polygons)
    shape = TableShape(geometry_type="MultiPolygon", has_z=polygons.has_z, columns=columns_of(params.statistics))
    description = f"Statistics of {raster.said}, band {params.band}, in the polygons of {polygons.said}."
    work = ZonalWork(
        layer=begin_layer(ctx, params.result_collection, _name(params), shape),
        polygons=polygons,
        raster=raster,
        wanted=BandStatistics(band=params.band, statistics=params.statistics),
        facts=raster_facts(raster, document, params.title, description),
    )
    return ZonalPlan(work=work, ranges=ranges)


def _name(params: ZonalRequest) -> str:
    return params.table or name_base(f"{params.layer}_{params.item}".replace(".", "_"))


def _divide(ctx: Context, polygons: PinnedLayer) -> tuple[GidRange, ...]:
    settings = ctx.settings(ZonalSettings)
    limits = {"rows": settings.zonal_task_polygons, "bytes": settings.zonal_task_mb * MB}
    with open_layer(ctx, polygons) as connection, connection.cursor(row_factory=dict_row) as cursor:
        cursor.execute(read_statements(SQL)["no_time_limit"].encode())
        return tuple(map(GidRange.model_validate, cursor.execute(layer_query(SQL, "divide_layer", polygons), limits)))


@handler("zonal.measure", queue=QUEUE, timeout_seconds=21_600)
def measure(params: MeasureParams, ctx: Context) -> Measured:
    """Compute the statistics of some polygons, and copy them into the table."""
    work, folder = params.work, sandbox_folder(ctx)
    polygons = _read_polygons(ctx, work.polygons, params.range)
    files = stage_raster(ctx, work.raster, partial(run_in_sandbox, ctx, "find_tiles", polygons=polygons))
    settings = ctx.settings(ZonalSettings)
    found = run_in_sandbox(
        ctx, "measure", **files, polygons=polygons, folder=folder, wanted=work.wanted, settings=settings
    )
    part = Measured.model_validate(found)
    load_part(ctx, work.layer, params.range.number, part, folder)
    return part


def _read_polygons(ctx: Context, polygons: PinnedLayer, part: GidRange) -> Path:
    """An Arrow file of the gids and geometries, which are parsed in the sandbox."""
    import pyarrow as pa  # late: a worker that measures nothing does without

    schema = pa.schema([("gid", pa.int64()), ("geometry", pa.binary())])
    asked = {"first": part.first, "last": part.last}
    with open_layer(ctx, polygons) as connection, connection.cursor(binary=True) as cursor:
        rows = cursor.execute(layer_query(SQL, "read_polygons", polygons), asked).fetchall()
    gids, shapes = zip(*rows, strict=True)
    path = ctx.scratch / "polygons.arrow"
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, schema) as writer:
        writer.write(pa.record_batch([pa.array(gids, pa.int64()), pa.array(shapes, pa.binary())], schema=schema))
    return path


@handler("zonal.finish", queue=QUEUE, timeout_seconds=21_600)
def finish(params: FinishParams, ctx: Context) -> Finished:
    """Index and check the table, and describe its item."""
    work, parts = params.work, params.parts
    outside, without_data = sum(part.outside for part in parts), sum(part.without_data for part in parts)
    report = ZonalReport(
        raster=work.raster,
        polygons=work.polygons,
        wanted=work.wanted,
        rows=sum(part.rows for part in parts),
        outside=outside,
        outside_gids=_first([part.outside_gids for part in parts]),
        without_data=without_data,
        without_data_gids=_first([part.without_data_gids for part in parts]),
        software=work.facts.software,
    )
    warnings = [
        f"{count} polygons {what}: their count is 0, and they have no other statistics."
        for count, what in ((outside, "are outside the raster"), (without_data, "have no valid pixel"))
        if count
    ]
    return finish_layer(ctx, work.layer, parts, work.facts, report, *warnings)


def _first(samples: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    return tuple(gid for part in samples for gid in part)[:MAX_SAMPLES]
