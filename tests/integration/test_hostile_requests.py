"""No request crashes, blocks or exhausts the API; one that can't be answered gets an error (TS1, TS4, TS5, TS7)."""

import json
import resource
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from psycopg import Connection
from psycopg.rows import TupleRow

from anabranch.api.openapi.document import load_document
from anabranch.embedded.cluster import Cluster
from anabranch.testing.postgres import Databases
from tests.support.serving import Served, add_item, serve_api, write_raster, write_rasters

pytestmark = pytest.mark.postgres

HILLS = "/raster/collections/scenes/items/hills"
UTM = "/raster/collections/scenes/items/utm"


@pytest.fixture(scope="module")
def served(
    postgres: Cluster,
    postgres_admin: Connection[TupleRow],
    catalog_template: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Served]:
    home = tmp_path_factory.mktemp("hostile") / "home"
    url = Databases(postgres, postgres_admin).make(catalog_template)
    rasters = write_rasters(home / "silver")
    box = (500_000.0, 5_200_000.0, 510_000.0, 5_210_000.0)
    values = np.zeros((1, 64, 64), "uint8")
    rasters.append(write_raster(rasters[0].path.with_name("utm.tif"), values, box, {}, crs="EPSG:32632"))
    for raster in rasters[:3]:
        add_item(url, raster)
    add_item(url, replace(rasters[3], bbox=(9.0, 46.9, 9.2, 47.1)))
    with serve_api(url, home) as api:
        for path in ("/stac/search", f"{HILLS}/preview.png", f"{UTM}/point/9.05,46.95"):
            api.client.get(path)  # what it imports and opens once is no cost of a request
        yield api


@pytest.fixture
def api(served: Served) -> httpx.Client:
    return served.client


