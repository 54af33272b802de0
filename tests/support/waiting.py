"""How long tests wait for what must happen: for minutes, since a busy machine is slow; what never happens fails."""

import asyncio
import time
from collections.abc import Callable

__all__ = ["PATIENCE_SECONDS", "wait_until", "wait_until_async"]

PATIENCE_SECONDS = 240


def wait_until(true: Callable[[], object], what: str = "it", seconds: float = PATIENCE_SECONDS) -> None:
    """Wait until something is so."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, f"{what} did not happen in {seconds:g} s"
        time.sleep(0.02)


async def wait_until_async(true: Callable[[], object], what: str = "it", seconds: float = PATIENCE_SECONDS) -> None:
    """Wait until something is so, and let the loop go on meanwhile."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, f"{what} did not happen in {seconds:g} s"
        await asyncio.sleep(0.02)
