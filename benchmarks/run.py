"""`make bench`: the engine, a bare loop and two peers, side by side on one durable server, by turns.

Prints the median of each, and the engine's ratio to the others; the whole result goes to a JSON file under `.cache`.
"""

import asyncio
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg

from anabranch.adapters.postgres.schema.migrate import migrate
from anabranch.bench.bare import run_bare_loop
from anabranch.bench.cluster import make_temporary_folder, run_temporary_cluster
from anabranch.bench.run import open_bench_with_workers
from anabranch.embedded.cluster import Cluster
from anabranch.logs import configure_logs

ROOT = Path(__file__).parents[1]
PEERS = ROOT / ".cache" / "bench-venv"
RESULTS = ROOT / ".cache" / "bench"
ROUNDS = 3
WORKERS = 2
STEPS = 50
JOBS = 500
SIZES = (1_000, 10_000, 100_000)
# A peer that takes minutes is measured on less.
FITS: dict[str, Callable[[int, int], bool]] = {
    "pgqueuer": lambda tasks, number: tasks <= 10_000 or number == 0,
    "procrastinate": lambda tasks, _: tasks <= 1_000,
}
NAMES = ("pgqueuer", "procrastinate")
VERSIONS = f"from importlib.metadata import version as v; print(', '.join(f'{{n}} {{v(n)}}' for n in {NAMES}))"

Rates = dict[str, dict[int, list[float]]]
Measure = Callable[[int], float]


def main() -> None:
    """Run it all."""
    configure_logs("warning", "console")
    with make_temporary_folder() as folder, run_temporary_cluster(folder) as cluster:
        facts = _facts(cluster)
        for name, value in facts.items():
            say(f"{name:12} {value}")
        began = time.monotonic()
        rates: Rates = {}
        for number in range(ROUNDS):
            _run_round(cluster, folder, number, rates)
        more = asyncio.run(_run_others(cluster, folder))
    took = round(time.monotonic() - began, 1)
    _show(rates, more)
    keep({"facts": facts, "took_s": took, "load_after": os.getloadavg(), "tasks_per_s": rates, **more}, "peers")


def _run_round(cluster: Cluster, folder: Path, number: int, rates: Rates) -> None:
    systems = [*SYSTEMS.items()]
    for name, lend in systems if number % 2 == 0 else reversed(systems):
        with lend(_fresh(cluster, f"{name}_{number}".replace(" ", "_")), folder) as measure:
            for tasks in SIZES:
                if name not in FITS or FITS[name](tasks, number):
                    rate = tasks / measure(tasks)
                    rates.setdefault(name, {}).setdefault(tasks, []).append(round(rate, 1))
                    say(f"round {number + 1}  {name:16} {tasks:>7} tasks  {rate:>9,.0f} tasks/s")


async def _run_others(cluster: Cluster, folder: Path) -> dict[str, Any]:
    url = _fresh(cluster, "others")
    migrate(url)
    async with open_bench_with_workers(folder, folder / "home", url, WORKERS, STEPS) as bench:
        chains = [asdict(await bench.chain()) for _ in range(ROUNDS)]
        jobs = [asdict(await bench.jobs(JOBS)) for _ in range(ROUNDS)]
        large = asdict(await bench.fan_out(SIZES[-1]))
    return {"chain": chains, "jobs": jobs, "fan_out": large}


@contextmanager
def _run_engine(url: str, folder: Path) -> Iterator[Measure]:
    migrate(url)
    with asyncio.Runner() as runner:
        bench = open_bench_with_workers(folder, folder / "home", url, WORKERS)
        manned = runner.run(bench.__aenter__())
        try:
            yield lambda tasks: float(runner.run(manned.fan_out(tasks)).wall_s)
        finally:
            runner.run(bench.__aexit__(None, None, None))


def _run_bare(manner: str) -> Callable[[str, Path], Any]:
    @contextmanager
    def lend(url: str, _folder: Path) -> Iterator[Measure]:
        with run_bare_loop(url, WORKERS, manner) as loop:
            yield lambda tasks: loop.measure(tasks).wall_s

    return lend


