"""Jobs of two platforms on one stack: for what is the other's, a job gets what it gets for nothing (S1, P6)."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from hashlib import sha256
from itertools import chain, count
from pathlib import Path
from typing import Any

import psycopg
import pytest
import pytest_asyncio
from psycopg import Connection
from psycopg.rows import TupleRow

from anabranch.canonical import Json
from anabranch.embedded.cluster import Cluster
from anabranch.engine.model import JobState
from anabranch.engine.read_models import JobDetail
from anabranch.engine.submitting.submission import Order
from anabranch.errors import InputError
from anabranch.item_actions import ItemAction
from anabranch.platform.action_by import ALL_PLATFORMS, ActionBy
from anabranch.testing.postgres import Databases
from tests.support.data_hub import make_policy
from tests.support.rasters import hills, make_raster
from tests.support.stack import Stack, open_stack
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = [pytest.mark.postgres, pytest.mark.asyncio(loop_scope="module")]

PROBE = '''
from pydantic import BaseModel

from anabranch import Context, handler
from anabranch.errors import AnabranchError


class Probed(BaseModel):
    addresses: list[str] = []
    folders: list[str] = []


def ask(read, *given) -> str:
    try:
        read(*given)
    except AnabranchError as error:
        return f"{error.code}: {error.message}"
    return "read"


@handler("probe")
def probe(params: Probed, ctx: Context) -> dict:
    """Write a file, and read what is asked for by every method."""
    (ctx.scratch / "made.txt").write_text("made")
    made = ctx.storage.put(ctx.scratch / "made.txt").address
    storage = ctx.storage
    ways = storage.fetch, storage.stage, storage.stat, storage.read, lambda one: storage.open_ranges(one, "x")
    return {
        "made": made,
        "read": {one: [ask(way, one) for way in ways] for one in [made, *params.addresses]},
        "listed": [
            [[stat.key for stat in storage.walk(folder)], [stat.key for stat in storage.list(folder)]]
            for folder in params.folders
        ],
    }
'''
FLOWS = {
    "probe": """
workflow_id: probe
inputs: {addresses: {type: array, default: []}, folders: {type: array, default: []}, n: {type: integer, default: 0}}
nodes:
  probe: {handler: probe, params: {addresses: "{{ inputs.addresses }}", folders: "{{ inputs.folders }}"}}
output:
  made: "{{ nodes.probe.output.made }}"
  read: "{{ nodes.probe.output.read }}"
  listed: "{{ nodes.probe.output.listed }}"
""",
    "family": """
workflow_id: family
nodes:
  child: {type: workflow, workflow: probe, params: {n: 1}, next: parent}
  parent: {handler: probe, params: {addresses: ["{{ nodes.child.output.made }}"]}, next: sibling}
  sibling:
    type: workflow
    workflow: probe
    params: {addresses: ["{{ nodes.child.output.made }}", "{{ nodes.parent.output.made }}"]}
output: {parent: "{{ nodes.parent.output.read }}", sibling: "{{ nodes.sibling.output.read }}"}
""",
}
TEXT = b"secret"
HASH = sha256(TEXT).hexdigest()
NO_HASH = "0" * 64
NO_JOB = "1" * 64
KEY = "probe/0/1-00000000/made.txt"
NUMBERS = count(2)  # equal parameters would be the same job


@pytest.fixture(scope="module")
def catalog_url(postgres: Cluster, postgres_admin: Connection[TupleRow], catalog_template: str) -> str:
    return Databases(postgres, postgres_admin).make(catalog_template)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same files for two platforms, for `default`, and in a folder that is listed for nobody."""
    home = tmp_path_factory.mktemp("home")
    for folder in ("ddh", "arcgis", "in", f"uploads/{HASH}", f"uploads/ddh/{HASH}", f"uploads/arcgis/{HASH}"):
        place = home / "bronze" / folder
        place.mkdir(parents=True)
        (place / "a.txt").write_bytes(TEXT)
        make_raster(place / "a.tif", hills())
        (place / "a.geojson").write_text('{"type": "FeatureCollection", "features": []}')
        (place / "a.json").write_text("{}")
        (place / "list.ndjson").write_text(json.dumps({"source": f"bronze://{folder}/a.tif"}) + "\n")
    plugins = home / "plugins"
    plugins.mkdir()
    (plugins / "probe.py").write_text(PROBE)
    for name, text in FLOWS.items():
        (plugins / f"{name}.yaml").write_text(text)
    return home


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stack(catalog_url: str, home: Path) -> AsyncIterator[Stack]:
    async with open_stack(catalog_url, home, [str(home / "plugins")]) as opened:
        yield opened


