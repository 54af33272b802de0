"""What functions in a sandbox may try."""

import os
import resource
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from anabranch.engine.errors import Permanent

__all__ = [
    "add", "answer_much", "burn", "call_out", "die", "eat", "fill", "fork_off", "nap", "raise_ours", "raise_theirs",
    "read", "show", "tell_nan", "write",
]  # fmt: skip

Progress = Callable[..., None]


def add(a: int, b: int, *, progress: Progress) -> int:
    progress(1, 2, "adding")
    return a + b


def read(path: str, *, progress: Progress) -> str:
    return Path(path).read_text()


def write(path: str, *, progress: Progress) -> None:
    Path(path).write_text("mine")


def show(*, progress: Progress) -> dict[str, Any]:
    return {
        "environment": dict(os.environ),
        "folder": str(Path.cwd()),
        "files": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        "core": resource.getrlimit(resource.RLIMIT_CORE)[0],
        "pid": os.getpid(),
        "server": os.getppid(),
    }


def call_out(port: int, *, progress: Progress) -> None:
    socket.create_connection(("127.0.0.1", port), timeout=5)


def eat(*, progress: Progress) -> int:
    return len(bytearray(10**10))


def burn(*, progress: Progress) -> None:
    while True:
        pass


def fill(*, progress: Progress) -> None:
    with Path("large").open("wb") as file:
        while True:
            file.write(b"x" * 2**20)


def die(name: str, *, progress: Progress) -> None:
    os.kill(os.getpid(), signal.Signals[name])


def nap(mark: str, *, progress: Progress) -> None:
    Path(mark).write_text(str(os.getpid()))
    while True:
        progress(1, None, "asleep")
        time.sleep(0.05)


def fork_off(mark: str, *, progress: Progress) -> None:
    if os.fork() == 0:
        Path(mark).write_text(str(os.getpid()))
        time.sleep(600)
    time.sleep(600)


def raise_ours(*, progress: Progress) -> None:
    raise Permanent("the file is no raster", code="raster.unreadable", remedy="Send another.")


def raise_theirs(*, progress: Progress) -> None:
    raise KeyError("band")


def answer_much(*, progress: Progress) -> str:
    return "x" * 20 * 2**20


def tell_nan(*, progress: Progress) -> float:
    return float("nan")
