"""One version of an object, read by ranges; nothing of it is kept on disk."""

import io
from collections.abc import Callable
from functools import lru_cache
from hashlib import sha256
from pathlib import PurePosixPath
from typing import Literal

from anabranch.errors import Changed, Permanent, Unavailable
from anabranch.storage.addresses import Address
from anabranch.storage.range_file import RangeFile
from anabranch.storage.tiers import Stat, Storage

__all__ = ["Ranges", "source_changed"]

BLOCK_BYTES = 2**16
# A header or a piece of an index: read by whole blocks, which are kept. Longer ranges are pixels: read exactly, once.
MAX_SMALL_BYTES = 2**13
DEFAULT_CACHE_BYTES = 16 * 2**20
PIECE_BYTES = 16 * 2**20


class Ranges:
    """A pinned object: every read is of the version that `stat` described, or fails with `source.changed`."""

    def __init__(
        self, storage: Storage, address: Address, stat: Stat, *, cache_bytes: int = DEFAULT_CACHE_BYTES
    ) -> None:
        """Nothing is read yet; at most about `cache_bytes` of small reads are kept in memory."""
        self.name = PurePosixPath(address.path).name
        self.size = stat.size
        self._storage = storage
        self._address = address
        self._tag = stat.tag
        self._block = lru_cache(max(1, cache_bytes // BLOCK_BYTES))(self._read_block)

    def read(self, start: int, length: int) -> bytes:
        """The bytes of a range within the object."""
        if length > MAX_SMALL_BYTES:
            return self._read(start, length)
        first, last = start // BLOCK_BYTES, (start + max(1, length) - 1) // BLOCK_BYTES
        blocks = b"".join(map(self._block, range(first, last + 1)))
        return blocks[start - first * BLOCK_BYTES :][:length]

    def open(self, mode: Literal["rb"] = "rb") -> io.BufferedReader:
        """Open it as a file."""
        return io.BufferedReader(RangeFile(self.size, self.read))

    def sha256(self, progress: Callable[[int, int, str], object]) -> str:
        """The SHA-256 of all of it, read once in pieces."""
        digest = sha256()
        for start in range(0, self.size, PIECE_BYTES):
            digest.update(self._read(start, min(PIECE_BYTES, self.size - start)))
            progress(min(start + PIECE_BYTES, self.size), self.size, self.name)
        return digest.hexdigest()

    def _read_block(self, number: int) -> bytes:
        start = number * BLOCK_BYTES
        return self._read(start, min(BLOCK_BYTES, self.size - start))

    def _read(self, start: int, length: int) -> bytes:
        try:
            data = self._storage.read(self._address, start, length, tag=self._tag)
        except Changed as error:
            raise source_changed(str(self._address)) from error
        if len(data) != length:
            raise Unavailable(
                "storage.unreachable",
                f"{self._address}: the store sent {len(data)} bytes of the {length} from byte {start}",
                remedy="Try again; see whether a proxy before the store cuts answers off.",
            )
        return data


def source_changed(address: str) -> Permanent:
    """The object is not the version any more that a job began with."""
    return Permanent(
        f"{address} was replaced since it was first checked", code="source.changed", remedy="Submit it again."
    )
