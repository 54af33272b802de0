"""What servers do that is nobody's fault: they fail over, are upgraded, restored, and hold what was not expected."""

import asyncio
import os
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from anabranch.adapters.postgres.connect import Role, connect_async
from anabranch.adapters.postgres.database import Database
from anabranch.adapters.postgres.schema.migrate import migrate
from anabranch.adapters.postgres.store.vitals import PostgresVitals
from anabranch.api.health.diagnosis import diagnose
from anabranch.app import open_results
from anabranch.canonical import encode
from anabranch.engine.child_jobs import ChildJobs
from anabranch.engine.model import (
    Answer,
    AttemptProgress,
    Claim,
    Ended,
    InHand,
    JobState,
    LimitKind,
    ProgressReport,
    Purpose,
    Report,
    SessionKind,
)
from anabranch.engine.ports import ClaimRequest, Holdings, Refused, Submission
from anabranch.engine.registry import Registry
from anabranch.engine.sessions.live_session import HeldTask, LiveSession
from anabranch.engine.task_parameters import Definitions
from anabranch.engine.worker.dispatcher import WorkerOptions
from anabranch.engine.worker.processes.pool import HandlerProcesses
from anabranch.engine.worker.reporter import Reporter
from anabranch.engine.worker.runner import Runner
from anabranch.engine.worker.worker import TaskLoop
from anabranch.errors import Unavailable
from anabranch.gateway import Gateway
from anabranch.settings import Settings
from anabranch.testing.clock import Clock
from anabranch.workflows.definition import Workflow
from anabranch.workflows.nesting import nest
from anabranch.workflows.nodes import AnyNode, Kind, OnFailure, Spread
from anabranch.workflows.stages import Declaration
from tests.support.engine import EngineHarness, fan_out, open_harness
from tests.support.nodes import make_node
from tests.support.stack import Stack
from tests.support.waiting import PATIENCE_SECONDS, wait_until_async
from tests.support.warm import run_warm

pytestmark = pytest.mark.postgres
PLUGINS = str(Path(__file__).parent.parent / "data" / "plugins")
NOTHING = ClaimRequest((), 0, {})
WORKER = (SessionKind.WORKER, ["default"], 1, timedelta(seconds=60))


def run_sql(url: str, statement: str, *parameters: object) -> list[tuple[Any, ...]]:  # rows of any shape
    with psycopg.connect(url, autocommit=True) as connection:
        found = connection.execute(statement.encode(), parameters)
        return found.fetchall() if found.description else []


@contextmanager
def failing(url: str, table: str, sqlstate: str, of: str = "") -> Iterator[None]:
    """Let every insert, update and delete of a table fail with this error, or every insert of such rows."""
    run_sql(
        url,
        f"""create function app.fail() returns trigger language plpgsql as $$
            begin raise exception 'not now' using errcode = '{sqlstate}'; end; $$;
            create trigger fail before insert {"" if of else "or update or delete"} on app.{table} for each row {of}
            execute function app.fail()""",
    )
    try:
        yield
    finally:
        run_sql(url, f"drop trigger fail on app.{table}; drop function app.fail()")


def tried(claims: list[Claim], body: str = "null") -> list[Report]:
    return [Report(claim.fence, Ended.COMPLETED, body) for claim in claims]


@pytest.mark.parametrize("sqlstate", ["25006", "26000", "42703", "42501", "25P03", "58030", "XX000", "53100"])
async def test_a1_an_error_that_is_not_the_datas_costs_no_result(
    engine: EngineHarness, database_url: str, sqlstate: str
) -> None:
    job = await engine.submit(fan_out(2))
    claims = await engine.claim()
    reporter = Reporter(engine.store, engine.session, lambda: [InHand(claim.fence, True) for claim in claims])
    with failing(database_url, "outcomes", sqlstate):
        for _ in range(3):
            with pytest.raises(Unavailable):
                await reporter.send(tried(claims), ClaimRequest(["default"], 1, {}))
    turn = await reporter.send(tried(claims), NOTHING)
    assert turn.answers == [Answer.APPLIED] * 2
    await engine.advance(turn.rights)
    assert run_sql(database_url, "select outcome::text, attempt from app.outcomes") == [("completed", 1)] * 2
    assert await engine.state(job.job_id) is JobState.RUNNING


