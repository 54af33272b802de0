"""The handlers that publish, in jobs that real workers run."""

import asyncio
from collections.abc import AsyncIterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psycopg
import pytest

from anabranch.adapters.postgres.connect import Role, connect
from anabranch.canonical import Json
from anabranch.contract.catalog import ItemAct
from anabranch.engine.model import JobState
from anabranch.engine.ports import Submitted
from anabranch.engine.submitting.submission import Order
from anabranch.enums import Scope
from anabranch.manifests.envelope import open_envelope, read_envelope
from anabranch.plugins.stac.catalog import By, act, find_origin
from tests.support.items import raster_facts
from tests.support.stack import Stack, open_stack
from tests.support.waiting import PATIENCE_SECONDS

WORKFLOW = """
workflow_id: catalog
inputs:
  collection: {type: string, required: true}
  items: {type: array, required: true}
nodes:
  collection: {handler: stac.ensure_collection, params: {id: "{{ inputs.collection }}"}, next: items}
  items:
    handler: stac.register_items
    params: {collection: "{{ inputs.collection }}", items: "{{ inputs.items }}"}
    next: first
  first:
    handler: stac.register_item
    params: {collection: "{{ inputs.collection }}", item: "{{ inputs.items[0] }}"}
"""
WAITING = """
select from pg_locks l join pg_database d on d.oid = l.database
 where d.datname = current_database() and l.locktype = 'advisory' and not l.granted
"""
PUBLISHING = """
select from pg_stat_activity
 where datname = current_database() and application_name like '%handler%' and state <> 'idle'
"""
ADD = """
workflow_id: add
inputs: {items: {type: array, required: true}}
nodes: {items: {handler: stac.register_items, params: {collection: heights, items: "{{ inputs.items }}"}}}
"""
ALONE = """
workflow_id: alone
inputs: {item: {type: object, required: true}, create: {type: boolean, required: true}}
nodes:
  publish:
    handler: stac.register_item
    params: {collection: heights, item: "{{ inputs.item }}", create_collection: "{{ inputs.create }}"}
"""
OUTER = """
workflow_id: outer
inputs: {first: {type: array, required: true}, second: {type: object, required: true}}
nodes:
  collection: {handler: stac.ensure_collection, params: {id: heights}, next: inner}
  inner: {type: workflow, workflow: add, params: {items: "{{ inputs.first }}"}, next: last}
  last: {handler: stac.register_item, params: {collection: heights, item: "{{ inputs.second }}"}}
"""


AGAIN = """
workflow_id: again
inputs: {items: {type: array, required: true}, keep: {type: boolean, required: true}, note: {type: string, default: ""}}
nodes:
  items:
    handler: stac.register_items
    params: {collection: heights, items: "{{ inputs.items }}", create_collection: true, keep_same: "{{ inputs.keep }}"}
"""


@pytest.fixture
async def stack(catalog_url: str, tmp_path: Path) -> AsyncIterator[Stack]:
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "catalog.yaml").write_text(WORKFLOW)
    (tmp_path / "plugins" / "add.yaml").write_text(ADD)
    (tmp_path / "plugins" / "alone.yaml").write_text(ALONE)
    (tmp_path / "plugins" / "again.yaml").write_text(AGAIN)
    (tmp_path / "plugins" / "outer.yaml").write_text(OUTER)
    async with open_stack(catalog_url, tmp_path, [str(tmp_path / "plugins")]) as opened:
        yield opened


async def test_a_missing_collection_is_created_only_for_an_item_that_asks_for_it(stack: Stack) -> None:
    refused = await stack.run("alone", item=raster_facts("a"), create=False)
    assert refused.job.error
    assert refused.job.error.code == "catalog.no_collection"
    for name in ("a", "b"):
        job = await stack.run("alone", item=raster_facts(name), create=True)
        (publish,) = await stack.tasks(job, "publish")
        assert publish.result == {"items": [{"collection": "heights", "id": name}], "changed": 1}


async def test_c1_a_job_publishes_items_that_name_it_and_what_it_ran(stack: Stack, catalog_url: str) -> None:
    job = await stack.run("catalog", collection="heights", items=[raster_facts("a"), raster_facts("b")])
    assert job.job.state is JobState.COMPLETED, job.job.error
    (items,) = await stack.tasks(job, "items")
    references = [{"collection": "heights", "id": item} for item in ("a", "b")]
    assert items.result == {"items": references, "changed": 2}
    (first,) = await stack.tasks(job, "first")
    assert first.result == {"items": references[:1], "changed": 0}, "what is published already stays as it is"

    with connect(catalog_url, Role.READER) as reader:
        query = "select document #> '{properties,processing:expression,expression}', job_id from app.catalog_items"
        for expression, job_id in reader.execute(query).fetchall():
            assert (expression["job"], job_id) == (job.job.job_id, job.job.job_id)
            assert (expression["workflow"], expression["workflow_hash"]) == ("catalog", job.job.workflow_hash)


