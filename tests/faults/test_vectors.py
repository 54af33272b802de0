"""A million rows outlive kill -9 of workers and of PostgreSQL; the old table serves until the switch (V3, E21)."""

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import geopandas
import numpy as np
import psycopg
import pytest
import shapely

from anabranch.client import Client
from tests.support.running_stack import RunningStack, run_stack, wait_until

pytestmark = pytest.mark.postgres

ROWS = 1_000_000
COPIED = """select count(*) from app.loaded_chunks c join app.layer_tables t on t.name = c.table_name
             where t.rows is null"""
SHOWN = "select count(*), sum(n)::bigint, min(st_xmin(geom)), max(st_ymax(geom)) from geo.places"


@pytest.fixture
def stack() -> Iterator[RunningStack]:
    with run_stack(VECTOR_CHUNK_MB="1") as made:
        yield made


def write_points(path: Path, numbers: Any) -> Path:
    """Points along a diagonal, each with its number."""
    shapes = shapely.points(-170 + numbers / 10_000, -40 + numbers / 20_000)
    names = [f"place {number}" for number in numbers]
    geopandas.GeoDataFrame({"n": numbers, "name": names}, geometry=shapes, crs="EPSG:4326").to_parquet(path)
    return path


class Reader(threading.Thread):
    """Reads the published layer again and again, and keeps what it saw, each once."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self._url, self._stop_now = url, threading.Event()
        self.seen: list[tuple[Any, ...]] = []
        self.wrong: list[str] = []

    def run(self) -> None:
        while not self._stop_now.wait(0.05):
            try:
                with psycopg.connect(self._url) as connection:
                    found = connection.execute(SHOWN.encode()).fetchone() or ()
            except psycopg.OperationalError:
                continue  # PostgreSQL was killed
            except psycopg.Error as error:
                self.wrong.append(str(error))
                continue
            if found not in self.seen[-1:]:
                self.seen.append(found)

    def end(self) -> None:
        self._stop_now.set()
        self.join()


def publish(client: Client, source: Path) -> str:
    address = client.upload(source).address
    return client.submit("process_vector", {"source": address, "table": "places", "collection": "places"}).job_id


@pytest.mark.slow
def test_v3_e21_a_million_rows_outlive_the_death_of_workers_and_of_the_database(stack: RunningStack) -> None:
    old, new = np.arange(3), np.arange(ROWS) + 7
    sources = [write_points(stack.folder / f"{name}.parquet", rows) for name, rows in (("old", old), ("new", new))]
    url, postmaster = stack.call("db", "url").strip(), stack.postmaster()
    with stack.client() as client:
        first = publish(client, sources[0])
        assert wait_until(lambda: (job := client.job(first)).ended and job).succeeded
        reader = Reader(url)
        reader.start()
        job_id = publish(client, sources[1])

        def tasks(node: str, status: str) -> list[Any]:
            return [task for task in client.all_tasks(job_id, node=node) if task.status == status]

        def kill_worker() -> None:
            os.kill(stack.worker(), signal.SIGKILL)

        def is_copying(attempt: int) -> bool:
            """Whether this attempt has copied a few files."""
            with psycopg.connect(url) as connection:
                (chunks,) = connection.execute(COPIED).fetchone() or (0,)
            return chunks >= 3 and any(task.attempts == attempt for task in tasks("clean", "running"))

        wait_until(lambda: is_copying(1), seconds=300)
        kill_worker()
        wait_until(lambda: is_copying(2), seconds=300)
        os.kill(postmaster, signal.SIGKILL)
        wait_until(lambda: tasks("finish", "running"), seconds=300)
        kill_worker()
        job = wait_until(lambda: (found := client.job(job_id)).ended and found, seconds=300)
        attempts = {
            node: max(task.attempts for task in client.all_tasks(job_id, node=node)) for node in ("clean", "finish")
        }
    reader.end()

    assert job.succeeded, job.error
    assert min(attempts.values()) > 1, "both were amid their work"
    end = -170 + (ROWS + 6) / 10_000, -40 + (ROWS + 6) / 20_000
    expected = [(3, 3, -170.0, -40 + 2 / 20_000), (ROWS, int(new.sum()), -170 + 7 / 10_000, end[1])]
    assert reader.seen == expected, "the old rows until the new ones are there, and nothing between"
    assert reader.wrong == []
    with psycopg.connect(url) as connection:
        tables = connection.execute("select count(*) from app.layer_tables").fetchone()
    assert tables == (2,), "no attempt left another table"