async def test_a1_only_the_report_whose_data_are_refused_fails(engine: EngineHarness, database_url: str) -> None:
    await engine.submit(fan_out(4, on_failure=OnFailure.FINISH))
    claims = await engine.claim()
    run_sql(database_url, "alter table app.outcomes add check (idx <> 2 or outcome <> 'completed')")
    reporter = Reporter(engine.store, engine.session, list)
    turn = await reporter.send(tried(claims), NOTHING)
    assert turn.answers == [Answer.APPLIED] * 4
    assert run_sql(database_url, "select idx, error ->> 'code' from app.outcomes order by idx") == [
        (0, None),
        (1, None),
        (2, "task.unstorable"),
        (3, None),
    ]


async def test_a4_a_report_that_the_server_always_breaks_off_keeps_no_other_waiting(
    stack: Stack, database_url: str
) -> None:
    with failing(database_url, "outcomes", "XX000", of="when (new.idx = 3)"):
        job = await stack.submit("tricky", acts=["fine"] * 8)
        await stack.until(job, lambda job: job.nodes[0].tasks.completed == 7)
    assert (await stack.wait(job)).job.state is JobState.COMPLETED


async def test_a1_a_report_that_always_fails_shows_its_reason_while_others_are_sent(
    engine: EngineHarness, database_url: str, tmp_path: Path
) -> None:
    await engine.submit(fan_out(3))
    claims, live = await engine.claim(), LiveSession(engine.session)
    live.tasks |= {claim.key: HeldTask(claim, 0.0) for claim in claims}
    with closing(HandlerProcesses(1, [])) as children:
        results = open_results(Settings(home=tmp_path))
        runner = Runner(engine.store, Registry(), children, results, tmp_path, engine.session)
        loop = TaskLoop(engine.store, runner, live, WorkerOptions([], 1, timedelta(0), tmp_path))
        with failing(database_url, "outcomes", "XX000", of="when (new.idx = 0)"):
            loop._outbox.write(tried(claims))
            while len(loop._outbox) > 1:
                await take_turn(loop)
                assert "not now" in (live.trouble or "")
        while len(loop._outbox):
            await take_turn(loop)
        await take_turn(loop)
        runner.close()
    assert live.trouble is None


async def test_a_worker_ends_by_itself_only_when_it_has_nothing_to_do(engine: EngineHarness, tmp_path: Path) -> None:
    await engine.submit(fan_out(1))
    (claim,), live = await engine.claim(), LiveSession(engine.session)
    with closing(HandlerProcesses(1, [])) as children:
        results = open_results(Settings(home=tmp_path))
        runner = Runner(engine.store, Registry(), children, results, tmp_path, engine.session)
        options = WorkerOptions([], 1, timedelta(0), tmp_path, longest_idle=timedelta(0))
        loop = TaskLoop(engine.store, runner, live, options)
        live.tasks[claim.key] = HeldTask(claim, 0.0)
        assert not loop._has_been_idle()
        planning = replace(claim, lane=replace(claim.lane, purpose=Purpose.PLAN))
        live.tasks[claim.key] = HeldTask(planning, 0.0)
        assert loop._has_been_idle(), "planning is for workflows of all queues"
        live.tasks.clear()
        await asyncio.wait_for(loop.work(asyncio.Event()), PATIENCE_SECONDS)
        runner.close()


def test_a_worker_process_that_has_nothing_to_do_ends_well(database_url: str, tmp_path: Path) -> None:
    environment = {**os.environ, "ANABRANCH_HOME": str(tmp_path), "ANABRANCH_DATABASE_URL": database_url}
    done = run_warm("worker", "--exit-when-idle", "0.1", env=environment)
    assert done.returncode == 0, done.stderr
    assert "worker.idle" in done.stdout + done.stderr


async def take_turn(loop: TaskLoop) -> bool:
    """A turn of a worker that has no reason to wait before the next."""
    loop._wake.set()
    return await loop._try_turn()


@pytest.mark.slow
async def test_w3_a_worker_that_can_t_report_leaves_all_the_same(stack: Stack, database_url: str) -> None:
    """Its beats are answered, so that nothing else would end it; what it could not report is run again."""
    with failing(database_url, "outcomes", "XX000"):
        job = await stack.submit("fickle", n=1)
        await stack.until(job, lambda job: job.nodes[0].tasks.running == 1)
        stack.stop.set()
        await asyncio.wait_for(stack.serving, PATIENCE_SECONDS)


async def test_a4_a_report_that_fits_in_no_form_keeps_nobody_from_reporting(
    engine: EngineHarness, database_url: str
) -> None:
    await engine.submit(fan_out(3))
    claims = await engine.claim()
    run_sql(
        database_url,
        "alter table app.outcomes add check (idx <> 0); alter table app.attempts add check (idx <> 0)",
    )
    reporter = Reporter(engine.store, engine.session, list)
    turn = await reporter.send(tried(claims), NOTHING)
    assert turn.answers == [Answer.REFUSED, Answer.APPLIED, Answer.APPLIED]


