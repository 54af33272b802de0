"""Many rasters go through the whole workflow: all of them are published in one collection, or none."""

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from shutil import rmtree
from typing import Any, LiteralString

import psycopg
import pytest
import pytest_asyncio
from psycopg import Connection
from psycopg.rows import TupleRow, dict_row
from rasterio.transform import from_origin

from anabranch.adapters.postgres.store.objects.audited import PostgresRecords
from anabranch.app import open_tiers
from anabranch.canonical import Json
from anabranch.embedded.cluster import Cluster
from anabranch.engine.model import JobState
from anabranch.engine.read_models import JobDetail
from anabranch.engine.submitting.submission import Order
from anabranch.settings import Settings
from anabranch.storage.audit import Audit, Finding
from anabranch.testing.postgres import Databases
from tests.support.rasters import hills, make_raster
from tests.support.stack import Stack, open_stack

pytestmark = [pytest.mark.postgres, pytest.mark.asyncio(loop_scope="module")]

SIZE = 40
SOURCES = {"folder", "sources", "source_list"}


@pytest.fixture(scope="module")
def catalog_url(postgres: Cluster, postgres_admin: Connection[TupleRow], catalog_template: str) -> str:
    """One database for all tests, each of which has a folder and a collection of its own."""
    return Databases(postgres, postgres_admin).make(catalog_template)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stack(catalog_url: str, home: Path) -> AsyncIterator[Stack]:
    async with open_stack(catalog_url, home, []) as opened:
        yield opened


@pytest.fixture
def bronze(home: Path) -> Iterator[Path]:
    folder = home / "bronze" / "set"
    folder.mkdir(parents=True)
    yield folder
    rmtree(folder)


def make_tile(path: Path, column: int = 0, height: int = SIZE, **changes: Any) -> Path:
    """A small DEM, beside the one of the column before."""
    path.parent.mkdir(parents=True, exist_ok=True)
    grid = from_origin(500_000 + 10 * SIZE * column, 5_000_000, 10, 10)
    return make_raster(path, hills(SIZE, height), **{"transform": grid, **changes})


def order(collection: str, *, again: bool = False, **wishes: Json) -> Order:
    given: dict[str, Json] = {"collection": collection}
    given |= {} if SOURCES & set(wishes) else {"folder": "bronze://set"}
    return Order(
        "process_raster_collection", given | wishes, scope="default", by="test", correlation_id="test", rerun=again
    )


async def publish(stack: Stack, collection: str, *, again: bool = False, **wishes: Json) -> JobDetail:
    return await stack.wait((await stack.gateway.submit(order(collection, again=again, **wishes))).job_id)


def result_of(job: JobDetail) -> Any:  # as the workflow's output says
    assert job.job.state is JobState.COMPLETED, job.job.error
    return job.job.result


def rows(url: str, query: LiteralString, *values: str) -> list[dict[str, Any]]:
    with psycopg.connect(url, row_factory=dict_row) as connection:
        return connection.execute(query, values).fetchall()


def published(url: str, collection: str) -> list[str]:
    return [row["id"] for row in rows(url, "select id from pgstac.items where collection = %s order by id", collection)]


def collections(url: str, name: str) -> list[Any]:
    return [row["document"] for row in rows(url, "select document from app.collections where id = %s", name)]


def numbers(url: str, collection: str) -> dict[str, int]:
    query: LiteralString = "select key, number from app.publication_keys where key like %s || '/%%' and kind = 'item'"
    return {row["key"]: row["number"] for row in rows(url, query, collection)}


def find_faults(url: str, home: Path) -> list[Finding]:
    with closing(PostgresRecords(url)) as records:
        return list(Audit(open_tiers(Settings(home=home)), records).find())


