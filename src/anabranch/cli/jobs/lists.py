"""`jobs` and `tasks`: lists of work."""

from typing import Annotated

import typer

from anabranch.cli.connection import connect
from anabranch.cli.jobs.follow import took
from anabranch.cli.jobs.parameters import read_labels
from anabranch.cli.terminal.options import After, All, JobId, Json
from anabranch.cli.terminal.output import (
    age,
    cut,
    escape,
    format_labels,
    format_progress,
    note,
    print_json,
    print_page,
    print_table,
    span,
)
from anabranch.client import Client, Task
from anabranch.contract.jobs import TaskStatus
from anabranch.enums import JobState
from anabranch.workflows.mistakes import nearest

__all__ = ["jobs", "tasks"]


def jobs(
    status: Annotated[JobState | None, typer.Option(metavar="STATUS", help="Only jobs with this status.")] = None,
    workflow: Annotated[str | None, typer.Option(help="Only jobs of this workflow.")] = None,
    parent: Annotated[str | None, typer.Option(metavar="JOB", help="Only child jobs of this job.")] = None,
    label: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="Only jobs with this label; may be repeated."),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=500, help="Maximum number of jobs.")] = 20,
    before: Annotated[str | None, typer.Option(metavar="CURSOR", help="Continue after the previous page.")] = None,
    json: Json = False,
) -> None:
    """List jobs, the newest first."""
    labels = read_labels(label)
    with connect() as client:
        page = client.jobs(status=status, workflow=workflow, parent=parent, labels=labels, limit=limit, before=before)
        if workflow is not None and not page.items:
            _warn_if_unknown(client, workflow)
    if json:
        print_json(page.items)
    else:
        head = ["job", "workflow", "status", "age", "took"]
        rows = [[job.job_id[:12], job.job_type, job.status, age(job.created_at), took(job)] for job in page]
        if any(job.labels for job in page):
            head.append("labels")
            rows = [[*row, cut(format_labels(job.labels)) or ""] for row, job in zip(rows, page, strict=True)]
        print_table(head, rows)
    if page.next:
        note(f"next page: --before {page.next}")


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
    print_page(page, ["node", "index", "status", "attempts", "took", "result"], _row, json=json, option="--after")


def _warn_if_unknown(client: Client, workflow: str) -> None:
    known = [one.workflow_id for one in client.workflows().items]
    if workflow not in known:
        note(f"warning: no workflow {escape(repr(workflow))} is known. {nearest(workflow, known)}".rstrip())


def _row(task: Task) -> list[object]:
    came = task.error.in_words if task.error else task.result or format_progress(task.progress)
    return [task.node, task.index, task.status, task.attempts, span(task.claimed_at, task.finished_at), cut(came)]
