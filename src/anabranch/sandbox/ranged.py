"""A file that a sandbox reads by ranges: its caller serves them over sockets, which answer nothing else.

A request is the start and the length of a range; the answer is its bytes, and nothing if the caller has failed.
"""

import io
import os
import socket
import struct
import threading
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import PurePosixPath
from typing import Literal, NamedTuple, Protocol

from anabranch.errors import Permanent
from anabranch.storage.range_file import RangeFile
from anabranch.strict_model import StrictModel

__all__ = ["RangeServer", "RangeSource", "RangedFile"]

REQUEST = struct.Struct("<QI")
SOCKETS_PER_FILE = 4
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
    """The caller's ends: serves one file, a thread for each, until the other ends are closed or an error stops it."""

    def __init__(self, source: RangeSource) -> None:
        """Nothing is served yet; `there` are the ends for the sandbox."""
        self._source = source
        self._unserved: list[socket.socket] = []
        self.there: list[socket.socket] = []
        self._counting = threading.Lock()
        self._ranges_left = MAX_RANGES
        self._bytes_left = MAX_READINGS * max(source.size, MAX_RANGE_BYTES)
        self.error: Exception | None = None
        try:
            for _ in range(SOCKETS_PER_FILE):
                here, there = socket.socketpair()
                self._unserved.append(here)
                self.there.append(there)
        except OSError:
            self.close()
            raise

    def start(self) -> None:
        """Serve; the sandbox has its ends by now."""
        for there in self.there:
            there.close()
        while self._unserved:
            threading.Thread(target=self._serve, args=[self._unserved[-1]], name="ranges", daemon=True).start()
            self._unserved.pop()

    def close(self) -> None:
        """Close the ends that no thread serves; a thread closes its own when the other end is closed."""
        for end in (*self._unserved, *self.there):
            end.close()

    def _serve(self, here: socket.socket) -> None:
        with here:
            while (request := _receive(here.fileno(), REQUEST.size)) is not None:
                try:
                    start, length = REQUEST.unpack(request)
                    self._check(start, length)
                    data = self._source.read(start, length)
                except Exception as error:  # noqa: BLE001  # the caller raises it
                    self.error = error
                    return
                try:
                    here.sendall(data)
                except ConnectionError:
                    return

    def _check(self, start: int, length: int) -> None:
        with self._counting:
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
    handles: tuple[int, ...]

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
        """The bytes of a range within it."""
        return self.read_all([(start, length)])[0]

    def read_all(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """The bytes of several ranges within it, a few requested at once; threads take turns."""
        requests = [
            (start + done, min(length - done, MAX_RANGE_BYTES))
            for start, length in ranges
            for done in range(0, length, MAX_RANGE_BYTES)
        ]
        with _turn:
            pieces = iter(
                [
                    piece
                    for begun in range(0, len(requests), len(self.handles))
                    for piece in self._ask(requests[begun : begun + len(self.handles)])
                ]
            )
        return [b"".join(islice(pieces, -(-length // MAX_RANGE_BYTES))) for _, length in ranges]

    def _ask(self, requests: Sequence[tuple[int, int]]) -> Iterator[bytes]:
        """The answers to at most as many requests as there are sockets."""
        asked = list(zip(self.handles, requests, strict=False))
        for handle, request in asked:
            os.write(handle, REQUEST.pack(*request))
        for handle, (_, length) in asked:
            data = _receive(handle, length)
            if data is None:
                raise OSError(f"{self.name} can't be read any more")
            yield data


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
