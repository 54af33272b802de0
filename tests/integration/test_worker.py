import asyncio
import re
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import accumulate
from pathlib import Path

import psycopg
import pytest

from anabranch.canonical import Json
from anabranch.engine.model import JobState
from anabranch.storage.large_results import Results
from tests.support.stack import Stack
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.postgres
PLUGINS = str(Path(__file__).parent.parent / "data" / "plugins")


async def test_hello_world_greets_and_replies_by_lineage(stack: Stack) -> None:
    job = await stack.run("hello_world", n=3, message="Hi")
    assert job.job.state is JobState.COMPLETED
    assert [task.result for task in await stack.tasks(job, "reply")] == [
        {"reply": f"Replying to: Hi from task {index}"} for index in range(3)
    ]


async def test_a_bad_result_or_error_fails_its_own_task_alone(stack: Stack) -> None:
    job = await stack.run("tricky", acts=["nan", "fine", "object", "raise"])
    tasks = await stack.tasks(job, "act")
    assert [task.status for task in tasks] == ["failed", "completed", "failed", "failed"]
    assert [task.error and task.error.code for task in tasks] == [
        "handler.contract",
        None,
        "handler.contract",
        "handler.error",
    ]
    assert job.job.result == {"count": {"completed": 1}}


async def test_w2_a_handler_that_blocks_is_killed_at_its_timeout_and_its_neighbours_finish(stack: Stack) -> None:
    job = await stack.run("tricky", acts=["block", "fine", "fine"])
    first, second, third = await stack.tasks(job, "act")
    assert first.error is not None
    assert first.error.code == "task.timed_out"
    assert second.status == third.status == "completed"


async def test_a_handler_that_aborts_its_process_fails_after_three_crashes(stack: Stack) -> None:
    job = await stack.run("tricky", acts=["abort", "fine"])
    crashed, fine = await stack.tasks(job, "act")
    assert crashed.error is not None
    assert (crashed.status, crashed.attempts, crashed.error.code) == ("failed", 3, "handler.crashed")
    assert "SIGABRT" in str(crashed.error.message)
    assert crashed.error.type == "SIGABRT"
    assert re.search(r"tricky\.py:\d+ in act$", str(crashed.error.where))
    assert fine.status == "completed"


async def test_whatever_a_handler_raises_is_kept_with_its_type_and_place(stack: Stack) -> None:
    job = await stack.run("tricky", acts=["exit", "interrupt", "fine"])
    *failed, fine = await stack.tasks(job, "act")
    assert [(task.attempts, task.error and task.error.type) for task in failed] == [
        (1, "SystemExit"),
        (1, "KeyboardInterrupt"),
    ]
    assert all(re.search(r"tricky\.py:\d+ in act$", str(task.error and task.error.where)) for task in failed)
    assert fine.status == "completed"


async def test_e9_a_transient_failure_is_tried_again(stack: Stack) -> None:
    job = await stack.run("tricky", acts=["flaky"])
    (task,) = await stack.tasks(job, "act")
    assert (task.status, task.attempts, task.failures) == ("completed", 2, 1)


async def test_a_planner_that_fails_fails_its_job_with_its_error(stack: Stack) -> None:
    job = await stack.run("tricky")
    assert job.job.state is JobState.FAILED
    assert job.job.error is not None
    assert "KeyError" in str(job.job.error)
    assert await stack.tasks(job, "act") == []


async def test_async_handlers_wait_at_the_same_time(stack: Stack) -> None:
    job = await stack.run("waiting", seconds=0.5)
    first, second = await stack.tasks(job, "wait")
    assert isinstance(first.result, float)
    assert isinstance(second.result, float)
    assert abs(first.result - second.result) < 0.4


async def test_w2_a_handler_that_eats_memory_fails_alone(stack: Stack) -> None:
    job = await stack.run("tricky", acts=["memory", "fine"])
    eater, fine = await stack.tasks(job, "act")
    assert eater.error is not None
    assert (eater.error.category, fine.status) == ("resource", "completed")


async def test_e9_a_handler_that_prints_without_end_fails_alone_and_once(stack: Stack) -> None:
    job = await stack.run("long", acts=["print"])
    (task,) = await stack.tasks(job, "act")
    assert task.error is not None
    assert (task.error.code, task.error.category, task.attempts) == ("handler.output", "permanent", 1)
    assert "256 MB" in str(task.error.message)