async def test_c2_a_set_becomes_a_collection_and_only_what_is_new_is_replaced(
    stack: Stack, bronze: Path, catalog_url: str, home: Path
) -> None:
    for number, name in enumerate(("a/dem.tif", "b/dem.tif", "north_2026-03-21.tif")):
        make_tile(bronze / name, number)
    (bronze / "readme.txt").write_text("no raster")
    job = await publish(stack, "dems", title="Heights", description="Of the delivery.")
    result = result_of(job)

    ids = ["a-dem", "b-dem", "north_2026-03-21"]
    assert [item["id"] for item in result["items"]] == ids == published(catalog_url, "dems")
    assert [output["name"] for output in result["outputs"] if output["kind"] == "cog"] == [
        f"{item}.tif" for item in ids
    ]
    assert (result["changed"], [warning["code"] for warning in result["warnings"]]) == (3, ["raster.no_time"])
    report = json.loads((home / result["report"].replace("://", "/")).read_text())
    assert report["comparison"]["majority"]["crs"] == "EPSG:32633"
    assert [file["source"] for file in report["files"]] == [
        f"bronze://set/{name}" for name in ("a/dem.tif", "b/dem.tif", "north_2026-03-21.tif")
    ]
    (collection,) = collections(catalog_url, "dems")
    items = rows(catalog_url, "select document from app.catalog_items where collection = %s", "dems")
    boxes = list(zip(*(row["document"]["bbox"] for row in items), strict=True))
    assert collection["extent"]["spatial"]["bbox"] == [[*map(min, boxes[:2]), *map(max, boxes[2:])]]
    assert (collection["title"], collection["description"]) == ("Heights", "Of the delivery.")
    made_from: LiteralString = "select made_from from app.publications where key = %s"
    assert rows(catalog_url, made_from, "dems/a-dem")[0]["made_from"]["address"] == "bronze://set/a/dem.tif"

    again = await publish(stack, "dems", title="Heights", description="Of the delivery.")
    assert again.job.job_id == job.job.job_id
    make_tile(bronze / "b" / "dem.tif", 1, SIZE + 5)
    changed = result_of(await publish(stack, "dems", again=True, title="Heights", description="Of the delivery."))
    assert (len(changed["items"]), changed["changed"]) == (3, 1)
    assert numbers(catalog_url, "dems") == {"dems/a-dem": 1, "dems/b-dem": 2, "dems/north_2026-03-21": 1}
    assert find_faults(catalog_url, home) == [], "every object belongs to a job or a publication"


async def test_ids_of_other_owners_are_found_before_any_file_is_read(stack: Stack, bronze: Path) -> None:
    for number, name in enumerate(("a.tif", "b.tif")):
        make_tile(bronze / name, number)
    result_of(await publish(stack, "owned"))
    for name in ("a.tif", "b.tif", "c.tif"):
        (bronze / name).write_text("not read")
    theirs = replace(order("owned", folder="bronze://set", dry_run=True), scope="set", by="others")
    refused = (await stack.wait((await stack.gateway.submit(theirs)).job_id)).job.error
    assert refused
    assert (refused.code, refused.node) == ("publication.owner", "preflight")
    assert "items of other platforms: owned/a, owned/b" in refused.message


async def test_one_bad_file_is_reported_with_all_others_and_nothing_is_published(
    stack: Stack, bronze: Path, catalog_url: str, home: Path
) -> None:
    make_tile(bronze / "good.tif")
    make_tile(bronze / "lost.tif", crs=None)
    (bronze / "empty.tif").touch()
    (bronze / "text.tif").write_text("no raster")
    make_tile(bronze / "utm34.tif", crs="EPSG:32634")
    sources: list[Json] = [f"bronze://set/{name}.tif" for name in ("good", "lost", "empty", "text", "utm34", "gone")]

    job = await publish(stack, "bad", sources=sources)

    error = job.job.error
    assert error is not None
    assert (job.job.state, error.code) == (JobState.FAILED, "raster.files")
    assert "4 of 6 files can't be published" in error.message
    (compare,) = await stack.tasks(job, "compare")
    assert isinstance(compare.result, dict)
    files = json.loads((home / str(compare.result["report"]).replace("://", "/")).read_text())["files"]
    assert {file["item_id"]: file["failure"]["code"] for file in files if "failure" in file} == {
        "lost": "raster.crs_missing", "empty": "raster.empty", "text": "raster.format", "gone": "storage.not_found",
    }  # fmt: skip
    assert "bronze://set/lost.tif: " in error.message
    assert collections(catalog_url, "bad") == []
    assert find_faults(catalog_url, home) == []

    (bronze / "list.ndjson").write_text('{"source": "bronze://set/good.tif"}\n{"name": "secret"}\n')
    unread = await publish(stack, "bad", source_list="bronze://set/list.ndjson")
    assert unread.job.error is not None
    assert (unread.job.error.code, "line 2" in unread.job.error.message) == ("raster.sources", True)
    assert "secret" not in unread.job.error.message
    nothing = await publish(stack, "bad", folder="bronze://nowhere")
    assert nothing.job.error is not None
    assert nothing.job.error.code == "raster.no_sources"


