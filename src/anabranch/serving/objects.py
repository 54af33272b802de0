"""The bytes behind an address, for those who only read."""

import asyncio
import re
import unicodedata
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Protocol

from anabranch.engine.errors import NotFound
from anabranch.settings import Storage

__all__ = ["PIECE", "LocalObjects", "Objects"]

PIECE = 2**18


class Objects(Protocol):
    """Reads objects of the tiers by address; NotFound where there is none."""

    async def size(self, address: str) -> int:
        """How many bytes it has."""

    def read(self, address: str, start: int, length: int) -> AsyncIterator[bytes]:
        """So many of its bytes from there on, in pieces."""

    def locate(self, address: str) -> str:
        """What GDAL opens it by."""


class LocalObjects:
    """Objects of tiers that are folders."""

    def __init__(self, storage: Storage) -> None:
        """Nothing is opened yet."""
        self._storage = storage

    async def size(self, address: str) -> int:
        """How many bytes it has."""
        return await asyncio.to_thread(lambda: self._path(address).stat().st_size)

    async def read(self, address: str, start: int, length: int) -> AsyncIterator[bytes]:
        """So many of its bytes from there on, in pieces."""
        file = await asyncio.to_thread(self._path(address).open, "rb")
        try:
            file.seek(start)
            while length > 0 and (piece := await asyncio.to_thread(file.read, min(PIECE, length))):
                length -= len(piece)
                yield piece
        finally:
            file.close()

    def locate(self, address: str) -> str:
        """What GDAL opens it by."""
        return str(self._path(address))

    def _path(self, address: str) -> Path:
        tier, _, path = address.partition("://")
        _check(address, path)
        root = self._storage.folder(tier).resolve()
        found = (root / path).resolve()
        # A link would lead where no row says that anything is published.
        if found != root / path or not found.is_file():
            raise NotFound("file.not_found", f"there is no file {address}")
        return found


def _check(address: str, path: str) -> None:
    parts = path.split("/")
    wrong = {"", ".", ".."} & set(parts) or re.search(r"[\x00-\x1f\x7f\\]", path)
    if wrong or unicodedata.normalize("NFC", path) != path or len(path.encode()) > 1024:
        raise NotFound("file.not_found", f"{address!r} is no address of a file")
