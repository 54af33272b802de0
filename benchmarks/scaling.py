"""`make scaling`: what more workers bring, and what finished tasks cost.

First one, two and four worker processes on two homes that share a database and its tiers; then tables that grow by
finished tasks. Prints the tables of docs/explanation/scaling.md; the whole result goes to a JSON file under `.cache`.
"""

import argparse
import asyncio
import os
import statistics
import time
from collections.abc import Awaitable, Callable
from contextlib import closing
from dataclasses import asdict
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import psycopg

from anabranch.adapters.postgres.schema.migrate import migrate
from anabranch.bench.cluster import make_temporary_folder, run_temporary_cluster
from anabranch.bench.measure import Bench
from anabranch.bench.processor_time import processor_seconds
from anabranch.bench.run import open_bench_with_workers
from anabranch.embedded.cluster import Cluster
from anabranch.engine.sweeping.retention import Purge, RetentionPeriods
from anabranch.logs import configure_logs
from anabranch.workflows.definition import Workflow
from anabranch.workflows.nodes import Spread
from benchmarks.run import keep, say
from tests.support.engine import EngineHarness, open_harness
from tests.support.nodes import make_node

WORKERS = (1, 2, 4)
TASKS = 10_000
JOBS = 500
STEPS = 50
ROUNDS = 3
FILL_TASKS = 100_000
MAX_PURGED = 100_000
TRIES = 21
QUEUE = "nobody"  # that no worker serves
PARTS = ("worker", "postgres", "orchestrator", "submitter", "handlers")
CONNECTIONS = """
    select count(*) from pg_stat_activity where datname = current_database() and backend_type = 'client backend'
       and pid <> pg_backend_pid()
"""
OUTCOMES = "select count(*) from app.outcomes"
SIZES = """
    select c.relname, pg_total_relation_size(c.oid), pg_indexes_size(c.oid) from pg_class c
     where c.relnamespace = 'app'::regnamespace and c.relkind = 'r' order by 2 desc
"""
# The time before which jobs with about so many tasks ended.
AGE = """
    select extract(epoch from app.now() - min(finished_at))::float from (
        select j.finished_at, sum(l.width) over (order by j.finished_at) as tasks
          from app.jobs j join app.lanes l on l.job = j.id where j.state = 'completed') oldest
     where tasks > %(tasks)s
"""
LARGEST = "select j.id from app.jobs j join app.lanes l on l.job = j.id order by l.width desc, j.id desc limit 1"


