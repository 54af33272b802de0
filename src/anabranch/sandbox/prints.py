"""What a sandbox's process prints: its server keeps the end of it, so that nobody forges a log."""

import os
from collections.abc import Mapping

from anabranch.sandbox.wire import CHUNK

__all__ = ["Prints"]

MOST_BYTES = 4_000


class Prints:
    """The read end of a pipe that is another process's standard output and error."""

    def __init__(self, handle: int) -> None:
        """The handle is these prints' from now on."""
        os.set_blocking(handle, False)
        self._handle = handle
        self._ended = False
        self._kept = b""

    def handles(self) -> list[int]:
        """What to poll for something to read."""
        return [] if self._ended else [self._handle]

    def take(self, ready: Mapping[int, int]) -> None:
        """Read what poll found to be there."""
        if self._handle in ready:
            self._read()

    def text(self) -> str:
        """The end of what was printed until now."""
        while not self._ended and self._read():
            pass
        return self._kept.decode(errors="replace")

    def close(self) -> None:
        """Read no more."""
        os.close(self._handle)

    def _read(self) -> bool:
        try:
            read = os.read(self._handle, CHUNK)
        except BlockingIOError:  # somebody holds the other end, and says nothing
            return False
        self._kept = (self._kept + read)[-MOST_BYTES:]
        self._ended = not read
        return bool(read)
