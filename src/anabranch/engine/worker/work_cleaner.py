"""Remove the work files of jobs that have ended: a bounded look every minute, in every worker."""

import asyncio
import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import groupby

import structlog

from anabranch.engine.model import JobEnd, JobState, SessionId
from anabranch.engine.ports import JobStore
from anabranch.errors import AnabranchError
from anabranch.storage.attempt_keys import JOBS_FOLDER
from anabranch.storage.tiers import Stat, Tier

__all__ = ["WorkCleaner"]

log = structlog.get_logger()
CLEAN_INTERVAL = timedelta(minutes=1)
COMPLETED_RETENTION = timedelta(minutes=10)
FAILED_RETENTION = timedelta(days=1)  # a retry may go on from it


class WorkCleaner:
    """Walks over the files of jobs in the work area; any number of workers may do so."""

    def __init__(self, store: JobStore, session: SessionId, area: Tier, *, batch: int = 1_000) -> None:
        """For the process of this session; it looks at `batch` files at once."""
        self._store = store
        self._session = session
        self._area = area
        self._batch = batch
        self._last = ""

    async def serve(self) -> None:
        """Clean every minute until cancelled."""
        while True:
            await asyncio.sleep(CLEAN_INTERVAL.total_seconds() * random.uniform(0.8, 1.0))  # noqa: S311  # spread, not secrecy
            try:
                await self.tick()
            except (AnabranchError, OSError) as error:
                log.warning("work_cleaner.interrupted", reason=str(error))

    async def tick(self) -> int:
        """Check the next files, and remove those of ended jobs; how many."""
        page = await asyncio.to_thread(self._area.list, JOBS_FOLDER, after=self._last, limit=self._batch)
        # The next so many of all, so that none is passed over forever (E13).
        self._last = page[-1].key if len(page) == self._batch else ""
        files = {job: list(found) for job, found in groupby(page, key=lambda stat: stat.key.split("/")[1])}
        ends = await self._store.job_ends(self._session, CLEAN_INTERVAL, list(files))
        over = [job for job in files if (_is_over(ends[job]) if job in ends else _is_old(files[job]))]
        keys = [stat.key for job in over for stat in files[job]]
        if keys:
            await asyncio.to_thread(self._area.delete, keys)
        return len(keys)


def _is_over(end: JobEnd) -> bool:
    if end.ended_for is None:
        return False
    return end.ended_for > (COMPLETED_RETENTION if end.state is JobState.COMPLETED else FAILED_RETENTION)


def _is_old(files: Sequence[Stat]) -> bool:
    """Whether the files of a job that is not there, for it was purged, have not been written for long."""
    return datetime.now(UTC) - max(stat.modified for stat in files) > FAILED_RETENTION
