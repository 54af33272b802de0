"""`submit`: hand a job to the running stack."""

from typing import Annotated

import typer

from anabranch.cli.follow import follow, hand_in, print_end
from anabranch.cli.options import Json, ParameterList, ParametersFile, Priority, Rerun, Timeout, WorkflowName
from anabranch.cli.parameters import read_parameters
from anabranch.cli.place import connect
from anabranch.cli.show import print_json, print_line

__all__ = ["cli"]

cli = typer.Typer()


@cli.command()
def submit(
    workflow: WorkflowName,
    param: ParameterList = None,
    params: ParametersFile = None,
    priority: Priority = None,
    rerun: Rerun = False,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the job's end; exit 7 when it failed.")] = False,
    timeout: Timeout = None,
    json: Json = False,
) -> None:
    """Submit a job; the same parameters are the same job."""
    parameters = read_parameters(param or (), params)
    with connect() as client:
        submitted = hand_in(client, workflow, parameters, priority=priority, rerun=rerun)
        if wait or timeout is not None:
            print_end(follow(client, submitted["job_id"], timeout, json=json), json=json)
        elif json:
            print_json(submitted)
        else:
            print_line(submitted["job_id"])
