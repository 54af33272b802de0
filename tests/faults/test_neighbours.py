"""Handlers that misbehave in every way, in real workers: each ends alone, with a clear error (E10, W2)."""

import os
import signal
from collections.abc import Callable

import pytest

from anabranch.canonical import Json
from anabranch.embedded.processes import marked
from anabranch.engine.read_models import JobDetail
from tests.support.crew import STEADY_LEASE, Member, Stage
from tests.support.waiting import wait_until_async

pytestmark = [pytest.mark.postgres, pytest.mark.slow]

BAD = {
    "plain abort": ("failed", "handler.crashed"),
    "plain exit": ("failed", "handler.exited"),
    "plain memory": ("failed", "handler.resource"),
    "plain loop": ("failed", "task.timed_out"),
    "plain print": ("failed", "handler.output"),
    "plain large": ("completed", None),
    "plain nan": ("failed", "handler.contract"),
    "plain nul": ("failed", "handler.contract"),
    "plain surrogate": ("failed", "handler.contract"),
    "plain deep": ("failed", "handler.contract"),
    "plain object": ("failed", "handler.contract"),
    "heavy abort": ("failed", "handler.crashed"),
    "heavy memory": ("failed", "handler.resource"),
    "quick nan": ("failed", "handler.contract"),
    "quick nul": ("failed", "handler.contract"),
    "async nan": ("failed", "handler.contract"),
    "async block": ("completed", None),
}


async def run_acts(stage: Stage, acts: list[str]) -> list[tuple[str, Json]]:
    """How each act ended: its status, and its error's code."""
    job = await stage.finish(await stage.submit("acts", acts=list[Json](acts)))
    return [(task.status, task.error.code if task.error else None) for task in await stage.tasks(job, "act")]


async def test_e10_bad_handlers_end_alone_and_their_neighbours_finish(stage: Stage) -> None:
    await stage.crew.start_ready("orchestrator", "worker", "worker", child_memory_mb=1024, lease_seconds=STEADY_LEASE)
    acts = [act for bad in BAD for act in (bad, "plain fine", "quick fine", "async fine")]
    ended = dict(zip(acts, await run_acts(stage, acts), strict=True))
    assert ended == {**BAD, **dict.fromkeys(("plain fine", "quick fine", "async fine"), ("completed", None))}
    assert [len(member.said("session.began")) for member in stage.crew.members] == [1, 1, 1]
    assert all(member.process.poll() is None for member in stage.crew.members)


async def test_e10_handlers_that_leave_by_the_back_door_end_alone(stage: Stage) -> None:
    """SystemExit and CancelledError are no Exception; they pass where those are caught."""
    (_, worker) = await stage.crew.start_ready("orchestrator", "worker", lease_seconds=STEADY_LEASE)
    bad, fine = ["quick exit", "async exit", "async cancelled", "async cancels"], ["plain fine", "async fine"]
    ended = await run_acts(stage, [*bad, *fine])
    assert [status for status, _ in ended] == ["failed"] * 4 + ["completed"] * 2
    assert len(worker.said("session.began")) == 1


def is_over(worker: Member) -> Callable[[JobDetail], bool]:
    return lambda job: job.job.state == "completed" or worker.process.poll() is not None


@pytest.mark.slow
@pytest.mark.parametrize("act", ["quick abort", "async abort"])
async def test_e10_a_handler_that_kills_its_worker_ends_after_a_few(stage: Stage, act: str) -> None:
    """What it killed is started again and buried, as the supervisor does; it must not go on like that for ever."""
    (_, worker) = await stage.crew.start_ready("orchestrator", "worker")
    job_id = await stage.submit("acts", acts=[act, "plain fine", "async fine"])
    for _ in range(4):
        await stage.until(job_id, is_over(worker))
        if worker.process.poll() is None:
            break
        stage.end_sessions(worker)
        (worker,) = await stage.crew.start_ready("worker")
    job = await stage.finish(job_id)
    tasks = await stage.tasks(job, "act")
    assert [task.status for task in tasks] == ["failed", "completed", "completed"]
    assert tasks[0].error is not None
    assert tasks[0].error.code == "handler.crashed"


