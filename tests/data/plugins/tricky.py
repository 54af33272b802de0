"""Handlers that misbehave, each in its own way."""

import asyncio
import os
import time
from datetime import timedelta
from typing import Any

from anabranch import Context, Job, Retry, Transient, register_handler, register_job


@register_job
class Tricky(Job):
    """Runs the acts it is given, one task each, then counts them."""

    job_type = "tricky"
    stages = [  # noqa: RUF012  # as users write it
        {"number": 1, "name": "act", "task_type": "act", "parallelism": "dynamic", "on_failure": "continue"},
        {"number": 2, "name": "count", "task_type": "count", "parallelism": "fan_in"},
    ]

    def create_tasks_for_stage(self, stage: int, params: dict[str, Any]) -> list[dict[str, Any]]:
        return [{"index": i, "act": act} for i, act in enumerate(params["acts"])]


@register_handler("act", timeout_seconds=1, retry=Retry(initial_delay=timedelta(0)))
def act(params: dict[str, Any], ctx: Context) -> object:
    match params["act"]:
        case "nan":
            return {"x": float("nan")}
        case "object":
            return object()
        case "raise":
            raise ValueError("broken\x00file")
        case "abort":
            os.abort()
        case "block":
            time.sleep(60)
        case "flaky":
            if ctx.attempt == 1:
                raise Transient("try again")
        case _:
            pass
    return {"pid": os.getpid(), "attempt": ctx.attempt}


@register_handler("count")
def count(params: dict[str, Any]) -> dict[str, int]:
    return {"completed": sum(task["status"] == "completed" for task in params["previous_results"])}


@register_job
class Waiting(Job):
    """Async tasks that wait at the same time."""

    job_type = "waiting"
    stages = [{"number": 1, "name": "wait", "task_type": "wait", "parallelism": "fixed", "count": 2}]  # noqa: RUF012


@register_handler("wait")
async def wait(params: dict[str, Any]) -> float:
    await asyncio.sleep(params["seconds"])
    return time.time()