def main() -> None:
    """Read the options, and run."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--finished", type=int, default=10_000_000, help="how far the tables grow")
    options.add_argument("--only", choices=("workers", "growth"), help="only this part")
    given = options.parse_args()
    configure_logs("error", "console")
    say(f"cores {os.cpu_count()}, load {os.getloadavg()[0]:.1f} at the start")
    found: dict[str, Any] = {"cores": os.cpu_count(), "load": os.getloadavg()}
    with make_temporary_folder() as folder, run_temporary_cluster(folder) as cluster:
        if given.only != "growth":
            found["workers"] = measure_workers(cluster, folder)
        if given.only != "workers":
            found["growth"] = asyncio.run(measure_growth(_fresh(cluster, "growth"), folder, given.finished))
    keep(found, "scaling")


def measure_workers(cluster: Cluster, folder: Path) -> list[dict[str, Any]]:
    """A row for each number of workers; each has a database of its own."""
    say("| workers | tasks/s | jobs/s | job, p50, p99 ms | hop, p50, p99 ms | connections | cores busy, of them |")
    say("|---|---|---|---|---|---|---|")
    rows = []
    for workers in WORKERS:
        row = asyncio.run(_measure_workers(_fresh(cluster, f"workers{workers}"), folder, workers))
        job, hop = (f"{row[name][0]:.1f}, {row[name][1]:.1f}" for name in ("job_ms", "hop_ms"))
        busy = ", ".join(f"{part} {row['cores_busy'].get(part, 0):.2f}" for part in PARTS)
        say(
            f"| {workers} | {row['tasks_per_s']:,.0f} | {row['jobs_per_s']:,.0f} | {job} | {hop} | {row['connections']}"
            f" | {sum(row['cores_busy'].values()):.2f}: {busy} |"
        )
        rows.append({"workers": workers, **row})
    return rows


async def _measure_workers(url: str, folder: Path, workers: int) -> dict[str, Any]:
    here = workers - workers // 2
    async with open_bench_with_workers(folder, folder / "home", url, here, STEPS, there=workers // 2) as bench:
        connections = _ask(url, CONNECTIONS)
        busy, began = processor_seconds(), time.monotonic()
        rates = [(await bench.fan_out(TASKS)).tasks_per_s for _ in range(ROUNDS)]
        wall, busy_after = time.monotonic() - began, processor_seconds()
        jobs = sorted([await bench.jobs(JOBS) for _ in range(ROUNDS)], key=lambda run: run.jobs_per_s)[ROUNDS // 2]
        chain = await bench.chain()
        connections = max(connections, _ask(url, CONNECTIONS))
    return {
        "tasks_per_s": statistics.median(rates),
        "jobs_per_s": jobs.jobs_per_s,
        "job_ms": (jobs.job_p50_ms, jobs.job_p99_ms),
        "hop_ms": (chain.hop_p50_ms, chain.hop_p99_ms),
        "connections": connections,
        "cores_busy": {part: round((now - busy.get(part, 0.0)) / wall, 3) for part, now in busy_after.items()},
        "jobs": asdict(jobs),
    }


async def measure_growth(url: str, folder: Path, finished: int) -> list[dict[str, Any]]:
    """A row for each power of ten up to this many finished tasks."""
    say("| finished tasks | tasks/s | tables | bytes a task | claim ms | jobs ms | tasks ms | purge, rows/s |")
    say("|---|---|---|---|---|---|---|---|")
    rows = []
    steps = [*(10**power for power in range(4, 9) if 10**power < finished), finished]
    async with open_bench_with_workers(folder, folder / "growing", url, 2) as bench, open_harness(url) as harness:
        await harness.submit(_unserved(TRIES * (len(steps) + 1)))
        for before, step in pairwise([0, *steps]):
            while (missing := step - _ask(url, OUTCOMES)) > 0:
                await bench.fan_out(min(missing, FILL_TASKS))
            row = {"finished": step, **await _measure_tables(bench, harness, url, step), "filled_since": step - before}
            say(
                f"| {step:,} | {row['tasks_per_s']:,.0f} | {row['bytes'] / 1e6:,.0f} MB | {row['bytes'] / step:,.0f}"
                f" | {row['claim_ms']:.2f} | {row['jobs_ms']:.2f} | {row['tasks_ms']:.2f}"
                f" | {row['purge_rows_per_s']:,.0f} |"
            )
            rows.append(row)
    return rows


async def _measure_tables(bench: Bench, harness: EngineHarness, url: str, finished: int) -> dict[str, Any]:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("analyze")
        sizes = {name: (total, indexes) for name, total, indexes in connection.execute(SIZES).fetchall() if total > 1e6}
        total = sum(size for _, size, _ in connection.execute(SIZES).fetchall())
    largest = _ask(url, LARGEST)
    return {
        "bytes": total,
        "tables": sizes,
        "tasks_per_s": statistics.median([(await bench.fan_out(TASKS)).tasks_per_s for _ in range(ROUNDS)]),
        "claim_ms": await _time(lambda: harness.claim(1, queues=[QUEUE])),
        "jobs_ms": await _time(lambda: harness.reads.jobs(limit=100)),
        "tasks_ms": await _time(lambda: harness.reads.tasks(largest, limit=100, after=None, node=None, status=None)),
        "purge_rows_per_s": await _time_purge(harness, url, min(MAX_PURGED, finished // 10)),
    }


async def _time(act: Callable[[], Awaitable[object]]) -> float:
    """The median of several calls, in ms; the first ones warm plans and pages."""
    taken = []
    for _ in range(TRIES):
        began = time.perf_counter()
        await act()
        taken.append(time.perf_counter() - began)
    return 1000 * statistics.median(taken)


async def _time_purge(harness: EngineHarness, url: str, tasks: int) -> float:
    """Rows of tasks removed a second, of the oldest jobs with about so many tasks: the others stay."""
    with psycopg.connect(url) as connection:
        ((age,),) = connection.execute(AGE.encode(), {"tasks": tasks}).fetchall()
    forever = timedelta(days=10_000)
    keep_periods = RetentionPeriods(timedelta(seconds=age), forever, forever)
    rows, began = 0, time.monotonic()
    async for done in Purge(harness.store.retention(), harness.results, keep_periods).batches():
        rows += done.rows
    return rows / (time.monotonic() - began)


def _unserved(tasks: int) -> Workflow:
    """A job whose tasks are there to be claimed by the benchmark itself."""
    return Workflow("unserved", (make_node("work", "nothing", queue=QUEUE, spread=Spread.FIXED, count=tasks),))


def _ask(url: str, query: str) -> int:
    with closing(psycopg.connect(url)) as connection:
        ((found,),) = connection.execute(query.encode()).fetchall()
    return int(found)


def _fresh(cluster: Cluster, name: str) -> str:
    cluster.ensure_database(name)
    migrate(cluster.url(name))
    return cluster.url(name)


if __name__ == "__main__":
    main()
