"""Child processes that run handlers, so that one that blocks, dies or eats memory hurts only itself."""

import asyncio
import multiprocessing
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from importlib.metadata import entry_points
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerProcess
from types import FrameType
from typing import Protocol

from anabranch.engine.canonical import Json
from anabranch.engine.equipment import BARE, Equipment
from anabranch.engine.errors import ContractViolationError, Interrupted, TaskError, Transient
from anabranch.engine.lifeline import die_with_parent
from anabranch.engine.perform import Call, Performed, perform
from anabranch.engine.plugin import GROUP, is_folder, load_plugins
from anabranch.engine.printed import Printed
from anabranch.engine.task_logs import hold_lines, keep_lines

__all__ = ["Child", "ChildDied", "Children", "Listener", "Overdue", "Saved"]

LOADING_SECONDS = 120
GLANCE_SECONDS = 0.5
CallId = tuple[str, int]


@dataclass(slots=True)
class Saved:
    """A checkpoint on its way to the worker, its state as JSON text; the number rises as long as the process lives."""

    number: int
    phase: str
    state: str


@dataclass(slots=True)
class Answer:
    """What became of the checkpoint with this number: it is kept, or the handler gets an error."""

    number: int
    error: TaskError | None


class Listener(Protocol):
    """Who hears what a handler says while it runs; called in the thread that waits for it."""

    def progress(self, progress: dict[str, Json]) -> None:
        """Note how far it is."""

    def keep(self, saved: Saved) -> "Future[TaskError | None]":
        """Begin to keep a checkpoint; in the end, the error that the handler gets, if any."""


Message = Performed | Saved | dict[str, Json]


class ChildDied(Exception):
    """The child ended before it answered."""

    def __init__(self, exit_code: int | None, log: str | None) -> None:
        named = signal.Signals(-exit_code).name if exit_code is not None and exit_code < 0 else f"exit code {exit_code}"
        super().__init__(f"the process that ran the handler ended by {named}")
        self.ended_by = named
        self.log = log


class Overdue(Exception):
    """The child was killed: its time was up, it was silent too long, or it printed too much."""

    def __init__(self, code: str, message: str, log: str | None, *, permanent: bool = False) -> None:
        super().__init__(message)
        self.code = code
        self.log = log
        self.permanent = permanent

    @property
    def error(self) -> dict[str, Json]:
        """What is kept of it."""
        category = "permanent" if self.permanent else "transient"
        return {"code": self.code, "message": str(self), "category": category}


