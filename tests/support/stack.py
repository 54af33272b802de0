"""A gateway, a worker with two slots and, if asked for, an orchestrator, in this process; its children are real."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from anabranch.adapters.postgres.store.store import PostgresStore
from anabranch.app import handler_resources, open_results, open_tiers, purge
from anabranch.canonical import Json
from anabranch.engine.model import TERMINAL_STATES, SessionKind
from anabranch.engine.orchestrator import Orchestrator
from anabranch.engine.read_models import JobDetail, TaskDetail
from anabranch.engine.registry import load_plugins
from anabranch.engine.sessions.keep_session import keep_session
from anabranch.engine.submitting.submission import Order
from anabranch.engine.worker.dispatcher import WorkerOptions
from anabranch.engine.worker.processes.pool import HandlerProcesses
from anabranch.engine.worker.worker import Worker
from anabranch.enums import Scope
from anabranch.gateway import Gateway
from anabranch.settings import load_settings
from tests.support.waiting import PATIENCE_SECONDS

__all__ = ["Stack", "open_stack"]

LEASE = timedelta(seconds=12)  # a process on a busy machine may be silent for seconds


class Stack:
    """Submits jobs and waits for them."""

    def __init__(self, gateway: Gateway, stop: asyncio.Event, serving: asyncio.Task[None], scratch: Path) -> None:
        """Made by `open_stack`."""
        self.gateway = gateway
        self.stop = stop
        self.serving = serving
        self.scratch = scratch

    async def submit(self, workflow: str, **parameters: Json) -> str:
        """The id of a new job."""
        order = Order(workflow, parameters, "default", "test", by="test", by_scope=Scope.ADMIN)
        return (await self.gateway.submit(order)).job_id

    async def run(self, workflow: str, **parameters: Json) -> JobDetail:
        """A job at its end."""
        return await self.wait(await self.submit(workflow, **parameters))

    async def wait(self, job_id: str) -> JobDetail:
        """The job at its end."""
        return await self.until(job_id, lambda job: job.job.state in TERMINAL_STATES)

    async def until(self, job_id: str, true: Callable[[JobDetail], object]) -> JobDetail:
        """The job, once something is true of it; TimeoutError after minutes: it never will be."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not true(job := await self.gateway.reads.job(job_id)):  # the end is in the database
                await asyncio.sleep(0.05)
        return job

    async def tasks(self, job: JobDetail, node: str) -> list[TaskDetail]:
        """The tasks of one of its nodes."""
        return await self.gateway.reads.tasks(job.job.id, limit=1000, after=None, node=node, status=None)


@asynccontextmanager
async def open_stack(
    url: str,
    folder: Path,
    plugins: Sequence[str],
    *,
    orchestrated: bool = False,
    **more: Any,  # settings
) -> AsyncIterator[Stack]:
    """A stack on this database, its files in this folder; without an orchestrator nothing waits for a time."""
    registry, stop, scratch = load_plugins(plugins), asyncio.Event(), folder / "scratch"
    settings = load_settings(plugins=tuple(plugins), home=folder, **more)
    results = open_results(settings)
    async with AsyncExitStack() as opened:  # whatever fails: a pool that is left open keeps its process from ending
        children = HandlerProcesses(2, plugins, memory=2 * 2**30, resources=handler_resources(settings, url, scratch))
        opened.callback(children.close)
        store = PostgresStore(url, name="worker")
        opened.push_async_callback(store.close)
        await store.open()
        gateway = Gateway(settings, url)
        opened.push_async_callback(gateway.close)
        await gateway.open()
        await gateway.ready()
        worker = Worker(
            store, registry, children, results, WorkerOptions(registry.queues, 2, timedelta(seconds=0.5), scratch)
        )
        serving = asyncio.create_task(
            keep_session(
                store,
                worker,
                stop,
                kind=SessionKind.WORKER,
                lease=LEASE,
                queues=registry.queues,
                slots=2,
                handlers=registry.versions,
            )
        )
        opened.push_async_callback(_wait_for, serving)
        if orchestrated:
            orchestrator = Orchestrator(store, results, purge(settings, url, store, None), open_tiers(settings))
            sweeping = keep_session(store, orchestrator, stop, kind=SessionKind.ORCHESTRATOR, lease=LEASE)
            opened.push_async_callback(_wait_for, asyncio.create_task(sweeping))
        opened.callback(stop.set)
        yield Stack(gateway, stop, serving, scratch)


async def _wait_for(session: asyncio.Task[None]) -> None:
    await session
