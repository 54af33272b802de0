"""The doorbell: rung at once, then at most once per queue in a while, however many lanes open (E12)."""

import time
from collections.abc import Iterable

from anabranch.engine.ports import JobStore

__all__ = ["Bell"]

PAUSE_SECONDS = 0.03


class Bell:
    """Wakes the workers of other processes; the own process wakes by itself.

    A ring that is left out costs nothing: those who were woken claim until nothing is left, and an idle one polls.
    """

    def __init__(self, store: JobStore) -> None:
        """Ring through this store."""
        self._store = store
        self._rung: dict[str, float] = {}

    async def ring(self, queues: Iterable[str]) -> None:
        """Ring for those queues that have not been rung for a moment."""
        now = time.monotonic()
        quiet = sorted(queue for queue in queues if now - self._rung.get(queue, 0.0) >= PAUSE_SECONDS)
        if quiet:
            self._rung.update(dict.fromkeys(quiet, now))
            await self._store.ring(quiet)