async def test_a_mixed_set_is_refused_unless_it_is_allowed_and_a_person_approves_it(
    stack: Stack, bronze: Path, catalog_url: str
) -> None:
    for number in range(2):
        make_tile(bronze / f"{number}.tif", number)
    make_tile(bronze / "coarse.tif", transform=from_origin(500_000, 5_000_000, 30, 30))
    (bronze / "list.ndjson").write_text(
        "\n".join(json.dumps({"source": f"bronze://set/{name}.tif"}) for name in ("0", "1", "coarse"))
    )

    refused = await publish(stack, "mixed")
    assert refused.job.error is not None
    assert refused.job.error.code == "raster.mixed"
    assert "coarse.tif (pixel_size 30 x 30 instead of 10 x 10)" in refused.job.error.message
    dry = result_of(await publish(stack, "mixed", dry_run=True))
    assert ([item["item_id"] for item in dry["plan"]["items"]], dry["items"]) == (["0", "1", "coarse"], [])

    job_id = (
        await stack.gateway.submit(
            order("mixed", approval=True, source_list="bronze://set/list.ndjson", allow_mixed=True)
        )
    ).job_id
    await stack.until(job_id, lambda job: job.job.state is JobState.WAITING)
    assert collections(catalog_url, "mixed") == []
    await stack.gateway.controls.signal(job_id, "review", {"approved": True}, "a reviewer")
    result = result_of(await stack.wait(job_id))
    assert published(catalog_url, "mixed") == ["0", "1", "coarse"]
    assert [warning["code"] for warning in result["warnings"]] == ["raster.no_time", "raster.mixed"]


@pytest.mark.slow
async def test_300_rasters_are_published_together(stack: Stack, bronze: Path, catalog_url: str) -> None:
    for number in range(300):
        make_tile(bronze / f"{number // 100}" / f"scene_{number:03}.tif", number)
    job = await publish(stack, "many")
    result = result_of(job)
    assert (len(result["items"]), result["changed"], result["plan"]["count"]) == (300, 300, 300)
    assert len(published(catalog_url, "many")) == 300
    assert len(await stack.tasks(job, "convert")) == 19, "small files share a task"


MAKE_ITEMS = """
import json

from anabranch import Context, handler
from tests.support.items import raster_facts


@handler("make_items")
def make_items(params: dict, ctx: Context) -> dict:
    files = []
    for number in range(0, params["count"], 16):
        path = ctx.scratch / f"{number}.ndjson"
        each = range(number, min(number + 16, params["count"]))
        path.write_text("".join(json.dumps(raster_facts(f"item-{one:05}")) + chr(10) for one in each))
        files.append(ctx.work.put(path))
    return {"files": files}
"""
REGISTER = """
workflow_id: register
inputs: {count: {type: integer, required: true}, note: {type: string, default: ""}}
nodes:
  make: {handler: make_items, params: {count: "{{ inputs.count }}"}, next: publish}
  publish:
    handler: stac.register_items
    params: {collection: many_items, files: "{{ nodes.make.output.files }}", create_collection: true, keep_same: true}
output: {items: "{{ length(nodes.publish.output.items) }}", changed: "{{ nodes.publish.output.changed }}"}
"""


@pytest.mark.slow
async def test_10_000_items_of_work_files_are_published_together(
    databases: Databases, catalog_template: str, tmp_path: Path
) -> None:
    url, plugins = databases.make(catalog_template), tmp_path / "plugins"
    plugins.mkdir()
    (plugins / "make_items.py").write_text(MAKE_ITEMS)
    (plugins / "register.yaml").write_text(REGISTER)
    async with open_stack(url, tmp_path, [str(plugins)]) as stack:
        first = result_of(await stack.run("register", count=10_000))
        again = result_of(await stack.run("register", count=10_000, note="again"))
    assert (first["items"], first["changed"]) == (10_000, 10_000)
    assert (again["items"], again["changed"]) == (10_000, 0), "the content is the same"
    assert len(published(url, "many_items")) == 10_000