async def test_a4_a_claim_that_can_t_be_given_back_costs_its_worker_no_beat(
    engine: EngineHarness, database_url: str, clock: Clock
) -> None:
    """Without an answer to its beats a worker gives up its session, and with it all that its handlers did so far."""
    await engine.submit(fan_out(2))
    await engine.claim()
    run_sql(database_url, "alter table app.attempts add check (idx <> 0)")
    clock.advance(timedelta(seconds=30))
    pulse = engine.store.pulse()
    assert [pulse.beat(engine.session, Holdings()) for _ in range(2)] == [[], []]
    pulse.close()


@pytest.mark.parametrize("sqlstate", ["23514", "XX001"])
async def test_a4_a_claim_that_can_t_be_given_back_keeps_its_worker_from_nothing(
    engine: EngineHarness, database_url: str, sqlstate: str
) -> None:
    """A reply was lost, so that all that is not in hand goes back first."""
    await engine.submit(fan_out(2))
    await engine.claim(1)
    reporter = Reporter(engine.store, engine.session, list)
    with failing(database_url, "lanes", "40001"), pytest.raises(Unavailable):
        await reporter.send([], ClaimRequest(["default"], 1, {}))
    with failing(database_url, "attempts", sqlstate, of="when (new.idx = 0)"):
        assert [claim.index for claim in (await reporter.send([], ClaimRequest(["default"], 1, {}))).claims] == [1]


@pytest.mark.parametrize("ended", [Ended.COMPLETED, Ended.FAILED, Ended.RETRY, Ended.TIMED_OUT, Ended.CRASHED])
async def test_a4_counters_stop_at_their_highest(engine: EngineHarness, database_url: str, ended: Ended) -> None:
    await engine.submit(fan_out(1))
    claims = await engine.claim()
    run_sql(database_url, "update app.claims set failures = 32767, crashes = 32767")
    answers, _ = await engine.end(claims, ended)
    assert answers == [Answer.APPLIED]


async def test_a2_a_pool_that_met_a_server_that_only_reads_connects_again(database_url: str) -> None:
    database = Database(database_url, Role.APP, name="test", size=1, checked=False)
    await database.open()
    try:
        async with database._pool.connection() as connection:
            await connection.execute("set session characteristics as transaction read only")
        with pytest.raises(Unavailable):
            await database.call("end_session", 1, "test")
        await database.call("end_session", 1, "test")
    finally:
        await database.close()


async def test_a_call_that_met_a_deadlock_is_made_again(database_url: str) -> None:
    """Another transaction has 2 and waits for 1, which the call has; when the call asks for 2, the server ends it."""
    run_sql(
        database_url,
        """
        create or replace function app.use_key(_key_id text) returns void language plpgsql as $$
        begin
            perform pg_advisory_xact_lock(1), pg_advisory_xact_lock(3);
            perform pg_advisory_xact_lock(2);
        end;
        $$""",
    )
    waiting = """select count(*) from pg_locks l join pg_database d on d.oid = l.database
                  where l.locktype = 'advisory' and not l.granted and d.datname = current_database()"""
    database = Database(database_url, Role.APP, name="test", size=1, checked=False)
    await database.open()
    async with await connect_async(database_url, None, name="gate") as gate:
        async with await connect_async(database_url, None, name="other") as other:
            await gate.execute("select pg_advisory_lock(3)")
            await other.execute("set deadlock_timeout = '1h'")
            await other.execute("select pg_advisory_lock(2)")
            call = asyncio.create_task(database.call("use_key", "x"))
            await wait_until_async(lambda: run_sql(database_url, waiting) == [(1,)], "the call to wait for 3")
            theirs = asyncio.create_task(other.execute("select pg_advisory_lock(1)"))
            await wait_until_async(lambda: run_sql(database_url, waiting) == [(2,)], "the other to wait for 1")
            await gate.execute("select pg_advisory_unlock(3)")
            await theirs
        assert len(await call) == 1
    await database.close()


async def test_a2_writers_do_not_connect_to_a_server_that_only_reads(database_url: str) -> None:
    name = run_sql(database_url, "select current_database()")[0][0]
    run_sql(database_url, f"alter database {name} set default_transaction_read_only = on")
    database = Database(database_url, Role.APP, name="test", size=1, checked=False)
    await database.open()
    try:
        with pytest.raises(Unavailable):
            await asyncio.wait_for(database.call("end_session", 1, "test"), PATIENCE_SECONDS)
    finally:
        await database.close()


