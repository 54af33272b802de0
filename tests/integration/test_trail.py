"""A job's events are its audit: they say who did what (P7), and what was tried in vain."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from anabranch.access import KeyRequest, Scope
from anabranch.adapters.postgres.schema.files import Files
from anabranch.adapters.postgres.schema.migrate import migrate
from anabranch.adapters.postgres.store.keys import open_keys
from anabranch.api.answers.build import build_event
from anabranch.canonical import Json
from anabranch.client import Event
from anabranch.contract.answer import read
from anabranch.engine import model
from anabranch.engine.job_retry import RetryPlan
from anabranch.engine.model import Ended, NodeState, Report
from anabranch.settings import Settings
from anabranch.testing.clock import Clock
from tests.support.application import create_app
from tests.support.engine import EngineHarness, fan_out, open_harness
from tests.support.interleave import call, open_connections, pin
from tests.support.small_schema import make_folded
from tests.support.stack import open_stack
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.postgres
BASE = "http://anabranch.example"
PEOPLE = ("ann", "bob", "eve")
HANDLER = """
from anabranch import register_handler

@register_handler("do")
def do(params):
    return {}
"""
ASK = """
workflow_id: ask
inputs: {by: {type: string, default: nobody}}
nodes:
  gate: {type: gate}
  then: {handler: do, depends_on: gate}
"""
Events = list[dict[str, Any]]  # as the API tells them


@pytest.fixture
async def api(tmp_path: Path, database_url: str) -> AsyncIterator[httpx.AsyncClient]:
    plugins = tmp_path / "plugins"
    plugins.mkdir()
    (plugins / "do.py").write_text(HANDLER)
    (plugins / "ask.yaml").write_text(ASK)
    app = create_app(Settings(home=tmp_path / "home", plugins=(str(plugins),), auth="keys"), database_url)
    transport = httpx.ASGITransport(app)
    async with app.router.lifespan_context(app), httpx.AsyncClient(transport=transport, base_url=BASE) as client:
        await app.state.gateway.ready()
        yield client


@pytest.fixture
async def people(database_url: str) -> dict[str, dict[str, str]]:
    """What each of them sends to be known."""
    async with open_keys(database_url) as keys:
        made = {name: await keys.make(KeyRequest(name, Scope.OPERATE, "acme"), "a test") for name in PEOPLE}
    return {name: {"Authorization": f"Bearer {credential.text}"} for name, (_, credential) in made.items()}


def known(name: str, sent: dict[str, str]) -> str:
    """How events call the holder of a key: two may have one name, and no two keys have one id."""
    return f"acme/{name} ({sent['Authorization'].split('_')[1]})"


async def test_p7_events_say_who_submitted_signalled_cancelled_and_retried(
    api: httpx.AsyncClient, engine: EngineHarness, people: dict[str, dict[str, str]]
) -> None:
    """By the key that was sent: whatever a body says of `by` is data."""
    ann, bob, eve = people.values()
    submitted = await api.post("/api/jobs", json={"workflow": "ask", "parameters": {"by": "root"}}, headers=ann)
    path = f"/api/jobs/{submitted.json()['job_id']}"
    assert (await api.post(f"{path}/cancel", json={"reason": "not now"}, headers=bob)).status_code == 200
    assert (await api.post(f"{path}/retry", json={}, headers=eve)).status_code == 202
    assert (await api.post(f"{path}/signal/gate", json={"by": "root"}, headers=bob)).status_code == 200
    await fail(engine)
    answer = await api.post("/api/dead-letters/replay", json={"workflow": "ask"}, headers=ann)
    assert [one["replayed"] for one in answer.json()] == [True]

    events: Events = (await api.get(f"{path}/events", headers=ann)).json()["items"]

    told = [(read(Event, event).by, event["kind"]) for event in events if event["by"]]
    assert told == [
        (known("ann", ann), "job.submitted"),
        (known("bob", bob), "job.cancelled"),
        (known("eve", eve), "job.retried"),
        (known("bob", bob), "gate.signalled"),
        (known("ann", ann), "job.retried"),
    ]
    data = {event["kind"]: event["data"] for event in events}
    assert (data["job.cancelled"]["message"], data["node.completed"]) == ("not now", {"by": "root"})
    assert (data["job.submitted"], data["gate.signalled"]) == (
        {"ordinal": 0, "scope": "operate"},
        {"payload": {"by": "root"}},
    )


def test_the_data_of_an_event_keeps_its_order() -> None:
    data: dict[str, Json] = {"by": "ann", **{f"key {number}": number for number in range(20)}}
    shown = build_event(model.Event(1, 1, datetime.now(UTC), "job.cancelled", None, data)).data
    assert isinstance(shown, dict)
    assert list(shown) == [key for key in data if key != "by"]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/jobs/bulk", '{"workflow": "ask"}\n'),
        ("/api/jobs/submit/ask", "{}"),
        ("/ogc/processes/ask/execution", '{"inputs": {}}'),
    ],
)
async def test_p7_a_job_says_who_submitted_it_and_what_they_may_do(
    api: httpx.AsyncClient, people: dict[str, dict[str, str]], path: str, body: str
) -> None:
    kind = "application/x-ndjson" if path.endswith("bulk") else "application/json"
    answer = (await api.post(path, content=body, headers={**people["ann"], "Content-Type": kind})).json()
    job_id = answer.get("job_id") or answer["jobID"]
    events = (await api.get(f"/api/jobs/{job_id}/events", headers=people["bob"])).json()["items"]
    assert (events[0]["by"], events[0]["data"]["scope"]) == (known("ann", people["ann"]), "operate")


async def fail(engine: EngineHarness) -> None:
    """Let the next task fail for good."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not (found := await engine.claim(1)):
            await asyncio.sleep(0.02)
    _, rights = await engine.end(found, Ended.FAILED)
    await engine.advance(rights)


