"""Jobs whose first stage hands parameters over to the second."""

from datetime import timedelta
from typing import Any

from anabranch import Context, HandlerResult, Job, Retry, TaskSpec, Transient, handler, register_job


@handler("hand.once", retry=Retry(initial_delay=timedelta(0)))
def once(params: dict[str, Any], ctx: Context) -> str:
    if ctx.attempt == 1:
        ctx.hand_over(lost="by the attempt that failed")
        raise Transient("try again")
    ctx.hand_over(handed=f"from {ctx.index}", own="handed", job="handed")
    ctx.hand_over(more=ctx.attempt)
    return "done"


@handler("hand.some", quick=True)
def some(params: dict[str, Any], ctx: Context) -> None:
    if ctx.index == 1:
        ctx.hand_over(handed="quickly")


@handler("hand.async")
async def waiting(ctx: Context) -> HandlerResult:
    ctx.hand_over(handed="from the loop")
    return HandlerResult(success=True)


@handler("hand.failed")
def failed(params: dict[str, Any], ctx: Context) -> dict[str, Any]:
    ctx.hand_over(handed="by a failure")
    ctx.metrics["tried"] = 1
    return {"success": False, "error": "no"}


@handler("hand.much")
def much(params: dict[str, Any], ctx: Context) -> None:
    ctx.hand_over(text="x" * 64_000)


@handler("hand.nothing")
def nothing(params: dict[str, Any]) -> None: ...


@handler("hand.show")
def show(params: dict[str, Any]) -> dict[str, Any]:
    return params


@register_job
class Planned(Job):
    """Word indexes; the second stage has parameters of its own."""

    job_type = "hand_planned"
    stages = [
        {"number": 1, "name": "first", "task_type": "hand.once"},
        {"number": 2, "name": "second", "task_type": "hand.show"},
    ]

    def create_tasks_for_stage(self, stage: int, params: dict[str, Any]) -> list[TaskSpec]:
        indexes = ("a", "b") if stage == 1 else ("b", "c")
        return [TaskSpec({"own": "mine"}, index=index) for index in indexes]


def counted(name: str, first: str, spread: dict[str, Any]) -> type:
    stages = [
        {
            "number": 1,
            "name": "first",
            "task_type": first,
            "parallelism": "fixed",
            "count": 2,
            "on_failure": "continue",
        },
        {"number": 2, "name": "second", "task_type": "hand.show", **spread},
    ]
    return register_job(type(name, (Job,), {"job_type": f"hand_{name}", "stages": stages}))


some_job = counted("some", "hand.some", {"parallelism": "fixed", "count": 3})
async_job = counted("async", "hand.async", {"parallelism": "match_previous"})
failed_job = counted("failed", "hand.failed", {"parallelism": "match_previous"})
much_job = counted("much", "hand.much", {"parallelism": "match_previous"})
nothing_job = counted("nothing", "hand.nothing", {"parallelism": "fixed", "count": 2})
