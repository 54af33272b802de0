"""What a claim and a report of a hundred tasks read is bounded, whatever the tables hold and the planner knows."""

from typing import Any

import psycopg
import pytest
from psycopg.rows import TupleRow

from anabranch.adapters.postgres.connect import connect
from anabranch.adapters.postgres.database import query_text
from tests.support.engine import fan_out, open_harness
from tests.support.meter import Meter, Work

pytestmark = pytest.mark.postgres

ALL_LANES = (0, 2**62)
OUTSTANDING, WIDTH = 5_000, 100_000
HOT = ("lanes", "claims", "due", "outcomes", "attempts", "items", "rights", "sessions", "limit_changes", "turns")
# A hundred tasks touch about 1,500 pages, and the answers of a report are joined by 100 x 100 comparisons.
MOST_BUFFERS, MOST_ROWS = 4_000, 60_000


async def furnish(url: str, *, lanes: int, outcomes: int) -> None:
    """A wide lane, other lanes that are less urgent, and finished tasks."""
    async with open_harness(url) as harness:
        await harness.submit(fan_out(WIDTH), priority=3, lanes=lanes)
    with connect(url, None) as admin, admin.transaction():
        admin.execute("set local session_replication_role = replica")
        columns = "queue, priority, handler, with_parameters, policy, width, next_index, running, remaining, failed"
        rest = "tolerated, max_running, queue_timeout, closed, opened_at, served_at, itemized, ripe"
        admin.execute(
            f"insert into app.lanes (job, node, purpose, generation, {columns}, {rest})"
            f" select job, node, purpose, i, {columns.replace('priority', '6')}, {rest}"
            "   from (select * from app.lanes order by id desc limit 1) l, generate_series(1, %s) i".encode(),
            [lanes],
        )
        admin.execute(
            "insert into app.outcomes"
            " (lane, idx, outcome, attempt, session, failures, crashes, claimed_at, finished_at)"
            " select 0, i, 'completed', 1, 1, 0, 0, now(), now() from generate_series(1, %s) i",
            [outcomes],
        )


def run_small_job(meter: Meter) -> None:
    """Something has run before, and the tables are empty again but for what ended."""
    for _ in range(3):
        meter.report(meter.claim())


@pytest.fixture
def quiet_url(database_url: str) -> str:
    """A database that only the test vacuums and analyzes."""
    with connect(database_url, None) as admin:
        try:
            admin.execute("load 'auto_explain'")
        except psycopg.Error:
            pytest.skip("this PostgreSQL has no auto_explain")
        for table in HOT:
            admin.execute(f"alter table app.{table} set (autovacuum_enabled = off)".encode())
    return database_url


def measure_all(meter: Meter) -> dict[str, Work]:
    """The work of a hundred tasks' claim, report, retry and claim again, each when it has been done before."""
    for _ in range(2):
        meter.report(meter.claim(), "retry")
        meter.report(meter.claim())
    tasks: list[Any] = []
    found = {"claim": meter.least(lambda: tasks.append(meter.claim()))}
    found["report"] = min(meter.measure(meter.report, batch) for batch in tasks)
    again = [meter.claim() for _ in range(3)]
    found["retry"] = min(meter.measure(meter.report, batch, "retry") for batch in again)
    found["claim due"] = meter.least(meter.claim)
    return found


def assert_bounded(found: dict[str, Work]) -> None:
    assert {name: work for name, work in found.items() if work.buffers > MOST_BUFFERS or work.rows > MOST_ROWS} == {}


def empty_then(url: str, command: str) -> None:
    """A few tasks ran, all is reported, and then the server looks at the tables: an evening's autovacuum."""
    with Meter(url) as meter:
        run_small_job(meter)
        meter.connection.execute(command.encode())


async def test_e22_in_a_full_database_that_was_never_analyzed(quiet_url: str) -> None:
    await furnish(quiet_url, lanes=1_000, outcomes=200_000)
    with Meter(quiet_url) as meter:
        meter.claim(OUTSTANDING)
        assert_bounded(measure_all(meter))