def test_a2_a_migration_does_not_begin_on_a_server_that_only_reads(database_url: str) -> None:
    """Of several hosts in a URL, the first that answers may be a standby."""
    name = run_sql(database_url, "select current_database()")[0][0]
    run_sql(database_url, f"alter database {name} set default_transaction_read_only = on")
    with pytest.raises(Unavailable, match="session is read-only"):
        migrate(database_url)


async def test_a3_a_claim_is_bounded_in_bytes(engine: EngineHarness) -> None:
    made = make_node("made", "make", spread=Spread.FIXED, count=12)
    used = make_node("used", "use", ("made",), Spread.MATCH_PREVIOUS, lineage=True)
    await engine.submit(Workflow("lineage", (made, used)))
    await engine.finish(await engine.claim(), body="x" * 2_000_000)
    taken = await engine.claim(100)
    assert 1 <= len(taken) <= 4
    assert all(claim.predecessor == ["x" * 2_000_000] for claim in taken)


async def test_a3_one_task_that_is_too_large_is_taken_alone(engine: EngineHarness) -> None:
    large = Workflow("large", (make_node("work", "do"),))
    await engine.submit(large, data="x" * 9_000_000)
    await engine.submit(fan_out(2), data="x")
    assert [len(await engine.claim(10)) for _ in range(3)] == [1, 2, 0]


async def test_a3_a_lane_that_cannot_be_claimed_is_held_and_others_go_on(
    engine: EngineHarness, database_url: str
) -> None:
    bad, good = await engine.submit(fan_out(2), name="bad"), await engine.submit(fan_out(2), name="good")
    run_sql(
        database_url,
        """update app.lanes set policy = policy || '{"heir_of": "not a number"}'
            where job = (select id from app.jobs where job_id = %s)""",
        bad.job_id,
    )
    with pytest.raises(Refused):
        await engine.claim(10)
    reporter = Reporter(engine.store, engine.session, list)
    turn = await reporter.send([], ClaimRequest(["default"], 10, {}))
    assert [claim.lane.job_id for claim in turn.claims] == [good.job_id]
    assert len((await reporter.send([], ClaimRequest(["default"], 10, {}))).claims) == 1
    await engine.sweep()
    assert run_sql(database_url, "select count(*) from app.lanes where held is not null") == [(0,)]


async def test_a3_a_lane_at_its_limit_is_not_blamed_for_another(engine: EngineHarness, database_url: str) -> None:
    full = Workflow("full", (make_node("work", "do"),))
    await engine.submit(full, name="runs")
    await engine.claim(1)
    waiting, bad = await engine.submit(full, name="waits"), await engine.submit(fan_out(2), name="bad")
    await engine.store.limit(LimitKind.WORKFLOW, "full", {"most": 1}, "tester")
    run_sql(
        database_url,
        """update app.lanes set policy = policy || '{"heir_of": "not a number"}'
            where job = (select id from app.jobs where job_id = %s)""",
        bad.job_id,
    )
    assert await engine.store.claim_apart(engine.session, ["default"]) == []
    held = "select j.job_id, split_part(l.held, ' ', 1) from app.lanes l join app.jobs j on j.id = l.job"
    assert dict(run_sql(database_url, f"{held} where l.held is not null")) == {
        waiting.job_id: "workflow",
        bad.job_id: "fault",
    }


async def test_a5_a_right_in_hand_is_renewed_however_long_it_takes(
    engine: EngineHarness, database_url: str, clock: Clock
) -> None:
    await engine.submit(fan_out(1))
    _, rights = await engine.end(await engine.claim())
    other, pulse = await engine.new_session(), engine.store.pulse()
    for _ in range(10):
        clock.advance(timedelta(seconds=20))
        pulse.beat(engine.session, Holdings(rights=[right.id for right in rights]))
        pulse.beat(other, Holdings())
        assert await engine.store.take_rights(other, 10) == []
    pulse.close()
    assert await engine.advance(rights) == 1


async def test_a5_a_right_whose_reply_was_lost_is_free_again(engine: EngineHarness, clock: Clock) -> None:
    await engine.submit(fan_out(1))
    await engine.end(await engine.claim())
    pulse = engine.store.pulse()
    clock.advance(timedelta(seconds=21))
    pulse.beat(engine.session, Holdings())
    pulse.close()
    assert len(await engine.store.take_rights(await engine.new_session(), 10)) == 1


