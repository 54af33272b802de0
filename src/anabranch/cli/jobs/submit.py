"""`submit`: submits a job to the running stack."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from anabranch.cli.connection import connect
from anabranch.cli.exit_codes import UsageError
from anabranch.cli.jobs.bulk import submit_lines
from anabranch.cli.jobs.files import find_file_set, submit_files
from anabranch.cli.jobs.follow import follow, note_existing, print_end, submit_job
from anabranch.cli.jobs.parameters import read_labels, read_parameters
from anabranch.cli.jobs.sidecars import leave_out_sidecars
from anabranch.cli.jobs.uploads import Uploads
from anabranch.cli.terminal.options import (
    Json,
    LabelList,
    ParameterList,
    ParametersFile,
    Priority,
    Rerun,
    Timeout,
    WorkflowName,
)
from anabranch.cli.terminal.output import print_json, print_line
from anabranch.embedded.locate import has_stack

__all__ = ["send", "submit"]


def submit(
    workflow: WorkflowName,
    param: ParameterList = None,
    params: ParametersFile = None,
    priority: Priority = None,
    rerun: Rerun = False,
    label: LabelList = None,
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
    """Submit a job; the same parameters return the existing job, or a new one if it failed (`retry` continues it)."""
    labels = read_labels(label)
    if bulk:
        if param or params or wait or timeout is not None:
            raise UsageError("usage", "--bulk can be combined only with --priority, --rerun, --label and --json")
        _submit_lines(workflow, bulk, priority, rerun, labels, json)
        return
    send(
        workflow, param or (), params, wait=wait or timeout is not None, timeout=timeout, json=json,
        priority=priority, rerun=rerun, labels=labels,
    )  # fmt: skip


def send(
    workflow: str,
    given: Sequence[str],
    file: Path | None,
    *,
    wait: bool,
    timeout: float | None,
    json: bool,
    use_stack: Callable[[], AbstractContextManager[None]] = nullcontext,
    priority: int | None,
    rerun: bool,
    labels: Mapping[str, str],
) -> None:
    """Submit a job, or one for each file that a parameter names; mistakes are found before a stack is used."""
    files = find_file_set(given)
    parameters = read_parameters(files.others if files else given, file)
    if files or not has_stack():
        parameters.require_readable()
    with use_stack(), connect() as client:
        uploads = Uploads(client, quiet=json)
        submit = partial(submit_job, client, uploads, workflow, priority=priority, rerun=rerun, labels=labels)
        if files:
            files = replace(files, files=leave_out_sidecars(client, workflow, files.files))
            submit_files(client, files, parameters, submit, wait=wait, timeout=timeout, json=json)
            return
        submitted = submit(parameters)
        if not json:  # stderr has the error as JSON then, and nothing else
            note_existing(submitted)
        if wait:
            print_end(client, follow(client, submitted.job_id, timeout, json=json), json=json)
        elif json:
            print_json(submitted)
        else:
            print_line(submitted.job_id)


def _submit_lines(
    workflow: str, file: Path, priority: int | None, rerun: bool, labels: dict[str, str], json: bool
) -> None:
    body = {"workflow": workflow, "rerun": rerun, **({} if priority is None else {"priority": priority})}
    body |= {"labels": labels} if labels else {}
    with connect() as client:
        submit_lines(client, file, body, json=json)
