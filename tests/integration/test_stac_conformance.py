"""The catalog conforms to the STAC API, by stac-api-validator and by clients."""

import json
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus

import cql2
import httpx
import pystac_client
import pytest
from psycopg import Connection
from psycopg.rows import TupleRow

from anabranch.embedded.cluster import Cluster
from anabranch.plugins.stac.validation.validate import known_schemas
from anabranch.testing.postgres import Databases
from tests.support.serving import Raster, Served, add_item, serve_api, write_rasters

pytestmark = pytest.mark.postgres

ROOT = Path(__file__).parents[2]
VALIDATOR = ROOT / ".cache" / "validator-venv" / "bin" / "python"
RUNNER = ROOT / "tests" / "data" / "validator" / "run.py"
CLASSES = ("core", "browseable", "collections", "features", "item-search", "filter")
WORLD = json.dumps({"type": "Polygon", "coordinates": [[[8, 46], [10, 46], [10, 48], [8, 48], [8, 46]]]})


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("conformance") / "home"


@pytest.fixture(scope="module")
def rasters(home: Path) -> list[Raster]:
    hills, photo, classes = write_rasters(home / "silver")
    more = {
        "datetime": "2026-11-15T10:00:00Z",
        "proj:code": "EPSG:4326",
        "gsd": 30,
        "platform": "drone",
        "anabranch:kind": "dem",
    }
    return [replace(hills, properties={**hills.properties, **more}), replace(photo, properties={"gsd": 9}), classes]


@pytest.fixture(scope="module")
def served(
    postgres: Cluster,
    postgres_admin: Connection[TupleRow],
    catalog_template: str,
    home: Path,
    rasters: list[Raster],
) -> Iterator[Served]:
    url = Databases(postgres, postgres_admin).make(catalog_template)
    for raster in rasters:
        add_item(url, raster)
    with serve_api(url, home) as api:
        yield api


@pytest.fixture
def api(served: Served) -> httpx.Client:
    return served.client


def links(api: httpx.Client, path: str, rel: str) -> list[dict[str, Any]]:
    return [link for link in api.get(path).json()["links"] if link["rel"] == rel]


def both(folder: Path) -> dict[str, str]:
    """The schema of the release of the projection extension that has `proj:epsg` beside `proj:code`, by its address."""
    newer = next(uri for uri in known_schemas() if "/projection/" in uri)
    older = newer.replace("v2.0.0", "v1.2.0")
    schema = json.loads(known_schemas()[newer].read_text().replace(newer, older))
    schema["definitions"]["fields"]["properties"]["proj:epsg"] = {"type": ["integer", "null"]}
    (folder / "projection.json").write_text(json.dumps(schema))
    return {older: str(folder / "projection.json")}


