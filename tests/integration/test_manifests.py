"""Published items have signed manifests, and `verify` finds what is not as it was published."""

import json
from collections.abc import Callable, Iterator
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import Connection
from psycopg.rows import TupleRow

from anabranch.adapters.postgres.connect import Role, connect
from anabranch.canonical import Json
from anabranch.cli.items import verify
from anabranch.cli.main import call
from anabranch.embedded.cluster import Cluster
from anabranch.manifests.envelope import open_envelope
from anabranch.manifests.signing_key import SigningKey
from anabranch.manifests.statement import Origin
from anabranch.plugins.stac.catalog import Publication, ensure_collection, publish
from anabranch.plugins.stac.collection import CollectionFacts
from anabranch.plugins.stac.facts import ItemReference, Output
from anabranch.plugins.stac.handlers import build_publications
from anabranch.plugins.stac.item import build_item
from anabranch.plugins.stac.manifest import Signer, sign_item
from anabranch.testing.postgres import Databases
from tests.support.items import raster_item
from tests.support.layers import fill_table, vector_item
from tests.support.serving import JOB, Served, serve_api

pytestmark = pytest.mark.postgres

Run = Callable[..., tuple[int, Any]]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("manifests") / "home"


@pytest.fixture(scope="module")
def url(postgres: Cluster, postgres_admin: Connection[TupleRow], catalog_template: str) -> str:
    """One catalog for all tests, which publish under names of their own."""
    made = Databases(postgres, postgres_admin).make(catalog_template)
    with connect(made, Role.HANDLER) as handler:
        ensure_collection(handler, CollectionFacts(id="heights"))
    return made


@pytest.fixture(scope="module")
def served(url: str, home: Path) -> Iterator[Served]:
    with serve_api(url, home) as api:
        yield api