@pytest.mark.parametrize("key", ["kind", "later"])
async def test_a13_a_right_that_cannot_be_spent_comes_back_later_and_says_why(
    engine: EngineHarness, database_url: str, clock: Clock, key: str
) -> None:
    """As where a later release stored the definition, with a kind of node or a key of its own."""
    await engine.submit(fan_out(1))
    await engine.end(await engine.claim())
    run_sql(
        database_url,
        "update app.workflows set definition = jsonb_set(definition, array['nodes', '0', %s], '\"later\"')",
        key,
    )
    await engine.store.end_session(engine.session, "test")
    async with open_harness(database_url) as other:
        for _ in range(60):
            clock.advance(timedelta(seconds=1))
            assert await other.take_free() == 0
    ((takes, trouble),) = run_sql(database_url, "select takes, trouble from app.rights")
    assert takes <= 8
    assert "can't be read" in trouble


async def test_a15_a_task_that_no_worker_has_a_handler_for_leaves_no_rows(
    engine: EngineHarness, database_url: str, clock: Clock
) -> None:
    await engine.submit(fan_out(1))
    delays = []
    for _ in range(6):
        (claim,) = await engine.claim()
        assert claim.attempt == 1
        reports = [Report(claim.fence, Ended.MISSING, '{"code": "handler.missing"}', timedelta(seconds=1))]
        await engine.store.report(engine.session, reports)
        ((delay,),) = run_sql(database_url, "select extract(epoch from due_at - app.now())::int from app.due")
        delays.append(delay)
        clock.advance(timedelta(seconds=delay + 1))
    assert delays[0] == 30
    assert delays == sorted(delays)
    assert run_sql(database_url, "select count(*) from app.attempts") == [(0,)]


async def test_a15_a_task_that_another_worker_can_run_waits_only_a_moment(
    engine: EngineHarness, database_url: str
) -> None:
    await engine.store.open_session(*WORKER, handlers={"do": "1"})
    await engine.submit(fan_out(1))
    (claim,) = await engine.claim()
    await engine.store.report(engine.session, [Report(claim.fence, Ended.MISSING, "{}", timedelta(seconds=1))])
    assert run_sql(database_url, "select round(extract(epoch from due_at - app.now()))::int from app.due") == [(1,)]


async def test_a15_a_planned_handler_that_nobody_has_fails_after_a_while(
    engine: EngineHarness, database_url: str, clock: Clock
) -> None:
    await engine.submit(Workflow("planned", (make_node("work", "do", spread=Spread.SINGLE, planned=True),)))
    (planner,) = await engine.claim(queues=["plan:planned"])
    await engine.finish([planner], body=[{"key": "0", "handler": "mispelt", "parameters": {}}])
    for _ in range(20):
        for claim in await engine.claim():
            body = encode({"code": "handler.missing", "message": "no handler", "category": "permanent"})
            await engine.store.report(engine.session, [Report(claim.fence, Ended.MISSING, body)])
        await engine.let_pass(clock, timedelta(seconds=60))
    assert run_sql(
        database_url, "select outcome::text, error ->> 'code' from app.outcomes where idx = 0 and error is not null"
    ) == [("failed", "handler.missing")]


async def test_a18_publishing_is_fenced_by_the_task_and_not_by_its_node(
    engine: EngineHarness, database_url: str
) -> None:
    job, zombie = await engine.submit(fan_out(3)), await engine.new_session()
    (late,) = await engine.claim(1, session=zombie)
    await engine.claim(1)
    await engine.store.end_session(zombie, "test")
    await engine.sweep()
    (current,) = await engine.claim(1)
    assert (current.key, current.attempt) == (late.key, 2)

    def holds(claim: Claim) -> bool:
        (lane, place), number, token = claim.fence
        held = "select app.hold_attempt(%s, 'work', %s, %s, %s, %s)"
        return bool(run_sql(database_url, held, job.job_id, number, lane, place, token)[0][0])

    assert (holds(late), holds(current)) == (False, True)


async def test_e3_tf1_b11_what_was_claimed_in_another_history_of_the_database_is_not_taken(
    engine: EngineHarness, database_url: str, clock: Clock
) -> None:
    """A database restored to an earlier point gives lanes, attempts and sessions the same numbers again."""
    await engine.submit(fan_out(1))
    (claim,) = await engine.claim()
    run_sql(database_url, "update app.claims set token = token + 1")
    answers, _ = await engine.end([claim])
    assert answers == [Answer.STALE]
    assert not await engine.store.checkpoint(engine.session, claim.fence, 1, "phase", "null")
    pulse = engine.store.pulse()
    assert pulse.progress(engine.session, [AttemptProgress(claim.fence, ProgressReport(1))]) == set()
    clock.advance(timedelta(seconds=30))
    assert pulse.beat(engine.session, Holdings([InHand(claim.fence, True)])) == [claim.fence]
    pulse.close()
    (again,) = await engine.claim()
    assert (again.attempt, again.token != claim.token) == (2, True)


