"""Log files of limited size."""

import os
import shutil
from pathlib import Path

__all__ = ["open_log", "read_tail", "trim_logs"]

MAX_LOG_BYTES = 10_000_000


def open_log(path: Path) -> int:
    """A descriptor that appends to the file."""
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600)


def trim_logs(folder: Path, limit: int = MAX_LOG_BYTES) -> None:
    """Move the content of each log over the limit to its `.1` file, and continue with an empty one."""
    for path in folder.glob("*.log"):
        if path.stat().st_size > limit:
            # Copied and truncated, not renamed: the writers keep their descriptors open.
            shutil.copyfile(path, path.with_name(f"{path.name}.1"))
            os.truncate(path, 0)


def read_tail(path: Path, since: int = 0, lines: int = 12) -> str:
    """The last lines of a log that were written after it had `since` bytes."""
    try:
        with path.open("rb") as file:
            size = path.stat().st_size
            file.seek(max(since if since <= size else 0, size - 16_000))
            text = file.read().decode(errors="replace")
    except FileNotFoundError:
        return ""
    return "\n".join(text.splitlines()[-lines:])
