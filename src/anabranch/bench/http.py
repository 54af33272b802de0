"""Measures how many jobs the API accepts and returns per second, with few and with many jobs in the table."""

import json
import os
import secrets
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from anabranch.bench.cluster import make_temporary_folder, open_database
from anabranch.bench.processes import BenchProcesses, run_processes, write_plugin
from anabranch.bench.workflows import ONE_TASK
from anabranch.canonical import JsonObject
from anabranch.client import Client
from anabranch.embedded.listener import api_url, listen
from anabranch.errors import AnabranchError, Unavailable
from anabranch.settings import Settings, load_settings

__all__ = ["HttpFigures", "Load", "TableLoad", "await_ready", "run_http_bench"]

SCRIPT = Path(__file__).with_name("load.lua")
FEW_JOBS = 1_000
SAMPLED_IDS = 1_000
WARM_SECONDS = 2
TIMEOUT_SECONDS = 30.0


@dataclass(frozen=True)
class Load:
    """The API's figures under full load; `api_us` is its CPU time per request, in µs."""

    per_s: float
    p50_ms: float
    p99_ms: float
    errors: int
    api_us: float


@dataclass(frozen=True)
class TableLoad:
    """Load of submissions, each of a new job with its own key, and of reads, with `jobs` in the table before."""

    jobs: int
    submit: Load
    status: Load


@dataclass(frozen=True)
class HttpFigures:
    """The load with few and with many jobs in the table, and the ratio of the submission rates."""

    connections: int
    seconds: int
    fill_per_s: float
    few: TableLoad
    many: TableLoad
    ratio: float


def run_http_bench(url: str | None, *, workers: int, jobs: int, connections: int, seconds: int) -> HttpFigures:
    """The figures on the database at the URL, or on a private cluster."""
    if not shutil.which("wrk"):
        raise Unavailable("bench.no_wrk", "wrk is not installed", remedy="Run `sudo apt-get install wrk`.")
    with make_temporary_folder() as folder, open_database(url, folder) as database:
        queue = f"bench-{secrets.token_hex(4)}"
        settings = load_settings(home=folder / "home", plugins=(str(write_plugin(folder, queue, 1)),))
        with _serve(folder, settings, database, workers) as bench:
            return bench.measure(jobs, connections, seconds)


@contextmanager
def _serve(folder: Path, settings: Settings, url: str, workers: int) -> Iterator["_Bench"]:
    with (
        closing(listen("127.0.0.1", 0)) as listener,
        run_processes(folder, settings, url, workers, listener) as processes,
        Client(api_url(listener)) as client,
    ):
        await_ready(client, processes)
        yield _Bench(folder, client, processes, api_url(listener))


class _Bench:
    """An API under load by wrk."""

    def __init__(self, folder: Path, client: Client, processes: BenchProcesses, url: str) -> None:
        self._ids = folder / "ids"
        self._client = client
        self._processes = processes
        self._url = url
        self._jobs = 0

    def measure(self, jobs: int, connections: int, seconds: int) -> HttpFigures:
        """Measure with few jobs, then with this many."""
        self._fill(FEW_JOBS)
        self._load(connections, WARM_SECONDS, "submit", secrets.token_hex(6))
        few = self._measure_both(connections, seconds)
        fill = self._fill(jobs)
        many = self._measure_both(connections, seconds)
        ratio = round(many.submit.per_s / few.submit.per_s, 3)
        return HttpFigures(connections, seconds, fill, few, many, ratio)

    def _measure_both(self, connections: int, seconds: int) -> TableLoad:
        jobs = self._jobs
        submit = self._load(connections, seconds, "submit", secrets.token_hex(6))
        return TableLoad(jobs, submit, self._load(connections, seconds, "status", str(self._ids)))

    def _fill(self, jobs: int) -> float:
        """Submit jobs in bulk up to this number; returns the jobs per second."""
        missing, salt, began = max(0, jobs - self._jobs), secrets.token_hex(6), time.monotonic()
        ids = [answer.job_id for answer in self._client.submit_many(_body(salt, number) for number in range(missing))]
        if None in ids:
            raise AnabranchError("bench.wrong", "a job was refused")
        self._jobs += missing
        if ids:
            self._ids.write_text("".join(f"{job_id}\n" for job_id in ids[:: max(1, len(ids) // SAMPLED_IDS)]))
        return round(missing / (time.monotonic() - began), 1)

    def _load(self, connections: int, seconds: int, kind: str, what: str) -> Load:
        before = self._processes.api_seconds()
        command = [
            "wrk", "--threads", "1", "--connections", str(connections), "--duration", f"{seconds}s", "--timeout", "10s",
            "--script", str(SCRIPT), self._url, "--", kind, what,
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False, env={"PATH": os.environ["PATH"]})
        self._processes.check()
        if done.returncode:
            raise AnabranchError("bench.wrong", f"wrk failed: {done.stdout}{done.stderr}")
        result = json.loads(done.stdout.splitlines()[-1])
        if kind == "submit":
            self._jobs += result["requests"]
        return Load(
            per_s=round(result["requests"] / result["seconds"], 1),
            p50_ms=round(result["p50_ms"], 2),
            p99_ms=round(result["p99_ms"], 2),
            errors=result["errors"],
            api_us=round((self._processes.api_seconds() - before) / max(result["requests"], 1) * 1e6, 1),
        )


def _body(salt: str, number: int) -> JsonObject:
    return {"workflow": ONE_TASK, "parameters": {"salt": salt, "number": number}}


def await_ready(client: Client, processes: BenchProcesses) -> None:
    """Wait until the API answers; Unavailable if it takes too long."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not client.ready():
        processes.check()
        if time.monotonic() > deadline:
            raise Unavailable("bench.not_ready", f"the API was not ready in {TIMEOUT_SECONDS:g} s")
        time.sleep(0.05)
