"""Uploads, whole or in parts: hashed while they arrive, staged, and stored whole under their hash (W7)."""

import asyncio
import errno
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256

from anabranch.canonical import sha256 as hash_text
from anabranch.errors import Conflict, InputError, NotFound, Unavailable
from anabranch.storage.filenames import check_file_name
from anabranch.storage.tiers import Intake, Tier

__all__ = ["PART_BYTES", "Upload", "UploadParts", "Uploads"]

PIECE_BYTES = 2**20
PART_BYTES = 8 * 2**20
PARTS = "uploads"  # their folder in the work area
MAX_PART_AGE = timedelta(days=1)
FULL_ERRNOS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@dataclass(frozen=True)
class Upload:
    """A stored file: its address, and whether it is new."""

    address: str
    sha256: str
    size: int
    created: bool


class Uploads:
    """Takes files into the bronze tier; none of them is ever in memory whole."""

    def __init__(self, bronze: Tier, most: int) -> None:
        """Files have at most this many bytes."""
        self._bronze = bronze
        self.most = most

    def check_size(self, size: int) -> None:
        """Refuse what is too large."""
        if size > self.most:
            raise InputError(
                "upload.too_large",
                f"the file is larger than {self.most} bytes",
                remedy="Raise ANABRANCH_MAX_UPLOAD_BYTES, or send less.",
            )

    def find(self, folder: str, name: str, digest: str) -> Upload | None:
        """The file of this name and hash, if it is kept in this folder."""
        key = f"{folder}/{digest}/{check_file_name(name)}"
        try:
            return Upload(f"bronze://{key}", digest, self._bronze.stat(key).size, created=False)
        except NotFound:
            return None

    async def receive(self, folder: str, name: str, pieces: AsyncIterator[bytes], wanted: str | None = None) -> Upload:
        """Store a file; nothing is left if the transfer breaks, it is too large or its hash is not `wanted`."""
        name = check_file_name(name)
        with _translate_errors():
            intake = await asyncio.to_thread(self._bronze.begin)
            try:
                return await self._receive(intake, folder, name, pieces, wanted)
            finally:
                # Not in a thread: a cancelled request would not wait for it.
                intake.discard()

    async def _receive(
        self, intake: Intake, folder: str, name: str, pieces: AsyncIterator[bytes], wanted: str | None
    ) -> Upload:
        digest, size = sha256(), 0

        def write(piece: bytes) -> None:
            digest.update(piece)
            intake.write(piece)

        async for piece in _join_pieces(pieces):
            size += len(piece)
            self.check_size(size)
            await asyncio.to_thread(write, piece)
        found = digest.hexdigest()
        if wanted not in (None, found):
            raise InputError(
                "upload.checksum",
                f"what arrived has the SHA-256 {found}, and not the one given",
                remedy="Send it again.",
            )
        key = f"{folder}/{found}/{name}"
        created = await asyncio.to_thread(intake.keep, key)
        return Upload(f"bronze://{key}", found, size, created)


class UploadParts:
    """Files that come in parts of equal size; a platform's parts are kept for a day, so that it can resume."""

    def __init__(self, work: Tier, uploads: Uploads) -> None:
        """Parts are kept in the work area until they are joined."""
        self._work = work
        self._uploads = uploads

    def list(self, folder: str, digest: str) -> tuple[int, ...]:
        """The numbers of the parts that are there, from 0."""
        found = self._work.walk(_parts_folder(folder, digest))
        return tuple(sorted(int(part.key.rpartition("/")[2]) for part in found))

    async def receive(self, folder: str, digest: str, number: int, pieces: AsyncIterator[bytes]) -> int:
        """Keep a part, and return its size; where it breaks or is too large, nothing is left of it."""
        self._uploads.check_size(number * PART_BYTES + 1)
        with _translate_errors():
            if number == 0:
                await asyncio.to_thread(self.clear)
            intake = await asyncio.to_thread(self._work.begin)
            try:
                size = 0
                async for piece in _join_pieces(pieces):
                    size += len(piece)
                    if size > PART_BYTES:
                        raise InputError(
                            "upload.part", f"a part has more than {PART_BYTES} bytes", remedy="Send parts of this size."
                        )
                    await asyncio.to_thread(intake.write, piece)
                await asyncio.to_thread(intake.keep, f"{_parts_folder(folder, digest)}/{number:06}")
                return size
            finally:
                intake.discard()

    async def join(self, folder: str, digest: str, name: str, count: int) -> Upload:
        """Keep the file of all its parts; if it has another hash, they are removed, because one of them is wrong."""
        name = check_file_name(name)
        parts = await asyncio.to_thread(self.list, folder, digest)
        complete = next((number for number, part in enumerate(parts) if number != part), len(parts))
        if complete < count:
            raise Conflict(
                "upload.incomplete",
                f"part {complete} of {count} is missing",
                remedy="Send the missing parts, then complete it again.",
            )
        keys = [f"{_parts_folder(folder, digest)}/{number:06}" for number in parts]
        try:
            return await self._uploads.receive(folder, name, self._read(keys[:count]), digest)
        finally:
            # After an outage of the bronze tier they are sent again: that is rare, and they could be the reason.
            await asyncio.to_thread(self._work.delete, keys)

    def clear(self) -> None:
        """Remove the parts of uploads that nobody continued for a day."""
        before = datetime.now(UTC) - MAX_PART_AGE
        self._work.delete([found.key for found in self._work.walk(PARTS) if found.modified < before])

    async def _read(self, keys: Sequence[str]) -> AsyncIterator[bytes]:
        for key in keys:
            pieces = await asyncio.to_thread(self._work.stream, key)
            while piece := await asyncio.to_thread(next, pieces, b""):
                yield piece


def _parts_folder(folder: str, digest: str) -> str:
    return f"{PARTS}/{hash_text(folder)}/{digest}"


async def _join_pieces(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The same bytes in larger pieces: each one is a turn of a thread."""
    held = bytearray()
    async for piece in pieces:
        held += piece
        if len(held) >= PIECE_BYTES:
            yield bytes(held)
            held.clear()
    if held:
        yield bytes(held)


@contextmanager
def _translate_errors() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        message = f"the file can't be written: {error.strerror}"
        if error.errno in FULL_ERRNOS:
            remedy = "Make room where the bronze tier is."
            raise Unavailable("storage.full", message, remedy=remedy) from error
        remedy = "See that the bronze tier can be written to."
        raise Unavailable("storage.unwritable", message, remedy=remedy) from error
