"""Messages between the two sides of a sandbox: JSON lines, of bounded size."""

import json
import math
import os
import socket
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

__all__ = ["CHUNK_BYTES", "MAX_ANSWER_BYTES", "Channel", "MalformedMessage", "Message", "MessageTooLarge"]

MAX_ANSWER_BYTES = 16 * 2**20
CHUNK_BYTES = 1 << 16
MAX_SOCKETS = 16

Message = dict[str, Any]  # JSON; each message has a shape of its own


class MessageTooLarge(Exception):
    """The other side sent more than the limit."""


class MalformedMessage(Exception):
    """The other side sent something that is not a message."""


class Channel:
    """One end of a socket."""

    def __init__(self, end: socket.socket, max_bytes: int | None = None) -> None:
        """This object owns the socket; it receives at most `max_bytes` in total."""
        self.socket = end
        self._max_bytes = max_bytes
        self._buffer = bytearray()
        self._received = 0

    def fileno(self) -> int:
        """For `select`."""
        return self.socket.fileno()

    def send(self, message: Message) -> None:
        """Send a message with a plain write: a sandbox has no socket calls."""
        self._write(json.dumps(message, allow_nan=False).encode() + b"\n")

    def send_with_sockets(self, message: Message, others: Sequence[socket.socket]) -> None:
        """Send a message together with sockets."""
        text = json.dumps(message, allow_nan=False).encode() + b"\n"
        # The sockets go with the first byte: a long message could be cut off in that call.
        socket.send_fds(self.socket, [text[:1]], [other.fileno() for other in others])
        self._write(text[1:])

    def receive_with_sockets(self) -> tuple[Message, list[socket.socket]] | None:
        """A message with its sockets; None when the other side is gone."""
        begun, handles, _, _ = socket.recv_fds(self.socket, CHUNK_BYTES, MAX_SOCKETS)
        if not begun:
            return None
        found = list(self._split(begun))
        while not found:
            found = list(self.receive())
        return found[0], [socket.socket(fileno=handle) for handle in handles]

    def receive(self) -> Iterator[Message]:
        """The messages of one read.

        EOFError when the other side is gone, MessageTooLarge or MalformedMessage when it sent such a message.
        """
        chunk = self.socket.recv(CHUNK_BYTES)
        if not chunk:
            raise EOFError
        yield from self._split(chunk)

    def _write(self, text: bytes) -> None:
        rest = memoryview(text)
        while rest:
            rest = rest[os.write(self.fileno(), rest) :]

    def _split(self, chunk: bytes) -> Iterator[Message]:
        self._received += len(chunk)
        if self._max_bytes is not None and self._received > self._max_bytes:
            raise MessageTooLarge
        self._buffer += chunk
        if b"\n" in chunk:
            *lines, self._buffer = self._buffer.split(b"\n")
            yield from map(_parse, lines)

    def close(self) -> None:
        """Close the socket."""
        self.socket.close()


def _parse(line: bytes | bytearray) -> Message:
    try:
        message = json.loads(line, parse_constant=_refuse, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        raise MalformedMessage(str(error)) from error
    if not isinstance(message, dict):
        raise MalformedMessage("a message must be an object")
    return message


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _refuse(text)
