"""What is read for a page of a large job's tasks, events and status is bounded, wherever the page begins."""

from typing import Any, NamedTuple

import pytest

from anabranch.adapters.postgres.connect import Role, connect
from anabranch.adapters.postgres.database import query_text
from anabranch.engine.model import Ended
from anabranch.engine.read_models import TaskDetail
from anabranch.workflows.definition import Workflow
from anabranch.workflows.nodes import Spread
from tests.support.engine import EngineHarness, open_harness
from tests.support.nodes import make_node

pytestmark = pytest.mark.postgres

WIDTH = 10_000
# A hundred tasks with an item each take about 400 pages; plans of many short branches handle each row a few times.
MOST_BUFFERS, MOST_ROWS = 1_200, 3_000
STATES = ("ready", "running", "due", "completed", "failed", "cancelled")


class Work(NamedTuple):
    """What a query read: pages, and rows that its plan handled or threw away."""

    buffers: int
    rows: int


def _rows(plan: dict[str, Any]) -> int:
    removed = sum(int(count) for name, count in plan.items() if name.startswith("Rows Removed"))
    return int((plan["Actual Rows"] + removed) * plan["Actual Loops"]) + sum(map(_rows, plan.get("Plans", ())))


def measure(url: str, query: str, *, generic: bool = False, **parameters: object) -> Work:
    """The work of a query, by the reader, with a plan for these parameters or for any."""
    with connect(url, Role.READER) as reader:
        reader.execute(f"set plan_cache_mode = force_{'generic' if generic else 'custom'}_plan".encode())
        text = f"explain (analyze, buffers, timing off, format json) {query_text(query)}"
        (told,) = reader.execute(text.encode(), parameters, prepare=True).fetchone() or ([],)
    plan = told[0]["Plan"]
    return Work(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"], _rows(plan))


def furnish(url: str) -> tuple[int, int]:
    """A job whose ten thousand tasks, an item each, have ended but for a few, among as many of another; its lane."""
    with connect(url, None) as admin, admin.transaction():
        admin.execute("set local session_replication_role = replica")
        lanes = [row[0] for row in admin.execute("select id from app.lanes where purpose = 'work' order by id")]
        for lane in lanes:
            admin.execute(
                "insert into app.items (lane, idx, key, parameters)"
                " select %s, i, 'tile-' || i, jsonb_build_object('href', 'bronze://x/' || i)"
                " from generate_series(0, %s) i",
                [lane, WIDTH - 1],
            )
            admin.execute(
                "insert into app.outcomes"
                " (lane, idx, outcome, attempt, session, failures, crashes, claimed_at, finished_at, result)"
                " select %s, i, case when i %% 3333 = 3000 then 'failed' else 'completed' end::app.outcome, 1, 1, 0, 0,"
                " now(), now(), '{}' from generate_series(0, %s) i",
                [lane, WIDTH - 50],
            )
            admin.execute("update app.lanes set next_index = %s where id = %s", [WIDTH - 49, lane])
        admin.execute(
            "insert into app.events select j.id, i, now(), 'node.running', 'work', '{}'"
            " from app.jobs j, generate_series(10, 10000) i"
        )
        (job,) = admin.execute("select job from app.lanes where id = %s", [lanes[0]]).fetchone() or (0,)
    return int(job), lanes[0]


@pytest.mark.parametrize("generic", [False, True])
@pytest.mark.parametrize("analyzed", [False, True])
async def test_a_page_of_a_large_job_reads_about_what_it_shows(
    database_url: str, analyzed: bool, generic: bool
) -> None:
    async with open_harness(database_url) as engine:
        for run in range(2):
            await engine.submit(wide(WIDTH), run=run)
    job, lane = furnish(database_url)
    if analyzed:
        with connect(database_url, None) as admin:
            admin.execute("analyze")
    page: dict[str, object] = {"job": job, "lane": 0, "position": 0, "node": None, "status": None, "limit": 101}
    pages: dict[str, dict[str, object]] = {
        "first": page,
        "middle": {**page, "lane": lane, "position": WIDTH // 2},
        "last": {**page, "lane": lane, "position": WIDTH - 101},
        "of a node": {**page, "node": "work"},
        "of another": {**page, "node": "join"},
        **{status: {**page, "status": status} for status in STATES if status != "cancelled"},
    }

    found = {name: measure(database_url, "tasks", generic=generic, **asked) for name, asked in pages.items()}
    found["rows"] = measure(database_url, "task_rows", generic=generic, job=job, lane=lane, position=5000, limit=101)
    found["events"] = measure(database_url, "events", generic=generic, job=job, after=9_000, limit=101)
    found["nodes"] = measure(database_url, "nodes", generic=generic, jobs=[job])
    found["heads"] = measure(database_url, "heads", generic=generic, jobs=[job])

    assert {name: work for name, work in found.items() if work.buffers > MOST_BUFFERS or work.rows > MOST_ROWS} == {}


def wide(width: int) -> Workflow:
    work = make_node("work", "do", spread=Spread.FIXED, count=width)
    return Workflow("wide", (work, make_node("join", "join", ("work",), Spread.FAN_IN)))


async def listed(
    engine: EngineHarness, job: int, limit: int, *, node: str | None = None, status: str | None = None
) -> list[TaskDetail]:
    """The tasks that pages of a size give."""
    tasks: list[TaskDetail] = []
    after = None
    while page := await engine.reads.tasks(job, limit=limit, after=after, node=node, status=status):
        tasks += page
        after = page[-1].cursor
    return tasks


@pytest.mark.parametrize("cancelled", [False, True])
async def test_pages_of_any_size_and_state_make_up_the_list(database_url: str, cancelled: bool) -> None:
    async with open_harness(database_url) as engine:
        job_id = (await engine.submit(wide(20))).job_id
        claims = await engine.claim(12)
        await engine.end(claims[0::4])
        await engine.end(claims[1::4], Ended.FAILED)
        await engine.end(claims[2::4], Ended.RETRY)
        if cancelled:
            await engine.store.cancel(job_id, "no")
        job = (await engine.reads.head(job_id)).job
        whole = await listed(engine, job, 1_000)

        assert [task.index for task in whole] == list(range(20))
        assert {task.status for task in whole} > {"completed", "failed"}
        for size in (1, 3, 7):
            assert await listed(engine, job, size) == whole
            assert await listed(engine, job, size, node="work") == whole
            for status in STATES:
                of_status = [task for task in whole if task.status == status]
                assert await listed(engine, job, size, status=status) == of_status
        assert await listed(engine, job, 7, node="join") == []