async def test_children_that_died_while_they_were_idle_cost_the_next_tasks_nothing(stage: Stage) -> None:
    (worker, _) = await stage.crew.start_ready("worker", "orchestrator", slots=4, lease_seconds=STEADY_LEASE)
    file = stage.folder / "file"
    job_id = await stage.submit("steady", count=4, file=str(file))
    await wait_until_async(lambda: len(stage.noted("began")) == 4)
    file.touch()
    await stage.finish(job_id)
    for words in stage.noted("ended"):
        os.kill(int(words[3]), signal.SIGKILL)
    await stage.finish(await stage.submit("mixed", plain=6))
    assert stage.query("select max(attempt), max(crashes) from app.outcomes") == [(1, 0)]
    assert len(worker.said("session.began")) == 1


@pytest.mark.slow
async def test_e21_the_children_of_a_killed_worker_die_with_it(stage: Stage) -> None:
    (worker, _) = await stage.crew.start_ready("worker", "orchestrator")
    await stage.submit("steady", count=2, file=str(stage.folder / "none"))
    await wait_until_async(lambda: len(stage.noted("began")) == 2)
    stage.crew.alive("orchestrator")[0].kill()
    worker.kill()
    await wait_until_async(lambda: not marked("ANABRANCH_HOME", str(stage.folder / "home")), "the end of its children")


async def test_e1_a_large_result_that_is_gone_fails_its_reader(stage: Stage) -> None:
    await stage.crew.start_ready("worker", "orchestrator")
    file = stage.folder / "file"
    job_id = await stage.submit("aside", file=str(file))
    await stage.until(job_id, lambda job: job.nodes[0].tasks.completed == 1)
    for result in (stage.folder / "home" / "work").rglob("*.json"):
        result.unlink()
    file.touch()
    job = await stage.until(job_id, lambda job: job.job.state == "failed")
    assert job.job.error is not None
    assert job.job.error.code == "storage.not_found"


@pytest.mark.slow
@pytest.mark.parametrize("act", ["plain loop", "heavy loop", "async wait"])
async def test_e7_a_handler_that_ignores_cancel_gives_its_slot_back_after_the_grace(stage: Stage, act: str) -> None:
    await stage.crew.start_ready("worker", "orchestrator", slots=1)
    job_id = await stage.submit("endless", act=act)
    await stage.until(job_id, lambda job: job.nodes[0].tasks.running == 1)
    await stage.gateway.controls.cancel(job_id, "test", "test")
    await stage.complete(await stage.submit("mixed", plain=1))


async def test_e10_a_plan_that_the_database_refuses_fails_its_job_alone(stage: Stage) -> None:
    (worker, orchestrator) = await stage.crew.start_ready("worker", "orchestrator")
    job_id = await stage.submit("long_key")
    await stage.complete(await stage.submit("chain"))
    job = await stage.until(job_id, lambda job: job.job.state == "failed")
    assert job.job.error is not None
    assert "index row size" in str(job.job.error.message)
    assert not worker.said("worker.interrupted") + orchestrator.said("orchestrator.interrupted")


async def test_w4_a_worker_whose_loop_is_blocked_for_good_makes_room_for_another(stage: Stage) -> None:
    """Its heart beats on, so that nobody else would notice; its supervisor starts another and buries its session."""
    (_, worker) = await stage.crew.start_ready("orchestrator", "worker")
    job_id = await stage.submit("acts", acts=["async freeze", "plain fine", "async fine"])
    await wait_until_async(lambda: worker.process.poll() is not None, "the end of the blocked worker")
    assert worker.said("process.stuck")
    stage.end_sessions(worker)
    await stage.crew.start_ready("worker")
    job = await stage.finish(job_id)
    tasks = await stage.tasks(job, "act")
    assert [task.status for task in tasks] == ["failed", "completed", "completed"]
    assert tasks[0].error is not None
    assert tasks[0].error.code == "task.timed_out"


async def test_a21_a_worker_leaves_after_the_grace_though_an_async_handler_hears_nothing(stage: Stage) -> None:
    (_, worker) = await stage.crew.start_ready("orchestrator", "worker")
    job_id = await stage.submit("endless", act="async deaf")
    await stage.until(job_id, lambda job: job.nodes[0].tasks.running == 1)
    worker.send(signal.SIGTERM)
    await worker.ended()
    assert stage.query("select ended, attempt from app.attempts") == [("handed_back", 1)]
