"""The file system that GDAL sees of a file that is read by ranges: that one file."""

from collections.abc import Sequence
from typing import Any

from rasterio.abc import MultiByteRangeResourceContainer

from anabranch.sandbox.ranged import RangedFile
from anabranch.storage.range_file import RangeFile

__all__ = ["OneFile"]


class GdalFile(RangeFile):
    """The file as GDAL reads it: it asks for the blocks of a window together."""

    def __init__(self, file: RangedFile) -> None:
        """The position is at the start."""
        super().__init__(file.size, file.read)
        self._file = file

    def get_byte_ranges(self, offsets: Sequence[int], sizes: Sequence[int]) -> list[bytes]:
        """The bytes of several ranges; what of them lies behind the end is left out."""
        ends = ((start, min(start + size, self._file.size)) for start, size in zip(offsets, sizes, strict=True))
        return self._file.read_all([(start, max(0, end - start)) for start, end in ends])


class OneFile(MultiByteRangeResourceContainer):  # type: ignore[misc]  # rasterio has no types
    """One file by its name; for others, like sidecars, rasterio takes a KeyError for their absence."""

    def __init__(self, file: RangedFile) -> None:
        """For this file."""
        self._files = {file.name: file}

    def open(self, path: str, mode: str = "r", **_options: Any) -> GdalFile:
        """The file, opened again for reading; each has a position of its own."""
        return GdalFile(self._files[path])

    def size(self, path: str) -> int:
        """Its size in bytes."""
        return self._files[path].size

    def isfile(self, path: str) -> bool:
        """Whether it is this file."""
        return path in self._files

    def isdir(self, path: str) -> bool:
        """There are no folders."""
        return False

    def ls(self, path: str) -> list[str]:
        """Nothing lies beside it."""
        return []

    def mtime(self, path: str) -> int:
        """Unknown."""
        return 0

    def rm(self, path: str) -> None:
        """It stays."""
