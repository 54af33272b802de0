"""Compresses text responses for clients that accept gzip; tiles, files and streams are sent as they are."""

import re

from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware.gzip import GZipResponder
from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["Compression"]

MIN_BYTES = 1_000
GZIP_LEVEL = 5
TEXT_TYPES = frozenset({"text/html", "text/css", "text/javascript", "text/plain", "image/svg+xml", "application/json"})
ZERO_WEIGHT = re.compile(r";\s*q\s*=\s*0(?:\.0*)?\s*$", re.IGNORECASE)


class Compression:
    """Compresses JSON and other text, but no range responses: a range counts the bytes of the file."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http" or not _accepts_gzip(Headers(scope=scope).get("accept-encoding", "")):
            await self._app(scope, receive, send)
            return

        async def send_weakened(message: Message) -> None:
            if message["type"] == "http.response.start":
                _weaken(message)
            await send(message)

        await _TextResponder(self._app, MIN_BYTES, GZIP_LEVEL)(scope, receive, send_weakened)


class _TextResponder(GZipResponder):
    """Starlette's responder, for text only; it compresses large responses in a thread."""

    _passes = False

    async def send_with_compression(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._passes = not _is_text(Headers(raw=message.get("headers", [])))
        if self._passes:
            await self.send(message)
        else:
            await super().send_with_compression(message)


def _accepts_gzip(text: str) -> bool:
    """Whether the client accepts gzip; `gzip` overrides `*`."""
    said = {part.partition(";")[0].strip().lower(): not ZERO_WEIGHT.search(part) for part in text.split(",")}
    return said.get("gzip", said.get("*", False))


def _is_text(headers: Headers) -> bool:
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    return (kind in TEXT_TYPES or kind.endswith("+json")) and "accept-ranges" not in headers


def _weaken(start: Message) -> None:
    # A strong ETag identifies exact bytes, and the uncompressed response has the same tag (RFC 9110, 8.8.1).
    headers = MutableHeaders(scope=start)
    if "content-encoding" in headers and headers.get("etag", "W/").startswith('"'):
        headers["etag"] = f"W/{headers['etag']}"
