"""Reads the bytes of an object by its address."""

import asyncio
import io
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Protocol

import structlog

from anabranch.errors import AnabranchError, Changed, Gone, InputError, NotFound, Unavailable
from anabranch.storage.range_file import RangeFile
from anabranch.storage.tiers import Storage

__all__ = ["Objects", "Remote", "TierObjects"]

log = structlog.get_logger()

READ_AHEAD_BYTES = 2**16


class Objects(Protocol):
    """Reads objects of the tiers by address; the error is `file.lost` where there is none."""

    async def size(self, address: str, version: str | None = None) -> int:
        """The size of an object in bytes; Gone if it is not this version of it any more."""

    def read(self, address: str, start: int, length: int, version: str | None = None) -> AsyncIterator[bytes]:
        """`length` bytes from `start`, in pieces; of this version only."""

    async def locate(self, address: str, version: str | None = None) -> "Path | Remote":
        """Its file on this machine, or an object to read in ranges; a version is always read so, checked each time."""

    def find(self, address: str, size: int) -> "Path | Remote":
        """The same for an object whose size is known."""


class TierObjects:
    """Objects of the tiers that handlers write to."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    async def size(self, address: str, version: str | None = None) -> int:
        """The size of an object in bytes; Gone if it is not this version of it any more."""
        with _hide_location(in_place=version is not None):
            found = await asyncio.to_thread(self._storage.stat, address)
        if version is not None and found.tag != version:
            raise _replaced()
        return found.size

    async def read(self, address: str, start: int, length: int, version: str | None = None) -> AsyncIterator[bytes]:
        """`length` bytes from `start`, in pieces; of this version only."""
        with _hide_location(in_place=version is not None):
            pieces = await asyncio.to_thread(partial(self._storage.stream, address, start, length, tag=version))
        turn: asyncio.Task[bytes] | None = None
        try:
            while piece := await asyncio.shield(turn := asyncio.create_task(asyncio.to_thread(next, pieces, b""))):
                yield piece
        finally:
            _close(pieces, turn)

    async def locate(self, address: str, version: str | None = None) -> "Path | Remote":
        """Its file on this machine, or an object to read in ranges; a version is always read so, checked each time."""
        if version is not None:
            return Remote(self._storage, address, await self.size(address, version), version)
        with _hide_location():
            tier, key = self._storage.find(address)
            path = await asyncio.to_thread(tier.locate, key)
        return path or Remote(self._storage, address, await self.size(address))

    def find(self, address: str, size: int) -> "Path | Remote":
        """The same for an object whose size is known."""
        with _hide_location():
            tier, key = self._storage.find(address)
            return tier.locate(key) or Remote(self._storage, address, size)


@contextmanager
def _hide_location(*, in_place: bool = False) -> Iterator[None]:
    """Report errors of a file to readers without its location, which only the log has."""
    try:
        yield
    except (NotFound, InputError, Changed) as error:
        if in_place:
            raise _replaced() from error
        log.warning("file.lost", reason=error.message)
        raise AnabranchError("file.lost", "a published file is missing from its tier") from error
    except AnabranchError as error:
        log.warning("storage.unreachable", reason=error.message)
        raise Unavailable("storage.unreachable", "the file's tier can't be read now", remedy="Try again.") from error


def _replaced() -> Gone:
    return Gone("file.gone", "the file was published where it lies, and was replaced or removed since")


def _close(pieces: Iterator[bytes], turn: "asyncio.Task[bytes] | None") -> None:
    """Close the stream when the reader stops; a thread may still read from it, and can't be interrupted."""
    close = getattr(pieces, "close", lambda: None)
    if turn is None or turn.done():
        close()
    else:
        turn.add_done_callback(lambda ended: (ended.exception(), close()))


class Remote:
    """An object that is read in ranges by our own client: GDAL sees neither its URL nor its credentials."""

    def __init__(self, storage: Storage, address: str, size: int, version: str | None = None) -> None:
        """Nothing is read yet; each read is of the version, if one is given."""
        self._storage = storage
        self._address = address
        self._size = size
        self._version = version

    def open(self) -> io.BufferedReader:
        """Open it as a file."""
        read = partial(self._storage.read, self._address, tag=self._version)
        return io.BufferedReader(RangeFile(self._size, read), READ_AHEAD_BYTES)
