"""The processes of a benchmark: real workers and an orchestrator, as `anabranch up` runs them."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from anabranch.embedded.logfiles import open_log, read_tail
from anabranch.embedded.supervisor import LISTEN_FD
from anabranch.errors import Unavailable
from anabranch.settings import Settings
from anabranch.storage.locations import AREAS

__all__ = ["BenchProcesses", "run_processes", "write_plugin"]

TIMEOUT_SECONDS = 15.0
EXPRESSIONS = Path(__file__).parent / "expressions.yaml"
PLUGIN = """from anabranch.bench.workflows import declare_workflows

globals().update(declare_workflows({queue!r}, {steps}))
"""


def write_plugin(folder: Path, queue: str, steps: int) -> Path:
    """Write a plugin with this run's job types; only workers that load it serve its queue."""
    plugins = folder / "plugins"
    plugins.mkdir(exist_ok=True)
    (plugins / "bench.py").write_text(PLUGIN.format(queue=queue, steps=steps))
    (plugins / "bench.yaml").write_text(EXPRESSIONS.read_text().replace("QUEUE", queue))
    return plugins


class BenchProcesses:
    """Worker processes and an orchestrator on one database."""

    def __init__(self, folder: Path, settings: Settings, url: str) -> None:
        """Starts nothing yet."""
        self._logs = folder
        self._environment = {**os.environ, **_variables(settings, url)}
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def workers(self) -> list[int]:
        """The workers' pids."""
        return [process.pid for role, process in self._processes.items() if role.startswith("worker")]

    def start(self, workers: int, listener: socket.socket | None = None) -> None:
        """Start all processes, and with a listener an API that serves it; they are ready when they have sessions."""
        if listener:
            self._launch("api", {LISTEN_FD: str(listener.fileno()), "ANABRANCH_LOG_LEVEL": "info"}, listener.fileno())
        for role in ("orchestrator", *(f"worker-{number}" for number in range(1, workers + 1))):
            self._launch(role, {})

    def join(self, home: Path, workers: int) -> None:
        """Start an orchestrator and workers of another home, as on a second machine with the same tiers."""
        for role in ("orchestrator-there", *(f"worker-there-{number}" for number in range(1, workers + 1))):
            self._launch(role, {"ANABRANCH_HOME": str(home)})

    def _launch(self, role: str, more: Mapping[str, str], *descriptors: int) -> None:
        log = open_log(self._logs / f"{role}.log")
        try:
            self._processes[role] = subprocess.Popen(
                [sys.executable, "-P", "-m", "anabranch", role.partition("-")[0]],
                env={**self._environment, **more}, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True, pass_fds=descriptors,
            )  # fmt: skip
        finally:
            os.close(log)

    def check(self) -> None:
        """Raise Unavailable, with its last output, if a process has ended."""
        for role, process in self._processes.items():
            if process.poll() is not None:
                raise Unavailable("bench.died", f"{role} ended:\n{read_tail(self._logs / f'{role}.log', 0).strip()}")

    def peak_mb(self) -> float:
        """The peak memory of any worker so far, without its children."""
        return max(_peak_kb(pid) for pid in self.workers) / 1000

    def api_seconds(self) -> float:
        """The processor time that the API has used so far."""
        fields = Path(f"/proc/{self._processes['api'].pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self) -> None:
        """Stop all processes: cleanly, or by force after a timeout."""
        for process in self._processes.values():
            process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + TIMEOUT_SECONDS
        for process in self._processes.values():
            with suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, deadline - time.monotonic()))
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


@contextmanager
def run_processes(
    folder: Path, settings: Settings, url: str, workers: int, listener: socket.socket | None = None
) -> Iterator[BenchProcesses]:
    """Processes that are stopped at the end."""
    processes = BenchProcesses(folder, settings, url)
    try:
        processes.start(workers, listener)
        yield processes
    finally:
        processes.stop()


def _variables(settings: Settings, url: str) -> Mapping[str, str]:
    return {
        "ANABRANCH_HOME": str(settings.home),
        "ANABRANCH_DATABASE_URL": url,
        "ANABRANCH_PLUGINS": ",".join(settings.plugins),
        "ANABRANCH_CALLBACK_HOSTS": ",".join(settings.callback_hosts),
        "ANABRANCH_LOG_LEVEL": "warning",
        **{f"ANABRANCH_STORAGE__{area.upper()}": getattr(settings.storage, area) for area in AREAS},
    }


def _peak_kb(pid: int) -> int:
    found = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    return int(found[1]) if found else 0
