"""Published collections become a static catalog and a stac-geoparquet file, which other programs read."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import geopandas
import psycopg
import pyarrow.parquet as pq
import pystac
import pytest
import shapely
from psycopg import Connection
from psycopg.rows import TupleRow

from anabranch.adapters.postgres.connect import Role, connect
from anabranch.embedded.cluster import Cluster
from anabranch.engine.model import JobState
from anabranch.engine.read_models import JobDetail
from anabranch.engine.submitting.submission import Order
from anabranch.errors import InputError
from anabranch.plugins.stac.catalog import By, act, ensure_collection
from anabranch.plugins.stac.collection import CollectionFacts
from anabranch.testing.postgres import Databases
from tests.support.serving import Served, serve_api
from tests.support.stac_items import make_collection, make_item, write_ndjson
from tests.support.stack import Stack, open_stack
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.postgres

ANN = By(actor="ann", reason="a test")
EXTENSION = "https://example.com/unknown/v1.0.0/schema.json"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("export")


@pytest.fixture(scope="module")
def url(postgres: Cluster, postgres_admin: Connection[TupleRow], catalog_template: str) -> str:
    return Databases(postgres, postgres_admin).make(catalog_template)


@pytest.fixture(scope="module")
def served(url: str, home: Path) -> Iterator[Served]:
    with serve_api(url, home) as api:
        yield api


@pytest.fixture
async def stack(url: str, home: Path) -> AsyncIterator[Stack]:
    async with asyncio.timeout(PATIENCE_SECONDS), open_stack(url, home, [], stac_export_max_items=5) as it:
        yield it


def result_of(job: JobDetail) -> Any:  # as the workflow's output says
    assert job.job.state is JobState.COMPLETED, job.job.error
    return job.job.result


def code_of(job: JobDetail) -> str:
    assert job.job.error
    return job.job.error.code


async def publish_layer(stack: Stack, home: Path) -> None:
    """The layer and item `towns` of the collection `layers`."""
    frame = geopandas.GeoDataFrame({"name": ["Bonn"]}, geometry=[shapely.Point(7.1, 50.7)], crs="EPSG:4326")
    (home / "bronze").mkdir(exist_ok=True)
    frame.to_file(home / "bronze" / "towns.geojson", engine="pyogrio")
    wishes = {"table": "towns", "collection": "layers", "datetime": "2020-01-01T00:00:00Z"}
    result_of(await stack.run("process_vector", source="bronze://towns.geojson", **wishes))


async def ingest_scenes(stack: Stack, home: Path, *names: str) -> None:
    """Items of the collection `scenes`, of which one has three dimensions and an unknown extension."""
    items = [make_item(name) for name in names]
    high = {"bbox": [7, 50, -3, 8, 51, 9.5], "stac_extensions": [EXTENSION]}
    name = f"{'-'.join(names)}.ndjson"
    write_ndjson(home / "bronze" / name, [make_collection(), items[0] | high, *items[1:]])
    result_of(await stack.run("stac_ingest", source=f"bronze://{name}"))


def find_publication(url: str, item: str) -> str:
    query = "select source from app.current_publications where kind = 'item' and key = %s"
    with psycopg.connect(url) as connection:
        return str(connection.execute(query, [item]).fetchall()[0][0])


def list_ids(catalog: pystac.Catalog) -> list[str]:
    return sorted(f"{item.collection_id}/{item.id}" for item in catalog.get_items(recursive=True))


def shown_items(url: str, collection: str) -> dict[str, Any]:
    query = "select id, jsonb_strip_nulls(document) from app.catalog_items where collection = %s"
    with psycopg.connect(url) as connection:
        return dict(connection.execute(query, [collection]).fetchall())


async def test_other_programs_read_what_is_exported_and_its_assets(
    stack: Stack, served: Served, url: str, home: Path
) -> None:
    await publish_layer(stack, home)
    await ingest_scenes(stack, home, "a", "b")
    root = str(served.client.base_url).rstrip("/")
    wishes: Any = {"collections": ["scenes", "layers"], "name": "all", "title": "All", "base_url": root}

    result = result_of(await stack.run("export_catalog", **wishes))

    assert (result["exported"], result["changed"], result["items"]) == (3, 1, [{"collection": "exports", "id": "all"}])
    hrefs = {output["kind"]: output["href"] for output in result["outputs"]}
    files = {kind: home / href.replace("://", "/") for kind, href in hrefs.items()}
    ids = ["layers/towns", "scenes/a", "scenes/b"]
    catalog = pystac.Catalog.from_file(str(files["static_catalog"]))
    assert (catalog.id, catalog.title, list_ids(catalog)) == ("all", "All", ids)
    remote = f"{root}/files/p/{find_publication(url, 'exports/all')}/catalog.json"
    assert list_ids(pystac.Catalog.from_file(remote)) == ids  # relative links lead to files of the publication

    towns = next(item for item in catalog.get_items(recursive=True) if item.id == "towns")
    assert served.client.get(urlsplit(towns.assets["report"].href).path).status_code == 200
    assert served.client.get(urlsplit(towns.assets["data"].href).path).json()["numberMatched"] == 1

    frame = geopandas.read_parquet(files["stac_geoparquet"])
    assert sorted(frame["collection"] + "/" + frame["id"]) == ids
    boxes = {row["id"]: row["bbox"] for row in pq.read_table(files["stac_geoparquet"]).to_pylist()}
    assert (boxes["a"]["zmax"], boxes["b"]["xmax"], boxes["b"]["zmin"]) == (9.5, 8.0, None)
    assert frame.set_index("id").geometry["b"].equals(shapely.box(7, 50, 8, 51))
    near = geopandas.read_parquet(files["stac_geoparquet"], bbox=(7.05, 50.65, 7.15, 50.75))
    assert sorted(near["id"]) == ["a", "b", "towns"]
    assert str(frame["datetime"].dtype).startswith("datetime64")

    await round_trip(stack, url, hrefs["stac_geoparquet"], "copies")
    await round_trip(stack, url, hrefs["static_catalog"], "more-copies")


async def round_trip(stack: Stack, url: str, source: str, collection: str) -> None:
    """An export can be ingested; the items are those that were exported."""
    done = result_of(await stack.run("stac_ingest", source=source, collection=collection))
    assert (done["accepted"], done["refused"]) == (3, 0), done["refusals"]
    copies, scenes = shown_items(url, collection), shown_items(url, "scenes")
    for item in ("a", "b"):
        assert copies[item] | {"collection": "scenes"} == scenes[item]


async def test_p5_an_unchanged_export_stays_and_a_former_one_comes_back(
    stack: Stack, served: Served, url: str, home: Path
) -> None:
    await ingest_scenes(stack, home, "a", "b")
    wishes: Any = {"collections": ["scenes"], "base_url": "https://data.example.org/anb"}
    assert result_of(await stack.run("export_catalog", **wishes))["changed"] == 1
    first = find_publication(url, "exports/scenes")
    assert result_of(await stack.run("export_catalog", **wishes))["changed"] == 0

    await ingest_scenes(stack, home, "a", "b", "c")
    assert result_of(await stack.run("export_catalog", **wishes))["changed"] == 1
    added = "collections/scenes/items/c.json"
    assert served.client.get(f"/files/current/exports/scenes/{added}").status_code == 302
    assert served.client.get(f"/files/p/{first}/{added}").status_code == 404
    with connect(url, Role.HANDLER) as connection:
        act(connection, "rollback", "exports", "scenes", ANN)
        assert served.client.get(f"/files/current/exports/scenes/{added}").status_code == 404
        act(connection, "withdraw", "exports", "scenes", ANN)
    assert served.client.get(f"/files/p/{first}/catalog.json").status_code == 410


async def test_an_export_that_can_not_be_made_is_refused_by_name(stack: Stack, url: str, home: Path) -> None:
    root: Any = {"base_url": "https://data.example.org"}
    with connect(url, Role.HANDLER) as connection:
        ensure_collection(connection, CollectionFacts(id="empty"))
    with connect(url, Role.OWNER) as connection:
        connection.execute("update app.publication_keys set owner = 'default' where key = 'empty'")
    await ingest_scenes(stack, home, "a", "b", "c", "d", "e", "f")
    refused: dict[str, Any] = {
        "export.no_url": {"collections": ["scenes"]},
        "catalog.no_collection": {"collections": ["nothing"], **root},
        "export.empty": {"collections": ["empty"], **root},
        "export.too_many": {"collections": ["scenes"], **root},
    }
    assert {code: code_of(await stack.run("export_catalog", **wishes)) for code, wishes in refused.items()} == {
        code: code for code in refused
    }
    wrong: list[dict[str, Any]] = [{"collections": ["a", "b"]}, {"collections": ["a/b"]}, {"base_url": "data.org"}]
    for inputs in wrong:
        with pytest.raises(InputError):
            await stack.submit("export_catalog", **{"collections": ["scenes"], **inputs})


async def test_s1_a_collection_of_another_platform_is_exported_like_one_that_does_not_exist(
    stack: Stack, home: Path
) -> None:
    await ingest_scenes(stack, home, "a")
    wishes: Any = {"collections": ["scenes"], "base_url": "https://data.example.org"}
    order = Order("export_catalog", wishes, scope="other", by="x", correlation_id="x")
    job = await stack.wait((await stack.gateway.submit(order)).job_id)
    assert code_of(job) == "catalog.no_collection"
