"""A large raster goes through the whole workflow in tiles, and readers see one raster."""

import asyncio
import io
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import psycopg
import pytest
from psycopg.rows import dict_row
from rasterio.warp import transform

from anabranch.engine.model import JobState
from anabranch.engine.read_models import JobDetail
from anabranch.settings import Settings
from tests.support.application import create_app
from tests.support.rasters import GRID, hills, make_raster
from tests.support.server import serve
from tests.support.serving import serve_api
from tests.support.stack import Stack, open_stack
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.postgres

SETTINGS: dict[str, Any] = {"raster_tile_min_pixels": 512, "raster_tile_max_pixels": 512}


@pytest.fixture
async def stack(catalog_url: str, tmp_path: Path) -> AsyncIterator[Stack]:
    (tmp_path / "bronze" / "in").mkdir(parents=True)
    async with asyncio.timeout(PATIENCE_SECONDS), open_stack(catalog_url, tmp_path, [], **SETTINGS) as opened:
        yield opened


def result_of(job: JobDetail) -> Any:  # as the workflow's output says
    assert job.job.state is JobState.COMPLETED, job.job.error
    return job.job.result


async def test_a_large_raster_is_one_item_in_tiles_and_is_drawn_without_seams(
    stack: Stack, catalog_url: str, tmp_path: Path
) -> None:
    heights = hills(1100, 900)
    heights[0, :512, 512:1024] = -9999
    make_raster(tmp_path / "bronze" / "in" / "dem.tif", heights, nodata=-9999)

    job = await stack.run("process_raster", source="bronze://in/dem.tif", collection="dems", tiling="always")
    result = result_of(job)

    (reference,) = result["items"]
    kinds = [output["kind"] for output in result["outputs"]]
    assert kinds == ["mosaic", "overview", *["tile"] * 5, "thumbnail", "report"]
    with psycopg.connect(catalog_url, row_factory=dict_row) as connection:
        (item,) = connection.execute("select document from app.catalog_items").fetchall()
        files = connection.execute("select name, kind from app.published_files order by name").fetchall()
    assert set(item["document"]["assets"]) == {"data", "overview", "thumbnail", "report"}
    assert len(files) == 9
    await asyncio.to_thread(check_served, catalog_url, tmp_path, reference["id"], heights)


def check_served(database_url: str, home: Path, item: str, heights: Any) -> None:
    """In a process of its own: this one has loaded drivers of GDAL that the API refuses."""
    with serve_api(database_url, home) as served:
        check_answers(served.client, item, heights)


def check_answers(client: httpx.Client, item: str, heights: Any) -> None:
    path = f"/raster/collections/dems/items/{item}"
    asset = (client.get(f"/stac/collections/dems/items/{item}")).json()["assets"]["data"]
    mosaic = (client.get(asset["href"])).json()
    assert [tile["name"] for tile in mosaic["empty"]] == ["dem.tile_r0_c1.tif"]
    tile = client.get(httpx.URL(asset["href"]).join(mosaic["tiles"][0]["name"]))
    assert tile.content[:4] == b"II*\x00"
    map_ = (client.get(f"{path}/WebMercatorQuad/tilejson.json")).json()
    assert map_["maxzoom"] > map_["minzoom"]
    statistics = (client.get(f"{path}/statistics")).json()
    assert statistics["b1"]["min"] == pytest.approx(heights[heights > -9999].min(), abs=1)
    for column, row in ((511, 511), (512, 512), (1024, 511), (511, 512)):
        (lon,), (lat,) = transform("EPSG:32633", "EPSG:4326", *_coordinates(column, row))
        found = (client.get(f"{path}/point/{lon},{lat}")).json()["values"][0]
        expected = heights[0, row, column]
        assert found == (None if expected == -9999 else pytest.approx(float(expected), rel=1e-6))
    image = client.get(f"{path}/preview.npy", params={"max_size": 1024})
    preview = np.load(io.BytesIO(image.content))
    assert preview.shape[0] == 2
    drawn = client.get(f"{path}/preview.png")
    assert drawn.content[:4] == b"\x89PNG"


def _coordinates(column: int, row: int) -> tuple[list[float], list[float]]:
    x, y = GRID * (column + 0.5, row + 0.5)
    return [x], [y]


async def test_p6_a_review_sees_the_mosaic_before_each_tile_becomes_an_item_as_requested(
    stack: Stack, catalog_url: str, tmp_path: Path
) -> None:
    heights = hills(700, 600)
    heights[0, :512, 512:] = -9999
    make_raster(tmp_path / "bronze" / "in" / "dem.tif", heights, nodata=-9999)
    wishes: dict[str, Any] = {"tiling": "always", "approval": True, "tile_items": True, "item_id": "dem"}
    job_id = await stack.submit("process_raster", source="bronze://in/dem.tif", **wishes)
    await stack.until(job_id, lambda job: job.job.state is JobState.WAITING)
    app = create_app(Settings(home=tmp_path), catalog_url)
    async with serve(app) as url, httpx.AsyncClient(base_url=url, timeout=PATIENCE_SECONDS) as client:
        draft = await client.get(f"/api/jobs/{job_id}/outputs/dem.mosaic.json")
        part = await client.get(f"/api/jobs/{job_id}/outputs/dem.tile_r1_c1.tif", headers={"Range": "bytes=0-3"})
        hidden = await client.get(f"/files/{job_id}/dem.mosaic.json")
    assert (draft.json()["type"], part.content, hidden.status_code) == ("mosaic", b"II*\x00", 404)

    await stack.gateway.controls.signal(job_id, "review", {"approved": True}, "a reviewer")
    ids = [item["id"] for item in result_of(await stack.wait(job_id))["items"]]
    assert ids == ["dem_r0_c0", "dem_r1_c0", "dem_r1_c1"], "and none for the tile without data"
    with psycopg.connect(catalog_url) as connection:
        found = connection.execute("select document from app.catalog_items order by id").fetchall()
    check_tile_items([document for (document,) in found], float(heights[0, 512:, 512:].mean()))


def check_tile_items(items: list[dict[str, Any]], mean: float) -> None:
    assert len({str(item["properties"]["renders"]) for item in items}) == 1, "all are drawn alike"
    last = items[-1]
    assert set(last["assets"]) == {"data", "thumbnail", "report"}
    assert last["properties"]["proj:shape"] == [88, 188]
    assert last["properties"]["proj:transform"][2] == 500_000 + 512 * 10
    (band,) = last["assets"]["data"]["bands"]
    assert band["statistics"]["mean"] == pytest.approx(mean, rel=1e-6)
