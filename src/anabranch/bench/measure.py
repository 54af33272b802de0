"""The measured runs: a fan-out with its fan-in, a chain, and many small jobs, through the whole engine."""

import asyncio
import secrets
import socket
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from anabranch.bench.handlers import KINDS
from anabranch.bench.pictures import make_pictures
from anabranch.bench.processes import BenchProcesses
from anabranch.bench.processor_time import processor_seconds
from anabranch.bench.statistics import StatisticsReader
from anabranch.bench.workflows import CHAIN, EXPRESSIONS, FAN_OUT, ONE_TASK
from anabranch.canonical import Json, JsonObject
from anabranch.engine.submitting.submission import Order
from anabranch.errors import AnabranchError, Unavailable
from anabranch.gateway import Gateway
from anabranch.settings import Settings

__all__ = ["Bench", "ChainFigures", "FanOutFigures", "Hops", "JobFigures", "make_token", "open_bench"]

TIMEOUT_SECONDS = 60.0
WARM_TASKS = 500
WARM_RASTERS = 4
RASTER = "process_raster"
CONCURRENT_SUBMITS = 16


@dataclass(frozen=True)
class FanOutFigures:
    """The figures of a fan-out of no-op tasks and its fan-in."""

    tasks: int
    wall_s: float
    tasks_per_s: float
    advances: int
    start_p50_ms: float
    start_p99_ms: float
    wal_bytes_per_task: float
    worker_peak_mb: float


@dataclass(frozen=True)
class Hops:
    """The delays between the steps of one chain."""

    hop_p50_ms: float
    hop_p99_ms: float
    hop_max_ms: float


@dataclass(frozen=True)
class ChainFigures:
    """The hops of plain handlers, the default kind, and of each kind."""

    steps: int
    hop_p50_ms: float
    hop_p99_ms: float
    kinds: dict[str, Hops]


@dataclass(frozen=True)
class JobFigures:
    """The figures of many jobs, all submitted at once."""

    jobs: int
    wall_s: float
    jobs_per_s: float
    submit_s: float
    job_p50_ms: float
    job_p99_ms: float
    wal_bytes_per_job: float
    cpu_ms_per_job: dict[str, float]


