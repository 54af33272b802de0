"""OGC API Features and vector tiles of published layers, in a process of its own (S2, S7, V3)."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx
import pyogrio
import pytest
from morecantile import tms
from owslib.ogcapi.features import Features
from psycopg import Connection
from psycopg.rows import TupleRow

from anabranch.embedded.cluster import Cluster
from anabranch.testing.postgres import Databases
from tests.support.layers import add_layer, withdraw_layer
from tests.support.serving import Served, make_key, serve_api

pytestmark = pytest.mark.postgres

ROOT = "/features"
CITIES, FIELDS = f"{ROOT}/collections/cities", f"{ROOT}/collections/fields"
CITY_COLUMNS = {
    "name": "text", "people": "bigint", "share": "numeric(6,3)",
    "height": "double precision", "founded": "date", "seen": "timestamp with time zone", "capital": "boolean",
    "facts": "jsonb", "weight": "real", "user": "text", "Süd \"x\"": "integer", "raw": "bytea", "waited": "interval",
}  # fmt: skip
CITY_ROWS = """
select n::bigint as gid, ST_SetSRID(ST_Point(n - 100, (n % 50) - 25), 4326)::geometry(Point, 4326) as geom,
       'City ' || n as name, 9007199254740992 + n as people, (n / 1000.0)::numeric(6, 3) as share,
       n * 1.5::double precision as height, date '2026-01-01' + n as founded,
       timestamptz '2026-01-01T12:00:00Z' + n * interval '1 day' as seen, n % 2 = 0 as capital,
       jsonb_build_object('n', n) as facts, (n / 10.0)::real as weight,
       'u' || n as "user", n as "Süd \"\"x\"\"", decode('ff', 'hex') as raw,
       n * interval '1 hour' as waited
  from generate_series(1, 250) as n
"""
POINT = "ST_SetSRID(ST_Point(1, 2), 4326)"
FIELD_ROWS = """
select n::bigint as gid, ST_Multi(ST_MakeEnvelope(170 + n, -10, 170.9 + n, 10, 4326)) as geom, n as number,
       repeat('x', 5000) as notes
  from generate_series(1, 9) as n
 union all
select 10, ST_Multi(ST_MakeEnvelope(-180, -90, -179, -60, 4326)), 10, ''
 union all
