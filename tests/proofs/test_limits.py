"""Workers that race for the room of limits, which are set, changed and removed meanwhile."""

import itertools
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from psycopg.rows import TupleRow

from anabranch.adapters.postgres.connect import connect
from anabranch.adapters.postgres.store.invariants import audit
from tests.support.engine import fan_out, open_harness
from tests.support.meter import Meter

pytestmark = pytest.mark.postgres

WORKERS, JOBS, WIDTH, MOST = 5, 4, 40, 3
RUNNING = "select count(*), (select most from app.limits where kind = 'queue') from app.claims"


def work(url: str, over: threading.Event) -> None:
    """Claim and report until nothing is left; some tasks are handed back."""
    with Meter(url) as meter:
        for number in itertools.count():
            if over.is_set():
                return
            tasks = meter.claim(2)
            meter.report(tasks[:1])
            meter.report(tasks[1:], "handed_back" if number % 3 == 0 else "completed")


def change_limits(url: str, over: threading.Event) -> None:
    """Others come and go; the one that is watched stays."""
    with Meter(url) as meter:
        while not over.is_set():
            for kind, name in (("handler", "do"), ("workflow", "fan_out"), ("queue", "default")):
                meter.value("limit", kind, name, f'{{"most": {MOST}}}', "test")
            meter.value("limit", "handler", "do", '{"paused": true}', "test")
            for kind, name in (("handler", "do"), ("workflow", "fan_out")):
                meter.value("limit", kind, name, '{"most": null, "paused": false}', "test")
            meter.value("heal_holds", 1000, 0, 2**62)


async def test_e22_never_more_run_than_a_limit_allows_and_at_the_end_none(database_url: str) -> None:
    async with open_harness(database_url) as harness:
        for number in range(JOBS):
            await harness.submit(fan_out(WIDTH), number=number)
    over = threading.Event()
    with connect(database_url, None) as admin, ThreadPoolExecutor(WORKERS + 1) as pool:
        admin.execute("select app.limit('queue', 'default', %s, 'test')", [f'{{"most": {MOST}}}'])
        working = [pool.submit(work, database_url, over) for _ in range(WORKERS)]
        working.append(pool.submit(change_limits, database_url, over))
        seen: set[TupleRow] = set()
        left = "select exists (select from app.lanes where node = 'work' and not closed)"
        try:
            while not any(one.done() for one in working) and admin.execute(left).fetchone() == (True,):
                seen.update(admin.execute(RUNNING).fetchall())
                assert audit(database_url) == []
        finally:
            over.set()
        for one in working:
            one.result()
        assert {most for _, most in seen} == {MOST}
        assert max(count for count, _ in seen) <= MOST
        summed = "select (app.read_running('queue', 'default')).running, app.count_running('queue', 'default')"
        assert admin.execute(summed).fetchone() == (0, 0)
