"""Workers are killed at every moment; each task is accepted once, with the right result (E21)."""

import pytest

from anabranch.canonical import Json
from tests.support.crew import Stage, until_async

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
    job = await stage.finish(job_id, seconds=120)
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
    await until_async(lambda: stage.query("select count(*) from app.claims where started_at is not null") == [(2,)])
    worker.kill()
    before = len(stage.noted("beat"))
    await stage.crew.start_ready("worker")
    assert len(stage.noted("beat")) - before < 4, "its children went on"
    await until_async(lambda: len(stage.noted("began")) == 4, 30, "the next attempts")
    file.touch()
    job = await stage.finish(job_id)
    tasks = await stage.tasks(job, "beat")
    assert [(task.result, task.attempts, task.failures, task.crashes) for task in tasks] == [(2, 2, 0, 1)] * 2
