"""Two platforms on one server: for the ids of the other, a platform gets what it gets for ids of nothing."""

import re
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from psycopg import Connection
from psycopg.rows import TupleRow

from anabranch.access import Scope
from anabranch.adapters.postgres.connect import Role, connect
from anabranch.adapters.postgres.database import Database
from anabranch.adapters.postgres.store.published.files import PostgresFiles
from anabranch.api.openapi.document import load_document
from anabranch.embedded.cluster import Cluster
from anabranch.testing.postgres import Databases
from tests.support.layers import add_layer
from tests.support.serving import JOB, Served, add_item, file_of, make_key, serve_api, write_rasters
from tests.support.waiting import wait_until

pytestmark = pytest.mark.postgres

Call = tuple[str, str]  # a method, and the template of a path
POINTS = "select 1::bigint as gid, ST_SetSRID(ST_Point(1, 2), 4326)::geometry(Point, 4326) as geom, 'a' as name"
DATA = b"raster"
NOTHING = "0" * 64
ORDER = {"refs": {"dataset_id": "1", "resource_id": "a", "version_id": "1"}, "source": "bronze://ddh/a.tif"}

# Of the installation, and not of a platform: definitions, descriptions and numbers, or what a caller makes.
SHARED: set[Call] = {
    *(("get", path) for path in (
        "/ui/{name}", "/livez", "/readyz", "/errors", "/errors/{code}", "/openapi.json", "/metrics",
        "/api/health", "/api/handlers", "/api/signing-keys",
        "/api/workflows", "/api/workflows/{workflow_id}", "/api/workflows/{workflow_id}/schema",
        "/api/workflows/{workflow_id}/graph.svg", "/api/workflows/{workflow_id}/versions",
        "/ogc", "/ogc/conformance", "/ogc/processes",
        "/ogc/processes/{process_id}", "/stac/conformance", "/features", "/features/conformance",
        "/features/tileMatrixSets", "/features/tileMatrixSets/{tileMatrixSetId}",
    )),
    *(("post", path) for path in (
        "/api/workflows/validate", "/api/workflows/reload", "/api/jobs", "/api/jobs/validate", "/api/jobs/bulk",
        "/api/jobs/submit/{job_type}", "/api/uploads", "/ogc/processes/{process_id}/execution",
        "/api/webhooks", "/api/schedules",
    )),
}  # fmt: skip
# Lists, which are without what is another's; queries that name it find nothing.
LISTS: dict[Call, list[dict[str, str]]] = {
    ("get", "/api/jobs"): [{}, {"parent": "{job_id}"}, {"label": "team:maps"}],
    ("get", "/api/dead-letters"): [{}],
    ("get", "/api/overview"): [{}],
    ("get", "/api/items"): [{}, {"collection": "{collection}"}, {"job_id": "{job_id}"}, {"made_by": "h"}],
    ("get", "/ogc/jobs"): [{}, {"processID": "hello_world"}, {"status": "accepted"}],
    ("get", "/stac"): [{}],
    ("get", "/stac/collections"): [{}, {"bbox": "-180,-90,180,90"}],
    ("get", "/stac/search"): [
        {}, {"ids": "{item}"}, {"collections": "{collection}"}, {"filter": "collection='{collection}'"},
        {"token": "{token}"}, {"query": '{{"collection":{{"eq":"{collection}"}}}}'},
    ],
    ("get", "/stac/queryables"): [{}],
    ("get", "/features/collections"): [{}],
    **{
        ("get", f"/api/{path}"): [{}]
        for path in (
            "platforms", "approvals", "platform/audit", "platform/releases", "platform/requests", "webhooks",
            "schedules",
        )
    },
    ("get", "/api/webhooks/deliveries"): [{}, {"endpoint": "{endpoint_id}"}, {"subject": "{asset_id}"}],
}  # fmt: skip
BODIES: dict[Call, Any] = {
    ("post", "/stac/search"): {"collections": ["{collection}"], "ids": ["{item}"]},
    ("post", "/api/dead-letters/replay"): {"jobs": ["{job_id}"]},
    ("post", "/api/platform/submit"): {**ORDER, "platform": "{platform}"},
    ("post", "/api/platform/releases"): {"action": "revoke", "reason": "r", "release_ids": ["{release_id}"]},
    ("post", "/api/platform/releases/{release_id}/clearance"): {"clearance": "public"},
    ("post", "/api/platform/releases/{release_id}/reject"): {"reason": "r"},
    ("post", "/api/platform/releases/{release_id}/revoke"): {"reason": "r"},
    ("post", "/api/platform/releases/{release_id}/rollback"): {"reason": "r"},
    ("patch", "/api/schedules/{schedule}"): {"cron": "0 0 * * *"},
    ("post", "/api/schedules/{schedule}/backfill"): {"begin": "2026-01-01T00:00:00Z", "end": "2026-01-02T00:00:00Z"},
    ("patch", "/api/webhooks/{endpoint_id}"): {"active": False},
    ("post", "/api/webhooks/deliveries/replay"): {"endpoint": "{endpoint_id}"},
    ("post", "/api/items/{collection}/{item}/restore"): {"reason": "r"},
    ("post", "/api/items/{collection}/{item}/rollback"): {"reason": "r", "number": 1},
    ("post", "/api/items/{collection}/{item}/replace"): {"reason": "r", "parameters": {"source": "bronze://a.tif"}},
}
QUERIES: dict[Call, dict[str, str]] = {
    ("get", "/api/uploads/{sha256}"): {"name": "a.tif"},
    ("post", "/api/uploads/{sha256}"): {"name": "a.tif", "parts": "1"},
    ("get", "/raster/search/tiles/{tileMatrixSetId}/{z}/{x}/{y}.{format}"): {"collections": "{collection}"},
    ("get", "/raster/search/tiles/{tileMatrixSetId}/{z}/{x}/{y}"): {"ids": "{item}"},
    ("get", "/raster/search/{tileMatrixSetId}/tilejson.json"): {},
    ("get", "/raster/search/point/{lon},{lat}"): {"collections": "{collection}"},
    ("get", "/features/collections/{collectionId}/tiles/{tileMatrixSetId}/{z}/{x}/{y}"): {"publication": "{shown}"},
}


