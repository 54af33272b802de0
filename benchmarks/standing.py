"""`make bench`, second part: the engine with full tables, with a transaction that holds the horizon, and idle.

Prints a line for each condition; the whole result goes to a JSON file under `.cache`.
"""

import asyncio
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import psycopg

from anabranch.adapters.postgres.schema.migrate import migrate
from anabranch.bench.cluster import make_temporary_folder, run_temporary_cluster
from anabranch.bench.measure import Bench
from anabranch.bench.run import open_bench_with_workers
from anabranch.logs import configure_logs
from anabranch.workflows.definition import Workflow
from benchmarks.run import WORKERS, keep, say
from tests.support.engine import open_harness
from tests.support.nodes import make_node

TASKS = 10_000
FINISHED = 1_000_000
WAITING = 10_000
IDLE_SECONDS = 20
HELD_SECONDS = 30
TICKS = os.sysconf("SC_CLK_TCK")


async def main() -> None:
    """Run it all, on one database."""
    configure_logs("warning", "console")
    found: dict[str, Any] = {}

    async def note(name: str) -> None:
        found[name] = await _measure(bench, url)
        say(f"{name:32} {found[name]}")

    with make_temporary_folder() as folder, run_temporary_cluster(folder) as cluster:
        cluster.ensure_database("standing")
        url = cluster.url("standing")
        migrate(url)
        async with open_bench_with_workers(folder, folder / "home", url, WORKERS) as bench:
            await note("empty tables")
            with _hold_horizon(url):
                await note("horizon held")
                until = time.monotonic() + HELD_SECONDS
                while time.monotonic() < until:
                    await bench.fan_out(TASKS)
                await note(f"horizon held for {HELD_SECONDS} s of work")
            await note("horizon free again")
            while _ask(url, "select count(*) from app.outcomes") < FINISHED:
                await bench.fan_out(100_000)
            await note(f"{FINISHED:,} finished tasks")
            found["idle"] = await _idle()
            say(f"idle {found['idle']}")
            await _submit_waiting(url)
            await note(f"{WAITING:,} jobs wait")
            found["idle, jobs wait"] = await _idle()
            say(f"idle, {WAITING:,} jobs wait {found['idle, jobs wait']}")
    keep(found, "standing")


async def _measure(bench: Bench, url: str) -> dict[str, Any]:
    commits = _ask(url, COMMITS)
    runs = [asdict(await bench.fan_out(TASKS)) for _ in range(3)]
    commits = _ask(url, COMMITS) - commits
    middle = sorted(runs, key=lambda run: float(run["tasks_per_s"]))[1]
    kept = {key: middle[key] for key in ("tasks_per_s", "wal_bytes_per_task", "worker_peak_mb")}
    return {**kept, "commits_per_task": round(commits / (3 * TASKS), 4)}


COMMITS = "select xact_commit from pg_stat_database where datname = current_database()"


def _ask(url: str, query: str) -> int:
    with psycopg.connect(url) as connection:
        row = connection.execute(query.encode()).fetchone()
    return int(row[0]) if row else 0


@contextmanager
def _hold_horizon(url: str) -> Iterator[None]:
    """A transaction that was opened and forgotten: nothing that changes from now on can be cleaned up."""
    with psycopg.connect(url) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.execute("select count(*) from app.jobs")
        yield


async def _submit_waiting(url: str) -> None:
    """Jobs whose one task nobody serves."""
    async with open_harness(url) as harness:
        workflow = Workflow("waiting", (make_node("work", "nothing", queue="nobody"),))
        for number in range(WAITING):
            await harness.submit(workflow, number=number)


async def _idle() -> dict[str, float]:
    """The share of one core that workers, orchestrator and server use when there is nothing to do."""
    await asyncio.sleep(3)
    before = _seconds()
    await asyncio.sleep(IDLE_SECONDS)
    return {name: round((after - before[name]) / IDLE_SECONDS, 4) for name, after in _seconds().items()}


def _seconds() -> dict[str, float]:
    """The processor time of what this process started, by kind."""
    parents, times, names = {}, {}, {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            names[folder.name] = (folder / "cmdline").read_text().replace("\0", " ")
        except OSError:
            continue
        parents[folder.name], times[folder.name] = fields[1], (int(fields[11]) + int(fields[12])) / TICKS
    total = {"server": 0.0, "engine": 0.0}
    for pid, name in names.items():
        if pid != str(os.getpid()) and _descends(pid, parents):
            total["server" if "postgres" in name.split(" ", 1)[0] else "engine"] += times[pid]
    return total


def _descends(pid: str, parents: dict[str, str]) -> bool:
    while pid in parents:
        if pid == str(os.getpid()):
            return True
        pid = parents[pid]
    return False


if __name__ == "__main__":
    asyncio.run(main())
