"""Orchestrators die, or there is none; rights are taken over, and the backlog drains."""

import time
from functools import partial

import pytest

from anabranch.testing.crew import Stage, until_async

pytestmark = pytest.mark.postgres


async def test_e6_orchestrators_killed_while_jobs_advance(stage: Stage) -> None:
    await stage.crew.start_ready("worker", "orchestrator", "orchestrator")
    jobs = [await stage.submit("chain", run=run) for run in range(8)]
    jobs.append(await stage.submit("mixed", quick=100, plain=40, heavy=4))
    for _ in range(6):
        stage.crew.alive("orchestrator")[0].kill()
        before = ended(stage)
        stage.crew.start("orchestrator")
        await until_async(partial(has_moved, stage, before), 30)
    await stage.finish(*jobs)
    assert stage.query("select count(*) from app.outcomes") == [(8 * 60 + 144 + 2,)]


def ended(stage: Stage) -> int:
    ((count,),) = stage.query("select count(*) from app.jobs where state = 'completed'")
    return int(count)


async def test_e21_with_no_orchestrator_work_goes_on_and_what_died_comes_back_with_one(stage: Stage) -> None:
    (worker,) = await stage.crew.start_ready("worker")
    await stage.finish(await stage.submit("chain"))
    file = stage.folder / "file"
    second = await stage.submit("steady", count=2, file=str(file))
    await until_async(lambda: len(stage.noted("began")) == 2)
    worker.kill()
    file.touch()
    await stage.crew.start_ready("worker")
    third = await stage.submit("chain", run=3)
    await stage.complete(third)
    assert (await stage.job(second)).nodes[0].running == 2
    began = time.monotonic()
    await stage.crew.start_ready("orchestrator")
    await stage.finish(second)
    assert time.monotonic() - began < 30


def has_moved(stage: Stage, before: int) -> bool:
    return ended(stage) > before or ended(stage) == 9
