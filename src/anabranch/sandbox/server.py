"""The server of a sandbox: it drops network and privileges, imports one module, and forks a process for each call.

`python -P -m anabranch.sandbox.server MODULE FD [ABI]`: the parent process gives it a minimal environment.
"""

import gc
import importlib
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, NoReturn

from anabranch.die_with_parent import die_with_parent
from anabranch.engine.failure import describe_error
from anabranch.sandbox.captured_output import CapturedOutput
from anabranch.sandbox.channel import Channel, Message
from anabranch.sandbox.confine import Limits, drop_privileges, leave_network, set_limits
from anabranch.sandbox.landlock import find_landlock, restrict_files
from anabranch.sandbox.protections import Protections
from anabranch.sandbox.ranged import SOCKETS_PER_FILE
from anabranch.sandbox.refused_calls import RefusedCalls, filter_and_report
from anabranch.sandbox.seccomp import can_filter_calls

__all__ = ["main"]

PROGRESS_INTERVAL_SECONDS = 0.2


class SpareProcess(NamedTuple):
    """A process forked for the next call, which it has not received yet: its pid and the server's ends."""

    pid: int
    here: socket.socket
    printed: int


class ProcessEnds(NamedTuple):
    """The ends of such a process: the socket for the call and for refusals, and the pipe for its output."""

    there: socket.socket
    printing: int


def main() -> None:
    """Serve until the parent process is gone."""
    name, handle, *newest = sys.argv[1:]
    protections = Protections(leave_network(), find_landlock(*map(int, newest)), can_filter_calls())
    drop_privileges()
    gc.disable()
    sys.modules["boto3"] = None  # type: ignore[assignment]  # rasterio takes its time to import what needs a network
    module = importlib.import_module(name)
    _warm_up(module)
    gc.freeze()  # what calls share is no garbage, and is not copied by looking for some
    gc.enable()
    control = Channel(socket.socket(fileno=int(handle)))
    control.send(protections._asdict())
    while True:
        spare = _fork(module, protections, control)
        asked = control.receive_with_sockets()
        if asked is None:
            return
        with ExitStack() as ends:
            for end in asked[1]:
                ends.enter_context(end)
            if not _pass_call(spare, *asked):  # it died while it waited
                spare = _fork(module, protections, control)
                if not _pass_call(spare, *asked):
                    raise ConnectionError("every process for the call dies when it starts")
        _serve(spare, control)


def _fork(module: ModuleType, protections: Protections, control: Channel) -> SpareProcess:
    """Fork the process of the next call in advance, so that it is ready when the call arrives."""
    printed, printing = os.pipe()
    here, there = socket.socketpair()
    server, pid = os.getpid(), os.fork()
    if pid == 0:
        control.close()
        here.close()
        os.close(printed)
        _wait_for_call(module, protections, ProcessEnds(there, printing), server)
    there.close()
    os.close(printing)
    return SpareProcess(pid, here, printed)


def _pass_call(spare: SpareProcess, request: Message, sockets: Sequence[socket.socket]) -> bool:
    try:
        Channel(spare.here).send_with_sockets(request, sockets)
    except ConnectionError:
        spare.here.close()
        os.close(spare.printed)
        os.waitpid(spare.pid, 0)
        return False
    return True


def _serve(spare: SpareProcess, control: Channel) -> None:
    """Watch one call, and report how it ended."""
    control.send({"pid": spare.pid})
    refused, output = RefusedCalls(spare.here), CapturedOutput(spare.printed)
    try:
        if not _watch(spare.pid, control, refused, output):
            os.kill(spare.pid, signal.SIGKILL)
        _, status, usage = os.wait4(spare.pid, 0)
        with suppress(ProcessLookupError):  # processes that it started, if the kernel allowed it, are in its group
            os.killpg(spare.pid, signal.SIGKILL)
        control.send(
            {
                "status": os.waitstatus_to_exitcode(status),
                "peak_bytes": usage.ru_maxrss * 1024,
                "refused": list(refused.names),
                "printed": output.text(),
            }
        )
    finally:
        refused.close()
        output.close()


