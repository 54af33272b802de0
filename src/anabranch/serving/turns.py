"""Turns: few requests are computed at once, each until a deadline."""

import asyncio

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from anabranch.errors import Unavailable

__all__ = ["Turns"]

DEADLINE_SECONDS = 30.0


class Turns:
    """Lets few draw at once: more would only take memory, and the processors from everyone else.

    A turn lasts as long as something is computed, which a thread does to its end: neither a caller who leaves nor the
    deadline gives it back before, and a caller who takes the answer slowly does not keep it.
    """

    def __init__(self, app: ASGIApp, most: int, deadline: float = DEADLINE_SECONDS) -> None:
        """All turns are free; the deadline is in seconds, and waiting for a turn counts."""
        self._app = app
        self._deadline = deadline
        self._turns = asyncio.Semaphore(most)
        self._working = set[asyncio.Task[list[Message]]]()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request in its turn."""
        for message in await self._answer(scope, receive):
            await send(message)

    async def _answer(self, scope: Scope, receive: Receive) -> list[Message]:
        deadline = asyncio.timeout(self._deadline)
        try:
            async with deadline:
                await self._turns.acquire()
                return await asyncio.shield(self._begin(scope, receive))
        except TimeoutError as error:
            if not deadline.expired():
                raise
            told = f"the raster was not drawn within {self._deadline:g} seconds"
            raise Unavailable("raster.slow", told, remedy="Ask for less, or try again later.") from error

    def _begin(self, scope: Scope, receive: Receive) -> asyncio.Task[list[Message]]:
        work = asyncio.create_task(self._compute(scope, receive))
        self._working.add(work)
        work.add_done_callback(self._end)
        return work

    def _end(self, work: asyncio.Task[list[Message]]) -> None:
        self._working.discard(work)
        self._turns.release()
        if not work.cancelled():
            work.exception()  # nobody may be left to be told

    async def _compute(self, scope: Scope, receive: Receive) -> list[Message]:
        answer: list[Message] = []

        async def keep(message: Message) -> None:
            answer.append(message)

        if not await Request(scope, receive).is_disconnected():
            await self._app(scope, receive, keep)
        return answer
