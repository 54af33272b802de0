"""A process that is restarted when it dies."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

__all__ = ["ChildSpec", "SupervisedProcess"]

MAX_DELAY_SECONDS = 5.0
STABLE_SECONDS = 10.0


@dataclass(frozen=True)
class ChildSpec:
    """A process of the stack: its role, its command, and whether it serves the listening socket."""

    role: str
    argv: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict)
    pass_fds: tuple[int, ...] = ()
    listens: bool = False


class SupervisedProcess:
    """One process and its successors: restarted at once after the first death, later after each further one."""

    def __init__(self, role: str, launch: Callable[[str], subprocess.Popen[bytes]]) -> None:
        self.role = role
        self.process: subprocess.Popen[bytes] | None = None
        self.mark = ""
        self.due = 0.0
        self._launch = launch
        self._started = 0.0
        self._deaths = 0

    def start(self) -> subprocess.Popen[bytes]:
        """The new process; its mark is in the environment of all its descendants."""
        self.mark = os.urandom(16).hex()
        self._started = time.monotonic()
        try:
            self.process = self._launch(self.mark)
        except BaseException:
            self._count_death()
            raise
        return self.process

    def take_dead(self) -> subprocess.Popen[bytes] | None:
        """The process if it has died; its successor is then due."""
        if self.process is None or self.process.poll() is None:
            return None
        dead, self.process = self.process, None
        self._count_death()
        return dead

    def send_signal(self, signum: signal.Signals) -> None:
        """Send a signal to the process if it runs."""
        if self.process:
            self.process.send_signal(signum)

    def kill(self) -> None:
        """End the process with its group, and reap it."""
        if self.process is None:
            return
        if self.process.poll() is None:
            # Not reaped yet, so the group id is still its own.
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def _count_death(self) -> None:
        now = time.monotonic()
        self._deaths = 1 if now - self._started > STABLE_SECONDS else self._deaths + 1
        self.due = now + (0 if self._deaths == 1 else min(MAX_DELAY_SECONDS, 0.25 * 2 ** (self._deaths - 1)))