select 11, null, 11, null
"""


@pytest.fixture(scope="module")
def url(postgres: Cluster, postgres_admin: Connection[TupleRow], catalog_template: str) -> str:
    url = Databases(postgres, postgres_admin).make(catalog_template)
    add_layer(url, "cities", CITY_ROWS, CITY_COLUMNS, "Point", (-99, -25, 150, 24))
    add_layer(url, "fields", FIELD_ROWS, {"number": "integer", "notes": "text"}, "MultiPolygon", (171, -90, -179, 10))
    return url


@pytest.fixture(scope="module")
def served(url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serve_api(url, tmp_path_factory.mktemp("features") / "home") as api:
        yield api


@pytest.fixture
def api(served: Served) -> httpx.Client:
    return served.client


def read(api: httpx.Client, path: str, **query: object) -> Any:
    answer = api.get(path, params={name.replace("_", "-"): str(value) for name, value in query.items()})
    assert answer.status_code == 200, answer.text[:2000]
    return answer.json()


def ids(api: httpx.Client, path: str = CITIES, **query: object) -> list[int]:
    return [feature["id"] for feature in read(api, f"{path}/items", **{"limit": 1000, **query})["features"]]


def problem(answer: httpx.Response, status: int, code: str) -> dict[str, Any]:  # a problem document
    assert (answer.status_code, answer.json()["code"]) == (status, code), answer.text[:2000]
    body: dict[str, Any] = answer.json()
    return body


def link(document: Any, rel: str) -> str | None:
    return next((each["href"] for each in document["links"] if each["rel"] == rel), None)


def test_the_landing_page_leads_to_everything(api: httpx.Client) -> None:
    page = read(api, ROOT)
    for rel in ("self", "conformance", "data", "service-desc"):
        assert httpx.get(str(link(page, rel))).status_code == 200, rel
    assert str(api.base_url).rstrip("/") + ROOT == link(page, "self")
    layers = read(api, f"{ROOT}/collections")
    assert [(layer["id"], layer["title"]) for layer in layers["collections"]] == [
        ("cities", "Cities"),
        ("fields", "Fields"),
    ]
    for each in layers["collections"][0]["links"]:
        assert httpx.get(each["href"]).status_code == 200, each
    assert not [each for each in read(api, f"{ROOT}/conformance")["conformsTo"] if each.endswith("html")]


def test_a_feature_has_the_values_of_its_row(api: httpx.Client) -> None:
    answer = api.get(f"{CITIES}/items/7")
    assert answer.headers["Content-Type"] == "application/geo+json"
    assert '"people":9007199254740999' in answer.text.replace(" ", "")
    feature = answer.json()
    assert feature["geometry"] == {"type": "Point", "coordinates": [-93, -18]}
    assert (feature["type"], feature["id"]) == ("Feature", 7)
    assert feature["properties"] == {
        "name": "City 7", "people": 9007199254740999, "share": 0.007, "height": 10.5, "founded": "2026-01-08",
        "seen": "2026-01-08T12:00:00+00:00", "capital": False, "facts": {"n": 7}, "weight": 0.7,
        "user": "u7", 'Süd "x"': 7, "raw": "\\xff", "waited": "07:00:00",
    }  # fmt: skip
    assert read(api, f"{FIELDS}/items/11")["geometry"] is None


def test_pages_follow_each_other_to_the_end(api: httpx.Client) -> None:
    page = read(api, f"{CITIES}/items")
    assert (page["numberMatched"], page["numberReturned"]) == (250, 100)
    seen = [feature["id"] for feature in page["features"]]
    while following := link(page, "next"):
        page = httpx.get(following).json()
        seen += [feature["id"] for feature in page["features"]]
    assert seen == list(range(1, 251))


def test_pages_of_a_sorted_search_follow_each_other(api: httpx.Client) -> None:
    page = read(api, f"{CITIES}/items", sortby="capital,-people", limit=100, bbox="-180,-90,180,90")
    seen = [feature["id"] for feature in page["features"]]
    while following := link(page, "next"):
        page = httpx.get(following).json()
        seen += [feature["id"] for feature in page["features"]]
    assert seen == [*range(249, 0, -2), *range(250, 0, -2)]
    assert page["numberMatched"] == 250


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"bbox": "-99.5,-90,-96.5,90"}, [1, 2, 3]),
        ({"bbox": "-99.5,-90,0,-96.5,90,100"}, [1, 2, 3]),
        ({"bbox": "149.5,-90,-98.5,90"}, [1, 250]),
        ({"ids": "5,3,999"}, [3, 5]),
        ({"name": "City 9"}, [9]),
        ({'Süd "x"': "12"}, [12]),
        ({"datetime": "2026-01-03T12:00:00Z"}, [2]),
        ({"datetime": "../2026-01-03T12:00:00Z", "datetime-column": "seen"}, [1, 2]),
        ({"datetime": "2026-01-03", "datetime-column": "seen"}, [2]),
        ({"datetime": "2026-01-03/2026-01-04", "datetime-column": "founded"}, [2, 3]),
        ({"datetime": "../2026-01-03", "datetime-column": "seen"}, [1, 2]),
        ({"weight": "0.1"}, [1]),
        ({"datetime": "2026-09-06T00:00:00Z/..", "datetime-column": "founded"}, [248, 249, 250]),
        ({"offset": 248}, [249, 250]),
        ({"limit": 2, "properties": "name"}, [1, 2]),
        ({"limit": 10**20, "ids": 1}, [1]),
    ],
)
def test_parameters_choose_features(api: httpx.Client, query: dict[str, object], expected: list[int]) -> None:
    found = api.get(f"{CITIES}/items?{urlencode({'limit': 500, **query})}")
    assert [feature["id"] for feature in found.json()["features"]] == expected, found.text[:500]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("name = 'City 9'", [9]),
        ("people = 9007199254740992", []),
        ("gid = 7 and not (capital or height > 100)", [7]),
        ("gid < 4 and (capital = true or gid = 1)", [1, 2]),
        ("gid in (1, 2, 3) and gid between 2 and 9", [2, 3]),
        ("casei(name) like casei('CITY 24_') and name <> 'City 240'", [*range(241, 250)]),
        ("\"user\" = 'u5'", [5]),
        ('"Süd ""x""" = 5', [5]),
        ("founded <= DATE('2026-01-03')", [1, 2]),
        ("t_after(seen, TIMESTAMP('2026-09-07T00:00:00Z'))", [249, 250]),
        ("t_during(seen, INTERVAL('..','2026-01-04T00:00:00Z'))", [1, 2]),
        ("share is null", []),
        ("weight = 0.1", [1]),
        ("0.3 = weight or weight in (0.1, 0.7)", [1, 3, 7]),
        ("weight between 0.1 and 0.3 and weight < 1e300", [1, 2, 3]),
        ("weight > 24.9 and weight <> 1e-300", [250]),
        ("s_intersects(geom, BBOX(-99.5,-90,-97.5,90))", [1, 2]),
        ("s_within(geometry, POLYGON((-99.5 -90, -97.5 -90, -97.5 90, -99.5 90, -99.5 -90)))", [1, 2]),
        ("name = 'x'' or 1=1 --'", []),
    ],
)
def test_filters_choose_features(api: httpx.Client, given: str, expected: list[int]) -> None:
    assert ids(api, filter=given) == expected


