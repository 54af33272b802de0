"""Its first processes are dead before they get a call: as many as a file says."""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

__all__ = ["add"]

Progress = Callable[..., None]
LEFT = Path(os.environ["PROCESSES_THAT_DIE"])
next_process = SimpleNamespace(dies=False)


def add(a: int, b: int, *, progress: Progress) -> int:
    """A sum."""
    return a + b


def choose() -> None:
    """Whether the next process dies."""
    next_process.dies = (count := int(LEFT.read_text())) > 0
    if count:
        LEFT.write_text(str(count - 1))


def die() -> None:
    """In the process."""
    if next_process.dies:
        os.kill(os.getpid(), signal.SIGKILL)


def wait() -> None:
    """In the server: until the process is dead."""
    if next_process.dies:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)


os.register_at_fork(before=choose, after_in_child=die, after_in_parent=wait)
