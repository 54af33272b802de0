"""Every log line that concerns a job or one of its tasks carries the job's correlation id, in every process (O3)."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.crew import Member, Stage, Start, open_stage
from tests.support.waiting import PATIENCE_SECONDS, wait_until_async

pytestmark = pytest.mark.postgres
PLUGIN = """
import logging, os
import structlog
from anabranch import Context, Job, Retry, Transient, register_handler, register_job
from datetime import timedelta

@register_job
class Talks(Job):
    job_type = "talks"
    stages = [
        {"number": 1, "name": "act", "task_type": "talk", "parallelism": "dynamic", "on_failure": "continue"},
        {"number": 2, "name": "end", "task_type": "talk_quickly"},
    ]

    def create_tasks_for_stage(self, stage, params):
        if stage == 2:
            return [{}]
        kinds = ("talk", "talk_in_loop", "talk_quickly", "die", "again")
        return [{"task_type": kind, "parameters": {}, "index": n} for n, kind in enumerate(kinds)]

def say(ctx):
    ctx.logger.info("told by the context")
    logging.getLogger("some.library").warning("told by a library")
    structlog.get_logger().info("told by structlog")
    return {}

@register_handler("talk")
def talk(params: dict, ctx: Context):
    print("printed")
    return say(ctx)

@register_handler("talk_in_loop")
async def talk_in_loop(params: dict, ctx: Context):
    return say(ctx)

@register_handler("talk_quickly", quick=True)
def talk_quickly(params: dict, ctx: Context):
    return say(ctx)

@register_handler("die", retry=Retry(initial_delay=timedelta(0)))
def die(params: dict):
    os.abort()

@register_handler("again", retry=Retry(initial_delay=timedelta(0)))
async def again(params: dict, ctx: Context):
    if ctx.attempt == 1:
        raise Transient("not yet")
    return {}
"""
BROKEN = "workflow_id: broken\nnodes: {only: {handler: nobody}}\n"
MINE = "order 66/b"


@pytest.fixture
async def stage(database_url: str, tmp_path: Path) -> AsyncIterator[Stage]:
    plugins = tmp_path / "plugins"
    plugins.mkdir()
    (plugins / "talks.py").write_text(PLUGIN)
    (plugins / "broken.yaml").write_text(BROKEN)
    async with open_stage(Start(tmp_path, plugins, database_url)) as opened:
        yield opened


async def run_job(stage: Stage) -> tuple[str, list[Member]]:
    """A job through an API, an orchestrator and a worker; its id, and who had a hand in it."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = found.getsockname()[1]
    members = [stage.crew.start("api", port=port), *await stage.crew.start_ready("orchestrator", "worker")]
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", headers={"X-Correlation-ID": MINE}) as api:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not await answers(api):
                await asyncio.sleep(0.1)
        answer = await api.post("/api/jobs/submit/talks")
        assert answer.headers["x-correlation-id"] == MINE
        job_id: str = answer.json()["job_id"]
        await stage.complete(job_id)
        assert (await api.get(f"/api/jobs/{job_id}")).json()["correlation_id"] == MINE
        assert (await api.get(f"/api/jobs/{job_id}/events")).headers["x-correlation-id"] == MINE
    return job_id, members


async def answers(api: httpx.AsyncClient) -> bool:
    try:
        return (await api.get("/readyz")).is_success
    except httpx.TransportError:
        return False


def lines(member: Member) -> list[dict[str, Any]]:  # JSON of any shape
    return [json.loads(line) for line in member.log.read_text().splitlines()]


async def test_o3_every_line_about_a_job_or_its_tasks_carries_its_correlation_id(stage: Stage) -> None:
    job_id, members = await run_job(stage)
    await wait_until_async(lambda: any(line["event"] == "job.status_changed" for m in members for line in lines(m)))
    told = [line for member in members for line in lines(member) if job_id in json.dumps(line)]
    assert {line["event"] for line in told} >= {"job.accepted", "job.status_changed", "task.failed", "task.crashed"}
    assert [line for line in told if line.get("correlation_id") != MINE] == []


async def test_o3_what_handlers_log_carries_it_whatever_logs_and_wherever_they_run(stage: Stage) -> None:
    job_id, (_, _, worker) = await run_job(stage)
    for event in ("told by the context", "told by a library", "told by structlog"):
        in_worker = worker.said(event)
        assert {line["task"] for line in in_worker} == {f"{job_id}-{task}" for task in ("act-1", "act-2", "end-0")}
        assert {(line["correlation_id"], line["attempt"]) for line in in_worker} == {(MINE, 1)}
    job = await stage.job(job_id)
    kept = await stage.gateway.reads.logs(job.job.id, limit=10, after=None, node="act", index="0", attempt=None)
    printed, *logged = str(kept[0].log).splitlines()
    assert printed == "printed" or "printed" in logged
    assert sum(MINE in line for line in [printed, *logged]) == 3


async def test_a_log_has_one_form(stage: Stage) -> None:
    """Children load the same plugins as their worker; what that has to tell is told once, in the worker's form."""
    (worker,) = await stage.crew.start_ready("worker")
    assert len([line for line in lines(worker) if line["event"] == "plugin.refused"]) == 1
