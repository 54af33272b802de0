"""The file system that GDAL sees of a file that is read by ranges: that one file."""

from typing import Any

from rasterio.abc import MultiByteRangeResourceContainer

from anabranch.sandbox.ranged import RangedFile
from anabranch.storage.range_file import RangeFile

__all__ = ["OneFile"]


class OneFile(MultiByteRangeResourceContainer):  # type: ignore[misc]  # rasterio has no types
    """One file by its name; for others, like sidecars, rasterio takes a KeyError for their absence."""

    def __init__(self, file: RangedFile) -> None:
        """For this file."""
        self._files = {file.name: file}

    def open(self, path: str, mode: str = "r", **_options: Any) -> RangeFile:
        """The file, opened again for reading; each has a position of its own."""
        file = self._files[path]
        return RangeFile(file.size, file.read)

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
