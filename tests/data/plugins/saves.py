"""Handlers that save checkpoints, well and badly."""

import asyncio
import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

from anabranch import Context, Interrupted, Job, Retry, TaskSpec, Transient, register_handler, register_job

AT_ONCE = Retry(initial_delay=timedelta(0))


@register_job
class Saves(Job):
    """One task for each act that it is given, by the handler of its kind."""

    job_type = "saves"
    stages = [
        {"number": 1, "name": "act", "task_type": "save_plain", "parallelism": "dynamic", "on_failure": "continue"}
    ]

    def create_tasks_for_stage(self, stage: int, params: dict[str, Any]) -> list[TaskSpec]:
        acts = [act.split(" ", 1) for act in params["acts"]]
        more = {"file": params.get("file")}
        made = enumerate(acts)
        return [TaskSpec({"act": act, **more}, n, f"save_{kind}", {"act": act}) for n, (kind, act) in made]


@register_job
class SavesInSilence(Job):
    """A checkpoint that takes longer than the handler may be silent."""

    job_type = "saves_in_silence"
    stages = [{"number": 1, "name": "act", "task_type": "save_plain", "heartbeat_timeout_seconds": 1.5}]


@register_handler("save_plain", retry=AT_ONCE)
def save_plain(params: dict[str, Any], ctx: Context) -> object:
    match params["act"]:
        case "and fail":
            assert ctx.metadata == {"act": "and fail"}, "in every attempt"
            if ctx.attempt < 3:
                ctx.checkpoint(f"phase {ctx.attempt}", {"at": [ctx.attempt, 0.5]})
                raise Transient("after the checkpoint")
        case "twice":
            ctx.checkpoint("first")
            ctx.checkpoint("second", "text")
        case "too much":
            ctx.checkpoint("large", "x" * 64_000)
        case "nameless":
            ctx.checkpoint("")
        case "nonsense":
            ctx.checkpoint("odd", float("nan"))
        case "when told":
            return when_told(params, ctx)
        case "and break":
            if ctx.attempt == 1:
                ctx.checkpoint("half", 7)
                raise ValueError("broken")
        case "and stop":
            raise Interrupted
        case "from a thread":
            thread = threading.Thread(target=ctx.checkpoint, args=("in a thread", 1))
            thread.start()
            thread.join()
        case "from a thread that is left":
            threading.Thread(target=ctx.checkpoint, args=("left", 1)).start()
        case _:
            pass
    return told(ctx)


def when_told(params: dict[str, Any], ctx: Context) -> object:
    """Save at once, and again when the file is there, whatever else it hears."""
    if ctx.attempt == 1:
        ctx.checkpoint("before")
        Path(params["file"] + ".saved").touch()
        while not Path(params["file"]).exists():
            time.sleep(0.01)
        try:
            ctx.checkpoint("after")
        finally:
            Path(params["file"] + ".told").write_text(str(ctx.cancelled))
    return told(ctx)


def told(ctx: Context) -> object:
    point = ctx.resume()
    return point and [point.phase, point.state, point.attempt]


@register_handler("save_async", retry=AT_ONCE)
async def save_async(params: dict[str, Any], ctx: Context) -> object:
    match params["act"]:
        case "and fail":
            assert ctx.metadata == {"act": "and fail"}, "in every attempt"
            if ctx.attempt < 3:
                await ctx.checkpoint(f"phase {ctx.attempt}", {"at": [ctx.attempt, 0.5]})
                raise Transient("after the checkpoint")
        case "and forget":
            ctx.checkpoint("never awaited")
            await asyncio.sleep(0)
        case "forget and go on":
            ctx.checkpoint("never awaited")
            await ctx.checkpoint("another")
        case "when told":
            return await wait(params, ctx)
        case _:
            pass
    return told(ctx)


async def wait(params: dict[str, Any], ctx: Context) -> object:
    await ctx.checkpoint(f"attempt {ctx.attempt}")
    await asyncio.to_thread(Path(params["file"] + ".saved").touch)
    while not ctx.stopping and ctx.attempt == 1:
        await asyncio.sleep(0.01)
    if ctx.stopping:
        await ctx.checkpoint("stopping")
        raise Interrupted
    return told(ctx)


@register_handler("save_quick", quick=True)
def save_quick(params: dict[str, Any], ctx: Context) -> object:
    ctx.checkpoint("quick")
    return None