@pytest.mark.slow
@pytest.mark.parametrize("name", CLASSES)
def test_stac_api_validator_finds_no_error(served: Served, tmp_path: Path, name: str) -> None:
    """It has an environment of its own: `make validator`."""
    if not VALIDATOR.exists():
        pytest.skip("stac-api-validator is not installed: make validator")
    schemas = tmp_path / "schemas.json"
    schemas.write_text(json.dumps({uri: str(path) for uri, path in known_schemas().items()} | both(tmp_path)))
    asked = ["--root-url", f"{served.url}/stac", "--collection", "scenes", "--geometry", WORLD]
    done = subprocess.run(
        [str(VALIDATOR), str(RUNNER), str(schemas), *asked, "--conformance", name],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert "Errors: none" in done.stdout, done.stdout + done.stderr
    assert done.returncode == 0


def test_the_landing_page_says_the_version_of_stac_and_leads_everywhere(served: Served, api: httpx.Client) -> None:
    page = api.get("/stac").json()
    assert page["stac_version"] == "1.1.0"
    assert [link["href"] for link in links(api, "/stac", "child")] == [f"{served.url}/stac/collections/scenes"]
    (described,) = links(api, "/stac", "service-desc")
    assert described["type"] == "application/vnd.oai.openapi+json;version=3.1"
    answer = api.get(described["href"])
    assert answer.headers["content-type"] == described["type"]
    assert answer.json()["openapi"].startswith("3.1")
    (explained,) = links(api, "/stac", "service-doc")
    assert api.get(explained["href"]).headers["content-type"].startswith(explained["type"])


def test_classes_are_those_that_clients_know(served: Served, api: httpx.Client) -> None:
    classes = set(api.get("/stac/conformance").json()["conformsTo"])
    assert "https://api.stacspec.org/v1.0.0/item-search#sort" in classes
    assert [name for name in classes if "stacspec.org/v1.1" in name] == []
    catalog = pystac_client.Client.open(f"{served.url}/stac")
    for name in ("CORE", "FEATURES", "COLLECTIONS", "ITEM_SEARCH", "FILTER", "SORT", "FIELDS", "QUERY"):
        assert catalog.conforms_to(name), name


def test_systems_of_epsg_have_a_number_for_older_readers(api: httpx.Client) -> None:
    for path in ("/stac/collections/scenes/items/hills", "/stac/search?ids=hills&fields=properties"):
        body = api.get(path).json()
        item = body.get("features", [body])[0]
        assert (item["properties"]["proj:code"], item["properties"]["proj:epsg"]) == ("EPSG:4326", 4326)
    assert "v1.2.0" in str(api.get("/stac/collections/scenes/items/hills").json()["stac_extensions"])
    assert "proj:epsg" not in api.get("/stac/collections/scenes/items/photo").text


def test_an_item_leads_to_its_tiles(served: Served, api: httpx.Client) -> None:
    for path in ("/stac/collections/scenes/items/hills", "/stac/search?ids=hills"):
        body = api.get(path).json()
        item = body.get("features", [body])[0]
        (tiles,) = (link for link in item["links"] if link["rel"] == "tilejson")
        assert api.get(tiles["href"]).json()["tilejson"]
        assert tiles["href"].startswith(served.url)


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/stac/search?fields=id,geometry", None),
        ("GET", "/stac/collections/scenes/items?fields=id", None),
        ("POST", "/stac/search", {"fields": {"include": ["id"]}}),
        ("GET", "/stac/search?fields=-properties", None),
    ],
)
def test_items_with_chosen_fields_are_geojson_and_hold_no_address(
    api: httpx.Client, method: str, path: str, body: Any
) -> None:
    answer = api.request(method, path, json=body)
    assert answer.headers["content-type"] == "application/geo+json"
    assert len(answer.json()["features"]) == 3
    assert "silver://" not in answer.text


@pytest.mark.parametrize("path", ["/stac/queryables", "/stac/collections/scenes/queryables"])
def test_what_items_have_can_be_asked_for(api: httpx.Client, path: str) -> None:
    answer = api.get(path)
    assert answer.headers["content-type"] == "application/schema+json"
    named = answer.json()["properties"]
    assert {
        "id",
        "collection",
        "geometry",
        "datetime",
        "created",
        "proj:code",
        "gsd",
        "platform",
        "anabranch:kind",
    } <= set(named)
    assert named["gsd"]["type"] == "number"
    assert named["created"] == {**named["created"], "type": "string", "format": "date-time"}
    assert "renders" not in named
    for wanted, found in (
        ("gsd > 10", ["hills"]),
        ("gsd < 10", ["photo"]),
        ("\"proj:code\" = 'EPSG:4326'", ["hills"]),
        ("platform = 'drone' and \"anabranch:kind\" = 'dem'", ["hills"]),
    ):
        answer = api.get("/stac/search", params={"filter": wanted, "filter-lang": "cql2-text"})
        assert [item["id"] for item in answer.json()["features"]] == found, wanted


DAY, MOMENT = "DATE('2026-11-15')", "TIMESTAMP('2026-11-15T12:00:00+02:00')"
BEFORE, AFTER = "DATE('2020-01-01')", "TIMESTAMP('2027-01-01T00:00:00Z')"


