"""The work of the fault campaigns: every kind of handler; each run is witnessed outside the database.

A result is a pure function of the parameters, but for `run`, which is drawn for each run and noted beside it: so the
accepted result can be checked exactly, and the run that it came from is known.
"""

import asyncio
import hashlib
import json
import os
import secrets
import time
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar

from anabranch import Context, Job, Permanent, Retry, TaskSpec, Transient, register_handler, register_job

KINDS = ("quick", "async", "plain", "heavy")
PRIME = 1_000_003


def note(what: str, run: str, params: dict[str, Any], ctx: Context, value: object = None) -> None:
    """One line, whole, in the order of events."""
    line = {
        "what": what, "run": run, "job": ctx.job_id, "node": ctx.node_id, "index": str(ctx.index),
        "attempt": ctx.attempt, "value": value, "at": time.time(), "pid": os.getpid(),
    }  # fmt: skip
    handle = os.open(params["notes"], os.O_WRONLY | os.O_APPEND)
    try:
        os.write(handle, json.dumps(line).encode() + b"\n")
    finally:
        os.close(handle)


def begin(params: dict[str, Any], ctx: Context) -> str:
    run = secrets.token_hex(8)
    note("began", run, params, ctx)
    return run


def end(run: str, value: object, params: dict[str, Any], ctx: Context, **more: object) -> dict[str, Any]:
    note("ended", run, params, ctx, value)
    return {"value": value, "run": run, **more}


def scramble(number: int) -> int:
    return (number * number + 7) % PRIME


@register_handler("campaign.quick", quick=True)
def quick(params: dict[str, Any], ctx: Context) -> dict[str, Any]:
    return end(begin(params, ctx), scramble(params["number"]), params, ctx)


@register_handler("campaign.async")
async def in_loop(params: dict[str, Any], ctx: Context) -> dict[str, Any]:
    run = begin(params, ctx)
    await asyncio.sleep(params["pause"])
    return end(run, scramble(params["number"]), params, ctx)


@register_handler("campaign.plain")
def plain(params: dict[str, Any], ctx: Context) -> dict[str, Any]:
    run = begin(params, ctx)
    time.sleep(params["pause"])
    return end(run, scramble(params["number"]), params, ctx)


@register_handler("campaign.heavy", heavy=True)
def heavy(params: dict[str, Any], ctx: Context) -> dict[str, Any]:
    return plain(params, ctx)


@register_handler("campaign.add")
def add(params: dict[str, Any], ctx: Context) -> dict[str, Any]:
    run = begin(params, ctx)
    results = [task["result"] for task in params["previous_results"]]
    return end(run, sum(result["value"] for result in results), params, ctx, count=len(results))


@register_handler("campaign.idle_or_end", timeout_seconds=3600)
def idle_or_end(params: dict[str, Any], ctx: Context) -> dict[str, Any]:
    run = begin(params, ctx)
    while params["ends"] == "cancelled" and not ctx.cancelled:
        time.sleep(0.05)
    if params["ends"] == "failed" and not Path(params["file"]).exists():
        raise Permanent("the file is not there", code="campaign.broken")
    return end(run, scramble(params["number"]), params, ctx)


@register_handler("campaign.tidy")
def tidy(params: dict[str, Any], ctx: Context) -> dict[str, Any]:
    return end(begin(params, ctx), [params["how"], params["work"]], params, ctx)


@register_job
class Fan(Job):
    """A fan-out of tasks of every kind in turn, and their sum."""

    job_type = "campaign_fan"
    stages: ClassVar = [
        {"number": 1, "name": "work", "task_type": "campaign.plain", "parallelism": "dynamic"},
        {"number": 2, "name": "add", "task_type": "campaign.add", "parallelism": "fan_in"},
    ]

    def create_tasks_for_stage(self, stage: int, params: dict[str, Any]) -> list[TaskSpec]:
        same = {"notes": params["notes"], "pause": params["pause"]}
        return [
            TaskSpec({"number": number, **same}, place, f"campaign.{KINDS[number % len(KINDS)]}")
            for place, number in enumerate(params["numbers"])
        ]


@register_job
class Chain(Job):
    """Small stages, one after the other: most of the work is to advance."""

    job_type = "campaign_chain"
    stages: ClassVar = [
        {"number": n, "name": f"link{n}", "task_type": "campaign.link", "parallelism": "fixed", "count": 2}
        for n in range(1, 7)
    ]


@register_handler("campaign.link", quick=True)
def link(params: dict[str, Any], ctx: Context) -> dict[str, Any]:
    run = begin(params, ctx)
    before = [task["result"]["value"] for task in params.get("previous_results", ())]
    return end(run, scramble(sum(before) + params["number"] + params["index"]), params, ctx)


@register_job
class Flaky(Job):
    """Tasks whose first attempts fail, as often as a retry allows: one failure too many that is charged shows."""

    job_type = "campaign_flaky"
    stages: ClassVar = [
        {
            "number": 1, "name": "work", "task_type": "campaign.flaky", "parallelism": "dynamic",
            "retry": {"max_attempts": 4, "initial_delay_seconds": 0.1, "max_delay_seconds": 0.3},
        },
        {"number": 2, "name": "add", "task_type": "campaign.add", "parallelism": "fan_in"},
    ]  # fmt: skip

    def create_tasks_for_stage(self, stage: int, params: dict[str, Any]) -> list[TaskSpec]:
        return [TaskSpec({"number": n, "notes": params["notes"]}, i) for i, n in enumerate(params["numbers"])]


