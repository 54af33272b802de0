"""Statistics of a published raster in the polygons of a published layer go through the whole workflow."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest
from psycopg.rows import dict_row
from rasterio.transform import from_origin

from anabranch.app import handler_resources
from anabranch.engine.model import JobState
from anabranch.engine.read_models import JobDetail
from anabranch.engine.worker.context import Context, NoLink, TaskFacts
from anabranch.errors import Conflict, InputError
from anabranch.plugins.zonal.models import Statistic
from anabranch.plugins.zonal.published import find_polygons, open_layer
from anabranch.settings import load_settings
from tests.support.layers import add_layer
from tests.support.rasters import hills, make_raster
from tests.support.stack import Stack, open_stack
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.postgres

SETTINGS: dict[str, Any] = {"zonal_task_polygons": 2, "raster_tile_min_pixels": 512, "raster_tile_max_pixels": 512}
BOXES = """
    select gid, st_multi(st_makeenvelope(west, south, east, north, 4326))::geometry(MultiPolygon, 4326) as geom
      from (values (10::bigint, 0, 0, 0.015, 0.01), (20, 0, 0, 0.1, 0.1), (30, 50, 50, 51, 51),
                   (40, 0.05, 0, 0.07, 0.1)) v(gid, west, south, east, north)
"""


@pytest.fixture
async def stack(catalog_url: str, tmp_path: Path) -> AsyncIterator[Stack]:
    (tmp_path / "bronze").mkdir()
    async with (
        asyncio.timeout(PATIENCE_SECONDS),
        open_stack(catalog_url, tmp_path, [], **SETTINGS) as opened,
    ):
        yield opened


def rows(url: str, query: str) -> list[dict[str, Any]]:
    with psycopg.connect(url, row_factory=dict_row) as connection:
        return connection.execute(query).fetchall()


def result_of(job: JobDetail) -> Any:  # as the workflow's output says
    assert job.job.state is JobState.COMPLETED, job.job.error
    return job.job.result


async def publish_raster(stack: Stack, folder: Path) -> None:
    """Ten by ten pixels of a hundredth of a degree, from 0 to 99; the right half is nodata."""
    pixels = np.arange(100, dtype="float32").reshape(1, 10, 10)
    pixels[:, :, 5:] = -1
    make_raster(
        folder / "bronze" / "dem.tif", pixels, crs="EPSG:4326", transform=from_origin(0, 0.1, 0.01, 0.01), nodata=-1
    )
    result_of(
        await stack.run(
            "process_raster", source="bronze://dem.tif", collection="heights", item_id="dem",
            datetime="2026-03-21T00:00:00Z",
        )
    )  # fmt: skip


def publish_boxes(url: str) -> None:
    add_layer(url, "districts", BOXES, {}, "MultiPolygon", (0, 0, 51, 51))


async def test_v3_c1_statistics_are_exact_and_published_as_a_layer(
    stack: Stack, catalog_url: str, tmp_path: Path
) -> None:
    await publish_raster(stack, tmp_path)
    publish_boxes(catalog_url)
    asked = {"layer": "districts", "collection": "heights", "item": "dem"}
    result = result_of(await stack.run("zonal_stats", **asked, statistics=["count", "mean", "max", "variety"]))

    assert result["items"] == [{"collection": "zonal_stats", "id": "districts_dem"}]
    found = rows(catalog_url, "select gid, count, mean, max, variety from geo.districts_dem order by gid")
    assert [tuple(row.values()) for row in found] == [
        (10, pytest.approx(1.5), pytest.approx((90 + 91 / 2) / 1.5), 91, 2),
        (20, pytest.approx(50), pytest.approx(47), 94, 50),
        (30, 0, None, None, None),
        (40, 0, None, None, None),
    ]
    both = "geo.districts a join geo.districts_dem b using (gid)"
    assert rows(catalog_url, f"select bool_and(st_equals(a.geom, b.geom)) as same from {both}") == [{"same": True}]
    assert len(result["warnings"]) == 2
    report = json.loads((tmp_path / result["report"].replace("://", "/")).read_text())
    assert (report["outside_gids"], report["without_data_gids"], report["rows"]) == ([30], [40], 4)
    (item,) = rows(catalog_url, "select document from app.catalog_items where id = 'districts_dem'")
    properties = item["document"]["properties"]
    assert properties["description"] == (
        "Statistics of raster heights/dem (publication 1, asset data), band 1, in the polygons of layer geo.districts"
        " (item layers/districts, publication 1)."
    )
    assert (properties["datetime"], properties["table:row_count"]) == ("2026-03-21T00:00:00Z", 4)


STRIPES = """
    select n::bigint as gid, st_multi(st_transform(box, 4326))::geometry(MultiPolygon, 4326) as geom
      from generate_series(0, 4) n,
           st_makeenvelope(500000 + 1900 * n, 4994000, 502935 + 1900 * n, 5000200, 32633) box
