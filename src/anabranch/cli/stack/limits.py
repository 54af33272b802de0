"""`queues` and `limits`: how many tasks wait, and how many may run at once."""

from operator import attrgetter
from typing import Annotated

import typer

from anabranch.cli.connection import connect
from anabranch.cli.terminal.completers import complete_queue
from anabranch.cli.terminal.options import Json
from anabranch.cli.terminal.output import age, note, print_list, print_result
from anabranch.engine.model import LimitKind

__all__ = ["list_limits", "list_queues", "pause", "pause_queue", "remove_limit", "resume", "resume_queue", "set_limit"]


Queue = Annotated[str, typer.Argument(metavar="QUEUE", help="The queue's name.", autocompletion=complete_queue)]
Kind = Annotated[LimitKind, typer.Argument(metavar="KIND", help="queue, workflow, handler or key.")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="Its name.")]
Reason = Annotated[str, typer.Option(metavar="TEXT", help="The reason, shown to others.")]


def list_queues(json: Json = False) -> None:
    """List the queues that have tasks, workers or limits."""
    with connect() as client:
        found = client.queues()
    facts = attrgetter("name", "ready", "running", "workers", "most")
    head = ["queue", "ready", "running", "workers", "most", "state", "reason"]
    print_list(found, head, lambda one: [*facts(one), "paused" if one.paused else None, one.reason], json=json)


def pause_queue(queue: Queue, reason: Reason = "", json: Json = False) -> None:
    """Pause a queue: no more tasks start; running tasks continue."""
    pause("queue", queue, reason, json=json)


def resume_queue(queue: Queue, json: Json = False) -> None:
    """Resume a paused queue."""
    resume("queue", queue, json=json)


def list_limits(json: Json = False) -> None:
    """List limits and pauses."""
    with connect() as client:
        found = client.limits()
    facts = ("kind", "name", "most", "paused", "reason", "set_by")
    print_list(found, [*facts, "age"], lambda one: [*attrgetter(*facts)(one), age(one.set_at)], json=json)


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
    print_result(limit, f"at most {limit.most} tasks of the {kind} {name} run at once", json=json)


def remove_limit(kind: Kind, name: Name, json: Json = False) -> None:
    """Remove a limit; a pause stays."""
    with connect() as client:
        client.remove_limit(kind, name)
    print_result({"kind": kind, "name": name, "most": None}, f"the {kind} {name} no longer has a limit", json=json)


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
    print_result(
        {"kind": kind, "name": name, "paused": paused},
        f"{kind} {name} {'is paused' if paused else 'is resumed'}",
        json=json,
    )
