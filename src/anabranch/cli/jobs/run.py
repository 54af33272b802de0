"""`run`: runs a job to its end, and starts a stack for it if none is up."""

from collections.abc import Iterator
from contextlib import contextmanager

from anabranch.cli.connection import connect, find_home, find_remote
from anabranch.cli.jobs.follow import follow, print_end, submit_job
from anabranch.cli.jobs.parameters import read_labels, read_parameters
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
    parameters, labels = read_parameters(param or (), params), read_labels(label)
    with use_stack(), connect() as client:
        submitted = submit_job(client, workflow, parameters, priority=priority, rerun=rerun, labels=labels)
        print_end(follow(client, submitted.job_id, timeout, json=json), json=json)


@contextmanager
def use_stack() -> Iterator[None]:
    """The running stack, or a temporary one."""
    if find_remote().url or find_home().read_stack():
        yield
        return
    from anabranch.cli.stack.start import temporary_stack  # a running stack needs none of it

    with temporary_stack():
        yield
