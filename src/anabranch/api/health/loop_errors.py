"""Logs errors of the event loop."""

import asyncio
import time
from typing import Any

__all__ = ["LoopErrors"]

INTERVAL_SECONDS = 10.0
MAX_MESSAGES = 100


class LoopErrors:
    """Logs errors, the same one at most once in ten seconds.

    Without descriptors asyncio says for every connection that could wait, each second, that it can't accept it: that
    fills a disk in no time.
    """

    def __init__(self) -> None:
        self._logged: dict[str, float] = {}

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:  # as asyncio has it
        """Handle one, as `loop.set_exception_handler` wants it."""
        message, now = str(context.get("message")), time.monotonic()
        if now - self._logged.get(message, -INTERVAL_SECONDS) < INTERVAL_SECONDS:
            return
        if len(self._logged) >= MAX_MESSAGES:
            self._logged.clear()
        self._logged[message] = now
        loop.default_exception_handler(context)
