"""A query that many callers share, with a time limit."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from anabranch.errors import AnabranchError, Unavailable

__all__ = ["SharedQuery"]

Answer = TypeVar("Answer")
CANCEL_SECONDS = 0.1


class SharedQuery(Generic[Answer]):
    """Runs a query that may hang: concurrent callers wait for the same result, which is cached while it is fresh."""

    def __init__(self, ask: Callable[[], Awaitable[Answer]], what: str, *, patience: float, fresh: float = 0.0) -> None:
        """`patience` limits every wait, and a result is cached while `fresh`; both in seconds."""
        self._ask = ask
        self._what = what
        self._patience = patience
        self._fresh = fresh
        self._asking: asyncio.Future[Answer] | None = None
        self._answered = -fresh

    async def get(self) -> Answer:
        """The result; Unavailable if there is none in time."""
        asking = self._asking
        if asking is None or (asking.done() and not self._is_fresh(asking)):
            asking = self._asking = asyncio.ensure_future(self._ask())
            asking.add_done_callback(self._note)
        await asyncio.wait([asking], timeout=self._patience)
        if asking.done() and not asking.cancelled():
            return asking.result()
        asking.cancel()  # it may never end, and the next caller starts again
        await asyncio.wait([asking], timeout=CANCEL_SECONDS)
        if asking.done():
            self._asking = None
        reason = f"{self._what} did not answer in {self._patience:g} s"
        raise Unavailable("database.unreachable", reason, remedy="Start the server, or end what keeps it busy.")

    async def try_get(self) -> Answer | AnabranchError:
        """The result, or why there is none."""
        try:
            return await self.get()
        except AnabranchError as error:
            return error

    def close(self) -> None:
        """Cancel the running query."""
        if self._asking:
            self._asking.cancel()

    def _is_fresh(self, asked: "asyncio.Future[Answer]") -> bool:
        good = not asked.cancelled() and asked.exception() is None
        return good and time.monotonic() - self._answered < self._fresh

    def _note(self, asked: "asyncio.Future[Answer]") -> None:
        self._answered = time.monotonic()
        if not asked.cancelled():
            asked.exception()  # marks it as seen: the caller may have left
