"""A vector file goes through the whole workflow: published exactly, or refused with nothing left."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import geopandas
import httpx
import numpy as np
import psycopg
import pytest
from psycopg.rows import dict_row
from shapely import GeometryCollection, LineString, MultiPoint, Point, Polygon
from shapely.geometry.base import BaseGeometry

from anabranch.adapters.postgres.connect import Role, connect
from anabranch.api.main import create_app
from anabranch.engine.failure import Failure
from anabranch.engine.model import JobState
from anabranch.engine.read_models import JobDetail
from anabranch.errors import InputError
from anabranch.job_control import RetryChoice
from anabranch.plugins.vector.handlers import LOST
from anabranch.settings import Settings
from tests.support.server import serve
from tests.support.stack import Stack, open_stack
from tests.support.vectors import make_geopackage, write_frame
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.postgres

PROCESS = "process_vector"
BONN, COLOGNE, KIEL = Point(7.1, 50.7), Point(6.96, 50.94), Point(10.1, 54.3)


@pytest.fixture
def bronze(tmp_path: Path) -> Path:
    folder = tmp_path / "bronze" / "in"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
async def stack(catalog_url: str, tmp_path: Path, bronze: Path) -> AsyncIterator[Stack]:
    async with asyncio.timeout(PATIENCE_SECONDS), open_stack(catalog_url, tmp_path, []) as opened:
        yield opened


def write_layer(
    path: Path, shapes: Sequence[BaseGeometry | None], crs: str = "EPSG:4326", layer: str | None = None, **columns: Any
) -> None:
    """A file of the format that its name says."""
    frame = geopandas.GeoDataFrame(columns, geometry=list(shapes), crs="EPSG:4326").to_crs(crs)
    frame.to_file(path, layer=layer, engine="pyogrio")


async def publish(stack: Stack, name: str, **wishes: Any) -> JobDetail:
    return await stack.run("process_vector", source=f"bronze://in/{name}", **wishes)


def rows(url: str, query: str) -> list[dict[str, Any]]:
    with psycopg.connect(url, row_factory=dict_row) as connection:
        return connection.execute(query).fetchall()


def names(url: str, view: str) -> list[str]:
    return [row["name"] for row in rows(url, f"select name from geo.{view} order by gid")]


def result_of(job: JobDetail) -> Any:  # as the workflow's output says
    assert job.job.state is JobState.COMPLETED, job.job.error
    return job.job.result


@pytest.mark.parametrize(
    ("file", "name", "title"),
    [
        ("2024_roads.geojson", "t_2024_roads", None),
        ("дороги.geojson", "layer_e19e8053", "дороги"),
        ("a;b!%41.gpkg", "a_b_41", None),
    ],
)
async def test_a_file_of_any_name_is_published(
    stack: Stack, bronze: Path, catalog_url: str, file: str, name: str, title: str | None
) -> None:
    written = bronze / f"plain{Path(file).suffix}"
    write_layer(written, [BONN], name=["Bonn"])
    written.rename(bronze / file)
    result = result_of(await publish(stack, file, collection="places"))
    assert result["items"] == [{"collection": "places", "id": name}]
    assert names(catalog_url, name) == ["Bonn"]
    ((document,),) = [tuple(row.values()) for row in rows(catalog_url, "select document from app.catalog_items")]
    assert document["properties"].get("title") == title


async def test_v3_c1_a_layer_is_published_with_all_that_is_known_of_it(
    stack: Stack, bronze: Path, catalog_url: str, tmp_path: Path
) -> None:
    write_layer(bronze / "Städte.gpkg", [BONN, COLOGNE], "EPSG:25832", name=["Bonn", "Köln"], Order=[2**60, None])

    result = result_of(await publish(stack, "Städte.gpkg", collection="places", datetime="2026-03-21T00:00:00Z"))

    assert result["items"] == [{"collection": "places", "id": "stadte"}]
    table, report = result["outputs"]
    assert (table["kind"], table["href"], report["kind"]) == ("table", "geo.stadte", "report")
    found = rows(catalog_url, "select gid, name, _order, st_x(geom) as x, st_y(geom) as y from geo.stadte order by gid")
    assert [(row["gid"], row["name"], row["_order"]) for row in found] == [(1, "Bonn", 2**60), (2, "Köln", None)]
    assert (found[0]["x"], found[0]["y"]) == (pytest.approx(7.1, abs=1e-9), pytest.approx(50.7, abs=1e-9))
    (item,) = rows(catalog_url, "select document from app.catalog_items")
    properties = item["document"]["properties"]
    assert properties["table:row_count"] == 2
    assert [column["name"] for column in properties["table:columns"]] == ["gid", "geom", "name", "_order"]
    assert item["document"]["assets"]["data"]["href"] == "geo://stadte"
    (layer,) = json.loads((tmp_path / report["href"].replace("://", "/")).read_text())["layers"]
    assert (layer["rows"], layer["written"], layer["dropped"]) == (2, 2, {})
    assert layer["crs"]["source"] == "EPSG:25832"
    columns = "select col_description('geo.stadte'::regclass, 4) as said, obj_description('geo.stadte'::regclass) as of"
    assert rows(catalog_url, columns)[0]["said"] == "Order in the source."


async def test_v3_new_content_replaces_the_layer_and_the_old_one_can_be_brought_back(
    stack: Stack, bronze: Path, catalog_url: str
) -> None:
    write_layer(bronze / "towns.geojson", [BONN], name=["Bonn"])
    result_of(await publish(stack, "towns.geojson"))
    write_layer(bronze / "other.fgb", [KIEL, COLOGNE], name=["Kiel", "Köln"])
    result_of(await publish(stack, "other.fgb", table="towns"))
    assert sorted(names(catalog_url, "towns")) == ["Kiel", "Köln"]


async def test_v3_new_content_for_an_item_keeps_the_name_of_its_layer(
    stack: Stack, bronze: Path, catalog_url: str
) -> None:
    write_layer(bronze / "towns.geojson", [BONN], name=["Bonn"])
    result_of(await publish(stack, "towns.geojson", table="cities", item_id="places"))
    write_layer(bronze / "other.fgb", [KIEL], name=["Kiel"])
    result = result_of(await publish(stack, "other.fgb", item_id="places"))
    assert (result["items"], result["outputs"][0]["href"]) == ([{"collection": PROCESS, "id": "places"}], "geo.cities")
    assert names(catalog_url, "cities") == ["Kiel"]
    result_of(await publish(stack, "other.fgb", item_id="places", table="chosen"))
    assert names(catalog_url, "chosen") == ["Kiel"]
    assert rows(catalog_url, "select name from app.layers") == [{"name": "chosen"}]


async def test_a_layer_is_replaced_by_the_workflow_of_vectors(
    stack: Stack, bronze: Path, catalog_url: str, tmp_path: Path
) -> None:
    write_layer(bronze / "towns.geojson", [BONN], name=["Bonn"])
    result_of(await publish(stack, "towns.geojson", collection="places"))
    write_layer(bronze / "other.fgb", [KIEL], name=["Kiel"])
    app = create_app(Settings(home=tmp_path), catalog_url)
    async with serve(app) as url, httpx.AsyncClient(base_url=url, timeout=PATIENCE_SECONDS) as client:
        body = {"reason": "a new survey", "parameters": {"source": "bronze://in/other.fgb"}, "expected": 1}
        submitted = await client.post("/api/items/places/towns/replace", json=body)
    result_of(await stack.wait(submitted.json()["job_id"]))
    assert names(catalog_url, "towns") == ["Kiel"]


async def test_v3_rows_are_added_in_one_commit_or_refused_with_nothing_written(
    stack: Stack, bronze: Path, catalog_url: str
) -> None:
    write_layer(bronze / "towns.geojson", [BONN], name=["Bonn"], size=[2**40])
    result_of(await publish(stack, "towns.geojson"))
    write_layer(bronze / "more.geojson", [KIEL], size=[7], name=["Kiel"])
    result_of(await publish(stack, "more.geojson", table="towns", mode="append"))
    found = rows(catalog_url, "select gid, name, size from geo.towns order by gid")
    assert [tuple(row.values()) for row in found] == [(1, "Bonn", 2**40), (2, "Kiel", 7)]
    (item,) = rows(catalog_url, "select document from app.catalog_items")
    assert item["document"]["properties"]["table:row_count"] == 2
    assert item["document"]["bbox"] == [7.1, 50.7, 10.1, 54.3]

    write_layer(bronze / "lakes.geojson", [BONN], depth=[1.5])
    result_of(await publish(stack, "lakes.geojson"))
    write_layer(bronze / "whole.geojson", [KIEL], depth=[3])
    result_of(await publish(stack, "whole.geojson", table="lakes", mode="append"))
    write_layer(bronze / "huge.geojson", [KIEL], depth=[2**53 + 1])
    refused = await publish(stack, "huge.geojson", table="lakes", mode="append")
    assert refused.job.error is not None
    assert "does not fit into geo.lakes" in refused.job.error.message
    assert [row["depth"] for row in rows(catalog_url, "select depth from geo.lakes order by gid")] == [1.5, 3.0]

    write_layer(bronze / "odd.geojson", [KIEL], label=["Kiel"], size=["large"])
    refused = await publish(stack, "odd.geojson", table="towns", mode="append")
    assert refused.job.error is not None
    assert refused.job.error.code == "vector.append_columns"
    assert "name is missing; label is not a column of the layer; size is text, not bigint" in refused.job.error.message
    write_layer(bronze / "lines.geojson", [LineString([BONN, KIEL])], name=["way"], size=[1])
    refused = await publish(stack, "lines.geojson", table="towns", mode="append")
    assert refused.job.error is not None
    assert "the file has lines, and geo.towns is of the type Point" in refused.job.error.message
    assert names(catalog_url, "towns") == ["Bonn", "Kiel"]
    unknown = await publish(stack, "more.geojson", table="nothing", mode="append")
    assert unknown.job.error is not None
    assert unknown.job.error.code == "vector.no_layer"


async def test_a_name_that_is_taken_is_known_before_the_work(stack: Stack, bronze: Path, catalog_url: str) -> None:
    write_layer(bronze / "towns.geojson", [BONN], name=["Bonn"])
    result_of(await publish(stack, "towns.geojson", collection="places"))
    refused = await publish(stack, "towns.geojson", collection="others")
    assert refused.job.error
    assert (refused.job.error.node, refused.job.error.code) == ("preflight", "publication.name_taken")
    assert "geo.towns belongs to item places/towns" in refused.job.error.message
    assert refused.job.error.remedy == "Give another `table`."
    with psycopg.connect(catalog_url, autocommit=True) as owner:
        owner.execute("create view public.readers as select name, gid from geo.towns")
    write_layer(bronze / "other.geojson", [KIEL], label=["Kiel"])
    refused = await publish(stack, "other.geojson", table="towns", collection="places")
    assert refused.job.error
    assert refused.job.error.code == "publication.in_use"
    assert "view public.readers depends on view" in refused.job.error.message


async def test_v1_dropped_rows_are_in_a_warning(stack: Stack, bronze: Path) -> None:
    write_layer(bronze / "towns.gpkg", [BONN, Point(), KIEL, None, Point()], name=[*"abcde"])
    result = result_of(await publish(stack, "towns.gpkg", datetime="2026-03-21T00:00:00Z"))
    assert result["warnings"] == ["3 of 5 rows of the layer towns were dropped: 1 null_geometry, 2 empty_geometry."]


async def test_v1_values_that_are_lost_are_in_a_warning(stack: Stack, bronze: Path) -> None:
    shape = GeometryCollection([BONN, LineString([BONN, KIEL])])
    days = np.array(["2024-01-01"] * 3, "datetime64[ms]")
    frame = geopandas.GeoDataFrame({"day": days}, geometry=[shape] * 3, crs="EPSG:4326")
    make_geopackage(bronze / "roads.gpkg", ["update places set day = 'n/a' where fid = 2"], frame)
    result = result_of(await publish(stack, "roads.gpkg", datetime="2026-03-21T00:00:00Z"))
    lost, null = "rows of the layer places lost something", "values that are not of their column's type are null"
    assert [line for line in result["warnings"] if "lost" in line] == [
        f"1 {lost} (not_of_its_type): {null}, as in row 2 (column day: n/a).",
        f"3 {lost} (collection_parts_lost): {LOST['collection_parts_lost']}, as in row 1 (kept: MultiLineString).",
    ]


async def test_added_rows_fit_by_their_values_where_the_format_has_no_types(
    stack: Stack, bronze: Path, catalog_url: str
) -> None:
    async def add(name: str, text: str, table: str = "wells", **more: Any) -> JobDetail:
        (bronze / name).write_text(text)
        return await publish(stack, name, table=table, **more)

    result_of(await add("wells.csv", "lon,lat,code,n,day,depth\n7,50.5,A1,1,2024-02-29,1.5\n"))
    result_of(await add("more.csv", "lon,lat,code,n,day,depth\n7,50.5,17,,,\n8,51.5,2024-02-29,2,,2\n", mode="append"))
    write_layer(bronze / "nulls.geojson", [KIEL], code=["x"], n=[None], day=[None], depth=[None])
    result_of(await publish(stack, "nulls.geojson", table="wells", mode="append"))
    write_layer(bronze / "digits.geojson", [KIEL], code=[5], n=[3.0], day=[None], depth=[4])
    result_of(await publish(stack, "digits.geojson", table="wells", mode="append"))
    write_layer(bronze / "typed.gpkg", [KIEL], code=[5], n=[None], day=[None], depth=[None])
    typed = await publish(stack, "typed.gpkg", table="wells", mode="append")
    assert typed.job.error
    assert "code is bigint, not text" in typed.job.error.message, "the column of a format with types is what it says"
    found = rows(catalog_url, "select code, n, day::text, depth from geo.wells order by gid")
    assert [tuple(row.values()) for row in found] == [
        ("A1", 1, "2024-02-29", 1.5), ("17", None, None, None), ("2024-02-29", 2, None, 2.0), ("x", None, None, None),
        ("5", 3, None, 4.0),
    ]  # fmt: skip
    refused = await add("text.csv", "lon,lat,code,n,day,depth\n7,50.5,1.50,ten,2024-01-01,1\n", mode="append")
    assert refused.job.error
    assert "code is double precision, not text; n is text, not bigint" in refused.job.error.message
    refused = await add("part.csv", "lon,lat,code,n,day,depth\n7,50.5,b,1.5,2024-01-01,1\n", mode="append")
    assert refused.job.error
    assert "does not fit into geo.wells" in refused.job.error.message


async def test_added_rows_get_the_type_of_the_layer_and_new_numbers_and_its_item_stays_described(
    stack: Stack, bronze: Path, catalog_url: str
) -> None:
    shapes = [Point(7.1, 50.7, 60), MultiPoint([(6.9, 50.9, 50), (10.1, 54.3, 5)])]
    write_layer(bronze / "towns.geojson", shapes, Order=[1, 2])
    given = {"title": "Towns", "datetime": "2026-03-21T00:00:00Z"}
    result_of(await publish(stack, "towns.geojson", keep_z=True, **given))
    (before,) = rows(catalog_url, "select document -> 'properties' as said from app.catalog_items")
    with connect(catalog_url, Role.OWNER) as owner:  # as in a layer of a user's table
        ((part,),) = owner.execute("select table_name from app.published_tables").fetchall()
        owner.execute(f"update geo.{part} set gid = 7 where gid = 2")
    (bronze / "more.csv").write_text("Order,lon,lat\n3,8,51\n4,9,52\n")
    result = result_of(await publish(stack, "more.csv", table="towns", mode="append"))
    assert not [line for line in result["warnings"] if "time" in line]
    found = rows(catalog_url, "select gid, _order, st_asewkt(geom) as geom from geo.towns order by gid")
    assert [row["gid"] for row in found] == [1, 7, 8, 9]
    assert found[3] == {"gid": 9, "_order": 4, "geom": "SRID=4326;MULTIPOINT(9 52 0)"}
    (after,) = rows(catalog_url, "select document -> 'properties' as said from app.catalog_items")
    for name in ("title", "datetime", "table:columns"):
        assert after["said"][name] == before["said"][name], name
    assert before["said"]["table:columns"][2]["description"] == "Order in the source."

    (bronze / "points.csv").write_text("name,lon,lat\na,8,51\n")
    result_of(await publish(stack, "points.csv"))
    write_layer(bronze / "several.geojson", [MultiPoint([(1, 2), (3, 4)])], name=["b"])
    refused = await publish(stack, "several.geojson", table="points", mode="append")
    assert refused.job.error is not None
    assert refused.job.error.code == "vector.append_columns"


async def test_v3_rows_that_are_added_at_once_all_appear_once(stack: Stack, bronze: Path, catalog_url: str) -> None:
    write_layer(bronze / "towns.geojson", [BONN], name=["Bonn"])
    result_of(await publish(stack, "towns.geojson", title="Towns"))
    for number in range(4):
        added = [f"{number}{part}" for part in "abc"]
        write_layer(bronze / f"more{number}.geojson", [Point(number, 50)] * 3, name=added)
    review: dict[str, Any] = {"table": "towns", "mode": "append", "approval": True}
    sources = [f"bronze://in/more{number}.geojson" for number in range(4)]
    jobs = [await stack.submit("process_vector", source=source, **review) for source in sources]
    for job in jobs:  # all of them were made for the same number
        await stack.until(job, lambda found: any(node.is_waiting for node in found.nodes))
    for job in jobs:
        await stack.gateway.controls.signal(job, "review", {"approved": True}, "a reviewer")
    for job in jobs:
        result_of(await stack.wait(job))
    found = rows(catalog_url, "select gid, name from geo.towns order by gid")
    assert [row["gid"] for row in found] == list(range(1, 14))
    assert sorted(row["name"] for row in found) == sorted(["Bonn", *(f"{n}{part}" for n in range(4) for part in "abc")])
    (item,) = rows(catalog_url, "select document from app.catalog_items")
    assert (item["document"]["bbox"], item["document"]["properties"]["title"]) == ([0, 50, 7.1, 50.7], "Towns")
    assert item["document"]["properties"]["table:row_count"] == 13

    with connect(catalog_url, Role.OWNER) as owner:  # an attempt that repeats changes nothing of what is published
        done = owner.execute("select app.renumber_layer_table(table_name, 100) from app.published_tables").fetchall()
    assert set(done) == {(False,)}
    reasons = {row["reason"] for row in rows(catalog_url, "select reason from app.publications where kind = 'item'")}
    assert reasons == {None, *(f"the rows of more{number}.geojson were added" for number in range(4))}
    assert [row["gid"] for row in rows(catalog_url, "select gid from geo.towns order by gid")] == list(range(1, 14))

    late = await publish(stack, "more0.geojson", table="towns", mode="append", expected=4)
    assert late.job.error
    assert "is at number 5 by now, not 4" in late.job.error.message


async def test_several_layers_and_kinds_of_geometry_become_several_tables(
    stack: Stack, bronze: Path, catalog_url: str
) -> None:
    square = Polygon([(7, 50), (8, 50), (8, 51), (7, 51)])
    write_layer(bronze / "map.gpkg", [BONN], layer="towns", name=["Bonn"])
    write_layer(bronze / "map.gpkg", [LineString([BONN, KIEL])], layer="roads", name=["way"])
    result = result_of(await publish(stack, "map.gpkg"))
    assert sorted(item["id"] for item in result["items"]) == ["map_roads", "map_towns"]
    write_layer(bronze / "mixed.geojson", [BONN, square, KIEL], name=["a", "b", "c"])
    result = result_of(await publish(stack, "mixed.geojson"))
    assert sorted(item["id"] for item in result["items"]) == ["mixed_points", "mixed_polygons"]
    assert names(catalog_url, "mixed_points") == ["a", "c"]
    assert rows(catalog_url, "select distinct geometrytype(geom) as type from geo.mixed_polygons") == [
        {"type": "MULTIPOLYGON"}
    ]


async def test_v1_what_is_dropped_and_repaired_is_reported(stack: Stack, bronze: Path, tmp_path: Path) -> None:
    bow = Polygon([(7, 50), (8, 51), (8, 50), (7, 51)])
    write_layer(bronze / "areas.geojson", [bow, Polygon(), bow.buffer(0)], name=["bow", "empty", "part"])
    result = result_of(await publish(stack, "areas.geojson"))
    (layer,) = json.loads((tmp_path / result["report"].replace("://", "/")).read_text())["layers"]
    assert layer["rows"] == layer["written"] + sum(count["count"] for count in layer["dropped"].values()) == 3
    assert layer["written"] == 2
    assert sum(count["count"] for count in layer["changed"].values()) >= 1


async def test_v1_a_layer_of_which_nothing_is_left_is_reported_with_its_rows(
    stack: Stack, bronze: Path, tmp_path: Path
) -> None:
    write_layer(bronze / "map.gpkg", [BONN], layer="towns")
    write_layer(bronze / "map.gpkg", [Polygon(), None, Polygon()], layer="areas")
    write_layer(bronze / "map.gpkg", [], layer="plans")
    result = result_of(await publish(stack, "map.gpkg"))
    assert [item["id"] for item in result["items"]] == ["map"]
    layers = json.loads((tmp_path / result["report"].replace("://", "/")).read_text())["layers"]
    assert [(layer["layer"], layer["rows"], layer["written"]) for layer in layers] == [
        ("towns", 1, 1), ("areas", 3, 0), ("plans", 0, 0)
    ]  # fmt: skip
    dropped = layers[1]["dropped"]
    assert {why: found["count"] for why, found in dropped.items()} == {"null_geometry": 1, "empty_geometry": 2}
    assert result["warnings"][1:] == [
        "The layer areas was left out, because all of its 3 rows were dropped: 1 null_geometry, 2 empty_geometry.",
        "The layer plans has no features, and was left out.",
    ]


def damage_files(folder: Path) -> tuple[bytes, bytes]:
    """A GeoPackage with a page in its middle that can't be read, and a FlatGeobuf of which GDAL reads two thirds."""
    frame = geopandas.GeoDataFrame({"text": ["x" * 30] * 3000}, geometry=[BONN] * 3000, crs=4326)
    data, page = bytearray(make_geopackage(folder / "whole.gpkg", [], frame).read_bytes()), 4096
    middle = len(data) // page // 2 * page
    data[middle : middle + page] = b"\xff" * page
    rows = write_frame(frame, folder / "whole.fgb").read_bytes()
    return bytes(data), rows[: len(rows) * 2 // 3]


async def test_a_refused_file_leaves_nothing(stack: Stack, bronze: Path, catalog_url: str, tmp_path: Path) -> None:
    package, rows_cut = damage_files(tmp_path)
    files: dict[str, tuple[str | bytes, str]] = {
        "broken.geojson": ('{"type": "FeatureCollection", "features": [}', "vector.json"),
        "empty.gpkg": ("", "vector.empty"),
        "half.csv": ("lat,name\n1,a\n", "vector.csv"),
        "none.kml": ('<kml xmlns="http://www.opengis.net/kml/2.2"><Document/></kml>', "vector.kml"),
        "swapped.csv": ("lat,lon\n7,50\n200,100\n", "vector.bad_rows"),
        "several.csv": ('wkt,n\n"SRID=4326;POINT(7 50)",1\n"SRID=25832;POINT(7 50)",2\n', "vector.crs_conflict"),
        "damaged.gpkg": (package, "vector.damaged"),
        "cut.fgb": (rows_cut, "vector.damaged"),
    }
    for name, (content, _) in files.items():
        (bronze / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    jobs = [await stack.submit("process_vector", source=f"bronze://in/{name}") for name in files]
    errors = [(await stack.wait(job)).job.error for job in jobs]
    assert [error and error.code for error in errors] == [code for _, code in files.values()]
    assert rows(catalog_url, "select relname from pg_class where relnamespace = 'geo'::regnamespace") == []
    assert rows(catalog_url, "select name from app.layer_tables") == []
    assert rows(catalog_url, "select id from app.catalog_items") == []
    with pytest.raises(InputError, match="append needs `table`"):
        await stack.submit("process_vector", source="bronze://in/x.gpkg", mode="append")
    with pytest.raises(InputError, match="there is no CRS EPSG:1"):
        await stack.submit("process_vector", source="bronze://in/x.gpkg", crs="EPSG:1")
    with pytest.raises(InputError, match="geoparquet"):
        await stack.submit("process_vector", source="bronze://in/x.gpkg", exports=["shapefile"])


async def test_a_source_that_was_replaced_or_removed_since_its_preflight_is_noticed(
    stack: Stack, bronze: Path, catalog_url: str
) -> None:
    """A retry does not repeat the preflight, so that it finds the file as it is now."""
    path = bronze / "towns.geojson"
    path.write_text("{")
    refused = await publish(stack, "towns.geojson")
    assert (refused.job.error and refused.job.error.code) == "vector.json"
    write_layer(path, [BONN], name=["Bonn"])
    replaced = await retry(stack, refused)
    path.unlink()
    removed = await retry(stack, refused)
    assert [(error.code, error.node) for error in (replaced, removed)] == [
        ("source.changed", "clean"), ("storage.not_found", "clean")
    ]  # fmt: skip
    assert "bronze://in/towns.geojson was replaced since it was first checked" in replaced.message
    assert rows(catalog_url, "select name from app.layer_tables") == []
    assert rows(catalog_url, "select id from app.catalog_items") == []


async def retry(stack: Stack, job: JobDetail) -> Failure:
    """Why a job failed again."""
    await stack.gateway.controls.retry(job.job.job_id, RetryChoice(), "test")
    error = (await stack.wait(job.job.job_id)).job.error
    assert error is not None
    return error


async def test_p6_nothing_is_visible_before_it_is_approved(stack: Stack, bronze: Path, catalog_url: str) -> None:
    write_layer(bronze / "towns.geojson", [BONN], name=["Bonn"])
    job = await stack.submit("process_vector", source="bronze://in/towns.geojson", approval=True, exports=["csv"])
    await stack.until(job, lambda detail: any(node.is_waiting for node in detail.nodes))
    assert rows(catalog_url, "select name from app.layers") == []
    await stack.gateway.controls.signal(job, "review", {"approved": True}, "a reviewer")
    result = result_of(await stack.wait(job))
    assert [output["kind"] for output in result["outputs"]] == ["table", "report", "csv"]
    assert names(catalog_url, "towns") == ["Bonn"]


async def test_exports_are_files_of_each_item_and_the_job_answers_while_they_are_shown(
    stack: Stack, bronze: Path, catalog_url: str, tmp_path: Path
) -> None:
    write_layer(bronze / "map.gpkg", [BONN], layer="towns", name=["Bonn"])
    write_layer(bronze / "map.gpkg", [LineString([BONN, KIEL])], layer="roads", name=["A 1"])
    wishes: dict[str, Any] = {"exports": ["geoparquet", "csv"], "reason": "delivery 7"}

    job = await publish(stack, "map.gpkg", **wishes)

    result = result_of(job)
    assert [output["kind"] for output in result["outputs"]] == [
        "table", "table", "report", "geoparquet", "csv", "geoparquet", "csv",
    ]  # fmt: skip
    assert [item["id"] for item in result["items"]] == ["map_towns", "map_roads"]
    for item in rows(catalog_url, "select document from app.catalog_items"):
        assert set(item["document"]["assets"]) == {"data", "report", "geoparquet", "csv"}
    towns = next(each["href"] for each in result["outputs"] if each["href"].endswith("map_towns.parquet"))
    assert list(geopandas.read_parquet(tmp_path / towns.replace("://", "/"))["name"]) == ["Bonn"]
    said = rows(catalog_url, "select distinct reason from app.publications where kind = 'item'")
    assert said == [{"reason": "delivery 7"}]
    assert (await publish(stack, "map.gpkg", **wishes)).job.job_id == job.job.job_id  # what it made is shown
