"""Uploads: hashed while they arrive, staged, and stored whole under their hash (W7)."""

import asyncio
import errno
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256

from anabranch.errors import InputError, Unavailable
from anabranch.storage.filenames import check_file_name
from anabranch.storage.tiers import Intake, Tier

__all__ = ["Upload", "Uploads"]

PIECE_BYTES = 2**20
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

    async def receive(self, name: str, pieces: AsyncIterator[bytes], wanted: str | None = None) -> Upload:
        """Store a file; nothing is left if the transfer breaks, it is too large or its hash is not `wanted`."""
        name = check_file_name(name)
        with _translate_errors():
            intake = await asyncio.to_thread(self._bronze.begin)
            try:
                return await self._receive(intake, name, pieces, wanted)
            finally:
                # Not in a thread: a cancelled request would not wait for it.
                intake.discard()

    async def _receive(self, intake: Intake, name: str, pieces: AsyncIterator[bytes], wanted: str | None) -> Upload:
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
        key = f"uploads/{found}/{name}"
        created = await asyncio.to_thread(intake.keep, key)
        return Upload(f"bronze://{key}", found, size, created)


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
