"""Links come from the public URL and never from what a caller claims (TS6); other origins may read (TN4)."""

import gzip
import http.client
import json
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from psycopg import Connection
from psycopg.rows import TupleRow

from anabranch.embedded.cluster import Cluster
from anabranch.testing.postgres import Databases
from tests.support.serving import Served, add_item, file_of, make_key, serve_api, write_rasters
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.postgres

PUBLIC = "https://data.example.org/anb"
MAP = "https://maps.example.org"
ITEM = "/stac/collections/scenes/items/hills"
FILE = file_of("hills")
TILE = "/raster/collections/scenes/items/hills/tiles/WebMercatorQuad/8/134/90.png"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("public") / "home"


@pytest.fixture(scope="module")
def url(postgres: Cluster, postgres_admin: Connection[TupleRow], catalog_template: str, home: Path) -> str:
    made = Databases(postgres, postgres_admin).make(catalog_template)
    for raster in write_rasters(home / "silver"):
        add_item(made, raster)
    return made


@pytest.fixture(scope="module")
def key(url: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {make_key(url)}"}


@pytest.fixture(scope="module")
def public(url: str, home: Path) -> Iterator[Served]:
    with serve_api(
        url, home, auth="keys", public_url=f"{PUBLIC}/", cors_origins=f"{MAP}, https://other.example.org"
    ) as api:
        yield api


@pytest.fixture(scope="module")
def keyed(url: str, home: Path) -> Iterator[Served]:
    with serve_api(url, home, auth="keys", allowed_hosts="api.example.org", trusted_proxies="127.0.0.0/8") as api:
        yield api


@pytest.fixture(scope="module")
def local(url: str, home: Path) -> Iterator[Served]:
    with serve_api(url, home, cors_origins="*") as api:
        yield api


def links_of(document: Any) -> Iterator[str]:  # JSON
    if isinstance(document, dict):
        for name, part in document.items():
            if name in ("href", "tiles") or (name == "url" and isinstance(part, str)):
                yield from [part] if isinstance(part, str) else part
            else:
                yield from links_of(part)
    elif isinstance(document, list):
        for part in document:
            yield from links_of(part)


def problem(answer: httpx.Response, status: int, code: str) -> dict[str, Any]:  # a problem document
    assert answer.status_code == status, answer.text[:500]
    told: dict[str, Any] = answer.json()
    assert told["code"] == code, told
    return told


# ---- the public URL (TS6)


@pytest.mark.parametrize("prefix", ["", "/anb"])  # a proxy takes the prefix away, or not
@pytest.mark.parametrize(
    "path",
    [
        "/stac",
        "/stac/collections",
        ITEM,
        "/stac/search",
        f"/raster/{ITEM[6:]}/WebMercatorQuad/tilejson.json",
    ],
)
def test_ts6_every_link_begins_with_the_public_url(public: Served, key: dict[str, str], prefix: str, path: str) -> None:
    told = public.client.get(prefix + path, headers={**key, "Host": "evil.example.net"})
    assert told.is_success, told.text
    found = [link for link in links_of(told.json()) if "schema" not in link]
    assert found
    assert [link for link in found if not link.startswith(f"{PUBLIC}/") and link != PUBLIC] == []


def test_ts6_the_description_names_the_public_url(public: Served, key: dict[str, str]) -> None:
    assert public.client.get("/openapi.json", headers=key).json()["servers"] == [{"url": PUBLIC}]


def test_ts6_links_of_the_public_url_can_be_followed(public: Served, key: dict[str, str]) -> None:
    seen, left = set[str](), [f"{PUBLIC}/stac"]
    while left:
        at = left.pop()
        seen.add(at)
        answer = public.client.get(urlsplit(at).path, params=urlsplit(at).query, headers=key)
        assert answer.is_success, (at, answer.text)
        if "json" in answer.headers["content-type"]:
            documents = [answer.json(), *answer.json().get("features", ())]
            links = [link for document in documents for link in document.get("links", ())]
            listed = [link["href"] for link in links if link.get("method", "GET") == "GET"]
            left += [link for link in set(listed) if link.startswith(PUBLIC) and link not in seen | set(left)]
    assert f"{PUBLIC}{ITEM}" in seen


def test_ts6_paths_in_answers_have_the_prefix(public: Served, key: dict[str, str]) -> None:
    told = problem(public.client.get("/anb/api/jobs/0000", headers=key), 404, "job.not_found")
    assert told["type"] == "/anb/errors/job.not_found"
    assert public.client.get(told["type"]).json()["code"] == "job.not_found"
    workflow = public.client.get("/api/workflows/echo", headers=key).json()
    assert workflow["links"]["submit"] == "/anb/api/jobs/submit/echo"


def test_ts6_forwarded_headers_of_others_are_not_believed(public: Served, local: Served, key: dict[str, str]) -> None:
    lies = {"X-Forwarded-Host": "evil.example.net", "X-Forwarded-Proto": "https", "X-Forwarded-Prefix": "/evil",
            "Forwarded": "host=evil.example.net;proto=https"}  # fmt: skip
    assert "evil" not in public.client.get("/stac", headers={**key, **lies}).text
    told = local.client.get("/stac", headers=lies)
    assert "evil" not in told.text
    assert f"{local.url}/stac" in told.text
    assert "proxy.untrusted" in local.log.read_text()


@pytest.mark.parametrize("host", ["evil.example.net", "api.example.org.evil.net", "", "api.example.org@evil.net"])
def test_ts6_with_keys_no_host_but_an_allowed_one_is_called(keyed: Served, key: dict[str, str], host: str) -> None:
    told = problem(keyed.client.get("/stac", headers={**key, "Host": host}), 403, "request.host")
    assert "ANABRANCH_ALLOWED_HOSTS" in told["remedy"]
    assert keyed.client.get("/readyz", headers={"Host": host}).status_code == 200  # a prober knows no name


@pytest.mark.parametrize("host", ["api.example.org", "API.example.org:8443", "127.0.0.1:9", "localhost"])
def test_ts6_allowed_hosts_are_in_links(keyed: Served, key: dict[str, str], host: str) -> None:
    told = keyed.client.get("/stac", headers={**key, "Host": host}).json()
    assert {urlsplit(link).netloc.lower() for link in links_of(told)} == {host.lower()}


@pytest.mark.parametrize(
    "headers",
    [
        {"X-Forwarded-Host": "maps.example.com", "X-Forwarded-Proto": "https", "X-Forwarded-Prefix": "/geo/"},
        {"X-Forwarded-Host": "lie.net, maps.example.com", "X-Forwarded-Proto": "https", "X-Forwarded-Prefix": "/geo"},
        {
            "X-Forwarded-Host": "maps.example.com",
            "X-Forwarded-Proto": "https",
            "X-Forwarded-Prefix": "/geo",
            "Forwarded": "host=lie.net;proto=http",  # of the caller: proxies that set the others pass it on
        },
    ],
)
def test_ts6_forwarded_headers_of_a_trusted_proxy_are_believed(
    keyed: Served, key: dict[str, str], headers: Mapping[str, str]
) -> None:
    told = keyed.client.get("/stac", headers={**key, **headers}).json()
    assert [link for link in links_of(told) if not link.startswith("https://maps.example.com/geo/")] == []


@pytest.mark.parametrize("host", ["bad host", "evil.net/path", "a" * 5000, "<script>", "evil.net\\x"])
def test_ts6_nonsense_of_a_trusted_proxy_is_ignored(keyed: Served, key: dict[str, str], host: str) -> None:
    headers = {"X-Forwarded-Host": host, "X-Forwarded-Prefix": "/../x", "X-Forwarded-Proto": "gopher"}
    told = keyed.client.get("/stac", headers={**key, **headers}).json()
    assert {urlsplit(link)[:2] for link in links_of(told)} == {("http", f"127.0.0.1:{keyed.client.base_url.port}")}


# ---- other origins (TN4)


@pytest.mark.parametrize("path", ["/stac", ITEM, FILE, TILE])
def test_tn4_a_page_of_an_allowed_origin_reads_with_its_key(public: Served, key: dict[str, str], path: str) -> None:
    asked = {
        "Origin": MAP,
        "Access-Control-Request-Method": "GET",
        "Access-Control-Request-Headers": "authorization, range",
    }
    first = public.client.options(path, headers=asked)
    assert first.status_code == 200
    assert first.headers["Access-Control-Allow-Origin"] == MAP
    assert {"authorization", "range"} <= {
        name.strip().lower() for name in first.headers["Access-Control-Allow-Headers"].split(",")
    }
    answer = public.client.get(path, headers={**key, "Origin": MAP, "Range": "bytes=0-9"})
    assert answer.is_success
    assert answer.headers["Access-Control-Allow-Origin"] == MAP
    assert "Origin" in answer.headers["Vary"]
    assert {"ETag", "Content-Range"} <= {
        name.strip() for name in answer.headers["Access-Control-Expose-Headers"].split(",")
    }
    assert "Access-Control-Allow-Credentials" not in answer.headers


def test_tn4_a_page_of_an_allowed_origin_searches(public: Served, key: dict[str, str]) -> None:
    asked = {"Origin": MAP, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "content-type"}
    assert public.client.options("/stac/search", headers=asked).is_success
    found = public.client.post("/stac/search", json={"limit": 1}, headers={**key, "Origin": MAP})
    assert found.headers["Access-Control-Allow-Origin"] == MAP
    assert len(found.json()["features"]) == 1


def test_tn4_a_page_may_read_why_it_was_refused(public: Served) -> None:
    answer = public.client.get("/stac", headers={"Origin": MAP})
    problem(answer, 401, "auth.missing")
    assert answer.headers["Access-Control-Allow-Origin"] == MAP


@pytest.mark.parametrize(("method", "path"), [("POST", "/api/jobs"), ("GET", "/api/jobs"), ("POST", "/api/uploads")])
def test_tn4_nothing_else_is_for_other_origins(public: Served, local: Served, method: str, path: str) -> None:
    asked = {"Origin": MAP, "Access-Control-Request-Method": method}
    assert "Access-Control-Allow-Origin" not in public.client.options(path, headers=asked).headers
    problem(local.client.request(method, path, headers={"Origin": MAP}), 403, "request.origin")


def test_tn4_other_origins_than_those_allowed_read_nothing(public: Served, key: dict[str, str]) -> None:
    asked = {"Origin": "https://evil.example.net", "Access-Control-Request-Method": "GET"}
    assert public.client.options("/stac", headers=asked).status_code == 400
    answer = public.client.get("/stac", headers={**key, "Origin": "https://evil.example.net"})
    assert "Access-Control-Allow-Origin" not in answer.headers


def test_tn4_every_origin_reads_where_all_are_allowed(local: Served) -> None:
    for path in ("/stac", ITEM, FILE):
        answer = local.client.get(path, headers={"Origin": "https://any.example.net"})
        assert answer.is_success, answer.text[:300]
        assert answer.headers["Access-Control-Allow-Origin"] == "*"


def test_without_the_setting_other_origins_are_refused_on_loopback(url: str, home: Path) -> None:
    with serve_api(url, home) as api:
        problem(api.client.get("/stac", headers={"Origin": MAP}), 403, "request.origin")
        assert "Access-Control-Allow-Origin" not in api.client.get("/stac").headers


# ---- compression, and the meaning of codes


def raw(api: Served, path: str, **headers: str) -> tuple[http.client.HTTPResponse, bytes]:
    with closing(
        http.client.HTTPConnection("127.0.0.1", int(api.client.base_url.port or 0), timeout=PATIENCE_SECONDS)
    ) as connection:
        connection.request("GET", path, headers=headers)
        with closing(connection.getresponse()) as answer:
            return answer, answer.read()


@pytest.mark.parametrize("path", ["/stac/search", "/openapi.json", "/ui/pages.css", "/errors"])
def test_text_is_compressed_for_those_who_can_read_it(local: Served, path: str) -> None:
    plain, body = raw(local, path, **{"Accept-Encoding": "identity"})
    small, packed = raw(local, path, **{"Accept-Encoding": "br, gzip;q=0.5"})
    assert plain.getheader("Content-Encoding") is None
    assert small.getheader("Content-Encoding") == "gzip"
    assert "Accept-Encoding" in str(small.getheader("Vary"))
    assert gzip.decompress(packed) == body
    assert len(packed) < len(body) / 2
    if tag := small.getheader("ETag"):
        assert tag == f"W/{plain.getheader('ETag')}"
        assert raw(local, path, **{"Accept-Encoding": "gzip", "If-None-Match": tag})[0].status == 304


@pytest.mark.parametrize("path", [TILE, FILE])
def test_tiles_and_files_are_sent_as_they_are(local: Served, path: str) -> None:
    answer, _ = raw(local, path, **{"Accept-Encoding": "gzip"})
    assert answer.status == 200
    assert answer.getheader("Content-Encoding") is None
    ranged, part = raw(local, FILE, **{"Accept-Encoding": "gzip", "Range": "bytes=0-4999"})
    assert (ranged.status, len(part), ranged.getheader("Content-Encoding")) == (206, 5000, None)


@pytest.mark.parametrize("accepted", ["gzip;q=0, identity", "gzip;q=0, *", "*;q=0.5, gzip; q=0.0", "identity"])
def test_a_client_that_refuses_gzip_gets_none(local: Served, accepted: str) -> None:
    answer, body = raw(local, "/errors", **{"Accept-Encoding": accepted})
    assert answer.getheader("Content-Encoding") is None
    assert json.loads(body)


def test_codes_are_explained_without_a_key(public: Served) -> None:
    assert len(public.client.get("/errors").json()) > 100
    assert public.client.get("/errors/request.rate").json()["status"] == 429
    problem(public.client.get("/errors/no.such"), 404, "error.not_found")
