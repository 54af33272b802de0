"""Workers are stopped, continued and told to end, while they work."""

import asyncio
import signal
from collections import Counter

import pytest

from tests.support.crew import Stage
from tests.support.proxy import Proxy
from tests.support.waiting import wait_until_async

pytestmark = pytest.mark.postgres
GRACE = 30


@pytest.mark.slow
async def test_e3_a_worker_stopped_past_its_lease_notices_and_works_on_in_a_new_session(stage: Stage) -> None:
    file = stage.folder / "file"
    (worker, _) = await stage.crew.start_ready("worker", "orchestrator")
    job_id = await stage.submit("steady", count=2, file=str(file))
    await wait_until_async(lambda: len(stage.noted("began")) == 2)
    worker.send(signal.SIGSTOP)
    (other,) = await stage.crew.start_ready("worker")
    await wait_until_async(lambda: len(stage.noted("began")) == 4, "the work of another")
    file.touch()
    await wait_until_async(lambda: len(stage.noted("ended")) == 4)
    worker.send(signal.SIGCONT)
    job = await stage.finish(job_id)
    tasks = await stage.tasks(job, "beat")
    assert [(task.result, task.attempts, task.failures) for task in tasks] == [(2, 2, 0)] * 2

    await worker.started(sessions=2)
    other.kill()
    await stage.finish(await stage.submit("mixed", quick=20, plain=4, heavy=2))


async def test_w3_rolling_sigterm_spends_no_attempt_and_does_nothing_twice(stage: Stage) -> None:
    await stage.crew.start_ready("orchestrator", "worker", "worker")
    count = 200
    job_id = await stage.submit("mixed", pause=0.05, quick=110, plain=40, heavy=10, **{"async": 40})
    for part in (1, 2):
        await stage.reach(job_id, count * part // 5)
        oldest = stage.crew.alive("worker")[0]
        stage.crew.start("worker")
        oldest.send(signal.SIGTERM)
        assert await oldest.ended() == 0
    job = await stage.finish(job_id)
    tasks = await stage.tasks(job, "work")
    assert Counter((task.status, task.failures, task.crashes) for task in tasks) == {("completed", 0, 0): count}
    ended = Counter(index for node, index, *_ in stage.noted("ended") if node == "work")
    assert ended == {str(number): 1 for number in range(count)}
    assert len(stage.noted("began")) == count


@pytest.mark.slow
async def test_w3_all_workers_told_at_once_hand_everything_back(stage: Stage) -> None:
    await stage.crew.start_ready("orchestrator", "worker", "worker")
    job_id = await stage.submit("mixed", pause=0.05, quick=100, plain=60, heavy=6)
    await stage.reach(job_id, 20)
    told = stage.crew.alive("worker")
    for worker in told:
        worker.send(signal.SIGTERM)
    assert await asyncio.gather(*(worker.ended() for worker in told)) == [0, 0]
    job = await stage.job(job_id)
    assert (job.nodes[0].tasks.running, job.nodes[0].tasks.completed) == (0, len(stage.noted("ended")))
    assert stage.query("select count(*) from app.sessions where kind = 'worker' and dead_at is null") == [(0,)]

    await stage.crew.start_ready("worker")
    job = await stage.finish(job_id)
    assert len(stage.noted("ended")) == job.nodes[0].tasks.completed == 166


@pytest.mark.slow
async def test_w3_handlers_that_do_not_end_are_handed_back_within_the_grace(stage: Stage) -> None:
    file = stage.folder / "file"
    (worker, _) = await stage.crew.start_ready("worker", "orchestrator")
    job_id = await stage.submit("steady", count=2, file=str(file))
    await wait_until_async(lambda: len(stage.noted("began")) == 2)
    worker.send(signal.SIGTERM)
    assert await worker.ended() == 0
    file.touch()
    await stage.crew.start_ready("worker")
    job = await stage.finish(job_id)
    tasks = await stage.tasks(job, "beat")
    assert [(task.attempts, task.failures, task.crashes) for task in tasks] == [(2, 0, 0)] * 2


@pytest.mark.slow
async def test_w3_sigterm_while_the_database_is_away_ends_within_the_grace(stage: Stage) -> None:
    async with Proxy(stage.url) as proxy:
        worker = stage.crew.start("worker", url=proxy.url)
        await worker.started()
        file = stage.folder / "file"
        job_id = await stage.submit("steady", count=2, file=str(file))
        await wait_until_async(lambda: len(stage.noted("began")) == 2)
        proxy.stall()
        file.touch()
        await wait_until_async(lambda: len(stage.noted("ended")) == 2)
        worker.send(signal.SIGTERM)
        await worker.ended()
    await stage.crew.start_ready("worker", "orchestrator")
    await stage.finish(job_id)