async def run(stack: Stack, platform: str, workflow: str, **parameters: Json) -> JobDetail:
    order = Order(workflow, parameters, scope=platform, by=f"{platform}/test (k1)", correlation_id="test")
    async with asyncio.timeout(PATIENCE_SECONDS):
        return await stack.wait((await stack.gateway.submit(order)).job_id)


async def probe(stack: Stack, platform: str, *addresses: str, folders: tuple[str, ...] = ()) -> Any:
    job = await run(stack, platform, "probe", addresses=[*addresses], folders=[*folders], n=next(NUMBERS))
    assert job.job.state is JobState.COMPLETED, job.job.error
    return job.job.result


def is_read(answers: list[str]) -> bool:
    """Whether an object was read by every method; the version that is asked for by ranges is no version of any."""
    return {answer.partition(":")[0] for answer in answers} <= {"read", "source.changed"}


async def test_s1_a_job_reads_what_is_its_platforms_by_every_method(stack: Stack) -> None:
    ours = "bronze://ddh/a.txt", f"bronze://uploads/ddh/{HASH}/a.txt"
    found = await probe(stack, "ddh", *ours)
    assert all(map(is_read, found["read"].values())), found
    assert found["read"].keys() == {found["made"], *ours}

    missing = await probe(stack, "ddh", "bronze://ddh/none.txt")
    assert set(missing["read"]["bronze://ddh/none.txt"]) == {"storage.not_found: there is no bronze://ddh/none.txt"}


async def test_s1_p6_what_is_anothers_answers_like_what_is_not_there(stack: Stack) -> None:
    theirs, same = [await probe(stack, who) for who in ("arcgis", "ddh")]
    pairs = [
        (f"bronze://uploads/arcgis/{HASH}/a.txt", f"bronze://uploads/arcgis/{NO_HASH}/a.txt"),
        (f"bronze://uploads/{HASH}/a.txt", f"bronze://uploads/{NO_HASH}/a.txt"),
        ("bronze://arcgis/a.txt", "bronze://arcgis/b.txt"),
        ("bronze://in/a.txt", "bronze://nowhere/a.txt"),
        (theirs["made"], f"silver://jobs/{NO_JOB}/{KEY}"),
        (same["made"], f"silver://jobs/{NO_JOB}/{KEY[:-1]}"),
    ]
    found = (await probe(stack, "ddh", *(one for pair in pairs for one in pair)))["read"]
    said = {answer.replace(one, "X") for one, answers in found.items() if one in {*chain(*pairs)} for answer in answers}
    (answer,) = said
    assert answer.startswith("storage.not_readable: this job may not read X: it is not among")


async def test_s1_the_installations_own_jobs_read_all_folders_but_those_of_others(stack: Stack) -> None:
    ours = "bronze://in/a.txt", f"bronze://uploads/{HASH}/a.txt"
    others = "bronze://ddh/a.txt", "bronze://DDH/a.txt", f"bronze://uploads/ddh/{HASH}/a.txt"
    found = (await probe(stack, "default", *ours, *others))["read"]
    assert [is_read(found[one]) for one in (*ours, *others)] == [True, True, False, False, False]
    assert all("not_readable" in answer for one in others for answer in found[one])