class Child:
    """One process that runs calls, one after the other. Its methods block; `tell` and `kill` fit any thread."""

    def __init__(self, plugins: Sequence[str], memory: int, equipment: Equipment = BARE) -> None:
        """Fork it from the preloaded server, and wait until its plugins are loaded."""
        context = multiprocessing.get_context("forkserver")
        self._connection, theirs = context.Pipe()
        self._sending = threading.Lock()
        self._output, output = context.Pipe(duplex=False)
        self.process: ForkServerProcess = context.Process(
            target=_serve, args=(theirs, output, tuple(plugins), memory, equipment), daemon=True
        )
        self.process.start()
        theirs.close()
        output.close()
        printed = Printed(self._output)
        if not self._connection.poll(LOADING_SECONDS):
            raise self._overdue("handler.loading", f"its plugins took longer than {LOADING_SECONDS} s to load", printed)
        self._receive(printed)

    def call(self, call: Call, longest: timedelta, silence: timedelta | None, listener: Listener) -> Performed:
        """Run one call."""
        printed = Printed(self._output)
        keeping: Future[TaskError | None] | None = None
        try:
            self._send(call)
            patience = _Patience(longest, silence)
            while True:
                said = self._hear(printed, patience, waits=keeping is not None and not keeping.done())
                if isinstance(said, Performed):
                    said.log = printed.text(said.log)
                    return said
                if isinstance(said, Saved):
                    keeping = listener.keep(said)
                    keeping.add_done_callback(partial(self._answer, said.number))
                elif said is not None:
                    listener.progress(said)
        except OSError:
            raise self._death(printed) from None
        finally:
            if keeping:
                keeping.cancel()

    def tell(self, signum: signal.Signals) -> None:
        """Tell the handler that it is cancelled (SIGUSR1) or that the worker stops (SIGTERM)."""
        if self.process.pid is not None and self.process.exitcode is None:
            os.kill(self.process.pid, signum)

    def kill(self) -> None:
        """End it at once, and all that it started."""
        if self.process.pid is not None and self.process.exitcode is None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.kill()
        self.process.join()

    def _hear(self, printed: Printed, patience: "_Patience", *, waits: bool) -> Message | None:
        """What the handler says next; None when it printed, or waits for an answer and so says nothing."""
        if waits:
            patience.heard()
        ready = wait([self._connection, self._output], patience.left(waits=waits))
        if not ready and (over := patience.exceeded(waits=waits)):
            raise self._overdue(*over, printed)
        if self._output in ready and not printed.read():
            # It would print as much another time.
            message = f"the handler printed more than {printed.MOST // 2**20} MB"
            raise self._overdue("handler.output", message, printed, permanent=True)
        if self._connection not in ready:
            return None
        patience.heard()
        return self._receive(printed)

    def _receive(self, printed: Printed) -> Message:
        try:
            said: Message = self._connection.recv()
        except EOFError:
            raise self._death(printed) from None
        return said

    def _send(self, message: Call | Answer) -> None:
        with self._sending:
            self._connection.send(message)

    def _answer(self, number: int, keeping: "Future[TaskError | None]") -> None:
        """Tell the handler that its checkpoint is kept, or why it is not; called in the thread that knows first."""
        if keeping.cancelled():
            return
        fault = keeping.exception()
        error = Transient(f"the checkpoint was not kept: {fault}") if fault else keeping.result()
        with suppress(OSError):  # it died meanwhile
            self._send(Answer(number, error))

    def _death(self, printed: Printed) -> ChildDied:
        self.process.join(1)
        code = self.process.exitcode
        self.kill()  # it may have closed its end only, or left processes of its own
        return ChildDied(code, printed.text())

    def _overdue(self, code: str, message: str, printed: Printed, *, permanent: bool = False) -> Overdue:
        self.kill()
        return Overdue(code, message, printed.text(), permanent=permanent)


class _Patience:
    """How long a handler may still run and be silent; while it waits for an answer it can say nothing."""

    def __init__(self, longest: timedelta, silence: timedelta | None) -> None:
        self._longest = longest
        self._silence = silence
        self._end = time.monotonic() + longest.total_seconds()
        self._quiet_until = self._end
        self.heard()

    def heard(self) -> None:
        if self._silence:
            self._quiet_until = time.monotonic() + self._silence.total_seconds()

    def left(self, *, waits: bool) -> float:
        """How long to listen, in seconds."""
        left = max(0.0, min(self._end, self._quiet_until) - time.monotonic())
        return min(left, GLANCE_SECONDS) if waits else left

    def exceeded(self, *, waits: bool) -> tuple[str, str] | None:
        """The limit that was passed, as a code and in words."""
        now = time.monotonic()
        if now >= self._end:
            return "task.timed_out", f"it ran longer than {self._longest.total_seconds():g} s"
        if self._silence and now >= self._quiet_until and not waits:
            return "task.silent", f"it was silent longer than {self._silence.total_seconds():g} s"
        return None


