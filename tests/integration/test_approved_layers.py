"""Layers that jobs compute, or read from many files, wait for a person's approval."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest
from rasterio.transform import from_origin

from anabranch.adapters.postgres.connect import Role, connect
from anabranch.engine.model import JobState
from tests.support.layers import add_layer
from tests.support.rasters import make_raster
from tests.support.stack import Stack, open_stack
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.postgres

BOX = "select 1::bigint as gid, st_multi(st_makeenvelope(7, 50, 7.5, 51, 4326))::geometry(MultiPolygon, 4326) as geom"
RASTER = {"collection": "heights", "item": "dem"}
COMPUTED: dict[str, dict[str, Any]] = {
    "zonal_stats": {**RASTER, "layer": "districts"},
    "h3_raster_stats": {**RASTER, "resolution": 4},
    "h3_grid": {"resolution": 3, "bbox": [7, 50, 12, 55]},
}


@pytest.fixture
async def stack(catalog_url: str, tmp_path: Path) -> AsyncIterator[Stack]:
    (tmp_path / "bronze").mkdir()
    async with asyncio.timeout(PATIENCE_SECONDS), open_stack(catalog_url, tmp_path, []) as opened:
        yield opened


def names(url: str, query: str) -> list[str]:
    with psycopg.connect(url) as connection:
        return [name for (name,) in connection.execute(query).fetchall()]


def shown(url: str) -> list[str]:
    return names(url, "select name from app.layers where name <> 'districts' order by 1")


async def publish_sources(stack: Stack, url: str, folder: Path) -> None:
    add_layer(url, "districts", BOX, {}, "MultiPolygon", (7, 50, 7.5, 51))
    pixels, grid = np.arange(100, dtype="float32").reshape(1, 10, 10), from_origin(7, 51, 0.05, 0.05)
    make_raster(folder / "bronze" / "dem.tif", pixels, crs="EPSG:4326", transform=grid)
    done = await stack.run("process_raster", source="bronze://dem.tif", collection="heights", item_id="dem")
    assert done.job.state is JobState.COMPLETED, done.job.error


async def test_p6_no_layer_is_visible_before_it_is_approved_and_nothing_is_left_of_a_rejected_one(
    stack: Stack, catalog_url: str, tmp_path: Path
) -> None:
    await publish_sources(stack, catalog_url, tmp_path)
    jobs: dict[str, str] = {}
    for name in ("good", "bad"):
        for workflow, asked in COMPUTED.items():
            table = f"{name}_{workflow}"
            jobs[table] = await stack.submit(workflow, **asked, table=table, approval=True)
        (tmp_path / "bronze" / f"{name}_wells.csv").write_text("lat,lon\n50.5,7.25\n")
        sources: Any = [f"bronze://{name}_wells.csv"]
        jobs[f"{name}_wells"] = await stack.submit(
            "process_vector_collection", sources=sources, collection=f"{name}_wells", approval=True
        )
    for job in jobs.values():
        await stack.until(job, lambda detail: detail.job.state in (JobState.WAITING, JobState.FAILED))
    assert shown(catalog_url) == []
    assert "bad_wells" not in names(catalog_url, "select id from pgstac.collections")

    for name, job in jobs.items():
        answer: Any = {"approved": True} if name.startswith("good") else {"approved": False, "why": "blurred"}
        await stack.gateway.controls.signal(job, "review", answer, "a reviewer")
    results: Any = {name: (await stack.wait(job)).job.result for name, job in jobs.items()}

    approved = sorted(name for name in jobs if name.startswith("good"))
    assert shown(catalog_url) == approved
    assert [results[name]["items"][0]["id"] for name in approved] == approved
    rejected = [results[name] for name in jobs if name.startswith("bad")]
    assert [(one["items"], one["approved"], one["why"]) for one in rejected] == [([], False, "blurred")] * len(rejected)
    with connect(catalog_url, Role.OWNER) as owner:
        owner.execute("select app.drop_unused_tables('0 seconds', 100)")
    tables = "select relname from pg_class where relnamespace = 'geo'::regnamespace and relname like 'bad%'"
    assert names(catalog_url, tables) == []
    assert "bad_wells" not in names(catalog_url, "select id from pgstac.collections")
