"""The bytes behind an address, for those who only read."""

import asyncio
import io
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import structlog

from anabranch.errors import AnabranchError, InputError, NotFound, Unavailable
from anabranch.storage.tiers import Storage

__all__ = ["Objects", "Remote", "TierObjects"]

log = structlog.get_logger()

READ_AHEAD = 2**16


class Objects(Protocol):
    """Reads objects of the tiers by address; `file.lost` where there is none."""

    async def size(self, address: str) -> int:
        """How many bytes it has."""

    def read(self, address: str, start: int, length: int) -> AsyncIterator[bytes]:
        """So many of its bytes from there on, in pieces."""

    async def locate(self, address: str) -> "Path | Remote":
        """Its file on this machine, or how to read it from afar."""


class TierObjects:
    """Objects of the tiers that handlers write to."""

    def __init__(self, storage: Storage) -> None:
        """Nothing is opened yet."""
        self._storage = storage

    async def size(self, address: str) -> int:
        """How many bytes it has."""
        with _discreet():
            return (await asyncio.to_thread(self._storage.stat, address)).size

    async def read(self, address: str, start: int, length: int) -> AsyncIterator[bytes]:
        """So many of its bytes from there on, in pieces."""
        with _discreet():
            pieces = await asyncio.to_thread(self._storage.stream, address, start, length)
        turn: asyncio.Task[bytes] | None = None
        try:
            while piece := await asyncio.shield(turn := asyncio.create_task(asyncio.to_thread(next, pieces, b""))):
                yield piece
        finally:
            _close(pieces, turn)

    async def locate(self, address: str) -> "Path | Remote":
        """Its file on this machine, or how to read it from afar."""
        with _discreet():
            tier, key = self._storage.find(address)
            path = await asyncio.to_thread(tier.locate, key)
        return path or Remote(self._storage, address, await self.size(address))


@contextmanager
def _discreet() -> Iterator[None]:
    """Tell readers what is wrong with a file of theirs, and not where it is: that is for the log."""
    try:
        yield
    except (NotFound, InputError) as error:
        log.warning("file.lost", reason=error.message)
        raise AnabranchError("file.lost", "a published file is not in its tier any more") from error
    except AnabranchError as error:
        log.warning("storage.unreachable", reason=error.message)
        raise Unavailable("storage.unreachable", "the file's tier can't be read now", remedy="Try again.") from error


def _close(pieces: Iterator[bytes], turn: "asyncio.Task[bytes] | None") -> None:
    """Close what is read when nobody reads on; a thread may still be at it, and can't be told."""
    close = getattr(pieces, "close", lambda: None)
    if turn is None or turn.done():
        close()
    else:
        turn.add_done_callback(lambda ended: (ended.exception(), close()))


class Remote:
    """An object of a cloud, which is read in ranges by our own store: GDAL knows neither its place nor its secrets."""

    def __init__(self, storage: Storage, address: str, size: int) -> None:
        """Nothing is read yet."""
        self._storage = storage
        self._address = address
        self._size = size

    def open(self) -> io.BufferedReader:
        """A file to read from."""
        return io.BufferedReader(Ranges(self._storage, self._address, self._size), READ_AHEAD)


class Ranges(io.RawIOBase):
    """A file whose every read asks for a range."""

    def __init__(self, storage: Storage, address: str, size: int) -> None:
        """At its beginning."""
        self._storage = storage
        self._address = address
        self._size = size
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go there; beyond the end there is nothing."""
        self._at = max(0, offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence])
        return self._at

    def readinto(self, buffer: "memoryview | bytearray") -> int:  # type: ignore[override]  # the name of theirs is newer
        """Fill a buffer as far as there are bytes."""
        length = min(len(buffer), self._size - self._at)
        if length <= 0:
            return 0
        data = self._storage.read(self._address, self._at, length)
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)