def test_a_filter_in_json_keeps_integers_exact(api: httpx.Client) -> None:
    exact = json.dumps({"op": "=", "args": [{"property": "people"}, 9007199254740993]})
    assert ids(api, filter=exact, filter_lang="cql2-json") == [1]


@pytest.mark.parametrize(
    "query",
    [
        {"filter": "pg_sleep(10)"},
        {"filter": "pg_read_file('/etc/passwd') = 'x'"},
        {"filter": "("},
        {"filter": "name"},
        {"filter": "none = 1"},
        {"filter": "name = 1"},
        {"filter": "gid = 'x'"},
        {"filter": "gid + 1 = 2"},
        {"filter": "(" * 3000 + ")" * 3000},
        {"filter": "not " * 900 + "capital"},
        {"filter": "gid in ()"},
        {"filter": "s_intersects(geom, 1)"},
        {"filter": "founded > DATE('2026-02-30')"},
        {"filter": "gid = 1", "filter-lang": "x"},
        {"filter": '{"op":"=","args":[1]}', "filter-lang": "cql2-json"},
        {"filter": "name like 5"},
        {"filter": '{"op":"drop table x","args":[]}', "filter-lang": "cql2-json"},
        {"filter": '"name"" or 1=1" = 1'},
        {"filter": '{"op":"and","args":[]}', "filter-lang": "cql2-json"},
        {"filter": "facts = 'x'"},
        {"filter": "s_intersects(geom, POINT(500 0))"},
        {"filter": "casei(1,2) = 'x'"},
        {"filter": "share = 1e400"},
        {"filter": "name = 'a\0b'"},
        {"name": "a\0b"},
        {"filter": "t_during(seen, 5)"},
        {"filter": "name is null is null"},
        {"bbox": "1,2,3"},
        {"bbox": "nan,0,1,1"},
        {"bbox": "0,50,1,40"},
        {"datetime": "x"},
        {"datetime": "../.."},
        {"datetime": "2026-02-30"},
        {"datetime": "2026-01-02T00:00:00Z/2026-01-01T00:00:00Z"},
        {"datetime": "0001-01-01T00:00:00+14:00"},
        {"datetime": "2026-01-01T00:00:00Z", "datetime-column": "name"},
        {"ids": "x"},
        {"ids": "," * 2000},
        {"ids": 10**30},
        {"sortby": "none"},
        {"sortby": "," * 200},
        {"properties": "none"},
        {"limit": 0},
        {"limit": "x"},
        {"offset": 10**9},
        {"offset": -1},
        {"after": 2**63},
        {"after": 1, "sortby": "name"},
        {"f": "html"},
        {"f": "csv"},
        {"none": "1"},
        {"gid": "x"},
        {"people": "x"},
        {"people": 10**30},
        {"founded": "x"},
        {"crs": "http://x"},
        {"raw": "\\x1"},
    ],
)
def test_s7_what_is_wrong_is_refused_with_a_reason(api: httpx.Client, query: dict[str, object]) -> None:
    body = problem(api.get(f"{CITIES}/items?{urlencode(query)}"), 400, "features.query")
    assert body["detail"]
    assert body["remedy"]
    tile = api.get(f"{CITIES}/tiles/WebMercatorQuad/0/0/0?{urlencode(query)}")
    assert tile.status_code in (200, 400)


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        (f"{ROOT}/none", 404, "request.route"),
        (f"{ROOT}/collections/none", 404, "layer.not_found"),
        (f"{ROOT}/collections/none/items", 404, "layer.not_found"),
        (f"{ROOT}/collections/none/tiles/WebMercatorQuad/0/0/0", 404, "layer.not_found"),
        (f"{ROOT}/collections/%00", 404, "layer.not_found"),
        (f"{ROOT}/collections/cities_rows/items", 404, "layer.not_found"),
        (f"{ROOT}?f=html", 400, "features.query"),
        (f"{CITIES}?none=1", 400, "features.query"),
        (f"{CITIES}/queryables?f=html", 400, "features.query"),
        (f"{CITIES}/tiles?f=html", 400, "features.query"),
        (f"{CITIES}/items/999", 404, "feature.not_found"),
        (f"{CITIES}/items/x", 404, "feature.not_found"),
        (f"{CITIES}/items/{10**30}", 404, "feature.not_found"),
        (f"{CITIES}/tiles/WebMercatorQuad/1/2/0", 404, "features.tile"),
        (f"{CITIES}/tiles/WebMercatorQuad/-1/0/0", 404, "features.tile"),
        (f"{CITIES}/tiles/WebMercatorQuad/{10**9}/0/0", 404, "features.tile"),
        (f"{CITIES}/tiles/WebMercatorQuad/99/0/0", 404, "features.tile"),
        (f"{CITIES}/tiles/WebMercatorQuad/x/0/0", 400, "features.query"),
        (f"{CITIES}/tiles/Other/0/0/0", 400, "features.query"),
        (f"{CITIES}/tiles/WebMercatorQuad/map.html", 404, "request.route"),
        (f"{CITIES}/tiles/WebMercatorQuad/tilejson.json?filter=none%3D1", 400, "features.query"),
    ],
)
def test_what_is_not_there_is_a_problem(api: httpx.Client, path: str, status: int, code: str) -> None:
    problem(api.get(path), status, code)


