"""`cancel`: what a person may tell a job that runs."""

from typing import Annotated

import typer

from anabranch.cli.options import JobId, Json
from anabranch.cli.place import connect
from anabranch.cli.show import print_json, print_line

__all__ = ["cli"]

cli = typer.Typer()


@cli.command()
def cancel(
    job: JobId,
    reason: Annotated[str | None, typer.Option(metavar="TEXT", help="Why; it is kept as the job's error.")] = None,
    json: Json = False,
) -> None:
    """Cancel a job: nothing more of it begins, and what runs is told."""
    with connect() as client:
        cancelled = client.cancel(job, reason)
    if json:
        print_json(cancelled.raw)
    else:
        print_line(f"job {cancelled.job_id} {cancelled.status}")
