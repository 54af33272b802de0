"""Everything is lost but the backup: a new home serves what the old one served, and its jobs continue."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import morecantile
import pytest

from tests.support.running_stack import RunningStack, run_stack, wait_until
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = [pytest.mark.postgres, pytest.mark.slow]

PLUGIN = """
import time
from pathlib import Path
from anabranch import Job, register_handler, register_job

@register_job
class Waits(Job):
    job_type = "waits"
    stages = [{"number": 1, "name": "wait", "task_type": "wait_for"}]

@register_handler("wait_for")
def wait_for(params: dict) -> dict:
    while not Path(params["file"]).exists():
        time.sleep(0.02)
    return {"seen": Path(params["file"]).read_text()}
"""
PATHS = (
    "/stac/collections",
    "/stac/collections/demo/items?limit=100",
    "/features/collections",
)


@pytest.fixture
def plugins(tmp_path: Path) -> Path:
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "waits.py").write_text(PLUGIN)
    return tmp_path / "plugins"


@contextmanager
def restore(backup: Path, **settings: str) -> Iterator[RunningStack]:
    """A stack in a new home that a backup was restored into."""
    folder = backup.parent / "elsewhere"
    folder.mkdir()
    stack = RunningStack(folder, **settings)
    stack.call("restore", str(backup))
    stack.call("up", "--detach", "--workers", "1")
    try:
        yield stack
    finally:
        stack.call("down", "--purge", "--yes")


def read_all(url: str, links: list[str]) -> dict[str, Any]:
    """What a stack serves: pages of the catalog and of features, files, and tiles, without its own address."""
    with httpx.Client(base_url=url, timeout=PATIENCE_SECONDS, follow_redirects=True) as client:
        found = {path: client.get(path) for path in (*PATHS, *links)}
    assert {path: answer.status_code for path, answer in found.items()} == dict.fromkeys(found, 200)
    return {path: answer.content.replace(url.encode(), b"") for path, answer in found.items()}


def test_o4_a_new_home_serves_what_was_served_and_running_jobs_continue(plugins: Path) -> None:
    gate = plugins.parent / "gate"
    with run_stack(PLUGINS=str(plugins), SLOTS="2") as stack, stack.client() as client:
        links = _links(json.loads(stack.call("demo", "--json"))["files"], client.base_url)
        served = read_all(client.base_url, links)
        waiting = stack.call("submit", "waits", "-p", f"file={gate}").strip()
        wait_until(lambda: client.job(waiting).tasks.running)
        many = [stack.call("submit", "hello_world", "-p", f"n={n}").strip() for n in (300, 301, 302)]
        stack.call("backup", str(stack.folder / "backup"))
        stack.call("submit", "hello_world", "-p", "n=5", "--wait")
        with restore(stack.folder / "backup", PLUGINS=str(plugins), SLOTS="2") as new, new.client() as restored:
            assert read_all(restored.base_url, links) == served
            gate.write_text("new")
            for job in (waiting, *many):
                assert restored.wait(job, timeout=PATIENCE_SECONDS).succeeded
            assert [task["attempts"] for task in json.loads(new.call("tasks", waiting, "--json"))] == [2]
            assert json.loads(new.call("storage", "audit", "--json", "--checksums"))["findings"] == []
            for check in (("db", "audit"), ("db", "check"), ("db", "catalog", "check")):
                new.call(*check)
            new.call("submit", "hello_world", "-p", "n=5", "--wait")  # what came after the backup runs again


def _links(files: list[dict[str, Any]], url: str) -> list[str]:
    kinds = ("cog", "preview", "features", "item")
    found = [link.removeprefix(url) for one in files for name, link in one.items() if name in kinds]
    return found + _tiles(url)


def _tiles(url: str) -> list[str]:
    """The description of the tiles of each raster, and the one tile that has its centre, at the smallest zoom."""
    found = []
    with httpx.Client(base_url=url, timeout=PATIENCE_SECONDS) as client:
        items = client.get("/stac/collections/demo/items?limit=100").json()["features"]
        for item in items:
            path = f"/raster/collections/demo/items/{item['id']}"
            described = client.get(f"{path}/WebMercatorQuad/tilejson.json")
            if described.status_code == 200:
                west, south, east, north = described.json()["bounds"]
                tile = morecantile.tms.get("WebMercatorQuad").tile(
                    (west + east) / 2, (south + north) / 2, described.json()["minzoom"]
                )
                found += [
                    f"{path}/WebMercatorQuad/tilejson.json",
                    f"{path}/tiles/WebMercatorQuad/{tile.z}/{tile.x}/{tile.y}.png",
                ]
    assert len(found) == 6
    return found
