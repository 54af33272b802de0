"""Many vector files are published by one job, all of them or none."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import geopandas
import psycopg
import pytest
from shapely import Point

from anabranch.engine.model import JobState
from anabranch.errors import InputError
from anabranch.job_control import RetryChoice
from tests.support.stack import Stack, open_stack
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.postgres


@pytest.fixture
def bronze(tmp_path: Path) -> Path:
    folder = tmp_path / "bronze" / "in"
    (folder / "old").mkdir(parents=True)
    return folder


@pytest.fixture
async def stack(catalog_url: str, tmp_path: Path, bronze: Path) -> AsyncIterator[Stack]:
    opening = open_stack(catalog_url, tmp_path, [], vector_max_files=4)
    async with asyncio.timeout(PATIENCE_SECONDS), opening as opened:
        yield opened


def write(path: Path, *names: str, layer: str | None = None) -> None:
    frame = geopandas.GeoDataFrame({"name": names}, geometry=[Point(7, 50)] * len(names), crs="EPSG:4326")
    frame.to_file(path, layer=layer, engine="pyogrio")


def ask(url: str, query: str) -> list[Any]:
    with psycopg.connect(url) as connection:
        return connection.execute(query).fetchall()


async def test_v3_all_files_are_published_together_under_names_of_their_own(
    stack: Stack, bronze: Path, catalog_url: str
) -> None:
    write(bronze / "wells.geojson", "a", "b")
    write(bronze / "old" / "wells.fgb", "c")
    write(bronze / "map.gpkg", "d", layer="roads")
    write(bronze / "map.gpkg", "e", "f", layer="towns")
    (bronze / "notes.pdf").touch()
    wanted: Any = {"folder": "bronze://in", "collection": "survey", "title": "Survey"}
    plan: Any = (await stack.run("process_vector_collection", **wanted, dry_run=True)).job.result
    assert [file["table"] for file in plan["plan"]["files"]] == ["map", "wells", "wells_2"]
    assert ask(catalog_url, "select count(*) from app.layer_tables") == [(0,)]

    done = await stack.run("process_vector_collection", **wanted)

    assert done.job.state is JobState.COMPLETED, done.job.error
    result: Any = done.job.result
    assert sorted(item["id"] for item in result["items"]) == ["map_roads", "map_towns", "wells", "wells_2"]
    layers = "select name, count from app.layers, lateral (select sum(p.rows) as count from app.published_tables t join"
    layers += " app.layer_tables p on p.name = t.table_name where t.publication = layers.publication) c order by name"
    assert ask(catalog_url, layers) == [("map_roads", 1), ("map_towns", 2), ("wells", 1), ("wells_2", 2)]
    one_transaction = "select count(*), count(distinct xmin::text) from app.publications where kind = 'item'"
    assert ask(catalog_url, one_transaction) == [(4, 1)]
    again: Any = (await stack.run("process_vector_collection", **wanted, reason="again")).job.result
    assert (again["changed"], ask(catalog_url, one_transaction)) == (0, [(4, 1)])


async def test_v1_one_bad_file_keeps_all_from_being_published_and_the_report_lists_each(
    stack: Stack, bronze: Path, catalog_url: str, tmp_path: Path
) -> None:
    write(bronze / "good.geojson", "a")
    (bronze / "bad.geojson").write_text("{")
    write(bronze / "map.gpkg", "d", layer="roads")
    write(bronze / "map.gpkg", "e", layer="towns")
    write(bronze / "map_roads.fgb", "f")
    sources: Any = [f"bronze://in/{name}" for name in ("good.geojson", "bad.geojson", "gone.gpkg")]
    refused = await stack.run("process_vector_collection", sources=sources, collection="survey")
    assert refused.job.error
    assert refused.job.error.code == "vector.files"
    assert "2 of 3 files can't be published" in refused.job.error.message
    assert "[vector.json]" in refused.job.error.message
    (task,) = await stack.tasks(refused, "check")
    verdict: Any = task.result
    report = json.loads((tmp_path / verdict["report"].replace("://", "/")).read_text())
    assert [("failure" in file, file["source"][12:]) for file in report["files"]] == [
        (False, "good.geojson"), (True, "bad.geojson"), (True, "gone.gpkg")
    ]  # fmt: skip
    same: Any = ["bronze://in/map.gpkg", "bronze://in/map_roads.fgb"]
    refused = await stack.run("process_vector_collection", sources=same, collection="survey")
    assert refused.job.error
    assert "becomes the table map_roads, too [vector.names]" in refused.job.error.message
    assert ask(catalog_url, "select count(*) from app.catalog_items") == [(0,)]


async def test_files_that_were_replaced_or_removed_since_they_were_listed_keep_all_from_being_published(
    stack: Stack, bronze: Path, catalog_url: str
) -> None:
    """A retry does not list the files again, so that it finds them as they are now."""
    for name in ("a", "b", "c"):
        write(bronze / f"{name}.geojson", name)
    (bronze / "d.geojson").write_text("{")
    refused = await stack.run("process_vector_collection", folder="bronze://in", collection="survey")
    assert refused.job.error
    assert "1 of 4 files can't be published" in refused.job.error.message
    write(bronze / "b.geojson", "other")
    (bronze / "c.geojson").unlink()
    write(bronze / "d.geojson", "d")
    await stack.gateway.controls.retry(refused.job.job_id, RetryChoice(from_node="clean"), "test")

    error = (await stack.wait(refused.job.job_id)).job.error

    assert error
    assert error.code == "vector.files"
    assert "3 of 4 files can't be published" in error.message
    for name, code in (("b", "source.changed"), ("c", "storage.not_found"), ("d", "source.changed")):
        assert re.search(rf"bronze://in/{name}.geojson: [^;]* \[{code}\]", error.message)
    assert ask(catalog_url, "select count(*) from app.catalog_items") == [(0,)]


async def test_a_set_that_is_none_is_refused(stack: Stack, bronze: Path) -> None:
    empty = await stack.run("process_vector_collection", folder="bronze://in", collection="survey")
    assert empty.job.error
    assert empty.job.error.code == "vector.no_sources"
    for number in range(5):
        (bronze / f"{number}.csv").touch()
    many = await stack.run("process_vector_collection", folder="bronze://in", collection="survey", extensions=["CSV"])
    assert many.job.error
    assert many.job.error.code == "vector.too_many"
    wrong: list[dict[str, Any]] = [
        {}, {"folder": "bronze://in", "sources": ["bronze://in/a.csv"]}, {"sources": ["a.csv"]},
        {"folder": "bronze://in", "extensions": ["tif"]}, {"sources": ["bronze://in/a.csv"] * 2},
    ]  # fmt: skip
    for inputs in wrong:
        with pytest.raises(InputError):
            await stack.submit("process_vector_collection", collection="survey", **inputs)
