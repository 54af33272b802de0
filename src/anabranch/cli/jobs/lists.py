"""`jobs` and `tasks`: lists of work."""

from typing import Annotated, Literal

import typer

from anabranch.cli.connection import connect
from anabranch.cli.jobs.follow import JobView, took
from anabranch.cli.terminal.options import After, All, JobId, Json
from anabranch.cli.terminal.output import (
    age,
    cut,
    escape,
    format_error,
    format_progress,
    note,
    print_json,
    print_table,
    span,
)
from anabranch.client import Client
from anabranch.engine.model import JobState
from anabranch.workflows.mistakes import nearest

__all__ = ["jobs", "tasks"]

TaskStatus = Literal["ready", "running", "due", "completed", "failed", "cancelled"]


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
    found = [job.raw for job in page.items]
    if json:
        print_json(found)
    else:
        rows = ([j["job_id"][:12], j["job_type"], j["status"], age(j["created_at"]), took(j)] for j in found)
        print_table(["job", "workflow", "status", "age", "took"], rows)
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
                print_json(task.raw, indent=None)
            return
        page = client.tasks(job, node=node, status=status, limit=limit, after=after)
    found = [task.raw for task in page.items]
    if json:
        print_json(found)
    else:
        print_table(["node", "index", "status", "attempts", "took", "result"], map(_row, found))
    if page.next:
        note(f"next page: --after {page.next}")


def _warn_if_unknown(client: Client, workflow: str) -> None:
    known = [one.workflow_id for one in client.workflows().items]
    if workflow not in known:
        note(f"warning: no workflow {escape(repr(workflow))} is known. {nearest(workflow, known)}".rstrip())


def _row(task: JobView) -> list[object]:
    came = format_error(task["error"]) if task["error"] else task["result"] or format_progress(task.get("progress"))
    ran = span(task["claimed_at"], task["finished_at"])
    return [*(task[name] for name in ("node", "index", "status", "attempts")), ran, cut(came)]
