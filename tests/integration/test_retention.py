"""What was kept long enough goes whole, and everything else stays (O5)."""

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from anabranch.adapters.objects.folder import Folder
from anabranch.adapters.postgres.connect import Role, connect
from anabranch.adapters.postgres.schema.files import read_function
from anabranch.adapters.postgres.store.retention import BATCH_BYTES, BATCH_ROWS
from anabranch.adapters.postgres.store.store import PostgresStore
from anabranch.engine.child_jobs import ChildJobs
from anabranch.engine.model import Claim, Ended, Report
from anabranch.engine.ports import Submission, Survey
from anabranch.engine.registry import Registry
from anabranch.engine.sweeping.retention import PURGE_INTERVAL, Purge, Purged, Retention, RetentionPeriods
from anabranch.engine.task_parameters import Definitions
from anabranch.errors import Conflict, NotFound
from anabranch.storage.large_results import Results
from anabranch.storage.tiers import Page
from anabranch.testing.clock import Clock
from anabranch.workflows.definition import Workflow
from anabranch.workflows.nesting import nest
from anabranch.workflows.nodes import Kind
from anabranch.workflows.stages import Declaration
from tests.support.crew import audit
from tests.support.engine import EngineHarness, fan_out
from tests.support.nodes import make_node

pytestmark = pytest.mark.postgres

DAY = timedelta(days=1)
KEEP = RetentionPeriods(90 * DAY, 365 * DAY, 30 * DAY)
DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture
def results(tmp_path: Path) -> Results:
    return Results(Folder(tmp_path / "work"), inline=10)


@pytest.fixture
def purge(engine: EngineHarness, results: Results) -> Purge:
    return Purge(engine.store.retention(), results, KEEP)


async def run(engine: EngineHarness, width: int = 3, **parameters: Any) -> str:  # any JSON
    """A job that has completed."""
    job = await engine.submit(fan_out(width), **parameters)
    await engine.finish(await engine.claim(width))
    await engine.finish(await engine.claim())
    return job.job_id


async def do(purge: Purge) -> Purged:
    total = Purged()
    async for done in purge.batches():
        total += done
    return total


def query(url: str, text: str) -> list[tuple[Any, ...]]:  # rows of any shape
    with psycopg.connect(url, autocommit=True) as connection:
        found = connection.execute(text.encode())
        return found.fetchall() if found.description else []


def tables(url: str, *columns: str) -> list[str]:
    """The tables that have these columns."""
    wanted = " and ".join(
        f"exists (select from pg_attribute where attrelid = c.oid and attname = '{name}')" for name in columns
    )
    return [
        name
        for (name,) in query(
            url,
            "select relname::text from pg_class c where relnamespace = 'app'::regnamespace and relkind in ('r', 'p')"
            f" and {wanted or 'true'} order by 1",
        )
    ]


async def test_o5_a_job_goes_whole_and_others_stay(
    engine: EngineHarness, purge: Purge, clock: Clock, database_url: str
) -> None:
    old = await run(engine, n=1)
    clock.advance(60 * DAY)
    young = await run(engine, n=2)
    clock.advance(31 * DAY)
    assert await purge.survey() == Survey(completed=1, tasks=4)
    assert (await do(purge)).jobs == 1
    assert await purge.survey() == Survey()
    assert [job.job_id for job in await engine.reads.jobs(limit=9, before=None, state=None, workflow=None)] == [young]
    assert query(database_url, "select job_id, state::text from app.tombstones") == [(old, "completed")]
    lanes = query(database_url, "select id from app.lanes order by id")
    for table in tables(database_url, "lane", "idx"):
        assert set(query(database_url, f"select distinct lane from app.{table}")) <= set(lanes), table
    assert query(database_url, "select count(*) from app.outcomes") == [(4,)]
    assert audit(database_url) == []


