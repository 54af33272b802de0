"""Shortages of the worker's own process: descriptors, threads, memory, disk. No attempt is charged for them (E9)."""

import errno
import os
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import structlog

from anabranch.errors import Unavailable

__all__ = ["FREE_ATTEMPTS", "Environment", "exhausted_error", "is_exhausted", "is_free_attempt", "is_unanswered"]

log = structlog.get_logger()
MAX_PAUSE_SECONDS = 30.0
PROBED_PIPES = 4
PROBED_BYTES = 4096
FREE_ATTEMPTS = 5
FREE_UNANSWERED_ATTEMPTS = 40  # about twenty minutes of pauses; some files can never be read (E1)
FREE_UNANSWERED_SECONDS = 1200  # of work, after the first few attempts
UNANSWERED_CODES = ("database.unreachable", "storage.unreachable")


def is_exhausted(error: BaseException, *, in_handler: bool) -> bool:
    """Whether an error is the worker's own and not the handler's.

    What the engine's own code meets always is. A handler that runs in the worker's process shares its descriptors, and
    the one that asks for one too many is not the one that holds them; all else that a handler meets is its own.
    """
    if in_handler:
        return isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE)
    no_thread = isinstance(error, RuntimeError) and "can't start new thread" in str(error)
    return no_thread or isinstance(error, OSError | MemoryError)


def is_unanswered(error: BaseException) -> bool:
    """Whether the platform's own database or storage did not answer a handler."""
    return isinstance(error, Unavailable) and error.code in UNANSWERED_CODES


def exhausted_error(error: BaseException) -> Unavailable:
    """The error to store for such a failure."""
    return Unavailable("worker.exhausted", f"the engine's own work failed: {str(error) or type(error).__name__}")


class Environment:
    """Whether a worker can run tasks; after its own failure it claims none for 1, 2, 4 … 30 seconds."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._failures = 0
        self._paused_until = 0.0
        self.trouble: str | None = None

    @property
    def is_ready(self) -> bool:
        """Whether tasks may be claimed; after a failure, a probe must succeed first."""
        if not self._failures:
            return True
        if time.monotonic() < self._paused_until:
            return False
        try:
            self._probe()
        except OSError as error:
            self.note_failure(error)
            return False
        self.trouble = None
        return True

    def note_success(self) -> None:
        """Note that a task ran."""
        if self._failures:
            self._failures, self.trouble = 0, None
            log.info("worker.recovered")

    def note_failure(self, error: BaseException) -> Unavailable:
        """Note that the engine's own work failed; what to say of the task that met it. Many at once count as one."""
        self.trouble = exhausted_error(error).message
        if time.monotonic() >= self._paused_until:
            pause = min(2.0**self._failures, MAX_PAUSE_SECONDS)
            self._failures = min(self._failures + 1, 10)
            self._paused_until = time.monotonic() + pause
            log.error("worker.exhausted", reason=str(error) or type(error).__name__, pause_seconds=pause)
        return exhausted_error(error)

    def _probe(self) -> None:
        """Open and write as much as a task needs."""
        self._folder.mkdir(parents=True, exist_ok=True)
        with ExitStack() as opened, tempfile.TemporaryFile(dir=self._folder) as file:
            file.write(bytes(PROBED_BYTES))
            file.flush()
            for end in (end for _ in range(PROBED_PIPES) for end in os.pipe()):
                opened.callback(os.close, end)


def is_free_attempt(tries: int, seconds: float) -> bool:
    """Whether an attempt that got no answer from storage or a database is not counted, by tries and seconds of each."""
    if tries <= FREE_ATTEMPTS:
        return True
    return tries <= FREE_UNANSWERED_ATTEMPTS and tries * seconds <= FREE_UNANSWERED_SECONDS
