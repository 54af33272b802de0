"""What attempts printed and measured is read in order, by page, and at the cost of the page."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from anabranch.adapters.postgres.connect import connect
from anabranch.adapters.postgres.database import query_text
from anabranch.engine.model import Claim, Ended, Job, Report
from anabranch.engine.read_models import Trace
from tests.support.engine import EngineHarness, fan_out

pytestmark = pytest.mark.postgres

WIDE = 10_000
FIRST = {
    "lane": 0,
    "position": 0,
    "last": 0,
    "node": None,
    "index": None,
    "number": None,
    "attempt": None,
    "failed": False,
    "limit": 51,
}


async def report(engine: EngineHarness, claims: Sequence[Claim], ended: Ended = Ended.COMPLETED) -> None:
    reports = [Report(claim.fence, ended, "null", log=f"{claim.index}\n", metrics='{"n": 1}') for claim in claims]
    _, rights = await engine.store.report(engine.session, reports)
    await engine.advance(rights)


async def read(engine: EngineHarness, job_id: str, **wanted: Any) -> list[Trace]:
    job = await engine.reads.find(job_id)
    return await engine.reads.logs(job.id, **{"limit": 100, **wanted})


async def test_logs_are_in_order_and_go_on_after_a_cursor(engine: EngineHarness) -> None:
    job_id = (await engine.submit(fan_out(3))).job_id
    claims = await engine.claim()
    await report(engine, [claims[1]], Ended.HANDED_BACK)
    await report(engine, [*reversed([claims[0], claims[2]]), *await engine.claim()])
    await report(engine, await engine.claim())

    found = await read(engine, job_id)

    assert [(log.node, log.index, log.attempt) for log in found] == [
        ("work", 0, 1),
        ("work", 1, 1),
        ("work", 1, 2),
        ("work", 2, 1),
        ("join", 0, 1),
    ]
    assert (found[1].task_id, found[1].log, found[1].metrics) == (f"{job_id}-work-1", "1\n", {"n": 1})
    for place, log in enumerate(found, 1):
        assert await read(engine, job_id, after=log.cursor) == found[place:]


async def test_logs_are_picked_by_node_index_and_attempt(engine: EngineHarness) -> None:
    job_id = (await engine.submit(fan_out(2))).job_id
    await report(engine, await engine.claim(), Ended.HANDED_BACK)
    await report(engine, await engine.claim())
    await report(engine, await engine.claim())

    async def pick(**wanted: Any) -> list[tuple[str, int | str, int]]:
        return [(log.node, log.index, log.attempt) for log in await read(engine, job_id, **wanted)]

    assert await pick(node="join") == [("join", 0, 1)]
    assert await pick(index="0") == [("work", 0, 1), ("work", 0, 2), ("join", 0, 1)]
    assert await pick(index="1", attempt=2) == [("work", 1, 2)]
    assert [await pick(index=index) for index in ("2", "00", "x", "9" * 30)] == [[]] * 4


async def test_tn7_logs_are_picked_by_their_end(engine: EngineHarness) -> None:
    job_id = (await engine.submit(fan_out(3))).job_id
    again, failed, fine = await engine.claim()
    await report(engine, [again], Ended.HANDED_BACK)
    await report(engine, [fine])
    await report(engine, [failed], Ended.FAILED)
    found = await read(engine, job_id, status="failed")
    assert [(log.index, log.attempt) for log in found] == [(0, 1), (1, 1)]
    assert await read(engine, job_id, status="running") == []


async def test_an_index_is_the_key_of_a_task_where_it_has_one(engine: EngineHarness, database_url: str) -> None:
    job_id = (await engine.submit(fan_out(2))).job_id
    await report(engine, await engine.claim())
    with connect(database_url, None) as admin:
        admin.execute(
            "insert into app.items (lane, idx, key, parameters)"
            " select l.id, i, key, '{}' from app.lanes l, (values (0, '1'), (1, 'north')) k(i, key)"
        )

    assert [log.log for log in await read(engine, job_id, index="1")] == ["0\n"]
    assert [log.log for log in await read(engine, job_id, index="north")] == ["1\n"]
    assert await read(engine, job_id, index="0") == []


@pytest.mark.parametrize(
    "wanted", [{}, {"position": WIDE - 100, "last": 1}, {"index": "9000", "number": 9000}, {"node": "work"}]
)
async def test_a_page_of_a_wide_job_costs_a_page(
    engine: EngineHarness, database_url: str, wanted: dict[str, Any]
) -> None:
    job = await engine.reads.find((await engine.submit(fan_out(WIDE))).job_id)
    with connect(database_url, None) as admin:
        lane = _fill(admin, job)
        query = {**FIRST, "job": job.id, **wanted, "lane": lane if "position" in wanted else 0}
        explain = f"explain (analyze, buffers, format json) {query_text('logs')}".encode()
        (told,) = admin.execute(explain, query).fetchone() or ()
    plan = (json.loads(told) if isinstance(told, str) else told)[0]["Plan"]
    assert plan["Actual Rows"] == (1 if "index" in wanted else 51)
    assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] < 300


def _fill(admin: Any, job: Job) -> int:  # a connection
    lane: int = admin.execute("select id from app.lanes where job = %s", [job.id]).fetchone()[0]
    rows = "select %s, i, 1, repeat('x', 500) from generate_series(0, %s) i"
    admin.execute(f"insert into app.traces (lane, idx, attempt, log) {rows}", [lane, WIDE - 1])
    admin.execute("analyze app.traces")
    return lane