async def test_s1_listings_show_what_can_be_read(stack: Stack) -> None:
    folders = "bronze://", "bronze://uploads", "bronze://uploads/arcgis", "bronze://arcgis", "bronze://nowhere"
    hidden = await probe(stack, "arcgis")
    found = await probe(stack, "ddh", folders=(*folders, "silver://jobs", hidden["made"].rpartition("/")[0]))
    every, uploads, *nothing, outputs, theirs = (walked for walked, listed in found["listed"])
    assert [listed for walked, listed in found["listed"]] == [walked for walked, listed in found["listed"]]
    names = ["a.geojson", "a.json", "a.tif", "a.txt", "list.ndjson"]
    assert uploads == [f"uploads/ddh/{HASH}/{name}" for name in names]
    assert every == [f"ddh/{name}" for name in names] + uploads
    assert (outputs, nothing, theirs) == ([found["made"].removeprefix("silver://")], [[], [], []], [])

    ((listed, _),) = (await probe(stack, "default", folders=("bronze://",)))["listed"]
    assert {key.rpartition("/")[0] for key in listed} == {"in", f"uploads/{HASH}"}


async def test_p6_parts_of_one_job_read_each_others_outputs(stack: Stack) -> None:
    job = await run(stack, "ddh", "family")
    assert job.job.state is JobState.COMPLETED, job.job.error
    found: Any = job.job.result
    assert [len(found[who]) for who in ("parent", "sibling")] == [2, 3]
    assert all(map(is_read, [*found["parent"].values(), *found["sibling"].values()])), found


async def test_p6_a_file_is_readable_from_its_publication_until_it_is_withdrawn(stack: Stack, home: Path) -> None:
    """Also in a former revision; for those who may see its collection."""
    made = {"collection": "heights", "item_id": "a", "profile": "analysis"}
    waits = Order(
        "process_raster", {"source": "bronze://ddh/a.tif", "approval": True, **made}, scope="ddh", by="ddh/x (k1)",
        correlation_id="test",
    )  # fmt: skip
    job_id = (await stack.gateway.submit(waits)).job_id
    await stack.until(job_id, lambda job: job.job.state is JobState.WAITING)
    (cog,) = (
        f"silver://{path.relative_to(home / 'silver')}" for path in (home / "silver/jobs" / job_id).rglob("*.tif")
    )

    async def who_reads() -> list[str]:
        platforms = "ddh", "arcgis", "default"
        return [who for who in platforms if is_read((await probe(stack, who, cog))["read"][cog])]

    assert await who_reads() == []
    await stack.gateway.controls.signal(job_id, "review", {"approved": True}, "test")
    await stack.wait(job_id)
    assert await who_reads() == ["ddh"]

    publishing, by = stack.gateway.publishing, ActionBy("ddh", "test", None, "c")
    await publishing.change_writer("heights", "arcgis", by, adds=True)
    assert await who_reads() == ["ddh", "arcgis"]
    assert (
        await run(stack, "arcgis", "process_raster", source=cog, collection="again", dry_run=True)
    ).job.error is None
    await publishing.change_writer("heights", "arcgis", by, adds=False)

    policy = make_policy("none", raster="process_raster")
    await stack.gateway.releases.save_platform("ddh", policy, replace(by, platform_filter=ALL_PLATFORMS))
    again = await run(stack, "ddh", "process_raster", source="bronze://ddh/a.tif", tiling="always", **made)
    assert again.job.state is JobState.COMPLETED, again.job.error
    assert await who_reads() == ["ddh"]
    await publishing.act(ItemAction("withdraw", "heights", "a", "test", "wrong"))
    assert await who_reads() == []


THEIRS, NOTHING = "bronze://ddh/", "bronze://dd0/"
SHIPPED: list[tuple[str, dict[str, Json]]] = [
    ("process_raster", {"source": "{}a.tif"}),
    ("process_raster", {"source": "{}a.tif", "dry_run": True}),
    ("process_raster", {"source": "bronze://arcgis/a.tif", "sidecars": ["{}a.tfw"]}),
    ("process_raster_times", {"source": "{}a.tif"}),
    ("process_raster_collection", {"collection": "c", "sources": ["{}a.tif"]}),
    ("process_raster_collection", {"collection": "c", "source_list": "{}list.ndjson"}),
    ("process_raster_collection", {"collection": "c", "folder": "{}"}),
    ("process_vector", {"source": "{}a.geojson"}),
    ("process_vector_collection", {"collection": "c", "sources": ["{}a.geojson"]}),
    ("process_vector_collection", {"collection": "c", "folder": "{}"}),
    ("stac_ingest", {"source": "{}a.json"}),
    ("stac_ingest", {"source": "{}"}),
    ("list_container", {"folder": "{}", "geospatial": True}),
    ("sync_folder", {"folder": "{}", "collection": "c"}),
    ("stac_catalog_container", {"folder": "{}", "collection": "c"}),
]