@register_handler("campaign.flaky")
def flaky(params: dict[str, Any], ctx: Context) -> dict[str, Any]:
    run = begin(params, ctx)
    if ctx.attempt <= params["number"] % 4:
        raise Transient(f"attempt {ctx.attempt} is too early")
    return end(run, scramble(params["number"]), params, ctx)


@register_job
class Steps(Job):
    """Tasks that save a checkpoint after each step, and go on from the last."""

    job_type = "campaign_steps"
    stages: ClassVar = [{"number": 1, "name": "work", "task_type": "campaign.steps", "parallelism": "dynamic"}]

    def create_tasks_for_stage(self, stage: int, params: dict[str, Any]) -> list[TaskSpec]:
        same = {"notes": params["notes"], "pause": params["pause"]}
        return [TaskSpec({"number": n, **same}, i) for i, n in enumerate(params["numbers"])]


@register_handler("campaign.steps")
def steps(params: dict[str, Any], ctx: Context) -> dict[str, Any]:
    run = begin(params, ctx)
    saved = ctx.resume()
    state: Any = saved.state if saved else {"done": 0, "value": params["number"]}
    done, value = state["done"], state["value"]
    while done < 4:
        time.sleep(params["pause"])
        done, value = done + 1, scramble(value + done)
        ctx.checkpoint(f"step {done}", {"done": done, "value": value})
    return end(run, value, params, ctx)


@register_job
class Bulk(Job):
    """Results too large for the database, and a task that reads them all."""

    job_type = "campaign_bulk"
    stages: ClassVar = [
        {"number": 1, "name": "make", "task_type": "campaign.make", "parallelism": "fixed", "count": 2},
        {"number": 2, "name": "read", "task_type": "campaign.read", "parallelism": "fan_in"},
    ]


@register_handler("campaign.make")
def make(params: dict[str, Any], ctx: Context) -> dict[str, Any]:
    run = begin(params, ctx)
    value = hashlib.shake_256(f"{params['number']} {params['index']}".encode()).hexdigest(600_000)
    digest = hashlib.sha256(value.encode()).hexdigest()
    return {**end(run, digest, params, ctx), "bulk": value}


@register_handler("campaign.read")
def read(params: dict[str, Any], ctx: Context) -> dict[str, Any]:
    run = begin(params, ctx)
    made = [task["result"] for task in params["previous_results"]]
    value = [hashlib.sha256(one["bulk"].encode()).hexdigest() for one in made]
    return end(run, value, params, ctx, runs=[one["run"] for one in made])


@register_job
class Broken(Job):
    """Half of its tasks fail for good until a file is there; then a user retries it."""

    job_type = "campaign_broken"
    stages: ClassVar = [
        {
            "number": 1, "name": "work", "task_type": "campaign.broken", "parallelism": "dynamic",
            "on_failure": "finish", "retry": {"max_attempts": 1},
        },
        {"number": 2, "name": "add", "task_type": "campaign.add", "parallelism": "fan_in"},
    ]  # fmt: skip

    def create_tasks_for_stage(self, stage: int, params: dict[str, Any]) -> list[TaskSpec]:
        same = {"notes": params["notes"], "file": params["file"]}
        return [TaskSpec({"number": n, **same}, i) for i, n in enumerate(params["numbers"])]


@register_handler("campaign.broken")
def broken(params: dict[str, Any], ctx: Context) -> dict[str, Any]:
    run = begin(params, ctx)
    if params["number"] % 2 and not Path(params["file"]).exists():
        raise Permanent("the file is not there", code="campaign.broken")
    return end(run, scramble(params["number"]), params, ctx)


@register_job
class Idle(Job):
    """Tasks that run until they are cancelled."""

    job_type = "campaign_idle"
    stages: ClassVar = [{"number": 1, "name": "work", "task_type": "campaign.idle", "parallelism": "dynamic"}]

    def create_tasks_for_stage(self, stage: int, params: dict[str, Any]) -> list[TaskSpec]:
        same = {"notes": params["notes"]}
        return [TaskSpec({"number": n, **same}, i, f"campaign.idle_{params['kind']}") for i, n in enumerate((0, 1))]


@register_handler("campaign.idle")
def idle(params: dict[str, Any]) -> None:
    raise NotImplementedError


@register_handler("campaign.idle_plain", timeout_seconds=3600)
def idle_plain(params: dict[str, Any], ctx: Context) -> None:
    begin(params, ctx)
    while not ctx.cancelled:
        time.sleep(0.05)


@register_handler("campaign.idle_heavy", heavy=True, timeout_seconds=3600)
def idle_heavy(params: dict[str, Any], ctx: Context) -> None:
    idle_plain(params, ctx)


@register_handler("campaign.idle_async", timeout_seconds=3600, retry=Retry(initial_delay=timedelta(0)))
async def idle_async(params: dict[str, Any], ctx: Context) -> None:
    begin(params, ctx)
    await asyncio.sleep(3600)
