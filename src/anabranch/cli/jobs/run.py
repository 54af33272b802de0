"""`run`: runs a job to its end, and starts a stack for it if none is up."""

from collections.abc import Iterator
from contextlib import contextmanager

from anabranch.cli.jobs.parameters import read_labels
from anabranch.cli.jobs.submit import send
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
from anabranch.client import TimedOut
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
    send(
        workflow, param or (), params, wait=True, timeout=timeout, json=json, use_stack=use_stack,
        priority=priority, rerun=rerun, labels=read_labels(label),
    )  # fmt: skip


@contextmanager
def use_stack() -> Iterator[None]:
    """The running stack, or a temporary one."""
    if has_stack():
        yield
        return
    from anabranch.cli.stack.start import temporary_stack  # a running stack needs none of it

    with temporary_stack():
        try:
            yield
        except TimedOut as error:
            remedy = "The stack that was started for it stops, and it continues with the next `anabranch up`."
            raise TimedOut(error.code, error.message, remedy=remedy) from None
