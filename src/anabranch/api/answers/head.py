"""HEAD wherever GET is: the GET route responds, and its body is not sent."""

import asyncio
from collections.abc import Callable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["HeadByGet"]


class HeadByGet:
    """Calls the GET route where no route accepts HEAD; a stream ends when its headers are sent."""

    def __init__(self, app: ASGIApp, *, knows_head: Callable[[Scope], bool]) -> None:
        self._app = app
        self._knows_head = knows_head

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http" or scope["method"] != "HEAD" or self._knows_head(scope):
            await self._app(scope, receive, send)
            return
        answered = asyncio.Event()
        asked = {**scope, "method": "GET"}  # middleware outside still sees HEAD

        async def send_head(message: Message) -> None:
            if message["type"] == "http.response.start":
                scope.update({**asked, "method": "HEAD"})  # with the route that was found
                await send(message)
            elif not answered.is_set():
                answered.set()
                await send({"type": "http.response.body", "body": b"", "more_body": False})

        async def receive_until_answered() -> Message:
            waits = [asyncio.ensure_future(receive()), asyncio.ensure_future(answered.wait())]
            try:
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
                return {"type": "http.disconnect"} if answered.is_set() else await waits[0]  # type: ignore[return-value]
            finally:
                for wait in waits:
                    wait.cancel()

        await self._app(asked, receive_until_answered, send_head)
