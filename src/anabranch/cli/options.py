"""Arguments and options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

from anabranch.cli.completion import complete_job, complete_workflow

__all__ = [
    "After",
    "All",
    "Follow",
    "JobId",
    "Json",
    "ParameterList",
    "ParametersFile",
    "Priority",
    "Rerun",
    "Timeout",
    "WorkflowName",
    "Yes",
]

WorkflowName = Annotated[
    str, typer.Argument(metavar="WORKFLOW", help="The workflow's name.", autocompletion=complete_workflow)
]
JobId = Annotated[
    str,
    typer.Argument(
        metavar="JOB", help="The job's id, or a start of it that fits no other.", autocompletion=complete_job
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
After = Annotated[str | None, typer.Option(metavar="CURSOR", help="Go on where a list ended.")]
All = Annotated[bool, typer.Option("--all", help="The whole list, as JSON, one in a line.")]
Follow = Annotated[bool, typer.Option("--follow", "-f", help="Go on as it happens, until the job has ended.")]
Yes = Annotated[bool, typer.Option("--yes", help="Yes, destroy it.")]

ParameterList = Annotated[
    list[str] | None,
    typer.Option(
        "-p", "--param", metavar="KEY=VALUE", help="A parameter: JSON where it is JSON, else text; @FILE is uploaded."
    ),
]
ParametersFile = Annotated[
    Path | None, typer.Option("--params", metavar="FILE", help="Parameters as JSON or YAML; - is stdin.")
]
Priority = Annotated[int | None, typer.Option(min=1, max=9, help="1 is first, 9 is last.")]
Rerun = Annotated[bool, typer.Option("--rerun", help="Run it anew even if the same job exists.")]
Timeout = Annotated[
    float | None, typer.Option(min=0, metavar="SECONDS", help="How long to wait for the job; by default without end.")
]
