"""Starts a supervisor in the background, and stops the one of a home."""

import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from anabranch.embedded.home import CHILD_MARK, STACK_MARK, Child, Home, Stack
from anabranch.embedded.logfiles import open_log, read_tail, trim_logs
from anabranch.embedded.orphans import clear_orphans
from anabranch.embedded.processes import Process, alive, end
from anabranch.errors import Conflict, Unavailable

__all__ = ["Stopped", "SupervisorEnded", "start_detached", "stop"]

QUIET_SECONDS = 1.0  # most stacks stop in this time, and nothing is said


@dataclass(frozen=True)
class Stopped:
    """The result of `stop`: the supervisor it stopped, if one ran, and the number of orphans it ended."""

    supervisor: int | None
    orphans: int


class SupervisorEnded(Unavailable):
    """A supervisor in the background ended before its stack was ready, with this exit code and last output."""

    def __init__(self, log: Path, exit_code: int, said: str) -> None:
        remedy = f"Fix what the lines above report; the full log is {log}."
        super().__init__("stack.failed", f"the stack did not start:\n{said}", remedy=remedy)
        self.exit_code = exit_code
        self.said = said


def start_detached(
    argv: Sequence[str], env: Mapping[str, str], home: Home, ready: Callable[[Stack], bool], timeout: float = 120
) -> Stack:
    """Run `argv`, a supervisor of this home, in the background until its stack is ready; on failure nothing is left."""
    with home.locked():
        trim_logs(home.logs)
    log = home.logs / "supervisor.log"
    before = log.stat().st_size if log.exists() else 0
    pid = _spawn(argv, env, log)
    try:
        if stack := _wait_ready(pid, home, ready, timeout):
            return stack
        ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        raise SupervisorEnded(log, ended.si_status if ended else 0, read_tail(log, before))
    except BaseException:
        with suppress(Conflict):
            _abandon(pid, home)
        raise


def stop(home: Home, timeout: float = 90, *, on_wait: Callable[[Sequence[str]], None] = lambda _: None) -> Stopped:
    """Stop the stack in the home, and end the processes that a killed supervisor left there.

    `on_wait` gets the roles of the processes that are waited for when that takes longer than a second, and again
    whenever fewer are left.
    """
    if home.stack_id is None:
        return Stopped(None, 0)
    pid, deadline = None, time.monotonic() + timeout
    while True:
        if stack := home.read_stack():
            pid = stack.supervisor.pid
            _end(stack, timeout, on_wait)
        try:
            return Stopped(pid, clear_orphans(home))
        except Conflict as error:
            # A starting supervisor has locked the home and not yet recorded itself.
            if error.code != "stack.running" or time.monotonic() > deadline:
                raise
            time.sleep(0.05)
        finally:
            home.release()


def _spawn(argv: Sequence[str], env: Mapping[str, str], log: Path) -> int:
    # A stack that is started from inside another one is not a part of it.
    own = {name: value for name, value in env.items() if name not in (STACK_MARK, CHILD_MARK)}
    output = open_log(log)
    try:
        streams = (
            (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
            (os.POSIX_SPAWN_DUP2, output, 1),
            (os.POSIX_SPAWN_DUP2, output, 2),
        )
        return os.posix_spawnp(argv[0], list(argv), own, file_actions=streams, setsid=True)
    finally:
        os.close(output)


def _wait_ready(pid: int, home: Home, ready: Callable[[Stack], bool], timeout: float) -> Stack | None:
    """Wait until the stack is ready; None if its supervisor has ended."""
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            return None
        stack = home.read_stack()
        if stack and stack.supervisor.pid == pid and stack.api_url and ready(stack):
            return stack
        time.sleep(0.05)
    raise Unavailable(
        "stack.not_ready", f"the stack was not ready in {timeout:.0f} s", remedy=f"See the logs in {home.logs}."
    )


def _abandon(pid: int, home: Home) -> None:
    # Not reaped yet, so the pid is still its own.
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + 60
    while not os.waitpid(pid, os.WNOHANG)[0]:
        if time.monotonic() > deadline:
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)
    # Another supervisor may have locked the home meanwhile: then this raises Conflict, and the processes are its own.
    clear_orphans(home)
    home.release()


def _end(stack: Stack, timeout: float, on_wait: Callable[[Sequence[str]], None]) -> None:
    notice, named = time.monotonic() + QUIET_SECONDS, [""]

    def find() -> list[Process]:
        if not alive(stack.supervisor):
            return []
        if time.monotonic() >= notice and (left := _roles(stack)) != named:
            named[:] = left
            on_wait(left)
        return [stack.supervisor]

    end(find, (signal.SIGTERM, timeout), (signal.SIGKILL, 5.0))


def _roles(stack: Stack) -> list[str]:
    """The roles of the stack's processes that still run; the database is the last to stop."""
    server = [Child("postgres", stack.cluster)] if stack.cluster else []
    return [child.role for child in (*stack.children, *server) if alive(child.process)]
