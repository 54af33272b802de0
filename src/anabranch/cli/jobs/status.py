"""`status`: a job with its nodes, its progress and its result."""

from typing import Annotated

import typer

from anabranch.cli.connection import connect
from anabranch.cli.exit_codes import UsageError
from anabranch.cli.jobs.follow import require_success, took, watch
from anabranch.cli.jobs.links import find_links
from anabranch.cli.terminal.options import Json, OptionalJobId, Timeout
from anabranch.cli.terminal.output import (
    age,
    coloured,
    cut,
    escape,
    format_labels,
    format_progress,
    format_time,
    note,
    print_json,
    print_line,
    print_table,
)
from anabranch.client import Client, Graph, JobStatus, Node
from anabranch.contract.jobs import JobError

__all__ = ["status"]

OUR_CODE = "anabranch/"
APPROVE, REJECT = "anabranch approvals approve", "anabranch approvals reject"


def status(
    job: OptionalJobId = None,
    graph: Annotated[bool, typer.Option("--graph", help="Draw the graph of its nodes and their status.")] = False,
    live: Annotated[
        bool, typer.Option("--watch", help="Show its progress until it ends; exit 7 if it failed.")
    ] = False,
    timeout: Timeout = None,
    json: Json = False,
) -> None:
    """Show a job with its nodes, its progress and its result; without a job, the stack."""
    with connect() as client:
        if job is None:
            if graph or live or timeout is not None:
                raise UsageError("usage", "these options need a job", remedy="List jobs with `anabranch jobs`.")
            _show_stack(client, json=json)
            return
        if live := live or timeout is not None:
            watch(client, job, timeout, quiet=json)
        found = client.job(job)
        drawn = client.graph(found.job_id) if graph else None
        links = [] if json else find_links(client.base_url, found)
    if json:
        print_json(drawn or found)
    else:
        _show_job(found, drawn)
        if links:
            print_line("")
        for name, url in links:
            print_line(f"{name:<9} {url}")
    if live:
        require_success(found)


def _show_stack(client: Client, *, json: bool) -> None:
    health = client.health()
    if json:
        print_json(health)
        return
    print_line(f"api       {client.base_url}")
    print_line(f"status    {coloured(health.status)}")
    print_line(f"waiting   {sum(health.queues.values())} tasks")
    print_line("")
    parts = health.components.items()
    print_table(["part", "status", "detail"], [[name, part.status, cut(part.detail)] for name, part in parts])
    for name, part in parts:
        if part.status != "ok":
            note(f"{name}: {escape(part.detail).rstrip('.')}. {escape(part.remedy or '')}".rstrip())
    note("a job is shown by `anabranch status JOB`; `anabranch jobs` lists them")


def _show_job(job: JobStatus, graph: Graph | None) -> None:
    _show_head(job)
    print_line("")
    if graph:
        from anabranch.cli.jobs.graph import show_graph  # only for `--graph`

        show_graph(graph)
    else:
        _show_nodes(job)
    if job.result is not None:
        print_line("")
        print_json(job.result)


def _show_head(job: JobStatus) -> None:
    print_line(f"job       {job.job_id}")
    print_line(f"workflow  {job.job_type}")
    print_line(f"status    {coloured(job.status)}{f', {job.ending} after its cleanup' if job.ending else ''}")
    if job.labels:
        print_line(f"labels    {escape(format_labels(job.labels))}")
    if job.parent:
        print_line(f"run by    {job.parent}")
    if job.generation:
        print_line(f"retried   {job.generation} times")
    print_line(f"created   {format_time(job.created_at)} ({age(job.created_at)} ago)")
    print_line(f"took      {took(job)}")
    print_line(f"tasks     {_spell_counts(job)}")
    for reason in job.waiting_for:
        print_line(f"waits     {escape(reason)}")
    for node in job.nodes:
        if node.command:
            print_line(f"answer    {escape(node.command)}")
            if node.command.startswith(APPROVE):
                print_line(f"          {escape(node.command.replace(APPROVE, REJECT))} --reason WHY")
    if job.error:
        print_line(f"error     {escape(job.error.in_words)}")
        print_line(f"          {escape(_spell_origin(job.error))}")
        if job.error.remedy:
            print_line(f"          {escape(job.error.remedy)}")


def _spell_origin(error: JobError) -> str:
    """The code of an error, and the line that raised it, unless that is one of ours."""
    where = str(error.raw.get("where") or "")
    return error.code if not where or where.startswith(OUR_CODE) else f"{error.code}, raised at {where}"


def _show_nodes(job: JobStatus) -> None:
    counted = ("total", "completed", "failed")
    rows = [
        [node.name, node.status, *(getattr(node.tasks, name) if _is_counted(node) else None for name in counted)]
        for node in job.nodes
    ]
    head = ["node", "status", "tasks", "completed", "failed"]
    said = [format_progress(node.progress) or _spell_share(node) for node in job.nodes]
    if any(said):
        head.append("progress")
        rows = [[*row, words] for row, words in zip(rows, said, strict=True)]
    print_table(head, rows)


def _spell_counts(job: JobStatus) -> str:
    counts = job.tasks
    more = "" if job.finished_at or all(map(_is_counted, job.nodes)) else "; more tasks may be added"
    return f"{counts.completed} of {counts.total} completed, {counts.failed} failed{more}"


def _spell_share(node: Node) -> str | None:
    """How far the tasks of a fan-out are together, if running ones report it."""
    tasks = node.tasks
    reported = node.done > tasks.completed + tasks.failed + tasks.cancelled
    return f"{100 * node.done / tasks.total:.0f} %" if reported else None


def _is_counted(node: Node) -> bool:
    return bool(node.tasks.total or node.finished_at)
