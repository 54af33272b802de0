"""What the two sides of a sandbox say to each other: JSON, a line each, bounded."""

import json
import socket
from collections.abc import Iterator
from typing import Any

__all__ = ["CHUNK", "MOST_BYTES", "Said", "TooMuch", "Wire"]

MOST_BYTES = 16 * 2**20
CHUNK = 1 << 16

Said = dict[str, Any]  # JSON, of a shape that each message has for itself


class TooMuch(Exception):
    """The other side said more than anybody reads."""


class Wire:
    """One end of a socket."""

    def __init__(self, end: socket.socket, most: int | None = None) -> None:
        """The socket is this wire's from now on; at most so many bytes are heard on it."""
        self.socket = end
        self._most = most
        self._held = bytearray()
        self._heard = 0

    def fileno(self) -> int:
        """So that `select` takes it."""
        return self.socket.fileno()

    def say(self, said: Said) -> None:
        """Send a message."""
        self.socket.sendall(json.dumps(said, allow_nan=False).encode() + b"\n")

    def hear(self) -> Iterator[Said]:
        """The messages that one read brings; EOFError when the other side is gone, TooMuch when it said too much."""
        chunk = self.socket.recv(CHUNK)
        if not chunk:
            raise EOFError
        yield from self._take(chunk)

    def rest(self, begun: bytes) -> list[Said]:
        """The messages that begin with these bytes, to the end of one."""
        found = list(self._take(begun))
        while not found:
            found = list(self.hear())
        return found

    def _take(self, chunk: bytes) -> Iterator[Said]:
        self._heard += len(chunk)
        if self._most is not None and self._heard > self._most:
            raise TooMuch
        self._held += chunk
        if b"\n" in chunk:
            *lines, self._held = self._held.split(b"\n")
            yield from map(json.loads, lines)

    def close(self) -> None:
        """Say nothing more."""
        self.socket.close()