def test_v3_a_layer_is_served_at_once_and_gone_at_once(api: httpx.Client, url: str) -> None:
    path, rows = (
        f"{ROOT}/collections/passing",
        f"select 1::bigint as gid, {POINT} as geom, 'a' as {{}}",
    )
    problem(api.get(path), 404, "layer.not_found")
    add_layer(url, "passing", rows.format("old"), {"old": "text"}, "Point")
    assert read(api, f"{path}/items")["features"][0]["properties"] == {"old": "a"}
    tile = read(api, f"{path}/tiles/WebMercatorQuad/tilejson.json")["tiles"][0]
    assert "immutable" in httpx.get(tile.format(z=0, x=0, y=0)).headers["Cache-Control"]
    add_layer(url, "passing", rows.format("new"), {"new": "text"}, "Point")
    assert read(api, f"{path}/items")["features"][0]["properties"] == {"new": "a"}
    assert read(api, f"{path}/tiles/WebMercatorQuad/tilejson.json")["tiles"][0] != tile
    other = httpx.get(tile.format(z=0, x=0, y=0))
    assert (other.status_code, other.headers["Cache-Control"]) == (200, "public, max-age=300")
    withdraw_layer(url, "passing")
    problem(httpx.get(tile.format(z=0, x=0, y=0)), 404, "layer.not_found")
    problem(api.get(f"{path}/items"), 404, "layer.not_found")
    assert [layer["id"] for layer in read(api, f"{ROOT}/collections")["collections"]] == ["cities", "fields"]


