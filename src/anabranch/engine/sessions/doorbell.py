"""Wakes workers for new tasks: at once, then at most once per pause, however many lanes open (E12)."""

import asyncio
from collections.abc import Iterable

import structlog

from anabranch.engine.ports import JobStore
from anabranch.errors import AnabranchError

__all__ = ["Doorbell"]

log = structlog.get_logger()
RING_PAUSE_SECONDS = 0.03


class Doorbell:
    """Wakes the workers of other processes; the own process wakes by itself."""

    def __init__(self, store: JobStore) -> None:
        self._store = store
        self._due: set[str] = set()
        self._ringing: asyncio.Task[None] | None = None

    def ring(self, queues: Iterable[str]) -> None:
        """Ring for these queues now, or at the end of the pause since the last ring."""
        self._due.update(queues)
        if self._due and (self._ringing is None or self._ringing.done()):
            self._ringing = asyncio.create_task(self._ring())

    async def _ring(self) -> None:
        while self._due:
            queues, self._due = sorted(self._due), set()
            try:
                await self._store.ring(queues)
            except AnabranchError as error:
                log.warning("bell.failed", reason=error.message)
            await asyncio.sleep(RING_PAUSE_SECONDS)
