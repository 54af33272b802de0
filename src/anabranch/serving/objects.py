"""The bytes behind an address, for those who only read."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from anabranch.engine.addresses import Address, parse_address
from anabranch.engine.canonical import sha256
from anabranch.engine.errors import AnabranchError, InputError, NotFound
from anabranch.engine.sources import Sources
from anabranch.engine.storage import Storage

__all__ = ["Objects"]

KEPT_SECONDS = 3_600.0


class Objects:
    """Reads objects of the tiers by address; NotFound where there is none."""

    def __init__(self, storage: Storage, sources: Sources, folder: Path) -> None:
        """Objects of a cloud come to the cache of sources before GDAL opens them, and are held in the folder."""
        self._storage = storage
        self._sources = sources
        self._folder = folder

    async def size(self, address: str) -> int:
        """How many bytes it has."""
        return await asyncio.to_thread(self._size, address)

    async def read(self, address: str, start: int, length: int) -> AsyncIterator[bytes]:
        """So many of its bytes from there on, in pieces."""
        with _told(address):
            pieces = await asyncio.to_thread(self._storage.stream, address, start, length)
        try:
            while piece := await asyncio.to_thread(next, pieces, b""):
                yield piece
        finally:
            _close(pieces)

    async def locate(self, address: str) -> str:
        """The file that GDAL opens for it."""
        return await asyncio.to_thread(self._locate, address)

    def _size(self, address: str) -> int:
        with _told(address):
            return self._storage.stat(address).size

    def _locate(self, address: str) -> str:
        with _told(address):
            return self._find(parse_address(address))

    def _find(self, at: Address) -> str:
        tier, key = self._storage.find(at)
        if (path := tier.locate(key)) is not None:
            return str(path)
        held = self._folder / sha256(str(at))
        if not held.exists():
            self._release()
            self._sources.fetch(self._storage, at, held)
        with suppress(OSError):
            os.utime(held, (time.time(), held.stat().st_mtime))
        return str(held)

    def _release(self) -> None:
        """Let go of what nobody has asked for in a while; the cache bounds the rest."""
        for held in self._folder.glob("*"):
            with suppress(OSError):
                if time.time() - held.stat().st_atime > KEPT_SECONDS:
                    held.unlink()


@contextmanager
def _told(address: str) -> Iterator[None]:
    """What is no address of a file in its tier is not there, for a reader."""
    try:
        yield
    except InputError as error:
        raise NotFound("file.not_found", f"there is no file {address!r}") from error


def _close(pieces: Iterator[bytes]) -> None:
    close = getattr(pieces, "close", None)
    if close is not None:
        with suppress(AnabranchError, ValueError):
            close()
