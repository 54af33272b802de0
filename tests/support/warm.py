"""Commands of `anabranch` in processes forked from one that has imported them: an import takes a second, a fork none.

Not for what a test holds about the start of a process: its imports, its arguments, its environment as others see it.
"""

import atexit
import functools
import gc
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import weakref
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import IO

__all__ = ["WarmProcess", "run_warm", "run_warm_script", "start_warm"]

MAX_REQUEST_BYTES = 1 << 17
NUMBER = struct.Struct("q")


class WarmProcess:
    """A forked process; what `subprocess.Popen` would be for one that was started."""

    def __init__(self, result: int) -> None:
        self._result = result
        weakref.finalize(self, os.close, result)
        self._lock = threading.Lock()
        self.pid = self._read()
        self.returncode: int | None = None

    def __enter__(self) -> "WarmProcess":
        return self

    def __exit__(self, *_: object) -> None:
        self.wait()

    def poll(self) -> int | None:
        """How it ended; None while it runs."""
        return self._wait(0)

    def wait(self) -> int:
        """How it ended, once it has."""
        from tests.support.waiting import PATIENCE_SECONDS  # the server, which runs this file, can't import it

        if (code := self._wait(PATIENCE_SECONDS)) is None:
            self.kill()
            raise subprocess.TimeoutExpired(f"process {self.pid}", PATIENCE_SECONDS)
        return code

    def _wait(self, seconds: float) -> int | None:
        """How it ended, if it does so in time; threads may wait at once, and one of them reads it."""
        if select.select([self._result], [], [], seconds)[0]:
            with self._lock:
                self.returncode = self._read() if self.returncode is None else self.returncode
        return self.returncode

    def kill(self) -> None:
        """Kill it, unless it has ended."""
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        """Ask it to end, unless it has ended."""
        self.send_signal(signal.SIGTERM)

    def send_signal(self, signum: int) -> None:
        """Signal it, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, signum)

    def _read(self) -> int:
        answer = os.read(self._result, NUMBER.size)
        if not answer:
            raise ChildProcessError("the process that forks the others has ended")
        return int(NUMBER.unpack(answer)[0])


def start_warm(
    arguments: Sequence[str], env: Mapping[str, str], *, stdout: IO[bytes], stderr: IO[bytes]
) -> WarmProcess:
    """Start a command in this environment, its output in these files."""
    with Path(os.devnull).open("rb") as stdin:
        streams = [stdin.fileno(), stdout.fileno(), stderr.fileno()]
        return WarmProcess(ask(_server(), arguments, env, streams))


def ask(server: socket.socket, arguments: Sequence[str], env: Mapping[str, str], streams: Sequence[int]) -> int:
    """Ask for a process with these standard streams; the descriptor to read from: its pid, then how it ended."""
    result, answers = os.pipe()
    try:
        request = json.dumps([list(arguments), dict(env), str(Path.cwd())]).encode()
        socket.send_fds(server, [request], [*streams, answers])
    finally:
        os.close(answers)
    return result


def run_warm(*arguments: str, env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, as `subprocess.run` would with its output captured."""
    with tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
        code = start_warm(arguments, env, stdout=stdout, stderr=stderr).wait()
        stdout.seek(0)
        stderr.seek(0)
        return subprocess.CompletedProcess(arguments, code, stdout.read().decode(), stderr.read().decode())


def run_warm_script(
    *script: str, folder: Path, env: Mapping[str, str], timeout: float
) -> subprocess.CompletedProcess[str]:
    """Run a script of bash in which `anabranch` is a command of this process's server, and no program of its own."""
    server = _server().fileno()
    function = f'anabranch() {{ {sys.executable} -I -S {__file__} {server} "$@"; }}; export -f anabranch'
    return subprocess.run(
        ["/bin/bash", "-e", "-c", "\n".join((function, *script))],
        check=False, cwd=folder, env=dict(env), capture_output=True, text=True, timeout=timeout, pass_fds=[server],
    )  # fmt: skip


