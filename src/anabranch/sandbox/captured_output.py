"""Captures the output of a sandboxed process, so that it can't forge log lines; only the end is kept."""

import os
from collections.abc import Mapping

from anabranch.sandbox.channel import CHUNK_BYTES

__all__ = ["CapturedOutput"]

MAX_OUTPUT_BYTES = 4_000


class CapturedOutput:
    """The read end of a pipe that is the standard output and error of another process."""

    def __init__(self, handle: int) -> None:
        """This object owns the handle."""
        os.set_blocking(handle, False)
        self._handle = handle
        self._ended = False
        self._kept = b""

    def handles(self) -> list[int]:
        """The handles to poll for reading."""
        return [] if self._ended else [self._handle]

    def read_ready(self, ready: Mapping[int, int]) -> None:
        """Read the handles that poll found ready."""
        if self._handle in ready:
            self._read()

    def text(self) -> str:
        """The end of the output so far."""
        while not self._ended and self._read():
            pass
        return self._kept.decode(errors="replace")

    def close(self) -> None:
        """Read no more."""
        os.close(self._handle)

    def _read(self) -> bool:
        try:
            read = os.read(self._handle, CHUNK_BYTES)
        except BlockingIOError:  # a process still holds the other end, without output
            return False
        self._kept = (self._kept + read)[-MAX_OUTPUT_BYTES:]
        self._ended = not read
        return bool(read)
