"""Reads the bytes of an object by its address."""

import asyncio
import io
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Protocol

import structlog

from anabranch.errors import AnabranchError, InputError, NotFound, Unavailable
from anabranch.storage.range_file import RangeFile
from anabranch.storage.tiers import Storage

__all__ = ["Objects", "Remote", "TierObjects"]

log = structlog.get_logger()

READ_AHEAD_BYTES = 2**16


class Objects(Protocol):
    """Reads objects of the tiers by address; the error is `file.lost` where there is none."""

    async def size(self, address: str) -> int:
        """The size of an object in bytes."""

    def read(self, address: str, start: int, length: int) -> AsyncIterator[bytes]:
        """`length` bytes from `start`, in pieces."""

    async def locate(self, address: str) -> "Path | Remote":
        """Its file on this machine, or a remote object to read in ranges."""


class TierObjects:
    """Objects of the tiers that handlers write to."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    async def size(self, address: str) -> int:
        """The size of an object in bytes."""
        with _hide_location():
            return (await asyncio.to_thread(self._storage.stat, address)).size

    async def read(self, address: str, start: int, length: int) -> AsyncIterator[bytes]:
        """`length` bytes from `start`, in pieces."""
        with _hide_location():
            pieces = await asyncio.to_thread(self._storage.stream, address, start, length)
        turn: asyncio.Task[bytes] | None = None
        try:
            while piece := await asyncio.shield(turn := asyncio.create_task(asyncio.to_thread(next, pieces, b""))):
                yield piece
        finally:
            _close(pieces, turn)

    async def locate(self, address: str) -> "Path | Remote":
        """Its file on this machine, or a remote object to read in ranges."""
        with _hide_location():
            tier, key = self._storage.find(address)
            path = await asyncio.to_thread(tier.locate, key)
        return path or Remote(self._storage, address, await self.size(address))


@contextmanager
def _hide_location() -> Iterator[None]:
    """Report errors of a file to readers without its location, which only the log has."""
    try:
        yield
    except (NotFound, InputError) as error:
        log.warning("file.lost", reason=error.message)
        raise AnabranchError("file.lost", "a published file is missing from its tier") from error
    except AnabranchError as error:
        log.warning("storage.unreachable", reason=error.message)
        raise Unavailable("storage.unreachable", "the file's tier can't be read now", remedy="Try again.") from error


def _close(pieces: Iterator[bytes], turn: "asyncio.Task[bytes] | None") -> None:
    """Close the stream when the reader stops; a thread may still read from it, and can't be interrupted."""
    close = getattr(pieces, "close", lambda: None)
    if turn is None or turn.done():
        close()
    else:
        turn.add_done_callback(lambda ended: (ended.exception(), close()))


class Remote:
    """An object in cloud storage, read in ranges by our own client: GDAL sees neither its URL nor its credentials."""

    def __init__(self, storage: Storage, address: str, size: int) -> None:
        """Nothing is read yet."""
        self._storage = storage
        self._address = address
        self._size = size

    def open(self) -> io.BufferedReader:
        """Open it as a file."""
        return io.BufferedReader(RangeFile(self._size, partial(self._storage.read, self._address)), READ_AHEAD_BYTES)
