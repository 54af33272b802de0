"""Idempotency keys (E15): one request, one job, one answer, whatever is repeated, lost or at once."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import httpx
import psycopg
import pytest

from anabranch.adapters.postgres.connect import connect
from anabranch.engine.model import JobState, SessionKind
from anabranch.engine.ports import KeyTaken
from anabranch.engine.submitting.submission import IdempotencyKey, Submission
from anabranch.errors import Unavailable
from anabranch.settings import Settings
from anabranch.testing.clock import Clock
from tests.support.application import create_app
from tests.support.engine import EngineHarness, fan_out
from tests.support.proxy import Lose, Proxy

pytestmark = pytest.mark.postgres
FLOW = """
workflow_id: flow
inputs: {n: {type: integer, min: 1, default: 1}, note: {type: string, default: none}}
nodes:
  one: {handler: echo, params: {n: "{{ inputs.n }}"}}
"""
KILL_WAITING = """
    select pg_terminate_backend(pid) from pg_stat_activity
     where wait_event = 'advisory' and datname = current_database()"""
DAY = timedelta(hours=24)
KEY = IdempotencyKey("key", "request", DAY)
ONE = Submission(fan_out(2), {}, "test", 5, rerun=False, correlation_id="c", key=KEY)


@pytest.fixture
def plugins(tmp_path: Path) -> Path:
    folder = tmp_path / "plugins"
    folder.mkdir()
    (folder / "flow.yaml").write_text(FLOW)
    return folder


@asynccontextmanager
async def serving(tmp_path: Path, url: str) -> AsyncIterator[httpx.AsyncClient]:
    app = create_app(Settings(home=tmp_path / "home", plugins=(str(tmp_path / "plugins"),)), url)
    transport = httpx.ASGITransport(app)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://localhost") as c,
    ):
        await app.state.gateway.ready()
        yield c


@pytest.fixture
async def api(tmp_path: Path, plugins: Path, database_url: str) -> AsyncIterator[httpx.AsyncClient]:
    async with serving(tmp_path, database_url) as client:
        yield client


async def post(api: httpx.AsyncClient, key: str | None, query: str = "", **parameters: object) -> httpx.Response:
    headers = {"Idempotency-Key": key} if key is not None else {}
    return await api.post(f"/api/jobs/submit/flow{query}", json=parameters, headers=headers)


def count_jobs(url: str) -> int:
    with psycopg.connect(url) as connection:
        row = connection.execute("select count(*) from app.jobs").fetchone()
    assert row
    return int(row[0])


async def test_e15_the_same_key_is_the_same_answer(api: httpx.AsyncClient) -> None:
    first = await post(api, "k", n=2)
    again = await post(api, "k", n=2)

    assert (first.status_code, again.status_code) == (202, 202)
    assert first.json() == again.json()
    assert ("idempotency-replayed" in first.headers, again.headers["idempotency-replayed"]) == (False, "true")


async def test_e15_how_a_request_is_written_makes_no_other(api: httpx.AsyncClient) -> None:
    first = await post(api, "k", "?priority=2", n=2, note="a")
    body = (
        b'{ "priority": 2, "parameters": {"note": "\\u0061", "n": 2}, "workflow": "flow", "correlation_id": "other" }'
    )
    again = await api.post(
        "/api/jobs", content=body, headers={"Idempotency-Key": "k", "Content-Type": "application/json"}
    )
    assert (again.status_code, again.json()) == (202, first.json())


@pytest.mark.parametrize(
    ("query", "given"), [("", {"n": 3}), ("?rerun=true", {}), ("?priority=1", {}), ("", {"n": "x"})]
)
async def test_e15_the_same_key_with_another_request_is_a_conflict(
    api: httpx.AsyncClient, database_url: str, query: str, given: dict[str, object]
) -> None:
    await post(api, "k")
    answer = await post(api, "k", query, **given)
    assert (answer.status_code, answer.json()["code"]) == (409, "idempotency.conflict")
    assert count_jobs(database_url) == 1


async def test_e15_under_its_key_a_failed_job_stays_the_answer(api: httpx.AsyncClient) -> None:
    first = (await post(api, "k")).json()
    await api.post(f"/api/jobs/{first['job_id']}/cancel")

    assert (await post(api, "k")).json() == first
    assert (await post(api, "new")).json()["job_id"] != first["job_id"]


async def test_e15_a_key_for_a_job_that_was_there_is_bound_to_it(api: httpx.AsyncClient) -> None:
    job = (await post(api, None)).json()["job_id"]
    found = await post(api, "k")
    await api.post(f"/api/jobs/{job}/cancel")
    again = await post(api, "k")
    assert [(one.status_code, one.json()["job_id"]) for one in (found, again)] == [(200, job)] * 2


async def test_e15_a_rerun_under_one_key_is_one_job(api: httpx.AsyncClient, database_url: str) -> None:
    await post(api, None)
    first, again = await post(api, "k", "?rerun=true"), await post(api, "k", "?rerun=true")
    assert first.json() == again.json()
    assert count_jobs(database_url) == 2


@pytest.mark.parametrize("query", ["", "?rerun=true"])
async def test_e15_a_hundred_at_once_under_one_key_are_one_job(
    api: httpx.AsyncClient, database_url: str, query: str
) -> None:
    answers = await asyncio.gather(*(post(api, "k", query) for _ in range(100)))
    assert {(answer.status_code, answer.text) for answer in answers} == {(202, answers[0].text)}
    assert count_jobs(database_url) == 1


async def test_e15_two_processes_at_once_under_one_key_make_one_job(
    tmp_path: Path, plugins: Path, database_url: str
) -> None:
    async with serving(tmp_path, database_url) as one, serving(tmp_path, database_url) as other:
        for key in map(str, range(20)):
            answers = await asyncio.gather(*(post(api, key, "?rerun=true") for api in (one, other) * 4))
            assert {(answer.status_code, answer.text) for answer in answers} == {(202, answers[0].text)}
    assert count_jobs(database_url) == 20


async def test_e15_of_two_requests_at_once_under_one_key_one_is_a_conflict(
    api: httpx.AsyncClient, database_url: str
) -> None:
    answers = await asyncio.gather(post(api, "k", n=1), post(api, "k", n=2))
    assert sorted(answer.status_code for answer in answers) == [202, 409]
    assert count_jobs(database_url) == 1


async def test_e15_a_refused_request_leaves_its_key_free(api: httpx.AsyncClient) -> None:
    assert (await post(api, "k", n=0)).status_code == 422
    assert (await post(api, "k", n=1)).status_code == 202


async def test_e15_a_workflow_that_is_gone_or_changed_changes_no_answer(api: httpx.AsyncClient, plugins: Path) -> None:
    first = await post(api, "k")
    (plugins / "flow.yaml").write_text(FLOW.replace("default: 1", "default: 7"))
    await api.post("/api/workflows/reload")
    changed = await post(api, "k")
    (plugins / "flow.yaml").unlink()
    await api.post("/api/workflows/reload")
    gone = await post(api, "k")

    assert [answer.json() for answer in (changed, gone)] == [first.json()] * 2
    assert (await post(api, "new")).status_code == 404


@pytest.mark.parametrize("key", ["", "x" * 256, "a\tb", "a\x7f", "\xe9"])
async def test_e15_a_key_that_is_none_is_refused(api: httpx.AsyncClient, key: str) -> None:
    answer = await api.post("/api/jobs/submit/flow", headers=[(b"Idempotency-Key", key.encode("latin-1"))])
    assert (answer.status_code, answer.json()["code"]) == (422, "idempotency.key")


async def test_e15_two_keys_are_refused(api: httpx.AsyncClient) -> None:
    answer = await api.post("/api/jobs/submit/flow", headers=[("Idempotency-Key", "a"), ("Idempotency-Key", "b")])
    assert answer.status_code == 422


async def test_e15_the_longest_key_is_taken(api: httpx.AsyncClient) -> None:
    assert (await post(api, "~ " * 127 + "k")).status_code == 202


@pytest.mark.parametrize("lose", [Lose.REPLY, Lose.REQUEST])
async def test_e2_e15_a_commit_whose_reply_was_lost_is_found_by_its_key(
    tmp_path: Path, plugins: Path, database_url: str, lose: Lose
) -> None:
    """The API can't know whether it was committed: it answers 503, and the caller asks again."""
    async with Proxy(database_url) as proxy, serving(tmp_path, proxy.url) as api:
        trap = proxy.lose("submit_batch", lose)
        lost = await post(api, "k", "?rerun=true")
        again = await post(api, "k", "?rerun=true")
        assert trap.sprung.is_set()
    assert (lost.status_code, again.status_code) == (503, 202)
    assert ("idempotency-replayed" in again.headers) is (lose is Lose.REPLY)
    assert count_jobs(database_url) == 1