async def test_e20_a_large_result_is_read_like_any_other(stack: Stack, database_url: str, tmp_path: Path) -> None:
    job = await stack.run("tricky", acts=["large"])
    (task,) = await stack.tasks(job, "act")
    assert task.result == "x" * 5_000_000
    with psycopg.connect(database_url) as connection:
        stored = connection.execute("select result, reference ->> 'size' from app.outcomes where reference is not null")
        assert stored.fetchall() == [(None, "5000002")]
    assert len(list((tmp_path / "work").rglob("*.json"))) == 1


async def test_what_a_task_prints_logs_and_measures_is_kept_with_its_attempt(stack: Stack, database_url: str) -> None:
    await stack.run("tricky", acts=["said"])
    with psycopg.connect(database_url) as connection:
        ((log, metrics),) = connection.execute("select log, metrics from app.traces").fetchall()
    assert "out loud" in log
    assert "logged" in log
    assert metrics == {"rows": 7}


async def test_e10_what_a_handler_says_or_throws_can_not_stop_its_worker(stack: Stack) -> None:
    job = await stack.run("tricky", acts=["bad progress", "bad error", "throttled", "exit", "posing", "fine"])
    tasks = await stack.tasks(job, "act")
    codes = [task.error and task.error.code for task in tasks]
    assert codes[:2] == ["handler.contract", "handler.error"]
    assert codes[3:5] == ["handler.exited", "handler.contract"]
    assert [tasks[2].status, tasks[5].status] == ["completed", "completed"]


async def test_w2_what_a_handler_started_ends_with_it(stack: Stack, tmp_path: Path) -> None:
    job = await stack.run("tricky", acts=["leaves a process"])
    (task,) = await stack.tasks(job, "act")
    assert task.error is not None
    assert task.error.code == "task.timed_out"
    assert not _runs(b"sleep\x004321\x00")


def _runs(command: bytes) -> bool:
    for found in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if found.read_bytes() == command:
                return True
    return False


async def test_w6_scratch_belongs_to_one_attempt_and_is_removed(stack: Stack) -> None:
    job = await stack.run("tricky", acts=["scratch", "scratch"])
    first, second = await stack.tasks(job, "act")
    assert first.result != second.result
    assert list(stack.scratch.iterdir()) == []


async def test_e7_a_cancelled_handler_is_told(stack: Stack, tmp_path: Path) -> None:
    heard = tmp_path / "heard"
    job_id = await stack.submit("long", acts=["patient"], file=str(heard))
    await stack.until(job_id, lambda job: job.nodes[0].tasks.running == 1)
    assert (await stack.gateway.controls.cancel(job_id, "test", "test")).job.state is JobState.CANCELLED
    while not heard.exists():
        await asyncio.sleep(0.02)
    assert heard.read_text() == "cancelled"
    assert (await stack.wait(job_id)).job.state is JobState.CANCELLED


async def test_w2_an_async_handler_that_ignores_cancel_is_ended_after_the_grace(stack: Stack) -> None:
    for seconds in (600, 601):
        job_id = await stack.submit("endless", seconds=seconds)
        await stack.until(job_id, lambda job: job.nodes[0].tasks.running == 1)
        await stack.gateway.controls.cancel(job_id, "test", "test")
    job = await stack.run("endless", seconds=0)
    assert job.job.state is JobState.COMPLETED


async def test_w2_a_handler_that_ignores_cancel_is_killed_after_the_grace(stack: Stack) -> None:
    job_id = await stack.submit("long", acts=["loop", "loop"])
    await stack.until(job_id, lambda job: job.nodes[0].tasks.running == 2)
    await stack.gateway.controls.cancel(job_id, "test", "test")
    job = await stack.run("long", acts=["fine"])
    assert job.job.state is JobState.COMPLETED


async def test_w3_sigterm_tells_handlers_and_what_ends_in_time_counts(stack: Stack) -> None:
    job_id = await stack.submit("long", acts=["patient", "patient", "fine"])
    await stack.until(job_id, lambda job: job.nodes[0].tasks.running == 2)
    stack.stop.set()
    await stack.serving
    job = await stack.gateway.reads.job(job_id)
    tasks = await stack.tasks(job, "act")
    assert [task.status for task in tasks] == ["completed", "completed", "ready"]
    assert tasks[0].result == {"stopping": True, "cancelled": False}


