"""`run`: runs a job to its end, and starts a stack for it if none is up."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from anabranch.cli.connection import connect, find_home, find_remote
from anabranch.cli.follow import follow, print_end, submit_job
from anabranch.cli.options import Json, ParameterList, ParametersFile, Priority, Rerun, Timeout, WorkflowName
from anabranch.cli.parameters import read_parameters
from anabranch.cli.setup import prepare
from anabranch.cli.show import note

__all__ = ["cli"]

cli = typer.Typer()


@cli.command()
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
    with use_stack(), connect() as client:
        submitted = submit_job(client, workflow, parameters, priority=priority, rerun=rerun)
        print_end(follow(client, submitted.job_id, timeout, json=json), json=json)


@contextmanager
def use_stack() -> Iterator[None]:
    """The running stack, or one that is started now and stopped at the end in any case."""
    if find_remote().url or find_home().read_stack():
        yield
        return
    from anabranch.cli.stack import interrupt_on_signals, require_plugins, start
    from anabranch.embedded.detach import stop
    from anabranch.embedded.processes import send

    settings = prepare(quiet=True, port=0)
    require_plugins(settings)
    note(f"starting a stack in {settings.home}")
    with interrupt_on_signals():
        # Outside the try: if it fails it leaves nothing behind, and a stack that runs then is not ours.
        supervisor = start(settings).supervisor
        try:
            yield
        except KeyboardInterrupt:
            # A second signal, besides that of `stop`: then it does not wait for handlers. Their tasks run again later.
            # Two, because one of them may be ignored: SIGINT in a shell's background, SIGHUP under nohup.
            for signum in (signal.SIGINT, signal.SIGHUP):
                send(supervisor, signum)
            raise
        finally:
            note("stopping the stack")
            stop(find_home())
