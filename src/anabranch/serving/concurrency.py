"""Limits how many requests are computed at once, each until a deadline."""

import asyncio

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from anabranch.errors import Unavailable

__all__ = ["ConcurrencyLimit"]

DEADLINE_SECONDS = 30.0


class ConcurrencyLimit:
    """Limits concurrent requests: more would only take memory, and processor time from others.

    A slot is taken until the computation ends, since a thread can't be stopped: neither a disconnect nor the deadline
    releases it earlier. While all slots are past the deadline, requests are refused at once. A caller that reads the
    response slowly does not hold a slot.
    """

    def __init__(self, app: ASGIApp, limit: int, deadline: float = DEADLINE_SECONDS) -> None:
        """All slots are free; the deadline is in seconds, and includes waiting for a slot."""
        self._app = app
        self._deadline = deadline
        self._limit = limit
        self._slots = asyncio.Semaphore(limit)
        self._working = set[asyncio.Task[list[Message]]]()
        self._late = set[asyncio.Task[list[Message]]]()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, once a slot is free."""
        for message in await self._answer(scope, receive):
            await send(message)

    async def _answer(self, scope: Scope, receive: Receive) -> list[Message]:
        if len(self._late) >= self._limit:
            raise _slow(f"all rasters that are being drawn take longer than {self._deadline:g} seconds")
        deadline, work = asyncio.timeout(self._deadline), None
        try:
            async with deadline:
                await self._slots.acquire()
                work = self._begin(scope, receive)
                return await asyncio.shield(work)
        except TimeoutError as error:
            if not deadline.expired():
                raise
            if work and not work.done():
                self._late.add(work)
            raise _slow(f"the raster was not drawn within {self._deadline:g} seconds") from error

    def _begin(self, scope: Scope, receive: Receive) -> asyncio.Task[list[Message]]:
        work = asyncio.create_task(self._compute(scope, receive))
        self._working.add(work)
        work.add_done_callback(self._end)
        return work

    def _end(self, work: asyncio.Task[list[Message]]) -> None:
        self._working.discard(work)
        self._late.discard(work)
        self._slots.release()
        if not work.cancelled():
            work.exception()  # retrieved, since the caller may be gone

    async def _compute(self, scope: Scope, receive: Receive) -> list[Message]:
        answer: list[Message] = []

        async def keep(message: Message) -> None:
            answer.append(message)

        if not await Request(scope, receive).is_disconnected():
            await self._app(scope, receive, keep)
        return answer


def _slow(message: str) -> Unavailable:
    return Unavailable("raster.slow", message, remedy="Request less, or try again later.")