async def test_o5_what_has_not_ended_or_is_in_hand_stays(
    engine: EngineHarness, purge: Purge, clock: Clock, database_url: str
) -> None:
    await engine.submit(fan_out(2), n=1)
    held = await engine.submit(fan_out(2), n=2)
    mine = [claim for claim in await engine.claim() if claim.lane.job_id == held.job_id]
    await engine.store.cancel(held.job_id, "test")
    clock.advance(400 * DAY)
    assert (await do(purge)).jobs == 0
    await engine.end(mine)
    assert (await do(purge)).jobs == 1
    assert query(database_url, "select job_id from app.tombstones") == [(held.job_id,)]


async def test_o5_a_purged_job_says_so_until_its_tombstone_goes(
    engine: EngineHarness, purge: Purge, clock: Clock
) -> None:
    job_id = await run(engine)
    job = await engine.reads.find(job_id)
    clock.advance(91 * DAY)
    await do(purge)
    reads = (
        lambda: engine.reads.job(job_id),
        lambda: engine.reads.find(job_id[:8]),
        lambda: engine.reads.nodes(job.id),  # as for one who found the job a moment ago
        lambda: engine.reads.events(job.id),
        lambda: engine.reads.tasks(job.id, limit=10, after=None, node=None, status=None),
        lambda: engine.reads.logs(job.id, limit=10, after=None, node=None, index=None, attempt=None),
    )
    for read in reads:
        with pytest.raises(NotFound, match=r"was purged at 2\d\d\d-.*; it was completed at") as caught:
            await read()
        assert caught.value.code == "job.purged"
    clock.advance(366 * DAY)
    assert (await do(purge)).tombstones == 1
    with pytest.raises(NotFound, match="there is no job") as caught:
        await engine.reads.job(job_id)
    assert caught.value.code == "job.not_found"


async def test_o5_a_start_of_an_id_that_fits_several_tombstones_is_ambiguous(
    engine: EngineHarness, purge: Purge, clock: Clock
) -> None:
    jobs = [await run(engine, n=n) for n in range(20)]
    clock.advance(91 * DAY)
    await do(purge)
    first = next(job[0] for job in jobs if sum(other[0] == job[0] for other in jobs) > 1)
    with pytest.raises(Conflict) as caught:
        await engine.reads.find(first)
    assert caught.value.code == "job.ambiguous"


async def test_e15_the_same_request_after_a_purge_is_a_new_job(
    engine: EngineHarness, purge: Purge, clock: Clock
) -> None:
    first = await run(engine)
    clock.advance(91 * DAY)
    await do(purge)
    second = await run(engine)
    again = await engine.submit(fan_out(3))
    assert (again.job_id, again.created) == (second, False)
    clock.advance(91 * DAY)
    await do(purge)
    third = await run(engine)
    assert len({first, second, third}) == 3


async def test_e15_a_number_that_was_purged_is_not_given_again_while_an_older_job_stays(
    engine: EngineHarness, purge: Purge, clock: Clock
) -> None:
    first = await engine.submit(fan_out(1))
    held = await engine.claim()
    rerun = await engine.submit(fan_out(1), rerun=True)
    await engine.finish(await engine.claim())
    await engine.finish(await engine.claim())
    clock.advance(91 * DAY)
    assert (await do(purge)).jobs == 1
    _, rights = await engine.end(held, Ended.FAILED)
    await engine.advance(rights)
    third = await engine.submit(fan_out(1))
    assert third.created
    assert len({first.job_id, rerun.job_id, third.job_id}) == 3


async def test_o5_large_results_go_with_their_job_also_those_that_lost(
    engine: EngineHarness, purge: Purge, results: Results, clock: Clock, tmp_path: Path
) -> None:
    jobs = [await engine.submit(fan_out(2), n=n) for n in range(2)]
    for claim in await engine.claim():
        body = put_aside(results, claim, "1")
        put_aside(results, claim, "2, which came too late")
        _, rights = await engine.store.report(engine.session, [Report(claim.fence, Ended.REFERENCED, body)])
        await engine.advance(rights)
    await engine.finish(await engine.claim())
    clock.advance(89 * DAY)
    kept = await engine.submit(fan_out(1), n=3)
    (claim,) = await engine.claim()
    put_aside(results, claim, "1")
    clock.advance(2 * DAY)
    done = await do(purge)
    assert (done.jobs, done.files) == (len(jobs), 8)
    assert [path.name for path in (tmp_path / "work" / "results").iterdir()] == [kept.job_id]