def test_a_page_ends_before_it_is_too_large(api: httpx.Client, url: str) -> None:
    rows = f"select n::bigint as gid, {POINT} as geom, repeat('x', 3000000) as notes from generate_series(1, 5) as n"
    add_layer(url, "heavy", rows, {"notes": "text"}, "Point")
    try:
        first = api.get(f"{ROOT}/collections/heavy/items")
        assert (first.json()["numberMatched"], first.json()["numberReturned"]) == (5, 3)
        second = httpx.get(str(link(first.json(), "next"))).json()
        assert [feature["id"] for feature in second["features"]] == [4, 5]
        assert link(second, "next") is None
        assert len(api.get(f"{ROOT}/collections/heavy/tiles/WebMercatorQuad/0/0/0").content) < 2000
    finally:
        withdraw_layer(url, "heavy")


def test_columns_may_have_any_name(api: httpx.Client, url: str, tmp_path: Path) -> None:
    """Also those that the statements use, and a number may be too large for a double."""
    names = ["tile", "named", "layer", "page", "feature", "place", "bytes"]
    rows = f"""select 1::bigint as gid, {POINT} as geom, {", ".join(f"'{name}' as {name}" for name in names)},
                      1e309::numeric as large, 1e-400::numeric as tiny, 2.5::numeric as small, 'NaN'::numeric as none"""
    types = dict.fromkeys(names, "text") | dict.fromkeys(["large", "tiny", "small", "none"], "numeric")
    add_layer(url, "odd", rows, types, "Point")
    try:
        (feature,) = read(api, f"{ROOT}/collections/odd/items")["features"]
        assert {name: feature["properties"][name] for name in names} == {name: name for name in names}
        answer = api.get(f"{ROOT}/collections/odd/tiles/WebMercatorQuad/0/0/0")
        assert answer.status_code == 200, answer.text
        (row,) = read_tile(tmp_path, answer.content, 0, 0, 0).to_dict("records")
        assert [row[name] for name in names] == names
        assert (row["small"], row["tiny"]) == (2.5, 0)
    finally:
        withdraw_layer(url, "odd")


def read_tile(tmp_path: Path, content: bytes, z: int, x: int, y: int) -> Any:
    path = tmp_path / str(z) / str(x) / f"{y}.pbf"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return pyogrio.read_dataframe(path)


def test_a_vector_tile_shows_what_is_in_it(api: httpx.Client, tmp_path: Path) -> None:
    tilejson = read(api, f"{CITIES}/tiles/WebMercatorQuad/tilejson.json")
    tile = tms.get("WebMercatorQuad").tile(-92.5, -17.5, 6)
    answer = httpx.get(tilejson["tiles"][0].format(z=6, x=tile.x, y=tile.y))
    assert answer.headers["Content-Type"] == "application/vnd.mapbox-vector-tile"
    west, south, east, north = tms.get("WebMercatorQuad").bounds(tile)
    frame = read_tile(tmp_path, answer.content, 6, tile.x, tile.y).to_crs(4326)
    inside = frame.cx[west:east, south:north]
    assert sorted(inside["mvt_id"]) == ids(api, bbox=f"{west},{south},{east},{north}")
    row = inside.iloc[0]
    assert (row["name"], row["share"]) == (f"City {row['mvt_id']}", row["mvt_id"] / 1000)
    assert row.geometry.x == pytest.approx(row["mvt_id"] - 100, abs=0.01)


def test_tiles_have_a_layer_as_far_as_the_poles_and_on_both_sides(api: httpx.Client, tmp_path: Path) -> None:
    tilejson = read(api, f"{FIELDS}/tiles/WebMercatorQuad/tilejson.json")
    assert tilejson["bounds"] == [-180, -90, 180, 10]
    path = f"{FIELDS}/tiles/WebMercatorQuad"
    assert sorted(read_tile(tmp_path, api.get(f"{path}/3/0/7").content, 3, 0, 7)["number"]) == [10]
    whole = read_tile(tmp_path, api.get(f"{path}/0/0/0").content, 0, 0, 0)
    assert sorted(whole["number"]) == [*range(1, 11)]
    assert max(map(len, whole["notes"])) == 200
    chosen = api.get(f"{path}/0/0/0", params={"filter": "number > 8", "properties": "number"}).content
    assert sorted(read_tile(tmp_path, chosen, 0, 0, 0)["number"]) == [9, 10]
    assert api.get(f"{path}/5/16/0").content == b""


