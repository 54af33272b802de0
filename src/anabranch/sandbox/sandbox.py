"""The caller's side of a sandbox."""

import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, NoReturn

import structlog

from anabranch.errors import Interrupted, Permanent, Resource, TaskError, Throttled, Transient
from anabranch.sandbox.confine import Limits
from anabranch.sandbox.locks import Locks
from anabranch.sandbox.wire import MOST_BYTES, Garbled, Said, TooMuch, Wire

__all__ = ["Progress", "Sandbox"]

log = structlog.get_logger()

Progress = Callable[[float, float | None, str], None]

LOOK_SECONDS = 0.1
KINDS: Mapping[str, type[TaskError]] = {
    "error": TaskError,
    "permanent": Permanent,
    "bug": Permanent,
    "transient": Transient,
    "throttled": Throttled,
    "resource": Resource,
}


class Sandbox:
    """Runs the functions of one module on files of strangers, each call in a process that has nothing.

    One call runs at a time: a process that runs handlers runs one at a time, too.
    """

    def __init__(self, module: str, environment: Mapping[str, str], *, newest_landlock: int | None = None) -> None:
        """Functions of this module's `__all__`, with this environment and no other; nothing is started yet.

        Of Landlock no newer ABI than `newest_landlock` is used, as on an older kernel.
        """
        self._module = module
        self._newest_landlock = newest_landlock
        self._environment = dict(environment)
        self._server: subprocess.Popen[bytes] | None = None
        self._control: Wire | None = None
        self._turn = threading.Lock()
        self._locks = Locks(offline=False, landlock=0, calls=False)
        self._warned = False

    def run(
        self,
        name: str,
        arguments: Mapping[str, Any],
        *,
        limits: Limits,
        writes: Sequence[Path],
        reads: Sequence[Path] = (),
        progress: Progress | None = None,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> Any:  # the function's answer, as JSON has it
        """Call a function by name; it may write below the first of some folders, where it begins, and the others."""
        request = {
            "name": name,
            "arguments": dict(arguments),
            "limits": asdict(limits),
            "reads": [str(path) for path in reads],
            "writes": [str(path) for path in writes],
        }
        with self._turn:
            control = self._start()
            self._warn()
            ours, theirs = socket.socketpair()
            try:
                with theirs:
                    control.hand(request, theirs)
            except ConnectionError as error:
                ours.close()
                self._end()
                raise Transient("the sandbox's server is gone", code="sandbox.unavailable") from error
            call = _Call(Wire(ours, most=MOST_BYTES), control, progress, should_stop)
            try:
                return call.wait()
            except BaseException:
                if not call.ended:
                    self._end()
                raise

    def find_locks(self) -> Locks:
        """What the kernel of this machine locks calls with."""
        with self._turn:
            self._start()
            return self._locks

    def close(self) -> None:
        """End the server, and what runs in it."""
        with self._turn:
            self._end()

    def _start(self) -> Wire:
        if self._control is not None and self._server is not None and self._server.poll() is None:
            return self._control
        self._end()
        ours, theirs = socket.socketpair()
        newest = [] if self._newest_landlock is None else [str(self._newest_landlock)]
        with theirs:
            self._server = subprocess.Popen(
                [sys.executable, "-P", "-m", "anabranch.sandbox.serve", self._module, str(theirs.fileno()), *newest],
                env={"LANG": "C.UTF-8", "PATH": os.defpath, **self._environment},
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                cwd="/",
            )
        self._control = Wire(ours)
        try:
            (begun,) = self._control.hear()
        except (EOFError, ConnectionError) as error:
            self._end()
            raise Transient("the sandbox did not start", code="sandbox.unavailable") from error
        self._locks = Locks(**begun)
        return self._control

    def _warn(self) -> None:
        if not self._warned and (missing := self._locks.missing()):
            log.warning("sandbox.weak", missing=missing)
        self._warned = True

    def _end(self) -> None:
        if self._control is not None:
            self._control.close()  # the server kills what runs, and ends
        if self._server is not None:
            with suppress(subprocess.TimeoutExpired):
                self._server.wait(5)
            self._server.kill()
            self._server.wait()
        self._control = self._server = None


class _Call:
    """One call under way."""

    def __init__(self, line: Wire, control: Wire, progress: Progress | None, should_stop: Callable[[], bool]) -> None:
        self._line = line
        self._control = control
        self._progress = progress
        self._should_stop = should_stop
        self._said: Said = {}
        self._open = [line, control]
        self._pid = 0
        self.ended = False

    def wait(self) -> Any:  # the function's answer
        """The answer, or the error that it raised or died of."""
        try:
            over: Said = {}
            while "status" not in over:
                if self._should_stop():
                    self._kill()
                    raise Interrupted
                over = self._look()
            self.ended, self._pid = True, 0  # its number may be another's from now on
            while self._line in self._open and self._is_ready() and self._hear_line():
                pass
        except TooMuch:
            self._kill()
            raise Permanent("it answered with more than 16 MB", code="sandbox.answer") from None
        except Garbled as error:
            self._kill()
            raise Permanent(f"its answer makes no sense: {error}", code="sandbox.answer") from error
        finally:
            self._line.close()
        _log(over)
        if "result" in self._said:
            return self._said["result"]
        if "error" in self._said:
            _raise(self._said["error"], over["refused"])
        raise _death(over["status"])

    def _look(self) -> Said:
        """What the server says, if anything; what the call says is noted."""
        ready, _, _ = select.select(self._open, [], [], LOOK_SECONDS)
        if self._line in ready and not self._hear_line():
            self._open.remove(self._line)
        if self._control not in ready:
            return {}
        try:
            over: Said = {}
            for said in self._control.hear():
                self._pid = said.get("pid", self._pid)
                over |= said
        except (EOFError, ConnectionError) as error:
            raise Transient("the sandbox's server is gone", code="sandbox.unavailable") from error
        return over

    def _is_ready(self) -> bool:
        """Whether there is more to hear: a process that outlived the call may hold the line, and say nothing."""
        return bool(select.select([self._line], [], [], 0)[0])

    def _hear_line(self) -> bool:
        try:
            for said in self._line.hear():
                if "progress" in said:
                    self._tell(said["progress"])
                elif "result" in said or isinstance(said.get("error"), dict):
                    self._said = said
                else:
                    raise Garbled("it has neither a result nor an error")
        except (EOFError, ConnectionError):
            return False
        return True

    def _tell(self, progress: Any) -> None:  # as JSON has it: a file may have made the process say anything
        match progress:
            case [int() | float() as done, int() | float() | None as total, str(message)]:
                if self._progress:
                    self._progress(done, total, message)
            case _:
                raise Garbled("its progress is no progress")

    def _kill(self) -> None:
        if self._pid:
            with suppress(ProcessLookupError):
                os.killpg(self._pid, signal.SIGKILL)


def _log(over: Said) -> None:
    """What the work printed, and which system calls it was refused: a bug of a library, or an attack."""
    if over["refused"]:
        log.warning("sandbox.refused", calls=over["refused"])
    if over["printed"]:
        log.info("sandbox.printed", text="".join(each if each.isprintable() else " " for each in over["printed"]))


def _raise(error: Mapping[str, Any], refused: Sequence[str]) -> NoReturn:
    kind = KINDS.get(str(error.get("category")), Permanent)
    code, message = str(error.get("code")), str(error.get("message"))
    if kind is Resource and code == "handler.resource":
        code = "resource.memory" if error.get("type") == "MemoryError" else "resource.disk"
    elif error.get("type") not in KNOWN:
        message = f"{error.get('type')}: {message}"
        if refused:
            message += f" (refused in the sandbox: {', '.join(refused)})"
    raise kind(message, code=code, remedy=str(error.get("remedy", "")))


KNOWN = {kind.__name__ for kind in (*KINDS.values(), Interrupted)} | {"InputError", "NotFound", "Conflict"}


def _death(status: int) -> TaskError:
    if status == -signal.SIGXCPU:
        return Resource("it used more processor time than it may", code="resource.cpu")
    if status == -signal.SIGKILL:
        return Resource("it was killed, as the system does when memory runs out", code="resource.memory")
    if status == -signal.SIGXFSZ:
        return Resource("it wrote a larger file than it may", code="resource.disk")
    named = signal.Signals(-status).name if status < 0 else f"exit code {status}"
    return Transient(f"the process that read the file ended by {named}", code="handler.crashed")
