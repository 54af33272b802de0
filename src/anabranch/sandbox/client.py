"""The caller's side of a sandbox."""

import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NoReturn

import structlog

from anabranch.errors import Interrupted, Permanent, Resource, TaskError, Throttled, Transient
from anabranch.sandbox.channel import MAX_ANSWER_BYTES, Channel, MalformedMessage, Message, MessageTooLarge
from anabranch.sandbox.confine import Limits
from anabranch.sandbox.protections import Protections
from anabranch.sandbox.ranged import RangeServer, RangeSource

__all__ = ["Progress", "Receive", "Sandbox"]

log = structlog.get_logger()

Progress = Callable[[float, float | None, str], None]
Receive = Callable[[Any], None]  # any JSON: a malicious file may control the process

POLL_SECONDS = 0.1
NOTHING_RANGED: Mapping[str, RangeSource] = {}
KINDS: Mapping[str, type[TaskError]] = {
    "error": TaskError,
    "permanent": Permanent,
    "bug": Permanent,
    "transient": Transient,
    "throttled": Throttled,
    "resource": Resource,
}


class Sandbox:
    """Runs the functions of one module on untrusted files, each call in a process without network or privileges.

    One call runs at a time, as a worker process runs one handler at a time.
    """

    def __init__(self, module: str, environment: Mapping[str, str], *, newest_landlock: int | None = None) -> None:
        """The functions of this module's `__all__`, with only this environment; nothing is started yet.

        Landlock is used up to the ABI `newest_landlock`, as on an older kernel.
        """
        self._module = module
        self._newest_landlock = newest_landlock
        self._environment = dict(environment)
        self._server: subprocess.Popen[bytes] | None = None
        self._control: Channel | None = None
        self._lock = threading.Lock()
        self._protections = Protections(offline=False, landlock=0, calls=False)
        self._warned = False
        self.peak_bytes = 0
        """The memory that the last call used at most."""

    def run(
        self,
        name: str,
        arguments: Mapping[str, Any],
        *,
        limits: Limits,
        writes: Sequence[Path],
        reads: Sequence[Path] = (),
        ranged: Mapping[str, RangeSource] = NOTHING_RANGED,
        progress: Progress | None = None,
        receive: Receive | None = None,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> Any:  # the function's result, as JSON
        """Call a function by name; it can write below the folders in `writes`, and starts in the first one.

        A file in `ranged` is an argument of the function, a `RangedFile`. An error of its source ends the call.
        With `receive` the function has an argument `send`, and `receive` gets what it sends while it runs; an error of
        `receive` ends the call, too.
        """
        request = {
            "name": name,
            "arguments": {**arguments, **{key: {"name": file.name, "size": file.size} for key, file in ranged.items()}},
            "ranged": list(ranged),
            "sends": receive is not None,
            "limits": asdict(limits),
            "reads": [str(path) for path in reads],
            "writes": [str(path) for path in writes],
        }
        with self._lock:
            control = self._start()
            self._warn()
            with ExitStack() as ends:
                ours, theirs = (ends.enter_context(end) for end in socket.socketpair())
                servers = [ends.enter_context(closing(RangeServer(file))) for file in ranged.values()]
                try:
                    control.send_with_sockets(request, [theirs, *(end for server in servers for end in server.there)])
                    for server in servers:
                        server.start()
                except BaseException as error:
                    self._end()
                    if not isinstance(error, ConnectionError):
                        raise
                    raise Transient("the sandbox's server is gone", code="sandbox.unavailable") from error
                ends.pop_all()
                theirs.close()
            call = _Call(Channel(ours, max_bytes=MAX_ANSWER_BYTES), control, servers, progress, receive, should_stop)
            try:
                return call.wait()
            except BaseException:
                if not call.ended:
                    self._end()
                raise
            finally:
                self.peak_bytes = call.peak_bytes

    def find_protections(self) -> Protections:
        """The protections that the kernel of this machine supports."""
        with self._lock:
            self._start()
            return self._protections

    def close(self) -> None:
        """Stop the server and the call that runs in it."""
        with self._lock:
            self._end()

    def _start(self) -> Channel:
        if self._control is not None and self._server is not None and self._server.poll() is None:
            return self._control
        self._end()
        ours, theirs = socket.socketpair()
        newest = [] if self._newest_landlock is None else [str(self._newest_landlock)]
        with theirs:
            self._server = subprocess.Popen(
                [sys.executable, "-P", "-m", "anabranch.sandbox.server", self._module, str(theirs.fileno()), *newest],
                env={"LANG": "C.UTF-8", "PATH": os.defpath, **self._environment},
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                cwd="/",
            )
        self._control = Channel(ours)
        try:
            (begun,) = self._control.receive()
        except (EOFError, ConnectionError) as error:
            self._end()
            raise Transient("the sandbox did not start", code="sandbox.unavailable") from error
        self._protections = Protections(**begun)
        return self._control

    def _warn(self) -> None:
        if not self._warned and (missing := self._protections.missing()):
            log.warning("sandbox.partly_supported", missing=missing)
        self._warned = True

    def _end(self) -> None:
        if self._control is not None:
            self._control.close()  # the server kills the running call, and exits
        if self._server is not None:
            with suppress(subprocess.TimeoutExpired):
                self._server.wait(5)
            self._server.kill()
            self._server.wait()
        self._control = self._server = None


@dataclass
class _Call:
    """One running call."""

    line: Channel
    control: Channel
    servers: Sequence[RangeServer]
    progress: Progress | None
    receive: Receive | None
    should_stop: Callable[[], bool]
    ended: bool = False
    peak_bytes: int = 0

    def __post_init__(self) -> None:
        """It is listened to at both ends; nothing was said yet."""
        self._open = [self.line, self.control]
        self._said: Message = {}
        self._pid = 0

    def wait(self) -> Any:  # the function's result
        """The result, or the error that the call raised or died of."""
        try:
            over: Message = {}
            while "status" not in over:
                if self.should_stop():
                    self._kill()
                    raise Interrupted
                self._raise_of_sources()
                over = self._poll()
            self.peak_bytes = int(over.get("peak_bytes", 0))
            self.ended, self._pid = True, 0  # from now on the pid may belong to another process
            while self.line in self._open and self._is_ready() and self._read_line():
                pass
        except MessageTooLarge:
            self._kill()
            raise Permanent("the function returned more than 16 MB", code="sandbox.answer") from None
        except MalformedMessage as error:
            self._kill()
            raise Permanent(f"the function sent a malformed response: {error}", code="sandbox.answer") from error
        finally:
            self.line.close()
        _log(over)
        self._raise_of_sources()
        if "result" in self._said:
            return self._said["result"]
        if "error" in self._said:
            _raise(self._said["error"], over["refused"])
        raise _death_error(over["status"])

    def _raise_of_sources(self) -> None:
        """Raise what stopped a source: whatever the function makes of it, the file is not at fault."""
        for server in self.servers:
            if server.error:
                self._kill()
                raise server.error

    def _poll(self) -> Message:
        """The server's message, if there is one; messages of the call are stored."""
        ready, _, _ = select.select(self._open, [], [], POLL_SECONDS)
        if self.line in ready and not self._read_line():
            self._open.remove(self.line)
        if self.control not in ready:
            return {}
        try:
            over: Message = {}
            for said in self.control.receive():
                self._pid = said.get("pid", self._pid)
                over |= said
        except (EOFError, ConnectionError) as error:
            raise Transient("the sandbox's server is gone", code="sandbox.unavailable") from error
        return over

    def _is_ready(self) -> bool:
        """Whether there is more to read: a process that outlived the call may hold the socket without sending."""
        return bool(select.select([self.line], [], [], 0)[0])

    def _read_line(self) -> bool:
        try:
            for said in self.line.receive():
                if "progress" in said:
                    self._report(said["progress"])
                elif "sent" in said and self.receive:
                    self.receive(said["sent"])
                elif "result" in said or isinstance(said.get("error"), dict):
                    self._said = said
                else:
                    raise MalformedMessage("it has neither a result nor an error")
        except (EOFError, ConnectionError):
            return False
        return True

    def _report(self, progress: Any) -> None:  # any JSON: a malicious file may control the process
        match progress:
            case [int() | float() as done, int() | float() | None as total, str(message)]:
                if self.progress:
                    self.progress(done, total, message)
            case _:
                raise MalformedMessage("its progress is malformed")

    def _kill(self) -> None:
        if self._pid:
            with suppress(ProcessLookupError):
                os.killpg(self._pid, signal.SIGKILL)


def _log(over: Message) -> None:
    """Log the output of the call, and the system calls that it was refused: a library's bug, or an attack."""
    if over["refused"]:
        log.warning("sandbox.refused", calls=over["refused"])
    if over["printed"]:
        log.info("sandbox.printed", text="".join(each if each.isprintable() else " " for each in over["printed"]))


def _raise(error: Mapping[str, Any], refused: Sequence[str]) -> NoReturn:
    kind = KINDS.get(str(error.get("category")), Permanent)
    code, message = str(error.get("code")), str(error.get("message"))
    if kind is Resource and code == "handler.resource":
        code = "resource.memory" if error.get("type") == "MemoryError" else "resource.disk"
    elif error.get("type") not in KNOWN_ERRORS:
        message = f"{error.get('type')}: {message}"
        if refused:
            message += f" (refused in the sandbox: {', '.join(refused)})"
    raise kind(message, code=code, remedy=str(error.get("remedy", "")))


KNOWN_ERRORS = {kind.__name__ for kind in (*KINDS.values(), Interrupted)} | {"InputError", "NotFound", "Conflict"}


# What a signal probably means; a system call that is refused gives an error, and no signal.
SIGNAL_CAUSES: Mapping[int, str] = {
    **dict.fromkeys(
        (signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGILL, signal.SIGFPE),
        ": the library that read it crashed, because of a damaged file, a bug, or too little memory",
    ),
    **dict.fromkeys((signal.SIGTERM, signal.SIGINT, signal.SIGHUP), ": somebody stopped it"),
    signal.SIGSYS: ": it called what the sandbox forbids",
}


def _death_error(status: int) -> TaskError:
    if status == -signal.SIGXCPU:
        return Resource("it used more CPU time than allowed (SIGXCPU)", code="resource.cpu")
    if status == -signal.SIGKILL:
        said = "it was killed (SIGKILL), probably by the system because memory ran out"
        return Resource(said, code="resource.memory")
    if status == -signal.SIGXFSZ:
        return Resource("it wrote a larger file than allowed (SIGXFSZ)", code="resource.disk")
    if status >= 0:
        return Transient(f"the process that read the file ended with exit code {status}", code="handler.crashed")
    named = signal.strsignal(-status) or "unknown"
    cause = SIGNAL_CAUSES.get(-status, "")
    return Transient(
        f"the process that read the file was ended by signal {-status} ({_signal_name(-status)}, {named}){cause}",
        code="handler.crashed",
    )


def _signal_name(number: int) -> str:
    return signal.Signals(number).name if number in {*signal.Signals} else "of no name"  # those for real time
