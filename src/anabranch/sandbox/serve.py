"""The server of a sandbox: it leaves the network, imports one module, and forks a process for each call.

`python -P -m anabranch.sandbox.serve MODULE FD`: the environment is made by whoever starts it, from nothing.
"""

import importlib
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from anabranch.engine.failure import describe_error
from anabranch.engine.lifeline import die_with_parent
from anabranch.sandbox.calls import forbid_calls
from anabranch.sandbox.confine import Limits, can_restrict_files, leave_network, restrict_files, set_limits
from anabranch.sandbox.wire import CHUNK, MOST_BYTES, Said, Wire

__all__ = ["main"]

QUIET_SECONDS = 0.2


def main() -> None:
    """Serve until whoever started it is gone."""
    offline = leave_network()
    module = importlib.import_module(sys.argv[1])
    control = Wire(socket.socket(fileno=int(sys.argv[2])))
    control.say({"offline": offline, "sealed": can_restrict_files()})
    while True:
        begun, handles, _, _ = socket.recv_fds(control.socket, CHUNK, 1)
        if not begun:
            return
        (request,) = control.rest(begun)
        _serve(module, control, request, Wire(socket.socket(fileno=handles[0]), most=MOST_BYTES))


def _serve(module: ModuleType, control: Wire, request: Said, line: Wire) -> None:
    """Run one call in a process of its own, and tell how that ended."""
    server, child = os.getpid(), os.fork()
    if child == 0:
        control.close()
        _work(module, request, line, server)
    line.close()
    control.say({"pid": child})
    handle = os.pidfd_open(child)
    try:
        ready, _, _ = select.select([handle, control.fileno()], [], [])
        if handle not in ready:  # nobody waits any more: a caller says nothing during a call
            _kill(child)
        _, status, usage = os.wait4(child, 0)
        _kill(child)  # where the kernel let it make processes, they are of its group
    finally:
        os.close(handle)
    control.say({"status": os.waitstatus_to_exitcode(status), "peak_bytes": usage.ru_maxrss * 1024})


def _kill(group: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def _work(module: ModuleType, request: Said, line: Wire, server: int) -> NoReturn:
    """The call itself; this process never returns to the server's code."""
    try:
        os.setsid()
        die_with_parent()
        if os.getppid() != server:
            os._exit(os.EX_SOFTWARE)
        _confine(request)
        line.say(_answer(_find(module, request["name"]), request["arguments"], line))
    except BaseException as error:  # noqa: BLE001  # whatever it was, it is told, and the process ends here
        line.say({"error": describe_error(error)})
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(os.EX_OK)


def _confine(request: Said) -> None:
    writes = [Path(path) for path in request["writes"]]
    os.chdir(writes[0])
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # Python ignores it, and libraries tell of a bad file
    set_limits(Limits(**request["limits"]))
    restrict_files([Path(path) for path in request["reads"]], writes)
    forbid_calls()


def _find(module: ModuleType, name: str) -> Callable[..., Any]:
    if name not in module.__all__:
        raise LookupError(f"{module.__name__} has no function {name!r} for callers")
    found: Callable[..., Any] = getattr(module, name)
    return found


def _answer(function: Callable[..., Any], arguments: dict[str, Any], line: Wire) -> Said:
    try:
        return {"result": function(**arguments, progress=_progress(line))}
    except Exception as error:  # noqa: BLE001  # it is the caller's to know
        return {"error": describe_error(error)}


def _progress(line: Wire) -> Callable[..., None]:
    last = 0.0

    def progress(done: float, total: float | None = None, message: str = "") -> None:
        nonlocal last
        if time.monotonic() >= last + QUIET_SECONDS:
            last = time.monotonic()
            line.say({"progress": [done, total, message]})

    return progress


if __name__ == "__main__":
    with suppress(ConnectionError):  # who asked is gone
        main()
