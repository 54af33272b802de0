"""The measured job types, on a queue of one run."""

from collections.abc import Mapping, Sequence

from anabranch.bench import handlers
from anabranch.bench.handlers import KINDS
from anabranch.workflows.stages import Job, register_job

__all__ = ["CHAIN", "EXPRESSIONS", "FAN_OUT", "ONE_TASK", "declare_workflows"]

FAN_OUT = "bench_fan_out"
EXPRESSIONS = "bench_expressions"
ONE_TASK = "bench_one"
CHAIN = "bench_chain"


def declare_workflows(queue: str, steps: int = 1) -> dict[str, object]:
    """The namespace of a plugin for the workers of this run: the job types and their handlers."""
    tasks = {"name": "tasks", "task_type": "bench.quick", "parallelism": "dynamic", "count_param": "tasks"}
    join = {"name": "join", "task_type": "bench.count", "parallelism": "fan_in"}
    types = {
        FAN_OUT: _declare(FAN_OUT, queue, [tasks, join]),
        ONE_TASK: _declare(ONE_TASK, queue, [{"name": "task", "task_type": "bench.quick"}]),
    }
    for kind in KINDS:
        chain = [{"name": f"step{number}", "task_type": f"bench.{kind}"} for number in range(1, steps + 1)]
        types[f"{CHAIN}_{kind}"] = _declare(f"{CHAIN}_{kind}", queue, chain)
    return {**types, **{name: getattr(handlers, name) for name in handlers.__all__ if name != "KINDS"}}


def _declare(name: str, queue: str, stages: Sequence[Mapping[str, str]]) -> type:
    numbered = [{"number": number, "queue": queue, **stage} for number, stage in enumerate(stages, 1)]
    return register_job(type(name, (Job,), {"job_type": name, "stages": numbered}))
