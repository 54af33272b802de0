"""Retention: removes old jobs and rows in batches, while the system runs (O5)."""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import asdict, astuple, dataclass
from datetime import timedelta

import structlog

from anabranch.engine.model import SessionId
from anabranch.engine.ports import Remains, RetentionStore, Survey
from anabranch.errors import AnabranchError, Unavailable
from anabranch.storage.large_results import Results

__all__ = ["Purge", "Purged", "Remove", "Retention", "RetentionPeriods"]

# Removes up to so many of the objects that a job left; how many, and 0 when there are none.
Remove = Callable[[str, int], int]

log = structlog.get_logger()
PURGE_INTERVAL = timedelta(seconds=60)
TAKEOVER_INTERVAL = timedelta(seconds=5)  # how soon another takes over from one that died
DEFINITION_AGE = timedelta(days=1)
UNUSED_TABLE_AGE = timedelta(days=1)  # until then a job that failed after loading can be retried without loading again
MAX_BATCH_FILES = 1_000


@dataclass(frozen=True)
class RetentionPeriods:
    """How long rows are kept; without a time, jobs are kept forever."""

    jobs: timedelta | None
    tombstones: timedelta
    sessions: timedelta
    revisions: timedelta = timedelta(days=30)
    withdrawn: timedelta = timedelta(days=30)


@dataclass(frozen=True)
class Purged:
    """How much was removed: jobs, rows, files and tables of their tasks, former publications, and other old rows."""

    jobs: int = 0
    publications: int = 0
    rows: int = 0
    files: int = 0
    tables: int = 0
    tombstones: int = 0
    sessions: int = 0
    workflows: int = 0

    def __add__(self, other: "Purged") -> "Purged":
        return Purged(*(mine + others for mine, others in zip(astuple(self), astuple(other), strict=True)))


class Purge:
    """Removes what is past its retention period.

    A job first becomes a tombstone, in one commit: it can't be found any more. Then its files are removed, then the
    rows of its tasks. After a crash, the next purge finds the rest by the tombstone.
    """

    def __init__(
        self,
        store: RetentionStore,
        results: Results,
        keep: RetentionPeriods,
        remove_objects: Remove = lambda _job, _most: 0,
        delete: Callable[[Sequence[str]], None] = lambda _addresses: None,
    ) -> None:
        """`delete` removes objects by their addresses."""
        self._store = store
        self._removes = (results.remove, remove_objects)
        self._delete = delete
        self._after = ""  # the last expired object that was tried
        self._keep = keep

    async def survey(self) -> Survey:
        """How many jobs would go, and how many tasks they have."""
        total, after = Survey(), None if self._keep.jobs is None else 0
        while self._keep.jobs is not None and after is not None:
            found, after = await self._store.survey(self._keep.jobs, after)
            total = Survey(*(a + b for a, b in zip(astuple(total), astuple(found), strict=True)))
        return total

    async def batches(self) -> AsyncGenerator[Purged, None]:
        """Purge everything; yields after each batch, so that the caller may pause or stop."""
        async for done in self._finish():
            yield done
        if self._keep.jobs is not None:
            async for done in self._purge(self._keep.jobs):
                yield done
        async for done in self._expire():
            yield done
        async for count in _repeat(self._store.remove_tombstones, self._keep.tombstones):
            yield Purged(tombstones=count)
        async for count in _repeat(self._store.remove_sessions, self._keep.sessions):
            yield Purged(sessions=count)
        async for count in _repeat(self._store.remove_workflows, DEFINITION_AGE):
            yield Purged(workflows=count)

    async def _purge(self, age: timedelta) -> AsyncGenerator[Purged, None]:
        """Purge jobs until none is old enough: children go after their parents."""
        after: int | None = 0
        gone = 0
        while after is not None:
            jobs, after = await self._store.purge(age, after)
            gone += jobs
            if jobs:
                yield Purged(jobs=jobs)
                async for done in self._finish():
                    yield done
            if after is None and gone:
                after, gone = 0, 0

    async def _expire(self) -> AsyncGenerator[Purged, None]:
        """Remove the files and tables of former publications, and then their objects, also what a crash left."""
        while count := await self._store.expire_publications(self._keep.revisions, self._keep.withdrawn):
            yield Purged(publications=count)
        while count := await self._store.drop_unused_tables(UNUSED_TABLE_AGE):
            yield Purged(tables=count)
        while addresses := await self._store.find_expired_objects(self._after):
            self._after = addresses[-1]
            removed = await asyncio.to_thread(self._delete_each, addresses)
            if not removed:  # the store may be down; the next round goes on behind these (E13)
                return
            yield Purged(files=await self._store.forget_objects(removed))
        self._after = ""

    def _delete_each(self, addresses: Sequence[str]) -> Sequence[str]:
        """Remove objects, one by one where they can't go together; those that are gone."""
        try:
            self._delete(addresses)
        except (OSError, AnabranchError) as error:
            if len(addresses) == 1 or isinstance(error, Unavailable):
                log.warning("retention.objects_failed", objects=len(addresses), first=addresses[0], reason=str(error))
                return []
            return [gone for address in addresses for gone in self._delete_each([address])]
        return addresses

    async def _finish(self) -> AsyncGenerator[Purged, None]:
        """Remove what purged jobs have left."""
        after = 0
        while remains := await self._store.remains(after):
            after = remains[-1].job
            bare = []
            for left in remains:
                try:
                    async for files in self._remove_files(left):
                        yield Purged(files=files)
                except (OSError, AnabranchError) as error:  # files that can't be removed don't stop the rest
                    log.warning("retention.files_failed", job=left.job_id, reason=str(error))
                else:
                    bare.append(left)
            async for rows in _repeat(self._store.clear, bare):
                yield Purged(rows=rows)

    async def _remove_files(self, left: Remains) -> AsyncGenerator[int, None]:
        for remove in self._removes:
            while files := await asyncio.to_thread(remove, left.job_id, MAX_BATCH_FILES):
                yield files


class Retention:
    """The duty to purge, done by one process at a time; its heartbeat shows that rounds go well (O2)."""

    def __init__(self, store: RetentionStore, session: SessionId) -> None:
        self._store = store
        self._session = session

    async def run(self, purge: Purge) -> None:
        """Purge now and then until cancelled."""
        while True:
            pause = PURGE_INTERVAL
            try:
                if not await self.turn(purge):
                    pause = TAKEOVER_INTERVAL
            except AnabranchError as error:
                log.warning("retention.interrupted", reason=error.message)
                pause = TAKEOVER_INTERVAL
            except Exception:  # the loop must go on; without its heartbeat, health shows it
                log.exception("retention.failed")
            await asyncio.sleep(pause.total_seconds())

    async def turn(self, purge: Purge) -> bool:
        """Do one round, if no other process does; whether it was done to its end."""
        if not await self._store.has_turn(self._session, PURGE_INTERVAL):
            return False
        total, began = Purged(), time.monotonic()
        async with aclosing(purge.batches()) as batches:
            async for done in batches:
                total += done
                if not await self._store.note_turn(self._session, PURGE_INTERVAL):
                    return False
                # Half of the time is for others.
                await asyncio.sleep(time.monotonic() - began)
                began = time.monotonic()
        if total != Purged():
            log.info("retention.purged", **asdict(total))
        return await self._store.note_turn(self._session, PURGE_INTERVAL)


async def _repeat(
    remove: Callable[..., Awaitable[int]], given: timedelta | Sequence[Remains]
) -> AsyncGenerator[int, None]:
    while count := await remove(given):
        yield count