def test_a_tile_that_is_cached_is_not_drawn_again(api: httpx.Client) -> None:
    tilejson = read(api, f"{CITIES}/tiles/WebMercatorQuad/tilejson.json")
    kept = httpx.get(tilejson["tiles"][0].format(z=0, x=0, y=0))
    assert kept.headers["Cache-Control"] == "public, max-age=31536000, immutable"
    passing = api.get(f"{CITIES}/tiles/WebMercatorQuad/0/0/0")
    assert passing.headers["Cache-Control"] == "public, max-age=300"
    again = api.get(f"{CITIES}/tiles/WebMercatorQuad/0/0/0", headers={"If-None-Match": passing.headers["ETag"]})
    assert (again.status_code, again.content) == (304, b"")


def test_s1_features_need_a_key_with_the_scope_to_read(url: str, tmp_path: Path) -> None:
    with serve_api(url, tmp_path / "home", auth="keys", public_url="https://maps.example/geo") as keyed:
        problem(keyed.client.get(f"{ROOT}/collections"), 401, "auth.missing")
        headers = {"Authorization": f"Bearer {make_key(url)}", "Host": "maps.example"}
        answer = keyed.client.get(CITIES, headers=headers)
        assert link(answer.json(), "items") == "https://maps.example/geo/features/collections/cities/items"
        assert answer.headers["Vary"].count("Authorization") == 1


def test_owslib_reads_a_layer(served: Served) -> None:
    features = Features(f"{served.url}{ROOT}")
    assert features.feature_collections() == ["cities", "fields"]
    queryables = features.collection_queryables("cities")["properties"]
    assert queryables["name"] == {"name": "name", "type": "string"}
    assert queryables["gid"] == {"name": "gid", "type": "integer"}
    found = features.collection_items("cities", bbox=[-99.5, -90, -96.5, 90], limit=2)
    assert (found["numberMatched"], found["numberReturned"]) == (3, 2)
    assert features.collection_item("cities", "7")["id"] == 7


def test_gdal_reads_a_layer(served: Served) -> None:
    source = f"OAPIF:{served.url}{ROOT}/collections/cities"
    frame = pyogrio.read_dataframe(source, layer="cities", fid_as_index=True)
    assert len(frame) == 250
    assert frame.loc[frame["name"] == "City 7", "height"].item() == 10.5
    assert str(frame.crs) == "EPSG:4326" or "CRS84" in str(frame.crs)
    part = pyogrio.read_dataframe(source, layer="cities", bbox=(-99.5, -90, -96.5, 90))
    assert sorted(part["name"]) == ["City 1", "City 2", "City 3"]
    assert [str(name) for name, _ in pyogrio.list_layers(f"OAPIF:{served.url}{ROOT}")] == ["cities", "fields"]


def test_the_item_of_a_layer_leads_to_its_features_and_tiles(api: httpx.Client) -> None:
    item = read(api, "/stac/collections/layers/items/cities")
    assert item["assets"]["data"]["href"] == f"{str(api.base_url).rstrip('/')}{CITIES}/items"
    assert item["assets"]["data"]["type"] == "application/geo+json"
    assert httpx.get(item["assets"]["data"]["href"]).json()["numberMatched"] == 250
    assert httpx.get(str(link(item, "alternate"))).json()["id"] == "cities"
    assert httpx.get(str(link(item, "tilejson"))).json()["vector_layers"][0]["id"] == "cities"
    found = api.get("/stac/search", params={"ids": "cities", "fields": "id,properties.table:row_count"}).json()[
        "features"
    ]
    assert "links" not in found[0] or found[0]["id"] == "cities"
