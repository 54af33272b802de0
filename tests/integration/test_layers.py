"""A collection or a search is drawn as one layer: the newest item on top, all in the same colors."""

import io
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import imagecodecs
import numpy as np
import pytest
from morecantile import tms
from psycopg import Connection
from psycopg.rows import TupleRow

from anabranch.client import Client
from anabranch.embedded.cluster import Cluster
from anabranch.testing.postgres import Databases
from tests.support.serving import Raster, Served, add_items, serve_api, write_crossing, write_raster

pytestmark = pytest.mark.postgres

GRID = tms.get("WebMercatorQuad")
HEIGHTS = "/raster/collections/heights"
SEARCH = "/raster/search"
EVER = "datetime=2000-01-01T00:00:00Z/.."  # of another search, of which nothing is known yet
STATISTICS = {"old": {"minimum": 90, "maximum": 130}, "new": {"minimum": 280, "maximum": 310}}


class Layers:
    """The rasters of the tests, and what is published of them."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url, self.folder = url, folder

    def add(self, collection: str, *rasters: Raster, **options: Any) -> None:
        add_items(self.url, rasters, collection, **options)

    def write(self, name: str, value: Any, bbox: tuple[float, float, float, float], **options: Any) -> Raster:
        """A raster of one value, or of these."""
        values = np.full((1, 64, 64), value, options.pop("dtype", "float32")) if np.isscalar(value) else value
        made = {"datetime": options.pop("datetime", "2026-06-01T00:00:00Z"), **options.pop("properties", {})}
        return write_raster(self.folder / f"{name}.tif", values, bbox, made, **options)


@pytest.fixture(scope="module")
def layers(
    postgres: Cluster,
    postgres_admin: Connection[TupleRow],
    catalog_template: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Layers:
    """`heights` has an old raster in degrees, with a hole, and a newer one of smaller pixels in UTM over its east."""
    home = tmp_path_factory.mktemp("layers") / "home"
    url = Databases(postgres, postgres_admin).make(catalog_template)
    made = Layers(url, home / "silver" / "jobs" / ("5e" * 32) / "cog")
    values = np.full((1, 80, 80), 100, "float32")
    values[:, :20, :20] = -9999
    old = made.write("old", values, (9.0, 47.0, 9.2, 47.2), nodata=-9999, datetime="2024-06-01T00:00:00Z")
    west, east, south, north = 507_500.0, 522_500.0, 5_206_000.0, 5_226_000.0
    new = made.write("new", 300, (west, south, east, north), crs="EPSG:32632", nodata=-9999)
    for raster in (old, replace(new, bbox=(9.099, 47.006, 9.297, 47.186))):
        made.add("heights", raster, asset={"bands": [{"statistics": STATISTICS[raster.name]}]})
    return made


@pytest.fixture(scope="module")
def served(layers: Layers) -> Iterator[Served]:
    with serve_api(layers.url, layers.folder.parents[3], draw_files_in_place="true") as api:
        yield api


@pytest.fixture
def api(served: Served) -> httpx.Client:
    return served.client


def problem(answer: httpx.Response, status: int, code: str) -> dict[str, Any]:  # a problem document
    assert (answer.status_code, answer.json()["code"]) == (status, code), answer.text[:2000]
    body: dict[str, Any] = answer.json()
    return body


def tile_at(lon: float, lat: float, zoom: int, suffix: str = ".npy") -> str:
    tile = GRID.tile(lon, lat, zoom)
    return f"/tiles/WebMercatorQuad/{zoom}/{tile.x}/{tile.y}{suffix}"


def values(api: httpx.Client, path: str, **query: Any) -> Any:
    answer = api.get(path, params=query or None)
    assert answer.status_code == 200, answer.text
    return np.load(io.BytesIO(answer.content))


def drawn(api: httpx.Client, path: str, **query: Any) -> Any:
    answer = api.get(path, params=query or None)
    assert answer.headers["content-type"] == "image/png", answer.text
    return np.atleast_3d(imagecodecs.png_decode(answer.content))


def test_the_newest_item_is_on_top_and_others_fill_what_it_leaves(api: httpx.Client) -> None:
    data, mask = values(api, HEIGHTS + tile_at(9.1, 47.1, 9))
    assert set(np.unique(data[mask > 0])) == {100, 300}
    assert (mask <= 0).any()
    for lon, value in ((9.05, 100), (9.15, 300), (9.25, 300)):
        assert api.get(f"{HEIGHTS}/point/{lon},47.1").json()["values"] == [value]
    assert api.get(f"{HEIGHTS}/point/9.01,47.19").json()["values"] == [None]
    problem(api.get(f"{HEIGHTS}/point/10,47.1"), 404, "raster.outside")


def test_all_tiles_are_drawn_as_the_tilejson_chooses(served: Served, api: httpx.Client) -> None:
    """The range is around the statistics of all items, and both sides of the edge of a tile have the same grey."""
    body = api.get(f"{HEIGHTS}/WebMercatorQuad/tilejson.json", params={"tilesize": 256, "tile_format": "png"}).json()
    template = body["tiles"][0]
    assert template.startswith(f"{served.url}{HEIGHTS}/tiles/")
    assert httpx.URL(template).params.get("rescale") == "90.0,310.0"
    assert (body["minzoom"], httpx.URL(template).params.get_list("bidx")) == (0, ["1"])
    assert body["maxzoom"] == 9
    edge = GRID.tile(9.15, 47.1, 12)
    west, east = (drawn(api, template.format(z=12, x=x, y=edge.y)) for x in (edge.x - 1, edge.x))
    assert west[:, -1].tolist() == east[:, 0].tolist()
    old, new = (int(255 * (height - 90) / 220) for height in (100, 300))
    for lon, zoom, greys in ((9.1, 9, {old, new}), (9.04, 12, {old}), (9.26, 12, {new})):
        seen = drawn(api, HEIGHTS + tile_at(lon, 47.1, zoom, ".png"))
        assert set(np.unique(seen[..., 0][seen[..., -1] > 0])) == greys


def test_the_hints_that_all_items_share_are_followed_in_the_range_around_theirs(
    api: httpx.Client, layers: Layers
) -> None:
    for name, west, ends in (("hinted-west", 20.0, [0, 300]), ("hinted-east", 20.1, [200, 500])):
        hints = {"default": {"assets": ["data"], "rescale": [ends], "colormap_name": "viridis"}}
        box = (west, 47.0, west + 0.1, 47.1)
        layers.add("hinted", layers.write(name, 250, box, properties={"renders": hints}))
    query = httpx.URL(api.get("/raster/collections/hinted/WebMercatorQuad/tilejson.json").json()["tiles"][0]).params
    assert {name: query[name] for name in ("asset", "bidx", "rescale", "colormap_name")} == {
        "asset": "data", "bidx": "1", "rescale": "0.0,500.0", "colormap_name": "viridis",
    }  # fmt: skip
    tile = drawn(api, f"/raster/collections/hinted{tile_at(20.1, 47.05, 8, '.png')}")
    assert {tuple(pixel[:3]) for pixel in tile.reshape(-1, 4) if pixel[3]} == {(32, 143, 140)}
    layers.add("hinted", layers.write("unhinted", 250, (20.2, 47.0, 20.3, 47.1)))
    merged = api.get(f"{SEARCH}/WebMercatorQuad/tilejson.json?collections=hinted&{EVER}").json()["tiles"][0]
    assert "colormap_name" not in merged


def test_s7_up_to_50_items_are_drawn_in_a_tile(api: httpx.Client, layers: Layers) -> None:
    tiny = layers.write("tiny", 7, (30.0, 47.0, 30.1, 47.1), dtype="uint8")
    layers.add("many", *(replace(tiny, name=f"n{number:02}") for number in range(50)))
    tile = f"/raster/collections/many{tile_at(30.05, 47.05, 8)}"
    assert api.get(tile).status_code == 200
    layers.add("many", replace(tiny, name="n50"))
    body = problem(api.get(tile), 422, "raster.assets")
    assert "50" in body["detail"]
    assert "Zoom in, or narrow the search" in body["remedy"]
    problem(api.get("/raster/collections/many/point/30.05,47.05"), 422, "raster.assets")
    ids = ",".join(f"n{number:02}" for number in range(50))
    assert api.get(f"{SEARCH}{tile_at(30.05, 47.05, 8)}", params={"ids": ids}).status_code == 200
    crowded = api.get(f"{SEARCH}/WebMercatorQuad/tilejson.json?collections=many&{EVER}").json()
    assert crowded["minzoom"] == crowded["maxzoom"], "no zoom has a tile of so few"


def test_s7_a_layer_of_many_items_begins_at_a_zoom_that_can_be_drawn(api: httpx.Client, layers: Layers) -> None:
    wide = layers.write("wide", 7, (30.0, 40.0, 40.0, 50.0), dtype="uint8", datetime="2026-07-01T00:00:00Z")
    small = layers.write("small", 7, (34.5, 44.8, 34.6, 44.9), dtype="uint8")
    boxes = [(34.5 + column / 10, 44.8, 34.6 + column / 10, 44.9) for column in range(60)]
    layers.add("wide", wide, *(replace(small, name=f"s{n:02}", bbox=box) for n, box in enumerate(boxes)))
    zoom = api.get("/raster/collections/wide/WebMercatorQuad/tilejson.json").json()["minzoom"]
    statuses = [api.get(f"/raster/collections/wide{tile_at(35, 45, each)}").status_code for each in (zoom - 1, zoom)]
    assert (statuses, zoom > 1) == ([422, 200], True)


def test_p5_a_file_in_place_that_is_gone_is_left_out(api: httpx.Client, layers: Layers) -> None:
    box, later = (65.0, 47.0, 65.1, 47.1), "2026-09-01T00:00:00Z"
    tilejson = "/raster/collections/moving/WebMercatorQuad/tilejson.json"
    layers.add("moving", layers.write("replaced", 3, box, datetime=later), version="another")
    problem(api.get(tilejson), 410, "file.gone")
    layers.add("moving", layers.write("kept", 2, box))
    found = api.get(f"{SEARCH}/WebMercatorQuad/tilejson.json?collections=moving&{EVER}")
    assert (found.status_code, found.json()["minzoom"]) == (200, 0), found.text
    data, _ = values(
        api, f"{SEARCH}{tile_at(65.05, 47.05, 9)}", collections="moving", datetime="2001-01-01T00:00:00Z/.."
    )
    assert set(np.unique(data)) >= {2}


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({"collections": "heights"}, {100, 300}),
        ({"ids": "old,none"}, {100}),
        ({"collections": "heights", "datetime": "2025-01-01T00:00:00Z/.."}, {300}),
        ({"collections": "heights", "bbox": "9.21,47,9.3,47.2"}, {300}),
        ({"filter": "id = 'old'"}, {100}),
        ({"filter": '{"op": "=", "args": [{"property": "id"}, "new"]}', "filter-lang": "cql2-json"}, {300}),
    ],
)
def test_a_search_chooses_the_items_of_a_layer(api: httpx.Client, query: dict[str, str], found: set[int]) -> None:
    tilejson = api.get(f"{SEARCH}/WebMercatorQuad/tilejson.json", params={**query, "tile_format": "npy"}).json()
    west, south, east, north = tilejson["bounds"]
    assert 8.9 < west < east < 9.4
    assert 46.9 < south < north < 47.3
    tile = GRID.tile(9.1, 47.1, 9)
    data, mask = values(api, tilejson["tiles"][0].format(z=9, x=tile.x, y=tile.y))
    assert set(np.unique(data[mask > 0])) == found


def test_a_tile_that_the_caller_has_is_not_sent_again_until_an_item_is_added(api: httpx.Client, layers: Layers) -> None:
    layers.add("growing", layers.write("first", 5, (40.0, 47.0, 40.1, 47.1)))
    path = f"/raster/collections/growing{tile_at(40.05, 47.05, 10)}"
    first = api.get(path)
    assert first.headers["cache-control"] == "public, max-age=300"
    known = {"If-None-Match": first.headers["etag"]}
    assert api.get(path, headers=known).status_code == 304
    lost = layers.folder / "first.tif"
    lost.rename(lost.with_suffix(".gone"))
    assert api.get(path, headers=known).status_code == 304  # nothing is opened
    problem(api.get(path), 500, "file.lost")
    lost.with_suffix(".gone").rename(lost)
    layers.add("growing", layers.write("second", 6, (40.0, 47.0, 40.1, 47.1), datetime="2026-07-01T00:00:00Z"))
    second = api.get(path, headers=known)
    assert second.status_code == 200
    assert np.load(io.BytesIO(second.content))[0].max() == 6
    styled = f"{path.removesuffix('.npy')}.png?bidx=1&rescale=0,10"  # as in a tilejson
    known = {"If-None-Match": api.get(styled).headers["etag"]}
    layers.add("growing", layers.write("elsewhere", 900, (41.0, 47.0, 41.1, 47.1), datetime="2026-08-01T00:00:00Z"))
    assert api.get(styled, headers=known).status_code == 304


def test_p6_what_is_withdrawn_or_not_published_is_not_drawn(api: httpx.Client, layers: Layers) -> None:
    box = (50.0, 47.0, 50.1, 47.1)
    layers.add("changing", layers.write("kept", 1, box, datetime="2020-01-01T00:00:00Z"), layers.write("shown", 2, box))
    layers.add("changing", layers.write("unpublished", 3, box, datetime="2026-09-01T00:00:00Z"), published=False)
    point = "/raster/collections/changing/point/50.05,47.05"
    assert api.get(point).json()["values"] == [2]
    withdrawn = api.post("/api/items/changing/shown/unpublish", json={"reason": "a test", "confirm": "yes"})
    assert withdrawn.is_success, withdrawn.text
    assert api.get(point).json()["values"] == [1]


def test_a_layer_across_180_degrees_is_drawn_on_both_sides(api: httpx.Client, layers: Layers) -> None:
    layers.add("pacific", write_crossing(layers.folder))
    nines, box = np.full((3, 8, 8), 9, "uint8"), (-178.0, -3.0, -176.0, -1.0)
    layers.add("pacific", layers.write("fiji", nines, box, datetime="2026-07-01T00:00:00Z"))
    for x, colors in ((31, [200, 0, 0]), (0, [0, 0, 200])):
        tile = drawn(api, f"/raster/collections/pacific/tiles/WebMercatorQuad/5/{x}/15.png")
        assert tile[-9, 100, :3].tolist() == colors
    assert api.get("/raster/collections/pacific/point/-177,-2").json()["values"] == [9, 9, 9]
    assert api.get("/raster/collections/pacific/point/180.1,1").json()["values"] == [0, 0, 200]


def test_r3_items_are_drawn_by_their_own_palettes_and_what_does_not_fit_is_skipped(
    served: Served, api: httpx.Client, layers: Layers
) -> None:
    ones, box = np.ones((1, 16, 16), "uint8"), (60.0, 47.0, 60.1, 47.1)
    for name, color, west in (("red", (250, 0, 0, 255), 60.0), ("green", (0, 250, 0, 255), 60.1)):
        layers.add("classes", layers.write(name, ones, (west, 47.0, west + 0.1, 47.1), palette={1: color}))
    layers.add("classes", layers.write("floats", 1.5, box, datetime="2020-01-01T00:00:00Z"))
    seen = drawn(api, f"/raster/collections/classes{tile_at(60.1, 47.05, 7, '.png')}")
    assert {tuple(pixel) for pixel in seen.reshape(-1, 4) if pixel[3]} == {(250, 0, 0, 255), (0, 250, 0, 255)}
    assert "layer.skipped" in served.log.read_text()
    body = problem(api.get(f"{HEIGHTS}{tile_at(9.1, 47.1, 9)}", params={"bidx": 7}), 422, "raster.query")
    assert "has no band 7" in body["detail"]


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("/raster/collections/none/WebMercatorQuad/tilejson.json", 404, "item.not_found"),
        (f"/raster/collections/none{tile_at(9.1, 47.1, 9)}", 404, "item.not_found"),
        (f"{HEIGHTS}{tile_at(100, 10, 9)}", 404, "raster.outside"),
        (f"{HEIGHTS}/tiles/WebMercatorQuad/2/4/0.png", 404, "raster.outside"),
        (f"{HEIGHTS}/tiles/WebMercatorQuad/x/0/0.png", 422, "request.invalid"),
        (f"{HEIGHTS}/tiles/WebMercatorQuad/1_000/0/0.png", 422, "request.invalid"),
        (f"{HEIGHTS}/tiles/WebMercatorQuad/%201000/0/0.png", 422, "request.invalid"),
        (f"{HEIGHTS}/tiles/None/8/1/1.png", 422, "request.invalid"),
        (f"{HEIGHTS}/tiles/WebMercatorQuad/31/0/0.png", 422, "raster.query"),
        (f"{HEIGHTS}/tiles/WebMercatorQuad/8/{'9' * 23}/1.png", 404, "raster.outside"),
        (f"{HEIGHTS}{tile_at(9.1, 47.1, 9)}?asset=none", 404, "item.no_raster"),
        (f"{HEIGHTS}{tile_at(9.1, 47.1, 9)}?datetime=2026-01-01T00:00:00Z", 422, "raster.query"),
        (f"{HEIGHTS}{tile_at(9.1, 47.1, 9)}?checksum=1", 422, "raster.query"),
        (f"{HEIGHTS}{tile_at(9.1, 47.1, 9)}?tilesize=4096", 422, "raster.size"),
        (f"{HEIGHTS}{tile_at(9.1, 47.1, 9, '.png')}?rescale=nan,1", 422, "raster.query"),
        (f"{HEIGHTS}{tile_at(9.1, 47.1, 9, '.png')}?bidx=x", 422, "request.invalid"),
        (f"{HEIGHTS}/point/inf,0", 422, "raster.query"),
        (f"{HEIGHTS}/point/x,0", 422, "request.invalid"),
        (f"{SEARCH}/point/9.1,47.1?bbox=1,2", 400, "catalog.query"),
        (f"{SEARCH}/point/9.1,47.1?bbox=nan,0,1,1", 400, "catalog.query"),
        (f"{SEARCH}/point/9.1,47.1?datetime=none", 400, "catalog.query"),
        (f"{SEARCH}/point/9.1,47.1?datetime=2026-13-01T00:00:00Z", 400, "catalog.query"),
        (f"{SEARCH}/point/9.1,47.1?filter={'(' * 20}", 400, "catalog.query"),
        (f"{SEARCH}/point/9.1,47.1?filter={'not ' * 100}a=1", 400, "catalog.query"),
        (f"{SEARCH}/point/9.1,47.1?filter={'x' * 9000}", 422, "raster.size"),
        (f"{SEARCH}/point/9.1,47.1?filter=id='a'&filter-lang=x", 400, "catalog.query"),
        (f"{SEARCH}/point/9.1,47.1?ids={'a,' * 1500}", 400, "catalog.query"),
        (f"{SEARCH}/point/9.1,47.1?limit=1", 422, "raster.query"),
        (f"{SEARCH}/point/9.1,47.1?ids=%00", 422, "raster.query"),
        ("/raster/collections/%00/point/9.1,47.1", 422, "raster.query"),
        (f"{SEARCH}/point/9.1,47.1?ids=none", 404, "raster.outside"),
        (f"{SEARCH}/WebMercatorQuad/tilejson.json?collections=none", 404, "raster.outside"),
    ],
)
def test_s7_o6_what_is_refused_is_a_problem_document(api: httpx.Client, path: str, status: int, code: str) -> None:
    assert problem(api.get(path), status, code)["remedy"]


def test_a_collection_links_to_its_tiles(served: Served, api: httpx.Client, layers: Layers) -> None:
    links = {link["rel"]: link["href"] for link in api.get("/stac/collections/heights").json()["links"]}
    tiles = api.get(links["tilejson"]).json()["tiles"][0]
    with Client(served.url) as client:
        assert tiles.partition("?")[0].startswith(client.tile_url("heights").partition("{z}")[0])
    layers.add("drawings", replace(layers.write("lines", 1, (0, 0, 1, 1)), name="none"), published=False)
    assert "tilejson" not in {link["rel"] for link in api.get("/stac/collections/drawings").json()["links"]}
