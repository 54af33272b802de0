import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from anabranch.adapters.local.files import LocalFiles
from anabranch.adapters.postgres.store import PostgresStore
from anabranch.app import Gateway
from anabranch.engine.canonical import Json
from anabranch.engine.children import Children
from anabranch.engine.model import TERMINAL, JobDetail, JobState, SessionKind, TaskDetail
from anabranch.engine.plugin import load_plugins
from anabranch.engine.results import Results
from anabranch.engine.session import keep_session
from anabranch.engine.worker import Worker, WorkerOptions
from anabranch.settings import Settings

pytestmark = pytest.mark.postgres
PLUGINS = str(Path(__file__).parent.parent / "data" / "plugins")
LEASE = timedelta(seconds=60)


class Stack:
    """A gateway and a worker with two slots, in this process; its children are real."""

    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway

    async def run(self, workflow: str, **parameters: Json) -> JobDetail:
        submitted = await self.gateway.submit(workflow, parameters, scope="test", correlation_id="test")
        while True:
            job = await self.gateway.reads.job(submitted.job_id)
            if job.job.state in TERMINAL:
                return job
            await asyncio.sleep(0.02)

    async def tasks(self, job: JobDetail, node: str) -> list[TaskDetail]:
        return await self.gateway.reads.tasks(job.job.id, limit=100, after=None, node=node, status=None)


@pytest.fixture
async def stack(database_url: str, tmp_path: Path) -> AsyncIterator[Stack]:
    registry, stop = load_plugins([PLUGINS]), asyncio.Event()
    children, store = Children(2, [PLUGINS]), PostgresStore(database_url, name="worker")
    await children.warm()
    await store.open()
    options = WorkerOptions(registry.queues, 2, timedelta(seconds=5), tmp_path / "scratch")
    worker = Worker(store, registry, children, Results(LocalFiles(tmp_path)), options)
    serving = asyncio.create_task(
        keep_session(store, worker, stop, kind=SessionKind.WORKER, lease=LEASE, queues=registry.queues, slots=2)
    )
    gateway = Gateway(Settings(plugins=(PLUGINS,)), database_url)
    await gateway.open()
    await gateway.ready()
    yield Stack(gateway)
    stop.set()
    await serving
    children.close()
    await gateway.close()
    await store.close()


async def test_hello_world_greets_and_replies_by_lineage(stack: Stack) -> None:
    job = await stack.run("hello_world", n=3, message="Hi")
    assert job.job.state is JobState.COMPLETED
    assert [task.result for task in await stack.tasks(job, "reply")] == [
        {"reply": f"Replying to: Hi from task {index}"} for index in range(3)
    ]


async def test_a_bad_result_or_error_fails_its_own_task_alone(stack: Stack) -> None:
    job = await stack.run("tricky", acts=["nan", "fine", "object", "raise"])
    tasks = await stack.tasks(job, "act")
    assert [task.status for task in tasks] == ["failed", "completed", "failed", "failed"]
    assert [task.error and task.error["code"] for task in tasks] == [
        "handler.contract",
        None,
        "handler.contract",
        "handler.permanent",
    ]
    assert job.job.result == {"count": {"count": 1, "items": [{"completed": 1}]}}


async def test_w2_a_handler_that_blocks_is_killed_at_its_timeout_and_its_neighbours_finish(stack: Stack) -> None:
    job = await stack.run("tricky", acts=["block", "fine", "fine"])
    first, second, third = await stack.tasks(job, "act")
    assert first.error is not None
    assert first.error["code"] == "task.timed_out"
    assert second.status == third.status == "completed"


async def test_a_handler_that_aborts_its_process_fails_after_three_crashes(stack: Stack) -> None:
    job = await stack.run("tricky", acts=["abort", "fine"])
    crashed, fine = await stack.tasks(job, "act")
    assert crashed.error is not None
    assert (crashed.status, crashed.attempts, crashed.error["code"]) == ("failed", 3, "handler.crashed")
    assert "SIGABRT" in str(crashed.error["message"])
    assert fine.status == "completed"


async def test_e9_a_transient_failure_is_tried_again(stack: Stack) -> None:
    job = await stack.run("tricky", acts=["flaky"])
    (task,) = await stack.tasks(job, "act")
    assert (task.status, task.attempts, task.failures) == ("completed", 2, 1)


async def test_a_planner_that_fails_fails_its_job_with_its_error(stack: Stack) -> None:
    job = await stack.run("tricky")
    assert job.job.state is JobState.FAILED
    assert job.job.error is not None
    assert "KeyError" in str(job.job.error)
    assert await stack.tasks(job, "act") == []


async def test_async_handlers_wait_at_the_same_time(stack: Stack) -> None:
    job = await stack.run("waiting", seconds=0.5)
    first, second = await stack.tasks(job, "wait")
    assert isinstance(first.result, float)
    assert isinstance(second.result, float)
    assert abs(first.result - second.result) < 0.4