async def test_in_a_full_database_that_was_analyzed(quiet_url: str) -> None:
    await furnish(quiet_url, lanes=1_000, outcomes=200_000)
    with Meter(quiet_url) as meter:
        meter.claim(OUTSTANDING)
        meter.connection.execute("analyze")
        assert_bounded(measure_all(meter))


async def test_with_one_lane_that_was_never_analyzed(quiet_url: str) -> None:
    await furnish(quiet_url, lanes=0, outcomes=0)
    with Meter(quiet_url) as meter:
        meter.claim(OUTSTANDING)
        assert_bounded(measure_all(meter))


@pytest.mark.parametrize("lanes", [0, 1_000])
@pytest.mark.parametrize("command", ["analyze", "vacuum analyze"])
async def test_when_the_tables_were_empty_as_they_were_analyzed(quiet_url: str, command: str, lanes: int) -> None:
    await furnish(quiet_url, lanes=0, outcomes=0)
    empty_then(quiet_url, command)
    await furnish(quiet_url, lanes=lanes, outcomes=0)
    with Meter(quiet_url) as meter:
        meter.claim(OUTSTANDING)
        assert_bounded(measure_all(meter))


async def test_when_the_plans_were_made_for_empty_tables(quiet_url: str) -> None:
    await furnish(quiet_url, lanes=0, outcomes=0)
    empty_then(quiet_url, "vacuum analyze")
    with Meter(quiet_url) as meter:
        run_small_job(meter)
        await furnish(quiet_url, lanes=1_000, outcomes=0)
        meter.claim(OUTSTANDING)
        assert_bounded(measure_all(meter))


async def test_a_claim_costs_the_same_after_two_thousand_claims(quiet_url: str) -> None:
    """Each claim moves its lane in the index and leaves a dead entry; scans remove them as they pass."""
    await furnish(quiet_url, lanes=10, outcomes=0)
    with Meter(quiet_url) as meter:
        for _ in range(10):
            meter.report(meter.claim(1))
        before = meter.least(meter.claim, 1)
        for _ in range(2_000):
            meter.report(meter.claim(1))
        after = meter.least(meter.claim, 1)
    assert after.buffers < before.buffers + 100
    assert after.rows < before.rows + 100


async def test_a_claim_is_bounded_when_very_many_tasks_are_due(quiet_url: str) -> None:
    """A service that everything depends on was away, and twenty thousand tasks wait for their next attempt."""
    await furnish(quiet_url, lanes=0, outcomes=0)
    with Meter(quiet_url) as meter:
        tasks = meter.claim(20_000)
        for start in range(0, len(tasks), 1_000):
            meter.report(tasks[start : start + 1_000], "handed_back")
        meter.claim()
        assert_bounded({"claim due": meter.least(meter.claim)})


@pytest.mark.parametrize("planned_early", [False, True])
async def test_a_claim_of_planned_tasks_reads_their_items_only(quiet_url: str, planned_early: bool) -> None:
    await furnish(quiet_url, lanes=0, outcomes=0)
    empty_then(quiet_url, "vacuum analyze")
    with Meter(quiet_url) as meter:
        if planned_early:
            run_small_job(meter)
        await furnish(quiet_url, lanes=1, outcomes=0)
        meter.connection.execute(
            "insert into app.items (lane, idx, key, parameters) select l.id, i, 'k' || i, '{}'"
            " from app.lanes l, generate_series(0, 19999) i where l.width = 100000"
        )
        meter.connection.execute("update app.lanes set itemized = true")
        meter.claim()
        assert_bounded({"claim": meter.least(meter.claim)})