class Bench:
    """A submitter like the API's, with warm workers."""

    def __init__(
        self, gateway: Gateway, statistics: StatisticsReader, processes: BenchProcesses, queue: str, url: str
    ) -> None:
        """Made by `open_bench`."""
        self.url = url
        self.storage = gateway.storage
        self._gateway = gateway
        self._statistics = statistics
        self._processes = processes
        self._queue = queue

    async def run(self, workflow: str, parameters: JsonObject, platform: str | None = None) -> float:
        """Run a job; returns its duration in seconds, from its submission to its end.

        It reads the folder of bronze that has the name of its platform.
        """
        return (await self._run(workflow, parameters, platform))[1]

    async def read_sandbox_peak(self) -> int:
        """The memory that a call in a sandbox used at most, in MB; 0 where none was made."""
        (peak,) = await self._statistics.row("sandbox_peak")
        return int(peak or 0)

    async def warm(self) -> None:
        """Wait until every worker has a session, then give them work until each has done some."""
        pids = self._processes.workers
        known = {"host": socket.gethostname(), "pids": pids}
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while (await self._statistics.row("ready", **known))[0] < len(pids):
            self._check(deadline)
            await asyncio.sleep(0.05)
        await self._gateway.ready()
        while True:
            await self._run(FAN_OUT, {"tasks": WARM_TASKS * len(pids)})
            if (await self._statistics.row("served", queue=self._queue, **known))[0] == len(pids):
                return
            self._check(deadline)

    async def fan_out(self, tasks: int, *, expressions: bool = False) -> FanOutFigures:
        """Measure a fan-out of this many tasks and its fan-in; with expressions, as in a YAML workflow."""
        (wal,) = await self._statistics.row("wal")
        begun, wall, job_id = await self._run(EXPRESSIONS if expressions else FAN_OUT, {"tasks": tasks})
        (wal_after,) = await self._statistics.row("wal")
        done, p50, p99, advances = await self._statistics.row("fan_out", job_id=job_id, since=begun) or (0, 0.0, 0.0, 1)
        if done != tasks:
            raise AnabranchError("bench.wrong", f"{done} of {tasks} tasks have a result")
        return FanOutFigures(
            tasks=tasks,
            wall_s=round(wall, 4),
            tasks_per_s=round(tasks / wall, 1),
            advances=advances,
            start_p50_ms=_ms(p50),
            start_p99_ms=_ms(p99),
            wal_bytes_per_task=round((wal_after - wal) / max(tasks, 1), 1),
            worker_peak_mb=round(self._processes.peak_mb(), 1),
        )

    async def chain(self) -> ChainFigures:
        """Measure a chain of each kind of handler."""
        kinds, steps = {}, 0
        for kind in KINDS:
            await self._run(f"{CHAIN}_{kind}", {})
            _, _, job_id = await self._run(f"{CHAIN}_{kind}", {})
            hops, *found = await self._statistics.row("chain", job_id=job_id)
            kinds[kind], steps = Hops(*(_ms(seconds or 0.0) for seconds in found)), hops + 1
        return ChainFigures(steps, kinds["plain"].hop_p50_ms, kinds["plain"].hop_p99_ms, kinds)

    async def jobs(self, jobs: int) -> JobFigures:
        """Measure this many jobs of one task each."""
        return await self._run_all(ONE_TASK, [{"number": number} for number in range(jobs)])

    async def rasters(self, count: int, size: int) -> JobFigures:
        """Measure the publication of this many rasters of three bands, each another, from the file to the catalog."""
        bronze = self.storage.tier("bronze")
        token = make_token()
        for number, picture in enumerate(make_pictures(count + WARM_RASTERS, size)):
            await asyncio.to_thread(bronze.put, f"{token}/{number}.tif", picture, if_absent=True)
        sources: list[JsonObject] = [
            {"source": f"bronze://{token}/{number}.tif", "collection": token} for number in range(count + WARM_RASTERS)
        ]
        await self._run_all(RASTER, sources[count:], token)
        return await self._run_all(RASTER, sources[:count], token)

    async def _run_all(
        self, workflow: str, each: Sequence[Mapping[str, Json]], platform: str | None = None
    ) -> JobFigures:
        scope, jobs = platform or make_token(), len(each)
        (after,) = await self._statistics.row("newest_job")
        (wal,) = await self._statistics.row("wal")
        begun, busy = time.monotonic(), processor_seconds()
        left = iter(each)
        await asyncio.gather(*(self._submit_each(workflow, left, scope) for _ in range(min(CONCURRENT_SUBMITS, jobs))))
        while (found := await self._statistics.row("open_jobs", after=after, scope=scope))[0]:
            await self._pause(begun)
        wall, busy_after = time.monotonic() - begun, processor_seconds()
        (wal_after,) = await self._statistics.row("wal")
        if found[1]:
            raise AnabranchError("bench.wrong", f"{found[1]} of {jobs} jobs did not complete: {found[2]}")
        _, p50, p99, created = await self._statistics.row("jobs", after=after, scope=scope)
        return JobFigures(
            jobs=jobs,
            wall_s=round(wall, 4),
            jobs_per_s=round(jobs / wall, 1),
            submit_s=round(created, 4),
            job_p50_ms=_ms(p50),
            job_p99_ms=_ms(p99),
            wal_bytes_per_job=round((wal_after - wal) / jobs, 1),
            cpu_ms_per_job={
                part: round(1000 * (seconds - busy.get(part, 0.0)) / jobs, 1) for part, seconds in busy_after.items()
            },
        )

    async def _submit_each(self, workflow: str, left: Iterator[Mapping[str, Json]], scope: str) -> None:
        for parameters in left:
            await self._gateway.submit(Order(workflow, parameters, scope=scope, by="bench", correlation_id=scope))

    async def _run(
        self, workflow: str, parameters: JsonObject, platform: str | None = None
    ) -> tuple[float, float, str]:
        """Submit a job and wait for its end; returns its start time, its duration and its id."""
        token = platform or make_token()
        begun = time.monotonic()
        submitted = await self._gateway.submit(
            Order(workflow, parameters, scope=token, by="bench", correlation_id=token)
        )
        while True:
            state, error = await self._statistics.row("job_state", job_id=submitted.job_id)
            wall = time.monotonic() - begun
            if state == "completed":
                return begun, wall, submitted.job_id
            if state in ("failed", "cancelled"):
                raise AnabranchError("bench.failed", f"{workflow} {state}: {error}")
            await self._pause(begun)

    async def _pause(self, begun: float) -> None:
        """Sleep for a hundredth of the time so far: polling costs little, and the end is seen at most 1 % late."""
        self._processes.check()
        await asyncio.sleep(max(0.001, (time.monotonic() - begun) / 100))

    def _check(self, deadline: float) -> None:
        self._processes.check()
        if time.monotonic() > deadline:
            raise Unavailable("bench.not_warm", f"the workers were not ready in {TIMEOUT_SECONDS:g} s")


@asynccontextmanager
async def open_bench(settings: Settings, url: str, processes: BenchProcesses, queue: str) -> AsyncIterator[Bench]:
    """A bench whose workers are warm."""
    gateway, statistics = Gateway(settings, url), await StatisticsReader.open(url)
    await gateway.open()
    try:
        bench = Bench(gateway, statistics, processes, queue, url)
        await bench.warm()
        yield bench
    finally:
        await gateway.close()
        await statistics.close()


def make_token() -> str:
    """A name that no other run has."""
    return f"bench-{secrets.token_hex(6)}"


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 3)