def _run_peer(script: str) -> Callable[[str, Path], Any]:
    @contextmanager
    def lend(url: str, _folder: Path) -> Iterator[Measure]:
        command = [str(PEERS / "bin" / "python"), str(ROOT / "benchmarks" / "peers" / script), url, str(WORKERS)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as peer:
            try:
                _ask(peer, "", "ready")
                yield lambda tasks: float(_ask(peer, f"{tasks}\n"))
            finally:
                if peer.stdin:
                    peer.stdin.close()

    return lend


SYSTEMS = {
    "anabranch": _run_engine,
    "bare loop": _run_bare("apart"),
    "bare, one commit": _run_bare("turns"),
    "pgqueuer": _run_peer("pgqueuer_peer.py"),
    "procrastinate": _run_peer("procrastinate_peer.py"),
}


def _ask(peer: subprocess.Popen[str], what: str, expected: str = "") -> str:
    if peer.stdin is None or peer.stdout is None:
        raise RuntimeError("a peer has no pipes")
    peer.stdin.write(what)
    peer.stdin.flush()
    answer = peer.stdout.readline().strip()
    if not answer or (expected and answer != expected):
        raise RuntimeError(f"a peer said {answer!r}; its errors stand above")
    return answer


def _fresh(cluster: Cluster, name: str) -> str:
    cluster.ensure_database(name := name.replace(",", ""))
    return cluster.url(name)


def _facts(cluster: Cluster) -> dict[str, str]:
    with psycopg.connect(cluster.url("postgres")) as connection:
        server = connection.info.parameter_status("server_version")
    cpu = next(line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name"))
    peers = subprocess.run([PEERS / "bin" / "python", "-c", VERSIONS], capture_output=True, text=True, check=True)
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": f"{os.cpu_count()} x {cpu.partition(':')[2].strip()}, Linux {platform.release()}",
        "load": " ".join(f"{load:.1f}" for load in os.getloadavg()),
        "python": platform.python_version(),
        "postgresql": f"{server}, fsync and synchronous_commit on, settings of `anabranch up`",
        "peers": peers.stdout.strip(),
        "workers": f"{WORKERS} processes each; the engine has its orchestrator besides",
    }


def _show(rates: Rates, more: dict[str, Any]) -> None:
    medians = {name: {tasks: statistics.median(found) for tasks, found in of.items()} for name, of in rates.items()}
    say(f"\n{'tasks/s, medians':18}" + "".join(f"{tasks:>12,}" for tasks in SIZES))
    for name, of in medians.items():
        say(f"{name:18}" + "".join(f"{of[tasks]:>12,.0f}" if tasks in of else f"{'-':>12}" for tasks in SIZES))
    for name, of in medians.items():
        if name != "anabranch":
            ratios = (f"{medians['anabranch'][t] / of[t]:>12.2f}" if t in of else f"{'-':>12}" for t in SIZES)
            say(f"{'to ' + name:18}" + "".join(ratios))
    for kind in ("quick", "async", "plain"):
        hops = [chain["kinds"][kind] for chain in more["chain"]]
        p50, p99 = (statistics.median(hop[key] for hop in hops) for key in ("hop_p50_ms", "hop_p99_ms"))
        say(f"hop, {kind:13} p50 {p50:6.1f} ms   p99 {p99:6.1f} ms")
    say(f"jobs/s             {statistics.median(jobs['jobs_per_s'] for jobs in more['jobs']):,.0f}")
    say(f"WAL per task       {more['fan_out']['wal_bytes_per_task']:,.0f} bytes")
    say(f"worker's peak      {more['fan_out']['worker_peak_mb']:,.0f} MB at {SIZES[-1]:,} tasks")


def keep(result: dict[str, Any], name: str) -> None:
    """Write a result to a file of its own."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    file = RESULTS / f"{name}-{datetime.now(UTC):%Y%m%d-%H%M%S}.json"
    file.write_text(json.dumps(result, indent=1) + "\n")
    say(f"result             {file.relative_to(ROOT)}")


def say(text: str) -> None:
    """Say a line at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
