"""NDJSON in both directions: lines are read and answered as they arrive, never all at once."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from fastapi import Request, Response
from starlette.types import Receive, Scope, Send

from anabranch.api.requests.body import too_large

__all__ = ["MEDIA_TYPES", "Line", "NdjsonResponse", "read_batches"]

MEDIA_TYPES = ("application/x-ndjson", "application/ndjson", "application/jsonl")
MAX_BATCH_LINES = 100
MAX_BATCH_BYTES = 1_000_000


@dataclass(frozen=True)
class Line:
    """A line that is not blank, numbered from 1; `text` is None if it was too long."""

    number: int
    text: bytes | None


class _Lines:
    """Splits pieces of a body into lines; of a line that is too long only the length is kept."""

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._rest = bytearray()
        self._is_over = False
        self._number = 1

    def feed(self, piece: bytes) -> list[Line]:
        """The lines that this piece of the body completes."""
        *ended, rest = piece.split(b"\n")
        found = []
        for part in ended:
            self._add(part)
            found += self.end()
        self._add(rest)
        return found

    def end(self) -> list[Line]:
        """The last line, unless it is blank."""
        text = None if self._is_over else bytes(self._rest).strip()
        line = Line(self._number, text)
        self._rest.clear()
        self._is_over, self._number = False, self._number + 1
        return [] if text == b"" else [line]

    def _add(self, part: bytes) -> None:
        self._is_over = self._is_over or len(self._rest) + len(part) > self._longest
        if self._is_over:
            self._rest.clear()
        else:
            self._rest += part


async def read_batches(request: Request, *, longest: int, most: int) -> AsyncIterator[list[Line]]:
    """The lines of a body in batches, as they arrive; InputError if the body is too large."""
    lines, size = _Lines(longest), 0
    async for piece in request.stream():
        size += len(piece)
        if size > most:
            raise too_large(most, "ANABRANCH_MAX_BULK_BYTES")
        for batch in _cut(lines.feed(piece)):
            yield batch
    if last := lines.end():
        yield last


def _cut(lines: list[Line]) -> list[list[Line]]:
    """Batches with limited lines and bytes."""
    batches: list[list[Line]] = []
    size = MAX_BATCH_BYTES
    for line in lines:
        if size >= MAX_BATCH_BYTES or len(batches[-1]) == MAX_BATCH_LINES:
            batches.append([])
            size = 0
        batches[-1].append(line)
        size += len(line.text or b"")
    return batches


class NdjsonResponse(Response):
    """Sends lines as they are made; the rest of the request's body is read meanwhile."""

    media_type: str | None = MEDIA_TYPES[0]

    def __init__(self, answer: Callable[[], AsyncIterator[bytes]]) -> None:
        super().__init__()
        del self.headers["content-length"]
        self._answer = answer

    # Starlette's own streaming listens for the end of the connection, and would take the body for that.
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response."""
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        async for lines in self._answer():
            await send({"type": "http.response.body", "body": lines, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})
