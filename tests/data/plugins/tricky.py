"""Handlers that misbehave, each in its own way."""

import asyncio
import contextlib
import os
import signal
import subprocess
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

from anabranch import Context, Job, Retry, Throttled, Transient, register_handler, register_job


@register_job
class Tricky(Job):
    """Runs the acts it is given, one task each, then counts them."""

    job_type = "tricky"
    stages = [
        {"number": 1, "name": "act", "task_type": "act", "parallelism": "dynamic", "on_failure": "continue"},
        {"number": 2, "name": "count", "task_type": "count", "parallelism": "fan_in"},
    ]

    def create_tasks_for_stage(self, stage: int, params: dict[str, Any]) -> list[dict[str, Any]]:
        return [{"index": i, "act": act} for i, act in enumerate(params["acts"])]


@register_job
class Long(Job):
    """As tricky, with enough time to be stopped."""

    job_type = "long"
    stages = [
        {"number": 1, "name": "act", "task_type": "act", "parallelism": "dynamic", "timeout_seconds": 600},
        {"number": 2, "name": "count", "task_type": "count", "parallelism": "fan_in"},
    ]

    def create_tasks_for_stage(self, stage: int, params: dict[str, Any]) -> list[dict[str, Any]]:
        return [{"index": i, "act": act, "file": params.get("file")} for i, act in enumerate(params["acts"])]


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise ValueError("not even this")


@register_handler("act", timeout_seconds=2, retry=Retry(initial_delay=timedelta(0)))
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
        case "bad progress":
            ctx.progress(1, 2, "a\x00b")
        case "bad error":
            raise Unspeakable
        case "throttled":
            if ctx.attempt == 1:
                raise Throttled("slow down", retry_after=0.1)
        case "exit":
            raise SystemExit(3)
        case "interrupt":
            raise KeyboardInterrupt
        case "posing":
            return {"anabranch:reference": {"href": "../secret"}}
        case "leaves a process":
            subprocess.run(["sleep", "4321"], check=True)
        case "loop":
            return sum(range(10**12))
        case "memory":
            return len(bytearray(64 * 2**30))
        case "print":
            while True:
                os.write(1, b"x" * 2**20)
        case "large":
            return "x" * 5_000_000
        case "said":
            print("out loud")
            ctx.logger.info("logged")
            ctx.metrics["rows"] = 7
        case "scratch":
            (ctx.scratch / "file").write_text("mine")
            return str(ctx.scratch)
        case "patient":
            while not ctx.stopping and not ctx.cancelled:
                time.sleep(0.01)
            if params.get("file"):
                Path(params["file"]).write_text("cancelled" if ctx.cancelled else "stopping")
            return {"stopping": ctx.stopping, "cancelled": ctx.cancelled}
        case "silent":
            ctx.progress(1, 10, "one")
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
    stages = [{"number": 1, "name": "wait", "task_type": "wait", "parallelism": "fixed", "count": 2}]


@register_job
class Endless(Job):
    """An async task that hears nothing."""

    job_type = "endless"
    stages = [{"number": 1, "task_type": "wait"}]


@register_handler("wait")
async def wait(params: dict[str, Any]) -> float:
    await asyncio.sleep(params["seconds"])
    return time.time()


@register_handler("quick", quick=True)
def quick(params: dict[str, Any]) -> int:
    return int(params["index"])


@register_handler("slow_quick", quick=True)
def slow_quick(params: dict[str, Any]) -> float:
    time.sleep(0.2)
    return time.time()


@register_handler("heavy", heavy=True)
def heavy(params: dict[str, Any]) -> int:
    return os.getpid()


@register_job
class Kinds(Job):
    """The same number of tasks of each kind of handler."""

    job_type = "kinds"
    stages = [
        {"number": 1, "name": "quick", "task_type": "quick", "parallelism": "dynamic", "count_param": "n"},
        {"number": 2, "name": "heavy", "task_type": "heavy", "parallelism": "fixed", "count": 2},
        {"number": 3, "name": "join", "task_type": "count", "parallelism": "fan_in"},
    ]


@register_handler("overlap")
def overlap(params: dict[str, Any]) -> list[float]:
    begun = time.time()
    time.sleep(0.05)
    return [begun, time.time()]


@register_job
class Overlap(Job):
    """Tasks that say from when to when they ran."""

    job_type = "overlap"
    stages = [{"number": 1, "name": "run", "task_type": "overlap", "parallelism": "fixed", "count": 12}]


@register_job
class Silent(Job):
    """A task that says one thing and then nothing."""

    job_type = "silent"
    stages = [
        {
            "number": 1,
            "task_type": "act",
            "heartbeat_timeout_seconds": 0.3,
            "timeout_seconds": 60,
            "retry": {"max_attempts": 1},
        }
    ]


@register_handler("hang", quick=True, timeout_seconds=0.3)
def hang(params: dict[str, Any]) -> None:
    time.sleep(3)


@register_job
class Hang(Job):
    """A handler that is not as quick as it says."""

    job_type = "hang"
    stages = [{"number": 1, "task_type": "hang"}]


@register_handler("bulk", quick=True)
def bulk(params: dict[str, Any]) -> str:
    return "x" * 20_000


@register_handler("weigh")
def weigh(params: dict[str, Any]) -> dict[str, Any]:
    results = params["previous_results"]
    return {
        "kind": type(results).__name__,
        "count": len(results),
        "weight": sum(len(result["result"]) for result in results),
        "last": results[-1]["index"],
        "middle": [result["index"] for result in results[10:13]],
    }


@register_job
class Bulk(Job):
    """More results than one would hold in memory, for the one task that gets them all."""

    job_type = "bulk"
    stages = [
        {"number": 1, "name": "many", "task_type": "bulk", "parallelism": "dynamic", "count_param": "n"},
        {"number": 2, "name": "weigh", "task_type": "weigh", "parallelism": "fan_in"},
    ]


@register_handler("fickle")
def fickle(params: dict[str, Any]) -> None:
    time.sleep(0.001 if params["index"] < 100 else 1.2)


@register_job
class Fickle(Job):
    """A handler that is fast until it is not."""

    job_type = "fickle"
    stages = [{"number": 1, "name": "run", "task_type": "fickle", "parallelism": "dynamic", "count_param": "n"}]


@register_handler("forks")
def forks(params: dict[str, Any], ctx: Context) -> dict[str, Any]:
    if os.fork() == 0:
        ctx.progress(1, 2, "a copy")
        raise ValueError("the copy goes on")
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    return {"mine": params["index"]}


@register_job
class Forks(Job):
    """Handlers that leave copies of themselves and armed timers, and handlers after them in the same children."""

    job_type = "forks"
    stages = [
        {"number": 1, "name": "fork", "task_type": "forks", "parallelism": "fixed", "count": 6},
        {"number": 2, "name": "after", "task_type": "index_of", "parallelism": "fixed", "count": 30},
    ]


@register_handler("index_of")
def index_of(params: dict[str, Any]) -> dict[str, Any]:
    time.sleep(0.02)
    return {"mine": params["index"]}


@register_job
class Deaf(Job):
    """An async task that goes on whatever it is told, until its file is there."""

    job_type = "deaf"
    stages = [{"number": 1, "name": "wait", "task_type": "deaf"}]


@register_handler("deaf")
async def deaf(params: dict[str, Any]) -> None:
    while not os.path.exists(params["file"]):  # noqa: ASYNC240, PTH110  # as some do
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(0.05)
