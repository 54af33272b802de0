"""Runs a benchmark, returns its figures and removes everything it created."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

from anabranch.bench.cluster import make_temporary_folder, open_database
from anabranch.bench.measure import Bench, open_bench
from anabranch.bench.processes import run_processes, write_plugin
from anabranch.settings import load_settings

__all__ = ["open_bench_with_workers", "run_bench"]

Figures = TypeVar("Figures")


def run_bench(
    measure: Callable[[Bench], Awaitable[Figures]],
    *,
    url: str | None,
    workers: int,
    steps: int = 1,
    with_catalog: bool = False,
) -> Figures:
    """The figures of a measurement on the database at the URL, or on a private cluster."""
    with make_temporary_folder() as folder, open_database(url, folder, with_catalog=with_catalog) as database:
        home = None if url else folder / "home"
        return asyncio.run(_measure(measure, folder, home, database, workers, steps))


@asynccontextmanager
async def open_bench_with_workers(
    folder: Path, home: Path | None, url: str, workers: int, steps: int = 1, *, there: int | None = None
) -> AsyncIterator[Bench]:
    """A bench with warm workers that serve its own queue, besides the queues that any worker of the home serves.

    With `there`, a second home joins with an orchestrator and so many workers of its own.
    """
    queue = f"bench-{secrets.token_hex(4)}"
    plugins = write_plugin(folder, queue, steps)
    # The caller's plugins stay: these workers share the default queue, and must know every handler on it.
    chosen = load_settings(**({"home": home, "plugins": ()} if home else {}))
    settings = chosen.model_copy(update={"plugins": (*chosen.plugins, str(plugins))})
    with run_processes(folder, settings, url, workers) as processes:
        if there is not None:
            processes.join(folder / "there", there)
        async with open_bench(settings, url, processes, queue) as bench:
            yield bench


async def _measure(
    measure: Callable[[Bench], Awaitable[Figures]],
    folder: Path,
    home: Path | None,
    url: str,
    workers: int,
    steps: int,
) -> Figures:
    async with open_bench_with_workers(folder, home, url, workers, steps) as bench:
        return await measure(bench)
