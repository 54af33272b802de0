"""Child processes that run handlers, so that one that blocks, dies or eats memory hurts only itself."""

import asyncio
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from multiprocessing import forkserver
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerProcess
from typing import Protocol

from anabranch.durations import spell_duration
from anabranch.engine.failure import Failure
from anabranch.engine.model import ProgressReport
from anabranch.engine.policy import TaskPolicy
from anabranch.engine.registry import loaded_modules
from anabranch.engine.worker.captured_output import Printed
from anabranch.engine.worker.handler_resources import NO_RESOURCES, HandlerResources
from anabranch.engine.worker.perform import Call, Outcome
from anabranch.engine.worker.processes.handler_process import Answer, Begun, Saved, serve
from anabranch.errors import TaskError, Transient, Unavailable

__all__ = ["Child", "ChildDied", "HandlerProcesses", "Listener", "Overdue"]

LOAD_TIMEOUT_SECONDS = 120
MAX_POLL_SECONDS = 0.5
FORKS, FORK_PAUSE_SECONDS = 3, 0.1
FORK_DESCRIPTORS = 8  # a connection and two pipes, and some for what other threads open meanwhile
FORK_LOCK = threading.Lock()
ORPHANED_EXIT_CODE = 255  # as multiprocessing says when the server that would know is gone
CallId = tuple[str, int]


class Listener(Protocol):
    """Who hears what a handler says while it runs; called in the thread that waits for it."""

    @property
    def cancelled(self) -> bool:
        """Whether the handler is to hear that it is cancelled."""

    @property
    def stopping(self) -> bool:
        """Whether the handler is to hear that the worker stops."""

    def end(self) -> None:
        """Note that its answer is here."""

    def capture(self, printed: Printed) -> None:
        """Note where to read what it prints."""

    def progress(self, progress: ProgressReport) -> None:
        """Note how far it is."""

    def keep(self, saved: Saved) -> "Future[TaskError | None]":
        """Start to store a checkpoint; the future has the error for the handler, if any."""


Message = Outcome | Begun | Saved | ProgressReport


class ChildDied(Exception):
    """The child ended before it answered: `begun`, while it ran the call; `orphaned`, with the server behind it."""

    def __init__(self, exit_code: int | None, log: str | None, *, begun: bool = False, orphaned: bool = False) -> None:
        named = signal.Signals(-exit_code).name if exit_code is not None and exit_code < 0 else f"exit code {exit_code}"
        super().__init__(f"the process that ran the handler ended by {named}")
        self.ended_by = named
        self.log = log
        self.begun = begun
        self.orphaned = orphaned


class Overdue(Exception):
    """The child was killed: its time was up, it was silent too long, or it printed too much."""

    def __init__(self, code: str, message: str, log: str | None, *, permanent: bool = False) -> None:
        super().__init__(message)
        self.code = code
        self.log = log
        self.permanent = permanent

    @property
    def failure(self) -> Failure:
        """The failure to store."""
        return Failure(code=self.code, message=str(self), category="permanent" if self.permanent else "transient")


