"""The processes of a stack, one command each, and the list of live processes."""

import os
from typing import TYPE_CHECKING, Annotated

import typer

from anabranch.cli.connection import connect, database_url
from anabranch.cli.options import Json
from anabranch.cli.setup import prepare
from anabranch.cli.show import age, print_json, print_line, print_table

if TYPE_CHECKING:
    import socket

    from anabranch.settings import Settings

__all__ = ["cli"]

cli = typer.Typer()
workers = typer.Typer(name="workers")
cli.add_typer(workers)

SessionNumber = Annotated[int, typer.Argument(metavar="ID", min=1, help="The session, as `workers` lists it.")]

# How long responses in progress may take after the API is asked to stop.
SHUTDOWN_SECONDS = 10
# Longer than clients keep an idle connection: a request on a connection that is being closed is lost.
KEEP_ALIVE_SECONDS = 75


@workers.callback(invoke_without_command=True)
def list_workers(context: typer.Context, json: Json = False) -> None:
    """List the live processes (workers, orchestrators and APIs), or drain one."""
    if context.invoked_subcommand is not None:
        return
    with connect() as client:
        sessions = client.workers()
    if json:
        print_json(sessions)
        return
    facts = ("id", "kind", "host", "pid", "slots", "running", "waiting")
    rows = (
        [*(getattr(s, name) for name in facts), "draining" if s.draining else None, age(s.last_beat),
         " ".join(s.queues) or None]
        for s in sessions
    )  # fmt: skip
    print_table([*facts, "state", "last beat", "queues"], rows)


@workers.command()
def drain(session: SessionNumber, json: Json = False) -> None:
    """Drain a worker: it takes no more tasks; its running tasks continue."""
    _drain(session, draining=True, json=json)


@workers.command()
def resume(session: SessionNumber, json: Json = False) -> None:
    """Let a drained worker take tasks again."""
    _drain(session, draining=False, json=json)


@cli.command()
def worker(
    slots: Annotated[int | None, typer.Option(min=1, max=256, help="Handlers to run at once.")] = None,
    queues: Annotated[str | None, typer.Option(help="Serve only these queues, separated by commas.")] = None,
) -> None:
    """Run one more worker."""
    from anabranch.app import run_worker

    settings = prepare(slots=slots, queues=queues)
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
    # Passed by environment variable and import name: the API reads its own settings and does not depend on the CLI.
    os.environ["ANABRANCH_DATABASE_URL"] = database_url(settings)
    config = Config(
        "anabranch.api.main:app_from_environment",
        factory=True,
        log_config=None,
        access_log=False,  # the API logs requests itself: uvicorn would log their query strings (S5)
        http="anabranch.api.security.protocol:BoundedProtocol",
        ws="none",
        proxy_headers=False,  # uvicorn would trust every local caller; the API has its own list of trusted proxies
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
    )
    with _listener(settings) as listener:
        Server(config).run([listener])


def _drain(session: int, *, draining: bool, json: bool) -> None:
    with connect() as client:
        client.drain(session, draining=draining)
    if json:
        print_json({"id": session, "draining": draining})
    else:
        print_line(f"session {session} {'takes no more tasks' if draining else 'takes tasks again'}")


def _listener(settings: "Settings") -> "socket.socket":
    import socket

    from anabranch.embedded.listener import asks_for_keys, listen
    from anabranch.embedded.supervisor import LISTEN_FD

    if LISTEN_FD in os.environ:
        return socket.socket(fileno=int(os.environ[LISTEN_FD]))
    asks_for_keys(settings.auth, settings.host)  # refuses an open address without keys
    return listen(settings.host, settings.port)
