"""Functions that a sandbox runs, and what they may try."""

import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

from anabranch.errors import Permanent

__all__ = [
    "add", "answer_much", "babble", "burn", "call_out", "call_socket", "change_mode", "die", "eat", "fill", "fork",
    "nap", "raise_ours", "raise_theirs", "read", "say", "send_each", "show", "signal_other", "start", "tell_nan",
    "use_threads", "write",
]  # fmt: skip

Progress = Callable[..., None]


def add(a: int, b: int, *, progress: Progress) -> int:
    progress(1, 2, "adding")
    return a + b


def send_each(values: list[Any], *, send: Progress, progress: Progress) -> int:
    for value in values:
        send(value)
    return len(values)


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
    signal.raise_signal(signal.Signals[name])


def nap(mark: str, *, progress: Progress) -> None:
    Path(mark).write_text(str(os.getpid()))
    while True:
        progress(1, None, "asleep")
        time.sleep(0.05)


def fork(*, progress: Progress) -> None:
    if os.fork() == 0:
        os._exit(0)


def start(*, progress: Progress) -> None:
    subprocess.run(["/bin/true"], check=True)


def use_threads(*, progress: Progress) -> int:
    with ThreadPoolExecutor(4) as pool:
        return sum(pool.map(abs, range(-4, 0)))


def call_socket(path: str, *, progress: Progress) -> None:
    socket.socket(socket.AF_UNIX).connect(path)


def signal_other(pid: int, *, progress: Progress) -> None:
    os.kill(pid, signal.SIGTERM)


def change_mode(path: str, *, progress: Progress) -> None:
    Path(path).chmod(0o644)


def raise_ours(*, progress: Progress) -> None:
    raise Permanent("the file is no raster", code="raster.unreadable", remedy="Send another.")


def raise_theirs(*, progress: Progress) -> None:
    raise KeyError("band")


def answer_much(*, progress: Progress) -> str:
    return "x" * 20 * 2**20


def tell_nan(*, progress: Progress) -> float:
    return float("nan")


def babble(text: str, *, progress: Progress) -> int:
    """Write to every open handle, as an attacker in the process could."""
    for path in list(Path("/proc/self/fd").iterdir()):
        with suppress(OSError):
            os.write(int(path.name), text.encode())
    return 5


def say(text: str, *, progress: Progress) -> None:
    """Print with Python, and with the system call."""
    os.write(2, text.encode())
    sys.stdout.write(text)


def warm_up() -> None:
    """Start as many threads as the environment asks for, before the call."""
    for _ in range(int(os.environ.get("THREADS_LEFT", "0"))):
        threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
