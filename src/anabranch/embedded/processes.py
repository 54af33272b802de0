"""Processes by pid and start time, so that a reused pid is never confused with the old process."""

import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Process", "alive", "boot_id", "end", "family", "identify", "marked", "send", "working_in"]


@dataclass(frozen=True)
class Process:
    """One process of this boot: the pid, and the clock tick at which it started."""

    pid: int
    start: int


def boot_id() -> str:
    """The id of this boot of the machine; start times are comparable only within one."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def identify(pid: int) -> Process | None:
    """The process that has this pid now; None if it is gone or a zombie."""
    fields = _stat(pid)
    return Process(pid, int(fields[19])) if fields and fields[0] not in (b"Z", b"X") else None


def alive(process: Process) -> bool:
    """Whether exactly this process still runs."""
    return identify(process.pid) == process


def family(pid: int) -> set[int]:
    """The pid and those of its ancestors."""
    pids = set()
    while pid > 0 and (fields := _stat(pid)):
        pids.add(pid)
        pid = int(fields[1])
    return pids


def marked(name: str, value: str) -> list[Process]:
    """The processes that were started with this variable in their environment, whatever their parent is now."""
    entry = f"{name}={value}".encode()
    return [process for process in _running() if entry in _environment(process.pid)]


def working_in(folder: Path, program: str) -> list[Process]:
    """The processes of a program whose current folder is this one."""
    try:
        here = folder.stat()
    except OSError:
        return []
    return [process for process in _running() if _works_in(process.pid, here, program)]


def send(process: Process, signum: signal.Signals) -> None:
    """Send a signal to exactly this process, or to none."""
    try:
        handle = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return
    try:
        # The handle pins the current owner of the pid, so the process checked here is the one that gets the signal.
        if alive(process):
            signal.pidfd_send_signal(handle, signum)
    except ProcessLookupError:
        return
    finally:
        os.close(handle)


def end(find: Callable[[], Iterable[Process]], *steps: tuple[signal.Signals, float]) -> set[Process]:
    """Send each step's signal to all that `find` finds, until it finds none or the step's seconds are over."""
    signalled: set[Process] = set()
    for signum, seconds in steps:
        in_this_step: set[Process] = set()
        deadline = time.monotonic() + seconds
        while left := set(find()):
            # Searched again each time: processes forked meanwhile get the signal, too.
            for process in left - in_this_step:
                send(process, signum)
            in_this_step |= left
            signalled |= left
            if time.monotonic() > deadline:
                break
            time.sleep(0.02)
    return signalled


def _running() -> Iterator[Process]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (process := identify(int(entry.name))):
            yield process


def _stat(pid: int) -> list[bytes]:
    try:
        # The second field is the program's name in brackets, and may hold blanks and brackets itself.
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def _environment(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


def _works_in(pid: int, here: os.stat_result, program: str) -> bool:
    entry = Path(f"/proc/{pid}")
    try:
        # A program that was upgraded while it ran reads as "name (deleted)".
        name = (entry / "exe").readlink().name.partition(" ")[0]
        return name == program and os.path.samestat((entry / "cwd").stat(), here)
    except OSError:
        return False
