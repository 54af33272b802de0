"""Handlers that say how far they are."""

import asyncio
import time
from pathlib import Path
from typing import Any

from anabranch import Context, Job, TaskSpec, register_handler, register_job


@register_job
class Says(Job):
    """As many tasks as are asked for; each says how far it is, and waits for a file."""

    job_type = "says"
    stages = [{"number": 1, "name": "say", "task_type": "say_plain", "parallelism": "dynamic"}]

    def create_tasks_for_stage(self, stage: int, params: dict[str, Any]) -> list[TaskSpec]:
        return [TaskSpec({"file": params["file"]}, n, f"say_{kind}") for n, kind in enumerate(params["kinds"])]


@register_handler("say_plain")
def say_plain(params: dict[str, Any], ctx: Context) -> None:
    ctx.progress(1, 4, "a quarter")
    while not Path(params["file"]).exists():
        time.sleep(0.01)


@register_handler("say_async")
async def say_async(params: dict[str, Any], ctx: Context) -> None:
    ctx.progress(0.5, message="x" * 2000)
    while not Path(params["file"]).exists():  # noqa: ASYNC240  # a local file, and a test
        await asyncio.sleep(0.01)


@register_handler("say_nothing")
def say_nothing(params: dict[str, Any]) -> None:
    while not Path(params["file"]).exists():
        time.sleep(0.01)


@register_handler("say_much")
def say_much(params: dict[str, Any], ctx: Context) -> None:
    said = 0
    while not Path(params["file"]).exists():
        said += 1
        ctx.progress(said)
        time.sleep(0.001)


@register_handler("say_nonsense")
def say_nonsense(params: dict[str, Any], ctx: Context) -> None:
    ctx.progress("half")  # type: ignore[arg-type]  # as some do


@register_handler("say_lines")
def say_lines(params: dict[str, Any]) -> None:
    print("one")
    print("begun", end="")
    while not Path(params["file"]).exists():
        time.sleep(0.01)
    print(" and ended")
