"""Orchestrators die, or there is none; rights are taken over, and the backlog drains (E6, E21)."""

import time

import pytest

from tests.support.crew import Stage, until_async

pytestmark = pytest.mark.postgres
LEASE = 3.0
SWEEP = 5.0


async def test_e6_orchestrators_killed_while_jobs_advance(stage: Stage) -> None:
    await stage.crew.start_ready("worker", "orchestrator", "orchestrator")
    jobs = [await stage.submit("chain", run=run) for run in range(8)]
    jobs.append(await stage.submit("mixed", quick=100, plain=40, heavy=4))
    for kill in range(1, 6):
        await until_async(lambda kill=kill: count_events(stage) > 40 * kill)  # type: ignore[misc]  # a bound variable
        stage.crew.alive("orchestrator")[0].kill()
        stage.crew.start("orchestrator")
    await stage.finish(*jobs)
    assert stage.query("select count(*) from app.outcomes") == [(8 * 60 + 144 + 2,)]


def count_events(stage: Stage) -> int:
    ((count,),) = stage.query("select count(*) from app.events")
    return int(count)


@pytest.mark.slow
async def test_e21_with_no_orchestrator_work_goes_on_and_what_died_comes_back_with_one(stage: Stage) -> None:
    (worker,) = await stage.crew.start_ready("worker")
    await stage.finish(await stage.submit("chain"))
    file = stage.folder / "file"
    held = await stage.submit("steady", count=2, file=str(file))
    await until_async(lambda: len(stage.noted("began")) == 2)
    worker.kill()
    file.touch()
    await stage.crew.start_ready("worker")
    await stage.complete(await stage.submit("chain", run=2))
    assert (await stage.job(held)).nodes[0].tasks.running == 2
    began = time.monotonic()
    await stage.crew.start_ready("orchestrator")
    await stage.finish(held)
    assert time.monotonic() - began < 2 * (LEASE + SWEEP) + 10
