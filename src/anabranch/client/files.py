"""Files on their way to the API, hashed as they go."""

import os
import stat
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO

from anabranch.client.answers import Raw
from anabranch.errors import InputError

__all__ = ["FileBody", "Uploaded", "write_atomically"]

CHUNK_BYTES = 2**20


@dataclass(frozen=True)
class Uploaded:
    """A file that the API keeps; a job takes its address as a parameter."""

    address: str
    sha256: str
    size: int
    raw: Raw = field(repr=False)

    @classmethod
    def of(cls, raw: Raw) -> "Uploaded":
        """Read an answer."""
        return cls(raw["address"], raw["sha256"], raw["size"], raw)


class FileBody:
    """The content of a file as a body; `sha256` is that of what was sent."""

    def __init__(self, path: Path) -> None:
        """Open it."""
        self.sha256 = ""
        try:
            self._file: BinaryIO = path.open("rb")
        except OSError as error:
            raise InputError("upload.unreadable", f"{path} can't be read: {error.strerror}") from error

    @property
    def size(self) -> int | None:
        """Its size, where that is known before it is read."""
        told = os.fstat(self._file.fileno())
        return told.st_size if stat.S_ISREG(told.st_mode) else None

    def pieces(self) -> Iterator[bytes]:
        """What it holds."""
        digest = sha256()
        with self._file:
            while piece := self._file.read(CHUNK_BYTES):
                digest.update(piece)
                yield piece
        self.sha256 = digest.hexdigest()

    async def pieces_async(self) -> AsyncIterator[bytes]:
        """The same, for asyncio."""
        import asyncio  # whoever awaits has it already; the command line does without

        digest = sha256()
        with self._file:
            while piece := await asyncio.to_thread(self._file.read, CHUNK_BYTES):
                digest.update(piece)
                yield piece
        self.sha256 = digest.hexdigest()

    def close(self) -> None:
        """Close it, sent or not."""
        self._file.close()


@contextmanager
def write_atomically(file: Path) -> Iterator[BinaryIO]:
    """A file to write to, which takes the place of another when it is whole."""
    aside = file.with_name(f"{file.name}.part")
    try:
        with aside.open("wb") as written:
            yield written
        aside.replace(file)
    except OSError as error:
        raise InputError("file.unwritable", f"{file} can't be written: {error.strerror}") from error
    finally:
        aside.unlink(missing_ok=True)