@pytest.mark.parametrize("keyed", [False, True])
async def test_tasks_that_were_handed_parameters_read_those_only(quiet_url: str, keyed: bool) -> None:
    await furnish(quiet_url, lanes=0, outcomes=0)
    empty_then(quiet_url, "vacuum analyze")
    await furnish(quiet_url, lanes=0, outcomes=20_000)
    with Meter(quiet_url) as meter:
        meter.connection.execute("update app.outcomes set handed = jsonb_build_object('idx', idx) where lane = 0")
        if keyed:
            meter.connection.execute(
                "insert into app.items (lane, idx, key, parameters) select 0, i, (i - 1)::text, '{}'"
                " from generate_series(1, 20000) i"
            )
        meter.connection.execute("""update app.lanes set policy = policy || '{"heir_of": 0}'""")
        meter.claim()
        tasks: list[Any] = []
        found = {"claim": meter.measure(lambda: tasks.extend(meter.claim()))}
        assert [task[7] for task in tasks] == [{"idx": task[1] + keyed} for task in tasks]
        meter.report(tasks, handed={"x": 1})
        found["report"] = meter.measure(lambda: meter.report(meter.claim(), handed={"x": 1}))
        assert_bounded(found)


async def test_a_long_transaction_that_holds_the_horizon_does_not_slow_every_task(quiet_url: str) -> None:
    """It keeps the lane's old versions: a batch may pay for them once, and not once for each of its tasks."""
    await furnish(quiet_url, lanes=0, outcomes=0)
    with Meter(quiet_url) as meter, connect(quiet_url, None, autocommit=False) as holder:
        holder.execute("set transaction isolation level repeatable read")
        holder.execute("select txid_current()")
        for _ in range(300):
            meter.report(meter.claim())
        tasks: list[Any] = []
        found = {"claim": meter.least(lambda: tasks.append(meter.claim()))}
        found["report"] = min(meter.measure(meter.report, batch) for batch in tasks)
        assert_bounded(found)


async def add_owners(url: str, owners: int, lanes: int) -> None:
    """So many owners with so many root jobs each, of one lane with two tasks."""
    await furnish(url, lanes=lanes * owners, outcomes=0)
    with connect(url, None) as admin:
        admin.execute("delete from app.lanes where priority = 3 or node <> 'work'")
        admin.execute(
            "update app.lanes set width = 2, remaining = 2, root = generation, place = 1, owner = generation %% %s",
            [owners],
        )
        admin.execute("vacuum app.lanes")


@pytest.mark.parametrize(("owners", "lanes"), [(1, 10_000), (2, 5_000), (100, 100)])
async def test_e22_a_claim_costs_the_same_however_many_lanes_each_owner_has(
    quiet_url: str, owners: int, lanes: int
) -> None:
    await add_owners(quiet_url, owners, lanes)
    with Meter(quiet_url) as meter:
        meter.report(meter.claim(1))
        found = meter.least(meter.claim, 1)
    assert found.buffers < 150 + 10 * owners, found
    assert found.rows < 50 + 20 * owners, found


async def test_e22_ten_thousand_jobs_of_an_owner_wait_and_another_s_first_task_is_claimed_next(quiet_url: str) -> None:
    await add_owners(quiet_url, 1, 10_000)
    with Meter(quiet_url) as meter:
        meter.claim(1)
        async with open_harness(quiet_url) as harness:
            await harness.submit(fan_out(1), priority=6, scope="another")
        newest = meter.connection.execute("select max(id) from app.lanes").fetchone()
        tasks: list[Any] = []
        found = meter.measure(lambda: tasks.extend(meter.claim(1)))
        assert [tuple(task[:1]) for task in tasks] == [newest]
    assert found.buffers < 200, found


async def test_e22_places_are_found_by_indexes_when_the_plans_were_made_for_empty_tables(quiet_url: str) -> None:
    await furnish(quiet_url, lanes=0, outcomes=0)
    empty_then(quiet_url, "vacuum analyze")
    place = ("default", 6, 0, 1)
    with Meter(quiet_url) as meter:
        meter.value("next_place", *place)
        await add_owners(quiet_url, 1, 10_000)
        meter.connection.execute("update app.lanes set root = 1")
        found = meter.least(meter.value, "next_place", *place)
    assert found.buffers < 50, found


