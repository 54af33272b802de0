"""`queues` and `limits`: how many tasks wait, and how many may run at once."""

from typing import Annotated, Literal

import typer

from anabranch.cli.completion import complete_queue
from anabranch.cli.connection import connect
from anabranch.cli.options import Json
from anabranch.cli.show import age, note, print_json, print_line, print_table

__all__ = ["cli"]

cli = typer.Typer()
queues = typer.Typer(name="queues", help="List, pause and resume queues.")
limits = typer.Typer(name="limits", help="List, set and remove limits on how many tasks run at once.")
cli.add_typer(queues)
cli.add_typer(limits)

Queue = Annotated[str, typer.Argument(metavar="QUEUE", help="The queue's name.", autocompletion=complete_queue)]
Kind = Annotated[
    Literal["queue", "workflow", "handler", "key"],
    typer.Argument(metavar="KIND", help="queue, workflow, handler or key."),
]
Name = Annotated[str, typer.Argument(metavar="NAME", help="Its name.")]
Reason = Annotated[str, typer.Option(metavar="TEXT", help="The reason, shown to others.")]


@queues.command("list")
def list_queues(json: Json = False) -> None:
    """List the queues that have tasks, workers or limits."""
    with connect() as client:
        found = client.queues()
    if json:
        print_json(found)
        return
    facts = ("name", "ready", "running", "workers", "most")
    rows = ([*(getattr(one, name) for name in facts), "paused" if one.paused else None, one.reason] for one in found)
    print_table(["queue", *facts[1:], "state", "reason"], rows)


@queues.command("pause")
def pause_queue(queue: Queue, reason: Reason = "", json: Json = False) -> None:
    """Pause a queue: no more tasks start; running tasks continue."""
    pause("queue", queue, reason, json=json)


@queues.command("resume")
def resume_queue(queue: Queue, json: Json = False) -> None:
    """Resume a paused queue."""
    resume("queue", queue, json=json)


@limits.command("list")
def list_limits(json: Json = False) -> None:
    """List limits and pauses."""
    with connect() as client:
        found = client.limits()
    if json:
        print_json(found)
        return
    facts = ("kind", "name", "most", "paused", "reason", "set_by")
    print_table([*facts, "age"], ([*(getattr(one, name) for name in facts), age(one.set_at)] for one in found))


@limits.command("set")
def set_limit(
    kind: Kind,
    name: Name,
    most: Annotated[int, typer.Argument(metavar="MOST", min=1, help="Maximum number of tasks that run at once.")],
    reason: Reason = "",
    json: Json = False,
) -> None:
    """Limit how many tasks of a queue, workflow, handler or key run at once."""
    with connect() as client:
        limit = client.set_limit(kind, name, most, reason)
    _warn(limit.warning)
    if json:
        print_json(limit)
    else:
        print_line(f"at most {limit.most} tasks of the {kind} {name} run at once")


@limits.command("remove")
def remove_limit(kind: Kind, name: Name, json: Json = False) -> None:
    """Remove a limit; a pause stays."""
    with connect() as client:
        client.remove_limit(kind, name)
    if json:
        print_json({"kind": kind, "name": name, "most": None})
    else:
        print_line(f"the {kind} {name} no longer has a limit")


def pause(kind: str, name: str, reason: str, *, json: bool) -> None:
    """Pause a queue or a workflow, and print the result."""
    with connect() as client:
        paused = client.pause(kind, name, reason)
    _warn(paused.warning)
    _say(kind, name, json=json, paused=True)


def resume(kind: str, name: str, *, json: bool) -> None:
    """Resume a queue or a workflow, and print the result."""
    with connect() as client:
        client.resume(kind, name)
    _say(kind, name, json=json, paused=False)


def _warn(warning: str | None) -> None:
    if warning:
        note(f"warning: {warning}")


def _say(kind: str, name: str, *, json: bool, paused: bool) -> None:
    if json:
        print_json({"kind": kind, "name": name, "paused": paused})
    else:
        print_line(f"{kind} {name} {'is paused' if paused else 'is resumed'}")