@pytest.mark.parametrize("name", ["created", "datetime", "properties.created"])
@pytest.mark.parametrize(
    ("condition", "found"),
    [
        *((f"{{0}} {operator} {day}", found) for day in (DAY, MOMENT)
          for operator, found in (("=", 1), ("<>", 0), ("<", 0), ("<=", 1), (">", 0), (">=", 1))),
        *((f"{day} {operator} {{0}}", found) for day in (DAY, MOMENT)
          for operator, found in (("=", 1), ("<>", 0), ("<", 0), ("<=", 1), (">", 0), (">=", 1))),
        *((f"{{0}} {operator} {BEFORE}", found)
          for operator, found in (("=", 0), ("<>", 1), ("<", 0), ("<=", 0), (">", 1), (">=", 1))),
        *((f"{AFTER} {operator} {{0}}", found)
          for operator, found in (("=", 0), ("<>", 1), ("<", 0), ("<=", 0), (">", 1), (">=", 1))),
        (f"{{0}} BETWEEN {BEFORE} AND {AFTER}", 1),
        (f"{{0}} BETWEEN {DAY} AND {DAY}", 1),
        (f"{{0}} NOT BETWEEN {BEFORE} AND {DAY}", 0),
        (f"{{0}} BETWEEN {AFTER} AND {AFTER}", 0),
        (f"{DAY} BETWEEN {{0}} AND {{0}}", 1),
        (f"{{0}} IN ({BEFORE}, {DAY})", 1),
        (f"NOT {{0}} IN ({BEFORE})", 1),
        ("{0} < TIMESTAMP('2026-11-15T10:00:00.5Z') AND {0} > TIMESTAMP('2026-11-15T09:59:59.5Z')", 1),
        ("{0} > DATE('2026-11-14') AND {0} < DATE('2026-11-16')", 1),
    ],
)  # fmt: skip
def test_times_are_compared_with_dates_and_timestamps(api: httpx.Client, name: str, condition: str, found: int) -> None:
    text = condition.format(f'"{name}"') + " AND id = 'hills'"
    given = cql2.parse_text(text).to_json()
    for answer in (
        api.get("/stac/search", params={"filter": text}),
        api.get("/stac/search", params={"filter": json.dumps(given), "filter-lang": "cql2-json"}),
        api.post("/stac/search", json={"filter-lang": "cql2-json", "filter": given}),
        api.get("/stac/collections/scenes/items", params={"filter": text}),
    ):
        assert answer.status_code == 200, answer.text
        assert answer.json()["numberReturned"] == found


@pytest.mark.parametrize(("operator", "found"), [("eq", 1), ("neq", 0), ("lt", 0), ("lte", 1), ("gt", 0), ("gte", 1)])
def test_times_are_compared_by_the_other_names_of_operators(api: httpx.Client, operator: str, found: int) -> None:
    given = {"op": operator, "args": [{"property": "created"}, {"date": "2026-11-15"}]}
    named = {"op": "=", "args": [{"property": "id"}, "hills"]}
    answer = api.post(
        "/stac/search", json={"filter-lang": "cql2-json", "filter": {"op": "and", "args": [given, named]}}
    )
    assert answer.json()["numberReturned"] == found


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        ("created <= datetime", 1),
        ("created >= datetime", 1),
        ("created < datetime", 0),
        ("created < updated", 0),
        ("created = created", 1),
        ("created < start_datetime", 0),
        ("created <= '2026-11-15T12:00:00+02:00'", 1),
        ("created < '2026-11-15T12:00:00+02:00'", 0),
        ("'2026-11-15T11:59:59+02:00' < created", 1),
        ("created = '2026-11-15'", 1),
        ("created BETWEEN '2026-11-15T09:00:00Z' AND '2026-11-15T12:30:00+02:00'", 1),
        ("created IN ('2026-11-15T12:00:00+02:00', '2020-01-01')", 1),
        ("datetime <= '2026-11-15T12:00:00+02:00'", 1),
    ],
)
def test_times_are_compared_as_times_with_each_other_and_with_text(
    api: httpx.Client, condition: str, found: int
) -> None:
    text = f"{condition} AND id = 'hills'"
    for answer in (
        api.get("/stac/search", params={"filter": text}),
        api.post("/stac/search", json={"filter-lang": "cql2-json", "filter": cql2.parse_text(text).to_json()}),
    ):
        assert answer.status_code == 200, answer.text
        assert answer.json()["numberReturned"] == found


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({"created": {"lte": "2026-11-15T12:00:00+02:00"}}, 1),
        ({"created": {"lt": "2026-11-15T12:00:00+02:00"}}, 0),
        ({"created": {"gt": "2026-11-15T11:59:59+02:00", "lt": "2026-11-15T12:00:01+02:00"}}, 1),
        ({"created": {"eq": "2026-11-15"}}, 1),
        ({"created": {"eq": "2026-11-15"}, "platform": {"eq": "none"}}, 0),
    ],
)
def test_a_query_compares_times_as_times(api: httpx.Client, query: dict[str, object], found: int) -> None:
    for answer in (
        api.post("/stac/search", json={"ids": ["hills"], "query": query}),
        api.get("/stac/search", params={"ids": "hills", "query": quote_plus(json.dumps(query))}),
    ):
        assert answer.status_code == 200, answer.text
        assert answer.json()["numberReturned"] == found


