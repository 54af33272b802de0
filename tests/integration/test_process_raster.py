"""A raster goes through the whole workflow: published whole and verified, or refused with nothing left."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import imagecodecs
import numpy as np
import psycopg
import pytest
import rasterio
import tifffile
from psycopg.rows import dict_row
from rasterio.enums import Resampling
from rasterio.transform import from_origin

from anabranch.adapters.objects.folder import Folder
from anabranch.engine.model import JobState, NodeState
from anabranch.engine.read_models import JobDetail
from anabranch.engine.submitting.submission import Order
from anabranch.errors import InputError
from anabranch.settings import Settings
from tests.support.application import create_app
from tests.support.formats import Dimensions, Variables, climate, make_netcdf
from tests.support.rasters import classes, hills, make_raster, picture
from tests.support.server import serve
from tests.support.stack import Stack, open_stack
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.postgres

VRT = '<VRTDataset rasterXSize="1" rasterYSize="1"><SourceFilename>/etc/passwd</SourceFilename></VRTDataset>'


@pytest.fixture
def bronze(tmp_path: Path) -> Path:
    folder = tmp_path / "bronze" / "in"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
async def stack(catalog_url: str, tmp_path: Path, bronze: Path) -> AsyncIterator[Stack]:
    async with asyncio.timeout(PATIENCE_SECONDS), open_stack(catalog_url, tmp_path, []) as opened:
        yield opened


async def publish(stack: Stack, name: str, **wishes: Any) -> JobDetail:
    return await stack.run("process_raster", source=f"bronze://in/{name}", **wishes)


def rows(url: str, query: str) -> list[dict[str, Any]]:
    with psycopg.connect(url, row_factory=dict_row) as connection:
        return connection.execute(query).fetchall()


def published(url: str) -> list[str]:
    return [row["id"] for row in rows(url, "select id from pgstac.items order by id")]


def result_of(job: JobDetail) -> Any:  # as the workflow's output says
    assert job.job.state is JobState.COMPLETED, job.job.error
    return job.job.result


async def test_r4_c1_a_raster_is_published_verified_with_all_that_is_known_of_it(
    stack: Stack, bronze: Path, catalog_url: str, tmp_path: Path
) -> None:
    heights = hills()
    heights[0, :50, :50] = -9999
    tags = {"acquisition_datetime": "2026-03-21T10:15:00Z"}
    make_raster(bronze / "heights.tif", heights, nodata=-9999, tags=tags, bands={"units": ("metre",)})

    result = result_of(await publish(stack, "heights.tif", collection="dems", title="Heights"))

    (reference,) = result["items"]
    assert reference["collection"] == "dems"
    made = {output["kind"]: output for output in result["outputs"]}
    assert set(made) == {"cog", "thumbnail", "report"}
    files = {kind: tmp_path / output["href"].replace("://", "/") for kind, output in made.items()}
    assert np.array_equal(tifffile.imread(files["cog"]), heights[0])
    assert imagecodecs.png_decode(files["thumbnail"].read_bytes()).shape == (439, 512, 4)
    report = json.loads(files["report"].read_text())
    assert report["cogs"][0]["verified"]["compared"] == "every pixel"
    (item,) = rows(catalog_url, "select document from app.catalog_items")
    document = item["document"]
    assert document["properties"]["datetime"] == "2026-03-21T10:15:00Z"
    assert document["properties"]["proj:code"] == "EPSG:32633"
    (band,) = document["assets"]["data"]["bands"]
    assert (band["unit"], band["nodata"]) == ("metre", -9999)
    assert band["statistics"]["mean"] == pytest.approx(heights[heights > -9999].mean(), rel=1e-6)
    assert published(catalog_url) == [reference["id"]]
    assert sorted(row["name"] for row in rows(catalog_url, "select name from app.published_files")) == [
        "heights.tif", "report.json", "thumbnail.png",
    ]  # fmt: skip


async def test_r3_c1_a_time_of_a_netcdf_variable_is_published(
    stack: Stack, bronze: Path, catalog_url: str, tmp_path: Path
) -> None:
    days: Dimensions = {"time": ([0, 1, 2], {"units": "days since 2020-01-15"})}
    said = {"units": "K", "_FillValue": -9999, "scale_factor": 0.1}
    make_netcdf(bronze / "era.nc", {"t2m": (("time", "lat", "lon"), climate(3), said)}, dimensions=days)

    unsaid = await publish(stack, "era.nc")
    assert unsaid.job.error is not None
    assert unsaid.job.error.code == "raster.time"
    result = result_of(await publish(stack, "era.nc", time="2020-01-16T00:00:00Z"))

    made = {output["kind"]: tmp_path / output["href"].replace("://", "/") for output in result["outputs"]}
    assert np.array_equal(tifffile.imread(made["cog"]), climate(3)[1][::-1])
    taken = json.loads(made["report"].read_text())["raster"]["origin"]
    assert (taken["variable"], taken["time"], taken["stored"]) == ("t2m", "2020-01-16T00:00:00Z", None)
    (item,) = rows(catalog_url, "select document from app.catalog_items")
    properties, (band,) = item["document"]["properties"], item["document"]["assets"]["data"]["bands"]
    assert properties["datetime"] == "2020-01-16T00:00:00Z"
    assert (band["name"], band["unit"], band["raster:scale"]) == ("t2m", "K", 0.1)
    assert [warning["code"] for warning in result["warnings"]] == ["raster.crs_assumed"]


async def test_c1_each_time_of_a_variable_becomes_an_item(stack: Stack, bronze: Path, catalog_url: str) -> None:
    days: Dimensions = {"time": ([0, 1], {"units": "days since 2020-01-15"})}
    variables: Variables = {name: (("time", "lat", "lon"), climate(2), {"units": "K"}) for name in ("a", "b")}
    make_netcdf(bronze / "era.nc", variables, dimensions=days)

    wanted = {"source": "bronze://in/era.nc", "variable": "b", "raster_type": "continuous"}
    result = result_of(await stack.run("process_raster_times", **wanted))

    assert result["times"] == ["2020-01-15T00:00:00Z", "2020-01-16T00:00:00Z"]
    assert sorted(item["id"] for item in result["items"]) == published(catalog_url)
    documents = [row["document"]["properties"] for row in rows(catalog_url, "select document from app.catalog_items")]
    assert sorted(properties["datetime"] for properties in documents) == result["times"]
    versions = "select distinct parameters -> 'versions' as versions from app.jobs where parent is not null"
    assert rows(catalog_url, versions) == [{"versions": {wanted["source"]: Folder(bronze).stat("era.nc").tag}}]

    unchosen = await stack.run("process_raster_times", source="bronze://in/era.nc")
    assert unchosen.job.error is not None
    assert unchosen.job.error.code == "raster.variable"


DERIVE = """
from pydantic import BaseModel