async def test_the_manifest_of_an_item_says_what_it_was_made_from_and_by_what(stack: Stack) -> None:
    given: dict[str, Json] = {"collection": "heights", "items": [raster_facts("a")]}
    job = await stack.run("catalog", **given)
    items = stack.gateway.reads.items()
    keys = [key.public_key for key in await items.signing_keys()]
    statement, _ = open_envelope(read_envelope(await items.manifest("heights", "a")), keys)
    build, ran = statement.predicate.build_definition, statement.predicate.run_details
    assert {one.name: one.digest.sha256 for one in statement.subject} == {
        "a.tif": "ab" * 32,
        "a.thumbnail.png": "cd" * 32,
    }
    assert build.external_parameters == {"workflow": "catalog", "parameters": given}
    dependencies = {one.name: one.digest.sha256 for one in build.resolved_dependencies}
    assert dependencies == {"heights.tif": "ef" * 32, "workflow:catalog": job.job.workflow_hash}
    ours = version("anabranch")
    assert ran.metadata.invocation_id == job.job.job_id
    handlers = {"stac.ensure_collection": ours, "stac.register_items": ours}
    assert ran.builder.version == {**handlers, "anabranch": ours, "GDAL": "3.10.0"}
    (item,) = await items.find(limit=10, job_id=job.job.job_id)
    assert item.handlers == {name: (made,) for name, made in handlers.items()}


async def test_a_manifest_names_the_handlers_of_parents_and_children_also_where_their_version_is_unknown(
    stack: Stack, catalog_url: str
) -> None:
    job = await stack.run("outer", first=[raster_facts("child")], second=raster_facts("parent"))
    assert job.job.state is JobState.COMPLETED, job.job.error
    found = {item.id: set(item.handlers) for item in await stack.gateway.reads.items().find(limit=10)}
    shared = {"stac.ensure_collection", "stac.register_items"}
    assert found == {"child": shared, "parent": {*shared, "stac.register_item"}}
    with psycopg.connect(catalog_url, autocommit=True) as admin:
        admin.execute("delete from app.session_versions")
        assert find_origin(admin, job.job.job_id).handlers == {name: ["0"] for name in found["parent"]}


@pytest.mark.parametrize(
    ("collection", "changes", "code"),
    [
        ("heights", {"id": "../../etc"}, "catalog.item_id"),
        ("a b", {}, "catalog.collection_id"),
        ("heights", {"outputs": [{"href": "file:///etc"}]}, "handler.parameters"),
    ],
)
async def test_what_is_no_item_fails_the_job_with_a_code(
    stack: Stack, collection: str, changes: dict[str, Any], code: str
) -> None:
    job = await stack.run("catalog", collection=collection, items=[raster_facts() | changes])
    assert job.job.state is JobState.FAILED
    assert job.job.error is not None
    assert job.job.error.code == code


async def test_e7_a_job_that_was_cancelled_meanwhile_publishes_nothing(stack: Stack, catalog_url: str) -> None:
    await stack.run("catalog", collection="heights", items=[raster_facts("before")])
    with psycopg.connect(catalog_url) as other:
        other.execute("select app.lock_catalog()")
        job_id = await stack.submit("add", items=[raster_facts("a")])
        await stack.until(job_id, lambda _: waits_for_a_lock(catalog_url))
        await stack.gateway.controls.cancel(job_id, "changed my mind", "test")
    async with asyncio.timeout(PATIENCE_SECONDS):
        while waits_for_a_lock(catalog_url) or is_publishing(catalog_url):  # others' doing
            await asyncio.sleep(0.02)
    with connect(catalog_url, Role.READER) as reader:
        assert reader.execute("select id from app.catalog_items").fetchall() == [("before",)]


def waits_for_a_lock(url: str, publishers: int = 1) -> bool:
    with psycopg.connect(url) as connection:
        return len(connection.execute(WAITING).fetchall()) >= publishers


def is_publishing(url: str) -> bool:
    with psycopg.connect(url) as connection:
        return connection.execute(PUBLISHING).fetchone() is not None


async def test_e15_a_job_answers_for_its_parameters_only_while_what_it_published_is_current(
    stack: Stack, catalog_url: str
) -> None:
    """Also one whose child publishes, in submissions and in what is asked before them."""

    async def submit(title: str) -> tuple[str, bool]:
        """The job of these parameters, and whether it was expected to be there."""
        given: Any = {"first": [raster_facts("a", title=title)], "second": raster_facts(f"b-{title}")}
        order = Order("outer", given, scope="test", correlation_id="c")
        (repeat,) = await stack.gateway.find_repeats([order])
        (answer,) = await stack.gateway.submit_batch([order])
        assert isinstance(answer, Submitted)
        assert (await stack.wait(answer.job_id)).job.state is JobState.COMPLETED
        return answer.job_id, repeat

    def change(action: ItemAct) -> None:
        with connect(catalog_url, Role.HANDLER) as connection:
            act(connection, action, "heights", "a", By(actor="ann", reason="blurred"))

    def title() -> str:
        with connect(catalog_url, Role.READER) as reader:
            rows = "select document #>> '{properties,title}' from app.catalog_items where id = 'a'"
            return str(reader.execute(rows).fetchall())

    first, _ = await submit("A")
    assert await submit("A") == (first, True)
    await submit("B")
    again, repeat = await submit("A")
    assert (again != first, repeat, "A" in title()) == (True, False, True), "B has replaced it"
    assert await submit("A") == (again, True)
    change("withdraw")
    change("restore")
    assert await submit("A") == (again, True)
    change("withdraw")
    last, repeat = await submit("A")
    assert (last not in (first, again), repeat, "A" in title()) == (True, False, True)


