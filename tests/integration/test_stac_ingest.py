"""STAC from elsewhere is read, checked and published by the whole workflow, on the engine."""

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from anabranch.adapters.postgres.connect import Role, connect
from anabranch.engine.model import JobState
from anabranch.engine.submitting.submission import Order
from anabranch.manifests.envelope import open_envelope, read_envelope
from anabranch.manifests.signing_key import SigningKey
from anabranch.manifests.statement import Origin
from anabranch.plugins.stac.ingest.check import Rules, check_item
from anabranch.plugins.stac.ingest.documents import write_document
from anabranch.plugins.stac.ingest.load import Job, Loaded, load_items
from anabranch.plugins.stac.ingest.records import Place, Record, Refused
from anabranch.plugins.stac.manifest import Signer
from tests.support.stac_items import make_collection, make_item, write_items, write_json, write_ndjson
from tests.support.stack import Stack, open_stack
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.postgres


@pytest.fixture
async def stack(catalog_url: str, tmp_path: Path) -> AsyncIterator[Stack]:
    async with asyncio.timeout(PATIENCE_SECONDS), open_stack(catalog_url, tmp_path, []) as opened:
        yield opened


async def ingest(stack: Stack, source: str, **inputs: Any) -> Any:  # as the workflow's output says
    job = await stack.run("stac_ingest", source=source, **inputs)
    assert job.job.state is JobState.COMPLETED, job.job.error
    return job.job.result


def counts(result: Any) -> tuple[int, ...]:
    return tuple(result[name] for name in ("read", "collections", "changed", "unchanged", "duplicates", "refused"))


def read_catalog(url: str, collection: str = "scenes") -> dict[str, Any]:
    query = "select i.id, pgstac.content_hydrate(i) from pgstac.items i where i.collection = %s"
    with connect(url, Role.HANDLER) as handler:
        return dict(handler.execute(query, [collection]).fetchall())


async def test_lines_are_published_and_again_they_change_nothing(
    stack: Stack, catalog_url: str, tmp_path: Path
) -> None:
    bronze = tmp_path / "bronze"
    items = [make_item(f"i-{number}") for number in range(3)]
    write_ndjson(
        bronze / "items.ndjson", [make_collection(), *items, make_item("i-0"), make_item("i-1", bbox=[7, 50, 8, 51.05])]
    )

    first = await ingest(stack, "bronze://items.ndjson", reason="delivery 7")
    assert counts(first) == (6, 1, 3, 0, 1, 1)
    (refusal,) = first["refusals"]
    assert (refusal["file"], refusal["line"], refusal["code"]) == ("bronze://items.ndjson", 6, "ingest.duplicate")
    shown = read_catalog(catalog_url)
    assert shown["i-2"]["assets"] == items[2]["assets"]
    assert [link["rel"] for link in shown["i-2"]["links"]] == ["collection", "license"]

    write_json(bronze / "again" / "all.json", {"type": "FeatureCollection", "features": items})
    assert counts(await ingest(stack, "bronze://again/all.json")) == (3, 0, 0, 3, 0, 0)
    assert counts(await ingest(stack, "bronze://again/")) == (3, 0, 0, 3, 0, 0)