@pytest.mark.parametrize(
    ("condition", "reason"),
    [
        ("platform < constellation", "the order of platform and constellation, which is not known"),
        ("created < platform", "the order of created and platform"),
        ("created < 'soon'", "soon"),
        ("created < DATE('2026-02-30')", "2026-02-30"),
        ("T_AFTER(created, TIMESTAMP('2026-02-30T00:00:00Z'))", "2026-02-30"),
        ("created IN (DATE('soon'))", "soon"),
        ("created LIKE DATE('2026-01-01')", "like"),
        ("platform < DATE('2026-01-01')", "drone"),
        ("id < DATE('2026-01-01')", "not temporal"),
    ],
)
def test_a_comparison_with_a_time_that_is_impossible_is_refused_with_the_reason(
    api: httpx.Client, condition: str, reason: str
) -> None:
    given = cql2.parse_text(condition).to_json()
    for answer in (
        api.get("/stac/search", params={"filter": condition}),
        api.post("/stac/search", json={"filter-lang": "cql2-json", "filter": given}),
    ):
        assert (answer.status_code, answer.json()["code"]) == (400, "catalog.query")
        assert reason in answer.json()["detail"]


@pytest.mark.parametrize(
    "asked",
    [
        {"filter": '"proj:epsg" = 4326'},
        {"filter": 'gsd > 1 and "properties.proj:epsg" in (4326)'},
        {"sortby": "-proj:epsg"},
        {"sortby": "id,properties.proj:epsg"},
        {"query": '{"proj:epsg": {"eq": 4326}}'},
    ],
)
def test_an_older_name_of_a_system_that_items_show_is_refused_with_the_newer_one(
    api: httpx.Client, asked: dict[str, str]
) -> None:
    for path in ("/stac/search", "/stac/collections/scenes/items"):
        answer = api.get(path, params=asked)
        assert (answer.status_code, answer.json()["code"]) == (400, "catalog.query")
        assert "proj:epsg" in answer.json()["detail"]
        assert "proj:code" in answer.json()["remedy"]
        assert "proj:epsg" not in api.get("/stac/queryables").text
    assert api.post("/stac/search", json={"sortby": [{"field": "proj:epsg", "direction": "asc"}]}).status_code == 400
    found = api.get("/stac/search", params={"sortby": "proj:code"})
    assert len(found.json()["features"]) == 3


@pytest.mark.parametrize(
    ("kind", "coordinates", "rule"),
    [
        ("Polygon", [], "without coordinates"),
        ("Polygon", [[]], "without coordinates"),
        ("Polygon", [[[0, 0], [1, 1]]], "a ring of 2 positions"),
        ("MultiPolygon", [[[[0, 0], [1, 1]]]], "a ring of 2 positions"),
        ("Polygon", [[[0, 0], [1, 0], [1, 1], [0, 1]]], "not closed"),
        ("Polygon", [[[0, 0], [9, 0], [9, 9], [0, 0]], [[1, 0], [2, 1]]], "a ring of 2 positions"),
        ("LineString", [[0, 0]], "a line of 1 position"),
        ("MultiPoint", [], "without coordinates"),
        ("Point", [0, 0, 0, 0], "2 or 3 finite numbers"),
        ("Point", [], "position"),
        ("Polygon", [[0, 0]], "position"),
    ],
)
def test_a_geometry_that_is_not_whole_is_refused_with_the_rule_it_breaks(
    api: httpx.Client, kind: str, coordinates: Any, rule: str
) -> None:
    given = {"type": kind, "coordinates": coordinates}
    condition = {"op": "s_intersects", "args": [{"property": "geometry"}, given]}
    for answer in (
        api.get("/stac/search", params={"intersects": json.dumps(given)}),
        api.post("/stac/search", json={"intersects": given}),
        api.get("/stac/search", params={"filter": json.dumps(condition), "filter-lang": "cql2-json"}),
        api.post("/stac/search", json={"filter": condition, "filter-lang": "cql2-json"}),
    ):
        assert (answer.status_code, answer.json()["code"]) == (400, "catalog.query"), answer.text
        assert rule in answer.json()["detail"]
        assert "pydantic" not in answer.text
    assert api.get("/stac/search", params={"intersects": WORLD}).json()["numberReturned"] == 1


