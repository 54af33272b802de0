"""Work in phases that stands still at one of its boundaries, until it is killed, told to stop, or told to go on."""

import os
import time
from pathlib import Path
from typing import Any, ClassVar

from anabranch import Context, Job, TaskSpec, register_handler, register_job
from anabranch.plugins.demo.phases import Phases, work_in_phases


@register_job
class Phased(Job):
    """A task for each boundary that it is given."""

    job_type = "phased"
    stages: ClassVar = [{"number": 1, "name": "work", "task_type": "phased", "parallelism": "dynamic"}]

    def create_tasks_for_stage(self, stage: int, params: dict[str, Any]) -> list[TaskSpec]:
        same = {name: params[name] for name in ("phases", "file", "notes")}
        return [TaskSpec({"stop": stop, **same}, n) for n, stop in enumerate(params["stops"])]


@register_handler("phased")
def phased(params: dict[str, Any], ctx: Context) -> Phases:
    def note(what: str) -> None:
        handle = os.open(params["notes"], os.O_WRONLY | os.O_APPEND)
        os.write(handle, f"{what} {ctx.node_id} {ctx.index} {ctx.attempt} {os.getpid()}\n".encode())
        os.close(handle)

    def at(moment: str, phase: int) -> None:
        note(f"{moment}-{phase}")
        if params["stop"] == f"{moment}-{phase}" and ctx.attempt == 1:
            note("stands")
            while not ctx.stopping and not Path(params["file"]).exists():
                time.sleep(0.02)

    return work_in_phases(params["phases"], 0, ctx, at)