HISTORY = 20_000
COPIED_JOB = "scope, platform, workflow_hash, parameters, priority, generation, correlation_id, last_event, created_at"


async def add_history(url: str) -> None:
    """Many jobs that ended; the oldest but one failed, and the one after that is of a workflow of its own."""
    await furnish(url, lanes=0, outcomes=0)
    with connect(url, None) as admin, admin.transaction():
        admin.execute("set local session_replication_role = replica")
        admin.execute(
            f"insert into app.jobs (job_id, identity, ordinal, workflow, state, finished_at, {COPIED_JOB})"
            " select md5(i::text), md5(i::text), 0, case i when 3 then 'rare' else workflow end,"
            f"       case i when 2 then 'failed' else 'completed' end::app.job_state, now(), {COPIED_JOB}"
            f"   from app.jobs, generate_series(1, {HISTORY}) i".encode()
        )
        admin.execute("update app.jobs set platform = 'other' where job_id in (md5('2'), md5('4'))")
        admin.execute("insert into app.labels select id, 'team', 'maps' from app.jobs")
        admin.execute(
            "insert into app.labels select id, 'run', case when id % 2 = 0 then 'even' else 'odd' end from app.jobs"
        )
        admin.execute("insert into app.labels select id, 'rare', 'yes' from app.jobs where workflow = 'rare'")
        admin.execute(
            "insert into app.lanes (job, node, purpose, generation, queue, priority, handler, with_parameters, policy,"
            "   width, next_index, running, remaining, failed, tolerated, closed, opened_at, served_at, itemized, ripe)"
            " select j.id, l.node, l.purpose, 9, l.queue, 5, l.handler, true, l.policy, 1, 1, 0, 0, 0, 0, true,"
            "        now(), now(), false, false"
            "   from app.jobs j, (select * from app.lanes limit 1) l where j.finished_at is not null"
        )
    with connect(url, None) as admin:
        admin.execute("alter database {} set random_page_cost = 4".format(admin.info.dbname).encode())  # noqa: UP032
        admin.execute("vacuum analyze app.jobs, app.lanes, app.labels")


