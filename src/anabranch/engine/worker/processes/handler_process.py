"""What runs in a child process: calls of handlers, one after the other, and the line to the worker."""

import gc
import os
import resource
import signal
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from io import TextIOWrapper
from multiprocessing.connection import Connection
from types import FrameType

from anabranch.die_with_parent import die_with_parent
from anabranch.engine.model import ProgressReport
from anabranch.engine.registry import load_plugins
from anabranch.engine.worker.handler_resources import HandlerResources
from anabranch.engine.worker.perform import Call, Outcome, perform
from anabranch.engine.worker.task_logs import hold_lines, keep_lines
from anabranch.errors import ContractViolationError, Interrupted, TaskError

__all__ = ["Answer", "Begun", "Saved", "serve"]

FORWARDED_SIGNALS = {signal.SIGTERM, signal.SIGUSR1}


@dataclass(slots=True)
class Begun:
    """The call has begun: from here on the handler hears signals, and what happens to its process is its own doing."""


@dataclass(slots=True)
class Saved:
    """A checkpoint on its way to the worker, its state as JSON text; the number rises as long as the process lives."""

    number: int
    phase: str
    state: str


@dataclass(slots=True)
class Answer:
    """The answer to a checkpoint, by its number: it is stored, or the handler gets an error."""

    number: int
    error: TaskError | None


class Line:
    """The child's end of the line: what it says goes up the pipe, what it hears comes by signal."""

    def __init__(self, connection: Connection) -> None:
        """Of the process that calls it."""
        self._connection = connection
        self._pid = os.getpid()
        self._speaking = threading.Lock()
        self._in_call = False
        self._saved = 0
        self.cancelled = False
        self.stopping = False

    def progress(self, progress: ProgressReport) -> None:
        """Report the handler's progress."""
        if self.is_mine:
            with self._speaking:
                if self._in_call:
                    self._connection.send(progress)

    def save(self, phase: str, state: str) -> None:
        """Send a checkpoint, and wait until it is stored."""
        if not self.is_mine:
            raise ContractViolationError("ctx.checkpoint was called in a process that the handler forked")
        with self._speaking:
            if not self._in_call:
                raise Interrupted("the attempt has ended", code="task.lost")
            self._saved += 1
            self._connection.send(Saved(self._saved, phase, state))
            error = self._hear_answer(self._saved)
        if isinstance(error, Interrupted):
            self.cancelled = True
        if error is not None:
            raise error

    def _hear_answer(self, number: int) -> TaskError | None:
        """The answer to this checkpoint; skips earlier ones, whose wait a signal may have ended."""
        while True:
            answer = self._connection.recv()
            if isinstance(answer, Answer) and answer.number == number:
                return answer.error

    @property
    def is_mine(self) -> bool:
        """Whether this is the process that was called, and not one that a handler forked from it."""
        return os.getpid() == self._pid

    def hear(self, signum: int, _frame: FrameType | None) -> None:
        """Note what a signal says."""
        if signum == signal.SIGUSR1:
            self.cancelled = True
        else:
            self.stopping = True

    def begin(self) -> None:
        """Be the line of the next call."""
        self.cancelled = self.stopping = False
        self._in_call = True

    def end(self) -> None:
        """Say nothing more: threads that a handler left would speak in the next one's name."""
        with self._speaking:
            self._in_call = False


def serve(
    connection: Connection, output: Connection, plugins: Sequence[str], memory: int, resources: HandlerResources
) -> None:
    """Load plugins, report that they are there, and run call after call until the worker hangs up."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _begin_behind_guard(connection, output)
    line = Line(connection)
    signal.signal(signal.SIGTERM, line.hear)
    signal.signal(signal.SIGUSR1, line.hear)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {*FORWARDED_SIGNALS, signal.SIGCHLD})
    if memory:
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    hold_lines()
    registry = load_plugins(plugins, resolved=False)
    gc.freeze()  # the fork server has it disabled: what was imported is no garbage, and stays shared
    gc.enable()
    connection.send(Outcome())
    for stream in (sys.stdout, sys.stderr):
        os.dup2(output.fileno(), stream.fileno())
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)  # each line can be read at once, and not when the buffer is full
    keep_lines()
    while True:
        try:
            call = connection.recv()
        except EOFError:
            return
        if not isinstance(call, Call):  # an answer that nobody waits for any more
            continue
        if call.needs_workflow and not registry.declarations:  # few calls do, and reading all files takes long
            hold_lines()
            registry.resolve()
            keep_lines()
        line.begin()
        connection.send(Begun())
        performed = perform(registry, call, line, resources)
        if not line.is_mine:  # the handler forked: only the original process may reply
            os._exit(os.EX_SOFTWARE)
        line.end()
        for timer in (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF):
            signal.setitimer(timer, 0)
        sys.stdout.flush()
        sys.stderr.flush()
        connection.send(performed)


def _begin_behind_guard(*lines: Connection) -> None:
    """Continue in a grandchild: a handler that kills its parent process affects no other handler.

    The guard leads the group that the worker kills, passes signals on, and ends as the process behind it did.
    """
    die_with_parent()
    os.setsid()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, {*FORWARDED_SIGNALS, signal.SIGCHLD})
    guard = os.getpid()
    guarded = os.fork()
    if not guarded:
        die_with_parent()
        if os.getppid() != guard:  # it died before the kernel was asked
            os._exit(os.EX_SOFTWARE)
        return
    for line in lines:
        line.close()
    while (signum := signal.sigwait({*FORWARDED_SIGNALS, signal.SIGCHLD})) in FORWARDED_SIGNALS:
        os.kill(guarded, signum)
    code = os.waitstatus_to_exitcode(os.waitpid(guarded, 0)[1])
    if code >= 0:
        os._exit(code)
    if code != -signal.SIGKILL:
        signal.signal(-code, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {-code})
    os.kill(guard, -code)