def _watch(child: int, control: Channel, refused: RefusedCalls, output: CapturedOutput) -> bool:
    """Wait for its end; False when the caller is gone: during a call the caller sends nothing."""
    handle = os.pidfd_open(child)
    try:
        while True:
            poll = select.poll()
            for each in (handle, control.fileno(), *refused.handles(), *output.handles()):
                poll.register(each, select.POLLIN)
            ready = dict(poll.poll())
            if handle in ready or control.fileno() in ready:
                return handle in ready
            refused.refuse_ready(ready)
            output.read_ready(ready)
    finally:
        os.close(handle)


def _wait_for_call(module: ModuleType, protections: Protections, ends: ProcessEnds, server: int) -> NoReturn:
    """Get ready, wait for a call, apply all restrictions, and run it; this process never returns to the server."""
    try:
        os.setsid()
        die_with_parent()
        for standard in (sys.stdout, sys.stderr):  # not the log of the parent process
            os.dup2(ends.printing, standard.fileno())
        os.close(ends.printing)
        _warm_up(module)
        asked = Channel(ends.there).receive_with_sockets() if os.getppid() == server else None
        if asked is not None:
            request, (line, *ranged) = asked
            for number, name in enumerate(request["ranged"]):
                ends_of_file = ranged[number * SOCKETS_PER_FILE :][:SOCKETS_PER_FILE]
                request["arguments"][name]["handles"] = [end.detach() for end in ends_of_file]
            _work(module, protections, request, ends.there, Channel(line))
    finally:
        with suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(os.EX_OK)


def _warm_up(module: ModuleType) -> None:
    """Let the module read its tables: in the server those that a fork keeps, in a fork all others in advance."""
    with suppress(Exception):  # the call fails with the same error, and reports it
        getattr(module, "warm_up", int)()


def _work(module: ModuleType, protections: Protections, request: Message, there: socket.socket, line: Channel) -> None:
    try:
        _confine(protections, request, there)
        line.send(_answer(_find(module, request["name"]), request["arguments"], line, sends=request["sends"]))
    except BaseException as error:  # noqa: BLE001  # any error is reported, and the process ends
        line.send({"error": describe_error(error).to_json()})


def _confine(protections: Protections, request: Message, there: socket.socket) -> None:
    writes = [Path(path) for path in request["writes"]]
    os.chdir(writes[0])
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # Python ignores it, and then libraries report a bad file
    set_limits(Limits(**request["limits"]))
    if len(list(Path("/proc/self/task").iterdir())) > 1:
        raise RuntimeError("the restrictions apply only to the calling thread, and the warm-up left another")
    if protections.landlock:
        restrict_files([Path(path) for path in request["reads"]], writes, protections.landlock)
    if protections.calls:
        filter_and_report(there)
    there.close()


def _find(module: ModuleType, name: str) -> Callable[..., Any]:
    if name not in module.__all__:
        raise LookupError(f"{module.__name__} has no public function {name!r}")
    found: Callable[..., Any] = getattr(module, name)
    return found


def _answer(function: Callable[..., Any], arguments: dict[str, Any], line: Channel, *, sends: bool) -> Message:
    sending = {"send": lambda value: line.send({"sent": value})} if sends else {}
    try:
        return {"result": function(**arguments, **sending, progress=_progress(line))}
    except Exception as error:  # noqa: BLE001  # reported to the caller
        return {"error": describe_error(error).to_json()}


def _progress(line: Channel) -> Callable[..., None]:
    last = 0.0

    def progress(done: float, total: float | None = None, message: str = "") -> None:
        nonlocal last
        if time.monotonic() >= last + PROGRESS_INTERVAL_SECONDS:
            last = time.monotonic()
            line.send({"progress": [done, total, message]})

    return progress


if __name__ == "__main__":
    with suppress(ConnectionError):  # the caller is gone
        main()
