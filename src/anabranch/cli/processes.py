"""The processes of a stack, one command each, and the list of those that live."""

import os
from typing import TYPE_CHECKING, Annotated

import typer

from anabranch.cli.options import Json
from anabranch.cli.place import connect, database_url
from anabranch.cli.setup import prepare
from anabranch.cli.show import age, print_json, print_table

if TYPE_CHECKING:
    import socket

    from anabranch.settings import Settings

__all__ = ["cli"]

cli = typer.Typer()

# How long answers that have begun may go on when the API is told to stop.
PARTING_SECONDS = 10


@cli.command()
def workers(json: Json = False) -> None:
    """List the live processes: workers, orchestrators and APIs."""
    with connect() as client:
        sessions = [session.raw for session in client.workers()]
    if json:
        print_json(sessions)
        return
    facts = ("id", "kind", "host", "pid", "slots", "running")
    rows = ([*(s[name] for name in facts), age(s["last_beat"]), " ".join(s["queues"]) or None] for s in sessions)
    print_table([*facts, "last beat", "queues"], rows)


@cli.command()
def worker(
    slots: Annotated[int | None, typer.Option(min=1, max=256, help="Handlers to run at once.")] = None,
) -> None:
    """Run one more worker."""
    from anabranch.app import run_worker

    settings = prepare(slots=slots)
    run_worker(settings, database_url(settings))


@cli.command()
def orchestrator() -> None:
    """Run one more orchestrator."""
    from anabranch.app import run_orchestrator

    settings = prepare()
    run_orchestrator(settings, database_url(settings))


@cli.command()
def api() -> None:
    """Serve the HTTP API."""
    from uvicorn import Config, Server

    settings = prepare()
    # By the environment and by name: the API reads its own settings, and stands beside the command line, not under it.
    os.environ["ANABRANCH_DATABASE_URL"] = database_url(settings)
    config = Config(
        "anabranch.api.main:app_from_environment",
        factory=True,
        log_config=None,
        timeout_graceful_shutdown=PARTING_SECONDS,
    )
    with _listener(settings) as listener:
        Server(config).run([listener])


def _listener(settings: "Settings") -> "socket.socket":
    import socket

    from anabranch.cli.stack import require_loopback
    from anabranch.embedded.listener import listen
    from anabranch.embedded.supervisor import LISTEN_FD

    if LISTEN_FD in os.environ:
        return socket.socket(fileno=int(os.environ[LISTEN_FD]))
    require_loopback(settings.host)
    return listen(settings.host, settings.port)
