"""A link that was given out leads to the same bytes, or says that they are gone and what replaced them."""

from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
import pytest
from psycopg import Connection
from psycopg.rows import TupleRow

from anabranch.adapters.postgres.connect import Role, connect
from anabranch.embedded.cluster import Cluster
from anabranch.plugins.stac.catalog import By, act, ensure_collection
from anabranch.plugins.stac.collection import CollectionFacts
from anabranch.testing.postgres import Databases
from tests.support.items import put_item
from tests.support.serving import Served, serve_api

pytestmark = pytest.mark.postgres
ANN = By(actor="ann", reason="blurred")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("publications") / "home"


@pytest.fixture(scope="module")
def url(postgres: Cluster, postgres_admin: Connection[TupleRow], catalog_template: str) -> str:
    made = Databases(postgres, postgres_admin).make(catalog_template)
    with connect(made, Role.HANDLER) as handler:
        ensure_collection(handler, CollectionFacts(id="heights"))
    return made


@pytest.fixture(scope="module")
def served(url: str, home: Path) -> Iterator[Served]:
    with serve_api(url, home) as api:
        yield api


@pytest.fixture
def handler(url: str) -> Iterator[Connection[Any]]:
    with connect(url, Role.HANDLER) as connection:
        yield connection


def find_link(api: httpx.Client, item: str) -> str:
    """The link to the file that the catalog shows."""
    href: str = api.get(f"/stac/collections/heights/items/{item}").json()["assets"]["data"]["href"]
    return href


def test_p5_a_link_keeps_its_bytes_when_the_item_is_replaced(
    served: Served, handler: Connection[Any], home: Path
) -> None:
    put_item(handler, home, "kept", "aaa")
    first = find_link(served.client, "kept")
    put_item(handler, home, "kept", "bbbb")
    second = find_link(served.client, "kept")
    assert [served.client.get(link).text for link in (first, second)] == ["aaa", "bbbb"]
    former, answer = served.client.get(first), served.client.get("/files/current/heights/kept/dem.tif")
    assert former.headers["etag"] == f'"{sha256(b"aaa").hexdigest()}"'
    assert (answer.status_code, answer.headers["cache-control"]) == (302, "no-store")
    assert served.url + answer.headers["location"] == second

    links = served.client.get("/stac/collections/heights/items/kept").json()["links"]
    (href,) = [link["href"] for link in links if link["rel"] == "predecessor-version"]
    assert served.client.get(href).json()["assets"]["data"]["href"] == first


def test_p5_items_that_share_an_object_have_links_and_predecessors_of_their_own(
    served: Served, handler: Connection[Any], home: Path
) -> None:
    put_item(handler, home, "zed", "first")
    put_item(handler, home, "zed", "second")
    put_item(handler, home, "able", "second", file="zed")
    items = served.client.get("/stac/collections/heights/items").json()["features"]
    links = {item["id"]: {link["rel"] for link in item["links"]} for item in items}
    assert ("predecessor-version" in links["zed"], "predecessor-version" in links["able"]) == (True, False)
    act(handler, "withdraw", "heights", "zed", ANN)
    assert served.client.get({item["id"]: item["assets"]["data"]["href"] for item in items}["able"]).text == "second"


def test_p5_what_was_withdrawn_is_gone_until_it_is_restored(
    served: Served, handler: Connection[Any], home: Path
) -> None:
    put_item(handler, home, "gone", "aaa")
    put_item(handler, home, "gone", "bbbb")
    links = [find_link(served.client, "gone"), "/files/current/heights/gone/dem.tif"]
    act(handler, "withdraw", "heights", "gone", ANN)
    answers = [served.client.get(link) for link in links]
    assert [(answer.status_code, answer.json()["code"]) for answer in answers] == [(410, "file.gone")] * 2
    assert "replaced_by" not in answers[0].json()
    assert served.client.get("/stac/collections/heights/items/gone").status_code == 404
    assert served.client.get("/api/items/heights/gone").status_code == 410
    act(handler, "restore", "heights", "gone", ANN)
    assert served.client.get(links[0]).text == "bbbb"


def test_p5_what_retention_removed_is_gone_and_names_the_item_that_replaced_it(
    served: Served, handler: Connection[Any], home: Path, url: str
) -> None:
    put_item(handler, home, "old", "aaa")
    first = find_link(served.client, "old")
    put_item(handler, home, "old", "bbbb")
    with connect(url, None) as login:
        login.execute("delete from app.former_publications f using app.publications p"
                      " where p.id = f.publication and p.key = 'heights/old'")  # fmt: skip
    problem = served.client.get(first)
    assert problem.status_code == 410
    assert problem.json()["replaced_by"] == "/stac/collections/heights/items/old"
    links = served.client.get(problem.json()["replaced_by"]).json()["links"]
    assert "predecessor-version" not in {link["rel"] for link in links}


def test_the_history_of_an_item_says_who_did_what_and_why(served: Served, handler: Connection[Any], home: Path) -> None:
    put_item(handler, home, "story", "aaa")
    act(handler, "withdraw", "heights", "story", ANN)
    found = served.client.get("/api/items/heights/story/publications").json()["items"]
    shown = [(one["number"], one["action"], one["actor"], one["reason"], one["current"], one["available"])
             for one in found]  # fmt: skip
    assert shown == [(2, "withdraw", "ann", "blurred", True, False), (1, "publish", "anabranch", None, False, True)]
    page = served.client.get("/api/items/heights/story/publications?limit=1").json()
    assert [page["next"], page["items"][0]["number"]] == ["2", 2]
    assert served.client.get("/api/items/heights/none/publications").json()["code"] == "item.not_found"


@pytest.mark.parametrize("path", ["p/none/dem.tif", f"p/{'0' * 8}-0000-0000-0000-{'0' * 12}/x", "current/heights/no/x"])
def test_what_was_never_published_is_not_found(served: Served, path: str) -> None:
    answer = served.client.get(f"/files/{path}")
    assert (answer.status_code, answer.json()["code"]) == (404, "file.not_published")
