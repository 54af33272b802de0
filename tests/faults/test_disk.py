"""Disks are full: for scratch and results, for logs, and for the database."""

import asyncio
import itertools
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from anabranch.adapters.postgres.schema.migrate import migrate
from anabranch.canonical import Json
from anabranch.embedded.cluster import Cluster
from anabranch.embedded.home import Home
from anabranch.engine.submitting.submission import Order
from anabranch.errors import Conflict, Unavailable
from tests.support.campaign import open_campaign
from tests.support.crew import Stage, Start, open_stage
from tests.support.faults import DISK, fill
from tests.support.waiting import PATIENCE_SECONDS, wait_until_async

pytestmark = [pytest.mark.postgres, pytest.mark.slow]
PLUGINS = Path(__file__).parent / "plugins"


@contextmanager
def small_disk(folder: Path, megabytes: int) -> Iterator[None]:
    """A file system of this size on a folder."""
    folder.mkdir(exist_ok=True)
    folder.chmod(0o755)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=755", "tmpfs", str(folder)]
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"a small file system can't be mounted here: {done.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.fixture
async def stage_on_small_disk(start: Start) -> AsyncIterator[Stage]:
    """Its home, with scratch and results, has room for eight megabytes."""
    with small_disk(start.folder / "home", 8):
        async with open_stage(start) as stage:
            yield stage


async def test_a_full_disk_of_scratch_and_results_fails_the_task_as_resource_and_its_neighbours_go_on(
    stage_on_small_disk: Stage,
) -> None:
    stage = stage_on_small_disk
    await stage.crew.start_ready("worker", "orchestrator", slots=1)
    acts = ["plain large", "plain scratch", "plain fine", "heavy scratch", "async fine", "quick fine"]
    job = await stage.finish(await stage.submit("acts", acts=list[Json](acts), megabytes=16))
    tasks = await stage.tasks(job, "act")
    ended = [(task.status, task.error and task.error.category, task.attempts) for task in tasks]
    full, fine = ("failed", "resource", 2), ("completed", None, 1)
    assert ended == [fine, full, fine, full, fine, fine]
    assert "No space left" in str(tasks[1].error)
    assert tasks[0].result == "x" * 5_000_000
    # What could not be written whole is not left half.
    kept = [path for path in (stage.folder / "home" / "work").rglob("*") if path.is_file() and path.name != "mark"]
    assert len(kept) == 1
    await stage.finish(await stage.submit("acts", acts=["plain scratch"], megabytes=2))


async def test_tf2_a_result_that_has_no_room_on_the_disk_waits_for_it(stage_on_small_disk: Stage) -> None:
    """Writing it is the engine's own work: no attempt is charged, and the task is tried until there is room."""
    stage = stage_on_small_disk
    worker, _ = await stage.crew.start_ready("worker", "orchestrator", slots=1)
    await stage.complete(await stage.submit("acts", acts=["plain large"], number=1))
    job_id = await stage.submit("acts", acts=["plain large"], number=2)
    await wait_until_async(lambda: worker.said("task.result_waiting"), what="a result that waits")
    for result in (stage.folder / "home" / "work").rglob("*.json"):
        result.unlink()
    await stage.finish(job_id)
    assert stage.query("select max(failures), max(crashes) from app.outcomes") == [(0, 0)]


async def test_a_full_disk_of_logs_stops_nobody(stage: Stage) -> None:
    logs = stage.folder / "logs"
    with small_disk(logs, 1):
        (worker, _) = await stage.crew.start_ready("worker", "orchestrator")
        fill(logs)
        # More lines than fit into the last page of the log.
        acts = ["plain nan", "quick nan", "async nan", "plain fine"] * 40
        job = await stage.finish(await stage.submit("acts", acts=list[Json](acts)))
        tasks = await stage.tasks(job, "act")
        assert [task.status for task in tasks] == ["failed", "failed", "failed", "completed"] * 40
        assert len(worker.said("task.failed")) < 120
        assert all(member.process.poll() is None for member in stage.crew.members)
        stage.crew.close()


@pytest.mark.slow
async def test_e1_a_full_disk_of_the_database_pauses_the_work_and_loses_nothing(folder: Path) -> None:
    """PostgreSQL panics when its log has no room, and can't recover before there is; the supervisor tries on."""
    disk = folder / "disk"
    with small_disk(disk, 400):
        cluster = Cluster(Home(disk / "server"), state=disk / "state")
        cluster.start()
        cluster.ensure_database()
        migrate(cluster.url())
        keeping = asyncio.create_task(keep_up(cluster))
        try:
            await fill_and_free(cluster.url(), disk, folder)
        finally:
            keeping.cancel()
            await asyncio.gather(keeping, return_exceptions=True)
            cluster.purge()


async def keep_up(cluster: Cluster) -> None:
    """Start the server again whenever it is gone, as the supervisor does."""
    while True:
        await asyncio.sleep(0.2)
        with suppress(Unavailable, Conflict, OSError):
            await asyncio.to_thread(cluster.start)


async def fill_and_free(url: str, disk: Path, folder: Path) -> None:
    async with open_stage(Start(folder, PLUGINS, url)) as stage:
        workers = await stage.crew.start_ready("worker", "worker", "orchestrator")
        job_id = await stage.submit("bulky", count=60, bytes=900_000)
        await stage.reach(job_id, 10)
        filler = fill(disk)
        await wait_until_async(lambda: any(worker.said("worker.interrupted") for worker in workers))
        with pytest.raises(Unavailable):
            await asyncio.wait_for(fail_to_submit(stage), PATIENCE_SECONDS)
        filler.unlink()
        job = await stage.finish(job_id)
        tasks = await stage.tasks(job, "bulk")
        assert [(task.status, task.failures, len(str(task.result))) for task in tasks] == [
            ("completed", 0, 900_000)
        ] * 60


async def fail_to_submit(stage: Stage) -> None:
    """Submit until the database says that it can't any more: nobody is told that a job was taken which was not."""
    for run in itertools.count():
        given: dict[str, Json] = {"count": 0, "file": "", "notes": "x" * 100_000, "run": run}
        await stage.gateway.submit(Order("steady", given, scope="default", by="test", correlation_id="test"))


@pytest.mark.campaign
async def test_full_disks(seed: int, start: Start) -> None:
    """What could not be written fails as `resource`, and a user retries it when there is room again."""
    with small_disk(start.folder / "home", 256):
        async with open_campaign("full_disks", seed, start.folder, PLUGINS, url=start.url) as campaign:
            campaign.excused = frozenset({"resource"})
            await campaign.run(DISK, 4)
