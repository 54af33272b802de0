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
from anabranch.engine.worker.parent_death import die_with_parent
from anabranch.sandbox.calls import can_filter_calls
from anabranch.sandbox.confine import Limits, drop_privileges, leave_network, set_limits
from anabranch.sandbox.landlock import find_landlock, restrict_files
from anabranch.sandbox.locks import Locks
from anabranch.sandbox.prints import Prints
from anabranch.sandbox.refusals import Refusals, filter_and_report
from anabranch.sandbox.wire import Said, Wire

__all__ = ["main"]

QUIET_SECONDS = 0.2


class Spare(NamedTuple):
    """A process that was forked for the next call, and has seen nothing of it yet: its number and the server's ends."""

    pid: int
    here: socket.socket
    printed: int


class Ends(NamedTuple):
    """The ends of such a process: where the call comes and refusals go, and where it prints."""

    there: socket.socket
    printing: int


def main() -> None:
    """Serve until whoever started it is gone."""
    name, handle, *newest = sys.argv[1:]
    locks = Locks(leave_network(), find_landlock(*map(int, newest)), can_filter_calls())
    drop_privileges()
    module = importlib.import_module(name)
    _warm_up(module)
    control = Wire(socket.socket(fileno=int(handle)))
    control.say(locks._asdict())
    while True:
        spare = _fork(module, locks, control)
        asked = control.take()
        if asked is None:
            return
        request, line = asked
        with line:
            if not _give(spare, request, line):  # it died while it waited
                spare = _fork(module, locks, control)
                if not _give(spare, request, line):
                    raise ConnectionError("every process that could make the call dies at its start")
        _serve(spare, control)


def _fork(module: ModuleType, locks: Locks, control: Wire) -> Spare:
    """Make the process of the next call, so that it has got ready when that comes."""
    printed, printing = os.pipe()
    here, there = socket.socketpair()
    server, pid = os.getpid(), os.fork()
    if pid == 0:
        control.close()
        here.close()
        os.close(printed)
        _stand_by(module, locks, Ends(there, printing), server)
    there.close()
    os.close(printing)
    return Spare(pid, here, printed)


def _give(spare: Spare, request: Said, line: socket.socket) -> bool:
    try:
        Wire(spare.here).hand(request, line)
    except ConnectionError:
        spare.here.close()
        os.close(spare.printed)
        os.waitpid(spare.pid, 0)
        return False
    return True


def _serve(spare: Spare, control: Wire) -> None:
    """Watch over one call, and tell how that ended."""
    control.say({"pid": spare.pid})
    refusals, prints = Refusals(spare.here), Prints(spare.printed)
    try:
        if not _watch(spare.pid, control, refusals, prints):
            os.kill(spare.pid, signal.SIGKILL)
        _, status, usage = os.wait4(spare.pid, 0)
        with suppress(ProcessLookupError):  # where the kernel let it make processes, they are of its group
            os.killpg(spare.pid, signal.SIGKILL)
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


def _stand_by(module: ModuleType, locks: Locks, ends: Ends, server: int) -> NoReturn:
    """Get ready, wait for a call, give up everything else, and make it; this process never returns to the server."""
    try:
        os.setsid()
        die_with_parent()
        for standard in (sys.stdout, sys.stderr):  # not the log of whoever started the server
            os.dup2(ends.printing, standard.fileno())
        os.close(ends.printing)
        _warm_up(module)
        asked = Wire(ends.there).take() if os.getppid() == server else None
        if asked is not None:
            _work(module, locks, asked[0], ends.there, Wire(asked[1]))
    finally:
        with suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(os.EX_OK)


def _warm_up(module: ModuleType) -> None:
    """Let it read tables of its own: those that a fork keeps in the server, and all others before the call comes."""
    with suppress(Exception):  # the call meets the same error, and tells it
        getattr(module, "warm_up", int)()


def _work(module: ModuleType, locks: Locks, request: Said, there: socket.socket, line: Wire) -> None:
    try:
        _confine(locks, request, there)
        line.say(_answer(_find(module, request["name"]), request["arguments"], line))
    except BaseException as error:  # noqa: BLE001  # whatever it was, it is told, and the process ends
        line.say({"error": describe_error(error)})


def _confine(locks: Locks, request: Said, there: socket.socket) -> None:
    writes = [Path(path) for path in request["writes"]]
    os.chdir(writes[0])
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # Python ignores it, and libraries tell of a bad file
    set_limits(Limits(**request["limits"]))
    if len(list(Path("/proc/self/task").iterdir())) > 1:
        raise RuntimeError("the locks hold only the thread that asks for them, and the warm-up left another")
    if locks.landlock:
        restrict_files([Path(path) for path in request["reads"]], writes, locks.landlock)
    if locks.calls:
        filter_and_report(there)
    there.close()


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
