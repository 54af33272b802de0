"""The event loop's own beat."""

import asyncio
import time

__all__ = ["LoopBeat"]


class LoopBeat:
    """The event loop's own beat."""

    EVERY = 0.5

    def __init__(self) -> None:
        """It has just ticked."""
        self._at = time.monotonic()

    @property
    def age(self) -> float:
        """Seconds since the last tick."""
        return time.monotonic() - self._at

    async def run(self) -> None:
        """Tick until cancelled."""
        while True:
            self._at = time.monotonic()
            await asyncio.sleep(self.EVERY)
