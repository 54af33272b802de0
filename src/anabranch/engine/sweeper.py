"""The sweeper: takes over what dead sessions hold."""

import time
from datetime import timedelta

import structlog

from anabranch.engine.model import SessionId
from anabranch.engine.ports import TaskQueue

__all__ = ["Sweeper"]

log = structlog.get_logger()
EVERY = timedelta(seconds=5)
GRACE = timedelta(seconds=30)


class Sweeper:
    """A loop over state in bounded rounds; any number of them may run at once."""

    def __init__(self, queue: TaskQueue, session: SessionId) -> None:
        """For the process of this session."""
        self._queue = queue
        self._session = session
        self._due = 0.0

    async def tick(self) -> None:
        """Sweep if it is time."""
        if time.monotonic() < self._due:
            return
        self._due = time.monotonic() + EVERY.total_seconds()
        swept = await self._queue.sweep(self._session, EVERY, GRACE)
        if swept.expired or swept.released:
            log.warning("sweeper.took_over", sessions=swept.expired, tasks=swept.released)