def put_aside(results: Results, claim: Claim, attempt: str) -> str:
    return results.put_aside(claim.lane.job_id, claim.lane.node, f"{claim.key.lane}-{claim.key.place}-{attempt}", '"x"')


async def test_o5_files_that_cannot_be_removed_keep_no_other_job(
    engine: EngineHarness, clock: Clock, tmp_path: Path, database_url: str
) -> None:
    class Stubborn(Folder):
        def list(self, folder: str = "", *, after: str = "", limit: int = 1_000) -> Page:
            if stuck in folder:
                raise PermissionError(folder)
            return super().list(folder, after=after, limit=limit)

    stuck, _ = await run(engine, n=1), await run(engine, n=2)
    clock.advance(91 * DAY)
    store = engine.store.retention()
    await do(Purge(store, Results(Stubborn(tmp_path)), KEEP))
    left = "select distinct t.job_id from app.remains r join app.tombstones t using (job)"
    assert query(database_url, left) == [(stuck,)]
    clock.advance(400 * DAY)
    await do(Purge(store, Results(Stubborn(tmp_path)), KEEP))
    assert query(database_url, "select job_id from app.tombstones") == [(stuck,)], "it is known until all of it is gone"
    await do(Purge(store, Results(Folder(tmp_path)), KEEP))
    assert query(database_url, "select (select count(*) from app.remains), (select count(*) from app.outcomes)") == [
        (0, 0)
    ]


async def test_o5_a_job_of_100000_tasks_goes_in_slices(
    engine: EngineHarness, purge: Purge, clock: Clock, database_url: str
) -> None:
    await end_wide_job(engine, database_url, 100_000)
    clock.advance(91 * DAY)
    batches = [done async for done in purge.batches() if done.rows]
    # An item and an outcome of each task, an attempt and a trace of some, and the lane.
    assert sum(done.rows for done in batches) == 220_001
    assert max(done.rows for done in batches) <= BATCH_ROWS
    assert len(batches) <= 220_001 // (BATCH_ROWS - 4) + 1
    for table in tables(database_url, "lane"):
        assert query(database_url, f"select count(*) from app.{table}") == [(0,)], table


async def end_wide_job(engine: EngineHarness, url: str, width: int) -> None:
    """A job of one wide node that has failed, as if some tasks were tried twice; straight into the tables."""
    await engine.submit(Workflow("wide", (make_node("work", "do"),)))
    await engine.end(await engine.claim(), Ended.HANDED_BACK)
    tasks = f"from app.lanes l, generate_series(0, {width - 1}) g"
    for insert in (
        f"insert into app.items (lane, idx, parameters) select l.id, g, '{{}}' {tasks}",
        (
            "insert into app.outcomes"
            " (lane, idx, outcome, attempt, session, failures, crashes, claimed_at, finished_at)"
            f" select l.id, g, 'failed', 2, 1, 0, 0, app.now(), app.now() {tasks}"
        ),
        "delete from app.attempts",
        (
            "insert into app.attempts (lane, idx, attempt, session, ended, claimed_at, finished_at)"
            f" select l.id, g, 1, 1, 'failed', app.now(), app.now() {tasks} where g % 10 = 0"
        ),
        f"insert into app.traces (lane, idx, attempt, log) select l.id, g, 2, 'said' {tasks} where g % 10 = 0",
        f"delete from app.due; update app.lanes set closed = true, width = {width}, next_index = {width}",
        "update app.jobs set state = 'failed', finished_at = app.now()",
    ):
        query(url, insert)


