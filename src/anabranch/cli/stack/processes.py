"""`worker` and `orchestrator`: processes of a stack."""

from datetime import timedelta
from typing import Annotated

import typer

from anabranch.app import run_orchestrator, run_worker
from anabranch.cli.connection import database_url
from anabranch.cli.setup import prepare

__all__ = ["orchestrator", "worker"]


def worker(
    slots: Annotated[int | None, typer.Option(min=1, max=256, help="Handlers to run at once.")] = None,
    queues: Annotated[str | None, typer.Option(help="Serve only these queues, separated by commas.")] = None,
    exit_when_idle: Annotated[
        float | None, typer.Option(min=0, metavar="SECONDS", help="End after this time with nothing to do.")
    ] = None,
) -> None:
    """Run one more worker."""
    settings = prepare(slots=slots, queues=queues)
    longest_idle = None if exit_when_idle is None else timedelta(seconds=exit_when_idle)
    run_worker(settings, database_url(settings), longest_idle)


def orchestrator() -> None:
    """Run one more orchestrator."""
    settings = prepare()
    run_orchestrator(settings, database_url(settings))
