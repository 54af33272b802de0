"""Files to upload, hashed while they are sent."""

import os
import stat
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from hashlib import file_digest, sha256
from pathlib import Path
from typing import BinaryIO

from anabranch.contract.jobs import Uploaded
from anabranch.errors import InputError

__all__ = [
    "AsyncPieces",
    "FileBody",
    "FilePart",
    "OnBytes",
    "Pieces",
    "hash_file",
    "hash_file_async",
    "write_atomically",
]

CHUNK_BYTES = 2**20
OnBytes = Callable[[int, int | None], None]


class FileBody:
    """The content of a file as a request body; `sha256` is the hash of the bytes sent."""

    def __init__(self, path: Path, on_progress: OnBytes | None = None) -> None:
        """Open it."""
        self.path = path
        self.sha256 = ""
        self._on_progress = on_progress
        self._sent = 0
        self._began = False
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
        self._rewind()
        while piece := self._file.read(CHUNK_BYTES):
            digest.update(piece)
            yield piece
            self._report_sent(len(piece))
        self.sha256 = digest.hexdigest()

    async def pieces_async(self) -> AsyncIterator[bytes]:
        """The same, for asyncio."""
        import asyncio  # an async caller has imported it already; the command line starts faster without it

        digest = sha256()
        self._rewind()
        while piece := await asyncio.to_thread(self._file.read, CHUNK_BYTES):
            digest.update(piece)
            yield piece
            self._report_sent(len(piece))
        self.sha256 = digest.hexdigest()

    def _rewind(self) -> None:
        if self.size is not None:
            self._file.seek(0)
        elif self._began:
            raise InputError(
                "upload.unreadable", f"{self.path} is a pipe, and can't be read twice", remedy="Upload it again."
            )
        self._began, self._sent = True, 0

    def _report_sent(self, size: int) -> None:
        self._sent += size
        if self._on_progress:
            self._on_progress(self._sent, self.size)

    def check(self, uploaded: Uploaded) -> Uploaded:
        """The answer to the upload; InputError if the API received other bytes than were sent."""
        if uploaded.sha256 != self.sha256:
            message = f"{self.path} was changed on the way to the API"
            raise InputError("upload.checksum", message, remedy="Send it again.")
        return uploaded

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class FilePart(FileBody):
    """A range of a file as a request body; it is opened when it is sent, and can be sent again."""

    def __init__(self, path: Path, start: int, size: int) -> None:
        """Opens nothing yet."""
        self.path, self._start, self._size = path, start, size

    @property
    def size(self) -> int:
        return self._size

    def pieces(self) -> Iterator[bytes]:
        with self.path.open("rb") as file:
            file.seek(self._start)
            left = self._size
            while piece := file.read(min(CHUNK_BYTES, left)):
                left -= len(piece)
                yield piece

    async def pieces_async(self) -> AsyncIterator[bytes]:
        import asyncio

        pieces = self.pieces()
        while piece := await asyncio.to_thread(next, pieces, b""):
            yield piece


class Pieces:
    """A body that httpx can send again, from its start."""

    def __init__(self, body: FileBody) -> None:
        self._body = body

    def __iter__(self) -> Iterator[bytes]:
        return self._body.pieces()


class AsyncPieces:
    """The same, for asyncio."""

    def __init__(self, body: FileBody) -> None:
        self._body = body

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._body.pieces_async()


def hash_file(path: Path) -> str:
    """The SHA-256 of a file."""
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


async def hash_file_async(path: Path) -> str:
    """The same, for asyncio."""
    import asyncio

    return await asyncio.to_thread(hash_file, path)


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
