"""A breaker on real processes: an outage costs few attempts, whatever dies meanwhile, and ends by itself."""

import pytest

from tests.support.crew import Stage
from tests.support.waiting import wait_until_async

pytestmark = pytest.mark.postgres
OPEN = "select is_open, probe_at is not null from app.breakers where (kind, name) = ('handler', 'fragile.ask')"


async def test_e9_an_outage_costs_few_attempts_and_ends_by_itself(stage: Stage) -> None:
    """Six tasks of four attempts each outlive an outage that a task alone would not, and the death of a worker."""
    worker, _ = await stage.crew.start_ready("worker", "orchestrator")
    file = stage.folder / "outside"
    job_id = await stage.submit("fragile", file=str(file))
    await wait_until_async(lambda: [row[0] for row in stage.query(OPEN)] == [True])
    ((before,),) = stage.query("select count(*) from app.attempts where ended = 'failed'")
    assert before <= 6
    assert any("the breaker of handler fragile.ask is open" in one for one in (await stage.job(job_id)).waiting_for)
    worker.kill()
    file.touch()
    await stage.crew.start_ready("worker")
    job = await stage.finish(job_id)
    tasks = await stage.tasks(job, "ask")
    assert all(task.failures <= 3 for task in tasks)
    assert stage.query(OPEN) == [(False, False)]
