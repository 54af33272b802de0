"""A folder is published by the whole workflow, and again when something in it has changed."""

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
import pytest_asyncio
from psycopg import Connection
from psycopg.rows import TupleRow

from anabranch.embedded.cluster import Cluster
from anabranch.engine.model import JobState
from anabranch.testing.postgres import Databases
from tests.support.rasters import hills, make_raster
from tests.support.serving import serve_api
from tests.support.stack import Stack, open_stack

pytestmark = [pytest.mark.postgres, pytest.mark.asyncio(loop_scope="module")]
HALF_HOUR = 1800


@pytest.fixture(scope="module")
def url(postgres: Cluster, postgres_admin: Connection[TupleRow], catalog_template: str) -> str:
    """One catalog for all tests, which publish to collections of their own."""
    return Databases(postgres, postgres_admin).make(catalog_template)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("folders")


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def stack(url: str, home: Path) -> AsyncIterator[Stack]:
    async with open_stack(url, home, []) as opened:
        yield opened


@pytest.fixture
def delivery(home: Path, request: pytest.FixtureRequest) -> Path:
    """A folder whose name is that of the test, and of its collection."""
    folder = home / "bronze" / str(request.node.name)[:60]
    folder.mkdir(parents=True)
    return folder


def age(path: Path, seconds: int = HALF_HOUR) -> Path:
    """A file that was written some time ago."""
    at = time.time() - seconds
    os.utime(path, (at, at))
    return path


def write(path: Path, height: float) -> Path:
    path.parent.mkdir(exist_ok=True)
    return age(make_raster(path, hills(40, 40) + height))


async def sync(stack: Stack, folder: Path, **more: Any) -> Any:  # as the workflow's output says
    job = await stack.run("sync_folder", folder=f"bronze://{folder.name}", collection=folder.name, **more)
    assert job.job.state is JobState.COMPLETED, job.job.error
    return job.job.result


def names(result: Any, status: str) -> list[str]:
    return [each["address"].split("/", 3)[3] for each in result["files"].get(status, [])]


def query(url: str, text: str, folder: Path) -> list[Any]:
    with psycopg.connect(url) as connection:
        return connection.execute(text.encode(), {"collection": folder.name}).fetchall()


HISTORY = """select split_part(key, '/', 2), number, action::text, reason from app.publications
              where kind = 'item' and split_part(key, '/', 1) = %(collection)s"""
CHILDREN = (
    "select count(*) from app.jobs where workflow = 'process_raster' and parameters ->> 'collection' = %(collection)s"
)
SHOWN = "select id from app.catalog_items where collection = %(collection)s"


