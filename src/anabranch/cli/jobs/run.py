"""`run`: runs a job to its end, and starts a stack for it if none is up."""

from collections.abc import Iterator
from contextlib import contextmanager

from anabranch.cli.connection import connect, has_stack
from anabranch.cli.jobs.follow import follow, print_end, submit_job
from anabranch.cli.jobs.parameters import read_parameters
from anabranch.cli.terminal.options import Json, ParameterList, ParametersFile, Priority, Rerun, Timeout, WorkflowName

__all__ = ["run"]


def run(
    workflow: WorkflowName,
    param: ParameterList = None,
    params: ParametersFile = None,
    priority: Priority = None,
    rerun: Rerun = False,
    timeout: Timeout = None,
    json: Json = False,
) -> None:
    """Run a job to its end, on a temporary stack if none is up."""
    parameters = read_parameters(param or (), params)
    if not has_stack():
        parameters.require_readable()
    with use_stack(), connect() as client:
        submitted = submit_job(client, workflow, parameters, priority=priority, rerun=rerun)
        print_end(follow(client, submitted.job_id, timeout, json=json), json=json)


@contextmanager
def use_stack() -> Iterator[None]:
    """The running stack, or a temporary one."""
    if has_stack():
        yield
        return
    from anabranch.cli.stack.start import temporary_stack  # a running stack needs none of it

    with temporary_stack():
        yield
