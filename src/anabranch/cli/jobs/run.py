"""`run`: runs a job to its end, and starts a stack for it if none is up."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from anabranch.cli.connection import connect
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
from anabranch.embedded.locate import has_stack

__all__ = ["run"]


def run(
    workflow: WorkflowName,
    param: ParameterList = None,
    params: ParametersFile = None,
    priority: Priority = None,
    rerun: Rerun = False,
    label: LabelList = None,
    timeout: Timeout = None,
    json: Json = False,
) -> None:
    """Run a job to its end, on a temporary stack if none is up."""
    files = find_file_set(param or ())
    parameters = read_parameters(files.others if files else param or (), params)
    if files or not has_stack():
        parameters.require_readable()
    labels = read_labels(label)
    with use_stack(), connect() as client:
        uploads = Uploads(client, quiet=json)
        submit = partial(submit_job, client, uploads, workflow, priority=priority, rerun=rerun, labels=labels)
        if files:
            files = replace(files, files=leave_out_sidecars(client, workflow, files.files))
            submit_files(client, files, parameters, submit, wait=True, timeout=timeout, json=json)
            return
        submitted = submit(parameters)
        if not json:  # stderr has the error as JSON then, and nothing else
            note_existing(submitted)
        print_end(client, follow(client, submitted.job_id, timeout, json=json), json=json)


@contextmanager
def use_stack() -> Iterator[None]:
    """The running stack, or a temporary one."""
    if has_stack():
        yield
        return
    from anabranch.cli.stack.start import temporary_stack  # a running stack needs none of it

    with temporary_stack():
        yield
