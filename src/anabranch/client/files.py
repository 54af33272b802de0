"""Files to upload, hashed while they are sent."""

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
    """An uploaded file; a job takes its address as a parameter."""

    address: str
    sha256: str
    size: int
    raw: Raw = field(repr=False)

    @classmethod
    def of(cls, raw: Raw) -> "Uploaded":
        """Read an answer."""
        return cls(raw["address"], raw["sha256"], raw["size"], raw)


class FileBody:
    """The content of a file as a request body; `sha256` is the hash of the bytes sent."""

    def __init__(self, path: Path) -> None:
        """Open it."""
        self.sha256 = ""
        try:
            self._file: BinaryIO = path.open("rb")
        except OSError as error:
            raise InputError("upload.unreadable", f"{path} can't be read: {error.strerror}") from error

    @property
    def size(self) -> int | None:
        """Its size, if it is known before reading; None for a pipe."""
        found = os.fstat(self._file.fileno())
        return found.st_size if stat.S_ISREG(found.st_mode) else None

    def pieces(self) -> Iterator[bytes]:
        """The content, in chunks."""
        digest = sha256()
        with self._file:
            while piece := self._file.read(CHUNK_BYTES):
                digest.update(piece)
                yield piece
        self.sha256 = digest.hexdigest()

    async def pieces_async(self) -> AsyncIterator[bytes]:
        """The same, for asyncio."""
        import asyncio  # an async caller has imported it already; the command line starts faster without it

        digest = sha256()
        with self._file:
            while piece := await asyncio.to_thread(self._file.read, CHUNK_BYTES):
                digest.update(piece)
                yield piece
        self.sha256 = digest.hexdigest()

    def close(self) -> None:
        """Close the file, sent or not."""
        self._file.close()


@contextmanager
def write_atomically(file: Path) -> Iterator[BinaryIO]:
    """A temporary file to write to, which replaces the target when it is complete."""
    aside = file.with_name(f"{file.name}.part")
    try:
        with aside.open("wb") as written:
            yield written
        aside.replace(file)
    except OSError as error:
        raise InputError("file.unwritable", f"{file} can't be written: {error.strerror}") from error
    finally:
        aside.unlink(missing_ok=True)
