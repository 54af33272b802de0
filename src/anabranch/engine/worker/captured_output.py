"""The captured output of an attempt, bounded."""

import os
import threading
from multiprocessing.connection import Connection

from anabranch.redaction import hide_secrets

__all__ = ["Printed"]


class Printed:
    """Reads a pipe, and keeps the beginning and the end of the output."""

    KEPT = 32 * 1024
    MOST = 256 * 2**20

    def __init__(self, output: Connection) -> None:
        """Read from this pipe; what an earlier attempt left in it was read by that one."""
        self._output = output
        self._head = b""
        self._tail = b""
        self._size = 0
        self._reading = threading.Lock()

    @property
    def size(self) -> int:
        """How many bytes were printed so far."""
        return self._size

    def read(self) -> bool:
        """Read what is there; False when the output exceeds the limit."""
        try:
            chunk = os.read(self._output.fileno(), 1 << 20)
        except OSError:
            return True
        with self._reading:
            self._size += len(chunk)
            room = self.KEPT - len(self._head)
            self._head += chunk[:room]
            self._tail = (self._tail + chunk[max(room, 0) :])[-self.KEPT :]
        return self._size <= self.MOST

    def peek(self) -> tuple[int, str]:
        """The size so far, and the text of the whole lines that are kept; called in another thread."""
        with self._reading:
            size, head, tail = self._size, self._head, self._tail
        text = _join(head, tail, size)
        return size, text[: text.rfind("\n") + 1]

    def text(self, more: str | None = None) -> str | None:
        """The captured text, followed by `more`; None if both are empty."""
        while self._output.poll() and self._size <= self.MOST:
            before = self._size
            self.read()
            if self._size == before:
                break
        if not self._size:
            return more
        kept = _join(self._head, self._tail, self._size)
        return kept if more is None else kept.removesuffix("\n") + "\n" + more


def _join(head: bytes, tail: bytes, size: int) -> str:
    left_out = size - len(head) - len(tail)
    middle = f"\n… {left_out} bytes left out …\n".encode() if left_out else b""
    return hide_secrets((head + middle + tail).decode("utf-8", "replace").replace("\x00", "\\x00"))