async def test_o5_slices_are_bounded_in_bytes_too(engine: EngineHarness, clock: Clock, database_url: str) -> None:
    """Large values are removed chunk by chunk, and cost as much as very many rows; a single one goes in any case."""
    await engine.submit(fan_out(6))
    for claim in await engine.claim():
        await engine.finish([claim], body="x")
    query(
        database_url,
        "update app.outcomes set result ="
        " to_jsonb((select string_agg(md5(g::text), '') from generate_series(1, 3000) g))",
    )
    await engine.finish(await engine.claim())
    clock.advance(91 * DAY)
    await engine.store.retention().purge(90 * DAY, 0)
    with connect(database_url, Role.APP) as connection:
        clear = "select app.clear_remains(array(select job from app.find_remains(0, 10)), 5000, %s)"
        counts = [connection.execute(clear, [150_000]).fetchone() for _ in range(5)]
    # Two results of 96 kB at a time; with the last, the lane; then the lane of the fan-in and its task.
    assert counts == [(2,), (2,), (3,), (2,), (0,)]
    assert BATCH_BYTES < 100_000_000


@pytest.mark.parametrize(("rows", "batches"), [(1000, [2, 2, 2, 0]), (1, [1, 1, 1, 1, 1, 1, 0])])
async def test_o5_jobs_that_stay_hide_none_behind_them(
    engine: EngineHarness, clock: Clock, database_url: str, rows: int, batches: list[int]
) -> None:
    """Of four jobs that are looked at, at most two go at once, or only one where its events are enough (E13)."""
    stays = fan_out(1, queue="other")
    jobs = [await run(engine, n=n) if n % 3 else (await engine.submit(stays, n=n)).job_id for n in range(9)]
    clock.advance(91 * DAY)
    purged, last = [], 0
    with connect(database_url, Role.APP) as connection:
        while last is not None:
            call = "select purged, last from app.purge('90 days', %s, 4, 2, %s)"
            row = connection.execute(call, [last, rows]).fetchone()
            assert row is not None
            purged.append(row[0])
            last = row[1]
    assert purged == batches
    left = query(database_url, "select job_id from app.jobs order by id")
    assert left == [(job,) for n, job in enumerate(jobs) if n % 3 == 0]


async def test_o5_purges_at_once_take_each_job_once(
    engine: EngineHarness, purge: Purge, clock: Clock, database_url: str
) -> None:
    for n in range(30):
        await run(engine, n=n)
    clock.advance(91 * DAY)
    done = await asyncio.gather(*(do(purge) for _ in range(5)))
    assert sum(one.jobs for one in done) == 30
    assert query(database_url, "select count(*) from app.tombstones") == [(30,)]
    await do(purge)
    assert query(database_url, "select (select count(*) from app.remains), (select count(*) from app.outcomes)") == [
        (0, 0)
    ]


async def test_o5_a_job_that_another_holds_waits_for_the_next_round(
    engine: EngineHarness, purge: Purge, clock: Clock, database_url: str
) -> None:
    """A transaction that holds the job's row, as a retry does, goes on undisturbed."""
    job_id = await run(engine)
    clock.advance(91 * DAY)
    with psycopg.connect(database_url) as other:
        other.execute("select from app.jobs for no key update")
        assert (await do(purge)).jobs == 0
        other.execute("update app.jobs set state = 'running', generation = 1, finished_at = null")
    assert (await do(purge)).jobs == 0
    assert (await engine.reads.job(job_id)).nodes


async def test_o5_dead_sessions_and_unused_definitions_go(
    engine: EngineHarness, purge: Purge, clock: Clock, database_url: str
) -> None:
    await run(engine, n=1)
    await engine.store.end_session(await engine.new_session(), "test")
    holder = await engine.new_session()
    await engine.submit(Workflow("other", (make_node("only", "do"),)))
    assert await engine.claim(session=holder)
    await engine.store.end_session(holder, "test")
    clock.advance(31 * DAY)
    assert await do(purge) == Purged(sessions=1)
    clock.advance(60 * DAY)
    assert await do(purge) == Purged(jobs=1, rows=6, workflows=1)
    assert query(database_url, "select workflow from app.workflows") == [("other",)]
    kept = {number for (number,) in query(database_url, "select id from app.sessions")}
    assert kept == {engine.session, holder}


PARENT = nest(
    {
        "child": Declaration(Workflow("child", (make_node("work", "do"),))),
        "parent": Declaration(Workflow("parent", (make_node("sub", kind=Kind.WORKFLOW, workflow="child"),))),
    }
).declarations["parent"]