async def test_e15_a_job_that_found_its_items_unchanged_answers_only_while_they_are_shown(
    stack: Stack, catalog_url: str
) -> None:
    async def submit(*, rerun: bool = False) -> tuple[str, int]:
        given: dict[str, Json] = {"items": [raster_facts("a")], "keep": True}
        order = Order("again", given, scope="test", by="test", correlation_id="c", rerun=rerun)
        job = await stack.wait((await stack.gateway.submit(order)).job_id)
        (task,) = await stack.tasks(job, "items")
        assert isinstance(task.result, dict)
        return job.job.job_id, int(str(task.result["changed"]))

    def change(action: ItemAct) -> None:
        with connect(catalog_url, Role.HANDLER) as connection:
            act(connection, action, "heights", "a", By(actor="ann", reason="blurred"))

    first, _ = await submit()
    kept, changed = await submit(rerun=True)
    assert (kept != first, changed, await submit()) == (True, 0, (kept, 0))
    kept, _ = await submit(rerun=True)
    with connect(catalog_url, Role.READER) as reader:
        noted = reader.execute("select job_id from app.kept_publications").fetchall()
    assert noted == [(kept,)], "repeats don't add up (O5)"
    change("withdraw")
    change("restore")
    assert await submit() == (kept, 0)
    change("withdraw")
    last, changed = await submit()
    assert (last not in (first, kept), changed) == (True, 1)


async def test_p5_two_jobs_at_once_publish_the_same_content_once(stack: Stack, catalog_url: str) -> None:
    given: dict[str, Json] = {"items": [raster_facts("a"), raster_facts("b")], "keep": True}
    with psycopg.connect(catalog_url) as other:
        other.execute("select app.lock_catalog()")
        jobs = [await stack.submit("again", **given, note=note) for note in ("one", "two")]
        await stack.until(jobs[0], lambda _: waits_for_a_lock(catalog_url, 2))
    results: list[Any] = [(await stack.tasks(await stack.wait(job), "items"))[0].result for job in jobs]
    assert sorted(result["changed"] for result in results) == [0, 2]
    with connect(catalog_url, Role.READER) as reader:
        numbers = reader.execute("select number from app.publication_keys where kind = 'item'").fetchall()
    assert numbers == [(1,), (1,)]


async def test_s6_unpublish_raster_shows_first_and_withdraws_when_it_is_confirmed(
    stack: Stack, catalog_url: str
) -> None:
    await stack.run("catalog", collection="heights", items=[raster_facts("a"), raster_facts("b")])
    wanted: Any = {"collection": "heights", "item_id": "a", "reason": "wrong area"}
    shown: Any = (await stack.run("unpublish_raster", **wanted)).job.result
    assert (shown["withdrawn"], shown["inventory"]["dry_run"], shown["inventory"]["objects"]) == (None, True, 2)
    unsure = (await stack.run("unpublish_raster", **wanted, dry_run=False)).job
    assert unsure.error
    assert unsure.error.code == "request.unconfirmed"
    done: Any = (await stack.run("unpublish_raster", **wanted, dry_run=False, confirm=True)).job.result
    assert (done["withdrawn"]["action"], done["withdrawn"]["number"]) == ("withdraw", 2)
    late = (await stack.run("unpublish_raster", **wanted, expected=1)).job
    assert late.error
    assert late.error.code == "publication.moved"
    with connect(catalog_url, Role.READER) as reader:
        assert reader.execute("select id from app.catalog_items").fetchall() == [("b",)]
        newest = "select actor, reason, job_id is not null from app.publications where kind = 'item' and number = 2"
        assert reader.execute(newest).fetchall() == [("test", "wrong area", True)]


@pytest.mark.parametrize(
    ("by", "scope", "refusal"),
    [
        ("default/ops (https://login.example)", Scope.ADMIN, None),
        ("default/ops (https://login.example)", Scope.OPERATE, "publication.forbidden"),
        ("ops", None, "publication.forbidden"),
    ],
)
async def test_s6_a_job_withdraws_by_the_scope_of_who_submitted_it(
    stack: Stack, by: str, scope: Scope | None, refusal: str | None
) -> None:
    await stack.run("catalog", collection="heights", items=[raster_facts("a")])
    given: Any = {"collection": "heights", "item_id": "a", "reason": "x", "dry_run": False, "confirm": True}
    order = Order("unpublish_raster", given, "default", "test", by=by, by_scope=scope)
    job = (await stack.wait((await stack.gateway.submit(order)).job_id)).job
    assert (job.error and job.error.code) == refusal