LISTS: list[tuple[dict[str, Any], int]] = [
    ({}, 50),
    ({"state": "failed"}, 1),
    ({"state": "completed"}, 50),
    ({"workflow": "rare"}, 1),
    ({"workflow": "fan_out"}, 50),
    ({"workflow": "fan_out", "state": "failed"}, 1),
    ({"workflow": "fan_out", "state": "failed", "before": 3}, 0),
    ({"parent": 1}, 0),
    ({"label_names": ["team"], "label_values": ["maps"]}, 50),
    ({"label_names": ["team", "run"], "label_values": ["maps", "odd"], "before": HISTORY // 2}, 50),
    ({"label_names": ["rare"], "label_values": ["yes"]}, 1),
    ({"label_names": ["rare", "team"], "label_values": ["yes", "maps"], "workflow": "rare", "state": "completed"}, 1),
    ({"label_names": ["team"], "label_values": ["none"]}, 0),
    ({"platform": "other"}, 2),
    ({"platform": "other", "state": "failed"}, 1),
    ({"platform": "other", "workflow": "fan_out"}, 2),
    ({"platform": "other", "workflow": "fan_out", "state": "completed"}, 1),
    ({"platform": "other", "workflow": "rare"}, 0),
    ({"platform": "none"}, 0),
]


@pytest.mark.parametrize("plans", ["force_custom_plan", "force_generic_plan"])
async def test_a19_x11_a_list_of_jobs_reads_what_it_shows(quiet_url: str, plans: str) -> None:
    await add_history(quiet_url)
    with Meter(quiet_url) as meter:
        meter.connection.execute(f"set plan_cache_mode = {plans}".encode())
        rows: list[Any] = []

        def ask(given: dict[str, Any]) -> None:
            absent = dict.fromkeys(("before", "state", "workflow", "parent", "label_names", "label_values", "platform"))
            parameters = {**absent, "limit": 50, **given}
            rows[:] = meter.connection.execute(query_text("jobs").encode(), parameters, prepare=True).fetchall()

        for given, shown in LISTS:
            ask(given)
            work = meter.least(ask, given)
            assert len(rows) == shown, given
            assert [row[0] for row in rows] == sorted((row[0] for row in rows), reverse=True)
            assert work.buffers < 2_000, (given, work)
            assert work.rows < 2_000, (given, work)


async def test_a_retried_job_s_idle_time_costs_the_same_however_many_events_it_has(quiet_url: str) -> None:
    await furnish(quiet_url, lanes=0, outcomes=0)
    with Meter(quiet_url) as meter:
        meter.connection.execute(
            "insert into app.events (job, seq, at, kind, data)"
            " select j.id, n, now(), case when n % 10000 = 0 then 'job.failed' when n % 10000 = 1 then 'job.retried'"
            "                             else 'tasks.repeated' end, '{}'"
            "   from (select id from app.jobs limit 1) j, generate_series(10000, 30001) n"
        )
        meter.connection.execute("analyze app.events")
        job = meter.connection.execute("select max(job) from app.events where seq = 10000").fetchone()
        assert job
        found = meter.least(meter.value, "idle_seconds", *job)
    assert found.buffers < 100, found


@pytest.mark.parametrize("some", [False, True])
async def test_a19_x35_sweeps_and_gauges_do_not_read_history(quiet_url: str, some: bool) -> None:
    """Nor when the planner believes that very much is due and runs."""
    await add_history(quiet_url)
    with Meter(quiet_url) as meter:
        if some:
            tasks = meter.claim(OUTSTANDING)
            meter.connection.execute("analyze app.claims, app.due")
            meter.report(tasks[:-10], "handed_back")
            meter.connection.execute("analyze app.due")
            meter.report(meter.claim(OUTSTANDING - 20))
        else:
            meter.report(meter.claim(20)[:10], "retry", delay=3600)
        sweeps = {
            "tidy_due": (1000, *ALL_LANES),
            "end_overdue": ("30 s", 1000, *ALL_LANES),
            "end_expired": (meter.session, 1000, *ALL_LANES),
            "release_dead": (1000, *ALL_LANES),
            "cancel_orphan": (None, True),
        }
        found = {name: meter.least(meter.value, name, *arguments) for name, arguments in sweeps.items()}
        found["gauges"] = meter.least(meter.connection.execute, query_text("gauges").encode(), {})
    assert {name: work for name, work in found.items() if work.buffers > 2_000 or work.rows > 2_000} == {}


@pytest.mark.parametrize(
    ("tasks_before", "most"), [(2_000, 1_500), pytest.param(10_000, 6_000, marks=pytest.mark.slow)]
)
async def test_a16_single_tasks_cost_the_same_while_something_holds_the_horizon(
    quiet_url: str, tasks_before: int, most: int
) -> None:
    """Every claim and report leaves a version of the lane; few of them leave entries in its indexes."""
    await furnish(quiet_url, lanes=0, outcomes=0)
    with Meter(quiet_url) as meter, connect(quiet_url, None, autocommit=False) as holder:
        holder.execute("set transaction isolation level repeatable read")
        holder.execute("select txid_current()")
        for _ in range(tasks_before):
            meter.report(meter.claim(1))
        found = {"claim": meter.least(meter.claim, 1)}
        tasks = meter.claim(3)
        found["report"] = min(meter.measure(meter.report, [task]) for task in tasks)
    assert {name: work for name, work in found.items() if work.buffers > most or work.rows > 500} == {}


@pytest.mark.parametrize("kind", ["queue", "handler", "workflow"])
async def test_a19_x14_a_limit_does_not_count_every_task_that_runs(quiet_url: str, kind: str) -> None:
    await furnish(quiet_url, lanes=0, outcomes=0)
    with Meter(quiet_url) as meter:
        name = {"queue": "default", "handler": "do", "workflow": "fan_out"}[kind]
        meter.value("limit", kind, name, '{"most": 50000}', "test")
        meter.claim(20_000)
        meter.report(meter.claim(1))
        found = meter.least(meter.claim, 1)
        assert running(meter, kind, name) == (20_003, 20_003)
    assert found.buffers < 200, found
    assert found.rows < 200, found


def running(meter: Meter, kind: str, name: str) -> TupleRow | None:
    """What runs for a limit: as its changes sum up, and as it is counted."""
    both = "select (app.read_running(%s, %s)).running, app.count_running(%s, %s)"
    return meter.connection.execute(both, [kind, name] * 2).fetchone()


async def test_a19_x14_a_limit_does_not_look_at_every_lane_that_is_busy(quiet_url: str) -> None:
    """Two thousand lanes with one task each: a claim of 32 lanes asks the limit for each of them."""
    await furnish(quiet_url, lanes=2_400, outcomes=0)
    with Meter(quiet_url) as meter:
        meter.connection.execute("delete from app.lanes where width = 100000 and priority = 3")
        meter.connection.execute("update app.lanes set width = 1, remaining = 1")
        meter.value("limit", "queue", "default", '{"most": 50000}', "test")
        while meter.connection.execute("select count(*) < 2000 from app.claims").fetchone() == (True,):
            assert len(meter.claim()) == 32
        found = {"one": meter.least(meter.claim, 1), "many": meter.least(meter.claim, 32)}
    assert found["one"].buffers < 300, found
    assert found["many"].buffers < 6_000, found


async def test_a16_changes_of_a_limit_cost_nothing_once_they_are_summed_up(quiet_url: str) -> None:
    """Though something holds the horizon, and keeps the dead rows of ten thousand of them."""
    await furnish(quiet_url, lanes=0, outcomes=0)
    with Meter(quiet_url) as meter, connect(quiet_url, None, autocommit=False) as holder:
        meter.value("limit", "queue", "default", '{"most": 50000}', "test")
        holder.execute("set transaction isolation level repeatable read")
        holder.execute("select txid_current()")
        meter.connection.execute("""
            do $$ begin
                for i in 1..10000 loop
                    insert into app.limit_changes (kind, name, change) values ('queue', 'default', 1 - i % 2 * 2);
                    perform app.fold_running('queue', 'default');
                    commit;
                end loop;
            end $$""")
        meter.report(meter.claim(1))
        found = {"claim": meter.least(meter.claim, 1), "report": meter.measure(meter.report, meter.claim(1))}
        assert running(meter, "queue", "default") == (3, 3)
    assert {name: work for name, work in found.items() if work.buffers > 300 or work.rows > 300} == {}


@pytest.mark.parametrize("command", ["select", "analyze app.lanes"])
async def test_a_claim_reads_next_to_nothing_about_versions_where_no_lane_asks_for_one(
    quiet_url: str, command: str
) -> None:
    """However many lanes can be claimed; with the settings under which a claim asks."""
    await furnish(quiet_url, lanes=1_000, outcomes=0)
    with connect(quiet_url, None) as admin:
        ((pinned,),) = admin.execute("select proconfig from pg_proc where proname = 'claim'").fetchall()
        admin.execute(command.encode())
    with Meter(quiet_url) as meter:
        for setting in pinned:
            meter.connection.execute(f"set {setting}".encode())
        assert meter.least(meter.value, "list_offers", meter.session).buffers <= 5


async def test_a_claim_is_bounded_when_a_thousand_lanes_wait_for_a_version_that_the_worker_lacks(
    quiet_url: str,
) -> None:
    """They are more urgent than what it can run."""
    await furnish(quiet_url, lanes=1_000, outcomes=0)
    with connect(quiet_url, None) as admin:
        admin.execute("update app.lanes set handler_version = 2, priority = 1 where priority = 6")
    with Meter(quiet_url) as meter:
        meter.claim(OUTSTANDING)
        assert_bounded(measure_all(meter))
