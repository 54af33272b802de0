"""A file whose reads are requests for ranges."""

import io
from collections.abc import Callable

__all__ = ["RangeFile"]


class RangeFile(io.RawIOBase):
    """A read-only file of known size, over a function that returns the bytes of a range."""

    def __init__(self, size: int, read_range: Callable[[int, int], bytes]) -> None:
        """Nothing is read yet; `read_range` takes the start and the length of a range within the file."""
        self._size = size
        self._read_range = read_range
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move the position; it may lie beyond the end."""
        self._at = max(0, offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence])
        return self._at

    def readinto(self, buffer: "memoryview | bytearray") -> int:  # type: ignore[override]  # a newer name of the parameter
        """Fill a buffer with the bytes that are left, at most its length."""
        length = min(len(buffer), self._size - self._at)
        data = self._read_range(self._at, length) if length > 0 else b""
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)
