"""The worker: claim tasks, run their handlers, report how they ended, and advance what that finished."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import structlog

from anabranch.engine.plugin import Registry
from anabranch.engine.ports import Refused, Store
from anabranch.engine.session import LiveSession
from anabranch.engine.worker.children import Children
from anabranch.engine.worker.runner import Runner
from anabranch.engine.worker.task_loop import TaskLoop
from anabranch.engine.worker.work_cleaner import WorkCleaner
from anabranch.errors import Unavailable
from anabranch.storage.results import Results

__all__ = ["Worker", "WorkerOptions"]

log = structlog.get_logger()
PARTING_SECONDS = 10.0
DEAF_SECONDS = 2.0


@dataclass(frozen=True)
class WorkerOptions:
    """How a worker works: what it serves, how many handlers at once, and the grace they have when told to stop.

    Handlers write to `scratch`, where only this process does.
    """

    queues: Sequence[str]
    slots: int
    grace: timedelta
    scratch: Path


class Worker:
    """Runs at most `slots` handlers at once (W1)."""

    def __init__(
        self, store: Store, registry: Registry, children: Children, results: Results, options: WorkerOptions
    ) -> None:
        """Serve with these parts."""
        self._store = store
        self._registry = registry
        self._children = children
        self._results = results
        self._options = options
        self.stuck = False

    async def serve(self, live: LiveSession, stop: asyncio.Event) -> None:
        """Run until told to stop; SessionGone when the session was lost, and with it all that was in hand."""
        options = self._options
        thread = ThreadPoolExecutor(1, thread_name_prefix="quick")
        runner = Runner(
            self._store,
            self._registry,
            self._children,
            self._results,
            options.scratch,
            thread,
            live.session,
        )
        shift = TaskLoop(self._store, runner, live, queues=options.queues, slots=options.slots, grace=options.grace)
        waker = asyncio.create_task(_ring_at_stop(live, stop))
        clearing = asyncio.create_task(WorkCleaner(self._store, live.session, self._results.work).serve())
        try:
            while not stop.is_set():
                live.check()
                await self._turn(shift, live)
                if runner.stuck:
                    log.error("worker.stuck", remedy="A quick handler blocked; declare it without quick=True.")
                    stop.set()
            await self._finish(shift, live)
        finally:
            waker.cancel()
            clearing.cancel()
            shift.abandon()
            thread.shutdown(wait=False, cancel_futures=True)
            self.stuck = runner.quick_busy or shift.dropped

    async def _turn(self, shift: TaskLoop, live: LiveSession) -> None:
        try:
            await shift.turn()
            live.trouble = shift.trouble
        except (Unavailable, Refused, OSError) as error:
            log.warning("worker.interrupted", reason=str(error))
            live.trouble = str(error)
            await live.wait(timedelta(seconds=1))

    async def _finish(self, shift: TaskLoop, live: LiveSession) -> None:
        """Let handlers end, hand back those that don't, and report everything (W3)."""
        shift.close()
        end = asyncio.get_running_loop().time() + self._options.grace.total_seconds()
        told = False
        while shift.is_busy:
            live.check()
            late = asyncio.get_running_loop().time() - end
            if not told and late >= 0:
                told = True
                shift.hand_back()
            elif late >= DEAF_SECONDS:
                shift.drop(ended=late >= PARTING_SECONDS)
            try:
                async with asyncio.timeout(PARTING_SECONDS):
                    await self._turn(shift, live)
            except TimeoutError:
                log.warning("worker.unheard", remedy="What could not be reported is tried again by others.")
                if not shift.is_running:
                    return


async def _ring_at_stop(live: LiveSession, stop: asyncio.Event) -> None:
    await stop.wait()
    live.ring()
