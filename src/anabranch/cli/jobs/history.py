"""`events` and `logs`: the events of a job, and the output of its tasks."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from anabranch.cli.connection import connect
from anabranch.cli.exit_codes import UsageError
from anabranch.cli.jobs.follow import explain_unavailable
from anabranch.cli.jobs.follow_events import new_events
from anabranch.cli.jobs.follow_logs import LogFilter, new_logs
from anabranch.cli.jobs.log_lines import Level, LineFilter, read_filter
from anabranch.cli.terminal.options import After, All, Follow, JobId, Json
from anabranch.cli.terminal.output import cut, escape, note, print_json, print_line, print_page, print_row
from anabranch.client import Event, JobStatus, Log

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
    print_page(page, ["time", "event", "node", "by", "what"], _row, json=json, option="--after")


def logs(
    job: JobId,
    node: Annotated[str | None, typer.Option(help="Only tasks of this node.")] = None,
    index: Annotated[str | None, typer.Option(help="Only the tasks with this index.")] = None,
    attempt: Annotated[int | None, typer.Option(min=1, help="Only the attempts with this number.")] = None,
    failed: Annotated[bool, typer.Option("--failed", help="Only attempts that did not complete their task.")] = False,
    level: Annotated[
        Level | None, typer.Option(metavar="LEVEL", help="Only lines of at least this level, like warning.")
    ] = None,
    grep: Annotated[
        str | None, typer.Option(metavar="PATTERN", help="Only lines that match this regular expression.")
    ] = None,
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
    lines = read_filter(level, grep)
    wanted = LogFilter(node=node, index=index, attempt=attempt, status="failed" if failed else None)
    with connect() as client:
        if bundle:
            print_line(str(client.bundle(job, bundle)))
            return
        if follow:
            with explain_unavailable(job):
                _show_new(new_logs(client, job, wanted), lines, json=json or all)
            ended = client.job(job)
            note(f"job {ended.job_id} {ended.status}")
            return
        if all:
            for log in filter(None, map(lines.keep, client.all_logs(job, **wanted))):
                print_json(log, indent=None)
            return
        page = client.logs(job, **wanted, limit=limit, after=after)
        kept = [log for log in map(lines.keep, page.items) if log]
        if not kept and not page.next:
            _explain_silence(client.job(job), chosen=bool(node or index or attempt or failed or level or grep or after))
    if json:
        print_json(kept)
    else:
        for log in kept:
            _print_head(log)
            _print_log(log)
    if page.next:
        note(f"next page: --after {page.next}")


def _explain_silence(job: JobStatus, *, chosen: bool) -> None:
    """Say why there is no output."""
    start = job.job_id[:12]
    if chosen:
        note(f"there is no such output; `anabranch logs {start}` shows all that the job has")
    elif job.ended:
        note(f"no task of the job printed anything; `anabranch events {start}` shows what happened")
    else:
        note(f"the job is {job.status}, and none of its tasks has output so far; wait for it with `--follow`")


def _show_new(logs: Iterator[Log], lines: LineFilter, *, json: bool) -> None:
    """Print logs as they come; a head stands above the first lines of an attempt, and where another's lines follow."""
    last = None
    for log in filter(None, map(lines.keep, logs)):
        if json:
            print_json(log, indent=None)
        else:
            if last != (last := (log.task_id, log.attempt)):
                _print_head(log)
            _print_log(log)
        sys.stdout.flush()


def _show_event(event: Event, *, json: bool) -> None:
    if json:
        print_json(event, indent=None)
    else:
        print_row(_row(event), (27, 16, 16, 16, 0))
    sys.stdout.flush()


def _print_head(log: Log) -> None:
    print_line(escape(f"==> {log.node} {log.index}, attempt {log.attempt} <=="))


def _print_log(log: Log) -> None:
    if log.log:
        print_line(escape(log.log.replace("\r\n", "\n")).removesuffix("\n"))
    if log.metrics:
        print_json({"metrics": log.metrics}, indent=None)


def _row(event: Event) -> list[object]:
    data = event.data
    what = data["message"] if isinstance(data, dict) and isinstance(data.get("message"), str) else data or None
    return [event.at, event.kind, event.node, event.by, cut(what)]
