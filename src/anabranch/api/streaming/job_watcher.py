"""Watches the jobs of all streams in one loop, so that a stream needs no query of its own (E14)."""

import asyncio
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Protocol

import structlog

from anabranch.api.answers.build import count_tasks
from anabranch.contract.jobs import TaskCounts
from anabranch.engine.model import TERMINAL_STATES, Event
from anabranch.engine.read_models import JobHead, NodeDetail
from anabranch.errors import AnabranchError, Unavailable

__all__ = ["JobWatcher", "Reads", "WatchedJob"]

log = structlog.get_logger()
POLL_SECONDS = 0.2
COUNT_SECONDS = 1.0
PAGE_EVENTS = 100
MAX_READERS = 2


class Reads(Protocol):
    """What the watcher reads from the database."""

    async def heads(self, jobs: Sequence[int]) -> list[JobHead]: ...
    async def nodes_of(self, jobs: Sequence[int]) -> dict[int, list[NodeDetail]]: ...
    async def events(self, job: int, *, after: int = 0, limit: int = 1000) -> list[Event]: ...


class WatchedJob:
    """A job as it was read last; `tasks` are counted less often, and None before that."""

    def __init__(self, head: JobHead) -> None:
        self.head = head
        self.tasks: TaskCounts | None = None
        self.over = False
        self.streams = 0
        self._changed = asyncio.Event()

    @property
    def ended(self) -> bool:
        """Whether the job has ended."""
        return self.head.state in TERMINAL_STATES

    def notify(self) -> None:
        """Wake all streams that wait for a change."""
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def change(self, longest: float) -> None:
        """Wait for a change, at most this many seconds."""
        # Not by wait_for: before Python 3.12 it forgets a cancel that comes at the moment of the change.
        with suppress(TimeoutError):
            async with asyncio.timeout(longest):
                await self._changed.wait()


class JobWatcher:
    """Polls the watched jobs five times a second; does nothing when there are none."""

    def __init__(self, reads: Reads, most: int) -> None:
        self._reads = reads
        self._most = most
        self._watches: dict[int, WatchedJob] = {}
        self._looking: asyncio.Task[None] | None = None
        self._pages: dict[tuple[int, int], asyncio.Task[list[Event]]] = {}
        self._readers = asyncio.Semaphore(MAX_READERS)  # the rest of the pool is for other requests
        self._count_at = 0.0
        self._closed = False

    @property
    def streams(self) -> int:
        """How many streams are open."""
        return sum(watch.streams for watch in self._watches.values())

    @contextmanager
    def watch(self, head: JobHead) -> Iterator[WatchedJob]:
        """Watch a job; Unavailable if too many streams are open, or the process is stopping."""
        if self._closed:
            raise Unavailable("api.stopping", "the API is stopping")
        if self.streams >= self._most:
            raise Unavailable("stream.too_many", f"{self._most} streams are open, and more are not allowed")
        watch = self._watches.setdefault(head.job, WatchedJob(head))
        watch.head = max(watch.head, head, key=lambda one: one.last_event)
        watch.streams += 1
        self._begin()
        try:
            yield watch
        finally:
            watch.streams -= 1
            if not watch.streams:
                del self._watches[head.job]

    async def events(self, job: int, after: int) -> list[Event]:
        """The next events of a job; streams at the same position share one query."""
        page = self._pages.get((job, after))
        if page is None:
            page = self._pages[job, after] = asyncio.create_task(self._read(job, after))
            page.add_done_callback(lambda done: self._forget(done, (job, after)))
        return await asyncio.shield(page)

    def close(self) -> None:
        """End all streams, and refuse new ones."""
        self._closed = True
        for watch in self._watches.values():
            watch.over = True
            watch.notify()
        if self._looking:
            self._looking.cancel()

    def _begin(self) -> None:
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._run())

    async def _run(self) -> None:
        while self._watches:
            try:
                await self._look()
            except (AnabranchError, OSError) as error:  # the streams stay, and get what they missed later
                log.warning("job_watcher.query_failed", reason=str(error))
            await asyncio.sleep(POLL_SECONDS)

    async def _look(self) -> None:
        jobs = list(self._watches)
        heads = {head.job: head for head in await self._reads.heads(jobs)}
        for job in jobs:
            if watch := self._watches.get(job):
                self._note(watch, heads.get(job))
        if time.monotonic() >= self._count_at:
            self._count_at = time.monotonic() + COUNT_SECONDS
            for job, nodes in (await self._reads.nodes_of(jobs)).items():
                if watch := self._watches.get(job):
                    self._count(watch, count_tasks(*nodes))

    def _note(self, watch: WatchedJob, head: JobHead | None) -> None:
        if head is None:  # purged: a caller that connects again gets NotFound
            watch.over = True
            watch.notify()
        elif head.last_event > watch.head.last_event:
            watch.head = head
            watch.notify()

    def _count(self, watch: WatchedJob, tasks: TaskCounts) -> None:
        if tasks != watch.tasks:
            watch.tasks = tasks
            watch.notify()

    async def _read(self, job: int, after: int) -> list[Event]:
        async with self._readers:
            return await self._reads.events(job, after=after, limit=PAGE_EVENTS)

    def _forget(self, page: asyncio.Task[list[Event]], place: tuple[int, int]) -> None:
        del self._pages[place]
        if not page.cancelled():
            page.exception()  # its waiters get it; there may be none left
