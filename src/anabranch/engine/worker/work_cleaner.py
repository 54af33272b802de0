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
from anabranch.storage.attempt_keys import ROOT
from anabranch.storage.tiers import Stat, Tier

__all__ = ["WorkCleaner"]

log = structlog.get_logger()
EVERY = timedelta(minutes=1)
KEPT_COMPLETED = timedelta(minutes=10)
KEPT = timedelta(days=1)  # a retry may go on from it


class WorkCleaner:
    """Goes round the files of jobs in the work area; any number of workers may do so."""

    def __init__(self, store: JobStore, session: SessionId, area: Tier, *, batch: int = 1_000) -> None:
        """For the process of this session; it looks at `batch` files at once."""
        self._store = store
        self._session = session
        self._area = area
        self._batch = batch
        self._last = ""

    async def serve(self) -> None:
        """Clear for as long as the process works."""
        while True:
            await asyncio.sleep(EVERY.total_seconds() * random.uniform(0.8, 1.0))  # noqa: S311  # spread, not secrecy
            try:
                await self.tick()
            except (AnabranchError, OSError) as error:
                log.warning("clearing.interrupted", reason=str(error))

    async def tick(self) -> int:
        """Look at the next files, and remove those of jobs that are over; how many."""
        page = await asyncio.to_thread(self._area.list, ROOT, after=self._last, limit=self._batch)
        # The next so many of all, so that none is passed over for ever (E13).
        self._last = page[-1].key if len(page) == self._batch else ""
        files = {job: list(found) for job, found in groupby(page, key=lambda stat: stat.key.split("/")[1])}
        ends = await self._store.job_ends(self._session, EVERY, list(files))
        over = [job for job in files if (_is_over(ends[job]) if job in ends else _is_old(files[job]))]
        keys = [stat.key for job in over for stat in files[job]]
        if keys:
            await asyncio.to_thread(self._area.delete, keys)
        return len(keys)


def _is_over(end: JobEnd) -> bool:
    if end.ended_for is None:
        return False
    return end.ended_for > (KEPT_COMPLETED if end.state is JobState.COMPLETED else KEPT)


def _is_old(files: Sequence[Stat]) -> bool:
    """Whether the files of a job that is not there, for it was purged, have not been written for long."""
    return datetime.now(UTC) - max(stat.modified for stat in files) > KEPT
