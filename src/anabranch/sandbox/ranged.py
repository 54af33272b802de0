"""A file that a sandbox reads by ranges: its caller serves them over a socket, which answers nothing else.

A request is the start and the length of a range; the answer is its bytes, and nothing if the caller has failed.
"""

import io
import os
import socket
import struct
import threading
from pathlib import PurePosixPath
from typing import Literal, NamedTuple, Protocol

from anabranch.errors import Permanent
from anabranch.storage.range_file import RangeFile
from anabranch.strict_model import StrictModel

__all__ = ["RangeServer", "RangeSource", "RangedFile"]

REQUEST = struct.Struct("<QI")
MAX_RANGE_BYTES = 16 * 2**20
MAX_RANGES = 4_000_000
# How often a function may read all of a file: a warp reads some blocks several times.
MAX_READINGS = 16


class RangeSource(Protocol):
    """A file of the caller's, by its name and size, and a function that reads a range of it. It blocks."""

    name: str
    size: int

    def read(self, start: int, length: int) -> bytes:
        """The bytes of a range within it."""


class RangeServer:
    """The caller's end: serves one file in a thread, until the other end is closed or an error stops it."""

    def __init__(self, source: RangeSource) -> None:
        """Nothing is served yet; `there` is the end for the sandbox."""
        self._source = source
        self._here, self.there = socket.socketpair()
        self._ranges_left = MAX_RANGES
        self._bytes_left = MAX_READINGS * max(source.size, MAX_RANGE_BYTES)
        self.error: Exception | None = None

    def start(self) -> None:
        """Serve; the sandbox has its end by now."""
        self.there.close()
        threading.Thread(target=self._serve, name="ranges", daemon=True).start()

    def close(self) -> None:
        """Close both ends, if it was not started."""
        self.there.close()
        self._here.close()

    def _serve(self) -> None:
        with self._here:
            while (request := _receive(self._here.fileno(), REQUEST.size)) is not None:
                try:
                    start, length = REQUEST.unpack(request)
                    self._check(start, length)
                    data = self._source.read(start, length)
                except Exception as error:  # noqa: BLE001  # the caller raises it
                    self.error = error
                    return
                try:
                    self._here.sendall(data)
                except ConnectionError:
                    return

    def _check(self, start: int, length: int) -> None:
        self._ranges_left -= 1
        self._bytes_left -= length
        if not (0 < length <= MAX_RANGE_BYTES and start + length <= self._source.size):
            raise Permanent(f"the function asked for an invalid range of {self._source.name}", code="sandbox.answer")
        if self._ranges_left < 0 or self._bytes_left < 0:
            raise Permanent(f"the function read {self._source.name} too many times", code="sandbox.answer")


class FileSize(NamedTuple):
    """The part of `os.stat_result` that there is."""

    st_size: int


_turn = threading.Lock()


class RangedFile(StrictModel):
    """The sandbox's end, as functions have it in place of the path of a local file."""

    name: str
    size: int
    handle: int

    @property
    def suffix(self) -> str:
        """The extension, as a path has it."""
        return PurePosixPath(self.name).suffix

    def stat(self) -> FileSize:
        """Its size, as a path has it."""
        return FileSize(self.size)

    def open(self, mode: Literal["rb"] = "rb") -> io.BufferedReader:
        """Open it as a file, as a path does."""
        return io.BufferedReader(RangeFile(self.size, self.read))

    def read(self, start: int, length: int) -> bytes:
        """The bytes of a range within it; threads take turns."""
        with _turn:
            return b"".join(
                self._ask(start + done, min(length - done, MAX_RANGE_BYTES))
                for done in range(0, length, MAX_RANGE_BYTES)
            )

    def _ask(self, start: int, length: int) -> bytes:
        os.write(self.handle, REQUEST.pack(start, length))
        data = _receive(self.handle, length)
        if data is None:
            raise OSError(f"{self.name} can't be read any more")
        return data


def _receive(handle: int, length: int) -> bytes | None:
    """This many bytes; None where the other end is gone. By a plain read: a sandbox has no socket calls."""
    data = bytearray(length)
    filled = 0
    while filled < length:
        try:
            count = os.readv(handle, [memoryview(data)[filled:]])
        except ConnectionError:
            return None
        if not count:
            return None
        filled += count
    return bytes(data)