async def repeats(engine: EngineHarness, job_id: str) -> list[tuple[str | None, dict[str, Any]]]:
    """What the job's events tell of attempts that did not end their task."""
    job = await engine.reads.find(job_id)
    return [(event.node, event.data) for event in await engine.reads.events(job.id) if event.kind == "tasks.repeated"]


MANY = """
insert into app.attempts
select 7 + i % 2, i / 2, 1, 1, 'failed', now(), now(), now(),
       jsonb_build_object('code', 'x', 'message', repeat('long', 50))
  from generate_series(0, 9999) i;
insert into app.attempts
select 7, i, 2, 1, 'failed', now(), now(), now() + interval '1 s',
       jsonb_build_object('code', 'task.silent', 'message', i::text)
  from generate_series(0, 4999) i;
insert into app.attempts select 8, 1, 2, 1, 'handed_back', now(), now(), now() + interval '9 s', null;
"""


async def test_ten_failures_of_a_node_are_one_event_while_it_runs_and_one_at_its_end(engine: EngineHarness) -> None:
    job_id = (await engine.submit(fan_out(10))).job_id
    await engine.end(await engine.claim(), Ended.RETRY, {"code": "handler.transient", "message": "busy"})
    await engine.sweep()
    await engine.sweep()
    ((node, told),) = await repeats(engine, job_id)
    assert (node, told["attempts"], told["tasks"], told["failed"]) == ("work", 10, 10, 10)
    assert told["error"] == {"code": "handler.transient", "message": "busy"}
    assert told["message"] == "tried again: 10 attempts, of 10 tasks (10 failed); the last: busy"

    first, *rest = await engine.claim()
    await engine.end([first], Ended.CRASHED, {"code": "handler.crashed", "message": "SIGSEGV"})
    await engine.sweep()
    await engine.finish([*rest, *await engine.claim()])

    _, (_, summed) = await repeats(engine, job_id)
    assert (summed["attempts"], summed["tasks"], summed["failed"], summed["crashed"]) == (11, 10, 10, 1)
    assert await engine.nodes(job_id) == {"work": NodeState.COMPLETED, "join": NodeState.RUNNING}


async def test_what_is_told_already_is_not_told_again(engine: EngineHarness) -> None:
    job_id = (await engine.submit(fan_out(1))).job_id
    await engine.end(await engine.claim(), Ended.RETRY, {"code": "task.timed_out", "message": "it ran longer than 1 s"})
    await engine.sweep()
    await engine.finish(await engine.claim())
    ((_, told),) = await repeats(engine, job_id)
    assert told["message"] == "tried again: 1 attempt, of 1 task (1 timed out); the last: it ran longer than 1 s"