@dataclass(frozen=True)
class Ids:
    """What a path names; all of the same length, whether it is something or nothing."""

    job_id: str
    publication: str
    shown: str
    sha256: str
    collection: str
    item: str
    layer: str
    platform: str
    asset_id: str
    release_id: str
    request_id: str
    endpoint_id: str
    delivery_id: str
    schedule: str

    @property
    def names(self) -> dict[str, str]:
        """By the names of the parameters of paths."""
        token = f"next:{self.collection.encode().hex()}:{self.item.encode().hex()}"
        return {
            **vars(self), "collection_id": self.collection, "item_id": self.item, "collectionId": self.layer,
            "token": token, "name": "hills.tif", "node": "hello", "number": "1", "id": self.request_id,
            "tileMatrixSetId": "WebMercatorQuad", "z": "8", "x": "134", "y": "89", "format": "png", "featureId": "1",
            "lon": "9.2", "lat": "47.2", "width": "64", "height": "64",
        }  # fmt: skip


ABSENT = Ids(
    NOTHING, str(uuid.UUID(int=0)), str(uuid.UUID(int=1)), "1" * 64, "absent", "never", "nolayr", "nop",
    "2" * 32, "3" * 32, str(uuid.UUID(int=4)), str(uuid.UUID(int=5)), "9", "nothing",
)  # fmt: skip


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("isolation") / "home"


@pytest.fixture(scope="module")
def url(postgres: Cluster, postgres_admin: Connection[TupleRow], catalog_template: str, home: Path) -> str:
    """Everything belongs to ddh: a collection of rasters, and one with a layer."""
    url = Databases(postgres, postgres_admin).make(catalog_template)
    hills, photo, _ = write_rasters(home / "silver")
    for raster in (hills, photo):
        add_item(url, raster)
    add_layer(url, "cities", POINTS, {"name": "text"}, "Point", (0, 0, 2, 3))
    with connect(url, Role.OWNER) as owner:
        owner.execute("update app.publication_keys set owner = 'ddh'")
    return url


@pytest.fixture(scope="module")
def served(url: str, home: Path) -> Iterator[Served]:
    with serve_api(url, home, auth="keys", anonymous_read="true") as api:
        yield api


@pytest.fixture(scope="module")
def keys(url: str) -> Mapping[str, dict[str, str]]:
    """Headers with a key, by platform and scope."""
    made = [("ddh", Scope.OPERATE), *(("globex", scope) for scope in Scope)]
    return {f"{who} {scope}": {"Authorization": f"Bearer {make_key(url, scope, who)}"} for who, scope in made}


