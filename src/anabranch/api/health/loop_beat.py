"""A heartbeat of the event loop, which shows when it hangs."""

import asyncio
import time

__all__ = ["LoopBeat"]


class LoopBeat:
    """Ticks in the event loop every half second."""

    EVERY = 0.5

    def __init__(self) -> None:
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
