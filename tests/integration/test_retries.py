"""Which failures are tried again, and how often (E9)."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from anabranch.adapters.postgres.connect import connect
from tests.support.stack import Stack, open_stack
from tests.support.waiting import wait_until_async

pytestmark = pytest.mark.postgres

PLUGIN = """
import sys
from datetime import timedelta

from pydantic import BaseModel

from anabranch import (
    Context, HandlerResult, InputError, Job, NotFound, Permanent, Retry, Throttled, Transient, handler, register_job,
)
from anabranch.errors import Unavailable


def fail(act):
    match act:
        case "raise":
            raise ValueError("no")
        case "returned":
            return {"success": False, "error": "no"}
        case "result":
            return HandlerResult(success=False, error_message="no")
        case "exit":
            sys.exit(3)
        case "transient":
            raise Transient("no")
        case "throttled":
            raise Throttled("no", retry_after=0)
        case "rate limit":
            raise RuntimeError("Rate limit exceeded")
        case "permanent":
            raise Permanent("no", code="mine.refused")
        case "input":
            raise InputError("mine.input", "no")
        case "not found":
            raise NotFound("mine.missing", "no")
        case "object":
            return object()
        case "shout":
            raise ValueError("https://user:pw@host/ " * 2_400_000)


class Asked(BaseModel):
    act: str
    number: int


@handler("declared", retry=Retry(max_attempts=6, initial_delay=timedelta(0)))
def declared(params):
    return fail(params["act"])


@handler("looped", retry=Retry(max_attempts=3, initial_delay=timedelta(0)))
async def looped(params):
    return fail(params["act"])


@handler("quick", quick=True, retry=Retry(max_attempts=3, initial_delay=timedelta(0)))
def quick(params):
    return fail(params["act"])


@handler("undeclared", retry=Retry(initial_delay=timedelta(0)))
def undeclared(params):
    return fail(params["act"])


@handler("offline", retry=Retry(max_attempts=1))
def offline(params, ctx):
    if params["act"] == "always" or ctx.attempt < 2:
        raise Unavailable("storage.unreachable", "the tier silver could not be used")
    return "done"


@handler("offline_quick", quick=True, retry=Retry(max_attempts=1))
def offline_quick(params, ctx):
    return offline(params, ctx)


@handler("offline_loop", retry=Retry(max_attempts=1))
async def offline_loop(params, ctx):
    return offline(params, ctx)


@handler("hurried", timeout_seconds=20)
def hurried(params):
    return fail(params["act"])


@handler("typed", retry=Retry(max_attempts=3, initial_delay=timedelta(0)))
def typed(params: Asked):
    return params.number


def job(name, handler, retry=None):
    @register_job
    class Made(Job):
        job_type = name
        stages = [{
            "number": 1, "name": "act", "task_type": handler, "parallelism": "dynamic", "on_failure": "continue",
            **({"retry": retry} if retry else {}),
        }]

        def create_tasks_for_stage(self, stage, params):
            return [{"index": act, "act": act} for act in params["acts"]]

    return Made


ByHandler = job("by_handler", "declared")
InLoop = job("in_loop", "looped")
Quickly = job("quickly", "quick")
ByCategory = job("by_category", "undeclared")
ByStage = job("by_stage", "declared", {"max_attempts": 2, "initial_delay_seconds": 0})
Typed = job("typed", "typed")
Hurried = job("hurried", "hurried")
Offline = job("offline", "offline")
OfflineQuick = job("offline_quick", "offline_quick")
OfflineLoop = job("offline_loop", "offline_loop")
"""
WORKFLOW = """
workflow_id: by_node
inputs: {acts: {type: array, required: true}}
nodes:
  act:
    type: fan_out
    source: "{{ inputs.acts }}"
    on_failure: continue
    task:
      handler: undeclared
      params: {act: "{{ item }}"}
      retry: {max_attempts: 2, backoff: fixed, initial_delay_seconds: 0}
"""
ALWAYS = ["raise", "returned", "result", "exit", "transient", "throttled", "rate limit"]
NEVER = ["permanent", "input", "not found", "object"]


@pytest.fixture
async def stack(database_url: str, tmp_path: Path) -> AsyncIterator[Stack]:
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "failing.py").write_text(PLUGIN)
    (tmp_path / "plugins" / "by_node.yaml").write_text(WORKFLOW)
    async with open_stack(database_url, tmp_path, [str(tmp_path / "plugins")]) as opened:
        yield opened


async def attempts(stack: Stack, workflow: str, acts: list[str]) -> list[int]:
    job = await stack.run(workflow, acts=list(acts))
    return [task.attempts for task in await stack.tasks(job, "act")]


@pytest.mark.parametrize(
    ("workflow", "most"), [("by_handler", 6), ("by_stage", 2), ("by_node", 2), ("in_loop", 3), ("quickly", 3)]
)
async def test_e9_a_declared_retry_counts_for_every_failure_but_permanent_ones(
    stack: Stack, workflow: str, most: int
) -> None:
    tried = await attempts(stack, workflow, ALWAYS + NEVER)
    assert tried == [most] * len(ALWAYS) + [1] * len(NEVER)


async def test_e9_without_a_declared_number_the_kind_of_the_failure_decides(stack: Stack) -> None:
    assert await attempts(stack, "by_category", ALWAYS + NEVER) == [1, 1, 1, 1, 3, 5, 5, 1, 1, 1, 1]


async def test_e9_refused_parameters_are_not_retried(stack: Stack) -> None:
    assert await attempts(stack, "typed", ["x"]) == [1]


async def test_tf9_sys_exit_reads_as_what_it_is(stack: Stack) -> None:
    job = await stack.run("by_category", acts=["exit"])
    (task,) = await stack.tasks(job, "act")
    assert task.error is not None
    assert (task.error.code, task.error.message) == ("handler.exited", "the handler called sys.exit(3)")


async def test_tf7_an_exception_of_any_length_is_no_timeout(stack: Stack) -> None:
    """Its handler has a few seconds, and looking for secrets in 50 MB takes more."""
    job = await stack.run("hurried", acts=["shout"])
    (task,) = await stack.tasks(job, "act")
    assert task.error is not None
    assert task.error.code == "handler.error"


@pytest.mark.parametrize("workflow", ["offline", "offline_quick", "offline_loop"])
async def test_e9_storage_that_does_not_answer_costs_no_attempt(stack: Stack, workflow: str) -> None:
    job = await stack.run(workflow, acts=["once"])
    (task,) = await stack.tasks(job, "act")
    assert (task.status, task.attempts, task.failures) == ("completed", 2, 0)


async def test_e1_storage_that_never_answers_fails_the_task_in_the_end(stack: Stack, database_url: str) -> None:
    job_id = await stack.submit("offline", acts=["always"])
    with connect(database_url, None) as admin:
        await wait_until_async(lambda: admin.execute("update app.due set attempt = 40").rowcount)
    (task,) = await stack.tasks(await stack.wait(job_id), "act")
    assert (task.status, task.attempts, task.failures) == ("failed", 41, 1)
    assert task.error is not None
    assert task.error.code == "storage.unreachable"
