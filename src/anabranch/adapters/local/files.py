"""Files in a folder, written whole or not at all."""

import os
import tempfile
from contextlib import suppress
from pathlib import Path

from anabranch.engine.errors import NotFound

__all__ = ["LocalFiles"]


class LocalFiles:
    """A FileStore on a local folder."""

    def __init__(self, root: Path) -> None:
        """Keep files below this folder; it is made when it is needed."""
        self._root = root

    def put(self, key: str, data: bytes) -> str:
        """Write a file under a key; its address."""
        path = self._path(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, aside = tempfile.mkstemp(dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            Path(aside).replace(path)
        except BaseException:
            Path(aside).unlink(missing_ok=True)
            raise
        return key

    def get(self, address: str) -> bytes:
        """The content of a file."""
        try:
            return self._path(address).read_bytes()
        except FileNotFoundError as error:
            raise NotFound("file.not_found", f"there is no file {address}") from error

    def remove(self, folder: str, limit: int) -> int:
        """Remove up to `limit` files below a folder, and the folder when it is empty; how many."""
        path = self._path(folder)
        if path == self._root.resolve():
            raise NotFound("file.not_found", f"{folder!r} is the folder of the store itself")
        return _remove(path, limit) if path.is_dir() else 0

    def _path(self, key: str) -> Path:
        path = (self._root / key).resolve()
        if not path.is_relative_to(self._root.resolve()):
            raise NotFound("file.not_found", f"{key!r} is not below the folder of the store")
        return path


def _remove(folder: Path, limit: int) -> int:
    """Remove files one by one as they are listed; others may do the same at the same time."""
    removed = 0
    with suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            if removed == limit:
                return removed
            if entry.is_dir(follow_symlinks=False):
                removed += _remove(Path(entry.path), limit - removed)
            else:
                Path(entry.path).unlink(missing_ok=True)
                removed += 1
    if removed < limit:
        with suppress(OSError):  # a file that came meanwhile keeps it, and goes with the next call
            folder.rmdir()
    return removed