async def test_e2_e15_a_submitter_killed_before_the_commit_leaves_neither_job_nor_key(
    engine: EngineHarness, database_url: str
) -> None:
    """What a batch did is gone as a whole when its connection is."""
    with connect(database_url, None, autocommit=False) as connection:
        connection.execute("select app.lock_key('test', 'key')")
        waiting = asyncio.create_task(engine.store.submit(ONE, engine.session))
        with psycopg.connect(database_url, autocommit=True) as admin:
            while not admin.execute(KILL_WAITING).fetchall():
                await asyncio.sleep(0.01)
        with pytest.raises(Unavailable):
            await waiting
    assert (await engine.store.submit(ONE, engine.session)).replayed is False


async def test_e15_keys_are_scoped_to_the_caller(engine: EngineHarness) -> None:
    mine = await engine.store.submit(ONE, engine.session)
    theirs = await engine.store.submit(replace(ONE, scope="theirs"), engine.session)
    assert (mine.created, theirs.created) == (True, True)
    assert mine.job_id != theirs.job_id


async def test_e15_a_key_expires_and_is_removed_in_batches(
    engine: EngineHarness, clock: Clock, database_url: str
) -> None:
    keys = [replace(KEY, text=str(number)) for number in range(5)]
    for key in keys:
        await engine.store.submit(replace(ONE, key=key), engine.session)
    clock.advance(DAY)
    again = await engine.store.submit(replace(ONE, key=replace(keys[0], request="another")), engine.session)
    assert (again.created, again.replayed) == (False, False)

    with psycopg.connect(database_url, autocommit=True) as connection:
        purge = "select app.purge_idempotency_keys(3)"
        removed = [row[0] for _ in range(3) for row in connection.execute(purge)]
        left = connection.execute("select key from app.idempotency_keys").fetchall()
    assert removed == [3, 1, 0]
    assert left == [("0",)]