@pytest.fixture(scope="module")
def ddh(url: str, served: Served, keys: Mapping[str, dict[str, str]]) -> Ids:
    """What there is of ddh."""
    ours, octets = keys["ddh operate"], {"Content-Type": "application/octet-stream"}
    body = {"workflow": "hello_world", "parameters": {"n": 1}, "labels": {"team": "maps"}}
    job = served.client.post("/api/jobs", json=body, headers=ours)
    kept = served.client.post("/api/uploads?name=a.tif", content=DATA, headers={**ours, **octets})
    hook = served.client.post("/api/webhooks", json={"url": "https://example.com/hook"}, headers=ours).json()["id"]
    nightly = {"name": "nightly", "workflow": "hello_world", "cron": "30 2 * * *", "inputs": {"n": 1}}
    assert served.client.post("/api/schedules", json=nightly, headers=ours).status_code == 201
    order = served.client.post("/api/platform/submit", json={**ORDER, "platform": "ddh"}, headers=ours)
    assert (job.status_code, kept.status_code, order.status_code) == (202, 201, 202), (job.text, kept.text, order.text)
    with connect(url, Role.OWNER) as owner:
        ((shown,),) = owner.execute("select publication::text from app.layers").fetchall()
    publication = file_of("hills").split("/")[3]
    (sent, *_) = served.client.get("/api/webhooks/deliveries", headers=ours).json()["items"]
    asset, release, request = (order.json()[name] for name in ("asset_id", "release_id", "request_id"))
    found = Ids(
        job.json()["job_id"], publication, shown, sha256(DATA).hexdigest(), "scenes", "hills", "cities", "ddh",
        asset, release, request, hook, sent["id"], "nightly",
    )  # fmt: skip
    assert {name: len(value) for name, value in vars(found).items()} == {k: len(v) for k, v in vars(ABSENT).items()}
    return found


def operations() -> dict[Call, str | None]:
    """Every operation of the API, and the scope that it needs."""
    return {
        (method, path): (operation.get("security") or [{}])[0].get("key", [None])[0]
        for path, item in load_document()["paths"].items()
        for method, operation in item.items()
    }


# They answer for each of the ids that they are given.
ANSWER_EACH = {
    ("post", "/api/dead-letters/replay"),
    ("post", "/api/platform/releases"),
    ("post", "/api/webhooks/deliveries/replay"),
}
# Nothing of what is walked has a manifest, outputs or a published release, or waits for a review.
ABSENT_FOR_ALL = "manifest|outputs|latest|(jobs|releases)/.*/preview|/previews/"
OPERATIONS = operations()
ADMIN = {call for call, scope in OPERATIONS.items() if scope == "admin"}
WALKED = sorted(OPERATIONS.keys() - SHARED - ADMIN - LISTS.keys())


def fill(value: Any, ids: Ids) -> Any:
    if isinstance(value, str):
        return value.format(**ids.names) if "{" in value else value
    if isinstance(value, list):
        return [fill(each, ids) for each in value]
    return {name: fill(each, ids) for name, each in value.items()} if isinstance(value, dict) else value


def ask(
    client: httpx.Client, call: Call, ids: Ids, headers: Mapping[str, str], query: Mapping[str, str] | None = None
) -> httpx.Response:
    method, path = call
    if method == "put" and "uploads" in path:
        sent: dict[str, Any] = {"content": DATA, "headers": {"Content-Type": "application/octet-stream"}}
    elif method in ("post", "patch") and "uploads" not in path:
        sent = {"json": fill(BODIES.get(call, {}), ids), "headers": {}}
    else:
        sent = {"headers": {}}
    sent["headers"] = {**sent["headers"], **headers, "X-Correlation-ID": "walk"}
    given = fill(QUERIES.get(call, {}) if query is None else query, ids)
    return client.request(method.upper(), fill(path, ids), params=given, **sent)


def read(answer: httpx.Response, ids: Ids) -> tuple[int, dict[str, str], str]:
    """An answer to compare: with names of nothing in place of those of something."""
    told = {name: value for name, value in answer.headers.items() if name not in ("date", "server")}
    text = repr(sorted(told.items())) + answer.text
    for given, absent in zip(vars(ids).values(), vars(ABSENT).values(), strict=True):
        text = text.replace(given, absent).replace(given.encode().hex(), absent.encode().hex())
    text = re.sub(r"[0-9a-f]{32}", "", text) if "etag" in told else text
    return answer.status_code, {}, text


