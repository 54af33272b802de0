"""Only what is published is served: the STAC API, tiles and files (P6, S1, S4)."""

import hashlib
import io
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import cql2
import httpx
import imagecodecs
import numpy as np
import psycopg
import pystac_client
import pytest
from psycopg import Connection, sql
from psycopg.rows import TupleRow

from anabranch.adapters.objects.bucket import Bucket
from anabranch.adapters.postgres.connect import Role, connect
from anabranch.api.openapi.document import load_document
from anabranch.app import CATALOG_CONNECTIONS
from anabranch.client import Client
from anabranch.embedded.cluster import Cluster
from anabranch.plugins.stac.catalog import By, Publication, act, publish
from anabranch.plugins.stac.ingest.check import Rules, check_item
from anabranch.testing.postgres import Databases
from tests.support.objects import Cloud
from tests.support.serving import (
    JOB,
    Raster,
    Served,
    add_item,
    file_of,
    make_key,
    serve_api,
    write_crossing,
    write_raster,
    write_rasters,
)
from tests.support.stac_items import make_item

pytestmark = pytest.mark.postgres

ITEMS = "/raster/collections/scenes/items"
FILE = file_of("hills")
PLAIN = {"Accept-Encoding": "identity"}
VRT = """<VRTDataset rasterXSize="20" rasterYSize="20"><VRTRasterBand dataType="Byte" band="1"><SimpleSource>
<SourceFilename relativeToVRT="0">{secret}</SourceFilename><SourceBand>1</SourceBand>
</SimpleSource></VRTRasterBand></VRTDataset>"""

