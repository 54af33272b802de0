"""`submit`: submits a job to the running stack."""

from pathlib import Path
from typing import Annotated

import typer

from anabranch.cli.connection import connect, has_stack
from anabranch.cli.exit_codes import UsageError
from anabranch.cli.jobs.bulk import submit_lines
from anabranch.cli.jobs.follow import follow, print_end, submit_job
from anabranch.cli.jobs.parameters import read_parameters
from anabranch.cli.terminal.options import Json, ParameterList, ParametersFile, Priority, Rerun, Timeout, WorkflowName
from anabranch.cli.terminal.output import print_json, print_line

__all__ = ["submit"]


def submit(
    workflow: WorkflowName,
    param: ParameterList = None,
    params: ParametersFile = None,
    priority: Priority = None,
    rerun: Rerun = False,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the job to end; exit 7 if it failed.")] = False,
    timeout: Timeout = None,
    bulk: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Submit a job for each line of FILE, a JSON object of parameters; - is stdin."
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Submit a job; the same parameters return the existing job, or a new one if it failed.

    `anabranch retry JOB` continues a failed job instead, and keeps the work that it completed.
    """
    if bulk:
        if param or params or wait or timeout is not None:
            raise UsageError("usage", "--bulk can be combined only with --priority, --rerun and --json")
        _submit_lines(workflow, bulk, priority, rerun, json)
        return
    parameters = read_parameters(param or (), params)
    if not has_stack():
        parameters.require_readable()
    with connect() as client:
        submitted = submit_job(client, workflow, parameters, priority=priority, rerun=rerun)
        if wait or timeout is not None:
            print_end(follow(client, submitted.job_id, timeout, json=json), json=json)
        elif json:
            print_json(submitted)
        else:
            print_line(submitted.job_id)


def _submit_lines(workflow: str, file: Path, priority: int | None, rerun: bool, json: bool) -> None:
    body = {"workflow": workflow, "rerun": rerun, **({} if priority is None else {"priority": priority})}
    with connect() as client:
        submit_lines(client, file, body, json=json)