async def test_e15_the_sweeper_removes_expired_keys(engine: EngineHarness, clock: Clock, database_url: str) -> None:
    await engine.store.submit(replace(ONE, key=replace(KEY, keep=timedelta(seconds=1))), engine.session)
    await engine.let_pass(clock, timedelta(seconds=5))
    with psycopg.connect(database_url) as connection:
        assert connection.execute("select count(*) from app.idempotency_keys").fetchone() == (0,)


async def test_e15_a_batch_answers_each_in_order_as_if_all_came_at_once(engine: EngineHarness) -> None:
    def ask(number: int, key: str | None = None, *, rerun: bool = False) -> Submission:
        named = IdempotencyKey(key, str((number, rerun)), DAY) if key else None
        return replace(ONE, parameters={"n": number}, key=named, rerun=rerun)

    asked = [ask(1), ask(1), ask(2, "a"), ask(2, "a"), ask(2, "b", rerun=True), ask(3, "c"), ask(4, "c")]
    answers = await engine.store.submit_batch(asked, engine.session)

    told = [None if isinstance(one, KeyTaken) else (one.created, one.replayed) for one in answers]
    assert told[:5] == [(True, False), (False, False), (True, False), (True, True), (True, False)]
    assert sorted(map(str, told[5:])) == ["(True, False)", "None"], "of two requests under one key, either may be first"


async def test_e2_batches_that_meet_in_opposite_orders_never_wait_in_a_circle(engine: EngineHarness) -> None:
    """The same jobs and keys, each batch with another order of both."""
    for round_ in range(20):
        asked = [
            replace(
                ONE, parameters={"round": round_, "n": n}, key=IdempotencyKey(f"{round_}.{(7 * n) % 30}", str(n), DAY)
            )
            for n in range(30)
        ]
        batches = [asked, asked[::-1], asked[1::2] + asked[::2], asked[15:] + asked[:15]]
        answers = await asyncio.gather(*(engine.store.submit_batch(batch, engine.session) for batch in batches))
        jobs = {one.job_id for batch in answers for one in batch if not isinstance(one, KeyTaken)}
        assert len(jobs) == 30


async def test_e2_a_submission_that_begins_is_running_when_it_is_committed(engine: EngineHarness) -> None:
    submitted = await engine.store.submit(replace(ONE, begins=True), engine.session)
    assert (submitted.state, submitted.rights) == (JobState.RUNNING, ())
    assert len(await engine.claim(5)) == 2


async def test_e2_a_job_of_a_session_that_ended_is_started_by_others(engine: EngineHarness) -> None:
    other = await engine.store.open_session(SessionKind.API, [], 0, timedelta(seconds=60))
    await engine.store.end_session(other, "gone")
    submitted = await engine.store.submit(ONE, other)
    taken = await engine.store.take_rights(engine.session, 10)
    assert [right.id for right in taken] == [right.id for right in submitted.rights]
