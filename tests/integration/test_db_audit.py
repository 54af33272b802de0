"""The audit finds every broken invariant, and nothing in a database that is sound."""

import json
from datetime import timedelta

import pytest
import typer
from psycopg.rows import TupleRow
from typer.testing import CliRunner, Result

from anabranch.adapters.postgres.connect import connect
from anabranch.adapters.postgres.store.invariants import GRACE, audit, checks
from anabranch.cli.database.schema import audit_state
from anabranch.cli.exit_codes import exit_code
from anabranch.engine.model import Ended, LimitKind
from anabranch.errors import AnabranchError
from anabranch.testing.clock import Clock
from anabranch.workflows.definition import Workflow
from anabranch.workflows.nodes import Kind
from tests.support.engine import EngineHarness, fan_out
from tests.support.nodes import make_node

pytestmark = pytest.mark.postgres

GATED = Workflow("gated", (make_node("ask", "", kind=Kind.GATE),))


def change(url: str, statement: str) -> list[TupleRow]:
    """What no function would do: past triggers and foreign keys."""
    with connect(url, None) as connection, connection.transaction():
        connection.execute("set local session_replication_role = replica")
        cursor = connection.execute(statement)
        return cursor.fetchall() if cursor.description else []


def found(url: str) -> set[str]:
    return {violation.check for violation in audit(url)}


@pytest.fixture
async def busy(engine: EngineHarness, database_url: str) -> str:
    """Of one job two tasks of five ended, one runs, one is due again; another job has ended; a third waits."""
    await engine.submit(fan_out(5), number=1)
    claims = await engine.claim(4)
    await engine.end(claims[:2])
    await engine.end(claims[2:3], Ended.RETRY, delay=timedelta(hours=1))
    await engine.submit(fan_out(2), priority=3, number=2)
    for _ in range(2):
        _, rights = await engine.end(await engine.claim(2))
        await engine.advance(rights)
    await engine.submit(GATED)
    assert audit(database_url) == []
    return database_url


BROKEN = {
    "e1_stuck_jobs": "delete from app.waits",
    "e1_running_nodes": "update app.nodes set state = 'running' where state = 'pending'",
    "e2_rows_without_a_lane": "insert into app.items (lane, idx, parameters) values (99999, 0, '{}')",
    "e3_attempts": "delete from app.attempts",
    "e4_one_place": """
        insert into app.due (lane, idx, attempt, failures, crashes, first_at, due_at)
        select lane, idx, attempt, 0, 0, now(), now() from app.claims""",
    "e5_ended_jobs": "update app.lanes set closed = false where closed and node = 'join'",
    "e6_lane_counters": "update app.lanes set remaining = remaining + 1 where not closed",
    "e6_rights": """
        insert into app.rights (job, node, purpose, generation, lane, takes, made_at)
        select job, node, purpose, generation, id, 0, app.now() from app.lanes where not closed""",
    "e7_children": "update app.jobs set parent = id + 1 where state = 'running'",
    "e13_due": "update app.lanes set due_at = null, ripe = false",
    "e17_events": "delete from app.events where kind = 'job.submitted'",
    "e17_states": "update app.nodes set state = 'failed' where state = 'completed'",
    "e21_sessions": "update app.claims set session = 12345",
    "e22_limits": "insert into app.limits values ('queue', 'default', 5, false, '', 'test', now())",
    "o5_remains": """
        insert into app.tombstones
        select id, job_id, identity, ordinal, scope, workflow, state, created_at, finished_at, now()
          from app.jobs where finished_at is not null""",
}  # fmt: skip

AGED = {
    "e6_late_rights": """
        insert into app.rights (job, node, purpose, generation, takes, made_at)
        select job, 'join', 'work', 9, 0, app.now() from app.lanes where not closed limit 1""",
    "e7_late_claims": "update app.jobs set state = 'cancelled', finished_at = app.now() where state = 'running'",
    "e7_left_over": "update app.jobs set state = 'cancelled', finished_at = app.now() where state = 'running'",
    "e21_sessions": "update app.sessions set dead_at = app.now()",
}


def test_every_check_is_seen_to_fail() -> None:
    assert {*BROKEN, *AGED} == set(checks())


@pytest.mark.parametrize("check", BROKEN)
def test_the_audit_finds_what_is_broken(busy: str, check: str) -> None:
    change(busy, BROKEN[check])
    assert check in found(busy)


@pytest.mark.parametrize("check", AGED)
def test_what_the_sweeper_does_may_wait_for_it(busy: str, check: str, clock: Clock) -> None:
    """It is late when the sweeper has been at work for long and has not done it; not while none was there."""
    change(busy, AGED[check])
    change(busy, "update app.lanes set closed = true")
    assert check not in found(busy)
    clock.advance(GRACE * 2)
    assert check not in found(busy), "nobody swept"
    change(busy, "insert into app.duties select 'sweeper', 1, '5 s', app.now() - interval '1 hour', app.now()")
    assert check in found(busy)


async def test_a_lane_of_a_limit_that_was_just_lifted_is_not_stuck(engine: EngineHarness, database_url: str) -> None:
    await engine.submit(fan_out(1))
    await engine.store.limit(LimitKind.QUEUE, "default", {"paused": True}, "test")
    assert await engine.claim() == []
    change(database_url, "delete from app.limits")
    assert audit(database_url) == []


async def test_jobs_that_ended_before_may_be_left_out(busy: str, clock: Clock) -> None:
    change(busy, "update app.lanes set remaining = 7 where closed")
    change(busy, "update app.claims set started_at = app.now()")
    assert found(busy) == {"e6_lane_counters"}
    clock.advance(timedelta(days=2))
    assert audit(busy, since=timedelta(days=1)) == []


def test_of_many_violations_the_first_are_reported(busy: str) -> None:
    change(busy, "insert into app.outcomes select 99999 + i, 0, 'completed', 1, 1, 0, 0, now(), now(), now()"
                 "  from generate_series(1, 500) i")  # fmt: skip
    assert len(audit(busy)) == 20


def run_command(monkeypatch: pytest.MonkeyPatch, url: str, *options: str) -> Result:
    monkeypatch.setenv("ANABRANCH_DATABASE_URL", url)
    command = typer.Typer()
    command.command()(audit_state)
    return CliRunner().invoke(command, options)


def test_the_command_is_clean_where_all_is_well(busy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    told = run_command(monkeypatch, busy)
    assert (told.exit_code, told.stdout) == (0, "ok\n")
    assert json.loads(run_command(monkeypatch, busy, "--json").stdout) == []


def test_the_command_tells_violations_with_their_job(busy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    change(busy, BROKEN["e17_states"])
    violations = sorted(audit(busy), key=str)
    told = run_command(monkeypatch, busy)
    assert isinstance(told.exception, AnabranchError)
    assert (told.exception.code, exit_code(told.exception)) == ("database.unsound", 1)
    assert sorted(told.stdout.splitlines()) == [f"{one.check}: job {one.job_id}: {one.what}" for one in violations]
    listed = json.loads(run_command(monkeypatch, busy, "--json", "--since", "1h").stdout)
    assert sorted(listed, key=str) == [
        {"check": one.check, "job_id": one.job_id, "what": one.what} for one in violations
    ]