def place(value: Json, folder: str) -> Json:
    if isinstance(value, list):
        return [place(each, folder) for each in value]
    return value.replace("{}", folder) if isinstance(value, str) else value


def describe(job: JobDetail, folder: str) -> str:
    """What a partner sees of the end of a job, without what names it."""
    error = job.job.error
    found: Any = job.job.result
    shown = {**found, "outputs": len(found["outputs"])} if isinstance(found, dict) and "outputs" in found else found
    said = f"{error.code}: {error.message}" if error else json.dumps(shown, sort_keys=True)
    return re.sub("[0-9a-f]{64}", "", f"{job.job.state} {said}".replace(folder, NOTHING))


async def test_s1_every_shipped_workflow_finds_nothing_of_another_platform(stack: Stack) -> None:
    jobs = [
        (run(stack, "arcgis", workflow, **{name: place(value, folder) for name, value in given.items()}), folder)
        for workflow, given in SHIPPED
        for folder in (THEIRS, NOTHING)
    ]
    ended = [
        describe(job, folder)
        for job, (_, folder) in zip(await asyncio.gather(*(job for job, _ in jobs)), jobs, strict=True)
    ]
    for (workflow, given), theirs, nothing in zip(SHIPPED, ended[::2], ended[1::2], strict=True):
        assert theirs == nothing, (workflow, given)
        assert "not_readable" in theirs or "folder" in given or given["source"] == "{}", (workflow, theirs)


async def test_s1_the_operator_lists_folders_for_a_platform(stack: Stack) -> None:
    wanted: dict[str, Json] = {
        "title": "New", "required_refs": ["a"], "optional_refs": [], "version_ref": None,
        "workflows": {"raster": "process_raster"}, "approval": "none", "callback_hosts": [], "max_unresolved": None,
    }  # fmt: skip
    releases, admin = stack.gateway.releases, ActionBy("*", "admin", None, "test")
    assert (await releases.save_platform("initech", wanted, admin)).sources == ("bronze://initech",)
    assert not is_read((await probe(stack, "initech", "bronze://in/a.txt"))["read"]["bronze://in/a.txt"])

    await releases.save_platform("initech", {**wanted, "sources": ["bronze://in", "bronze://initech"]}, admin)
    saved = await releases.save_platform("initech", wanted, admin)
    assert saved.sources == ("bronze://in", "bronze://initech")
    assert is_read((await probe(stack, "initech", "bronze://in/a.txt"))["read"]["bronze://in/a.txt"])
    assert not is_read((await probe(stack, "default", "bronze://in/a.txt"))["read"]["bronze://in/a.txt"])


async def test_an_upload_from_before_is_read_by_the_platforms_whose_jobs_named_it(
    stack: Stack, catalog_url: str
) -> None:
    key = f"uploads/{HASH}/a.txt"
    with psycopg.connect(catalog_url, autocommit=True) as login:
        login.execute("insert into app.former_uploads values ('globex', %s)", [key])
    found = {who: (await probe(stack, who, f"bronze://{key}"))["read"] for who in ("globex", "arcgis")}
    assert {who: is_read(read[f"bronze://{key}"]) for who, read in found.items()} == {"globex": True, "arcgis": False}


async def test_s1_an_upload_of_another_platform_is_refused_before_there_is_a_job(stack: Stack) -> None:
    for digest in (HASH, NO_HASH):
        with pytest.raises(InputError) as refused:
            await run(stack, "ddh", "process_raster", source=f"bronze://uploads/arcgis/{digest}/a.tif")
        assert refused.value.code == "storage.not_readable"
