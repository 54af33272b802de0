"""How far tasks are, as their handlers say it: soon, together, and fenced."""

import asyncio
import time
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import psycopg
import pytest

from anabranch.api.answers.build import build_job, build_task
from anabranch.engine.model import AttemptOutput, AttemptProgress, ProgressReport
from anabranch.engine.read_models import JobDetail, TaskDetail
from tests.support.engine import EngineHarness, fan_out
from tests.support.stack import Stack, open_stack
from tests.support.waiting import PATIENCE_SECONDS, wait_until_async

pytestmark = pytest.mark.postgres
PLUGINS = str(Path(__file__).parent.parent / "data" / "plugins")
COUNT = """
    create schema counted;
    create table counted.updates (at timestamptz);
    create function counted.up() returns trigger language plpgsql security definer
        as 'begin insert into counted.updates values (clock_timestamp()); return new; end';
    create trigger counted after update of progress on app.claims for each row execute function counted.up();
"""


@pytest.fixture
async def stack(database_url: str, tmp_path: Path) -> AsyncIterator[Stack]:
    async with open_stack(database_url, tmp_path, [PLUGINS]) as opened:
        yield opened
        (tmp_path / "file").touch()


async def say(stack: Stack, folder: Path, *kinds: str) -> str:
    """A job whose tasks say something, and wait for the end of the test."""
    return await stack.submit("says", kinds=list(kinds), file=str(folder / "file"))


async def heard(stack: Stack, job_id: str, count: int) -> tuple[JobDetail, list[TaskDetail]]:
    """The job and its tasks, once so many of them were heard of."""
    job = await stack.until(job_id, lambda job: len(job.nodes[0].said) == count)
    return job, await stack.tasks(job, "say")


async def test_progress_is_seen_long_before_the_task_ends(stack: Stack, tmp_path: Path) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        job, tasks = await heard(stack, await say(stack, tmp_path, "plain", "async"), 2)
    plain, in_loop = (build_task(task).progress for task in tasks)
    assert plain is not None
    assert in_loop is not None
    assert (plain.done, plain.total, plain.message) == (1, 4, "a quarter")
    assert (in_loop.done, in_loop.total, in_loop.message) == (0.5, None, "x" * 1000)
    view = build_job(job)
    assert (view.progress, view.nodes[0].done, view.nodes[0].progress) == (0.125, 0.25, None)

    (tmp_path / "file").touch()
    ended = await stack.wait(job.job.job_id)
    assert [task.progress for task in await stack.tasks(ended, "say")] == [None, None]
    assert build_job(ended).progress == 1


async def test_lines_are_read_while_their_task_runs(stack: Stack, tmp_path: Path) -> None:
    job_id = await say(stack, tmp_path, "lines", "nothing")
    job = (await stack.gateway.reads.find(job_id)).id
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not (running := await stack.gateway.reads.logs(job, limit=10, status="running")):
            await asyncio.sleep(0.01)
    assert [(log.index, log.log) for log in running] == [(0, "one\n")]

    (tmp_path / "file").touch()
    await stack.wait(job_id)
    assert [log.log for log in await stack.gateway.reads.logs(job, limit=10)] == ["one\nbegun and ended\n"]
    assert await stack.gateway.reads.logs(job, limit=10, status="running") == []


async def test_the_progress_of_a_nodes_only_task_is_the_nodes(stack: Stack, tmp_path: Path) -> None:
    job, _ = await heard(stack, await say(stack, tmp_path, "plain"), 1)
    view = build_job(job)
    assert view.nodes[0].progress is not None
    assert (view.nodes[0].progress.message, view.progress) == ("a quarter", 0.25)


async def test_a_worker_writes_about_once_a_second_whatever_its_handlers_say(
    stack: Stack, database_url: str, tmp_path: Path
) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(COUNT)
        job_id = await say(stack, tmp_path, "much", "nothing")
        began = time.monotonic()
        await heard(stack, job_id, 1)
        written = partial(connection.execute, "select count(*) from counted.updates")
        await wait_until_async(lambda: written().fetchall()[0][0] >= 3)  # while the handler says thousands
        seconds = time.monotonic() - began
        ((updates,),) = written().fetchall()
    assert updates <= seconds + 2


async def test_e10_progress_that_is_no_number_is_a_bug_of_its_handler(stack: Stack, tmp_path: Path) -> None:
    job = await stack.wait(await say(stack, tmp_path, "nonsense"))
    assert job.job.error is not None
    assert job.job.error.code == "handler.contract"


async def test_e3_progress_and_output_need_the_whole_token_of_its_attempt(engine: EngineHarness) -> None:
    await engine.submit(fan_out(2))
    first, second = await engine.claim()
    other, pulse = await engine.new_session(), engine.store.pulse()
    said = [
        AttemptProgress(first.fence, ProgressReport(1)),
        AttemptProgress(second.fence._replace(number=2), ProgressReport(1)),
    ]
    assert pulse.progress(other, said) == set()
    assert pulse.progress(engine.session, said) == {first.key}
    printed = [AttemptOutput(one.attempt, "line\n") for one in said]
    assert pulse.keep_output(other, printed) == set()
    assert pulse.keep_output(engine.session, printed) == {first.key}
    pulse.close()
