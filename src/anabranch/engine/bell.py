"""The doorbell: rung at once, then at most once per queue in a while, however many lanes open (E12)."""

import asyncio
from collections.abc import Iterable

import structlog

from anabranch.engine.ports import JobStore
from anabranch.errors import AnabranchError

__all__ = ["Bell"]

log = structlog.get_logger()
PAUSE_SECONDS = 0.03


class Bell:
    """Wakes the workers of other processes; the own process wakes by itself."""

    def __init__(self, store: JobStore) -> None:
        """Ring through this store."""
        self._store = store
        self._due: set[str] = set()
        self._ringing: asyncio.Task[None] | None = None

    def ring(self, queues: Iterable[str]) -> None:
        """Ring for these queues now, or when the pause since the last ring is over."""
        self._due.update(queues)
        if self._due and (self._ringing is None or self._ringing.done()):
            self._ringing = asyncio.create_task(self._ring())

    async def _ring(self) -> None:
        while self._due:
            queues, self._due = sorted(self._due), set()
            try:
                await self._store.ring(queues)
            except AnabranchError as error:
                log.warning("bell.unheard", reason=error.message)
            await asyncio.sleep(PAUSE_SECONDS)
