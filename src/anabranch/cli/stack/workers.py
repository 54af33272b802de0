"""`workers`: the live processes."""

from typing import Annotated

import typer

from anabranch.cli.connection import connect
from anabranch.cli.terminal.options import Json
from anabranch.cli.terminal.output import ago, print_json, print_result, print_table

__all__ = ["workers"]

workers = typer.Typer(name="workers", add_completion=False, rich_markup_mode=None)

SessionNumber = Annotated[int, typer.Argument(metavar="ID", min=1, help="The session, as `workers` lists it.")]


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
        [*(getattr(s, name) for name in facts), "draining" if s.draining else None, ago(s.last_beat),
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


def _drain(session: int, *, draining: bool, json: bool) -> None:
    with connect() as client:
        client.drain(session, draining=draining)
    print_result(
        {"id": session, "draining": draining},
        f"session {session} {'takes no more tasks' if draining else 'takes tasks again'}",
        json=json,
    )
