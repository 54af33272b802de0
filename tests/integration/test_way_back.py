"""Replace, unpublish, restore and roll back by HTTP, client and command line: who may, and what it does."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from psycopg import Connection
from psycopg.rows import TupleRow

from anabranch.adapters.postgres.connect import Role, connect
from anabranch.cli.main import call
from anabranch.client import Client
from anabranch.embedded.cluster import Cluster
from anabranch.enums import Scope
from anabranch.errors import Conflict, InputError, NotFound
from anabranch.plugins.stac.catalog import ensure_collection
from anabranch.plugins.stac.collection import CollectionFacts
from anabranch.testing.postgres import Databases
from tests.support.items import put_item
from tests.support.serving import Served, make_key, serve_api

pytestmark = pytest.mark.postgres
WHY = {"reason": "blurred"}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("way-back") / "home"


@pytest.fixture(scope="module")
def url(postgres: Cluster, postgres_admin: Connection[TupleRow], catalog_template: str) -> str:
    made = Databases(postgres, postgres_admin).make(catalog_template)
    with connect(made, Role.HANDLER) as handler:
        ensure_collection(handler, CollectionFacts(id="heights"))
        ensure_collection(handler, CollectionFacts(id="empty"))
    return made


@pytest.fixture(scope="module")
def served(url: str, home: Path) -> Iterator[Served]:
    with serve_api(url, home, auth="keys") as api:
        yield api


@pytest.fixture(scope="module")
def keys(url: str) -> dict[Scope, dict[str, str]]:
    return {scope: {"Authorization": f"Bearer {make_key(url, scope)}"} for scope in Scope}


@pytest.fixture
def put(url: str, home: Path) -> Iterator[Callable[[str, str], None]]:
    with connect(url, Role.HANDLER) as connection:
        yield lambda item, content: put_item(connection, home, item, content)


@pytest.fixture
def client(served: Served, keys: dict[Scope, dict[str, str]]) -> Iterator[Client]:
    key = keys[Scope.ADMIN]["Authorization"].removeprefix("Bearer ")
    with Client(served.url, key=key) as opened:
        yield opened


@pytest.fixture
def run(
    client: Client, served: Served, home: Path, keys: dict[Scope, dict[str, str]],
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> Callable[..., tuple[int, str]]:  # fmt: skip
    """Run a command; its exit code, and what it printed."""
    monkeypatch.setenv("ANABRANCH_HOME", str(home))
    monkeypatch.setenv("ANABRANCH_API_URL", served.url)
    monkeypatch.setenv("ANABRANCH_API_KEY", keys[Scope.ADMIN]["Authorization"].removeprefix("Bearer "))

    def run(*words: str) -> tuple[int, str]:
        code = call(list(words))
        out, err = capsys.readouterr()
        return code, out or err

    return run


def post(served: Served, key: dict[str, str], action: str, item: str, **body: Any) -> httpx.Response:
    return served.client.post(f"/api/items/heights/{item}/{action}", json=WHY | body, headers=key)


def test_s6_only_an_admin_unpublishes_and_only_with_a_confirmation(
    served: Served, keys: dict[Scope, dict[str, str]], put: Callable[[str, str], None], client: Client
) -> None:
    put("safe", "aaa")
    refused = post(served, keys[Scope.OPERATE], "unpublish", "safe", confirm="yes")
    assert (refused.status_code, refused.json()["code"]) == (403, "auth.forbidden")
    for action in ("restore", "rollback"):
        assert post(served, keys[Scope.SUBMIT], action, "safe").status_code == 403
    admin = keys[Scope.ADMIN]
    assert post(served, admin, "unpublish", "safe").json()["code"] == "request.unconfirmed"
    silent = served.client.post("/api/items/heights/safe/unpublish", json={"confirm": "yes"}, headers=admin)
    assert silent.json()["code"] == "request.invalid", "a reason is required"
    plan = post(served, admin, "unpublish", "safe", dry_run=True).json()
    assert (plan["dry_run"], plan["objects"], plan["bytes"], plan["shows"]) == (True, 1, 3, None)
    assert plan["files"][0]["address"].startswith("silver://")
    assert client.published_item("heights", "safe").number == 1, "a dry run changes nothing"


def test_p7_who_acts_is_the_principal_and_a_number_that_moved_on_is_a_conflict(
    served: Served, keys: dict[Scope, dict[str, str]], put: Callable[[str, str], None], client: Client
) -> None:
    put("moved", "aaa")
    put("moved", "bbbb")
    answer = post(served, keys[Scope.OPERATE], "rollback", "moved", actor="somebody else")
    assert answer.json()["code"] == "request.invalid"
    done = post(served, keys[Scope.OPERATE], "rollback", "moved", expected=2)
    assert (done.status_code, done.json()["number"], done.json()["shows"]) == (200, 3, 1)
    late = post(served, keys[Scope.ADMIN], "unpublish", "moved", expected=2, confirm="yes")
    assert (late.status_code, late.json()["code"]) == (409, "publication.moved")
    newest = next(iter(client.publications("heights", "moved")))
    key_id = keys[Scope.OPERATE]["Authorization"].split("_")[1]
    assert (newest.action, newest.reason, key_id in newest.actor) == ("rollback", "blurred", True)


BODIES: dict[str, dict[str, Any]] = {
    "replace": {"parameters": {"source": "bronze://a.tif"}},
    "unpublish": {"confirm": "yes"},
}


def test_the_number_of_an_item_is_its_etag_and_another_one_is_no_match(
    served: Served, keys: dict[Scope, dict[str, str]], put: Callable[[str, str], None]
) -> None:
    put("tagged", "aaa")
    admin, path = keys[Scope.ADMIN], "/api/items/heights/tagged"
    shown = served.client.get(path, headers=admin)
    assert shown.headers["etag"] == '"1"'
    assert served.client.get(path, headers=admin | {"If-None-Match": '"1"'}).status_code == 304
    put("tagged", "bbbb")
    for action in ("unpublish", "restore", "rollback", "replace"):
        body = BODIES.get(action, {})
        late = post(served, admin | {"If-Match": '"1"'}, action, "tagged", **body)
        assert (late.status_code, late.json()["code"]) == (412, "publication.no_match")
        odd = post(served, admin | {"If-Match": "1"}, action, "tagged", **body)
        assert (odd.status_code, odd.json()["code"]) == (422, "request.invalid")
    twice = post(served, admin | {"If-Match": '"2"'}, "rollback", "tagged", expected=1)
    assert twice.json()["code"] == "request.invalid"
    done = post(served, admin | {"If-Match": '"2"'}, "rollback", "tagged")
    assert (done.status_code, done.json()["number"], done.headers["etag"]) == (200, 3, '"3"')


def test_the_client_takes_an_item_away_and_back(client: Client, put: Callable[[str, str], None]) -> None:
    put("story", "aaa")
    with pytest.raises(InputError):
        client.unpublish("heights", "story", "blurred")
    assert client.unpublish("heights", "story", "blurred", confirm=True).restorable_days == 30
    with pytest.raises(NotFound, match=r"withdrawn by .* \(number 2\), and can be restored: blurred") as gone:
        client.published_item("heights", "story")
    assert (gone.value.code, "items restore heights/story" in gone.value.remedy) == ("item.withdrawn", True)
    with pytest.raises(Conflict):
        client.unpublish("heights", "story", "again", confirm=True)
    assert client.restore("heights", "story", "it was right").shows == 1
    assert client.published_item("heights", "story").number == 3
    with pytest.raises(NotFound):
        client.rollback("heights", "story", "why not")


def test_the_client_writes_a_file_of_an_item(client: Client, put: Callable[[str, str], None], tmp_path: Path) -> None:
    put("files", "aaa")
    item, published = client.item("heights", "files"), client.published_item("heights", "files")
    (asset,) = item.assets
    file = item.assets[asset]["href"].rpartition("/")[2]
    sources: list[tuple[Any, str]] = [(item, asset), (item, file), (published, file), (published.publication, file)]
    for number, (source, name) in enumerate(sources):
        assert client.download(source, name, tmp_path / str(number)).read_text() == "aaa"
    with pytest.raises(NotFound, match="files has no asset 'none'"):
        client.download(item, "none", tmp_path / "none")
    with pytest.raises(TypeError, match="give an item, or the id of a publication, not a Publication"):
        client.download(next(client.publications("heights", "files")), file, tmp_path / "none")  # type: ignore[arg-type]  # as a notebook may


def test_commands_show_first_and_act_with_yes(
    run: Callable[..., tuple[int, str]], put: Callable[[str, str], None]
) -> None:
    put("cli", "aaa")
    put("cli", "bbbb")
    why = ("--reason", "blurred")
    code, shown = run("items", "unpublish", "heights/cli", *why)
    assert (code, "objects: 1, 4 B" in shown, "--yes" in shown) == (2, True, True)
    code, shown = run("items", "unpublish", "heights/cli", *why, "--dry-run")
    assert (code, "heights/cli would not be published (publication 3)" in shown) == (0, True)
    assert run("items", "unpublish", "heights/cli", *why, "--yes")[0] == 0
    assert run("items", "show", "heights/cli")[0] == 3
    code, shown = run("verify", "heights/cli")
    assert (code, "was withdrawn" in shown) == (3, True)
    rows = [line.split() for line in run("items", "history", "heights/cli")[1].splitlines()[1:]]
    assert [[kept for kept in ("yes", "no") if kept in row] for row in rows] == [[], ["yes"], ["yes"]]
    code, shown = run("items", "restore", "heights/cli", *why)
    assert (code, "heights/cli: publication 4 shows the content of publication 2" in shown) == (0, True)
    code, shown = run("items", "rollback", "heights/cli", "--to", "1", *why, "--json")
    assert (code, json.loads(shown)["shows"]) == (0, 1)
    code, shown = run("items", "history", "heights/cli")
    assert [line.split()[:3] for line in shown.splitlines()[1:]] == [
        ["5", "*", "rollback"], ["4", "restore", "2"], ["3", "withdraw", "-"], ["2", "replace", "2"],
        ["1", "publish", "1"],
    ]  # fmt: skip
    code, shown = run("items", "show", "heights/cli")
    assert (code, "/files/p/" in shown) == (0, True)
    assert all(line[9:].startswith(" ") for line in shown.splitlines()), "a blank before each value"


def test_an_empty_collection_is_removed_and_one_with_items_is_not(
    run: Callable[..., tuple[int, str]], put: Callable[[str, str], None], client: Client
) -> None:
    put("there", "aaa")
    assert run("items", "remove-collection", "empty")[0] == 2
    assert run("items", "remove-collection", "heights", "--yes")[0] == 6
    assert run("items", "remove-collection", "empty", "--yes")[0] == 0
    with pytest.raises(NotFound):
        client.remove_collection("empty")


def test_replacing_submits_a_job_for_the_same_id(
    client: Client, put: Callable[[str, str], None], run: Callable[..., tuple[int, str]]
) -> None:
    put("same", "aaa")
    source = {"source": "bronze://in/new.tif"}
    submitted = client.replace("heights", "same", source, "a better scan")
    given = client.job(submitted.job_id).parameters
    assert given.items() >= {**source, "collection": "heights", "item_id": "same", "reason": "a better scan"}.items()
    with pytest.raises(NotFound):
        client.replace("heights", "none", source, "a better scan")
    code, shown = run(
        "items", "replace", "heights/same", "-p", "source=bronze://in/new.tif", "--reason", "a better scan"
    )
    assert (code, shown.split()[-1]) == (0, submitted.job_id)


def test_p5_the_job_of_a_replacement_compares_the_expected_number_when_it_publishes(
    client: Client, put: Callable[[str, str], None], run: Callable[..., tuple[int, str]]
) -> None:
    put("seen", "aaa")
    source, why = {"source": "bronze://in/new.tif"}, "a better scan"
    submitted = client.replace("heights", "seen", source, why, expected=1)
    assert client.job(submitted.job_id).parameters["expected"] == 1
    words = ("items", "replace", "heights/seen", "-p", "source=bronze://in/new.tif", "--reason", why)
    assert run(*words, "--expected", "1")[1].split()[-1] == submitted.job_id
    put("seen", "bbbb")
    with pytest.raises(Conflict, match="at number 2 by now, not 1") as moved:
        client.replace("heights", "seen", source, why, expected=1)
    assert (moved.value.code, run(*words, "--expected", "1")[0]) == ("publication.moved", 6)
    unable = {"workflow": "hello_world", "expected": 2}
    with pytest.raises(InputError, match="expected"):
        client.replace("heights", "seen", {}, why, **unable)  # type: ignore[arg-type]  # a workflow without the input