@pytest.fixture
def run(
    served: Served, url: str, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Run:
    """Run a command; its exit code, and the JSON that it printed, or its error."""
    monkeypatch.setenv("ANABRANCH_HOME", str(home))
    monkeypatch.setenv("ANABRANCH_API_URL", str(served.client.base_url))
    monkeypatch.setenv("ANABRANCH_DATABASE_URL", url)

    def run(*words: object) -> tuple[int, Any]:
        code = call([*map(str, words), *([] if "manifest" in words else ["--json"])])
        out, err = capsys.readouterr()
        return code, json.loads(out or err.splitlines()[-1])

    return run


def publish_item(url: str, home: Path, name: str, version: str = "2", content: bytes = b"pixels") -> Path:
    """Publish an item with one file, made by a version of a handler; returns the file."""
    path = home / "silver" / "jobs" / JOB / f"{name}.tif"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    output: dict[str, Json] = {
        "kind": "cog", "href": f"silver://jobs/{JOB}/{name}.tif", "size": len(content),
        "sha256": sha256(content).hexdigest(), "media_type": "image/tiff",
    }  # fmt: skip
    origin = Origin(JOB, "process_raster", "ab" * 32, handlers={"cogs.make": [version]})
    sign = partial(sign_item, origin, SigningKey.open(home / "signing-key.pem"))
    rasters = [raster_item(name, outputs=[output])]
    with connect(url, Role.HANDLER) as handler:
        publish(handler, "heights", JOB, list(build_publications("heights", rasters, Origin(JOB), sign)))
    return path


def publish_layer(url: str, home: Path, name: str) -> Path:
    """Publish a layer with a table and an exported file; returns the file."""
    path = home / "gold" / "jobs" / JOB / f"{name}.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"gid,geom")
    export = Output(
        kind="csv", href=f"gold://jobs/{JOB}/{path.name}", media_type="text/csv", size=8, name=path.name,
        sha256=sha256(b"gid,geom").hexdigest(),
    )  # fmt: skip
    facts = vector_item(name, [f"{name}_1"], JOB).model_copy(update={"outputs": [export]})
    sign = partial(sign_item, Origin(JOB, "process_vector", "ab" * 32), SigningKey.open(home / "signing-key.pem"))
    with connect(url, Role.OWNER) as owner:
        fill_table(owner, f"{name}_1", ["a", "b"])
    with connect(url, Role.HANDLER) as handler:
        publish(handler, "heights", JOB, list(build_publications("heights", [facts], Origin(JOB), sign)))
    return path


def results(found: list[dict[str, str]]) -> dict[str, str]:
    return {one["file"]: one["result"] for one in found}


def test_an_item_is_what_its_manifest_says_until_a_byte_changes(run: Run, url: str, home: Path) -> None:
    path = publish_item(url, home, "whole")
    code, found = run("verify", "heights/whole")
    assert (code, results(found)) == (0, {"whole.tif": "ok"})
    path.write_bytes(b"pixelz")
    code, found = run("verify", "heights/whole")
    assert (code, results(found)) == (6, {"whole.tif": "changed"})
    path.unlink()
    assert results(run("verify", "heights/whole")[1]) == {"whole.tif": "missing"}


def test_an_item_that_is_replaced_while_it_is_verified_is_no_failure(
    run: Run, url: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish_item(url, home, "moving")
    versions = iter("34")

    def open_and_replace(*given: Any) -> Any:
        for version in versions:
            publish_item(url, home, "moving", version, content=version.encode())
            break
        return open_envelope(*given)

    monkeypatch.setattr(verify, "open_envelope", open_and_replace)
    code, found = run("verify", "heights/moving")
    assert (code, results(found)) == (0, {"moving.tif": "ok"})


def test_assets_on_other_servers_are_not_taken_for_changed_ones(run: Run, url: str, home: Path) -> None:
    document = build_item("heights", raster_item("far"), Origin(JOB), "1")
    assets: dict[str, Json] = {"data": {"href": "https://example.com/far.tif", "type": "image/tiff"}}
    signer = Signer(Origin(JOB, "stac_ingest", "ab" * 32), SigningKey.open(home / "signing-key.pem"))
    manifest = signer.sign(ItemReference(collection="heights", id="far"))
    with connect(url, Role.HANDLER) as handler:
        publish(handler, "heights", JOB, [Publication({**document, "assets": assets}, manifest=manifest)])
    code, found = run("verify", "heights/far")
    assert (code, results(found)) == (0, {"data": "elsewhere, not checked"})


def test_the_table_of_a_layer_is_not_taken_for_a_missing_file(run: Run, url: str, home: Path, tmp_path: Path) -> None:
    path = publish_layer(url, home, "gauges")
    code, found = run("verify", "heights/gauges")
    assert (code, results(found)) == (0, {"geo.gauges": "table, not checked", "gauges.csv": "ok"})
    (tmp_path / "manifest.json").write_text(json.dumps(run("items", "manifest", "heights/gauges")[1]))
    (tmp_path / "keys.json").write_text(json.dumps(run("signing-keys", "list")[1]))
    files = ("--keys", tmp_path / "keys.json", "--files", path.parent)
    assert run("verify", tmp_path / "manifest.json", *files) == (0, found)
    path.write_bytes(b"gid,text")
    code, found = run("verify", "heights/gauges")
    assert (code, results(found)) == (6, {"geo.gauges": "table, not checked", "gauges.csv": "changed"})


def test_a_layer_whose_asset_leads_elsewhere_is_found(run: Run, url: str, home: Path) -> None:
    publish_layer(url, home, "springs")
    change = """update pgstac.items set content = replace(content::text, 'geo://springs', 'geo://gauges')::jsonb
                 where id = 'springs'"""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(change)
    code, found = run("verify", "heights/springs")
    assert (code, results(found)["data"]) == (6, "not in the manifest")


def test_a_catalog_that_shows_other_checksums_is_found(run: Run, url: str, home: Path) -> None:
    publish_item(url, home, "shown")
    change = """update pgstac.items set content = replace(content::text, %s, %s)::jsonb where id = 'shown'"""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(change, (sha256(b"pixels").hexdigest(), "00" * 32))
    code, found = run("verify", "heights/shown")
    assert (code, results(found)) == (6, {"shown.tif": "ok", "data": "not in the manifest"})
    publish_item(url, home, "pointed")
    change = """update pgstac.items set content = replace(content::text, 'pointed.tif', 'shown.tif')::jsonb
                 where id = 'pointed'"""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(change)
    assert results(run("verify", "heights/pointed")[1]) == {"pointed.tif": "ok", "data": "not in the manifest"}


def test_manifests_are_not_exchanged_and_keys_that_one_keeps_are_the_only_ones_that_count(
    run: Run, url: str, home: Path, tmp_path: Path
) -> None:
    publish_item(url, home, "mine")
    publish_item(url, home, "yours")
    take = """update app.publications set manifest = (
                  select manifest from app.publications where key = 'heights/mine') where key = 'heights/yours'"""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(take)
    code, error = run("verify", "heights/yours")
    assert (code, error["code"]) == (6, "manifest.differs")
    (tmp_path / "other.pem").write_text(SigningKey.open(tmp_path / "other").public_key)
    code, error = run("verify", "heights/mine", "--keys", tmp_path / "other.pem")
    assert (code, error["code"]) == (6, "manifest.unknown_key")


def test_files_are_verified_without_a_stack(run: Run, url: str, home: Path, tmp_path: Path) -> None:
    path = publish_item(url, home, "away")
    (tmp_path / "manifest.json").write_text(json.dumps(run("items", "manifest", "heights/away")[1]))
    (tmp_path / "keys.json").write_text(json.dumps(run("signing-keys", "list")[1]))
    words = ("verify", tmp_path / "manifest.json", "--keys", tmp_path / "keys.json", "--files", path.parent)
    assert run(*words)[0] == 0
    path.write_bytes(b"other")
    assert run(*words)[0] == 6
    assert run(*words[:2])[1]["code"] == "usage"
    for name in ("missing.json", tmp_path / "missing.json", "./missing.json"):
        code, error = run("verify", name)
        assert (code, error["code"], error["message"]) == (3, "file.not_found", f"there is no file {name}")


def test_what_an_old_handler_made_is_listed(run: Run, url: str, home: Path) -> None:
    for name, version in (("a1", "1.9"), ("a2", "1.10"), ("a3", "2rc1")):
        publish_item(url, home, name, version)

    def list_items(*words: str) -> set[str]:
        return {one["id"] for one in run("items", "list", "--made-by", "cogs.make", *words)[1]}

    assert {"a1", "a2", "a3"} <= list_items()
    assert list_items("--older-than", "1.10") - {"odd"} == {"a1"}
    assert list_items("--older-than", "2") >= {"a1", "a2", "a3"}
    assert not list_items("--older-than", "1.0") - {"odd"}
    publish_item(url, home, "a1", "2", b"made again")
    assert list_items("--older-than", "1.10") <= {"odd"}
    assert run("items", "list", "--older-than", "1")[1]["code"] == "usage"
    assert run("items", "list", "--made-by", "x", "--older-than", "new")[1]["code"] == "items.version"


def test_an_item_that_is_published_again_unchanged_keeps_its_manifest(run: Run, url: str, home: Path) -> None:
    publish_item(url, home, "kept", "1")
    _, before = run("items", "manifest", "heights/kept")
    publish_item(url, home, "kept", "2")
    assert run("items", "manifest", "heights/kept") == (0, before)


def test_a_key_is_rotated_and_what_it_signed_stays_valid(run: Run, url: str, home: Path) -> None:
    publish_item(url, home, "before")
    code, rotated = run("signing-keys", "rotate")
    assert code == 0
    publish_item(url, home, "after")
    keys = {key["id"]: key["retired_at"] for key in run("signing-keys", "list")[1]}
    assert keys[rotated["former"]]
    assert keys[rotated["id"]] is None
    assert [run("verify", f"heights/{name}")[0] for name in ("before", "after")] == [0, 0]


def test_what_is_not_there_is_named(run: Run, url: str, home: Path) -> None:
    publish_item(url, home, "old")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("update app.publications set manifest = null where key = 'heights/old'")
    assert run("verify", "heights/nothing")[1]["code"] == "item.not_found"
    assert run("verify", "heights/old")[1]["code"] == "manifest.not_found"
    assert run("verify", "heights/")[1]["code"] == "usage"
    publish_item(url, home, "old")
    assert run("verify", "heights/old")[0] == 0, "it gets the one that it lacks"


def test_a_version_that_is_none_counts_as_old(run: Run, url: str, home: Path) -> None:
    publish_item(url, home, "odd", "0.0.0-unknown")
    found = run("items", "list", "--made-by", "cogs.make", "--older-than", "0.1")[1]
    assert "odd" in {one["id"] for one in found}
