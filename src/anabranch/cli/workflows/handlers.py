"""`handlers`: the functions that tasks can call."""

from anabranch.cli.terminal.options import Json
from anabranch.cli.terminal.output import print_json, print_table
from anabranch.cli.workflows.registry import load, warn_of_refused
from anabranch.durations import spell_duration
from anabranch.engine.worker.handler import describe_handler

__all__ = ["handlers"]


def handlers(json: Json = False) -> None:
    """List the handlers that tasks can call."""
    registry = load()
    found, versions = [registry.handlers[name] for name in sorted(registry.handlers)], registry.versions
    warn_of_refused(registry)
    if json:
        print_json([describe_handler(handler, versions[handler.name]) for handler in found])
        return
    rows = ([h.name, versions[h.name], h.queue, spell_duration(h.timeout), h.runs, h.summary or None] for h in found)
    print_table(["handler", "version", "queue", "timeout", "runs", "summary"], rows)
