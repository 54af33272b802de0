"""A published layer is exported to files in gold, and withdrawn with them."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import geopandas
import psycopg
import pyogrio
import pytest
from shapely import Point

from anabranch.adapters.postgres.connect import Role, connect
from anabranch.canonical import Json
from anabranch.engine.model import JobState
from anabranch.engine.read_models import JobDetail
from anabranch.errors import InputError
from anabranch.plugins.stac.catalog import By, act
from tests.support.stack import Stack, open_stack
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.postgres

FORMATS: list[Json] = ["geoparquet", "flatgeobuf", "pmtiles", "csv"]
TOWNS = {"Bonn": Point(7.1, 50.7), "Köln": Point(6.96, 50.94), "Kiel": Point(10.1, 54.3)}


@pytest.fixture
async def stack(catalog_url: str, tmp_path: Path) -> AsyncIterator[Stack]:
    (tmp_path / "bronze" / "in").mkdir(parents=True)
    async with (
        asyncio.timeout(PATIENCE_SECONDS),
        open_stack(catalog_url, tmp_path, [], vector_pmtiles_max_rows=3) as it,
    ):
        yield it


async def publish(stack: Stack, folder: Path, *names: str, **wishes: Any) -> Any:
    """Publish the layer `towns` with some of the towns."""
    frame = geopandas.GeoDataFrame({"name": names}, geometry=[TOWNS[name] for name in names], crs="EPSG:4326")
    file = f"{'-'.join(names)}.geojson"
    frame.to_file(folder / "bronze" / "in" / file, engine="pyogrio")
    job = await stack.run("process_vector", source=f"bronze://in/{file}", table="towns", **wishes)
    return result_of(job)


def result_of(job: JobDetail) -> Any:  # as the workflow's output says
    assert job.job.state is JobState.COMPLETED, job.job.error
    return job.job.result


def code_of(job: JobDetail) -> str:
    assert job.job.error
    return job.job.error.code


def ask(url: str, query: str) -> list[Any]:
    with psycopg.connect(url) as connection:
        return connection.execute(query).fetchall()


def shown_item(url: str) -> Any:
    ((document,),) = ask(url, "select document from app.catalog_items")
    return document


def count_publications(url: str) -> int:
    ((count,),) = ask(url, "select count(*) from app.publications")
    return int(count)


async def test_an_export_adds_verified_files_to_the_item_and_keeps_all_else(
    stack: Stack, catalog_url: str, tmp_path: Path
) -> None:
    await publish(stack, tmp_path, "Bonn", "Köln", "Kiel", title="Towns", datetime="2026-03-21T00:00:00Z")
    before = shown_item(catalog_url)

    result = result_of(await stack.run("export_gold", layer="towns", formats=FORMATS, max_zoom=4))

    assert (result["rows"], result["changed"], result["max_zoom"]) == (3, 1, 4)
    item, paths = shown_item(catalog_url), {}
    for output in result["outputs"]:
        asset, tier = item["assets"][output["kind"]], output["href"].partition("://")[0]
        assert (asset["href"], asset["type"], tier) == (output["href"], output["media_type"], "gold")
        paths[output["kind"]] = tmp_path / output["href"].replace("://", "/")
    for read in (geopandas.read_parquet, pyogrio.read_dataframe):
        frame = read(paths["geoparquet" if read is geopandas.read_parquet else "flatgeobuf"])
        assert dict(zip(frame["name"], frame.geometry, strict=True)) == TOWNS
    assert pyogrio.read_info(paths["pmtiles"])["layer_name"] == "towns"
    assert "Köln" in paths["csv"].read_text()
    of_the_job = ("created", "processing:lineage", "processing:expression", "processing:software")
    for name, value in before["properties"].items():
        assert name in of_the_job or item["properties"][name] == value
    assert {key: item["assets"][key] for key in before["assets"]} == before["assets"]
    assert (item["geometry"], item["bbox"]) == (before["geometry"], before["bbox"])
    source = "source_checksum"
    assert _expression(item)[source] == _expression(before)[source]


def _expression(item: Any) -> Any:
    return item["properties"]["processing:expression"]["expression"]


async def test_p5_an_unchanged_layer_stays_and_another_format_is_added(
    stack: Stack, catalog_url: str, tmp_path: Path
) -> None:
    await publish(stack, tmp_path, "Bonn", "Kiel")
    result_of(await stack.run("export_gold", layer="towns", formats=FORMATS))
    published = count_publications(catalog_url)
    again = result_of(await stack.run("export_gold", layer="towns", formats=FORMATS, reason="again"))
    assert (again["changed"], count_publications(catalog_url)) == (0, published)
    tiles = result_of(await stack.run("export_gold", layer="towns", formats=["pmtiles"], max_zoom=0))
    assert tiles["changed"] == 1
    assert sorted(shown_item(catalog_url)["assets"]) == ["csv", "data", "flatgeobuf", "geoparquet", "pmtiles", "report"]

    await publish(stack, tmp_path, "Köln", mode="append")  # files of other rows are not the layer's any more
    assert sorted(shown_item(catalog_url)["assets"]) == ["data", "report"]
    more = result_of(await stack.run("export_gold", layer="towns"))
    assert (more["rows"], more["changed"]) == (3, 1)

    with connect(catalog_url, Role.HANDLER) as connection:
        act(connection, "rollback", "process_vector", "towns", By(actor="ann", reason="too many"), number=3)
    assert ask(catalog_url, "select count(*) from geo.towns") == [(2,)]
    assert set(FORMATS) < set(shown_item(catalog_url)["assets"])  # the files of these rows


async def test_an_export_is_refused_by_name(stack: Stack, tmp_path: Path) -> None:
    assert code_of(await stack.run("export_gold", layer="nothing")) == "vector.no_layer"
    await publish(stack, tmp_path, "Bonn", "Kiel", "Köln")
    await publish(stack, tmp_path, "Kiel", mode="append")
    refused = await stack.run("export_gold", layer="towns", formats=["pmtiles"])
    assert code_of(refused) == "vector.pmtiles_rows"
    assert "has 4 features, and PMTiles are made of at most 3" in refused.job.error.message  # type: ignore[union-attr]
    wrong: list[dict[str, Json]] = [
        {"formats": ["shapefile"]},
        {"formats": []},
        {"max_zoom": 30},
        {"layer": 'a"; drop'},
    ]
    for inputs in wrong:
        with pytest.raises(InputError):
            await stack.submit("export_gold", **{"layer": "towns", **inputs})


async def test_s6_unpublish_vector_shows_first_and_withdraws_when_it_is_confirmed(
    stack: Stack, catalog_url: str, tmp_path: Path
) -> None:
    await publish(stack, tmp_path, "Bonn", "Kiel", collection="places")
    await stack.run("export_gold", layer="towns")
    wanted: Any = {"layer": "towns", "reason": "wrong year"}
    shown = result_of(await stack.run("unpublish_vector", **wanted))
    layer = {"collection": "places", "item": "towns", "number": 2, "table": "geo.towns", "rows": 2}
    assert {name: shown["layer"][name] for name in layer} == layer
    assert [file["name"] for file in shown["inventory"]["files"]] == ["report.json", "towns.parquet"]
    assert (shown["withdrawn"], ask(catalog_url, "select count(*) from geo.towns")) == (None, [(2,)])
    assert code_of(await stack.run("unpublish_vector", **wanted, dry_run=False)) == "request.unconfirmed"
    assert code_of(await stack.run("unpublish_vector", **wanted, expected=1)) == "publication.moved"
    done = result_of(await stack.run("unpublish_vector", **wanted, dry_run=False, confirm=True))
    assert (done["withdrawn"]["action"], done["withdrawn"]["number"]) == ("withdraw", 3)
    assert ask(catalog_url, "select to_regclass('geo.towns')") == [(None,)]
    assert code_of(await stack.run("unpublish_vector", **wanted, expected=3)) == "vector.no_layer"