async def test_two_sweepers_that_meet_tell_each_lane_once_and_wait_for_none(
    engine: EngineHarness, database_url: str
) -> None:
    """A report holds the first lane; there are more lanes than the server reads ahead."""
    jobs = [(await engine.submit(fan_out(1), run=run)).job_id for run in range(12)]
    claims = await engine.claim()
    await engine.end(claims, Ended.RETRY)
    held = pin("lane", "lanes", f"id = {min(claim.key.lane for claim in claims)}")
    sweepers = [call(name, "record_repeats", 100, 0, 2**62) for name in ("first", "second")]
    async with open_connections(database_url, 3) as connections:
        run = await connections.run([held, *sweepers], (0, 1, 2, 2, 0, 1))
    assert run.story == ["second: committed", "pin lane: committed", "first: committed"]
    assert [len(await repeats(engine, job_id)) for job_id in jobs] == [0] + [1] * 11

    await engine.sweep()
    assert [len(await repeats(engine, job_id)) for job_id in jobs] == [1] * 12


def test_counting_repeats_keeps_no_row_in_mind(database_url: str) -> None:
    """However many attempts there were: what a count would spill, it would read and write under the job's row."""
    with psycopg.connect(database_url) as database:
        database.execute(MANY)
        database.execute("set work_mem = '64kB'; set temp_file_limit = 0")
        ((told,),) = database.execute("select app.count_repeats('{7, 8}')").fetchall()
    counted = "15000 attempts, of 10000 tasks (10000 failed, 5000 timed out)"
    assert told["message"] == f"tried again: {counted}; the last: 4999"
    assert told["error"] == {"code": "task.silent", "message": "4999"}
    assert (told["attempts"], told["tasks"], told["failed"], told["timed_out"]) == (15_000, 10_000, 10_000, 5_000)


async def test_a_node_that_ends_before_a_sweep_tells_of_its_failures_first(engine: EngineHarness) -> None:
    job_id = (await engine.submit(fan_out(2))).job_id
    await engine.end(await engine.claim(1), Ended.RETRY)
    await engine.store.cancel(job_id, "test")
    await engine.sweep()
    job = await engine.reads.find(job_id)
    kinds = [(event.kind, event.node) for event in await engine.reads.events(job.id)]
    assert kinds[-4:] == [
        ("tasks.repeated", "work"),
        ("node.cancelled", "work"),
        ("node.cancelled", "join"),
        ("job.cancelled", None),
    ]


async def test_a_worker_that_died_is_told_and_one_that_stopped_is_not(engine: EngineHarness, clock: Clock) -> None:
    job_id = (await engine.submit(fan_out(1))).job_id
    reports = [Report(claim.fence, Ended.HANDED_BACK) for claim in await engine.claim()]
    await engine.store.report(engine.session, reports)
    await engine.sweep()
    assert await repeats(engine, job_id) == []

    other = await engine.new_session()
    await engine.claim(session=other)
    await engine.let_pass(clock, timedelta(seconds=90))
    ((_, told),) = await repeats(engine, job_id)
    assert (told["lost"], told["error"]["code"]) == (1, "worker.died")


async def test_a_retry_of_a_job_tells_of_its_own_failures_only(engine: EngineHarness) -> None:
    job_id = (await engine.submit(fan_out(1))).job_id
    await engine.end(await engine.claim(), Ended.RETRY)
    _, rights = await engine.end(await engine.claim(), Ended.FAILED)
    await engine.advance(rights)
    job = await engine.reads.find(job_id)
    again = RetryPlan(("work", "join"), frozenset({"work"}))
    verdict = await engine.store.retry(job_id, job.last_event, again, engine.session)
    assert verdict.right
    await engine.advance([verdict.right])
    await engine.finish(await engine.claim())
    assert [told["attempts"] for _, told in await repeats(engine, job_id)] == [1]