async def test_b3_a_claim_whose_reply_was_lost_comes_back_with_the_next_call(
    engine: EngineHarness, database_url: str
) -> None:
    await engine.submit(fan_out(2))
    reporter = Reporter(engine.store, engine.session, list)
    with failing(database_url, "lanes", "40001"), pytest.raises(Unavailable):
        await reporter.send([], ClaimRequest(["default"], 2, {}))
    await engine.claim()
    assert [claim.attempt for claim in (await reporter.send([], ClaimRequest(["default"], 2, {}))).claims] == [2]


async def test_b4_what_was_claimed_since_the_hands_were_read_is_not_lost(
    engine: EngineHarness, database_url: str, clock: Clock
) -> None:
    """A beat that is held up for longer than a third of the lease tells what was in hand before."""
    await engine.submit(fan_out(2))
    ((before,),) = run_sql(database_url, "select app.now()")
    clock.advance(timedelta(seconds=1))
    await engine.claim()
    clock.advance(timedelta(seconds=30))
    reconcile = "select app.reconcile(%s, '[]', '{}', null, %s)"
    assert run_sql(database_url, reconcile, engine.session, before) == [(0,)]
    assert run_sql(database_url, reconcile, engine.session, before + timedelta(seconds=31)) == [(2,)]


async def test_b7_planning_does_not_wait_for_handlers(stack: Stack) -> None:
    busy = await stack.submit("long", acts=["block", "block"])
    await stack.until(busy, lambda job: job.nodes[0].tasks.running == 2)
    planned = await stack.submit("tricky", acts=["fine"])
    job = await stack.until(planned, lambda job: job.nodes[0].tasks.total == 1)
    assert job.nodes[0].tasks.running == 0
    await stack.gateway.controls.cancel(busy, "test", "test")
    assert (await stack.wait(planned)).job.state is JobState.COMPLETED


async def test_tf2_a_worker_that_gets_no_thread_for_quick_handlers_tries_again(
    stack: Stack, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, refused = threading.Thread.start, list[str]()

    def start_some(thread: threading.Thread) -> None:
        if thread.name.startswith("quick") and len(refused) < 2:
            refused.append(thread.name)
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_some)
    job = await stack.run("kinds", n=20)
    assert (len(refused), job.job.state) == (2, JobState.COMPLETED)
    assert run_sql(database_url, "select max(failures), max(crashes) from app.outcomes") == [(0, 0)]


async def test_a9_what_was_taken_ahead_goes_back_when_its_handlers_turn_slow(stack: Stack, database_url: str) -> None:
    """Only those that run stay claimed: an idle worker can take the others."""
    job_id = await stack.submit("fickle", n=104)
    await stack.until(job_id, lambda job: job.nodes[0].tasks.completed == 100 and job.nodes[0].tasks.running <= 2)
    held = run_sql(database_url, "select count(*) from app.claims")
    assert held <= [(2,)]
    await stack.wait(job_id)


def nested(child: Workflow, node: AnyNode) -> Declaration:
    declared = {child.id: Declaration(child), "parent": Declaration(Workflow("parent", (node,)))}
    return nest(declared).declarations["parent"]


async def submit_parent(engine: EngineHarness, declared: Declaration) -> str:
    submission = Submission(declared.workflow, {}, "test", 5, False, "correlation", parts=declared.parts)
    submitted = await engine.store.submit(submission, engine.session)
    await engine.advance(submitted.rights)
    return submitted.job_id


async def test_b16_a_child_shares_the_place_of_the_parent_that_waits_for_it(engine: EngineHarness) -> None:
    work = make_node("work", "do", spread=Spread.FIXED, count=2, limit="{{ inputs.key }}")
    child = Workflow("child", (work,), inputs=None)
    parent = nested(
        child, make_node("sub", kind=Kind.WORKFLOW, workflow="child", params={"key": "scarce"}, limit="scarce")
    )
    await engine.store.limit(LimitKind.KEY, "scarce", {"most": 1}, "test")
    await submit_parent(engine, parent)
    (claim,) = await engine.claim(queues=["plan:child"])
    child_jobs = ChildJobs(engine.store, Registry(), Definitions(engine.store), engine.session)
    spawned = await child_jobs.spawn(claim, {"key": "scarce"})
    assert spawned
    await engine.advance(spawned.rights)
    for _ in range(2):  # one after the other, for there is one place
        (task,) = await engine.claim()
        assert await engine.claim() == []
        await engine.end([task])


