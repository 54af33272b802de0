"""Everything is lost but the backup: a new home serves what the old one served, and its jobs continue."""

import asyncio
import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import morecantile
import pytest

from anabranch.backup.restore import restore_backup
from anabranch.backup.write import write_backup
from anabranch.errors import Conflict
from anabranch.settings import Settings
from tests.support.crew import Crew, Start, open_stage
from tests.support.running_stack import RunningStack, run_stack, wait_until
from tests.support.waiting import PATIENCE_SECONDS, wait_until_async

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


async def test_e3_a_worker_of_the_old_history_is_refused_and_joins_the_new_one(
    database_url: str, plugins: Path, tmp_path: Path
) -> None:
    """It is held up while the database is restored under it, and then reports what it did before."""
    gate, backup, home = tmp_path / "gate", tmp_path / "backup", tmp_path / "crew" / "home"
    settings = Settings(home=home, database_url=database_url)  # type: ignore[arg-type]  # a secret
    for name in ("crew", "first", "second"):
        (tmp_path / name).mkdir()
    for name in ("first", "second"):
        (tmp_path / name / "home").symlink_to(home)
    crew = Crew(Start(tmp_path / "crew", plugins, database_url))
    try:
        (worker,) = await crew.start_ready("worker")
        async with open_stage(Start(tmp_path / "first", plugins, database_url)) as stage:
            job = await stage.submit("waits", file=str(gate))
            await stage.until(job, lambda found: found.nodes[0].tasks.running)
            await asyncio.to_thread(write_backup, settings, database_url, backup)
        worker.send(signal.SIGSTOP)
        gate.write_text("old")  # its handler ends, and nobody hears of it yet
        await wait_until_async(lambda: _restore_over(settings, backup), "an end of all leases")
        gate.write_text("new")
        worker.send(signal.SIGCONT)
        await worker.started(sessions=2)
        async with open_stage(Start(tmp_path / "second", plugins, database_url)) as stage:
            await stage.crew.start_ready("orchestrator")
            await stage.finish(job)
            assert stage.query("select attempt, result ->> 'seen' from app.outcomes where result ? 'seen'") == [
                (2, "new")
            ]
    finally:
        crew.close()


def _restore_over(settings: Settings, backup: Path) -> bool:
    try:
        restore_backup(settings, backup, overwrite=True)
    except Conflict as error:
        if error.code != "database.in_use":
            raise
        return False
    else:
        return True
