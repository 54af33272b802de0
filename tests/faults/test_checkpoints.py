"""Work in phases is broken off at every boundary; what comes of it is what an unbroken run gives (W5)."""

import asyncio
import hashlib
import os
import shutil
import signal
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from anabranch.adapters.postgres.schema.migrate import migrate
from anabranch.embedded.cluster import Cluster
from anabranch.embedded.home import Home
from anabranch.engine.read_models import TaskDetail
from anabranch.plugins.demo.phases import make_artifact
from tests.support.crew import Member, Stage, Start, open_stage
from tests.support.waiting import wait_until_async

pytestmark = pytest.mark.postgres
PLUGINS = Path(__file__).parent / "plugins"
PHASES = 3
STOPS = [f"{moment}-{phase}" for phase in range(1, PHASES + 1) for moment in ("begun", "made", "saved")]


def unbroken() -> dict[str, object]:
    artifact = b""
    for phase in range(1, PHASES + 1):
        artifact = make_artifact(artifact, phase)
    return {"phases": PHASES, "sha256": hashlib.sha256(artifact).hexdigest()}


async def stand_everywhere(stage: Stage) -> tuple[Member, str]:
    """A worker with a task at each boundary, and their job."""
    (_, worker) = await stage.crew.start_ready("orchestrator", "worker", slots=len(STOPS))
    job_id = await stage.submit("phased", phases=PHASES, stops=STOPS, file=str(stage.folder / "file"))
    await wait_until_async(lambda: len(stage.noted("stands")) == len(STOPS), what="a task at each boundary")
    return worker, job_id


async def finish(stage: Stage, job_id: str) -> list[TaskDetail]:
    """The tasks at the end, each with the output of an unbroken run."""
    tasks = await stage.tasks(await stage.finish(job_id), "work")
    assert [task.result for task in tasks] == [unbroken()] * len(STOPS)
    assert [task.failures for task in tasks] == [0] * len(STOPS)
    return tasks


def times(stage: Stage, moment: str) -> dict[str, list[int]]:
    """How often each task came to a moment of each phase, by where it stood."""
    noted = [Counter(index for _, index, *_ in stage.noted(f"{moment}-{phase}")) for phase in range(1, PHASES + 1)]
    return {stop: [found[str(n)] for found in noted] for n, stop in enumerate(STOPS)}


def once_but(moment: str) -> dict[str, list[int]]:
    """Every phase once, but the one in which a task stood at this moment twice."""
    return {stop: [2 if stop == f"{moment}-{phase}" else 1 for phase in range(1, PHASES + 1)] for stop in STOPS}


@pytest.mark.slow
async def test_w5_children_killed_at_every_boundary_of_a_phase_go_on_from_the_last_checkpoint(stage: Stage) -> None:
    _, job_id = await stand_everywhere(stage)
    for *_, pid in stage.noted("stands"):
        os.kill(int(pid), signal.SIGKILL)
    tasks = await finish(stage, job_id)
    assert [(task.attempts, task.crashes) for task in tasks] == [(2, 1)] * len(STOPS)
    assert times(stage, "made") == once_but("made")


async def test_w5_a_worker_killed_at_every_boundary_of_a_phase_is_followed_by_one_that_goes_on(stage: Stage) -> None:
    worker, job_id = await stand_everywhere(stage)
    worker.kill()
    stage.end_sessions(worker)
    await stage.crew.start_ready("worker", slots=len(STOPS))
    tasks = await finish(stage, job_id)
    assert [task.attempts for task in tasks] == [2] * len(STOPS)
    assert times(stage, "made") == once_but("made")


async def test_w3_handlers_told_to_stop_save_a_checkpoint_and_are_handed_back_free_of_charge(stage: Stage) -> None:
    worker, job_id = await stand_everywhere(stage)
    worker.send(signal.SIGTERM)
    assert await worker.ended() == 0
    await stage.crew.start_ready("worker", slots=len(STOPS))
    tasks = await finish(stage, job_id)
    assert [(task.attempts, task.crashes) for task in tasks] == [(2, 0)] * (len(STOPS) - 2) + [(1, 0)] * 2
    assert times(stage, "made") == dict.fromkeys(STOPS, [1] * PHASES)


async def test_w5_artifacts_that_are_gone_are_made_again(stage: Stage) -> None:
    _, job_id = await stand_everywhere(stage)
    shutil.rmtree(stage.folder / "home" / "work" / "jobs" / job_id)
    for *_, pid in stage.noted("stands"):
        os.kill(int(pid), signal.SIGKILL)
    await finish(stage, job_id)


class Server:
    """A PostgreSQL of the test's own, durable as in production."""

    def __init__(self, folder: Path) -> None:
        self.cluster = Cluster(Home(folder / "server"), state=folder / "state")
        self._process = self.cluster.start()
        self.cluster.ensure_database()
        migrate(self.cluster.url())

    def kill(self) -> None:
        os.kill(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def start(self) -> None:
        self._process = self.cluster.start()


@pytest.fixture
def server() -> Iterator[Server]:
    folder = Path(tempfile.mkdtemp(prefix="ab-"))
    folder.chmod(0o755)
    made = Server(folder)
    yield made
    made.cluster.purge()
    shutil.rmtree(folder)


@pytest.mark.slow
async def test_w5_a_server_killed_at_every_boundary_of_a_phase_is_waited_for(server: Server, tmp_path: Path) -> None:
    """Checkpoints wait for the server to come back; no attempt is lost, and nothing is done twice."""
    async with open_stage(Start(tmp_path, PLUGINS, server.cluster.url(), lease=60)) as stage:
        _, job_id = await stand_everywhere(stage)
        await asyncio.to_thread(server.kill)
        (stage.folder / "file").touch()
        await wait_until_async(lambda: len(stage.noted("made-1")) == len(STOPS), what="work without the server")
        await asyncio.to_thread(server.start)
        tasks = await finish(stage, job_id)
        assert [task.attempts for task in tasks] == [1] * len(STOPS)
        assert times(stage, "made") == dict.fromkeys(STOPS, [1] * PHASES)
