"""Remove the work areas of jobs that have ended: a bounded look every minute, in every worker."""

import asyncio
import random
import re
import shutil
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import structlog

from anabranch.engine.errors import AnabranchError
from anabranch.engine.model import JobEnd, JobState, SessionId
from anabranch.engine.ports import JobStore

__all__ = ["Clearing"]

log = structlog.get_logger()
EVERY = timedelta(minutes=1)
BATCH = 200
KEPT_COMPLETED = timedelta(minutes=10)
KEPT = timedelta(days=1)  # a retry may go on from it
_JOB_ID = re.compile(r"[0-9a-f]{64}")


class Clearing:
    """Goes round the job folders below one root; any number of workers may share it."""

    def __init__(self, store: JobStore, session: SessionId, root: Path) -> None:
        """For the process of this session."""
        self._store = store
        self._session = session
        self._root = root
        self._gone = root / ".gone"
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
        """Look at the next folders, and remove those that are over; how many there were."""
        names = await asyncio.to_thread(self._look)
        ends = await self._store.job_ends(self._session, EVERY, names)
        over = [name for name in names if (_is_over(ends[name]) if name in ends else self._is_old(name))]
        await asyncio.to_thread(self._remove, over)
        return len(over)

    def _look(self) -> list[str]:
        """The next so many of all, so that none is passed over for ever (E13)."""
        names = sorted(entry.name for entry in self._root.glob("*") if _JOB_ID.fullmatch(entry.name))
        found = [name for name in names if name > self._last][:BATCH]
        self._last = found[-1] if len(found) == BATCH else ""
        return found

    def _is_old(self, name: str) -> bool:
        """Whether the folder of a job that is not there, for it was purged, has not been touched for long."""
        with suppress(FileNotFoundError):
            return time.time() - (self._root / name).stat().st_mtime > KEPT.total_seconds()
        return False

    def _remove(self, names: Sequence[str]) -> None:
        if not names and not self._gone.exists():
            return
        self._gone.mkdir(parents=True, exist_ok=True)
        for name in names:
            with suppress(OSError):  # another worker was faster
                (self._root / name).rename(self._gone / name)  # at once: nobody meets half a folder
        shutil.rmtree(self._gone, ignore_errors=True)


def _is_over(end: JobEnd) -> bool:
    if end.ended_for is None:
        return False
    return end.ended_for > (KEPT_COMPLETED if end.state is JobState.COMPLETED else KEPT)
