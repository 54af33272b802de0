"""Handlers that misbehave, each in its own way and each kind of handler."""

import asyncio
import contextlib
import errno
import os
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar

from anabranch import Context, Job, Retry, TaskSpec, register_handler, register_job

AT_ONCE = Retry(initial_delay=timedelta(0))


@register_job
class Acts(Job):
    """Runs the acts it is given, each a kind of handler and what it does, one task each."""

    job_type = "acts"
    stages: ClassVar = [
        {"number": 1, "name": "act", "task_type": "act_plain", "parallelism": "dynamic", "on_failure": "continue"}
    ]

    def create_tasks_for_stage(self, stage: int, params: dict[str, Any]) -> list[TaskSpec]:
        acts = [act.split() for act in params["acts"]]
        return [
            TaskSpec({"act": act, "megabytes": params.get("megabytes", 5)}, n, f"act_{kind}")
            for n, (kind, act) in enumerate(acts)
        ]


@register_handler("act_plain", timeout_seconds=4, retry=AT_ONCE)
def act_plain(params: dict[str, Any], ctx: Context) -> object:
    match params["act"]:
        case "abort":
            os.abort()
        case "exit":
            sys.exit(3)
        case "memory":
            return len(bytearray(64 * 2**30))
        case "loop":
            return sum(range(10**12))
        case "print":
            while True:
                os.write(1, b"x" * 2**20)
        case "large":
            return "x" * 5_000_000
        case "leaks":
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        case "scratch":
            return (ctx.scratch / "file").write_bytes(bytes(params["megabytes"] * 2**20))
        case other:
            return bad_result(other)


def bad_result(act: str) -> object:
    deep: list[Any] = []
    for _ in range(1000):
        deep = [deep]
    return {
        "fine": "fine",
        "nan": float("nan"),
        "nul": "a\x00b",
        "surrogate": "\ud800",
        "deep": deep,
        "object": object(),
    }[act]


@register_handler("act_heavy", timeout_seconds=5, heavy=True, retry=AT_ONCE)
def act_heavy(params: dict[str, Any], ctx: Context) -> object:
    return act_plain(params, ctx)


@register_handler("act_quick", quick=True, retry=AT_ONCE)
def act_quick(params: dict[str, Any]) -> object:
    if params["act"] == "exit":
        sys.exit(3)
    if params["act"] == "abort":
        os.abort()
    if params["act"] == "opens":
        return open_files()
    return bad_result(params["act"])


def open_files(*, leaks: bool = False) -> str:
    if leaks:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
    for end in (*os.pipe(), *os.pipe()):
        os.close(end)
    return "fine"


async def hear_nothing() -> None:
    while True:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(1)


@register_handler("act_async", timeout_seconds=5, retry=AT_ONCE)
async def act_async(params: dict[str, Any], ctx: Context) -> object:
    match params["act"]:
        case "abort":
            os.abort()
        case "exit":
            sys.exit(3)
        case "cancelled":
            raise asyncio.CancelledError
        case "cancels":
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            await asyncio.sleep(1)
        case "block":
            time.sleep(4)  # noqa: ASYNC251  # as some do
            return "fine"
        case "freeze":
            time.sleep(1000)  # noqa: ASYNC251  # as some do
        case "wait":
            await asyncio.sleep(600)
        case "opens" | "leaks" as act:
            return open_files(leaks=act == "leaks")
        case "deaf":
            await hear_nothing()
        case other:
            return bad_result(other)
    return None


@register_job
class Aside(Job):
    """Large results, the second once its file is there, and a task that reads them."""

    job_type = "aside"
    stages: ClassVar = [
        {"number": 1, "name": "make", "task_type": "make", "parallelism": "fixed", "count": 2},
        {"number": 2, "name": "read", "task_type": "read", "parallelism": "fan_in"},
    ]


@register_handler("make")
def make(params: dict[str, Any]) -> str:
    while params["index"] and not Path(params["file"]).exists():
        time.sleep(0.02)
    return "x" * 2_000_000


@register_handler("read")
def read(params: dict[str, Any]) -> int:
    return len(params["previous_results"][0]["result"])


@register_job
class Endless(Job):
    """One act with all the time of the world."""

    job_type = "endless"
    stages: ClassVar = [
        {"number": 1, "name": "act", "task_type": "act_plain", "parallelism": "dynamic", "timeout_seconds": 3600}
    ]

    def create_tasks_for_stage(self, stage: int, params: dict[str, Any]) -> list[TaskSpec]:
        kind, act = params["act"].split()
        return [TaskSpec({"act": act}, 0, f"act_{kind}")]


@register_job
class Bulky(Job):
    """Results that don't compress, and stay in the database."""

    job_type = "bulky"
    stages: ClassVar = [
        {"number": 1, "name": "bulk", "task_type": "bulk", "parallelism": "dynamic", "count_param": "count"}
    ]


@register_handler("bulk")
def bulk(params: dict[str, Any]) -> str:
    return os.urandom(params["bytes"] // 2).hex()


@register_job
class LongKey(Job):
    """A planner whose indexes no database index can hold."""

    job_type = "long_key"
    stages: ClassVar = [{"number": 1, "name": "act", "task_type": "act_plain", "parallelism": "dynamic"}]

    def create_tasks_for_stage(self, stage: int, params: dict[str, Any]) -> list[TaskSpec]:
        return [TaskSpec({"act": "fine"}, os.urandom(4000).hex())]