async def test_tf3_definitions_that_a_restore_took_away_are_stored_again(
    engine: EngineHarness, database_url: str
) -> None:
    child = Workflow("child", (make_node("work", "do"),), inputs=None)
    parent = nested(child, make_node("sub", kind=Kind.WORKFLOW, workflow="child", params={}))
    await submit_parent(engine, parent)
    run_sql(database_url, "delete from app.jobs; delete from app.workflows")
    await submit_parent(engine, parent)
    assert run_sql(database_url, "select workflow from app.workflows order by 1") == [("child",), ("parent",)]


async def test_b17_what_could_not_go_on_for_minutes_is_stuck_and_its_job_says_why(
    engine: EngineHarness, database_url: str, clock: Clock
) -> None:
    troubled, fine = await engine.submit(fan_out(1), name="troubled"), await engine.submit(fan_out(1), name="fine")
    (claim, _) = sorted(await engine.claim(), key=lambda one: one.lane.job_id != troubled.job_id)
    _, rights = await engine.end([claim])
    await engine.store.free_rights(engine.session, rights, reason="the disk is full", delay=timedelta(0))
    assert (await engine.reads.job(troubled.job_id)).waiting_for == ("node work: the disk is full",)
    assert run_sql(database_url, "select job_id from app.stuck_jobs") == []
    clock.advance(timedelta(minutes=6))
    stuck = {job_id for (job_id,) in run_sql(database_url, "select job_id from app.stuck_jobs")}
    assert stuck == {troubled.job_id, fine.job_id}, "and a task in hand that never began"


async def test_a1_a_task_that_workers_hand_back_for_minutes_is_stuck_and_its_job_says_why(
    engine: EngineHarness, database_url: str, clock: Clock
) -> None:
    """As where its result can't be stored."""
    job, fine = await engine.submit(fan_out(1), name="troubled"), await engine.submit(fan_out(1), name="fine")
    await engine.store.open_session(*WORKER, handlers={"do": "1"})
    reason = encode({"code": "storage.unreachable", "message": "the tier work could not be used"})
    for _ in range(10):
        assert run_sql(database_url, "select job_id from app.stuck_jobs") == []
        (claim, *others) = sorted(await engine.claim(), key=lambda one: one.lane.job_id != job.job_id)
        back = [Report(claim.fence, Ended.HANDED_BACK, reason, timedelta(seconds=30))]
        back += [Report(other.fence, Ended.HANDED_BACK) for other in others]
        await engine.store.report(engine.session, back)
        assert (await engine.reads.job(job.job_id)).waiting_for == ("node work: the tier work could not be used",)
        assert (await engine.reads.job(fine.job_id)).waiting_for == ()
        clock.advance(timedelta(seconds=31))
    assert run_sql(database_url, "select job_id from app.stuck_jobs") == [(job.job_id,)]
    await engine.claim()
    assert run_sql(database_url, "select job_id from app.stuck_jobs") == []


async def test_b17_a_right_that_one_process_after_the_other_takes_and_loses_is_stuck(
    engine: EngineHarness, database_url: str, clock: Clock
) -> None:
    """As where advancing a job takes more memory than a process has: none of them can say so."""
    job, holder = await engine.submit(fan_out(1)), engine.session
    await engine.end(await engine.claim())
    for _ in range(7):
        assert run_sql(database_url, "select job_id from app.stuck_jobs") == []
        await engine.store.end_session(holder, "killed")
        holder = await engine.new_session()
        assert len(await engine.store.take_rights(holder, 10)) == 1
        clock.advance(timedelta(seconds=50))
    assert run_sql(database_url, "select job_id from app.stuck_jobs") == [(job.job_id,)]
    assert (await engine.reads.job(job.job_id)).waiting_for == (
        "node work: the processes that took this step ended before it was done",
    )


async def test_a_job_says_which_limit_holds_it_back_and_which_pause(engine: EngineHarness, database_url: str) -> None:
    job = await engine.submit(fan_out(1))
    for kind, settings, expected in (
        (
            "queue",
            '{"paused": true, "reason": "the disk is replaced"}',
            "the queue default is paused: the disk is replaced",
        ),
        ("workflow", '{"paused": true}', "the workflow fan_out is paused"),
    ):
        name = {"queue": "default", "workflow": "fan_out"}[kind]
        run_sql(database_url, "select app.limit(%s, %s, %s, 'test')", kind, name, settings)
        assert await engine.claim() == []
        assert (await engine.reads.job(job.job_id)).waiting_for == (f"node work: {expected}",)
        run_sql(database_url, "select app.limit(%s, %s, '{\"paused\": false}', 'test')", kind, name)
        run_sql(database_url, "update app.lanes set held = null")