@functools.cache
def _server() -> socket.socket:
    """The way to this process's server, which ends when this end is closed."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-P", __file__, str(theirs.fileno())],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, pass_fds=[theirs.fileno()], start_new_session=True,
        )  # fmt: skip

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)
    return ours


class _Forks:
    """The server: forks for each request, and says how each fork ended."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._answers: dict[int, tuple[int, int]] = {}  # of the descriptor of a process: its pid, and where to say it

    def serve(self) -> None:
        while True:
            control = self._control.fileno()
            for ready in select.select([control, *self._answers], [], [])[0]:
                if ready != control:
                    self._tell(ready)
                elif not self._fork():
                    return

    def _fork(self) -> bool:
        request, descriptors, *_ = socket.recv_fds(self._control, MAX_REQUEST_BYTES, 4)
        if not request:
            return False
        server, pid = os.getpid(), os.fork()
        if pid == 0:
            self._control.detach()
            arguments, env, folder = json.loads(request)
            become(arguments, env, folder, streams=descriptors[:3], server=server)
        *streams, answers = descriptors
        for stream in streams:
            os.close(stream)
        os.write(answers, NUMBER.pack(pid))
        self._answers[os.pidfd_open(pid)] = pid, answers
        return True

    def _tell(self, process: int) -> None:
        pid, answers = self._answers.pop(process)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        os.close(process)
        os.write(answers, NUMBER.pack(code))
        os.close(answers)


def become(arguments: list[str], env: dict[str, str], folder: str, *, streams: list[int], server: int) -> None:
    """Be the process of a command, and end as it does."""
    from anabranch.cli.main import main
    from anabranch.die_with_parent import die_with_parent

    die_with_parent()
    if os.getppid() != server:
        os.kill(os.getpid(), signal.SIGKILL)
    os.setsid()
    sys.modules["__main__"] = ModuleType("__main__")  # which processes that it starts would import
    for standard, stream in enumerate(streams):
        os.dup2(stream, standard)
    # Those that there are would seek in a pipe, since the server's are not pipes.
    sys.stdin, sys.stdout = os.fdopen(0, closefd=False), os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", 1, errors="backslashreplace", closefd=False)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(env)
    sys.path[:0] = [entry for entry in env.get("PYTHONPATH", "").split(os.pathsep) if entry]
    sys.argv[1:] = arguments
    code = 1
    atexit.register(lambda: os._exit(code))  # after the command's own; to free what the server imported takes long
    try:
        main()
    except SystemExit as ended:
        code = int(ended.code or 0)
        raise


def call(server: socket.socket, arguments: list[str]) -> None:
    """Be a command of a script: wait for the process that is it, and end as that does."""
    with os.fdopen(ask(server, arguments, os.environ, [0, 1, 2]), "rb") as answers:
        answers.read(NUMBER.size)  # its pid
        (code,) = NUMBER.unpack(answers.read(NUMBER.size))
    sys.exit(code if code >= 0 else 128 - code)


if __name__ == "__main__" and len(sys.argv) > 2:
    call(socket.socket(fileno=int(sys.argv[1])), sys.argv[2:])
elif __name__ == "__main__":
    import anabranch.api.main  # noqa: F401  # the API imports it by its name
    from anabranch.cli.commands import COMMANDS
    from anabranch.engine.registry import load_plugins

    load_plugins()  # most commands do, and the modules are here then
    for words, entry in COMMANDS.items():
        if not isinstance(entry, str) and not words.startswith(("bench", "demo")):  # which bring GDAL
            import_module(f"anabranch.cli.{entry[0].partition(':')[0]}")
    assert threading.active_count() == 1, "a fork has one thread"
    gc.freeze()  # what the forks share is not copied by their collections of garbage
    _Forks(socket.socket(fileno=int(sys.argv[1]))).serve()