PAM = '<PAMDataset><PAMRasterBand band="1"><Description>leaked</Description></PAMRasterBand></PAMDataset>'
USED_BEFORE = """
import rasterio
with rasterio.Env() as env:
    env.drivers()
from anabranch.serving.tiles.drivers import check_drivers, close_drivers
close_drivers()
check_drivers()
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("serving") / "home"


@pytest.fixture(scope="module")
def rasters(home: Path) -> list[Raster]:
    return write_rasters(home / "silver")


@pytest.fixture(scope="module")
def url(postgres: Cluster, postgres_admin: Connection[TupleRow], catalog_template: str, rasters: list[Raster]) -> str:
    """One catalog for all tests: they only read, or publish under names of their own."""
    made = Databases(postgres, postgres_admin).make(catalog_template)
    for hour, raster in enumerate(rasters):
        add_item(made, raster, created=f"2026-11-15T1{hour}:00:00Z")
    draft = rasters[0].path.with_name("draft.tif")
    draft.write_bytes(rasters[0].path.read_bytes())
    add_item(made, replace(rasters[0], name="draft", path=draft), published=False)
    return made


@pytest.fixture(scope="module")
def served(url: str, home: Path) -> Iterator[Served]:
    with serve_api(url, home) as api:
        yield api


@pytest.fixture
def api(served: Served) -> httpx.Client:
    return served.client


def problem(answer: httpx.Response, status: int, code: str) -> dict[str, Any]:  # a problem document
    assert answer.status_code == status, answer.text[:2000]
    assert answer.headers["content-type"] == "application/problem+json"
    body: dict[str, Any] = answer.json()
    assert body["code"] == code, body
    return body


def add(url: str, raster: Raster, name: str, content: bytes) -> Path:
    """Publish these bytes as an item of this name, in the place of a raster."""
    path = raster.path.with_name(f"{name}.tif")
    path.write_bytes(content)
    add_item(url, replace(raster, name=name, path=path))
    return path


def maps(served: Served) -> str:
    return Path(f"/proc/{served.pid}/maps").read_text()


# ---- the catalog


def test_a_client_walks_the_catalog_by_its_links(served: Served) -> None:
    catalog = pystac_client.Client.open(f"{served.url}/stac")
    assert catalog.title == "Anabranch catalog"
    assert [collection.id for collection in catalog.get_collections()] == ["scenes"]
    found = {item.id: item for item in catalog.search(collections=["scenes"], limit=1).items()}
    assert {"hills", "photo", "classes"} <= found.keys()
    assert found["hills"].get_self_href() == f"{served.url}/stac/collections/scenes/items/hills"
    assert found["hills"].assets["data"].href == served.url + FILE
    for link in catalog.links:
        assert str(link.href).startswith(served.url), link


@pytest.mark.parametrize(
    "path",
    ["/stac/collections/scenes/items/hills", "/stac/collections", f"{ITEMS}/hills/WebMercatorQuad/tilejson.json"],
)
def test_documents_that_the_caller_has_are_not_sent_again(api: httpx.Client, path: str) -> None:
    first = api.get(path, headers=PLAIN)
    assert first.status_code == 200
    again = api.get(path, headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", first.headers["etag"])
    assert api.get(path, headers={"If-None-Match": '"other"'}).json() == first.json()
    assert api.head(path).status_code == 200


def test_tn15_our_client_reads_items_and_names_their_tiles(served: Served, api: httpx.Client) -> None:
    with Client(served.url) as client:
        found = {item.id: item for item in client.items("scenes", bbox=[-180, -90, 180, 90])}
        hills = client.item("scenes", "hills")
        assert (found["hills"].assets, list(client.items("none"))) == (hills.assets, [])
        assert hills.find_link("self") == f"{served.url}/stac/collections/scenes/items/hills"
        assert served.url + FILE in hills._repr_html_()
        tilejson = api.get(str(hills.find_link("tilejson"))).json()
        assert tilejson["tiles"][0].partition("?")[0].startswith(client.tile_url(hills).partition("{z}")[0])


def test_every_link_can_be_followed_under_the_name_that_was_asked(served: Served, api: httpx.Client) -> None:
    host = f"localhost:{api.base_url.port}"
    seen, left = set[str](), [f"http://{host}/stac"]
    while left:
        at = left.pop()
        seen.add(at)
        assert at.startswith(f"http://{host}/"), at
        answer = api.get(at.replace(host, f"127.0.0.1:{api.base_url.port}"), headers={"Host": host})
        assert answer.is_success, (at, answer.text)
        if answer.headers["content-type"].startswith("text/html"):
            continue
        listed = [link["href"] for link in answer.json().get("links", []) if link.get("method", "GET") == "GET"]
        left += [link for link in set(listed) if link not in seen | set(left) and "conformance" not in link]
    assert len(seen) > 5


def test_items_are_found_by_filter_fields_order_and_page(api: httpx.Client) -> None:
    search = {"collections": ["scenes"], "limit": 1, "sortby": [{"field": "properties.created", "direction": "desc"}]}
    named = {"op": "in", "args": [{"property": "id"}, ["hills", "photo"]]}
    first = api.post("/stac/search", json={**search, "filter-lang": "cql2-json", "filter": named}).json()
    (link,) = [link for link in first["links"] if link["rel"] == "next"]
    second = api.post(link["href"], json=link["body"]).json()
    assert [item["id"] for page in (first, second) for item in page["features"]] == ["photo", "hills"]
    few = api.get("/stac/search", params={"ids": "hills", "fields": "id,properties.created"}).json()
    assert "assets" not in few["features"][0]
    assert api.get("/stac/search", params={"filter": "id='hills'"}).json()["numberReturned"] == 1


def test_a_filter_may_name_a_box(api: httpx.Client) -> None:
    west, south, east, north = api.get("/stac/collections/scenes/items/hills").json()["bbox"]
    there, elsewhere = [west, south, east, north], [east + 1, south, east + 2, north]
    around = [east + 1, south, west - 1, north]  # across 180 degrees
    for box, expected in ((there, {"hills"}), (elsewhere, set()), (around, set())):
        text = f"S_INTERSECTS(geometry, BBOX({','.join(map(str, box))})) and id = 'hills'"
        parts = [{"op": "s_intersects", "args": [{"property": "geometry"}, {"bbox": box}]}]
        parts += [{"op": "=", "args": [{"property": "id"}, "hills"]}]
        answers = [
            api.get("/stac/search", params={"filter": text}),
            api.post("/stac/search", json={"filter-lang": "cql2-json", "filter": {"op": "and", "args": parts}}),
        ]
        assert [{item["id"] for item in answer.json()["features"]} for answer in answers] == [expected] * 2
    problem(api.get("/stac/search", params={"filter": "S_INTERSECTS(geometry, BBOX(1,9,2,8))"}), 400, "catalog.query")


def test_c1_an_item_of_an_interval_says_that_it_has_no_moment(
    api: httpx.Client, url: str, rasters: list[Raster]
) -> None:
    span = {"datetime": None, "start_datetime": "2025-01-01T00:00:00Z", "end_datetime": "2025-12-31T23:59:59Z"}
    path = rasters[0].path.with_name("spanned.tif")
    path.write_bytes(rasters[0].path.read_bytes())
    add_item(url, replace(rasters[0], name="spanned", path=path, properties=span))
    one = api.get("/stac/collections/scenes/items/spanned").json()
    (found,) = api.get("/stac/search", params={"ids": "spanned"}).json()["features"]
    assert [item["properties"].get("datetime", "missing") for item in (one, found)] == [None, None]


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        ("T_INTERSECTS(datetime, INTERVAL('2021-06-01', '2021-07-01'))", {"span"}),
        ("T_INTERSECTS(datetime, DATE('2021-12-31'))", {"span"}),
        ("T_INTERSECTS(INTERVAL('2021-12-01', '..'), datetime)", {"span", "hills"}),
        ("T_DISJOINT(datetime, INTERVAL('2021-06-01', '2021-07-01'))", {"hills"}),
        ("T_CONTAINS(datetime, INTERVAL('2021-06-01', '2021-07-01'))", {"span"}),
        ("T_DURING(datetime, INTERVAL('2020-12-31', '2022-01-01'))", {"span"}),
        ("T_DURING(datetime, INTERVAL('2020-12-31', '2021-07-01'))", set()),
        ("T_DURING(INTERVAL(start_datetime, end_datetime), INTERVAL('2020-12-31', '2022-01-01'))", {"span"}),
        ("T_BEFORE(datetime, TIMESTAMP('2021-06-01T00:00:00Z'))", set()),
        ("T_BEFORE(datetime, TIMESTAMP('2022-01-01T00:00:00Z'))", {"span"}),
        ("T_AFTER(datetime, TIMESTAMP('2021-06-01T00:00:00Z'))", {"hills"}),
        ("T_EQUALS(datetime, TIMESTAMP('2026-06-01T00:00:00Z'))", {"hills"}),
        ("NOT T_AFTER(datetime, DATE('2021-06-01'))", {"span"}),
        ("T_AFTER(created, DATE('2021-06-01'))", {"span", "hills"}),
    ],
)
def test_c1_temporal_operators_see_the_whole_interval_of_an_item(
    api: httpx.Client, url: str, rasters: list[Raster], condition: str, found: set[str]
) -> None:
    span = {"datetime": None, "start_datetime": "2021-01-01T00:00:00Z", "end_datetime": "2021-12-31T23:59:59Z"}
    add_item(url, replace(rasters[0], name="span", properties=span), published=False)
    text = f"{condition} AND id IN ('span', 'hills')"
    given = cql2.parse_text(text).to_json()
    for answer in (
        api.get("/stac/search", params={"filter": text}),
        api.get("/stac/collections/scenes/items", params={"filter": text}),
        api.post("/stac/search", json={"filter-lang": "cql2-json", "filter": given}),
    ):
        assert {item["id"] for item in answer.json()["features"]} == found, answer.text


def test_p6_no_address_shows_and_no_file_that_is_not_published(api: httpx.Client) -> None:
    paths = ["/search", "/collections", "/collections/scenes", "/collections/scenes/items", "/search?fields=assets"]
    for path in ["", *paths, "/collections/scenes/items/draft", "/queryables", "/api"]:
        body = api.get(f"/stac{path}").text
        assert "silver://" not in body, path
        assert "draft.tif" not in body, path
    assert api.get("/stac/collections/scenes/items/draft").json()["assets"] == {}
    problem(api.get(f"{ITEMS}/draft/info"), 404, "item.no_raster")
    problem(api.get(file_of("draft")), 404, "file.not_published")


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("/stac/collections/none", 404, "item.not_found"),
        ("/stac/collections/scenes/items/none", 404, "item.not_found"),
        ("/stac/none", 404, "request.route"),
        ("/stac/_mgmt/health", 404, "request.route"),
        ("/stac/api", 404, "request.route"),
        ("/stac/api.html", 404, "request.route"),
        ("/stac/search?token=none", 400, "catalog.query"),
        ("/stac/search?query=none", 400, "catalog.query"),
        ("/stac/search?intersects=none", 400, "catalog.query"),
        ("/stac/search?limit=-1", 400, "catalog.query"),
        ("/stac/search?datetime=none", 400, "catalog.query"),
        ("/raster", 404, "request.route"),
        ("/raster/none", 404, "request.route"),
        (f"{ITEMS}/none/info", 404, "item.not_found"),
        (f"{ITEMS}/hills/info?asset=none", 404, "item.no_raster"),
        (f"{ITEMS}/hills/map.html", 404, "request.route"),
        (f"{ITEMS}/hills/WebMercatorQuad/map.html", 404, "request.route"),
        (f"{ITEMS}/hills/tiles/WebMercatorQuad/8/1/1.png", 404, "raster.outside"),
        (f"{ITEMS}/hills/tiles/None/8/1/1.png", 422, "request.invalid"),
        (f"{ITEMS}/hills/tiles/WebMercatorQuad/8/-1/1.png", 404, "raster.outside"),
        (f"{ITEMS}/hills/tiles/WebMercatorQuad/x/0/0.png", 422, "request.invalid"),
        (f"{ITEMS}/hills/preview.png?bidx=7", 422, "raster.query"),
        (f"{ITEMS}/hills/preview.png?bidx=1&nodata=abc", 422, "request.invalid"),
        (f"{ITEMS}/hills/preview.png?bidx=1&nodata=", 422, "request.invalid"),
        (f"{ITEMS}/hills/preview.png?bidx={'9' * 5000}", 422, "raster.size"),
        (f"{ITEMS}/hills/preview.png?bidx={'1&bidx=' * 64}1", 422, "raster.size"),
        (f"{ITEMS}/hills/preview.png?colormap=%5B1%5D", 422, "raster.query"),
        (f"{ITEMS}/hills/preview.png?max_size=100000", 422, "raster.size"),
        (f"{ITEMS}/hills/preview.png?max_size=0", 422, "raster.size"),
        (f"{ITEMS}/hills/preview.png?max_size=-1", 422, "raster.size"),
        (f"{ITEMS}/hills/preview.png?width=0", 422, "raster.size"),
        (f"{ITEMS}/hills/preview/9000x9.png", 422, "raster.size"),
        (f"{ITEMS}/hills/preview/0x9.png", 422, "raster.size"),
        (f"{ITEMS}/hills/tiles/WebMercatorQuad/8/134/90.png?tilesize=4096", 422, "raster.size"),
        (f"{ITEMS}/hills/statistics?histogram_bins=100000000", 422, "raster.size"),
        (f"{ITEMS}/hills/statistics?{'&p=2' * 65}", 422, "raster.size"),
        (f"{ITEMS}/hills/statistics?max_size=2048", 422, "raster.size"),
        (f"{ITEMS}/hills/statistics?categorical=true", 422, "raster.size"),
        (f"{ITEMS}/photo/preview.png?color_formula={'gamma+r+2+' * 30}", 422, "raster.size"),
        (f"{ITEMS}/hills/preview.png?colormap={'[' * 8193}", 422, "raster.size"),
        ("/ui/none.js", 404, "request.route"),
        ("/ui/..%2fapp.py", 404, "request.route"),
    ],
)
def test_o6_what_is_refused_is_a_problem_document(api: httpx.Client, path: str, status: int, code: str) -> None:
    problem(api.get(path), status, code)


@pytest.mark.parametrize(
    ("path", "query", "detail", "remedy"),
    [
        (
            f"{ITEMS}/hills/preview.png",
            {"colormap": '{"a": [1, 2, 3]}'},
            "colormap must be an object whose names are whole numbers, the values of pixels, but one name is 'a'",
            "/openapi.json",
        ),
        (
            f"{ITEMS}/hills/preview.png",
            {"max_size": "0"},
            "max_size must be from 1 to 2048",
            "from 1 to 2048, or leave",
        ),
        (
            "/stac/search",
            {"datetime": "2025-01-01T00:00:00Z/2024-01-01T00:00:00Z"},
            "datetime begins at 2025-01-01T00:00:00Z, after its end at 2024-01-01T00:00:00Z",
            "Write the earlier of the two first.",
        ),
    ],
)
def test_o6_a_wrong_value_is_named_with_what_to_do(
    api: httpx.Client, path: str, query: dict[str, str], detail: str, remedy: str
) -> None:
    answer = api.get(path, params=query).json()
    assert answer["detail"] == detail
    assert remedy in answer["remedy"]


@pytest.mark.parametrize("moment", ["2024-01-01T00:00:00Z", "2024-01-01T00:00:00Z/..", "../2024-01-01T00:00:00+01:00"])
def test_a_moment_and_an_interval_with_an_open_end_are_searched(api: httpx.Client, moment: str) -> None:
    assert api.get("/stac/search", params={"datetime": moment}).status_code == 200


def test_o6_bodies_are_checked_and_bounded(api: httpx.Client) -> None:
    kind = {"Content-Type": "application/json"}
    problem(api.post("/stac/search", content=b"{", headers=kind), 422, "request.json")
    problem(api.post("/stac/search", content=b" " * 1_000_001, headers=kind), 413, "request.too_large")
    problem(api.post("/stac/collections", json={}), 405, "request.method")


# ---- rasters


def test_an_item_is_drawn_by_its_tilejson(served: Served, api: httpx.Client) -> None:
    hints = {"rescale": "480,1000", "colormap_name": "terrain", "tile_format": "png"}
    body = api.get(f"{ITEMS}/hills/WebMercatorQuad/tilejson.json", params=hints).json()
    assert body["bounds"] == pytest.approx([9.0, 47.0, 9.4, 47.3])
    assert body["tiles"][0].startswith(f"{served.url}{ITEMS}/hills/tiles/")
    tile = api.get(body["tiles"][0].format(z=9, x=268, y=179))
    assert tile.headers["content-type"] == "image/png"
    assert tile.content.startswith(b"\x89PNG")
    assert len(tile.content) > 5_000


def drawn(api: httpx.Client, path: str) -> Any:  # an array of numpy's
    answer = api.get(f"{ITEMS}/{path}")
    assert answer.headers["content-type"] == "image/png", answer.text
    pixels = np.atleast_3d(imagecodecs.png_decode(answer.content))
    opaque = np.full((*pixels.shape[:2], 1), 255, "uint8")  # which a file does not say
    return pixels if pixels.shape[2] in (2, 4) else np.concatenate([pixels, opaque], axis=2)


def test_an_item_is_drawn_as_its_hints_say(api: httpx.Client) -> None:
    said = "rescale=480,1000&colormap_name=terrain&bidx=1"
    for path in ("preview.png", "preview/64x64.png", "tiles/WebMercatorQuad/9/268/179.png"):
        plain = drawn(api, f"hills/{path}")
        assert np.array_equal(plain, drawn(api, f"hills/{path}?{said}")), path
        assert np.array_equal(plain, drawn(api, f"hills/{path}?asset=data")), path
        assert len(np.unique(plain[..., :3])) > 20, path
        assert plain[..., 3].any(), path
    assert not np.array_equal(drawn(api, "hills/preview.png"), drawn(api, "hills/preview.png?rescale=0,9000"))


def test_hints_change_no_values(api: httpx.Client) -> None:
    values = np.load(io.BytesIO(api.get(f"{ITEMS}/hills/preview.npy").content))
    assert values.dtype == np.float32
    assert values[0].max() > 700
    template = api.get(f"{ITEMS}/hills/WebMercatorQuad/tilejson.json?tile_format=npy").json()["tiles"][0]
    assert ".npy?" in template
    assert np.load(io.BytesIO(api.get(template.format(z=9, x=268, y=179)).content)).dtype == np.float32


def test_the_tiles_of_a_tilejson_are_drawn_as_hinted(api: httpx.Client) -> None:
    template = api.get(f"{ITEMS}/hills/WebMercatorQuad/tilejson.json?tilesize=256").json()["tiles"][0]
    assert "{y}?" in template
    said = "tilesize=256&rescale=480,1000&colormap_name=terrain"
    tile = imagecodecs.png_decode(api.get(template.format(z=9, x=268, y=179)).content)
    assert np.array_equal(tile, drawn(api, f"hills/tiles/WebMercatorQuad/9/268/179.png?{said}"))


def test_tiles_may_be_kept_and_for_good_where_their_address_has_the_checksum(api: httpx.Client) -> None:
    template = api.get(f"{ITEMS}/hills/WebMercatorQuad/tilejson.json").json()["tiles"][0]
    kept = api.get(template.format(z=9, x=268, y=179))
    plain = api.get(f"{ITEMS}/hills/tiles/WebMercatorQuad/9/268/179.png")
    assert kept.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert plain.headers["cache-control"] == "public, max-age=300"
    assert kept.headers["etag"] != plain.headers["etag"]
    again = api.get(str(plain.request.url), headers={"If-None-Match": plain.headers["etag"]})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", plain.headers["etag"])
    other = api.get(f"{plain.request.url}?rescale=0,1", headers={"If-None-Match": plain.headers["etag"]})
    assert other.status_code == 200
    outside = api.get(f"{ITEMS}/hills/tiles/WebMercatorQuad/9/1/1.png", headers={"If-None-Match": "*"})
    assert outside.status_code == 404


def test_an_item_that_is_published_again_has_other_tags_and_checksums(
    api: httpx.Client, url: str, rasters: list[Raster]
) -> None:
    place = f"{ITEMS}/renewed/preview.png"
    add(url, rasters[0], "renewed", rasters[0].path.read_bytes())
    first = api.get(place)
    checked = api.get(f"{ITEMS}/renewed/WebMercatorQuad/tilejson.json").json()["tiles"][0]
    other = rasters[0].path.with_name("renewed-again.tif")
    other.write_bytes(rasters[0].path.read_bytes())
    add_item(url, replace(rasters[0], name="renewed", path=other))
    second = api.get(place, headers={"If-None-Match": first.headers["etag"]})
    assert (second.status_code, second.headers["etag"] == first.headers["etag"]) == (200, False)
    stale = api.get(f"{ITEMS}/renewed/preview.png?{checked.partition('?')[2]}")
    assert "immutable" not in stale.headers["cache-control"]


def test_p6_an_item_that_is_withdrawn_is_not_drawn_any_more(api: httpx.Client, url: str, rasters: list[Raster]) -> None:
    add(url, rasters[0], "withdrawn", rasters[0].path.read_bytes())
    places = [f"{ITEMS}/withdrawn/{part}" for part in ("preview.png", "point/9.2,47.2")]
    assert [api.get(place).status_code for place in places] == [200, 200]
    with connect(url, Role.HANDLER) as handler:
        act(handler, "withdraw", "scenes", "withdrawn", By(actor="ann", reason="blurred"))
    assert [api.get(place).status_code for place in places] == [404, 404]


def test_tiles_for_those_with_keys_are_kept_by_nobody_between(url: str, home: Path) -> None:
    key = make_key(url)
    with serve_api(url, home, auth="keys") as served:
        asked = {"Authorization": f"Bearer {key}"}
        answer = served.client.get(f"{ITEMS}/hills/preview.png", headers=asked)
    assert answer.headers["cache-control"] == "private, max-age=300"


@pytest.mark.parametrize(
    ("kind", "opaque", "media_type"),
    [("uint8", True, "image/jpeg"), ("uint8", False, "image/png"), ("uint16", True, "image/png")],
)
def test_only_an_opaque_picture_is_a_jpeg_where_the_format_is_left_open(
    api: httpx.Client, url: str, rasters: list[Raster], kind: str, opaque: bool, media_type: str
) -> None:
    name, folder = f"open-{kind}-{opaque}", rasters[0].path.parent
    bands = np.stack([np.tile(np.arange(64), (64, 1)) + 60 * band for band in range(3)]).astype(kind)
    bands[:, 0, 0] = 3
    raster = write_raster(folder / f"{name}.tif", bands, (9.0, 47.0, 9.1, 47.1), {}, nodata=None if opaque else 3)
    add_item(url, raster)
    assert api.get(f"{ITEMS}/{name}/preview").headers["content-type"] == media_type
    opaque_png = imagecodecs.png_decode(api.get(f"{ITEMS}/{name}/preview.png").content)
    assert opaque_png.shape[2] == (3 if opaque else 4)
    assert np.load(io.BytesIO(api.get(f"{ITEMS}/{name}/preview.npy").content)).shape[0] == 4  # values and their mask


def test_many_bands_are_drawn_by_their_hints_or_the_first_three(
    api: httpx.Client, url: str, rasters: list[Raster]
) -> None:
    bands = np.stack([np.full((32, 32), 1000 * band, "uint16") for band in range(1, 8)])
    hints = {"bidx": [6, 4, 2], "rescale": [[0, 10000]] * 3}
    bbox, folder = (9.0, 47.0, 9.1, 47.1), rasters[0].path.parent
    hinted = {"renders": {"first": hints}}
    add_item(url, write_raster(folder / "hinted.tif", bands, bbox, hinted))
    add_item(url, write_raster(folder / "unhinted.tif", (bands // 100).astype("uint8"), bbox, {}))
    assert [round(value / 25.5) for value in drawn(api, "hinted/preview.png")[16, 16, :3]] == [6, 4, 2]
    assert list(drawn(api, "unhinted/preview.png")[16, 16, :3]) == [10, 20, 30]
    assert api.get(f"{ITEMS}/unhinted/tiles/WebMercatorQuad/8/134/89").is_success
    assert len(api.get(f"{ITEMS}/hinted/statistics").json()) == 7
    assert len(api.get(f"{ITEMS}/hinted/point/9.05,47.05").json()["values"]) == 7


@pytest.mark.parametrize("count", [2, 4])
def test_bands_that_make_no_image_are_drawn_in_part(
    api: httpx.Client, url: str, rasters: list[Raster], count: int
) -> None:
    bands = np.stack([np.full((32, 32), 10 * band, "uint8") for band in range(1, count + 1)])
    path = rasters[0].path.with_name(f"of{count}.tif")
    add_item(url, write_raster(path, bands, (9.0, 47.0, 9.1, 47.1), {}, photometric="MINISBLACK"))
    shown = 3 if count == 4 else 1
    assert list(drawn(api, f"of{count}/preview.png")[16, 16]) == [*(10, 20, 30)[:shown], 255]


@pytest.mark.parametrize(
    ("name", "hints"),
    [
        ("unknown", {"colormap_name": "none"}),
        ("elsewhere", {"assets": ["other"], "rescale": [[0, 1]]}),
        ("computed", {"expression": "b1*0", "rescale": [[0, 1]]}),
        ("broken", "none"),
        ("out_of_range", {"colormap": {"1": [999, 0, 0]}}),
        ("endless", {"colormap": {str(value): [0, 0, 0, 255] for value in range(1000)}}),
    ],
)
def test_hints_that_cannot_be_followed_are_let_be(
    api: httpx.Client, url: str, rasters: list[Raster], name: str, hints: object
) -> None:
    path = rasters[1].path.with_name(f"{name}.tif")
    path.write_bytes(rasters[1].path.read_bytes())
    add_item(url, replace(rasters[1], name=name, path=path, properties={"renders": {"default": hints}}))
    assert np.array_equal(drawn(api, f"{name}/preview.png"), drawn(api, "photo/preview.png"))


def write_slope(folder: Path, name: str, **profile: Any) -> Raster:
    """Heights from 500 in the west to 1,500 in the east, with one that is wrong and a corner of nothing."""
    values = np.tile(np.linspace(500, 1500, 64, dtype="float32"), (64, 1))
    values[40, 40], values[:16, :16] = 1e6, profile.get("nodata", np.nan)
    return write_raster(folder / f"{name}.tif", values[None], (9.0, 47.0, 9.1, 47.1), {}, **profile)


def test_without_hints_values_are_drawn_between_those_of_an_overview(
    api: httpx.Client, url: str, rasters: list[Raster]
) -> None:
    for name, profile in (("slope", {"nodata": -9999}), ("holed", {})):
        add_item(url, write_slope(rasters[0].path.parent, name, **profile))
    for shown in (drawn(api, path) for path in ("slope/preview.png", "holed/preview.png", "holed/preview.png?bidx=1")):
        grey, alpha = shown[-1, :, 0].astype(int), shown[..., 1]
        assert (grey[0], grey[-1]) == (0, 255)
        assert np.all(np.diff(grey) >= 0)
        assert 115 < grey[32] < 140
        assert not alpha[:16, :16].any()
        assert alpha[16:, 16:].all()
    assert drawn(api, "slope/preview.png?rescale=0,100000")[-1, -1, 0] < 10
    assert drawn(api, "slope/preview.png?colormap_name=viridis")[-1, -1, :2].tolist() == [253, 231]
    assert len(np.unique(drawn(api, "slope/tiles/WebMercatorQuad/8/134/89.png")[..., 0])) > 10


@pytest.mark.parametrize(
    "colormap",
    [
        '{"1":[999,0,0]}', '{"1":[1,2]}', '{"1":"red"}', '{"1":[1.5,0,0]}', '{"1":5}', '[[[0,1],[-1,0,0]]]', "[1]", "7",
    ],
)  # fmt: skip
def test_a_color_that_is_none_is_refused_with_what_one_is(api: httpx.Client, colormap: str) -> None:
    body = problem(api.get(f"{ITEMS}/classes/preview.png", params={"colormap": colormap}), 422, "raster.query")
    assert body["detail"].startswith("colormap must be ")
    assert "#ff0000" in body["detail"]


@pytest.mark.parametrize("words", ["bands", "raster:bands"])
def test_without_hints_values_are_drawn_in_the_range_of_the_items_statistics(
    api: httpx.Client, url: str, rasters: list[Raster], words: str
) -> None:
    slope = write_slope(rasters[0].path.parent, words.replace(":", "-"), nodata=-9999)
    statistics = {"minimum": 500, "maximum": 1_000_000, "mean": 1000, "stddev": 1000}
    add_item(url, slope, asset={words: [{"statistics": statistics}]})
    shown = drawn(api, f"{slope.name}/preview.png")
    assert shown[-1, [0, -1], 0].tolist() == [0, round(255 * 1000 / 2500)]
    assert not shown[:16, :16, 1].any()


def test_a_palette_in_the_hints_is_drawn(api: httpx.Client, url: str, rasters: list[Raster]) -> None:
    path = rasters[2].path.with_name("painted.tif")
    path.write_bytes(rasters[2].path.read_bytes())
    hints = {"colormap": {"0": [1, 2, 3, 255], "1": "#ffffff"}, "resampling": "nearest"}
    add_item(url, replace(rasters[2], name="painted", path=path, properties={"renders": {"default": hints}}))
    assert tuple(drawn(api, "painted/preview.png?max_size=200")[0, 0]) == (1, 2, 3, 255)


@pytest.mark.parametrize("zoom", ["-1", "31", "99999", "9" * 5000])
def test_o6_an_invalid_zoom_is_refused(api: httpx.Client, zoom: str) -> None:
    body = problem(api.get(f"{ITEMS}/hills/tiles/WebMercatorQuad/{zoom}/0/0.png"), 422, "raster.query")
    assert "from 0 to 30" in body["detail"]


def test_values_are_those_of_the_raster(api: httpx.Client) -> None:
    assert api.get(f"{ITEMS}/photo/point/-70.1,-33.5").json()["values"] == [128, 128, 90]
    assert api.get(f"{ITEMS}/hills/info").json()["nodata_value"] == -9999
    assert api.get(f"{ITEMS}/hills/statistics").json()["b1"]["min"] > 400
    edges = api.get(f"{ITEMS}/hills/statistics?histogram_bins=0,600,1200").json()["b1"]["histogram"][1]
    assert edges == [0, 600, 1200]
    counted = api.get(f"{ITEMS}/classes/statistics?categorical=true&c=0&c=9").json()["b1"]["histogram"]
    assert counted[1] == [0, 9]


def test_a_raster_across_180_degrees_is_served_on_both_sides(
    api: httpx.Client, url: str, rasters: list[Raster]
) -> None:
    add_item(url, write_crossing(rasters[0].path.parent))
    body = api.get(f"{ITEMS}/crossing/WebMercatorQuad/tilejson.json").json()
    assert body["bounds"] == [-180, -10, 180, 10]
    assert body["center"] == [-180, 0, body["minzoom"]]
    for x, colors in ((31, [200, 0, 0, 255]), (0, [0, 0, 200, 255])):
        assert drawn(api, f"crossing/tiles/WebMercatorQuad/5/{x}/15.png")[-9, 100].tolist() == colors
    for lon, values in ((179.9, [200, 0, 0]), (180.1, [0, 0, 200]), (-179.9, [0, 0, 200])):
        assert api.get(f"{ITEMS}/crossing/point/{lon},1").json()["values"] == values
    assert api.get(f"{ITEMS}/crossing/info.geojson").json()["geometry"]["type"] == "MultiPolygon"
    assert drawn(api, "crossing/preview.png").shape == (64, 64, 4)


def test_r3_a_palette_is_what_is_drawn(api: httpx.Client) -> None:
    drawn = imagecodecs.png_decode(api.get(f"{ITEMS}/classes/preview.png?max_size=200").content)
    assert tuple(drawn[0, 0]) == (20, 90, 50, 255)


def test_s4_a_file_that_names_another_is_not_read(served: Served, url: str, rasters: list[Raster]) -> None:
    secret = rasters[1].path
    add(url, rasters[0], "vrt", VRT.format(secret=secret).encode())
    problem(served.client.get(f"{ITEMS}/vrt/preview.png"), 500, "asset.unreadable")
    assert "vrt.tif" not in served.client.get(f"{ITEMS}/vrt/preview.png").text


def test_s4_sidecars_are_not_read(served: Served, url: str, rasters: list[Raster]) -> None:
    path = add(url, rasters[1], "beside", rasters[1].path.read_bytes())
    before = served.client.get(f"{ITEMS}/beside/preview.png?max_size=64").content
    for suffix in (".ovr", ".msk"):
        path.with_name(path.name + suffix).write_text(VRT.format(secret=rasters[2].path))
    path.with_name(path.name + ".aux.xml").write_text(PAM)
    assert served.client.get(f"{ITEMS}/beside/preview.png?max_size=64").content == before
    assert "leaked" not in served.client.get(f"{ITEMS}/beside/info").text


def test_s3_no_parameter_makes_the_api_call_anyone(api: httpx.Client) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.2)
        there = f"http://127.0.0.1:{listener.getsockname()[1]}/x"
        for name in ("url", "dst_crs", "coord_crs", "crs", "src_path", "expression", "asset"):
            for path in ("preview.png", "point/9.2,47.1", "info", "info.geojson", "WebMercatorQuad/tilejson.json"):
                api.get(f"{ITEMS}/hills/{path}", params={name: there})
        with pytest.raises(TimeoutError):
            listener.accept()


def test_s2_no_expression_is_evaluated(api: httpx.Client) -> None:
    problem(api.get(f"{ITEMS}/photo/point/-70.1,-33.5", params={"expression": "b1*0"}), 422, "raster.query")


def test_r6_no_tile_is_drawn_with_padding(api: httpx.Client) -> None:
    tile = f"{ITEMS}/hills/tiles/WebMercatorQuad/4/8/5.png?rescale=480,1000"
    problem(api.get(f"{tile}&padding=1", timeout=5), 422, "raster.query")
    assert not {"padding", "buffer"} & load_document()["components"]["parameters"].keys()


def test_r6_a_side_that_follows_the_other_is_bounded(api: httpx.Client, url: str, rasters: list[Raster]) -> None:
    thin = np.zeros((1, 20_000, 2), "uint8")
    add_item(url, write_raster(rasters[0].path.with_name("thin.tif"), thin, (9.0, 47.0, 9.1, 48.0), {}))
    problem(api.get(f"{ITEMS}/thin/preview.npy?width=64"), 422, "raster.size")
    problem(api.get(f"{ITEMS}/thin/statistics?width=64"), 422, "raster.size")
    assert api.get(f"{ITEMS}/thin/preview.npy?width=2").is_success
    assert api.get(f"{ITEMS}/thin/preview.npy?height=64").is_success


def test_r6_bands_count_with_pixels(api: httpx.Client, url: str, rasters: list[Raster]) -> None:
    many = np.zeros((80, 16, 16), "uint8")
    add_item(url, write_raster(rasters[0].path.with_name("many.tif"), many, (9.0, 47.0, 9.1, 47.1), {}))
    tile = f"{ITEMS}/many/tiles/WebMercatorQuad/8/134/89.npy?tilesize=512"
    assert "bidx" in problem(api.get(tile), 422, "raster.size")["remedy"]
    assert api.get(f"{tile}&bidx=80&bidx=1").is_success
    problem(api.get(f"{ITEMS}/many/preview/512x512.npy"), 422, "raster.size")
    assert len(api.get(f"{ITEMS}/many/point/9.05,47.05").json()["values"]) == 80


def test_r6_values_count_by_their_size_and_little_is_kept(
    served: Served, api: httpx.Client, url: str, rasters: list[Raster]
) -> None:
    wide = np.ones((9, 64, 64), "int64")
    add_item(url, write_raster(rasters[0].path.with_name("wide.tif"), wide, (9.0, 47.0, 9.1, 47.1), {}))
    assert "bytes" in problem(api.get(f"{ITEMS}/wide/preview/1000x1000.npy"), 422, "raster.size")["detail"]
    assert api.get(f"{ITEMS}/wide/statistics").json().keys() == {f"b{band}" for band in range(1, 10)}
    assert api.get(f"{ITEMS}/wide/preview/900x900.npy").is_success
    before = resident(served)
    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(lambda _: api.get(f"{ITEMS}/wide/preview/900x900.npy").is_success, range(4)))
    assert resident(served) - before < 40_000_000  # each is of 58 MB


def test_s4_where_gdal_was_used_before_nothing_is_opened() -> None:
    done = subprocess.run([sys.executable, "-c", USED_BEFORE], capture_output=True, text=True, check=False)
    assert "that are not allowed" in done.stderr


# ---- files


def test_a_file_is_served_whole_with_what_is_known_of_it(api: httpx.Client, rasters: list[Raster]) -> None:
    content = rasters[0].path.read_bytes()
    answer, head = api.get(FILE), api.head(FILE)
    assert answer.content == content
    assert head.content == b""
    for headers in (answer.headers, head.headers):
        assert headers["etag"] == f'"{hashlib.sha256(content).hexdigest()}"'
        assert headers["content-length"] == str(len(content))
        assert headers["accept-ranges"] == "bytes"
        assert headers["content-type"].startswith("image/tiff")
        assert headers["content-disposition"].startswith('attachment; filename="hills.tif"')
        assert headers["cache-control"] == "private, max-age=300"


@pytest.mark.parametrize(
    ("kind", "how"),
    [
        ("image/png", "inline"),
        ("image/jpeg", "inline"),
        ("image/webp", "inline"),
        ("application/json", "inline"),
        ("application/geo+json", "attachment"),
        ("image/svg+xml", "attachment"),
        ("text/html", "attachment"),
    ],
)
def test_s1_a_browser_shows_what_cannot_run(
    api: httpx.Client, url: str, rasters: list[Raster], kind: str, how: str
) -> None:
    name = kind.replace("/", "-")
    add(url, rasters[1], name, b"anything")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("update app.published_files set media_type = %s where name = %s", (kind, f"{name}.tif"))
    headers = api.get(file_of(name)).headers
    assert headers["content-type"].startswith(kind)
    assert headers["content-disposition"].startswith(f'{how}; filename="')
    assert headers["content-security-policy"] == "sandbox; default-src 'none'"
    assert headers["x-content-type-options"] == "nosniff"


def test_a_part_of_a_file_is_served_by_range(api: httpx.Client, rasters: list[Raster]) -> None:
    content = rasters[0].path.read_bytes()
    size = len(content)
    part = api.get(FILE, headers={"Range": "bytes=100-299"})
    assert (part.status_code, part.content) == (206, content[100:300])
    assert part.headers["content-range"] == f"bytes 100-299/{size}"
    assert api.get(FILE, headers={"Range": "bytes=-10"}).content == content[-10:]
    assert api.get(FILE, headers={"Range": "bytes=0-1,5-6"}).status_code == 200
    beyond = api.get(FILE, headers={"Range": f"bytes={size}-"})
    problem(beyond, 416, "file.range")
    assert beyond.headers["content-range"] == f"bytes */{size}"


@pytest.mark.parametrize("asked", ["bytes=0-9", "bytes=99999999-"])
def test_a_range_is_not_for_head(api: httpx.Client, rasters: list[Raster], asked: str) -> None:
    head = api.head(FILE, headers={"Range": asked})
    assert (head.status_code, head.headers["content-length"]) == (200, str(rasters[0].path.stat().st_size))
    assert "content-range" not in head.headers


def test_a_caller_who_has_the_file_gets_no_more_of_it(api: httpx.Client) -> None:
    tag = api.head(FILE).headers["etag"]
    assert api.get(FILE, headers={"If-None-Match": f'"other", {tag}'}).status_code == 304
    assert api.get(FILE, headers={"Range": "bytes=0-1", "If-Range": tag}).status_code == 206
    assert api.get(FILE, headers={"Range": "bytes=0-1", "If-Range": '"other"'}).status_code == 200


def test_gdal_opens_a_file_over_http(served: Served, tmp_path: Path) -> None:
    code = "import sys, rasterio\nwith rasterio.open(sys.argv[1]) as f: print(f.width, int(f.read(1)[250, 350]))"
    ours = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
    command = [sys.executable, "-c", code, f"/vsicurl/{served.url}{FILE}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**ours, "NO_PROXY": "*"})
    assert done.stdout.startswith("400 "), done.stderr


def test_r6_large_files_take_no_memory_and_leave_nothing_open(served: Served, url: str, rasters: list[Raster]) -> None:
    path = add(url, rasters[1], "large", b"")
    size = 96_000_000
    with path.open("r+b") as file:
        file.truncate(size)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("update app.published_files set size = %s where name = 'large.tif'", (size,))
    before = resident(served)
    with served.client.stream("GET", file_of("large")) as answer:
        assert sum(map(len, answer.iter_bytes())) == size
    assert resident(served) - before < 30_000_000
    with served.client.stream("GET", file_of("large")) as answer:
        next(answer.iter_bytes())
    for _ in range(200):
        if path not in open_files(served):
            return
        served.client.get("/livez")
    raise AssertionError("the file is still open")


def resident(served: Served) -> int:
    return int(Path(f"/proc/{served.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def open_files(served: Served) -> set[Path]:
    found = set()
    for link in Path(f"/proc/{served.pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # it was closed meanwhile
            found.add(link.readlink())
    return found


def test_a_tier_in_a_cloud_is_served_the_same(
    served: Served, url: str, home: Path, rasters: list[Raster], s3: Cloud, tmp_path: Path
) -> None:
    content = rasters[0].path.read_bytes()
    tier = Bucket("silver", s3.url, s3.options, tmp_path)
    tier.put(f"jobs/{JOB}/cog/hills.tif", content)
    clouds = {"storage__silver": s3.url, "storage__options": json.dumps({"silver": s3.options})}
    tile = f"{ITEMS}/hills/tiles/WebMercatorQuad/9/268/179.png?rescale=480,1000"
    with serve_api(url, home.with_name("cloudy"), **clouds) as cloudy:
        assert cloudy.client.get(FILE, headers={"Range": "bytes=100-299"}).content == content[100:300]
        assert cloudy.client.get(tile).content == served.client.get(tile).content
        for lost in (file_of("photo"), f"{ITEMS}/photo/info"):
            body = problem(cloudy.client.get(lost), 500, "file.lost")
            assert body["detail"] == "a published file is missing from its tier"


def test_a_published_file_that_is_missing_or_truncated_is_reported(
    api: httpx.Client, url: str, rasters: list[Raster]
) -> None:
    path = add(url, rasters[1], "lost", b"all of it")
    path.write_bytes(b"half")
    assert "has 4 bytes" in problem(api.get(file_of("lost")), 500, "file.lost")["detail"]
    path.unlink()
    problem(api.get(file_of("lost")), 500, "file.lost")


# ---- the process and its database


def test_s1_all_data_needs_a_key_where_keys_are_asked_for(url: str, home: Path) -> None:
    layer = "/raster/collections/scenes/WebMercatorQuad/tilejson.json"
    paths = [
        "/stac",
        "/stac/search",
        f"{ITEMS}/hills/info",
        layer,
        "/raster/search/point/9.2,47.1",
        FILE,
        "/openapi.json",
    ]
    with serve_api(url, home.with_name("keyed"), auth="keys", storage__silver=(home / "silver").as_uri()) as keyed:
        for path in paths:
            problem(keyed.client.get(path), 401, "auth.missing")
        # The pages are files of the package: a browser can't send a key for them, and they ask for it.
        for path in ("/data", "/docs", "/ui/pages.js"):
            got, head = (keyed.client.request(how, path, headers=PLAIN) for how in ("GET", "HEAD"))
            assert got.is_success, path
            own = {"date", "x-correlation-id"}
            assert head.content == b""
            assert dict(head.headers).items() - dict(got.headers).items() <= {(k, head.headers[k]) for k in own}
        assert "gdal" not in maps(keyed)  # an anonymous caller makes nothing load
        key = make_key(url)
        for path in ("/stac", FILE, "/openapi.json"):
            answer = keyed.client.get(path, headers={"Authorization": f"Bearer {key}"})
            assert answer.is_success, path
            assert "Authorization" in answer.headers["vary"]


def test_a_database_without_a_catalog_is_reported_and_the_map_packages_are_loaded_late(
    database_url: str, tmp_path: Path
) -> None:
    with serve_api(database_url, tmp_path / "home") as bare:
        assert "gdal" not in maps(bare)
        assert "db migrate" in problem(bare.client.get("/stac/search"), 503, "catalog.missing")["remedy"]
        assert "gdal" not in maps(bare)
        problem(bare.client.get(f"{ITEMS}/hills/info"), 503, "catalog.missing")
        assert "gdal" in maps(bare)


def test_e19_readers_take_no_more_connections_than_are_counted(
    served: Served, url: str, postgres_admin: Connection[TupleRow]
) -> None:
    with ThreadPoolExecutor(12) as pool:
        list(pool.map(lambda _: served.client.get("/stac/search?limit=1"), range(60)))
    assert 1 <= count(url, postgres_admin) <= CATALOG_CONNECTIONS


def test_a_database_that_goes_and_comes_back_is_found_again(
    served: Served, url: str, postgres_admin: Connection[TupleRow]
) -> None:
    assert served.client.get("/stac/search").is_success
    name = sql.Identifier(name_of(url))
    postgres_admin.execute(sql.SQL("alter database {} allow_connections false").format(name))
    try:
        end(url, postgres_admin)
        problem(served.client.get("/stac/search"), 503, "database.unreachable")
    finally:
        postgres_admin.execute(sql.SQL("alter database {} allow_connections true").format(name))
    assert served.client.get("/stac/search").is_success
    end(url, postgres_admin)
    assert served.client.get("/stac/search").status_code in (200, 503)
    assert served.client.get("/stac/search").is_success


def name_of(url: str) -> str:
    return str(psycopg.conninfo.conninfo_to_dict(url)["dbname"])


def count(url: str, admin: Connection[TupleRow]) -> int:
    counted = "select count(*) from pg_stat_activity where datname = %s and application_name = 'anabranch api catalog'"
    row = admin.execute(counted, (name_of(url),)).fetchone()
    return int(row[0]) if row else 0


def end(url: str, admin: Connection[TupleRow]) -> None:
    ended = "select pg_terminate_backend(pid, 2000) from pg_stat_activity where datname = %s"
    admin.execute(f"{ended} and application_name = 'anabranch api catalog'", (name_of(url),))


def test_the_page_is_whole_and_asks_nobody_else(api: httpx.Client) -> None:
    page = api.get("/data")
    policy = page.headers["content-security-policy"]
    assert "unsafe" not in policy
    assert "http" not in policy
    for part in (
        *("pages.js", "pages.css", "key.js", "calls.js", "live.js", "vendor/htmx.min.js", "icon.svg"),
        *(
            f"map/{name}"
            for name in ("page.js", "map.css", "view.js", "catalog.js", "facts.js", "layers/drawing.js", "land.geojson")
        ),
    ):
        answer = api.get(f"/ui/{part}")
        assert answer.is_success, part
        assert "https://" not in answer.text, part
        assert api.get(f"/ui/{part}", headers={"If-None-Match": answer.headers["etag"]}).status_code == 304
    assert "<script>" not in page.text
    assert "style=" not in page.text


def test_s3_an_asset_elsewhere_is_shown_as_it_is_and_never_opened(api: httpx.Client, url: str) -> None:
    """Items that were ingested name files of others."""
    elsewhere = check_item(make_item("elsewhere"), Rules())
    with connect(url, Role.HANDLER) as connection:
        publish(connection, "scenes", "e" * 64, [Publication(elsewhere, is_valid=True)])
    shown = api.get("/stac/collections/scenes/items/elsewhere").json()
    assert shown["assets"]["red"]["href"] == "https://example.com/elsewhere.tif"
    assert "license" in {link["rel"] for link in shown["links"]}
    for path in (
        "info?asset=red",
        "WebMercatorQuad/tilejson.json?asset=red",
        "tiles/WebMercatorQuad/8/133/86?asset=red",
    ):
        refused = problem(api.get(f"{ITEMS}/elsewhere/{path}"), 404, "item.no_raster")
        assert "red" in refused["detail"]