from anabranch import Context, handler


class Params(BaseModel):
    source: str


@handler("derive")
def derive(params: Params, ctx: Context) -> dict:
    made = ctx.storage.put(ctx.storage.fetch(params.source), name="derived.tif")
    return {"href": made.address, "sha256": made.sha256}
"""
DERIVE_AND_PUBLISH = """
workflow_id: derive_and_publish
inputs: {source: {type: string, required: true}}
nodes:
  derive: {handler: derive, params: {source: "{{ inputs.source }}"}, next: publish}
  publish:
    type: workflow
    workflow: process_raster
    params: {source: "{{ nodes.derive.output.href }}", collection: derived}
output:
  sha256: "{{ nodes.derive.output.sha256 }}"
  href: "{{ nodes.derive.output.href }}"
  items: "{{ nodes.publish.output.items }}"
"""
DERIVE_BELOW = """
workflow_id: derive_below
inputs: {source: {type: string, required: true}}
nodes:
  derive: {type: workflow, workflow: derive_only, params: {source: "{{ inputs.source }}"}, next: preflight}
  preflight: {handler: raster.preflight, params: {source: "{{ nodes.derive.output.href }}", collection: derived}}
"""
DERIVE_ONLY = """
workflow_id: derive_only
inputs: {source: {type: string, required: true}}
nodes: {derive: {handler: derive, params: {source: "{{ inputs.source }}"}}}
output: {href: "{{ nodes.derive.output.href }}"}
"""


async def test_what_a_job_computes_it_can_publish_and_no_other_job_can(
    catalog_url: str, tmp_path: Path, bronze: Path
) -> None:
    plugins = tmp_path / "plugins"
    plugins.mkdir()
    (plugins / "derive.py").write_text(DERIVE)
    for text in (DERIVE_AND_PUBLISH, DERIVE_BELOW, DERIVE_ONLY):
        (plugins / f"{text.split()[1]}.yaml").write_text(text)
    make_raster(bronze / "heights.tif", hills())
    async with asyncio.timeout(PATIENCE_SECONDS), open_stack(catalog_url, tmp_path, [str(plugins)]) as stack:
        made = result_of(await stack.run("derive_and_publish", source="bronze://in/heights.tif"))
        below = await stack.run("derive_below", source="bronze://in/heights.tif")
        others = [
            await stack.run("process_raster", source=source)
            for source in (made["href"], "silver://jobs/a/b/0/1-00000000/c.tif", "silver://jobs/c.tif")
        ]
        source, beside = "bronze://in/heights.tif", ["silver://jobs/a/b/0/1-00000000/heights.tfw"]
        others += [
            await stack.run("process_raster", source=source, sidecars=[*beside]),
            await stack.run("process_raster_times", source=made["href"]),
        ]
    assert published(catalog_url) == [item["id"] for item in made["items"]]
    (manifest,) = rows(catalog_url, "select manifest as envelope from app.current_publications where kind = 'item'")
    assert made["sha256"] in base64.b64decode(json.loads(manifest["envelope"])["payload"]).decode()
    assert below.job.state is JobState.COMPLETED, below.job.error
    assert [job.job.error and job.job.error.code for job in others] == ["storage.not_readable"] * 5


async def test_w6_w7_a_file_that_is_refused_leaves_nothing_published(
    stack: Stack, bronze: Path, catalog_url: str, tmp_path: Path
) -> None:
    whole = make_raster(bronze / "whole.tif", hills()).read_bytes()
    (bronze / "cut.tif").write_bytes(whole[: len(whole) // 2])
    (bronze / "empty.tif").write_bytes(b"")
    (bronze / "disguised.tif").write_text(VRT)
    make_raster(bronze / "nowhere.tif", hills(64, 64), crs=None)
    make_raster(bronze / "void.tif", np.full((1, 64, 64), -1, "float32"), nodata=-1)
    wanted = {
        "cut.tif": "raster.truncated",
        "empty.tif": "raster.empty",
        "disguised.tif": "raster.format",
        "nowhere.tif": "raster.crs_missing",
        "void.tif": "raster.empty_pixels",
        "lost.tif": "storage.not_found",
    }
    with pytest.raises(InputError, match="a step to another folder"):
        await publish(stack, "../secret.tif")
    jobs = await asyncio.gather(*(publish(stack, name) for name in wanted))

    found = {name: job.job.error and job.job.error.code for name, job in zip(wanted, jobs, strict=True)}
    assert found == wanted
    assert all(job.job.error and job.job.error.remedy for job in jobs)
    assert published(catalog_url) == []
    assert rows(catalog_url, "select * from app.published_files") == []
    assert not (tmp_path / "silver").exists() or not any((tmp_path / "silver").rglob("*.tif"))


async def test_a_dry_run_shows_the_plan_and_reads_nothing(stack: Stack, bronze: Path, tmp_path: Path) -> None:
    (bronze / "scene.tif").write_bytes(b"not read")
    result = result_of(await publish(stack, "scene.tif", profile="all", dry_run=True))
    assert result["plan"]["outputs"] == [
        "scene.tif", "scene.visualization.tif", "scene.archive.tif", "thumbnail.png", "report.json",
    ]  # fmt: skip
    assert (result["outputs"], result["items"], result["report"]) == ([], [], None)
    assert not (tmp_path / "cache" / "files").exists()


async def test_p6_nothing_is_published_before_it_is_approved(stack: Stack, bronze: Path, catalog_url: str) -> None:
    make_raster(bronze / "map.tif", classes())
    job_id = await stack.submit("process_raster", source="bronze://in/map.tif", approval=True)
    await stack.until(job_id, lambda job: job.job.state is JobState.WAITING)
    assert published(catalog_url) == []

    await stack.gateway.controls.signal(job_id, "review", {"approved": True}, "a reviewer")

    (reference,) = result_of(await stack.wait(job_id))["items"]
    assert published(catalog_url) == [reference["id"]]


async def test_p6_a_reviewer_sees_what_readers_don_t_see_yet(
    stack: Stack, bronze: Path, catalog_url: str, tmp_path: Path
) -> None:
    make_raster(bronze / "map.tif", classes())
    job_id = await stack.submit("process_raster", source="bronze://in/map.tif", approval=True)
    await stack.until(job_id, lambda job: job.job.state is JobState.WAITING)
    app = create_app(Settings(home=tmp_path), catalog_url)
    async with serve(app) as url, httpx.AsyncClient(base_url=url, timeout=PATIENCE_SECONDS) as client:
        draft = await client.get(f"/api/jobs/{job_id[:12]}/outputs/thumbnail.png")
        part = await client.get(f"/api/jobs/{job_id}/outputs/map.tif", headers={"Range": "bytes=0-3"})
        answers = [
            await client.get(path)
            for path in ("/files/current/process_raster/map/map.tif", f"/api/jobs/{job_id}/outputs/none")
        ]
    assert (draft.status_code, draft.content[:4], part.content) == (200, b"\x89PNG", b"II*\x00")
    assert [answer.status_code for answer in answers] == [404, 404]


async def test_p5_new_content_for_an_item_id_replaces_it_and_another_owner_may_not(
    stack: Stack, bronze: Path, catalog_url: str
) -> None:
    make_raster(bronze / "map.tif", classes())
    make_raster(bronze / "better.tif", hills())
    for name in ("map.tif", "better.tif"):
        result = result_of(await publish(stack, name, item_id="town", reason=name))
        assert result["items"] == [{"collection": "process_raster", "id": "town"}]
    numbers = "select number, action::text, reason, actor from app.publications where kind = 'item' order by number"
    assert [tuple(row.values()) for row in rows(catalog_url, numbers)] == [
        (1, "publish", "map.tif", "test"), (2, "replace", "better.tif", "test"),
    ]  # fmt: skip
    assert published(catalog_url) == ["town"]

    theirs = {"source": "bronze://in/map.tif", "item_id": "town"}
    submitted = await stack.gateway.submit(Order("process_raster", theirs, scope="others", correlation_id="c"))
    refused = await stack.wait(submitted.job_id)
    assert refused.job.error
    assert (refused.job.error.code, refused.job.error.node) == ("publication.owner", "preflight")
    with pytest.raises(InputError, match="profile is analysis, and tier, its earlier name, is archive"):
        await stack.submit("process_raster", source="bronze://in/map.tif", profile="analysis", tier="archive")
    with pytest.raises(InputError, match="can't be the id of an item"):
        await stack.submit("process_raster", source="bronze://in/map.tif", item_id="a/b")


async def test_p5_a_replacement_is_refused_if_another_acts_while_its_job_runs(
    stack: Stack, bronze: Path, catalog_url: str, tmp_path: Path
) -> None:
    make_raster(bronze / "map.tif", classes())
    wanted = {"source": "bronze://in/map.tif", "collection": "maps", "item_id": "town"}
    better = {"source": "bronze://in/map.tif", "title": "Town", "approval": True}
    app = create_app(Settings(home=tmp_path), catalog_url)
    async with serve(app) as url, httpx.AsyncClient(base_url=url, timeout=PATIENCE_SECONDS) as client:
        first = await client.post("/api/jobs/submit/process_raster", json=wanted)
        result_of(await stack.wait(first.json()["job_id"]))
        path, body = "/api/items/maps/town", {"reason": "better", "parameters": better}
        submitted = await client.post(f"{path}/replace", json=body, headers={"If-Match": '"1"'})
        job_id = submitted.json()["job_id"]
        await stack.until(job_id, lambda job: job.job.state in (JobState.WAITING, JobState.FAILED))
        await client.post(f"{path}/unpublish", json={"reason": "wrong area", "confirm": "yes"})

    await stack.gateway.controls.signal(job_id, "review", {"approved": True}, "a reviewer")

    late = (await stack.wait(job_id)).job.error
    assert late
    assert (late.code, late.node, "is at number 2 by now, not 1" in late.message) == (
        "publication.moved",
        "publish",
        True,
    )
    assert published(catalog_url) == []


async def test_what_is_rejected_is_put_aside(stack: Stack, bronze: Path, catalog_url: str) -> None:
    make_raster(bronze / "map.tif", classes())
    job_id = await stack.submit("process_raster", source="bronze://in/map.tif", approval=True)
    await stack.until(job_id, lambda job: job.job.state is JobState.WAITING)

    with pytest.raises(InputError, match=r"aproved is not a field of the answer; .*; approved is required"):
        await stack.gateway.controls.signal(job_id, "review", {"aproved": True}, "a reviewer")
    await stack.gateway.controls.signal(job_id, "review", {"approved": False, "why": "blurred"}, "a reviewer")

    result = result_of(await stack.wait(job_id))
    assert (result["items"], result["approved"], result["why"]) == ([], False, "blurred")
    assert published(catalog_url) == []


async def test_e15_the_same_raster_is_the_same_item_and_other_wishes_make_another(
    stack: Stack, bronze: Path, catalog_url: str
) -> None:
    make_raster(bronze / "map.tif", classes())
    first = await publish(stack, "map.tif")
    again = await publish(stack, "map.tif")
    rerun = await stack.gateway.submit(
        Order(
            "process_raster",
            {"source": "bronze://in/map.tif"},
            scope="default",
            by="test",
            correlation_id="x",
            rerun=True,
        )
    )
    warped = await publish(stack, "map.tif", target_crs="EPSG:3857")

    assert first.job.job_id == again.job.job_id != rerun.job_id
    assert result_of(await stack.wait(rerun.job_id))["items"] == result_of(first)["items"]
    ids = {result_of(job)["items"][0]["id"] for job in (first, warped)}
    assert published(catalog_url) == sorted(ids)
    assert len(ids) == 2


async def test_r1_a_raster_without_a_crs_is_taken_with_the_one_that_is_given(stack: Stack, bronze: Path) -> None:
    make_raster(bronze / "nowhere.tif", hills(300, 200), crs=None)
    result = result_of(await publish(stack, "nowhere.tif", input_crs="EPSG:25833"))
    assert "raster.crs_given" in [warning["code"] for warning in result["warnings"]]


async def test_r5_every_tier_that_the_kind_allows_is_made(stack: Stack, bronze: Path) -> None:
    make_raster(bronze / "scene.tif", picture(), photometric="RGB")
    make_raster(bronze / "heights.tif", hills())
    scene, heights = await asyncio.gather(*(publish(stack, f"{name}.tif", tier="all") for name in ("scene", "heights")))
    assets = [{output["asset"] for output in result_of(job)["outputs"]} for job in (scene, heights)]
    assert assets == [
        {"data", "visual", "archive", "thumbnail", "report"},
        {"data", "archive", "thumbnail", "report"},
    ]


async def test_e7_a_cancel_ends_the_work_at_once(stack: Stack, bronze: Path, catalog_url: str) -> None:
    noise = np.random.default_rng(5).normal(size=(1, 1500, 1500)).astype("float32")
    make_raster(bronze / "noise.tif", np.tile(noise, (1, 4, 4)))
    job_id = await stack.submit("process_raster", source="bronze://in/noise.tif", raster_type="continuous")
    await stack.until(job_id, lambda job: next(node for node in job.nodes if node.name == "cogs").tasks.running)

    await stack.gateway.controls.cancel(job_id, "changed my mind", "test")

    while any(stack.scratch.rglob("*.tif")):  # the folder of an attempt goes with it
        await asyncio.sleep(0.05)
    cogs = next(node for node in (await stack.gateway.reads.job(job_id)).nodes if node.name == "cogs")
    assert (cogs.state, cogs.tasks.completed) == (NodeState.CANCELLED, 0), "it did not run to its end"
    assert published(catalog_url) == []


async def test_tr1_tr2_the_overviews_that_are_published_show_what_the_raster_shows(
    stack: Stack, bronze: Path, tmp_path: Path
) -> None:
    """A map with a negative nodata value, and a small raster whose own overviews show something else."""
    land = classes(1500, 1400, values=(0, 1, 2)).astype("int16")
    land[0, :, :700] = -9999
    make_raster(bronze / "land.tif", land, nodata=-9999)
    make_raster(bronze / "small.tif", hills(400, 300)[:, ::-1])
    with rasterio.open(bronze / "small.tif", "r+") as out:
        out.build_overviews([2], Resampling.nearest)
        out.write(hills(400, 300))

    jobs = [await publish(stack, "land.tif", raster_type="categorical"), await publish(stack, "small.tif")]

    cogs = [tmp_path / result_of(job)["outputs"][0]["href"].replace("://", "/") for job in jobs]
    with rasterio.open(cogs[0], OVERVIEW_LEVEL=0) as overview, rasterio.open(cogs[1]) as small:
        assert (overview.read() == -9999).mean() == pytest.approx(700 / 1500, abs=0.01)
        assert small.overviews(1) == []


async def test_tr9_tr16_another_authority_and_a_name_without_an_extension_are_published(
    stack: Stack, bronze: Path, catalog_url: str
) -> None:
    place = from_origin(600_000, 6_600_000, 10, 10)
    make_raster(bronze / "heights", hills(), crs="IGNF:LAMB93", transform=place)
    result_of(await publish(stack, "heights"))
    (item,) = rows(catalog_url, "select document from app.catalog_items")
    assert item["document"]["properties"]["proj:code"] == "IGNF:LAMB93"
    assert item["document"]["properties"]["proj:projjson"]["type"] == "ProjectedCRS"
