"""`events` and `logs`: the events of a job, and the output of its tasks."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from anabranch.cli.connection import connect
from anabranch.cli.exit_codes import UsageError
from anabranch.cli.jobs.follow import explain_unavailable
from anabranch.cli.jobs.follow_events import LogFilter, new_events, new_logs
from anabranch.cli.terminal.options import After, All, Follow, JobId, Json
from anabranch.cli.terminal.output import cut, escape, note, print_json, print_line, print_row, print_table
from anabranch.client import Event, Log

__all__ = ["events", "logs"]


def events(
    job: JobId,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Maximum number of events.")] = 100,
    after: After = None,
    all: All = False,
    follow: Follow = False,
    json: Json = False,
) -> None:
    """List the events of a job, in order."""
    with connect() as client:
        if follow:
            with explain_unavailable(job):
                for event in new_events(client, job, after):
                    _show_event(event, json=json or all)
            return
        if all:
            for event in client.all_events(job):
                print_json(event, indent=None)
            return
        page = client.events(job, limit=limit, after=after)
    if json:
        print_json(page.items)
    else:
        print_table(["time", "event", "node", "by", "what"], map(_row, page.items))
    if page.next:
        note(f"next page: --after {page.next}")


def logs(
    job: JobId,
    node: Annotated[str | None, typer.Option(help="Only tasks of this node.")] = None,
    index: Annotated[str | None, typer.Option(help="Only the tasks with this index.")] = None,
    attempt: Annotated[int | None, typer.Option(min=1, help="Only the attempts with this number.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=200, help="Maximum number of attempts.")] = 50,
    after: After = None,
    all: All = False,
    follow: Follow = False,
    bundle: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write a zip with everything needed to diagnose the job to FILE."),
    ] = None,
    json: Json = False,
) -> None:
    """Show the output and the metrics of a job's tasks."""
    if follow and after:
        raise UsageError("usage", "`--follow` always starts with the first log", remedy="Omit `--after`.")
    with connect() as client:
        if bundle:
            print_line(str(client.bundle(job, bundle)))
            return
        if follow:
            with explain_unavailable(job):
                for log in new_logs(client, job, LogFilter(node=node, index=index, attempt=attempt)):
                    _show_log(log, json=json or all)
            return
        if all:
            for log in client.all_logs(job, node=node, index=index, attempt=attempt):
                print_json(log, indent=None)
            return
        page = client.logs(job, node=node, index=index, attempt=attempt, limit=limit, after=after)
    if json:
        print_json(page.items)
    else:
        for log in page.items:
            _show_log(log)
    if page.next:
        note(f"next page: --after {page.next}")


def _show_event(event: Event, *, json: bool) -> None:
    if json:
        print_json(event, indent=None)
    else:
        print_row(_row(event), (27, 16, 16, 16, 0))
    sys.stdout.flush()


def _show_log(log: Log, *, json: bool = False) -> None:
    if json:
        print_json(log, indent=None)
    else:
        _print_log(log)
    sys.stdout.flush()


def _print_log(log: Log) -> None:
    print_line(escape(f"==> {log.node} {log.index}, attempt {log.attempt} <=="))
    if log.log:
        print_line(escape(log.log.replace("\r\n", "\n")).removesuffix("\n"))
    if log.metrics:
        print_json({"metrics": log.metrics}, indent=None)


def _row(event: Event) -> list[object]:
    data = event.data
    what = data["message"] if isinstance(data, dict) and isinstance(data.get("message"), str) else data or None
    return [event.at, event.kind, event.node, event.by, cut(what)]
