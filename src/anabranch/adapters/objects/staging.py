"""Staged files: written in a separate folder until they are whole; a lock shows that their writer lives (W7)."""

import fcntl
import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

__all__ = ["StagedFile", "clear_staged"]


class StagedFile:
    """A file in the staging folder, until it is kept."""

    def __init__(self, folder: Path, keep: Callable[[Path, str], bool]) -> None:
        """Begin it; `keep` puts the whole file under a key, or reports that there is one already."""
        self._keep = keep
        folder.mkdir(parents=True, exist_ok=True)
        gate = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(gate, fcntl.LOCK_SH)  # while a file is made, and not locked yet, nobody clears the folder
            handle, name = tempfile.mkstemp(dir=folder)
            self._file = os.fdopen(handle, "wb")
            fcntl.flock(self._file, fcntl.LOCK_EX)
        finally:
            os.close(gate)
        self._path = Path(name)

    def write(self, data: bytes) -> None:
        """Append to it."""
        self._file.write(data)

    def keep(self, key: str) -> bool:
        """Make it durable and put it under a key; False when there was one already, which stays."""
        self._file.flush()
        os.fsync(self._file.fileno())
        return self._keep(self._path, key)

    def discard(self) -> None:
        """Remove it, unless it was kept."""
        self._path.unlink(missing_ok=True)
        with suppress(OSError):  # what is still held back is of no use any more
            self._file.close()


def clear_staged(folder: Path) -> None:
    """Remove unfinished files of killed processes; those that are being written are locked, and stay."""
    try:
        gate = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:  # there is none, or it is for others to clear
        return
    try:
        fcntl.flock(gate, fcntl.LOCK_EX)
        for left in folder.glob("*"):
            with suppress(OSError), left.open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                left.unlink()
    finally:
        os.close(gate)