async def begin_parent(engine: EngineHarness, **parameters: Any) -> tuple[str, str]:  # any JSON
    """A job that runs another, and the other."""
    submission = Submission(PARENT.workflow, parameters, "test", 5, False, "correlation", parts=PARENT.parts)
    job = await engine.store.submit(submission, engine.session)
    await engine.advance(job.rights)
    (claim,) = await engine.claim(queues=["plan:child"])
    child = await ChildJobs(engine.store, Registry(), Definitions(engine.store), engine.session).spawn(claim, {})
    assert child
    await engine.advance(child.rights)
    return job.job_id, child.job_id


async def test_o5_a_child_stays_as_long_as_its_parent_and_goes_in_the_same_round(
    engine: EngineHarness, purge: Purge, clock: Clock, database_url: str
) -> None:
    parent, child = await begin_parent(engine)
    await engine.finish(await engine.claim())
    assert {await engine.state(parent), await engine.state(child)} == {"completed"}
    clock.advance(89 * DAY)
    query(database_url, f"update app.jobs set finished_at = finished_at - interval '2 days' where job_id = '{child}'")
    clock.advance(DAY)
    assert await purge.survey() == Survey(), "the child is old enough, and its parent isn't"
    assert (await do(purge)).jobs == 0
    clock.advance(DAY)
    assert await purge.survey() == Survey(completed=2, tasks=2)
    assert (await do(purge)).jobs == 2
    assert query(database_url, "select count(*) from app.outcomes") == [(0,)]


async def test_o5_a_parent_waits_for_children_that_still_run(engine: EngineHarness, purge: Purge, clock: Clock) -> None:
    parent, child = await begin_parent(engine)
    await engine.store.cancel(parent, "test")
    clock.advance(91 * DAY)
    assert (await do(purge)).jobs == 0
    assert await engine.state(child) == "running"


@pytest.fixture
async def forgetful(engine: EngineHarness, database_url: str) -> AsyncIterator[EngineHarness]:
    """The engine with a store for which every definition was stored long ago."""
    store = PostgresStore(database_url, name="forgetful", connections=4, known_for=timedelta(0))
    await store.open()
    yield EngineHarness(store, engine.reads, engine.session, engine.results)
    await store.close()


async def test_o5_the_parts_of_a_definition_stay_with_it_and_come_back_with_it(
    forgetful: EngineHarness, purge: Purge, clock: Clock, database_url: str
) -> None:
    """A child that is yet to come needs its definition, also where a process believes to have kept it long ago."""
    kept = "select workflow from app.workflows order by 1"
    _, child = await begin_parent(forgetful, n=1)
    await forgetful.finish(await forgetful.claim())
    query(database_url, f"delete from app.jobs where job_id = '{child}'")
    clock.advance(2 * DAY)
    assert (await do(purge)).workflows == 0
    clock.advance(90 * DAY)
    assert (await do(purge)).workflows == 2
    assert query(database_url, kept) == []

    _, again = await begin_parent(forgetful, n=2)
    await forgetful.finish(await forgetful.claim())
    assert await forgetful.state(again) == "completed"
    assert query(database_url, kept) == [("child",), ("parent",)]


async def test_o5_a_definition_stays_while_a_submission_is_under_way(
    engine: EngineHarness, purge: Purge, clock: Clock, database_url: str
) -> None:
    await run(engine)
    clock.advance(91 * DAY)
    with psycopg.connect(database_url) as submission:
        submission.execute("insert into app.workflows select * from app.workflows on conflict do nothing")
        assert (await do(purge)).workflows == 0
    assert (await do(purge)).workflows == 1


async def test_o5_without_a_time_jobs_stay_for_ever(engine: EngineHarness, results: Results, clock: Clock) -> None:
    job_id = await run(engine)
    clock.advance(10_000 * DAY)
    purge = Purge(engine.store.retention(), results, replace(KEEP, jobs=None))
    assert await do(purge) == Purged()
    assert await purge.survey() == Survey()
    assert await engine.state(job_id) == "completed"


