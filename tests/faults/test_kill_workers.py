"""Workers die in every way and at every moment; each task is accepted once, with the right result."""

import pytest

from anabranch.testing.crew import Stage, has_completed, until_async

pytestmark = pytest.mark.postgres


async def test_e21_workers_killed_again_and_again_lose_and_double_nothing(stage: Stage) -> None:
    await kill_workers(stage, kills=3, quick=380, plain=60, heavy=10, **{"async": 50})


async def kill_workers(stage: Stage, kills: int, **kinds: int) -> None:
    """Kill a worker, and start another in its place, each time that so many more tasks have ended."""
    await stage.crew.start_ready("orchestrator", "worker", "worker")
    count = sum(kinds.values())
    job_id = await stage.submit("mixed", pause=0.05, **kinds)
    for kill in range(1, kills + 1):
        await stage.until(job_id, has_completed(count * kill // (kills + 2)))
        stage.crew.alive("worker")[0].kill()
        stage.crew.start("worker")
    job = await stage.finish(job_id)
    await check_results(stage, job_id, count)
    assert job.job.result == {"add": {"count": 1, "items": [{"count": count, "sum": sum(n * n for n in range(count))}]}}


async def check_results(stage: Stage, job_id: str, count: int) -> None:
    tasks = await stage.tasks(await stage.job(job_id), "work")
    assert [isinstance(task.result, dict) and task.result["square"] for task in tasks] == [n * n for n in range(count)]
    assert all(task.failures == 0 and task.crashes <= 1 for task in tasks)


@pytest.mark.parametrize("kind", ["plain", "heavy", "async"])
async def test_e21_a_task_whose_worker_was_killed_amid_it_runs_again(stage: Stage, kind: str) -> None:
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