async def test_p5_a_folder_is_published_and_what_changed_replaces_what_was_there(
    stack: Stack, delivery: Path, url: str, home: Path
) -> None:
    first, second = write(delivery / "a.tif", 0), write(delivery / "deep" / "a.tif", 1)
    third = write(delivery / "c d.tif", 2)
    (delivery / "notes.txt").write_text("no raster")

    plan = await sync(stack, delivery, dry_run=True)
    assert (plan["counts"], query(url, CHILDREN, delivery)) == ({"new": 3}, [(0,)])
    result = await sync(stack, delivery)
    assert (result["counts"], len(result["items"])) == ({"published": 3}, 3)
    items = dict(zip(names(result, "published"), (each["item"] for each in result["files"]["published"]), strict=True))

    again = await sync(stack, delivery)
    assert (again["counts"], query(url, CHILDREN, delivery)) == ({"unchanged": 3}, [(3,)])
    mistyped = await stack.run("sync_folder", folder=f"bronze://{delivery.name}s", collection=delivery.name)
    assert mistyped.job.error is not None
    assert (mistyped.job.error.code, mistyped.job.error.node) == ("storage.not_found", "compare")

    write(first, 5)
    second.unlink()
    sidecar, broken = third.with_suffix(".tfw"), delivery / "broken.tif"
    sidecar.write_text("10\n0\n0\n-10\n0\n0\n")
    broken.write_bytes(b"II*\0 this is no raster")
    age(sidecar), age(broken)
    age(write(delivery / "young.tif", 3), -HALF_HOUR)  # by a clock that is ahead: the test may take its time

    result = await sync(stack, delivery)
    assert result["counts"] == {"failed": 1, "replaced": 2, "vanished": 1, "writing": 1}
    assert (names(result, "replaced"), names(result, "vanished")) == (["a.tif", "c d.tif"], ["deep/a.tif"])
    assert (names(result, "failed"), names(result, "writing")) == (["broken.tif"], ["young.tif"])
    (failed,) = result["files"]["failed"]
    assert failed["code"].startswith("raster.")
    (vanished,) = result["files"]["vanished"]
    command = f"anabranch items unpublish {delivery.name}/{items['deep/a.tif']} --expected 1 --reason "
    assert vanished["command"].startswith(command)
    (output,) = result["outputs"]
    lines = (home / output["href"].replace("://", "/")).read_text().splitlines()
    assert sorted(json.loads(line)["status"] for line in lines) == [
        "failed",
        "replaced",
        "replaced",
        "vanished",
        "writing",
    ]

    reason = f"Synchronized with bronze://{delivery.name}"
    published = [(item, 1, "publish", reason) for item in items.values()]
    replaced = [(items[name], 2, "replace", reason) for name in ("a.tif", "c d.tif")]
    assert sorted(query(url, HISTORY, delivery)) == sorted(published + replaced)
    age(delivery / "young.tif")
    result = await sync(stack, delivery, extensions=["TIF"], limit=1)
    assert result["counts"] == {"failed": 1, "left": 1, "unchanged": 2, "vanished": 1}, "what failed is tried again"


async def test_p5_two_synchronizations_at_once_publish_each_file_once(stack: Stack, delivery: Path, url: str) -> None:
    write(delivery / "a.tif", 0)
    results = await asyncio.gather(*(sync(stack, delivery, limit=100 + number) for number in range(2)))
    assert [number for _, number, *_ in query(url, HISTORY, delivery)] == [1]
    counts = [result["counts"] for result in results]
    assert sum(each.get("published", 0) for each in counts) == 1
    assert {each["code"] for result in results for each in result["files"].get("failed", [])} <= {"publication.moved"}


async def test_p5_files_that_have_the_same_content_in_another_version_are_left_alone(
    stack: Stack, delivery: Path, url: str
) -> None:
    first, second = write(delivery / "a.tif", 0), write(delivery / "b.tif", 1)
    sidecar = first.with_suffix(".tfw")
    sidecar.write_text("10\n0\n0\n-10\n0\n0\n")
    age(sidecar)
    assert (await sync(stack, delivery))["counts"] == {"published": 2}

    age(first, 2 * HALF_HOUR), age(sidecar, 2 * HALF_HOUR), write(second, 2)
    assert (await sync(stack, delivery, dry_run=True))["counts"] == {"changed": 1, "unchanged": 1}
    result = await sync(stack, delivery)
    assert (result["counts"], names(result, "unchanged")) == ({"replaced": 1, "unchanged": 1}, ["a.tif"])
    assert sorted(number for _, number, *_ in query(url, HISTORY, delivery)) == [1, 1, 2]

    job = await stack.run("sync_folder", folder=f"bronze://{delivery.name}", collection=delivery.name)
    assert await stack.tasks(job, "check") == [], "the new version is known now"


@pytest.mark.slow
async def test_a_withdrawn_item_comes_back_only_with_another_file(stack: Stack, delivery: Path, url: str) -> None:
    write(delivery / "a.tif", 0)
    (item,) = (await sync(stack, delivery))["items"]
    taken = await stack.run(
        "unpublish_raster", collection=delivery.name, item_id=item["id"], reason="wrong", dry_run=False, confirm=True
    )
    assert taken.job.state is JobState.COMPLETED, taken.job.error
    assert (await sync(stack, delivery))["counts"] == {"withdrawn": 1}

    write(delivery / "a.tif", 1)
    assert (await sync(stack, delivery))["counts"] == {"replaced": 1}
    assert query(url, SHOWN, delivery) == [(item["id"],)]