class Child:
    """One process that runs calls, one after the other. Its methods block; `send_signal` and `kill` fit any thread."""

    def __init__(self, plugins: Sequence[str], memory: int, resources: HandlerResources = NO_RESOURCES) -> None:
        """Fork it from the preloaded server, and wait until its plugins are loaded."""
        self.process, self._connection, self._output = _fork(tuple(plugins), memory, resources)
        self._server = forkserver._forkserver._forkserver_pid  # type: ignore[attr-defined]  # it has no public name
        self._sending = threading.Lock()
        self._begun = False
        printed = Printed(self._output)
        if not self._connection.poll(LOAD_TIMEOUT_SECONDS):
            raise self._overdue(
                "handler.loading", f"its plugins took longer than {LOAD_TIMEOUT_SECONDS} s to load", printed
            )
        self._receive(printed)

    def call(self, call: Call, policy: TaskPolicy, listener: Listener) -> Outcome:
        """Run one call."""
        printed = Printed(self._output)
        listener.capture(printed)
        keeping: Future[TaskError | None] | None = None
        try:
            self._send(call)
            patience = _Patience(policy)
            while True:
                said = self._hear(printed, patience, waits=keeping is not None and not keeping.done())
                if isinstance(said, Outcome):
                    self._begun = False
                    listener.end()
                    said.log = printed.text(said.log)
                    return said
                if isinstance(said, Begun):
                    self._begin(listener)
                elif isinstance(said, Saved):
                    keeping = listener.keep(said)
                    keeping.add_done_callback(partial(self._answer, said.number))
                elif said is not None:
                    listener.progress(said)
        except OSError:
            raise self._death(printed) from None
        finally:
            if keeping:
                keeping.cancel()

    def send_signal(self, signum: signal.Signals) -> None:
        """Let the handler know that it is cancelled (SIGUSR1) or that the worker stops (SIGTERM).

        One that has not begun yet would not hear it; `call` repeats it when it does.
        """
        if self._begun and self.process.pid is not None and self.process.exitcode is None:
            with suppress(ProcessLookupError):  # it ends at this moment
                os.kill(self.process.pid, signum)

    @property
    def has_begun(self) -> bool:
        """Whether a handler runs in it."""
        return self._begun

    def kill(self) -> None:
        """End it at once, and all that it started."""
        if self.process.pid is not None and self.process.exitcode is None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.kill()
        self.process.join()

    def _begin(self, listener: Listener) -> None:
        self._begun = True
        if listener.cancelled:
            self.send_signal(signal.SIGUSR1)
        if listener.stopping:
            self.send_signal(signal.SIGTERM)

    def _hear(self, printed: Printed, patience: "_Patience", *, waits: bool) -> Message | None:
        """The next message of the handler; None when it printed, or waits for an answer."""
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
        """Answer the handler's checkpoint: stored, or the error; may be called in any thread."""
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
        orphaned = code == ORPHANED_EXIT_CODE and _has_ended(self._server)
        return ChildDied(code, printed.text(), begun=self._begun, orphaned=orphaned)

    def _overdue(self, code: str, message: str, printed: Printed, *, permanent: bool = False) -> Overdue:
        self.kill()
        return Overdue(code, message, printed.text(), permanent=permanent)


class _Patience:
    """How long a handler may still run and be silent; while it waits for an answer it can say nothing."""

    def __init__(self, policy: TaskPolicy) -> None:
        self._longest = policy.timeout
        self._silence = policy.timeouts.heartbeat
        self._end = time.monotonic() + policy.timeout.total_seconds()
        self._quiet_until = self._end
        self.heard()

    def heard(self) -> None:
        if self._silence:
            self._quiet_until = time.monotonic() + self._silence.total_seconds()

    def left(self, *, waits: bool) -> float:
        """How long to listen, in seconds."""
        left = max(0.0, min(self._end, self._quiet_until) - time.monotonic())
        return min(left, MAX_POLL_SECONDS) if waits else left

    def exceeded(self, *, waits: bool) -> tuple[str, str] | None:
        """The limit that was passed, as a code and in words."""
        now = time.monotonic()
        if now >= self._end:
            return "task.timed_out", f"it ran longer than {spell_duration(self._longest)}"
        if self._silence and now >= self._quiet_until and not waits:
            return "task.silent", f"it was silent longer than {spell_duration(self._silence)}"
        return None


