"""`jobs`, `status` and `tasks`: the status of work."""

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from anabranch.cli.connection import connect
from anabranch.cli.follow import require_success, took, watch
from anabranch.cli.options import After, All, JobId, Json, Timeout
from anabranch.cli.show import (
    age,
    coloured,
    cut,
    escape,
    format_progress,
    format_time,
    note,
    print_json,
    print_line,
    print_table,
    span,
)

if TYPE_CHECKING:
    from anabranch.client import Client, Graph, JobStatus, Node, Task

__all__ = ["cli"]

cli = typer.Typer()

JobState = Literal["pending", "running", "waiting", "completed", "failed", "cancelled"]
TaskStatus = Literal["ready", "running", "due", "completed", "failed", "cancelled"]


@cli.command()
def jobs(
    state: Annotated[JobState | None, typer.Option(metavar="STATE", help="Only jobs in this state.")] = None,
    workflow: Annotated[str | None, typer.Option(help="Only jobs of this workflow.")] = None,
    parent: Annotated[str | None, typer.Option(metavar="JOB", help="Only child jobs of this job.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=500, help="Maximum number of jobs.")] = 20,
    before: Annotated[str | None, typer.Option(metavar="CURSOR", help="Continue after the previous page.")] = None,
    json: Json = False,
) -> None:
    """List jobs, the newest first."""
    with connect() as client:
        page = client.jobs(state=state, workflow=workflow, parent=parent, limit=limit, before=before)
        if workflow is not None and not page.items:
            _warn_if_unknown(client, workflow)
    if json:
        print_json(page.items)
    else:
        rows = ([job.job_id[:12], job.job_type, job.status, age(job.created_at), took(job)] for job in page)
        print_table(["job", "workflow", "status", "age", "took"], rows)
    if page.next:
        note(f"next page: --before {page.next}")


@cli.command()
def status(
    job: JobId,
    graph: Annotated[bool, typer.Option("--graph", help="Draw the graph of its nodes with their states.")] = False,
    live: Annotated[
        bool, typer.Option("--watch", help="Show its progress until it ends; exit 7 if it failed.")
    ] = False,
    timeout: Timeout = None,
    json: Json = False,
) -> None:
    """Show a job with its nodes, its progress and its result."""
    with connect() as client:
        if live := live or timeout is not None:
            watch(client, job, timeout, quiet=json)
        found = client.job(job)
        drawn = client.graph(found.job_id) if graph else None
    if json:
        print_json(drawn or found)
    else:
        _show_job(found, drawn)
    if live:
        require_success(found)


@cli.command()
def tasks(
    job: JobId,
    node: Annotated[str | None, typer.Option(help="Only tasks of this node.")] = None,
    status: Annotated[TaskStatus | None, typer.Option(metavar="STATUS", help="Only tasks with this status.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Maximum number of tasks.")] = 100,
    after: After = None,
    all: All = False,
    json: Json = False,
) -> None:
    """List a job's tasks and their results."""
    with connect() as client:
        if all:
            for task in client.all_tasks(job, node=node, status=status):
                print_json(task, indent=None)
            return
        page = client.tasks(job, node=node, status=status, limit=limit, after=after)
    if json:
        print_json(page.items)
    else:
        print_table(["node", "index", "status", "attempts", "took", "result"], map(_row, page))
    if page.next:
        note(f"next page: --after {page.next}")


def _warn_if_unknown(client: "Client", workflow: str) -> None:
    from anabranch.workflows.mistakes import nearest

    known = [one.workflow_id for one in client.workflows().items]
    if workflow not in known:
        note(f"warning: no workflow {escape(repr(workflow))} is known. {nearest(workflow, known)}".rstrip())


def _show_job(job: "JobStatus", graph: "Graph | None") -> None:
    print_line(f"job       {job.job_id}")
    print_line(f"workflow  {job.job_type}")
    print_line(f"status    {coloured(job.status)}")
    if job.parent:
        print_line(f"run by    {job.parent}")
    if job.generation:
        print_line(f"retried   {job.generation} times")
    print_line(f"created   {format_time(job.created_at)} ({age(job.created_at)} ago)")
    print_line(f"took      {took(job)}")
    print_line(f"tasks     {_spell_counts(job)}")
    for reason in job.waiting_for:
        print_line(f"waits     {escape(reason)}")
    if job.error:
        print_line(f"error     {escape(job.error.in_words)}")
        if job.error.remedy:
            print_line(f"          {escape(job.error.remedy)}")
    print_line("")
    if graph:
        _show_graph(graph)
    else:
        _show_nodes(job)
    if job.result is not None:
        print_line("")
        print_json(job.result)


def _show_nodes(job: "JobStatus") -> None:
    counted = ("total", "completed", "failed")
    rows = [
        [node.name, node.state, *(getattr(node.tasks, name) if _is_counted(node) else None for name in counted)]
        for node in job.nodes
    ]
    head = ["node", "state", "tasks", "completed", "failed"]
    said = [format_progress(node.progress) for node in job.nodes]
    if any(said):
        head.append("progress")
        rows = [[*row, words] for row, words in zip(rows, said, strict=True)]
    print_table(head, rows)


def _show_graph(graph: "Graph") -> None:
    from anabranch.workflows.drawing import Edge, Vertex, draw, to_text
    from anabranch.workflows.drawing.text import MARKS

    vertices = [Vertex(node.id, node.label, node.kind, node.note) for node in graph.nodes]
    edges = [Edge(edge.tail, edge.head, edge.label) for edge in graph.edges]
    states = {node.id: node.state for node in graph.nodes}
    print_line(to_text(draw(vertices, edges), states).removesuffix("\n"))
    print_line("\n" + "  ".join(f"{mark} {state}" for state, mark in MARKS.items() if state in states.values()))


def _spell_counts(job: "JobStatus") -> str:
    counts = job.tasks
    more = "" if job.finished_at or all(map(_is_counted, job.nodes)) else "; more tasks may be added"
    return f"{counts.completed} of {counts.total} completed, {counts.failed} failed{more}"


def _is_counted(node: "Node") -> bool:
    return bool(node.tasks.total or node.finished_at)


def _row(task: "Task") -> list[object]:
    came = task.error.in_words if task.error else task.result or format_progress(task.progress)
    return [task.node, task.index, task.status, task.attempts, span(task.claimed_at, task.finished_at), cut(came)]