class Children:
    """As many children as slots, kept for the next call; one that died is replaced when it is needed."""

    def __init__(self, size: int, plugins: Sequence[str], *, memory: int = 0, equipment: Equipment = BARE) -> None:
        """Prepare the fork server; `memory` bounds each child's address space in bytes, 0 for no bound.

        The equipment is what handlers have wherever they run; it goes to the children by a pipe.
        """
        modules = [point.value for point in entry_points(group=GROUP)]
        preload = ["anabranch.engine.tethered", __name__, *modules, *(name for name in plugins if not is_folder(name))]
        multiprocessing.get_context("forkserver").set_forkserver_preload(preload)
        self._plugins = tuple(plugins)
        self._memory = memory
        self.equipment = equipment
        self._size = size
        self._idle: list[Child] = []
        self._busy: dict[CallId, Child] = {}
        self._doomed: set[CallId] = set()
        self._threads = ThreadPoolExecutor(size, thread_name_prefix="child")

    async def warm(self) -> None:
        """Start every child now."""
        loop = asyncio.get_running_loop()
        started = (loop.run_in_executor(self._threads, self._new) for _ in range(self._size))
        self._idle = list(await asyncio.gather(*started))

    async def run(
        self, call: Call, longest: timedelta, silence: timedelta | None, listener: Listener, *, alone: bool
    ) -> Performed:
        """Run a call in a kept child, or `alone` in a fresh one; ChildDied or Overdue when it gave no answer."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, self._run, call, longest, silence, listener, alone)

    def tell(self, call_id: CallId, signum: signal.Signals) -> None:
        """Send a signal to the child that runs this call, if any."""
        if child := self._busy.get(call_id):
            child.tell(signum)

    def kill(self, call_id: CallId) -> None:
        """Kill the child that runs this call, or is being made for it."""
        self._doomed.add(call_id)
        if child := self._busy.get(call_id):
            child.kill()

    def close(self) -> None:
        """Kill every child."""
        for child in [*self._idle, *self._busy.values()]:
            child.kill()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _run(
        self, call: Call, longest: timedelta, silence: timedelta | None, listener: Listener, alone: bool
    ) -> Performed:
        call_id = call.facts.task_id, call.facts.attempt
        child = self._new() if alone else self._take()
        self._busy[call_id] = child
        try:
            if call_id in self._doomed:
                raise ChildDied(-signal.SIGKILL, None)
            answer = child.call(call, longest, silence, listener)
        except ChildDied:
            child.kill()
            raise
        finally:
            del self._busy[call_id]
            self._doomed.discard(call_id)
        if alone or (answer.error and answer.error.get("category") == "resource"):
            child.kill()
        else:
            self._idle.append(child)
        return answer

    def _take(self) -> Child:
        while self._idle:
            child = self._idle.pop()
            if child.process.is_alive():
                return child
        return self._new()

    def _new(self) -> Child:
        return Child(self._plugins, self._memory, self.equipment)


class _Line:
    """The child's end of the line: what it says goes up the pipe, what it hears comes by signal."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._pid = os.getpid()
        self._speaking = threading.Lock()
        self._in_call = False
        self._saved = 0
        self.cancelled = False
        self.stopping = False

    def progress(self, progress: dict[str, Json]) -> None:
        if self.is_mine:
            with self._speaking:
                if self._in_call:
                    self._connection.send(progress)

    def save(self, phase: str, state: str) -> None:
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
        """The answer to this checkpoint, after those that nobody waited for: a signal may have ended the waiting."""
        while True:
            answer = self._connection.recv()
            if isinstance(answer, Answer) and answer.number == number:
                return answer.error

    @property
    def is_mine(self) -> bool:
        """Whether this is the process that was called, and not one that a handler forked from it."""
        return os.getpid() == self._pid

    def hear(self, signum: int, _frame: FrameType | None) -> None:
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


def _serve(
    connection: Connection, output: Connection, plugins: Sequence[str], memory: int, equipment: Equipment
) -> None:
    die_with_parent()
    os.setsid()
    line = _Line(connection)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, line.hear)
    signal.signal(signal.SIGUSR1, line.hear)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if memory:
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    hold_lines()
    registry = load_plugins(plugins)
    connection.send(Performed())
    for stream in (sys.stdout, sys.stderr):
        os.dup2(output.fileno(), stream.fileno())
    keep_lines()
    while True:
        try:
            call = connection.recv()
        except EOFError:
            return
        if not isinstance(call, Call):  # an answer that nobody waits for any more
            continue
        line.begin()
        performed = perform(registry, call, line, equipment)
        if not line.is_mine:  # two would answer for one, and then for others
            os._exit(os.EX_SOFTWARE)
        line.end()
        for timer in (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF):
            signal.setitimer(timer, 0)
        sys.stdout.flush()
        sys.stderr.flush()
        connection.send(performed)