class HandlerProcesses:
    """As many children as slots, kept for the next call; one that died is replaced when it is needed."""

    def __init__(
        self, size: int, plugins: Sequence[str], *, memory: int = 0, resources: HandlerResources = NO_RESOURCES
    ) -> None:
        """Prepare the fork server; `memory` bounds each child's address space in bytes, 0 for no bound.

        The resources is what handlers have wherever they run; it goes to the children by a pipe.
        """
        preload = ["anabranch.engine.worker.processes.fork_server_setup", serve.__module__, *loaded_modules(plugins)]
        multiprocessing.get_context("forkserver").set_forkserver_preload(preload)
        forkserver.ensure_running()  # from a thread that lasts: the server ends with the thread that began it
        self._plugins = tuple(plugins)
        self._memory = memory
        self.resources = resources
        self._size = size
        self._idle: list[Child] = []
        self._busy: dict[CallId, Child] = {}
        self._doomed: set[CallId] = set()
        self._closed = False
        # One more than slots: what plans and folds never waits for handlers.
        self._threads = ThreadPoolExecutor(size + 1, thread_name_prefix="child")

    async def warm(self) -> None:
        """Start every child now."""
        loop = asyncio.get_running_loop()
        started = (loop.run_in_executor(self._threads, self._new) for _ in range(self._size))
        self._idle = list(await asyncio.gather(*started))

    async def run(self, call: Call, policy: TaskPolicy, listener: Listener, *, alone: bool) -> Outcome:
        """Run a call in a kept child, or `alone` in a fresh one; ChildDied or Overdue when it gave no answer."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, self._run, call, policy, listener, alone)

    def send_signal(self, call_id: CallId, signum: signal.Signals) -> None:
        """Send a signal to the child that runs this call, if any."""
        if child := self._busy.get(call_id):
            child.send_signal(signum)

    def kill(self, call_id: CallId) -> bool:
        """Kill the child that runs this call, or is being made for it; False when the handler did not run in it."""
        self._doomed.add(call_id)
        child = self._busy.get(call_id)
        if child is None:
            return False
        begun = child.has_begun
        child.kill()
        return begun

    def close(self) -> None:
        """Kill every child."""
        self._closed = True
        for child in [*self._idle, *self._busy.values()]:
            child.kill()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _run(self, call: Call, policy: TaskPolicy, listener: Listener, alone: bool) -> Outcome:
        child = self._new() if alone else self._take()
        try:
            answer = self._call(child, call, policy, listener)
        except ChildDied as died:
            if alone or died.begun or self._closed:
                raise
            child = self._new()  # it had died while it was idle, and nothing ran in it
            answer = self._call(child, call, policy, listener)
        finally:
            self._doomed.discard(call.id)
        if alone or (answer.error and answer.error.category == "resource"):
            child.kill()
        else:
            self._idle.append(child)
        return answer

    def _call(self, child: Child, call: Call, policy: TaskPolicy, listener: Listener) -> Outcome:
        self._busy[call.id] = child
        try:
            if call.id in self._doomed:
                raise ChildDied(-signal.SIGKILL, None, begun=True)
            return child.call(call, policy, listener)
        except ChildDied:
            child.kill()
            raise
        finally:
            del self._busy[call.id]

    def _take(self) -> Child:
        while True:
            try:
                child = self._idle.pop()
            except IndexError:  # none is left, or another thread was faster
                return self._new()
            if child.process.is_alive():
                return child

    def _new(self) -> Child:
        return Child(self._plugins, self._memory, self.resources)


def _has_ended(pid: int) -> bool:
    """Whether a process that this one started is gone; it is not reaped."""
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True


def _fork(*given: object) -> tuple[ForkServerProcess, Connection, Connection]:
    """A child, the line to it, and what it prints. A server that dies meanwhile is started again by the next try."""
    for _ in range(FORKS):
        try:
            return _try_to_fork(given)
        except (EOFError, ConnectionError):
            time.sleep(FORK_PAUSE_SECONDS)  # until the system has reported its end
    raise Unavailable("worker.no_children", "the server that forks the processes of handlers does not stay alive")


def _try_to_fork(given: tuple[object, ...]) -> tuple[ForkServerProcess, Connection, Connection]:
    """Lines of its own for every try: a server may die after it forked, and that child must not answer for another."""
    context = multiprocessing.get_context("forkserver")
    ours, theirs = context.Pipe()
    read, written = context.Pipe(duplex=False)
    process = context.Process(target=serve, args=(theirs, written, *given), daemon=True)
    try:
        with FORK_LOCK:
            _require_descriptors()
            process.start()
    except BaseException:
        ours.close()
        read.close()
        raise
    finally:
        theirs.close()
        written.close()
    return process, ours, read


def _require_descriptors() -> None:
    """OSError where a fork would lack descriptors: a server that is asked for one without them ends, with all children
    that it forked before."""
    taken: list[int] = []
    try:
        while len(taken) < FORK_DESCRIPTORS:
            taken.append(os.open(os.devnull, os.O_RDONLY))
    finally:
        for descriptor in taken:
            os.close(descriptor)