async def test_e13_an_object_that_cannot_be_removed_keeps_no_other(
    engine: EngineHarness, results: Results, database_url: str
) -> None:
    query(
        database_url,
        "insert into app.expired_objects"
        " select 'silver', 'jobs/x/' || to_char(n, 'fm0000') from generate_series(1, 450) n",
    )
    stuck = {f"silver://jobs/x/{n:04}" for n in (*range(1, 101), 250)}

    def delete(addresses: Sequence[str]) -> None:
        if stuck & set(addresses):
            raise PermissionError("not this one")

    purge = Purge(engine.store.retention(), results, KEEP, delete=delete)
    await do(purge)
    await do(purge)
    assert query(database_url, "select count(*)::integer from app.expired_objects") == [(101,)]
    stuck.clear()
    await do(purge)
    assert query(database_url, "select from app.expired_objects") == []


async def test_o2_one_session_at_a_time_has_the_turn_and_each_round_is_noted(
    engine: EngineHarness, purge: Purge, clock: Clock, database_url: str
) -> None:
    store, others = engine.store.retention(), await engine.new_session()
    mine, other = Retention(store, engine.session), Retention(store, others)
    assert await mine.turn(purge)
    assert not await other.turn(purge)
    clock.advance(PURGE_INTERVAL)
    assert await other.turn(purge)
    assert not await mine.turn(purge)
    noted = "select session, every, ticked_at from app.duties where name = 'retention'"
    assert query(database_url, noted) == [(others, PURGE_INTERVAL, clock.now())]
    await engine.store.end_session(others, "test")
    assert await mine.turn(purge), "a dead one's turn is over at once"


async def test_o2_a_round_that_fails_leaves_no_heartbeat(
    engine: EngineHarness, purge: Purge, clock: Clock, database_url: str
) -> None:
    await run(engine)
    query(
        database_url,
        "insert into app.tombstones"
        " select id, job_id, identity, 0, '', '', state, created_at, created_at, created_at from app.jobs",
    )
    clock.advance(91 * DAY)
    with pytest.raises(Exception, match="duplicate key"):
        await Retention(engine.store.retention(), engine.session).turn(purge)
    assert query(database_url, "select from app.duties where name = 'retention'") == []


def test_o5_every_table_is_listed_with_what_bounds_it(database_url: str) -> None:
    page = (DOCS / "reference" / "database.md").read_text()
    listed = dict(re.findall(r"^\| `(\w+)` \| [^|]+ \| ([^|]+) \|$", page, re.MULTILINE))
    assert [name for name in tables(database_url) if not listed.get(name, "").strip()] == []


def test_o5_what_refers_to_a_job_goes_with_it(database_url: str) -> None:
    """A table whose rows would keep a job from being purged, or outlive it, must not be added."""
    referring = query(
        database_url,
        "select conrelid::regclass::text, confdeltype::text from pg_constraint where confrelid = 'app.jobs'::regclass",
    )
    assert {table for table, _ in referring} >= {"app.nodes", "app.lanes", "app.events", "app.rights"}
    assert [table for table, on_delete in referring if on_delete != "c"] == []


def test_o5_every_table_of_tasks_is_cleared(database_url: str) -> None:
    """Rows by lane and index have no foreign key: the purge must know their table, or wait until it has none."""
    cleared, settled = (read_function(name) for name in ("clear_remains", "is_settled"))
    found = tables(database_url, "lane", "idx")
    assert set(found) >= {"items", "outcomes", "attempts", "traces", "claims", "due"}
    known = [name for name in found if f"delete from app.{name} " in cleared or f"join app.{name} " in settled]
    assert known == found


def test_o5_all_that_a_job_has_in_the_work_area_is_removed_a_few_at_a_time(tmp_path: Path) -> None:
    area = Folder(tmp_path)
    for n in range(5):
        area.put(f"results/one/node{n % 2}/{n}", b"")
        area.put(f"jobs/one/node/0/{n}-00000000/file", b"")
    area.put("results/two/node/0", b"")
    assert [Results(area).remove("one", 3) for _ in range(5)] == [3, 2, 3, 2, 0]
    assert [stat.key for stat in area.walk()] == ["results/two/node/0"]
    assert not (tmp_path / "results" / "one").exists()
