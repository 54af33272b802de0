"""Workers and the API without file descriptors: never a handler's fault, and over when they have some again (E9)."""

import asyncio
import resource
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest

from tests.support.crew import STEADY_LEASE, Stage
from tests.support.serving import serve_api
from tests.support.waiting import PATIENCE_SECONDS, wait_until_async

pytestmark = [pytest.mark.postgres, pytest.mark.slow]
ACTS = ["heavy fine", "heavy large", "async opens", "quick opens", "plain fine"]


@contextmanager
def without_descriptors(pid: int, *, left: int = 0) -> Iterator[None]:
    """The process opens no more files than these, until the end."""
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    limit = max(int(path.name) for path in Path(f"/proc/{pid}/fd").iterdir()) + 1 + left
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (limit, before[1]))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)


async def until_all_beat(stage: Stage) -> None:
    """A process without descriptors can't connect; one whose heart has beaten is connected."""
    await wait_until_async(lambda: stage.query("select bool_and(beat_at > began_at) from app.sessions") == [(True,)])


@pytest.mark.parametrize("left", [0, 3])
async def test_tf2_a_worker_without_descriptors_leaves_its_tasks_to_a_healthy_one(stage: Stage, left: int) -> None:
    _, sick = await stage.crew.start_ready("orchestrator", "worker", slots=4, lease_seconds=STEADY_LEASE)
    await until_all_beat(stage)
    with without_descriptors(sick.pid, left=left):
        job_ids = [await stage.submit("acts", acts=ACTS, number=number) for number in range(6)]
        await wait_until_async(lambda: sick.said("worker.exhausted"), what="a task that was handed back")
        await stage.crew.start_ready("worker", slots=4)
        await stage.finish(*job_ids)
        assert stage.query("select outcome, failures, crashes, count(*) from app.outcomes group by 1, 2, 3") == [
            ("completed", 0, 0, len(job_ids) * (len(ACTS) + 1))
        ]
    assert sick.process.poll() is None
    assert len(sick.said("session.began")) == 1


async def test_tf2_a_worker_that_has_descriptors_again_finishes_its_tasks_by_itself(stage: Stage) -> None:
    _, worker = await stage.crew.start_ready("orchestrator", "worker", slots=4)
    await until_all_beat(stage)
    with without_descriptors(worker.pid):
        job_ids = [await stage.submit("acts", acts=ACTS, number=number) for number in range(3)]
        await wait_until_async(lambda: len(worker.said("worker.exhausted")) > 1, what="tasks that were handed back")
        handed_back = len(worker.said("task.handed_back"))
        await asyncio.sleep(5)
        # It asks for no tasks while it can't run any.
        assert len(worker.said("task.handed_back")) < handed_back + 3 * len(ACTS)
    await stage.finish(*job_ids)
    assert stage.query("select distinct outcome, failures, crashes from app.outcomes") == [("completed", 0, 0)]
    assert stage.query("select count(*) from app.attempts where error ->> 'code' <> 'worker.exhausted'") == [(0,)]


async def test_tf2_an_async_handler_that_leaks_descriptors_fails_in_the_end(stage: Stage) -> None:
    """It is the worker's trouble first; one whose attempts never end would keep its job for ever (E1)."""
    await stage.crew.start_ready("orchestrator", "worker")
    job = await stage.complete(await stage.submit("acts", acts=["async leaks", "plain leaks"]))
    in_loop, in_child = await stage.tasks(job, "act")
    assert in_loop.error is not None
    assert in_child.error is not None
    assert (in_loop.error.code, in_loop.failures) == ("handler.resource", 2)
    assert (in_child.error.code, in_child.attempts) == ("handler.resource", 2)


def test_tf4_an_api_without_descriptors_answers_whom_it_knows_and_does_not_fill_its_log(
    database_url: str, tmp_path: Path
) -> None:
    with serve_api(database_url, tmp_path / "home") as served:
        port = served.client.base_url.port
        before = len(served.log.read_text().splitlines())
        with ExitStack() as callers, without_descriptors(served.pid):
            for _ in range(50):
                callers.enter_context(socket.create_connection(("127.0.0.1", port or 0)))
            answers = []
            end = time.monotonic() + 6
            while time.monotonic() < end:
                answers += [served.client.get(path).status_code for path in ("/readyz", "/api/limits", "/api/queues")]
                time.sleep(0.2)
            said = served.log.read_text()
        assert set(answers) == {200}
        assert len(said.splitlines()) - before < 300, said[-2_000:]
        assert "never retrieved" not in said
        with httpx.Client(base_url=served.client.base_url, timeout=PATIENCE_SECONDS) as stranger:
            assert stranger.get("/readyz").is_success