FAILING = """
from anabranch import Permanent, register_handler

def break_here(kind):
    password = "hunter2"
    print("before", kind)
    raise ValueError(f"{kind} is broken at postgresql://me:{password}@db/x")

async def wait(params, ctx):
    break_here("waiting")

def run(params, ctx):
    break_here(ctx.node_id)

for name, kind in (("heavy", {"heavy": True}), ("quick", {"quick": True}), ("child", {})):
    globals()[name] = register_handler(name, **kind)(lambda params, ctx: run(params, ctx))
waiting = register_handler("waiting")(wait)
"""
FAILS = """
workflow_id: fails
nodes:
  waiting: {handler: waiting, on_failure: continue}
  child: {handler: child, on_failure: continue}
  heavy: {handler: heavy, on_failure: continue}
  quick: {handler: quick, on_failure: continue}
"""


async def test_s5_the_log_of_an_attempt_says_where_its_handler_failed_wherever_it_ran(
    database_url: str, tmp_path: Path
) -> None:
    plugins = tmp_path / "plugins"
    plugins.mkdir()
    (plugins / "failing.py").write_text(FAILING)
    (plugins / "fails.yaml").write_text(FAILS)
    async with open_stack(database_url, tmp_path / "home", [str(plugins)]) as stack:
        job = await stack.run("fails")
        reads = stack.gateway.reads
        logs = await reads.logs(job.job.id, limit=10, after=None, node=None, index=None, attempt=None)
        errors = [task.error for node in job.nodes for task in await stack.tasks(job, node.name)]
    assert sorted(log.node for log in logs) == ["child", "heavy", "quick", "waiting"]
    for log in logs:
        told = log.log or ""
        assert "in break_here\n    raise ValueError(" in told
        assert told.endswith(f"ValueError: {log.node} is broken at postgresql://me:***@db/x\n")
        assert "anabranch/engine" not in told
        assert told.startswith("before" if log.node in ("child", "heavy") else "Traceback")
    assert all(error and "Traceback" not in str(error) and "hunter2" not in str(error) for error in errors)


BEFORE = """
insert into app.workflows (hash, workflow, definition, created_at) values ('h', 'old', '{}', now());
insert into app.jobs (job_id, identity, ordinal, scope, platform, workflow, workflow_hash, parameters, priority, state,
                      generation, correlation_id, last_event, created_at)
values ('ab', 'ab', 0, 'default', 'default', 'old', 'h', '{}', 5, 'running', 0, 'c', 2, now());
insert into app.nodes (job, name, position, state, generation, opened_at) values (1, 'work', 1, 'running', 0, now());
insert into app.events
values (1, 1, now(), 'job.submitted', null, '{"ordinal": 0}'),
       (1, 2, now(), 'gate.signalled', 'gate', '{"payload": {"by": "eve"}, "sender": "acme/ann"}');
insert into app.lanes (job, node, purpose, generation, queue, priority, handler, with_parameters, policy, width,
                       next_index, running, remaining, failed, tolerated, closed, opened_at, served_at, itemized, ripe)
values (1, 'work', 'work', 0, 'default', 5, 'do', false, '{}', 2, 1, 0, 2, 0, 0, false, now(), now(), false, true);
insert into app.attempts values (1, 0, 1, 1, 'crashed', now(), now(), now(), '{"code": "handler.crashed"}');
insert into app.due values (1, 0, 1, 0, 1, now(), now());
"""


async def test_o4_jobs_of_a_database_from_before_the_baseline_have_their_history(
    empty_database_url: str, tmp_path: Path
) -> None:
    """What happened before is shown as far as it was kept; what happens now is shown whole."""
    make_folded(empty_database_url, tmp_path, Files().folded[-1])
    with psycopg.connect(empty_database_url) as database:
        database.execute(BEFORE)
    migrate(empty_database_url)

    async with open_harness(empty_database_url) as engine:
        await engine.end(await engine.claim(1), Ended.RETRY)
        await engine.sweep()
        await engine.store.cancel("ab", "test", "acme/bob")
        events = await engine.reads.events(1)
    assert [(event.kind, event.by) for event in events] == [
        ("job.submitted", None),
        ("gate.signalled", "acme/ann"),
        ("tasks.repeated", None),
        ("node.cancelled", None),
        ("job.cancelled", "acme/bob"),
    ]
    assert events[2].data["attempts"] == 2