def test_every_operation_is_walked_or_is_said_to_be_shared() -> None:
    """A new route belongs into one of the tables of this file, or is walked with the ids that its path names."""
    assert OPERATIONS.keys() >= SHARED
    assert LISTS.keys() <= OPERATIONS.keys()
    named = set(ABSENT.names)
    for method, path in WALKED:
        found = set(re.findall(r"{(\w+)}", path))
        assert found <= named, (method, path)
        assert (
            found & vars(ABSENT).keys() | found & {"collection_id", "collectionId", "id"}
            or (method, path) in QUERIES
            or ((method, path) in BODIES)
        ), (method, path)


@pytest.mark.parametrize("scope", [Scope.READ, Scope.SUBMIT, Scope.OPERATE])
def test_p6_another_platform_gets_for_every_id_what_it_gets_for_none(
    served: Served, keys: Mapping[str, dict[str, str]], ddh: Ids, scope: Scope
) -> None:
    other = keys[f"globex {scope}"]
    for call in WALKED:
        found, nothing = (ask(served.client, call, ids, other) for ids in (ddh, ABSENT))
        assert read(found, ddh) == read(nothing, ddh), call
        assert not found.is_success or call[1].startswith(("/api/uploads", "/stac/search")) or call in ANSWER_EACH, call
    for call, queries in LISTS.items():
        for query in queries:
            found, nothing = (ask(served.client, call, ids, other, query) for ids in (ddh, ABSENT))
            assert read(found, ddh) == read(nothing, ddh), (call, query)
            assert not re.search("hills|photo|cities", found.text.replace("ids=hills", "")), (call, query)


def test_what_was_walked_is_there_for_its_platform(
    served: Served, keys: Mapping[str, dict[str, str]], ddh: Ids
) -> None:
    """And the other platform has changed nothing of it."""
    ours = keys["ddh operate"]
    for call in WALKED:
        method, path = call
        if method == "get" and "stream" not in path and not re.search(ABSENT_FOR_ALL, path):
            answer = ask(served.client, call, ddh, ours)
            assert answer.status_code in (200, 302) or path.endswith("/results"), (call, answer.text[:300])
    state = served.client.get(f"/api/jobs/{ddh.job_id}", headers=ours).json()
    assert (state["platform"], state["status"] in ("pending", "running"), state["generation"]) == ("ddh", True, 0)
    history = served.client.get("/api/items/scenes/hills/publications", headers=ours).json()["items"]
    assert [one["number"] for one in history] == [1]
    for call, name in ((("get", "/api/jobs"), ddh.job_id), (("get", "/stac/collections"), "scenes")):
        assert name in ask(served.client, call, ddh, ours, {}).text
        assert name in ask(served.client, call, ddh, keys["globex admin"], {}).text


def test_s1_what_is_the_operators_needs_an_admin(served: Served, keys: Mapping[str, dict[str, str]], ddh: Ids) -> None:
    for method, path in ADMIN:
        names = {**ddh.names, "session": "1", "key_id": "a", "kind": "queue"}
        answer = served.client.request(method.upper(), path.format(**names), headers=keys["globex operate"])
        assert answer.status_code == 403, (method, path)
    health = served.client.get("/api/health", headers=keys["globex read"]).json()
    assert {part["detail"] for part in health["components"].values()} == {""}
    assert not health["queues"]


async def test_s1_the_address_of_a_file_of_another_platform_names_nothing(url: str) -> None:
    """Items of other programs may name any address: what they show is what their platform may see."""
    database = Database(url, Role.READER, name="test", size=1, checked=False)
    await database.open()
    try:
        addresses, files = [f"silver://jobs/{JOB}/cog/hills.tif"], PostgresFiles(database)
        found = {who: await files.seen_by(who).find_all(addresses) for who in ("ddh", "globex", "", None)}
    finally:
        await database.close()
    assert {who: len(shown) for who, shown in found.items()} == {"ddh": 1, "globex": 0, "": 0, None: 1}