def memory(served: Served, name: str) -> int:
    """The kernel's memory counters of the API's process, in kB."""
    lines = Path(f"/proc/{served.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


def processor_seconds(served: Served) -> float:
    user, system = Path(f"/proc/{served.pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / 100


def least_processor_seconds(served: Served, request: Callable[[], None]) -> float:
    """What a request costs the API: the least of several, for the process also does other work, and others slow it."""
    costs = []
    for _ in range(5):
        before = processor_seconds(served)
        request()
        costs.append(processor_seconds(served) - before)
    return min(costs)


def problem(answer: httpx.Response, status: int, code: str) -> dict[str, Any]:  # a problem document
    assert answer.status_code == status, answer.text[:2000]
    body: dict[str, Any] = answer.json()
    assert body["code"] == code, body
    assert body["remedy"]
    return body


@pytest.mark.parametrize("path", ["/stac/search", "/stac/collections/scenes/items", "/raster/search/point/9.05,46.95"])
@pytest.mark.parametrize(
    "text",
    [
        "(" * 4_000 + "a=1" + ")" * 4_000,
        "(" * 20,
        "not " * 100 + "a=1",
        "a=" + "+".join(["1"] * 2_000),
        "a=" + "+".join(["1"] * 160),
        "=".join(["a"] * 4_000),
        "a=" + "-" * 4_000 + "1",
    ],
)
def test_s7_ts1_a_hostile_filter_is_refused_at_once(served: Served, api: httpx.Client, path: str, text: str) -> None:
    peak = memory(served, "VmHWM")

    def refuse() -> None:
        problem(api.get(path, params={"filter": text}), 400, "catalog.query")

    assert least_processor_seconds(served, refuse) < 0.1
    assert memory(served, "VmHWM") - peak < 5_000


def test_ts1_an_ordinary_filter_takes_no_memory(served: Served, api: httpx.Client) -> None:
    """A validator of filters would take 84 MB and 0.1 s for each, and gigabytes for this one."""
    peak = memory(served, "VmHWM")
    assert api.get("/stac/search", params={"filter": "id='hills'"}).json()["numberReturned"] == 1
    problem(api.get("/stac/search", params={"filter": "a=a=a=a=a"}), 400, "catalog.query")
    assert memory(served, "VmHWM") - peak < 5_000


@pytest.mark.parametrize(
    "parameters",
    [
        {"source": "bronze://a" + "\u0301" * 30_000 + "\u0316" * 30_000},
        {f"collecti{number:05}on": 0 for number in range(35_000)},
        {"source": "bronze://a.tif", "title": "x" * 900_000, "collection": "a." * 20_000},
    ],
    ids=["marks", "names", "long"],
)
@pytest.mark.parametrize("path", ["/api/jobs/validate", "/ogc/processes/process_raster/execution"])
def test_s7_ts1_hostile_parameters_are_refused_at_once(
    served: Served, api: httpx.Client, path: str, parameters: dict[str, Any]
) -> None:
    body = {"inputs": parameters} if "ogc" in path else {"workflow": "process_raster", "parameters": parameters}

    def refuse() -> None:
        assert len(json.dumps(problem(api.post(path, json=body), 422, "job.parameters"))) < 50_000

    assert least_processor_seconds(served, refuse) < 0.5


def test_ts4_a_search_without_a_body_finds_all_whatever_its_type(api: httpx.Client) -> None:
    for headers in ({}, {"Content-Type": "text/plain"}, {"Content-Type": "multipart/form-data"}):
        assert api.post("/stac/search", headers=headers).json()["numberReturned"] == 4
    problem(api.post("/stac/search", content=b"x", headers={"Content-Type": "text/plain"}), 415, "request.media_type")


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        (f"{UTM}/point/inf,0", 422, "raster.query"),
        (f"{UTM}/point/1e400,0", 422, "raster.query"),
        (f"{UTM}/point/9,nan", 422, "raster.query"),
        (f"{UTM}/point/9,91", 422, "raster.query"),
        (f"{HILLS}/preview.png?rescale=nan,nan", 422, "raster.query"),
        (f"{HILLS}/preview.png?rescale=-inf,inf", 422, "raster.query"),
        (f"{HILLS}/preview.png?rescale=2,1", 422, "raster.query"),
        (f"{HILLS}/preview.png?nodata=1e400", 422, "raster.query"),
        (f"{HILLS}/preview.png?color_formula=gamma+r+nan", 422, "raster.query"),
        (f"{HILLS}/preview.png?colormap={'[' * 8_000}", 422, "raster.query"),
        (f"{HILLS}/preview.png?colormap=%7B%221%22:NaN%7D", 422, "raster.query"),
        (f"{HILLS}/statistics?categorical=true&c=nan", 422, "raster.query"),
        (f"{HILLS}/statistics?p=200", 422, "raster.query"),
        (f"{HILLS}/statistics?histogram_range=inf,inf", 422, "raster.query"),
        (f"{HILLS}/WebMercatorQuad/tilejson.json?minzoom=-5", 422, "raster.query"),
        (f"{HILLS}/tiles/WebMercatorQuad/8/{'9' * 23}/1.png", 404, "raster.outside"),
        (f"{HILLS}/tiles/WebMercatorQuad/8/1/{'9' * 23}.png", 404, "raster.outside"),
        ("/stac/search?bbox=nan,0,1,1", 400, "catalog.query"),
        ("/stac/search?bbox=0,0,inf,1", 400, "catalog.query"),
        ("/stac/search?bbox=1,2", 400, "catalog.query"),
        ("/stac/collections?bbox=nan,0,1,1", 400, "catalog.query"),
        ("/stac/collections/scenes/items?bbox=nan,0,1,1", 400, "catalog.query"),
        ("/stac/search?datetime=none", 400, "catalog.query"),
        ("/stac/search?datetime=2026-13-01T00:00:00Z", 400, "catalog.query"),
        ("/stac/search?datetime=9999-12-31T23:59:59-23:59/..", 400, "catalog.query"),
        ("/stac/search?limit=none", 400, "catalog.query"),
        ("/stac/search?fields=,", 400, "catalog.query"),
        ("/stac/search?filter=a%2Bb=c%2Bd", 400, "catalog.query"),
        ("/stac/search?filter=id='hills'&filter-crs=EPSG:3857", 400, "catalog.query"),
    ],
)
def test_ts5_numbers_and_texts_of_callers_are_checked(api: httpx.Client, path: str, status: int, code: str) -> None:
    problem(api.get(path), status, code)


