"""Files in a folder, written whole or not at all."""

import os
import tempfile
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

    def _path(self, key: str) -> Path:
        path = (self._root / key).resolve()
        if not path.is_relative_to(self._root.resolve()):
            raise NotFound("file.not_found", f"{key!r} is not below the folder of the store")
        return path
