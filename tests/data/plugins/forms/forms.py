"""A job with a task for each form that a handler can have."""

import os
from datetime import timedelta
from typing import Any

from pydantic import BaseModel

from anabranch import Context, HandlerContext, HandlerResult, Job, Retry, TaskSpec, handler, register_job

QUICKLY = Retry(initial_delay=timedelta(0))


class Sum(BaseModel):
    """Two numbers."""

    a: int
    b: int = 1


class Total(BaseModel):
    """Their sum."""

    total: int


@handler("form.params")
def params_only(params: dict[str, Any]) -> int:
    return int(params["a"])


@handler("form.params_context")
def params_context(params: dict[str, Any], context: Any) -> list[Any]:  # told by its name
    return [params["a"], context.index]


@handler("form.annotated")
def annotated(told: Context, given: Sum) -> Total:
    """Told by annotation.

    In any order.
    """
    return Total(total=given.a + given.b + told.attempt)


@handler("form.context", retry=QUICKLY)
async def context_only(ctx: HandlerContext) -> HandlerResult:
    ctx.metrics["seen"] = 1
    return HandlerResult(success=True, output={"a": ctx.params["a"]}, metrics={"rows": 7})


@handler("form.class", queue="light")
class Counting:
    """Counts its calls in this process."""

    def __init__(self) -> None:
        self.calls = 0

    def execute(self, params: Sum) -> dict[str, int]:
        self.calls += 1
        return {"a": params.a, "calls": self.calls, "pid": os.getpid()}


class Listed:
    async def execute(self, params: dict[str, Any], context: Context) -> str:
        return f"{params['a']} in {context.node_id}"


class Static:
    @staticmethod
    def execute(params: dict[str, Any]) -> str:
        return f"static {params['a']}"


@handler("form.failed", retry=QUICKLY)
def failed(params: dict[str, Any]) -> dict[str, Any]:
    return {"success": False, "error": "no such file"}


@handler("form.retried", retry=QUICKLY)
def retried(params: dict[str, Any], ctx: Context) -> dict[str, Any]:
    return {"success": True} if ctx.attempt == 3 else {"success": False, "error": "busy", "retry": True}


@handler("form.data")
def data(params: dict[str, Any]) -> dict[str, Any]:
    return {"success": False, "error": "a column of the table", "rows": 3}


@handler("form.refused")
def refused(params: dict[str, Any]) -> HandlerResult:
    return HandlerResult(success=False, error_message="not a raster", output={"lost": True})


@handler("form.wrong")
def wrong(params: dict[str, Any]) -> HandlerResult:
    return HandlerResult(success=True, output=object())


ALL_HANDLERS = {"form.listed": Listed, "form.static": Static}


@register_job
class Forms(Job):
    """One task for each form named."""

    job_type = "forms"
    stages = [{"number": 1, "name": "form", "task_type": "form.params", "on_failure": "continue"}]

    def create_tasks_for_stage(self, stage: int, params: dict[str, Any]) -> list[TaskSpec]:
        return [TaskSpec({"a": 5}, index=form, task_type=f"form.{form.split()[0]}") for form in params["forms"]]
