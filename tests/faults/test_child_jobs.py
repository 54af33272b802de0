"""Processes are killed while jobs run jobs: each item has one child that counts, and no job is left behind (E21)."""

import pytest

from anabranch.engine.model import JobState
from tests.support.crew import Stage, until_async

pytestmark = pytest.mark.postgres


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
    job = await stage.finish(job_id, seconds=120)
    assert job.job.result == {"total": sum(n * n for n in range(count)), "count": count}
    assert stage.query("select count(*), count(distinct scope) from app.jobs where parent is not null") == [
        (count, count)
    ]


async def test_e7_no_child_outlives_its_parent(stage: Stage) -> None:
    await stage.crew.start_ready("orchestrator", "worker")
    job_id = await stage.submit("family", items=list(range(20)), pause=30)
    await until_async(lambda: stage.query("select count(*) > 1 from app.children") == [(True,)])
    await stage.gateway.controls.cancel(job_id, "test", "test")
    assert stage.query("select distinct state::text from app.jobs") == [(str(JobState.CANCELLED),)]
    await until_async(lambda: stage.query("select count(*) from app.children") == [(0,)], 30, "the end of every child")