"""


async def test_r2_statistics_of_a_mosaic_are_those_of_one_cog_of_the_same_pixels(
    stack: Stack, catalog_url: str, tmp_path: Path
) -> None:
    """The stripes cross the seams, an empty tile and the borders; the last one is outside."""
    heights = hills(700, 600)
    heights[0, :512, 512:] = -9999
    make_raster(tmp_path / "bronze" / "dem.tif", heights, nodata=-9999)
    add_layer(catalog_url, "stripes", STRIPES, {}, "MultiPolygon", (15, 45, 16, 46))
    asked: Any = {"layer": "stripes", "collection": "heights", "statistics": [name.value for name in Statistic]}
    for tiling in ("always", "never"):
        published = {"source": "bronze://dem.tif", "collection": "heights", "item_id": tiling, "tiling": tiling}
        result_of(await stack.run("process_raster", **published))
        result_of(await stack.run("zonal_stats", **asked, item=tiling, table=tiling))
    result_of(await stack.run("h3_raster_stats", collection="heights", item="always", resolution=7, table="cells"))

    tiled, whole = (rows(catalog_url, f"select * from geo.{name} order by gid") for name in ("always", "never"))
    assert tiled == whole
    assert [bool(row["count"]) for row in whole] == [True, True, True, True, False]
    (total,) = rows(catalog_url, "select sum(count) as pixels from geo.cells")
    assert total["pixels"] == pytest.approx((heights > -9999).sum(), rel=1e-4)

    with psycopg.connect(catalog_url) as connection:
        connection.execute("delete from app.published_files where kind = 'tile'")
    refused = await stack.run("zonal_stats", **asked, item="always", table="other")
    assert refused.job.error is not None
    assert (refused.job.error.code, refused.job.error.node) == ("zonal.kind", "plan")
    assert "is a mosaic of tiles that the item has not published" in refused.job.error.message


async def test_what_can_not_be_measured_is_refused_with_nothing_left(stack: Stack, catalog_url: str) -> None:
    publish_boxes(catalog_url)
    for asked, code in (
        ({"layer": "districts", "collection": "heights", "item": "dem"}, "zonal.no_asset"),
        ({"layer": "nothing", "collection": "heights", "item": "dem"}, "vector.no_layer"),
        ({"layer": "districts", "collection": "layers", "item": "districts"}, "zonal.kind"),
    ):
        job = await stack.run("zonal_stats", **asked)
        assert job.job.error is not None
        assert job.job.error.code == code
    assert rows(catalog_url, "select name from app.layer_tables where job_id <> 'job'") == []
    with pytest.raises(InputError, match="statistics"):
        await stack.submit("zonal_stats", layer="a", collection="b", item="c", statistics=["kurtosis"])


def test_v3_a_layer_that_changes_meanwhile_is_noticed(catalog_url: str, tmp_path: Path) -> None:
    """A table never mixes the polygons of two publications."""
    publish_boxes(catalog_url)
    facts = TaskFacts("job", "task", "node", 0, 1, {}, "test", None, str(tmp_path))
    ctx = Context(facts, NoLink(), handler_resources(load_settings(home=tmp_path), catalog_url, tmp_path))
    pinned = find_polygons(ctx, "districts")
    with open_layer(ctx, pinned) as connection:
        assert connection.execute("select count(*) from geo.districts").fetchone() == (4,)
    publish_boxes(catalog_url)
    changed = pytest.raises(Conflict, match="was publication 1 when the job began, and changed since")
    with changed as moved, open_layer(ctx, pinned):
        pass
    assert moved.value.code == "zonal.layer_changed"
