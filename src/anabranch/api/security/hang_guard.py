"""Answers requests with an error while the database hangs."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

import structlog

from anabranch.errors import Unavailable

__all__ = ["HangGuard", "database_silent"]

log = structlog.get_logger()
# Long enough for slow requests; together just under ten seconds, as each ping may take one second.
FIRST_PING_SECONDS = 4.0
PING_INTERVAL_SECONDS = 1.0
MAX_FAILED_PINGS = 3


class HangGuard:
    """Pings the database while a request waits; after several failed pings, the request gets an error."""

    def __init__(self, look: Callable[[], Awaitable[object]]) -> None:
        """`look` pings the database with a timeout; it raises Unavailable without an answer."""
        self._look = look
        self._looking: set[asyncio.Task[None]] = set()

    @contextmanager
    def over(self, waits: Callable[[], bool], answer: Callable[[], Awaitable[None]]) -> Iterator[None]:
        """Guard one request: `waits` says whether its response has not begun, `answer` sends the error."""
        is_over = False
        alarm = asyncio.get_running_loop().call_later(
            FIRST_PING_SECONDS, self._begin, lambda: waits() and not is_over, answer
        )
        try:
            yield
        finally:
            alarm.cancel()
            is_over = True

    def _begin(self, waits: Callable[[], bool], answer: Callable[[], Awaitable[None]]) -> None:
        task = asyncio.create_task(self._watch(waits, answer))
        self._looking.add(task)  # the loop itself holds no task
        task.add_done_callback(self._looking.discard)

    async def _watch(self, waits: Callable[[], bool], answer: Callable[[], Awaitable[None]]) -> None:
        in_vain = 0
        while waits():
            in_vain = 0 if await self._answers() else in_vain + 1
            if in_vain == MAX_FAILED_PINGS and waits():
                await answer()
                return
            await asyncio.sleep(PING_INTERVAL_SECONDS)

    async def _answers(self) -> bool:
        try:
            await self._look()
        except Unavailable as error:
            return error.code != "database.unreachable"
        except OSError as error:  # this process can't look, which says nothing of the database
            log.warning("hang_guard.query_failed", reason=str(error))
        return True


def database_silent() -> Unavailable:
    """The error while the database does not answer."""
    return Unavailable(
        "database.silent",
        "the database does not answer",
        remedy="See what is wrong with `anabranch doctor`; if the server hangs, restart it. Then try again.",
    )