def test_a_writer_sees_a_collection_until_it_is_none(
    served: Served, keys: Mapping[str, dict[str, str]], ddh: Ids
) -> None:
    ours, other = keys["ddh operate"], keys["globex operate"]
    path = "/api/collections/scenes/writers"
    added = served.client.put(f"{path}/globex", headers=ours).json()
    assert added == {"collection": "scenes", "platform": "ddh", "writers": ["globex"]}
    assert served.client.get("/api/items/scenes/hills", headers=other).is_success
    refused = served.client.put(f"{path}/initech", headers=other)
    assert (refused.status_code, refused.json()["code"]) == (409, "publication.owner")
    mine = served.client.post("/api/items/scenes/hills/rollback", json={"reason": "r"}, headers=other)
    assert (mine.status_code, mine.json()["code"]) == (409, "publication.owner")

    assert served.client.delete(f"{path}/globex", headers=ours).json()["writers"] == []
    assert served.client.get("/api/items/scenes/hills", headers=other).status_code == 404


def test_s1_without_a_key_what_is_public_can_be_read_and_nothing_else(
    url: str, served: Served, keys: Mapping[str, dict[str, str]], ddh: Ids
) -> None:
    client, public = served.client, ("/stac", "/raster", "/features", "/files")
    for call in WALKED:
        found, nothing = (ask(client, call, ids, {}) for ids in (ddh, ABSENT))
        assert read(found, ddh) == read(nothing, ddh), call
        is_public = (call[0] == "get" and "/previews/" not in call[1]) or call[1] == "/stac/search"
        assert (found.status_code == 401) == (not (is_public and call[1].startswith(public))), call
    with psycopg.connect(url, autocommit=True) as login:
        login.execute("update app.publication_keys set public = true where key in ('scenes/hills', 'layers/cities')")
    try:
        _check_public(client, ddh)
        _check_public_with_key(client, keys["globex read"], ddh)
    finally:
        with psycopg.connect(url, autocommit=True) as login:
            login.execute("update app.publication_keys set public = false")


def _is_found(client: httpx.Client, call: Call, ids: Ids) -> bool:
    return ask(client, call, ids, {}).is_success


def _check_public_with_key(client: httpx.Client, key: dict[str, str], ddh: Ids) -> None:
    """A key of another platform shows what is public, and no more of it than no key does."""
    for call in WALKED:
        if call[0] == "get" and call[1].startswith(("/stac/", "/raster/", "/features/", "/files/")):
            keyed, open_to_all = (ask(client, call, ddh, headers) for headers in (key, {}))
            if open_to_all.is_success and call[1] != "/stac/search":
                assert read(keyed, ddh) == read(open_to_all, ddh), call
    for path in (
        file_of("photo"),
        "/stac/collections/scenes/items/photo",
        "/raster/collections/scenes/items/photo/info",
    ):
        assert client.get(path, headers=key).status_code == 404, path
    assert client.head("/stac/collections/scenes/items/hills", headers=key).status_code == 200
    assert client.get("/api/items/scenes/hills/publications", headers=key).status_code == 404


def _check_public(client: httpx.Client, ddh: Ids) -> None:
    wait_until(lambda: client.get("/stac/collections/scenes").is_success)  # what is visible is cached for a second
    for query in ({}, {"query": '{"eo:cloud_cover":{"gte":0}}'}, {"filter": "id<>'x'"}, {"ids": "hills,photo"}):
        found = client.get("/stac/search", params=query).json()
        assert {item["id"] for item in found["features"]} <= {"hills", "cities"}, query
    assert {item["id"] for item in client.get("/stac/search").json()["features"]} == {"hills", "cities"}
    assert client.get("/stac/collections/scenes/items/photo").status_code == 404
    collection = client.get("/stac/collections/scenes").json()
    assert collection["extent"]["spatial"]["bbox"] == [[-180, -90, 180, 90]]
    for path in (file_of("hills"), "/files/current/scenes/hills/hills.tif", "/features/collections/cities/items"):
        assert client.get(path, follow_redirects=True).is_success, path
    for call in WALKED:
        if call[1].startswith("/raster") and not re.search("statistics|/previews/|/publications/", call[1]):
            wait_until(partial(_is_found, client, call, ddh), f"{call}")  # likewise, for five seconds
    assert client.get("/raster/collections/scenes/items/hills/publications/1/info").status_code == 404  # for keys alone
    assert client.get(file_of("photo")).status_code == 404
    assert client.get("/raster/collections/scenes/items/photo/info").status_code == 404
