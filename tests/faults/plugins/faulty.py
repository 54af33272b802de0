"""Work of every kind of handler, which notes when it began and ended, and whose results can be checked."""

import asyncio
import os
import time
from pathlib import Path
from typing import Any, ClassVar

from anabranch import Context, Job, TaskSpec, register_handler, register_job

KINDS = ("quick", "async", "plain", "heavy")


def note(what: str, params: dict[str, Any], ctx: Context) -> None:
    """One line, whole, in the order of events."""
    line = f"{what} {ctx.node_id} {ctx.index} {ctx.attempt} {os.getpid()} {time.time():.3f}\n"
    handle = os.open(params["notes"], os.O_WRONLY | os.O_APPEND)
    os.write(handle, line.encode())
    os.close(handle)


def answer(params: dict[str, Any], ctx: Context) -> dict[str, Any]:
    note("ended", params, ctx)
    return {"kind": params["kind"], "square": params["number"] ** 2}


@register_handler("quick", quick=True)
def quick(params: dict[str, Any], ctx: Context) -> dict[str, Any]:
    note("began", params, ctx)
    return answer(params, ctx)


@register_handler("async")
async def in_loop(params: dict[str, Any], ctx: Context) -> dict[str, Any]:
    note("began", params, ctx)
    await asyncio.sleep(params["pause"])
    return answer(params, ctx)


@register_handler("plain")
def plain(params: dict[str, Any], ctx: Context) -> dict[str, Any]:
    note("began", params, ctx)
    time.sleep(params["pause"])
    return answer(params, ctx)


@register_handler("heavy", heavy=True)
def heavy(params: dict[str, Any], ctx: Context) -> dict[str, Any]:
    return plain(params, ctx)


@register_handler("add")
def add(params: dict[str, Any], ctx: Context) -> dict[str, Any]:
    results = [task["result"] for task in params["previous_results"]]
    return {"count": len(results), "sum": sum(result["square"] for result in results)}


@register_job
class Mixed(Job):
    """A fan-out of tasks of every kind, as many as asked for, in turn; and their sum."""

    job_type = "mixed"
    stages: ClassVar = [
        {"number": 1, "name": "work", "task_type": "plain", "parallelism": "dynamic"},
        {"number": 2, "name": "add", "task_type": "add", "parallelism": "fan_in"},
    ]

    def create_tasks_for_stage(self, stage: int, params: dict[str, Any]) -> list[TaskSpec]:
        left = {kind: params[kind] for kind in KINDS if kind in params}
        kinds = []
        while any(left.values()):
            most = max(left, key=lambda kind: left[kind] / params[kind])
            left[most] -= 1
            kinds.append(most)
        same = {"pause": params.get("pause", 0.01), "notes": params["notes"]}
        return [TaskSpec({"kind": kind, "number": n, **same}, n, kind) for n, kind in enumerate(kinds)]


@register_job
class Chain(Job):
    """Many small stages: most of the work is to advance."""

    job_type = "chain"
    stages: ClassVar = [
        {"number": n, "name": f"link{n}", "task_type": "link", "parallelism": "fixed", "count": 3} for n in range(1, 21)
    ]


@register_handler("link", quick=True)
def link(params: dict[str, Any], ctx: Context) -> int:
    note("ended", params, ctx)
    return int(params["index"])


@register_job
class Steady(Job):
    """Tasks that note a heartbeat until their file is there."""

    job_type = "steady"
    stages: ClassVar = [{"number": 1, "name": "beat", "task_type": "beat", "parallelism": "dynamic"}]

    def create_tasks_for_stage(self, stage: int, params: dict[str, Any]) -> list[TaskSpec]:
        kind = params.get("kind", "plain")
        same = {"file": params["file"], "notes": params["notes"]}
        return [TaskSpec(same, n, f"beat_{kind}") for n in range(params["count"])]


@register_handler("beat")
def never(params: dict[str, Any]) -> None:
    raise NotImplementedError


@register_handler("beat_plain")
def beat_plain(params: dict[str, Any], ctx: Context) -> int:
    note("began", params, ctx)
    while not Path(params["file"]).exists():
        note("beat", params, ctx)
        time.sleep(0.05)
    note("ended", params, ctx)
    return ctx.attempt


@register_handler("beat_heavy", heavy=True)
def beat_heavy(params: dict[str, Any], ctx: Context) -> int:
    return beat_plain(params, ctx)


@register_handler("beat_async")
async def beat_async(params: dict[str, Any], ctx: Context) -> int:
    note("began", params, ctx)
    while not Path(params["file"]).exists():  # noqa: ASYNC240  # a local file, and a test
        note("beat", params, ctx)
        await asyncio.sleep(0.05)
    note("ended", params, ctx)
    return ctx.attempt