async def test_a_job_says_at_which_gate_or_time_it_waits(engine: EngineHarness) -> None:
    gate, pause = make_node("gate", kind=Kind.GATE), make_node("pause", kind=Kind.WAIT, until="2100-01-01T00:00:00Z")
    job = await engine.submit(Workflow("waits", (gate, pause)))
    assert (await engine.reads.job(job.job_id)).waiting_for == (
        "node gate: waits for a signal",
        "node pause: waits until 2100-01-01T00:00:00Z",
    )


async def test_a_job_says_which_queue_nobody_serves_and_which_handler_nobody_has(engine: EngineHarness) -> None:
    far = await engine.submit(Workflow("far", (make_node("work", "do", queue="far"),)))
    assert (await engine.reads.job(far.job_id)).waiting_for == ("node work: no worker serves the queue far",)
    near = await engine.submit(Workflow("near", (make_node("work", "do"),)))
    assert (await engine.reads.job(near.job_id)).waiting_for == ("node work: no worker has the handler do",)


async def test_a_queue_whose_tasks_wait_for_their_next_attempt_and_that_nobody_serves_shows(
    engine: EngineHarness,
) -> None:
    """Its only worker died: no task of it is new."""
    far = await engine.store.open_session(SessionKind.WORKER, ["far"], 1, timedelta(seconds=60))
    job = await engine.submit(Workflow("far", (make_node("work", "do", queue="far"),)))
    assert len(await engine.claim(queues=["far"], session=far)) == 1
    await engine.store.end_session(far, "killed")
    await engine.sweep()
    assert (await engine.reads.job(job.job_id)).waiting_for == ("node work: no worker serves the queue far",)
    signs = PostgresVitals(engine.store._url, name="test")
    await signs.open()
    try:
        parts = {part.name: part for part in diagnose(await signs.read_vitals(), 0.0)}
        gauges = await signs.gauges()
    finally:
        await signs.close()
    assert (parts["queue far"].status, parts["queue far"].detail) == (
        "degraded",
        "1 tasks are ready, 0 workers serve it",
    )
    assert gauges.served["far"] == 0


async def test_trouble_that_lasts_shows_in_health(engine: EngineHarness, clock: Clock) -> None:
    pulse = engine.store.pulse()
    pulse.beat(engine.session, Holdings(trouble="the disk is full"))
    clock.advance(timedelta(minutes=6))
    pulse.beat(engine.session, Holdings(trouble="the disk is full"))
    pulse.close()
    signs = PostgresVitals(engine.store._url, name="test")
    await signs.open()
    try:
        parts = {part.name: part for part in diagnose(await signs.read_vitals(), 0.0)}
    finally:
        await signs.close()
    assert parts["troubles"].status == "degraded"
    assert "for 6 minutes: the disk is full" in parts["troubles"].detail


async def test_a1_trouble_that_lasts_makes_only_those_stuck_whose_tasks_it_holds_for_long(
    engine: EngineHarness, database_url: str, clock: Clock
) -> None:
    """One report can't be sent, and others are."""
    bad = await engine.submit(fan_out(1), name="bad")
    pulse, (claim,) = engine.store.pulse(), await engine.claim()
    held = Holdings([InHand(claim.fence, started=True)], trouble="not now")
    pulse.beat(engine.session, held)
    clock.advance(timedelta(minutes=6))
    await engine.submit(fan_out(1), name="good")
    await engine.claim()
    pulse.beat(engine.session, held)
    pulse.close()
    assert (await engine.reads.job(bad.job_id)).waiting_for == ("node work: not now",)
    assert run_sql(database_url, "select job_id from app.stuck_jobs") == [(bad.job_id,)]


async def test_a11_a_lane_that_is_alone_and_served_does_not_time_out(
    engine: EngineHarness, database_url: str, clock: Clock
) -> None:
    await engine.submit(fan_out(30, queue_timeout=timedelta(seconds=60)))
    for _ in range(25):
        await engine.let_pass(clock, timedelta(seconds=5))
        await engine.end(await engine.claim(1))
    assert run_sql(database_url, "select count(*) from app.outcomes where outcome = 'failed'") == [(0,)]


async def test_a_gateway_whose_session_failed_leaves_no_pool_open(database_url: str, tmp_path: Path) -> None:
    gateway = Gateway(Settings(home=tmp_path), database_url)
    await gateway.open()
    await gateway.ready()
    (session,) = (task for task in asyncio.all_tasks() if "keep_session" in str(task.get_coro()))
    session.cancel()
    with pytest.raises(asyncio.CancelledError):
        await gateway.close()
    with pytest.raises(Unavailable, match="already closed"):
        await gateway.reads.jobs(limit=1)