async def catalog(stack: Stack, folder: Path, **more: Any) -> Any:  # as the workflow's output says
    about: Any = {"folder": f"bronze://{folder.name}", "collection": folder.name, **more}
    job = await stack.run("stac_catalog_container", **about)
    assert job.job.state is JobState.COMPLETED, job.job.error
    return job.job.result


async def test_p5_files_are_cataloged_where_they_lie_and_a_link_never_leads_to_other_bytes(
    stack: Stack, delivery: Path, url: str, home: Path
) -> None:
    tiled: Any = {"driver": "COG", "blocksize": 128}
    cog = age(make_raster(delivery / "a b.tif", hills(300, 300), **tiled))
    strips = age(make_raster(delivery / "strips.tif", hills(600, 600)))
    broken = delivery / "broken.tif"
    broken.write_bytes(b"II*\0 this is no raster")
    age(broken)

    result = await catalog(stack, delivery)
    assert result["counts"] == {"failed": 1, "published": 2}
    assert result["files"]["failed"][0]["code"].startswith("raster.")
    assert (await catalog(stack, delivery))["counts"] == {"failed": 1, "unchanged": 2}
    ids = {each["address"].rpartition("/")[2]: each["item"] for each in result["files"]["published"]}

    with serve_api(url, home) as served:
        paths = (f"/stac/collections/{delivery.name}", f"/stac/collections/{delivery.name}/items/{ids['a b.tif']}")
        links_shown = {link["rel"] for path in paths for link in served.client.get(path).json()["links"]}
        assert "tilejson" not in links_shown
        for path in (f"/items/{ids['a b.tif']}/preview.png", "/WebMercatorQuad/tilejson.json"):
            assert served.client.get(f"/raster/collections/{delivery.name}{path}").status_code == 404

    with serve_api(url, home, draw_files_in_place="true") as served:
        client = served.client
        items = f"/stac/collections/{delivery.name}/items"
        links = {name: (client.get(f"{items}/{item}")).json()["assets"]["data"]["href"] for name, item in ids.items()}
        assert (client.get(links["strips.tif"])).content == strips.read_bytes()
        part = client.get(links["a b.tif"], headers={"Range": "bytes=10-19"})
        assert (part.status_code, part.content) == (206, cog.read_bytes()[10:20])
        drawn = f"/raster/collections/{delivery.name}/items"
        shown = client.get(items).json()["features"]
        linked = {item["id"] for item in shown if "tilejson" in {link["rel"] for link in item["links"]}}
        assert linked == {ids["a b.tif"]}
        tiles = [client.get(f"{drawn}/{ids[name]}/WebMercatorQuad/tilejson.json") for name in ids]
        assert [one.status_code for one in tiles] == [200, 404]
        assert "no tiles are made of data" in tiles[1].json()["detail"]
        picture = f"{drawn}/{ids['a b.tif']}/preview.png"
        assert (client.get(picture)).status_code == 200

        age(make_raster(cog, hills(300, 300) + 1, **tiled))
        answers = [client.get(link) for link in (links["a b.tif"], picture)]
        assert [(answer.status_code, answer.json()["code"]) for answer in answers] == [(410, "file.gone")] * 2
        result = await catalog(stack, delivery)
        assert result["counts"] == {"failed": 1, "replaced": 1, "unchanged": 1}
        asset = (client.get(f"{items}/{ids['a b.tif']}")).json()["assets"]["data"]
        assert (client.get(asset["href"])).content == cog.read_bytes()
        assert (client.get(links["a b.tif"])).status_code == 410
        back = client.post(f"/api/items/{delivery.name}/{ids['a b.tif']}/rollback", json={"reason": "x"})
        assert (back.status_code, back.json()["code"]) == (409, "publication.expired")

    taken = await stack.run(
        "unpublish_raster", collection=delivery.name, item_id=ids["a b.tif"], reason="x", dry_run=False, confirm=True
    )
    assert taken.job.state is JobState.COMPLETED, taken.job.error
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("select app.expire_publications('-1 s', '-1 s', 100)")
        removed = connection.execute("select address from app.find_expired_objects(100)").fetchall()
    assert [address for (address,) in removed if not address.startswith("silver://jobs/")] == []
