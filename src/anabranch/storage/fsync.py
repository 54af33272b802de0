"""Make files and folders durable."""

import os
from pathlib import Path

__all__ = ["fsync"]


def fsync(path: Path) -> None:
    """Wait until the disk has a file's content, or the names of a folder's entries."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
