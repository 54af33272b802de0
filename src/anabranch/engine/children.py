"""Child processes that run handlers, so that one that blocks, dies or eats memory hurts only itself."""

import asyncio
import multiprocessing
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from importlib.metadata import entry_points
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerProcess
from types import FrameType

from anabranch.engine.canonical import Json
from anabranch.engine.lifeline import die_with_parent
from anabranch.engine.perform import Call, Performed, perform
from anabranch.engine.plugin import GROUP, is_folder, load_plugins
from anabranch.engine.printed import Printed
from anabranch.engine.task_logs import hold_lines, keep_lines

__all__ = ["Child", "ChildDied", "Children", "Overdue"]

LOADING_SECONDS = 120
CallId = tuple[str, int]
Progress = Callable[[dict[str, Json]], None]


class ChildDied(Exception):
    """The child ended before it answered."""

    def __init__(self, exit_code: int | None, log: str | None) -> None:
        named = signal.Signals(-exit_code).name if exit_code is not None and exit_code < 0 else f"exit code {exit_code}"
        super().__init__(f"the process that ran the handler ended by {named}")
        self.ended_by = named
        self.log = log


class Overdue(Exception):
    """The child was killed: its time was up, it was silent too long, or it printed too much."""

    def __init__(self, code: str, message: str, log: str | None) -> None:
        super().__init__(message)
        self.code = code
        self.log = log


class Child:
    """One process that runs calls, one after the other. Its methods block; `tell` and `kill` fit any thread."""

    def __init__(self, plugins: Sequence[str], memory: int) -> None:
        """Fork it from the preloaded server, and wait until its plugins are loaded."""
        context = multiprocessing.get_context("forkserver")
        self._connection, theirs = context.Pipe()
        self._output, output = context.Pipe(duplex=False)
        self.process: ForkServerProcess = context.Process(
            target=_serve, args=(theirs, output, tuple(plugins), memory), daemon=True
        )
        self.process.start()
        theirs.close()
        output.close()
        printed = Printed(self._output)
        if not self._connection.poll(LOADING_SECONDS):
            raise self._overdue("handler.loading", f"its plugins took longer than {LOADING_SECONDS} s to load", printed)
        self._receive(printed)

    def call(self, call: Call, longest: timedelta, silence: timedelta | None, progress: Progress) -> Performed:
        """Run one call."""
        printed = Printed(self._output)
        try:
            self._connection.send(call)
            return self._await(printed, longest, silence, progress)
        except OSError:
            raise self._death(printed) from None

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

    def _await(self, printed: Printed, longest: timedelta, silence: timedelta | None, progress: Progress) -> Performed:
        end = time.monotonic() + longest.total_seconds()
        heard = time.monotonic()
        while True:
            quiet = heard + silence.total_seconds() if silence else end
            ready = wait([self._connection, self._output], max(0.0, min(end, quiet) - time.monotonic()))
            if not ready:
                over = time.monotonic() >= end
                limit = longest if over else silence or longest
                code, what = ("task.timed_out", "ran") if over else ("task.silent", "was silent")
                raise self._overdue(code, f"it {what} longer than {limit.total_seconds():g} s", printed)
            if self._output in ready and not printed.read():
                raise self._overdue("handler.output", f"it printed more than {printed.MOST // 2**20} MB", printed)
            if self._connection in ready:
                heard = time.monotonic()
                answer = self._receive(printed)
                if isinstance(answer, Performed):
                    answer.log = printed.text()
                    return answer
                progress(answer)

    def _receive(self, printed: Printed) -> Performed | dict[str, Json]:
        try:
            answer: Performed | dict[str, Json] = self._connection.recv()
        except EOFError:
            raise self._death(printed) from None
        return answer

    def _death(self, printed: Printed) -> ChildDied:
        self.process.join(1)
        code = self.process.exitcode
        self.kill()  # it may have closed its end only, or left processes of its own
        return ChildDied(code, printed.text())

    def _overdue(self, code: str, message: str, printed: Printed) -> Overdue:
        self.kill()
        return Overdue(code, message, printed.text())


class Children:
    """As many children as slots, kept for the next call; one that died is replaced when it is needed."""

    def __init__(self, size: int, plugins: Sequence[str], *, memory: int = 0) -> None:
        """Prepare the fork server; `memory` bounds each child's address space in bytes, 0 for no bound."""
        modules = [point.value for point in entry_points(group=GROUP)]
        preload = ["anabranch.engine.tethered", __name__, *modules, *(name for name in plugins if not is_folder(name))]
        multiprocessing.get_context("forkserver").set_forkserver_preload(preload)
        self._plugins = tuple(plugins)
        self._memory = memory
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
        self, call: Call, longest: timedelta, silence: timedelta | None, progress: Progress, *, alone: bool
    ) -> Performed:
        """Run a call in a kept child, or `alone` in a fresh one; ChildDied or Overdue when it gave no answer."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, self._run, call, longest, silence, progress, alone)

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
        self, call: Call, longest: timedelta, silence: timedelta | None, progress: Progress, alone: bool
    ) -> Performed:
        call_id = call.facts.task_id, call.facts.attempt
        child = self._new() if alone else self._take()
        self._busy[call_id] = child
        try:
            if call_id in self._doomed:
                raise ChildDied(-signal.SIGKILL, None)
            answer = child.call(call, longest, silence, progress)
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
        return Child(self._plugins, self._memory)


class _Line:
    """The child's end of the line: what it says goes up the pipe, what it hears comes by signal."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._pid = os.getpid()
        self.cancelled = False
        self.stopping = False

    def progress(self, progress: dict[str, Json]) -> None:
        if self.is_mine:
            self._connection.send(progress)

    @property
    def is_mine(self) -> bool:
        """Whether this is the process that was called, and not one that a handler forked from it."""
        return os.getpid() == self._pid

    def hear(self, signum: int, _frame: FrameType | None) -> None:
        if signum == signal.SIGUSR1:
            self.cancelled = True
        else:
            self.stopping = True

    def forget(self) -> None:
        self.cancelled = self.stopping = False


def _serve(connection: Connection, output: Connection, plugins: Sequence[str], memory: int) -> None:
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
        line.forget()
        performed = perform(registry, call, line)
        if not line.is_mine:  # two would answer for one, and then for others
            os._exit(os.EX_SOFTWARE)
        for timer in (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF):
            signal.setitimer(timer, 0)
        sys.stdout.flush()
        sys.stderr.flush()
        connection.send(performed)
