"""What attempts save for the next one, and when it is refused."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import psycopg
import pytest

from anabranch.canonical import Json
from anabranch.engine.model import Checkpoint, Claim, Ended, JobState
from anabranch.engine.read_models import TaskDetail
from anabranch.job_control import RetryChoice
from tests.support.engine import EngineHarness, fan_out
from tests.support.stack import Stack, open_stack
from tests.support.waiting import wait_until_async

pytestmark = pytest.mark.postgres
PLUGINS = str(Path(__file__).parent.parent / "data" / "plugins")
SLOW = """
    create schema slow;
    grant usage on schema slow to public;
    create function slow.down() returns trigger language plpgsql as 'begin perform pg_sleep(2.5); return new; end';
    create trigger slow before insert on app.checkpoints for each row execute function slow.down();
"""


async def acts(stack: Stack, *acts: str, **more: Json) -> list[TaskDetail]:
    """The tasks that came of these acts."""
    return await stack.tasks(await stack.run("saves", acts=list(acts), **more), "act")


async def save(engine: EngineHarness, claim: Claim, phase: str, number: int = 1, *, attempt: int = 1) -> bool:
    session = engine.session
    return await engine.store.checkpoint(
        session, claim.fence._replace(number=attempt), number, phase, '{"phase": "it"}'
    )


@pytest.mark.parametrize("kind", ["plain", "async"])
async def test_w5_the_last_checkpoint_is_what_the_next_attempt_goes_on_from(stack: Stack, kind: str) -> None:
    (task,) = await acts(stack, f"{kind} and fail")
    assert (task.attempts, task.result) == (3, ["phase 2", {"at": [2, 0.5]}, 2])
    assert task.metadata == {"act": "and fail"}, "what the planner noted is shown"


async def test_the_newest_checkpoint_of_a_task_is_shown(engine: EngineHarness) -> None:
    job = await engine.reads.find((await engine.submit(fan_out(2))).job_id)
    (claim, _) = await engine.claim(2)
    assert await save(engine, claim, "first")
    assert await save(engine, claim, "second", 2)
    seen = await engine.reads.tasks(job.id, limit=9, after=None, node=None, status=None)
    assert [task.checkpoint and (task.checkpoint.phase, task.checkpoint.attempt) for task in seen] == [
        ("second", 1),
        None,
    ]


async def test_w5_a_first_attempt_resumes_from_nothing_and_sees_its_own_checkpoints(stack: Stack) -> None:
    tasks = await acts(stack, "plain nothing", "async nothing", "plain twice", "plain from a thread")
    assert [task.result for task in tasks] == [None, None, ["second", "text", 1], ["in a thread", 1, 1]]


async def test_e10_what_can_not_be_a_checkpoint_is_a_bug_of_its_handler(stack: Stack) -> None:
    bad = (
        "plain too much",
        "plain nameless",
        "plain nonsense",
        "quick it",
        "async and forget",
        "async forget and go on",
    )
    errors = [task.error for task in await acts(stack, *bad)]
    assert {str(error and error.code) for error in errors} == {"handler.contract"}
    said = [str(error and error.message) for error in errors]
    assert "64000" in said[0]
    assert "quick=True" in said[3]
    assert "await" in said[4]


async def test_a_thread_that_a_handler_leaves_saves_for_its_own_task_or_not_at_all(stack: Stack) -> None:
    tasks = await acts(stack, *["plain from a thread that is left", "plain nothing"] * 10)
    assert [task.status for task in tasks] == ["completed"] * 20
    assert [task.result for task in tasks[1::2]] == [None] * 10


async def test_e3_a_checkpoint_of_an_attempt_that_was_taken_away_changes_nothing_and_stops_it(
    stack: Stack, database_url: str, tmp_path: Path
) -> None:
    async with standing(stack, tmp_path) as job_id:
        with psycopg.connect(database_url) as connection:
            connection.execute(
                "select app.release(jsonb_agg(to_jsonb(c) || jsonb_build_object('ended', 'lost'))) from app.claims c"
            )
    job = await stack.wait(job_id)
    (task,) = await stack.tasks(job, "act")
    assert (task.attempts, task.failures, task.result) == (2, 0, ["before", None, 1])
    await wait_until_async((tmp_path / "file.told").exists)
    assert (tmp_path / "file.told").read_text() == "True"


async def test_e7_a_checkpoint_of_a_cancelled_task_changes_nothing_and_stops_it(
    stack: Stack, database_url: str, tmp_path: Path
) -> None:
    async with standing(stack, tmp_path) as job_id:
        await stack.gateway.controls.cancel(job_id, "test", "test")
    await wait_until_async((tmp_path / "file.told").exists)
    with psycopg.connect(database_url) as connection:
        assert connection.execute("select phase from app.checkpoints").fetchall() == [("before",)]


@asynccontextmanager
async def standing(stack: Stack, folder: Path) -> AsyncIterator[str]:
    """A job whose handler has saved a checkpoint, and saves another at the end of this."""
    job_id = await stack.submit("saves", acts=["plain when told"], file=str(folder / "file"))
    await wait_until_async((folder / "file.saved").exists)
    yield job_id
    (folder / "file").touch()


async def test_w3_an_async_handler_saves_when_the_worker_stops_and_is_handed_back(
    database_url: str, tmp_path: Path
) -> None:
    async with open_stack(database_url, tmp_path, [PLUGINS]) as first:
        job_id = await first.submit("saves", acts=["async when told"], file=str(tmp_path / "file"))
        await wait_until_async((tmp_path / "file.saved").exists)
    async with open_stack(database_url, tmp_path, [PLUGINS]) as second:
        job = await second.wait(job_id)
        (task,) = await second.tasks(job, "act")
    assert (task.attempts, task.failures, task.result) == (2, 0, ["attempt 2", None, 2])


async def test_w5_a_retry_in_a_new_generation_goes_on_from_the_checkpoint_of_what_failed(stack: Stack) -> None:
    failed = await stack.run("saves_in_silence", act="and break")
    assert failed.job.state is JobState.FAILED
    await stack.gateway.controls.retry(failed.job.job_id, RetryChoice(), "test")
    (task,) = await stack.tasks(await stack.wait(failed.job.job_id), "act")
    assert (task.status, task.attempts, task.result) == ("completed", 2, ["half", 7, 1])


async def test_e9_a_handler_that_stops_though_nobody_told_it_is_charged(stack: Stack) -> None:
    (task,) = await acts(stack, "plain and stop")
    assert (task.status, task.failures) == ("failed", 3)
    assert task.error is not None
    assert task.error.code == "handler.interrupted"


async def test_e8_a_handler_that_waits_for_its_checkpoint_is_not_silent(stack: Stack, database_url: str) -> None:
    with psycopg.connect(database_url) as connection:
        connection.execute(SLOW)
    job = await stack.run("saves_in_silence", act="twice")
    assert [task.result for task in await stack.tasks(job, "act")] == [["second", "text", 1]]


async def test_e3_a_checkpoint_needs_the_whole_token_of_its_attempt(engine: EngineHarness) -> None:
    await engine.submit(fan_out(1))
    (claim,) = await engine.claim()
    other = await engine.new_session()
    assert not await save(engine, claim, "older", attempt=0)
    assert not await engine.store.checkpoint(other, claim.fence, 1, "other", "null")
    assert await save(engine, claim, "mine")
    await engine.end([claim], Ended.HANDED_BACK)
    assert not await save(engine, claim, "late", number=2)

    (again,) = await engine.claim()
    assert (claim.checkpoint, again.checkpoint) == (None, Checkpoint("mine", {"phase": "it"}, 1))
    assert await save(engine, again, "next", attempt=2)


async def test_e12_a_checkpoint_that_comes_late_or_twice_takes_no_later_ones_place(engine: EngineHarness) -> None:
    await engine.submit(fan_out(1))
    (claim,) = await engine.claim()
    for number, phase in ((1, "first"), (2, "second"), (2, "second"), (1, "first")):
        assert await save(engine, claim, phase, number)
    await engine.end([claim], Ended.HANDED_BACK)
    (again,) = await engine.claim()
    assert again.checkpoint == Checkpoint("second", {"phase": "it"}, 1)


async def test_a_checkpoint_that_the_database_refuses_is_a_failure_that_is_tried_again(
    stack: Stack, database_url: str
) -> None:
    with psycopg.connect(database_url) as connection:
        connection.execute("alter table app.checkpoints add check (phase <> 'second')")
    (task,) = await acts(stack, "plain twice")
    assert (task.failures, task.error and task.error.code) == (3, "task.checkpoint_refused")