async def test_s3_a_static_catalog_and_a_parquet_file_become_the_same_items(
    stack: Stack, catalog_url: str, tmp_path: Path
) -> None:
    bronze, extension = tmp_path / "bronze", "https://example.com/unknown/v1.0.0/schema.json"
    items = [make_item(name, stac_extensions=[extension]) for name in ("a", "b")]
    links = [{"rel": "item", "href": f"./items/{each['id']}.json"} for each in items]
    outside = {"rel": "child", "href": "https://example.com/catalog.json"}
    write_json(
        bronze / "cat" / "catalog.json", {"type": "Catalog", "links": [{"rel": "child", "href": "c.json"}, outside]}
    )
    write_json(bronze / "cat" / "c.json", make_collection(links=[*links, {"rel": "parent", "href": "catalog.json"}]))
    for item in items:
        relative = {"red": {**item["assets"]["red"], "href": f"../{item['id']}.tif"}}
        write_json(bronze / "cat" / "items" / f"{item['id']}.json", item | {"assets": relative})
    write_items(bronze / "items.parquet", items)

    checked = await ingest(stack, "bronze://cat/catalog.json", base_url="https://example.com", dry_run=True)
    assert (checked["accepted"], *counts(checked)) == (2, 4, 1, 0, 0, 0, 1)
    assert read_catalog(catalog_url) == {}
    done = await ingest(stack, "bronze://cat/catalog.json", base_url="https://example.com")
    assert (counts(done), done["refusals"][0]["code"]) == ((4, 1, 2, 0, 0, 1), "ingest.link")
    assert extension in done["warnings"][0]
    assert counts(await ingest(stack, "bronze://items.parquet")) == (2, 0, 0, 2, 0, 0)
    (bronze / "bad.parquet").write_bytes((bronze / "items.parquet").read_bytes()[:-9])
    bad = await ingest(stack, "bronze://bad.parquet")
    assert (counts(bad), bad["refusals"][0]["code"]) == ((1, 0, 0, 0, 0, 1), "ingest.unreadable")

    report = (tmp_path / done["report"].replace("://", "/")).read_text()
    assert json.loads(report) == done["refusals"][0]
    published = stack.gateway.reads.items()
    keys = [key.public_key for key in await published.signing_keys()]
    statement, _ = open_envelope(read_envelope(await published.manifest("scenes", "a")), keys)
    digest = hashlib.sha256((bronze / "cat" / "items" / "a.json").read_bytes()).hexdigest()
    sources = {one.name: one.digest.sha256 for one in statement.predicate.build_definition.resolved_dependencies}
    assert (statement.subject, sources["a.json"]) == ([], digest)


async def test_items_of_another_owner_are_refused_alone_and_two_ingests_at_once_double_nothing(
    stack: Stack, catalog_url: str, tmp_path: Path
) -> None:
    write_ndjson(tmp_path / "bronze" / "other" / "theirs.ndjson", [make_item("i-0")])
    write_ndjson(
        tmp_path / "bronze" / "all.ndjson", [make_item(f"i-{number}", bbox=[7, 50, 8, 51]) for number in range(9)]
    )
    theirs = Order("stac_ingest", {"source": "bronze://other/theirs.ndjson"}, scope="other", by="x", correlation_id="x")
    await stack.wait((await stack.gateway.submit(theirs)).job_id)
    with connect(catalog_url, None) as login:
        login.execute("insert into app.collection_writers select id, 'default', 'a test', now() from app.collections")

    results = await asyncio.gather(*(ingest(stack, "bronze://all.ndjson", reason=why) for why in ("one", "two")))
    assert [(each["accepted"], each["refused"]) for each in results] == [(8, 1), (8, 1)]
    assert sum(each["changed"] for each in results) == 8
    assert {each["refusals"][0]["code"] for each in results} == {"publication.owner"}
    assert len(read_catalog(catalog_url)) == 9


def test_an_item_that_only_the_database_refuses_is_refused_alone(catalog_url: str, tmp_path: Path) -> None:
    signer = Signer(Origin("j" * 64), SigningKey.open(tmp_path / "key.pem"))
    job = Job("j" * 64, lambda: connect(catalog_url, Role.HANDLER), lambda item, place: signer.sign(item))
    items = [check_item(make_item(f"i-{number}"), Rules()) for number in range(5)]
    items[3]["properties"] = {"datetime": "2024-02-30T00:00:00Z"}
    records = [Record(Place("f", "", line), write_document(item)) for line, item in enumerate(items, 1)]
    refused: list[Refused] = []
    loaded = Loaded(refused.append)
    load_items(records, job, {}, loaded, lambda number: None)
    assert (loaded.accepted, loaded.changed, len(read_catalog(catalog_url))) == (4, 4, 4)
    assert [(one.line, one.id, one.code) for one in refused] == [(4, "i-3", "catalog.refused")]
