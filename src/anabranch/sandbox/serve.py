"""The server of a sandbox: it gives up network and privileges, imports one module, and forks a process for each call.

`python -P -m anabranch.sandbox.serve MODULE FD [ABI]`: the environment is made by whoever starts it, from nothing.
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
from typing import Any, NamedTuple, NoReturn

from anabranch.engine.failure import describe_error
from anabranch.engine.lifeline import die_with_parent
from anabranch.sandbox.calls import can_filter_calls
from anabranch.sandbox.confine import Limits, drop_privileges, leave_network, set_limits
from anabranch.sandbox.landlock import find_landlock, restrict_files
from anabranch.sandbox.locks import Locks
from anabranch.sandbox.prints import Prints
from anabranch.sandbox.refusals import Refusals, filter_and_report
from anabranch.sandbox.wire import CHUNK, MOST_BYTES, Said, Wire

__all__ = ["main"]

QUIET_SECONDS = 0.2


class Ends(NamedTuple):
    """What a call's process holds: the line to its caller, where it tells of refusals, and where it prints."""

    line: Wire
    there: socket.socket
    printing: int


def main() -> None:
    """Serve until whoever started it is gone."""
    name, handle, *newest = sys.argv[1:]
    locks = Locks(leave_network(), find_landlock(*map(int, newest)), can_filter_calls())
    drop_privileges()
    module = importlib.import_module(name)
    control = Wire(socket.socket(fileno=int(handle)))
    control.say(locks._asdict())
    while True:
        begun, handles, _, _ = socket.recv_fds(control.socket, CHUNK, 1)
        if not begun:
            return
        (request,) = control.rest(begun)
        _serve(module, locks, control, request, Wire(socket.socket(fileno=handles[0]), most=MOST_BYTES))


def _serve(module: ModuleType, locks: Locks, control: Wire, request: Said, line: Wire) -> None:
    """Run one call in a process of its own, and tell how that ended."""
    printed, printing = os.pipe()
    here, there = socket.socketpair()
    server, child = os.getpid(), os.fork()
    if child == 0:
        control.close()
        here.close()
        os.close(printed)
        _work(module, locks, request, Ends(line, there, printing), server)
    for end in (line, there):
        end.close()
    os.close(printing)
    control.say({"pid": child})
    refusals, prints = Refusals(here), Prints(printed)
    try:
        if not _watch(child, control, refusals, prints):
            _kill(child)
        _, status, usage = os.wait4(child, 0)
        _kill(child)  # where the kernel let it make processes, they are of its group
        control.say(
            {
                "status": os.waitstatus_to_exitcode(status),
                "peak_bytes": usage.ru_maxrss * 1024,
                "refused": list(refusals.names),
                "printed": prints.text(),
            }
        )
    finally:
        refusals.close()
        prints.close()


def _watch(child: int, control: Wire, refusals: Refusals, prints: Prints) -> bool:
    """Wait until it has ended; False when nobody waits for it any more: a caller says nothing during a call."""
    handle = os.pidfd_open(child)
    try:
        while True:
            poll = select.poll()
            for each in (handle, control.fileno(), *refusals.handles(), *prints.handles()):
                poll.register(each, select.POLLIN)
            ready = dict(poll.poll())
            if handle in ready or control.fileno() in ready:
                return handle in ready
            refusals.take(ready)
            prints.take(ready)
    finally:
        os.close(handle)


def _kill(group: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def _work(module: ModuleType, locks: Locks, request: Said, ends: Ends, server: int) -> NoReturn:
    """The call itself; this process never returns to the server's code."""
    try:
        os.setsid()
        die_with_parent()
        if os.getppid() != server:
            os._exit(os.EX_SOFTWARE)
        _confine(locks, request, ends)
        ends.line.say(_answer(_find(module, request["name"]), request["arguments"], ends.line))
    except BaseException as error:  # noqa: BLE001  # whatever it was, it is told, and the process ends here
        ends.line.say({"error": describe_error(error)})
    finally:
        with suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(os.EX_OK)


def _confine(locks: Locks, request: Said, ends: Ends) -> None:
    for standard in (sys.stdout, sys.stderr):  # not the log of whoever started the server
        os.dup2(ends.printing, standard.fileno())
    os.close(ends.printing)
    writes = [Path(path) for path in request["writes"]]
    os.chdir(writes[0])
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # Python ignores it, and libraries tell of a bad file
    set_limits(Limits(**request["limits"]))
    if locks.landlock:
        restrict_files([Path(path) for path in request["reads"]], writes, locks.landlock)
    if locks.calls:
        filter_and_report(ends.there)
    ends.there.close()


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
