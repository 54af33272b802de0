"""The running PostgreSQL server of a data folder, whichever process started it."""

from contextlib import suppress
from pathlib import Path
from signal import SIGINT, SIGKILL, SIGQUIT
from typing import Literal

from anabranch.embedded.processes import Process, alive, end, working_in

__all__ = ["Mode", "clear_leftovers", "drop_stale_lock", "find_postmaster", "shut_down"]

Mode = Literal["fast", "immediate"]


def find_postmaster(data: Path) -> Process | None:
    """The server that runs on this data folder."""
    # Every process of a server has its data folder as current folder: that proves its identity, not the recorded pid.
    pid = _recorded_pid(data / "postmaster.pid")
    return next((process for process in working_in(data, "postgres") if process.pid == pid), None)


def shut_down(data: Path, mode: Mode = "fast", patience: float = 30) -> bool:
    """Stop the server of this data folder, by force if it takes too long; False if none ran."""
    server = find_postmaster(data)
    if server:
        gently = [(SIGINT, patience)] if mode == "fast" else []
        end(lambda: [server] if alive(server) else [], *gently, (SIGQUIT, 5.0))
    return clear_leftovers(data) or server is not None


def clear_leftovers(data: Path) -> bool:
    """End all remaining processes of a server, including its postmaster; a new one can't start beside them."""
    return bool(end(lambda: working_in(data, "postgres"), (SIGQUIT, 2.0), (SIGKILL, 5.0)))


def drop_stale_lock(lock: Path) -> None:
    """Remove a dead server's lock file if its pid was reused, or is a zombie's: it would stop a new server."""
    pid = _recorded_pid(lock)
    if pid and Path(f"/proc/{pid}").exists():
        lock.unlink(missing_ok=True)


def _recorded_pid(lock: Path) -> int | None:
    with suppress(OSError, ValueError, IndexError):
        return int(lock.read_text().splitlines()[0])
    return None
