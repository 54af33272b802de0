"""Arguments and options shared by several commands."""

from pathlib import Path
from typing import Annotated

import typer

from anabranch.cli.terminal.completers import complete_job, complete_workflow

__all__ = [
    "After",
    "All",
    "Follow",
    "JobId",
    "Json",
    "LabelList",
    "OptionalJobId",
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
    typer.Argument(metavar="JOB", help="The job's id, or a unique prefix of it.", autocompletion=complete_job),
]
OptionalJobId = Annotated[
    str | None,
    typer.Argument(metavar="JOB", help="The job's id, or a unique prefix of it.", autocompletion=complete_job),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
After = Annotated[str | None, typer.Option(metavar="CURSOR", help="Continue after the previous page.")]
All = Annotated[bool, typer.Option("--all", help="Print the complete list as JSON lines.")]
Follow = Annotated[bool, typer.Option("--follow", "-f", help="Keep printing new entries until the job has ended.")]
Yes = Annotated[bool, typer.Option("--yes", help="Skip the confirmation.")]

ParameterList = Annotated[
    list[str] | None,
    typer.Option(
        "-p",
        "--param",
        metavar="KEY=VALUE",
        help="A parameter: parsed as JSON if it is JSON, otherwise text; @FILE is uploaded, and @FOLDER or a pattern"
        " like '@scenes/*.tif' makes a job for each file.",
    ),
]
LabelList = Annotated[
    list[str] | None, typer.Option("--label", metavar="NAME=VALUE", help="A label of the job; may be repeated.")
]
ParametersFile = Annotated[
    Path | None, typer.Option("--params", metavar="FILE", help="Parameters as JSON or YAML; - is stdin.")
]
Priority = Annotated[
    int | None, typer.Option(metavar="1-9", help="1 is the highest, 9 the lowest; by default the workflow's own.")
]
Rerun = Annotated[bool, typer.Option("--rerun", help="Create a new job even if the same one exists.")]
Timeout = Annotated[
    float | None, typer.Option(min=0, metavar="SECONDS", help="How long to wait for the job; by default without limit.")
]