async def test_w3_an_answer_that_is_here_before_the_hand_back_counts(
    stack: Stack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long it takes to write it: here, past the grace."""
    put_aside, began = Results.put_aside, threading.Event()

    def put_slowly(results: Results, job_id: str, node: str, attempt: str, result: str) -> str:
        began.set()
        time.sleep(2)
        return put_aside(results, job_id, node, attempt, result)

    monkeypatch.setattr(Results, "put_aside", put_slowly)
    job_id = await stack.submit("long", acts=["large"])
    await asyncio.to_thread(began.wait)
    stack.stop.set()
    await stack.serving
    (task,) = await stack.tasks(await stack.gateway.reads.job(job_id), "act")
    assert (task.status, task.attempts) == ("completed", 1)


async def test_a21_a_worker_leaves_though_an_async_handler_hears_nothing(stack: Stack, tmp_path: Path) -> None:
    file = tmp_path / "file"
    job_id = await stack.submit("deaf", file=str(file))
    await stack.until(job_id, lambda job: job.nodes[0].tasks.running == 1)
    stack.stop.set()
    await asyncio.wait_for(stack.serving, PATIENCE_SECONDS)
    (task,) = await stack.tasks(await stack.gateway.reads.job(job_id), "wait")
    file.touch()  # for the loop of this test
    assert (task.status, task.failures, task.crashes) == ("due", 0, 0)


async def test_w3_what_does_not_end_in_time_is_handed_back_free_of_charge(stack: Stack) -> None:
    job_id = await stack.submit("long", acts=["block"])
    await stack.until(job_id, lambda job: job.nodes[0].tasks.running == 1)
    stack.stop.set()
    await stack.serving
    (task,) = await stack.tasks(await stack.gateway.reads.job(job_id), "act")
    assert (task.status, task.attempts, task.failures, task.crashes) == ("due", 1, 0, 0)


async def test_e8_a_handler_that_falls_silent_is_ended(stack: Stack) -> None:
    job = await stack.run("silent", act="silent")
    assert job.job.error is not None
    assert job.job.error.code == "task.silent"


async def test_w4_a_quick_handler_that_blocks_runs_alone_next_time_and_its_worker_makes_room_for_another(
    stack: Stack,
) -> None:
    job_id = await stack.submit("hang")
    await stack.serving
    (task,) = await stack.tasks(await stack.gateway.reads.job(job_id), "stage1")
    assert (task.status, task.crashes) == ("due", 1)


async def test_quick_and_heavy_handlers_run_where_they_want(stack: Stack) -> None:
    job = await stack.run("kinds", n=300)
    assert job.job.state is JobState.COMPLETED
    assert [task.result for task in await stack.tasks(job, "quick")] == list(range(300))
    first, second = await stack.tasks(job, "heavy")
    assert first.result != second.result


async def test_w1_never_more_handlers_at_once_than_slots(stack: Stack) -> None:
    job = await stack.run("overlap")
    spans = [task.result for task in await stack.tasks(job, "run")]
    edges = sorted(edge for begun, ended in _pairs(spans) for edge in ((begun, 1), (ended, -1)))
    at_once = list(accumulate(change for _, change in edges))
    assert max(at_once) == 2


def _pairs(spans: list[Json]) -> Iterator[tuple[float, float]]:
    for span in spans:
        assert isinstance(span, list)
        begun, ended = span
        assert isinstance(begun, float)
        assert isinstance(ended, float)
        yield begun, ended


@pytest.mark.parametrize(("n", "kind"), [(20, "list"), (120, "ResultFile")])
async def test_a_fan_in_gets_many_results_without_holding_them_all(stack: Stack, n: int, kind: str) -> None:
    job = await stack.run("bulk", n=n)
    found = {"kind": kind, "count": n, "weight": n * 20_000, "last": n - 1, "middle": [10, 11, 12]}
    assert job.job.result == {"weigh": found}
    assert list(stack.scratch.glob("*")) == []


async def test_what_was_taken_ahead_goes_back_when_its_handler_turns_slow(stack: Stack, database_url: str) -> None:
    given_back, runs = 0, 0
    while not given_back:  # on a busy machine no handler is fast enough to be taken ahead: another run
        runs += 1
        assert runs <= 10
        job = await stack.run("fickle", n=108, run=runs)
        assert job.job.state is JobState.COMPLETED
        with psycopg.connect(database_url) as admin:
            ((given_back,),) = admin.execute("select count(*) from app.attempts where ended = 'handed_back'").fetchall()
    assert given_back <= 12


async def test_w2_what_a_handler_forks_or_arms_disturbs_no_task_after_it(stack: Stack) -> None:
    job = await stack.run("forks")
    assert job.job.state is JobState.COMPLETED
    for node in ("fork", "after"):
        tasks = await stack.tasks(job, node)
        assert [task.result for task in tasks] == [{"mine": number} for number in range(len(tasks))]
        assert [task.crashes for task in tasks] == [0] * len(tasks)
