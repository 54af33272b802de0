"""Workers that race for the probe of a breaker."""

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta

import pytest

from anabranch.adapters.postgres.connect import connect
from anabranch.adapters.postgres.store.invariants import audit
from anabranch.engine.model import LimitKind, SessionKind
from anabranch.workflows.work import Breaker
from tests.support.engine import fan_out, open_harness
from tests.support.meter import Meter

pytestmark = pytest.mark.postgres

WORKERS, ROUNDS, JOBS = 5, 12, 4
OVER = """
    update app.breakers set is_open = true, opened_at = app.now(), closed_at = null, probe_at = null,
                            open_until = app.now() - interval '1 s'"""


async def declare(database_url: str, width: int) -> None:
    """Jobs whose handler has a breaker, which opens with the second failure."""
    breaker = Breaker(failures=2, window_seconds=3600, open_seconds=3600)
    async with open_harness(database_url) as harness:
        await harness.store.open_session(
            SessionKind.WORKER, ["default"], 1, timedelta(hours=1), {"do": "1"}, {(LimitKind.HANDLER, "do"): breaker}
        )
        for number in range(JOBS):
            await harness.submit(fan_out(width), number=number)


async def test_e22_one_task_probes_however_many_workers_ask(database_url: str) -> None:
    await declare(database_url, 100)
    start = threading.Barrier(WORKERS + 1)

    def work() -> list[int]:
        """How many tasks each round gave."""
        taken = []
        try:
            with Meter(database_url) as meter:
                for number in range(ROUNDS):
                    start.wait()
                    tasks = meter.claim(10)
                    taken.append(len(tasks))
                    start.wait()
                    meter.report(tasks, "handed_back" if number % 2 else "retry")
        except BaseException:
            start.abort()  # else the others wait for it
            raise
        return taken

    with connect(database_url, None) as admin, ThreadPoolExecutor(WORKERS) as pool:
        working = [pool.submit(work) for _ in range(WORKERS)]
        with suppress(threading.BrokenBarrierError):  # a worker raised something
            for _ in range(ROUNDS):
                admin.execute(OVER)
                start.wait()
                start.wait()
        faults = [fault for one in working if (fault := one.exception())]
        assert [fault for fault in faults if not isinstance(fault, threading.BrokenBarrierError)] == []
        probes = [sum(taken) for taken in zip(*(one.result() for one in working), strict=True)]
    assert max(probes) == 1
    assert sum(probes) > ROUNDS / 2
    assert [found for found in audit(database_url) if "_late_" not in found.check] == []
