"""What the two sides of a sandbox say to each other: JSON, a line each, bounded."""

import json
import math
import os
import socket
from collections.abc import Iterator
from typing import Any, NoReturn

__all__ = ["CHUNK", "MOST_BYTES", "Garbled", "Said", "TooMuch", "Wire"]

MOST_BYTES = 16 * 2**20
CHUNK = 1 << 16

Said = dict[str, Any]  # JSON, of a shape that each message has for itself


class TooMuch(Exception):
    """The other side said more than anybody reads."""


class Garbled(Exception):
    """What the other side said is no message."""


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
        """Send a message, by a plain write: in a sandbox there are no calls of sockets."""
        self._write(json.dumps(said, allow_nan=False).encode() + b"\n")

    def hand(self, said: Said, other: socket.socket) -> None:
        """Send a message and a socket that goes with it."""
        text = json.dumps(said, allow_nan=False).encode() + b"\n"
        # One byte carries the socket; the rest of a long message would be cut off with it.
        socket.send_fds(self.socket, [text[:1]], [other.fileno()])
        self._write(text[1:])

    def take(self) -> tuple[Said, socket.socket] | None:
        """What the other side handed over; None when it is gone."""
        begun, handles, _, _ = socket.recv_fds(self.socket, CHUNK, 1)
        if not begun:
            return None
        found = list(self._take(begun))
        while not found:
            found = list(self.hear())
        return found[0], socket.socket(fileno=handles[0])

    def hear(self) -> Iterator[Said]:
        """The messages that one read brings.

        EOFError when the other side is gone, TooMuch when it said too much, Garbled when it makes no sense.
        """
        chunk = self.socket.recv(CHUNK)
        if not chunk:
            raise EOFError
        yield from self._take(chunk)

    def _write(self, text: bytes) -> None:
        rest = memoryview(text)
        while rest:
            rest = rest[os.write(self.fileno(), rest) :]

    def _take(self, chunk: bytes) -> Iterator[Said]:
        self._heard += len(chunk)
        if self._most is not None and self._heard > self._most:
            raise TooMuch
        self._held += chunk
        if b"\n" in chunk:
            *lines, self._held = self._held.split(b"\n")
            yield from map(_parse, lines)

    def close(self) -> None:
        """Say nothing more."""
        self.socket.close()


def _parse(line: bytes | bytearray) -> Said:
    try:
        said = json.loads(line, parse_constant=_refuse, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        raise Garbled(str(error)) from error
    if not isinstance(said, dict):
        raise Garbled("a message is an object")
    return said


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _refuse(text)
