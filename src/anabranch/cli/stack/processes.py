"""`worker` and `orchestrator`: processes of a stack."""

from typing import Annotated

import typer

from anabranch.app import run_orchestrator, run_worker
from anabranch.cli.connection import database_url
from anabranch.cli.setup import prepare

__all__ = ["orchestrator", "worker"]


def worker(
    slots: Annotated[int | None, typer.Option(min=1, max=256, help="Handlers to run at once.")] = None,
    queues: Annotated[str | None, typer.Option(help="Serve only these queues, separated by commas.")] = None,
) -> None:
    """Run one more worker."""
    settings = prepare(slots=slots, queues=queues)
    run_worker(settings, database_url(settings))


def orchestrator() -> None:
    """Run one more orchestrator."""
    settings = prepare()
    run_orchestrator(settings, database_url(settings))