@pytest.mark.parametrize(
    "body",
    [
        {"bbox": [0, 0, 1e999, 1]},
        {"bbox": [0, 2, 1, 1]},
        {"datetime": "none"},
        {"fields": {"include": [f"properties.a{number}" for number in range(1_000)]}},
        {"fields": {"include": ["a" + ".b" * 300]}},
        {"sortby": [{"field": f"a{number}", "direction": "asc"} for number in range(1_000)]},
        {"ids": ["a"] * 5_000},
        {"query": {f"a{number}": {"eq": 1} for number in range(1_000)}},
        {"filter": {"op": "and", "args": [{"op": "=", "args": [{"property": "a"}, 1]}] * 1_000}},
        {"intersects": {"type": "LineString", "coordinates": [["x"] * 2] * 50_000}},
        {"intersects": {"type": "Point", "coordinates": [1e308, 0]}},
        {"conf": {"nohydrate": True}},
    ],
)
def test_ts7_a_body_asks_for_no_more_than_is_found_at_once(
    served: Served, api: httpx.Client, body: dict[str, Any]
) -> None:
    content = json.dumps(body).replace("Infinity", "1e999").encode()
    before = memory(served, "VmHWM")
    answer = api.post("/stac/search", content=content, headers={"Content-Type": "application/json"})
    assert answer.status_code in (400, 422), answer.text[:500]
    assert memory(served, "VmHWM") - before < 20_000


def test_ts7_names_in_a_query_are_counted(api: httpx.Client) -> None:
    names = ",".join(f"properties.a{number}" for number in range(1_000))
    for name in ("fields", "sortby"):
        assert name in problem(api.get("/stac/search", params={name: names}), 400, "catalog.query")["detail"]


@pytest.mark.parametrize("name", ["expression", "algorithm", "reScale", "coord_crs", "url"])
def test_tn9_an_unknown_parameter_is_refused_with_the_known_ones(api: httpx.Client, name: str) -> None:
    body = problem(api.get(f"{HILLS}/preview.png", params={name: "1"}), 422, "raster.query")
    assert name in body["detail"]
    assert "rescale" in body["remedy"]
    taken = load_document()["components"]["parameters"].keys()
    assert not taken & {"crs", "dst_crs", "coord_crs", "expression"}


def test_ts1_another_site_calls_only_by_a_link_that_is_followed(api: httpx.Client) -> None:
    image = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"}
    problem(api.get("/stac/search", headers=image), 403, "request.origin")
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    assert api.get("/", headers=link).is_success
    problem(api.post("/stac/search", headers=link), 403, "request.origin")
    problem(api.get("/", headers={**link, "Sec-Fetch-Dest": "iframe"}), 403, "request.origin")
    for site in ("same-origin", "none"):
        assert api.get("/stac/search", headers={"Sec-Fetch-Site": site}).is_success


def test_ts1_the_process_has_a_memory_limit(served: Served) -> None:
    limits = Path(f"/proc/{served.pid}/limits").read_text()
    (line,) = [line for line in limits.splitlines() if line.startswith("Max address space")]
    assert int(line.split()[3]) == 4096 * 2**20
    assert memory(served, "VmPeak") < 2 * 2**20  # what it takes ordinarily is far below


def test_s7_ts1_at_the_memory_limit_a_request_gets_an_error_and_the_process_goes_on(
    served: Served, api: httpx.Client
) -> None:
    image = f"{HILLS}/preview/2000x2000.npy"
    usual = resource.prlimit(served.pid, resource.RLIMIT_AS)
    resource.prlimit(served.pid, resource.RLIMIT_AS, (memory(served, "VmSize") * 1024 + 2**22, usual[1]))
    try:
        problem(api.get(image), 503, "api.memory")
    finally:
        resource.prlimit(served.pid, resource.RLIMIT_AS, usual)
    assert api.get(image).is_success
