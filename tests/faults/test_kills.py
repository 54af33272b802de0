"""Processes are killed while jobs run; each task is accepted once, and what they held is taken over (E6, E21)."""

import pytest

from anabranch.canonical import Json
from anabranch.engine.model import JobState
from tests.support.crew import Stage
from tests.support.waiting import wait_until_async

pytestmark = pytest.mark.postgres


@pytest.mark.slow
async def test_e21_workers_killed_again_and_again_lose_and_double_nothing(stage: Stage) -> None:
    await kill_workers(stage, kills=3, quick=390, plain=50, heavy=10, **{"async": 50})


@pytest.mark.slow
async def test_e21_many_more_workers_killed_lose_and_double_nothing(stage: Stage) -> None:
    await kill_workers(stage, kills=10, quick=1500, plain=250, heavy=50, **{"async": 200})


async def kill_workers(stage: Stage, kills: int, **kinds: int) -> None:
    """Kill a worker, and start another in its place, each time that so many more tasks have ended."""
    await stage.crew.start_ready("orchestrator", "worker", "worker")
    count = sum(kinds.values())
    job_id = await stage.submit("mixed", pause=0.05, **kinds)
    for kill in range(1, kills + 1):
        await stage.reach(job_id, count * kill // (kills + 2))
        stage.crew.alive("worker")[0].kill()
        stage.crew.start("worker")
    job = await stage.finish(job_id)
    total: Json = {"count": count, "sum": sum(n * n for n in range(count))}
    assert job.job.result == {"add": total}
    tasks = await stage.tasks(job, "work")
    assert [(task.index, task.failures) for task in tasks] == [(n, 0) for n in range(count)]
    # What was accepted is the work of the attempt that is named, and the others were not lost in silence.
    ended = {(index, attempt) for node, index, attempt, *_ in stage.noted("ended") if node == "work"}
    assert {(str(task.index), str(task.attempts)) for task in tasks} <= ended


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["async", "plain", "heavy"])
async def test_e21_a_task_whose_worker_was_killed_amid_it_runs_again_alone(stage: Stage, kind: str) -> None:
    (worker, _) = await stage.crew.start_ready("worker", "orchestrator")
    file = stage.folder / "file"
    job_id = await stage.submit("steady", count=2, file=str(file), kind=kind)
    await wait_until_async(
        lambda: stage.query("select count(*) from app.claims where started_at is not null") == [(2,)]
    )
    worker.kill()
    before = len(stage.noted("beat"))
    await stage.crew.start_ready("worker")
    assert len(stage.noted("beat")) - before < 4, "its children went on"
    await wait_until_async(lambda: len(stage.noted("began")) == 4, "the next attempts")
    file.touch()
    job = await stage.finish(job_id)
    tasks = await stage.tasks(job, "beat")
    assert [(task.result, task.attempts, task.failures, task.crashes) for task in tasks] == [(2, 2, 0, 1)] * 2


LEASE = 3.0
SWEEP = 5.0


@pytest.mark.slow
async def test_e6_orchestrators_killed_while_jobs_advance(stage: Stage) -> None:
    await stage.crew.start_ready("worker", "orchestrator", "orchestrator")
    jobs = [await stage.submit("chain", run=run) for run in range(8)]
    jobs.append(await stage.submit("mixed", quick=100, plain=40, heavy=4))
    for kill in range(1, 6):
        await wait_until_async(lambda kill=kill: count_events(stage) > 40 * kill)  # type: ignore[misc]  # a bound variable
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
    await wait_until_async(lambda: len(stage.noted("began")) == 2)
    worker.kill()
    file.touch()
    await stage.crew.start_ready("worker")
    await stage.complete(await stage.submit("chain", run=2))
    assert (await stage.job(held)).nodes[0].tasks.running == 2
    await stage.crew.start_ready("orchestrator")
    await stage.finish(held)


@pytest.mark.slow
async def test_e21_child_jobs_survive_the_death_of_every_process(stage: Stage) -> None:
    count = 60
    await stage.crew.start_ready("orchestrator", "worker", "worker")
    job_id = await stage.submit("family", items=list(range(count)))
    for kill in range(1, 4):
        await stage.reach(job_id, count * kill // 5)
        for role in ("worker", "orchestrator"):
            stage.crew.alive(role)[0].kill()
            stage.crew.start(role)
    job = await stage.finish(job_id)
    assert job.job.result == {"total": sum(n * n for n in range(count)), "count": count}
    assert stage.query("select count(*), count(distinct scope) from app.jobs where parent is not null") == [
        (count, count)
    ]


async def test_e7_no_child_outlives_its_parent(stage: Stage) -> None:
    await stage.crew.start_ready("orchestrator", "worker")
    job_id = await stage.submit("family", items=list(range(20)), pause=30)
    await wait_until_async(lambda: stage.query("select count(*) > 1 from app.children") == [(True,)])
    await stage.gateway.controls.cancel(job_id, "test", "test")
    assert stage.query("select distinct state::text from app.jobs") == [(str(JobState.CANCELLED),)]
    await wait_until_async(lambda: stage.query("select count(*) from app.children") == [(0,)], "the end of every child")
