"""Health of real processes: what is stopped, filled or frozen shows within its bound, and clears when it is back."""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from anabranch.adapters.postgres.schema.migrate import migrate
from anabranch.embedded.cluster import Cluster
from anabranch.embedded.home import Home
from anabranch.embedded.layout import ClusterLayout
from anabranch.embedded.processes import working_in
from anabranch.engine.advancing.lanes import internal_queue
from tests.support.crew import Stage, Start, open_stage
from tests.support.waiting import PATIENCE_SECONDS, wait_until_async

pytestmark = [pytest.mark.postgres, pytest.mark.slow]
PLUGINS = Path(__file__).parent / "plugins"


class Health:
    """Asks a running API how all is."""

    def __init__(self, client: httpx.Client) -> None:
        self._client = client

    def listens(self) -> bool:
        """Whether the API has started; its socket is there before it answers."""
        try:
            return self._client.get("/livez").is_success
        except httpx.TransportError:
            return False

    def unwell(self) -> dict[str, Any]:
        """The parts that are not ok."""
        told = self._client.get("/api/health").json()
        return {name: part for name, part in told["components"].items() if part["status"] != "ok"}

    async def shows(self, *names: str) -> None:
        """Wait until these parts are not ok."""
        await wait_until_async(lambda: set(names) <= self.unwell().keys(), f"{names} in {self.unwell()}")

    async def clears(self) -> None:
        """Wait until all is ok."""
        await wait_until_async(lambda: self.unwell() == {}, f"an end of {self.unwell()}")


@asynccontextmanager
async def watched(stage: Stage, **settings: Any) -> AsyncIterator[Health]:  # as the crew takes them
    """Of a stage with an API, an orchestrator and a worker."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = found.getsockname()[1]
    await stage.crew.start_ready("orchestrator", "worker", **settings)
    stage.crew.start("api", port=port, **settings)
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE_SECONDS) as client:
        health = Health(client)
        await wait_until_async(health.listens)
        await health.clears()
        yield health


async def test_o2_an_orchestrator_that_is_gone_takes_its_sweeper_with_it(stage: Stage) -> None:
    async with watched(stage) as health:
        (orchestrator,) = stage.crew.alive("orchestrator")
        orchestrator.kill()
        await health.shows("orchestrators")
        await health.shows("sweeper")
        await stage.crew.start_ready("orchestrator")
        await health.clears()


async def test_o1_a_queue_without_a_worker_shows(stage: Stage) -> None:
    async with watched(stage) as health:
        (worker,) = stage.crew.alive("worker")
        worker.kill()
        await stage.submit("steady", count=1, file="")
        await health.shows("workers", f"queue {internal_queue('steady')}")
        await stage.crew.start_ready("worker")
        await health.clears()


@contextmanager
def small_disk(folder: Path, megabytes: int) -> Iterator[None]:
    folder.mkdir(exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=755", "tmpfs", str(folder)]
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"a small file system can't be mounted here: {done.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


async def test_o1_a_full_disk_shows_and_clears(start: Start) -> None:
    with small_disk(start.folder / "home", 16):
        async with open_stage(start) as stage, watched(stage, low_disk_mb=8) as health:
            filler = start.folder / "home" / "filler"
            filler.write_bytes(bytes(11_000_000))
            await health.shows("disk home", "disk scratch")
            filler.write_bytes(bytes(16_000_000))
            assert health.unwell()["disk home"]["status"] == "down"
            filler.unlink()
            await health.clears()


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    folder = Path(tempfile.mkdtemp(prefix="ab-"))
    folder.chmod(0o755)
    made = Cluster(Home(folder / "server"), state=folder / "state")
    made.start()
    made.ensure_database()
    migrate(made.url())
    yield made
    made.purge()
    shutil.rmtree(folder)


async def test_o1_a_server_that_stops_or_freezes_shows_and_clears(cluster: Cluster, tmp_path: Path) -> None:
    async with open_stage(Start(tmp_path, PLUGINS, cluster.url())) as stage, watched(stage) as health:
        cluster.stop("fast")
        await health.shows("database")
        cluster.start()
        await health.clears()

        frozen = working_in(ClusterLayout(cluster.home, cluster.home.path.parent / "state").data, "postgres")
        for process in frozen:
            os.kill(process.pid, signal.SIGSTOP)
        try:
            await health.shows("database")
        finally:
            for process in frozen:
                os.kill(process.pid, signal.SIGCONT)
        await health.clears()
