"""A receiver of webhooks on loopback, which behaves as a test wants."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from anabranch.canonical import decode
from anabranch.webhook_signature import verify_webhook
from tests.support.waiting import PATIENCE_SECONDS

__all__ = ["SECRET", "Receiver", "answering", "open_receiver"]

SECRET = "a secret of sixteen or more"


@dataclass(frozen=True)
class Received:
    """One request."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:  # JSON
        return decode(self.body)

    def verify(self, *secrets: str) -> Any:  # JSON
        return verify_webhook(self.body, self.headers, secrets or SECRET)


Behaviour = Callable[[Received, asyncio.StreamWriter], Awaitable[None]]


def answering(status: int, *headers: str, body: bytes = b"") -> Behaviour:
    """Answer with a status."""

    async def answer(_: Received, writer: asyncio.StreamWriter) -> None:
        head = [f"HTTP/1.1 {status} Status", f"Content-Length: {len(body)}", *headers, "", ""]
        writer.write("\r\n".join(head).encode() + body)

    return answer


@dataclass
class Receiver:
    """What was received so far."""

    port: int = 0
    behave: Behaviour = field(default_factory=lambda: answering(200))
    requests: list[Received] = field(default_factory=list)
    _came: asyncio.Condition = field(default_factory=asyncio.Condition)

    def url(self, path: str = "/hook") -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    async def wait(self, count: int) -> list[Received]:
        """The requests, once there are so many."""
        async with asyncio.timeout(PATIENCE_SECONDS), self._came:
            await self._came.wait_for(lambda: len(self.requests) >= count)
        return self.requests

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}
            body = await reader.readexactly(int(headers.get("content-length", 0)))
            received = Received(head[0].split(" ")[1], headers, body)
            async with self._came:
                self.requests.append(received)
                self._came.notify_all()
            await self.behave(received, writer)
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def open_receiver(behave: Behaviour | None = None, port: int = 0) -> AsyncIterator[Receiver]:
    """A receiver in this loop."""
    receiver = Receiver(behave=behave or answering(200))
    server = await asyncio.start_server(receiver.serve, "127.0.0.1", port)
    receiver.port = server.sockets[0].getsockname()[1]
    try:
        yield receiver
    finally:
        server.close()
