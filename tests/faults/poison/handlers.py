"""Handlers that do harm: to themselves, to what runs them, and to who reads their results."""

import os
import signal
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar

from anabranch import Context, Job, Retry, TaskSpec, Transient, register_handler, register_job

AT_ONCE = Retry(initial_delay=timedelta(0))


def harm(act: str) -> object:
    return HARMS[act]()


def shout() -> None:
    raise ValueError("x" * 50_000_000)


def whisper() -> None:
    raise UnspeakableError


def change_folder() -> None:
    os.chdir("/")
    os.environ.clear()


def hold_itself() -> object:
    held: list[Any] = []
    held.append(held)
    return held


class UnspeakableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no")

    __repr__ = __str__


def nest(depth: int) -> object:
    value: object = 0
    for _ in range(depth):
        value = [value]
    return value


def kill_fork_server() -> object:
    """Kill the process that this one was forked from; never any other, also where it has another parent by now."""
    parent = os.getppid()
    if b"forkserver" in Path(f"/proc/{parent}/cmdline").read_bytes():
        os.kill(parent, signal.SIGKILL)
    return "fine"


HARMS: dict[str, Callable[[], object]] = {
    "fine": lambda: "fine",
    "shout": shout,
    "whisper": whisper,
    "exit": lambda: sys.exit(3),
    "leave": lambda: os._exit(0),
    "abort": os.abort,
    "orphan": kill_fork_server,
    "close": lambda: os.closerange(3, 256),
    "chdir": change_folder,
    "nan": lambda: float("nan"),
    "nul": lambda: "a\x00b",
    "deep": lambda: nest(5000),
    "wide": lambda: {f"{n}": n for n in range(200_000)},
    "number": lambda: 10**5000,
    "keys": lambda: {1: "one", None: "none"},
    "self": hold_itself,
}


@register_handler("poison.plain", timeout_seconds=5, retry=AT_ONCE)
def plain(params: dict[str, Any]) -> object:
    return harm(params["act"])


@register_handler("poison.heavy", timeout_seconds=5, heavy=True, retry=AT_ONCE)
def heavy(params: dict[str, Any]) -> object:
    return harm(params["act"])


@register_handler("poison.quick", quick=True, retry=AT_ONCE)
def quick(params: dict[str, Any]) -> object:
    return harm(params["act"])


@register_handler("poison.async", timeout_seconds=5, retry=AT_ONCE)
async def in_loop(params: dict[str, Any]) -> object:
    return harm(params["act"])


@register_job
class Harm(Job):
    """One harmful act by one kind of handler."""

    job_type = "poison_harm"
    stages: ClassVar = [{"number": 1, "name": "harm", "task_type": "poison.plain", "parallelism": "dynamic"}]

    def create_tasks_for_stage(self, stage: int, params: dict[str, Any]) -> list[TaskSpec]:
        return [TaskSpec({"act": params["act"]}, n, f"poison.{params['kind']}") for n in range(2)]


@register_job
class Unknown(Job):
    """Tasks for a handler that nobody has."""

    job_type = "poison_unknown"
    stages: ClassVar = [{"number": 1, "name": "none", "task_type": "poison.plain", "parallelism": "dynamic"}]

    def create_tasks_for_stage(self, stage: int, params: dict[str, Any]) -> list[TaskSpec]:
        return [TaskSpec({"act": "fine"}, n, "poison.nobody_has_it") for n in range(50)]


@register_job
class Bulky(Job):
    """Results that are not large by themselves, and all together are more than a claim can carry."""

    job_type = "poison_bulky"
    stages: ClassVar = [
        {
            "number": 1, "name": "make", "task_type": "poison.bulk", "parallelism": "dynamic",
            "count_param": "count",
        },
        {
            "number": 2, "name": "use", "task_type": "poison.quick", "parallelism": "match_previous",
            "uses_lineage": True, "on_failure": "continue",
        },
    ]  # fmt: skip


@register_handler("poison.bulk", quick=True)
def bulk(params: dict[str, Any]) -> str:
    return "x" * 950_000


@register_job
class Steps(Job):
    """Stages whose rows and definition are spoiled while it runs."""

    job_type = "poison_steps"
    stages: ClassVar = [
        {
            "number": n, "name": f"step{n}", "task_type": "poison.late", "parallelism": "fixed", "count": 2,
            "on_failure": "continue",
            "retry": {"max_attempts": 1000, "initial_delay_seconds": 0.2, "max_delay_seconds": 0.2},
        }
        for n in (1, 2, 3)
    ]  # fmt: skip


@register_handler("poison.late", quick=True)
def late(params: dict[str, Any], ctx: Context) -> int:
    if ctx.attempt < 10:
        raise Transient("not yet")
    return ctx.attempt
