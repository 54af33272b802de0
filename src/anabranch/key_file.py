"""Files of secret keys in the home: the first process that needs one makes it, whole, readable by its user only."""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

__all__ = ["make_key_file", "replace_key_file"]


def make_key_file(file: Path, make: Callable[[], bytes]) -> None:
    """Make the file whole, or leave the one that another process made first."""
    made = _make_beside(file, make())
    try:
        os.link(made, file)
    except FileExistsError:
        pass
    finally:
        made.unlink()


def replace_key_file(file: Path, make: Callable[[], bytes]) -> None:
    """Put a new key in the place of the one in the file."""
    _make_beside(file, make()).replace(file)


def _make_beside(file: Path, content: bytes) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}-")
    with os.fdopen(descriptor, "wb") as opened:
        opened.write(content)
        opened.flush()
        os.fsync(opened.fileno())
    return Path(name)
