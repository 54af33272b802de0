"""The tiers and the database are compared: what lost is found and swept, and what is published is not touched."""

import asyncio
import json
import shutil
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import Connection
from psycopg.rows import TupleRow

from anabranch.adapters.postgres.store.objects.audited import PostgresRecords
from anabranch.app import open_purge, open_tiers
from anabranch.embedded.cluster import Cluster
from anabranch.errors import NotFound
from anabranch.settings import Settings
from anabranch.storage.attempt_keys import attempt_key
from anabranch.storage.audit import Audit, Fault
from anabranch.testing.postgres import Databases
from tests.support.rasters import classes, make_raster
from tests.support.stack import open_stack

pytestmark = pytest.mark.postgres

NOW = timedelta(0)


@dataclass(frozen=True)
class Published:
    """A raster that is published: its database, its home, and what its job returned."""

    database: str
    home: Path
    result: dict[str, Any]


@pytest.fixture(scope="module")
def original(
    postgres: Cluster,
    postgres_admin: Connection[TupleRow],
    catalog_template: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Published:
    """Published once; the tests change copies."""
    url = Databases(postgres, postgres_admin).make(catalog_template)
    home = tmp_path_factory.mktemp("original")
    (home / "bronze").mkdir()
    make_raster(home / "bronze" / "map.tif", classes(200, 200))

    async def publish() -> Any:  # the job's result
        async with open_stack(url, home, []) as stack:
            job = await stack.run("process_raster", source="bronze://map.tif")
            assert job.job.error is None
            return {**job.job.result, "job_id": job.job.job_id}  # type: ignore[dict-item]  # an object, by the workflow

    return Published(url.rpartition("/")[2], home, asyncio.run(publish()))


@pytest.fixture
def catalog_url(databases: Databases, original: Published) -> str:
    """A copy of the database."""
    return databases.make(original.database)


@pytest.fixture
def published(original: Published, tmp_path: Path) -> dict[str, Any]:
    """What the job returned; a copy of its home is `tmp_path`."""
    shutil.copytree(original.home, tmp_path, dirs_exist_ok=True)
    return original.result


def audit(url: str, home: Path) -> tuple[dict[str, Fault], Callable[[timedelta], int]]:
    """What is found, and how to sweep it."""
    with closing(PostgresRecords(url)) as records:
        made = Audit(open_tiers(Settings(home=home)), records)
        found = list(made.find())
    return {one.address: one.fault for one in found}, partial(made.sweep, found)


def put(home: Path, job_id: str, attempt: int, name: str) -> str:
    address = f"silver://{attempt_key(job_id, 'cogs', 0, attempt, name)}"
    open_tiers(Settings(home=home)).put(address, b"bytes")
    return address


async def test_what_lost_or_has_no_job_is_found_and_swept_and_nothing_else(
    catalog_url: str, tmp_path: Path, published: Any
) -> None:
    loser = put(tmp_path, published["job_id"], 7, "map.tif")
    orphan = put(tmp_path, "ab" * 32, 1, "map.tif")

    faults, sweep = audit(catalog_url, tmp_path)
    assert faults == {loser: Fault.UNACCEPTED, orphan: Fault.ORPHAN}

    assert sweep(timedelta(hours=1)) == 0
    assert sweep(NOW) == 2
    assert audit(catalog_url, tmp_path)[0] == {}
    kept = open_tiers(Settings(home=tmp_path))
    assert all(kept.stat(output["href"]).size == output["size"] for output in published["outputs"])


async def test_what_is_published_and_gone_or_cut_is_told_and_never_swept(
    catalog_url: str, tmp_path: Path, published: Any
) -> None:
    gone, cut = (output["href"] for output in published["outputs"][:2])
    place = {address: tmp_path / address.replace("://", "/") for address in (gone, cut)}
    place[gone].unlink()
    place[cut].write_bytes(b"cut")

    faults, sweep = audit(catalog_url, tmp_path)

    assert faults == {gone: Fault.MISSING, cut: Fault.DAMAGED}
    assert sweep(NOW) == 0


async def test_bytes_that_changed_are_found_by_their_checksum(catalog_url: str, tmp_path: Path, published: Any) -> None:
    cog = published["outputs"][0]
    place = tmp_path / cog["href"].replace("://", "/")
    place.write_bytes(bytes(cog["size"]))
    with closing(PostgresRecords(catalog_url)) as records:
        made = Audit(open_tiers(Settings(home=tmp_path)), records)
        assert list(made.find()) == []
        assert [(found.fault, found.address) for found in made.find(checksums=True)] == [(Fault.DAMAGED, cog["href"])]


async def test_o5_what_a_purged_job_left_goes_but_for_what_is_published(
    catalog_url: str, tmp_path: Path, published: Any
) -> None:
    loser = put(tmp_path, published["job_id"], 7, "map.tif")
    async with open_purge(Settings(home=tmp_path), catalog_url, NOW) as purge:
        async for _ in purge.batches():
            pass
    kept = open_tiers(Settings(home=tmp_path))
    with pytest.raises(NotFound):
        kept.stat(loser)
    assert all(kept.stat(output["href"]).size == output["size"] for output in published["outputs"])
    assert audit(catalog_url, tmp_path)[0] == {}


async def test_a6_results_in_the_work_area_are_held_against_what_refers_to_them(
    catalog_url: str, tmp_path: Path, published: Any
) -> None:
    area = open_tiers(Settings(home=tmp_path)).work
    kept, gone = f"results/{published['job_id']}/cogs/1-kept.json", f"results/{published['job_id']}/cogs/1-gone.json"
    area.put(kept, b"kept")
    with psycopg.connect(catalog_url) as connection:
        refer = (
            "update app.outcomes o set reference = %s where (o.lane, o.idx) = (select lane, idx from app.outcomes {})"
        )
        for key, other in ((kept, "order by lane limit 1"), (gone, "order by lane desc limit 1")):
            reference = json.dumps({"href": key, "size": 4, "sha256": ""})
            connection.execute(refer.format(other).encode(), (reference,))
    loser, orphan = f"results/{published['job_id']}/cogs/1-loser.json", f"results/{'ab' * 32}/cogs/1-orphan.json"
    left = str(attempt_key("ab" * 32, "cogs", 0, 1, "file"))
    for key in (loser, orphan, left, str(attempt_key(published["job_id"], "cogs", 0, 1, "for a retry"))):
        area.put(key, b"")

    faults, sweep = audit(catalog_url, tmp_path)
    assert faults == {
        f"work://{gone}": Fault.MISSING,
        f"work://{loser}": Fault.UNACCEPTED,
        f"work://{orphan}": Fault.ORPHAN,
        f"work://{left}": Fault.ORPHAN,
    }
    assert sweep(NOW) == 3
    assert area.stat(kept).size == 4


async def test_objects_of_a_job_that_runs_are_its_own(catalog_url: str, tmp_path: Path, published: Any) -> None:
    with psycopg.connect(catalog_url) as connection:
        connection.execute("alter table app.jobs disable trigger all")
        connection.execute("update app.jobs set state = 'running'")
    put(tmp_path, published["job_id"], 7, "map.tif")
    assert audit(catalog_url, tmp_path)[0] == {}
