"""Grids of H3 cells and statistics in them go through their whole workflows."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import h3
import numpy as np
import psycopg
import pytest
from psycopg.rows import dict_row
from rasterio.transform import from_origin

from anabranch.engine.model import JobState
from anabranch.engine.read_models import JobDetail
from anabranch.errors import InputError
from tests.support.layers import add_layer
from tests.support.rasters import make_raster
from tests.support.stack import Stack, open_stack
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.postgres
SEED = str(Path(__file__).parents[1] / "data" / "plugins" / "seeds" / "seed_004_h3")
COUNTRY = """
    select v.gid, st_multi(st_makeenvelope(west, 50, east, 51, 4326))::geometry(MultiPolygon, 4326) as geom
      from (values (1::bigint, 7, 8), (2, 8, 8.4)) v(gid, west, east)
"""


@pytest.fixture
async def stack(catalog_url: str, tmp_path: Path) -> AsyncIterator[Stack]:
    (tmp_path / "bronze").mkdir()
    limits: dict[str, Any] = {"h3_task_cells": 60, "h3_max_cells": 10_000}
    async with asyncio.timeout(PATIENCE_SECONDS), open_stack(catalog_url, tmp_path, [SEED], **limits) as opened:
        yield opened


def rows(url: str, query: str) -> list[dict[str, Any]]:
    with psycopg.connect(url, row_factory=dict_row) as connection:
        return connection.execute(query).fetchall()


def result_of(job: JobDetail) -> Any:  # as the workflow's output says
    assert job.job.state is JobState.COMPLETED, job.job.error
    return job.job.result


def polyfill(west: float, south: float, east: float, north: float, resolution: int) -> list[str]:
    ring = [(west, south), (east, south), (east, north), (west, north), (west, south)]
    return sorted(h3.geo_to_cells({"type": "Polygon", "coordinates": [ring]}, resolution))


async def test_a_grid_of_a_feature_is_made_by_many_tasks_and_published(stack: Stack, catalog_url: str) -> None:
    add_layer(catalog_url, "countries", COUNTRY, {}, "MultiPolygon", (7, 50, 8.4, 51))
    asked: dict[str, Any] = {"resolution": 5, "table": "cells", "layer": "countries"}
    job = await stack.run("h3_grid", **asked, gid=2)
    assert result_of(job)["items"] == [{"collection": "h3_grids", "id": "cells"}]
    assert len(await stack.tasks(job, "cascade")) > 1
    found = rows(catalog_url, "select gid, h3, h3_text, resolution, parent, st_isvalid(geom) as valid from geo.cells")
    assert sorted(row["h3_text"] for row in found) == polyfill(8, 50, 8.4, 51, 5)
    assert all(h3.str_to_int(row["h3_text"]) == row["h3"] and row["valid"] for row in found)
    assert {row["parent"] for row in found} == {h3.str_to_int(h3.cell_to_parent(row["h3_text"], 4)) for row in found}
    (item,) = rows(catalog_url, "select document -> 'properties' as said from app.catalog_items where id = 'cells'")
    assert item["said"]["description"] == (
        "H3 cells of resolution 5 in layer geo.countries (item layers/countries, publication 1), gid 2."
    )


async def test_a_grid_across_the_antimeridian_replaces_the_one_before(stack: Stack, catalog_url: str) -> None:
    result_of(await stack.run("h3_grid", resolution=2, table="cells", bbox=[0, 0, 10, 10]))
    result_of(await stack.run("h3_grid", resolution=2, table="cells", bbox=[170, 60, -170, 70]))
    found = [row["h3_text"] for row in rows(catalog_url, "select h3_text from geo.cells order by 1")]
    assert found == sorted([*polyfill(170, 60, 180, 70, 2), *polyfill(-180, 60, -170, 70, 2)])
    polygon: Any = {"type": "Polygon", "coordinates": [[[0, 0], [9, 0], [9, 9], [0, 9], [0, 0]]]}
    many = await stack.run("h3_grid", resolution=9, table="many", polygon=polygon)
    assert many.job.error is not None
    assert many.job.error.code == "h3.too_many"
    none = await stack.run("h3_grid", resolution=1, table="none", bbox=[0, 0, 0.001, 0.001])
    assert none.job.error is not None
    assert none.job.error.code == "h3.no_cells"
    with pytest.raises(InputError, match="give one of `bbox`, `polygon` and `layer`"):
        await stack.submit("h3_grid", resolution=2, table="cells")


async def test_statistics_of_a_raster_in_cells_cover_every_pixel_once(
    stack: Stack, catalog_url: str, tmp_path: Path
) -> None:
    pixels = np.arange(100, dtype="float32").reshape(1, 10, 10)
    grid = from_origin(7, 51, 0.05, 0.05)
    make_raster(tmp_path / "bronze" / "dem.tif", pixels, crs="EPSG:4326", transform=grid, nodata=0)
    asked = {"collection": "heights", "item_id": "dem", "datetime": "2026-03-21T00:00:00Z"}
    result_of(await stack.run("process_raster", source="bronze://dem.tif", **asked))

    result = result_of(await stack.run("h3_raster_stats", collection="heights", item="dem", resolution=5))

    assert result["items"] == [{"collection": "h3_stats", "id": "dem_h3_5"}]
    (total,) = rows(catalog_url, "select sum(count), sum(sum) as all, min(count) as least from geo.dem_h3_5")
    assert (total["sum"], total["all"]) == (pytest.approx(99, rel=1e-4), pytest.approx(4950, rel=1e-4))
    assert total["least"] > 0
    report = json.loads((tmp_path / result["report"].replace("://", "/")).read_text())
    assert (report["raster"]["item"], report["raster"]["publication"]) == ("dem", 1)
    (item,) = rows(catalog_url, "select document -> 'properties' as said from app.catalog_items where id = 'dem_h3_5'")
    assert item["said"]["description"] == (
        "Statistics of raster heights/dem (publication 1, asset data), band 1, in H3 cells of resolution 5."
    )


async def test_create_h3_base_of_seed_004_runs_as_printed(stack: Stack, catalog_url: str) -> None:
    result = result_of(await stack.run("create_h3_base", resolution=1))
    assert result["generate"]["cells"] == h3.get_num_cells(1)
    (row,) = rows(catalog_url, "select count(*), bool_and(st_isvalid(geom)) as valid from geo.h3_base_1")
    assert row == {"count": 842, "valid": True}