@pytest.mark.parametrize(
    "area", ["POLYGON((0 0,1 1))", "POLYGON((0 0,1 0,1 1,0 1))", "POLYGON EMPTY", "LINESTRING(0 0)"]
)
def test_an_area_in_text_that_is_not_whole_is_refused(api: httpx.Client, area: str) -> None:
    answer = api.get("/stac/search", params={"filter": f"S_INTERSECTS(geometry, {area})"})
    assert (answer.status_code, answer.json()["code"]) == (400, "catalog.query"), answer.text


@pytest.mark.parametrize("path", ["/stac/search", "/stac/collections/scenes/items"])
@pytest.mark.parametrize(
    ("bbox", "found"),
    [
        ("-180,-90,180,90", 3),
        ("-180,-90,-100,180,90,9000", 3),
        ("175,40,-175,50", 0),
        ("8,-90,7.9,90", 3),  # once around the Earth, but for a tenth of a degree
    ],
)
def test_a_box_may_cross_180_degrees_and_have_heights(api: httpx.Client, path: str, bbox: str, found: int) -> None:
    assert api.get(path, params={"bbox": bbox}).json()["numberReturned"] == found
    numbers = [float(number) for number in bbox.split(",")]
    assert api.post("/stac/search", json={"bbox": numbers}).json()["numberReturned"] == found
    assert api.get("/stac/collections", params={"bbox": bbox}).status_code == 200


def test_a_page_of_collections_is_bounded_as_one_of_items_is(api: httpx.Client) -> None:
    assert [each["id"] for each in api.get("/stac/collections").json()["collections"]] == ["scenes"]
    for limit in (1, 1_000_000):
        assert len(api.get("/stac/collections", params={"limit": limit}).json()["collections"]) == 1
    assert api.post("/stac/search", json={"limit": None}).json()["numberReturned"] == 3


@pytest.mark.parametrize(
    ("path", "name", "known"),
    [
        ("/stac/collections", "filter", "bbox"),
        ("/stac/collections", "q", "bbox"),
        ("/stac/search", "q", "filter"),
        ("/stac/collections/scenes/items", "ids", "filter"),
        ("/stac/collections/scenes", "bbox", "none"),
    ],
)
def test_an_unknown_parameter_is_refused_with_the_known_ones(
    api: httpx.Client, path: str, name: str, known: str
) -> None:
    answer = api.get(path, params={name: "hills"})
    assert (answer.status_code, answer.json()["code"]) == (400, "catalog.query")
    assert name in answer.json()["detail"]
    assert known in answer.json()["remedy"]


def test_an_unknown_field_of_a_body_is_refused_with_the_known_ones(api: httpx.Client) -> None:
    answer = api.post("/stac/search", json={"q": "hills"})
    assert (answer.status_code, answer.json()["detail"]) == (400, "unknown parameter q")
    assert "filter-lang" in answer.json()["remedy"]


def test_a_collection_that_is_not_there_has_no_queryables(api: httpx.Client) -> None:
    assert api.get("/stac/collections/no-such/queryables").status_code == 404


@pytest.mark.parametrize(
    "path",
    [
        "/stac", "/stac/", "/stac/conformance", "/stac/queryables", "/stac/collections",
        "/stac/collections/scenes", "/stac/collections/scenes/items", "/stac/collections/scenes/items/hills",
        "/stac/search?limit=1", "/raster/collections/scenes/items/hills/WebMercatorQuad/tilejson.json",
        "/raster/collections/scenes/items/hills/info", "/raster/collections/scenes/items/hills/preview.png",
        "/livez", "/readyz", "/api/jobs", "/api/workflows", "/api/handlers",
        "/errors", "/errors/internal", "/openapi.json", "/metrics", "/docs", "/data",
    ],
)  # fmt: skip
def test_head_is_answered_wherever_get_is(api: httpx.Client, path: str) -> None:
    whole, head = api.get(path), api.head(path)
    assert head.status_code == whole.status_code == 200
    assert head.content == b""
    assert head.headers["content-type"] == whole.headers["content-type"]


def test_head_of_what_is_not_there_says_so(api: httpx.Client) -> None:
    for path in ("/stac/collections/no-such", "/api/jobs/0000", "/nowhere"):
        assert api.head(path).status_code == 404
    assert api.head("/api/uploads").status_code == 405
    assert "HEAD" in api.put("/api/jobs").headers["Allow"]


def test_head_of_a_stream_ends(api: httpx.Client) -> None:
    job = api.post("/api/jobs/submit/echo", json={}).json()["job_id"]
    head = api.head(f"/api/jobs/{job}/stream")
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-type"].startswith("text/event-stream")
