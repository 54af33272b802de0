"""Scratch folders: each belongs to one process, and its lock shows that the process lives (W6)."""

import fcntl
import os
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = ["clear_scratch", "make_scratch"]

LOCK_NAME = ".lock"
UNLOCKED_MAX_AGE_SECONDS = 86_400.0


def make_scratch(root: Path) -> Path:
    """A new folder below a root that processes may share, in other containers and on other machines too.

    It is this process's until it ends: its lock is never given back.
    """
    root.mkdir(parents=True, exist_ok=True)
    with _lock_root(root, fcntl.LOCK_SH):  # while a folder is made, and not locked yet, nobody clears the root
        folder = root / secrets.token_hex(8)
        folder.mkdir()
        fcntl.flock(os.open(folder / LOCK_NAME, os.O_RDWR | os.O_CREAT, 0o600), fcntl.LOCK_EX)
    return folder


def clear_scratch(root: Path) -> None:
    """Remove the folders of processes that are gone: those whose lock can be taken."""
    if not root.is_dir():
        return
    with _lock_root(root, fcntl.LOCK_EX):
        dead = [(folder, lock) for folder in root.iterdir() if (lock := _take_lock(folder)) is not None]
    for folder, lock in dead:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _take_lock(folder: Path) -> int | None:
    """The lock of a folder whose process is gone; one without a lock (an earlier release's) when it is old."""
    with suppress(OSError):
        if not (folder / LOCK_NAME).exists() and time.time() - folder.stat().st_mtime < UNLOCKED_MAX_AGE_SECONDS:
            return None
        lock = os.open(folder / LOCK_NAME, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(lock)
            raise
        return lock
    return None


@contextmanager
def _lock_root(root: Path, how: int) -> Iterator[None]:
    gate = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(gate, how)
        yield
    finally:
        os.close(gate)
