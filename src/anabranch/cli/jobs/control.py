"""`cancel`, `retry`, `signal` and `dead-letters`: commands that control jobs."""

import sys
from typing import Annotated

import typer

from anabranch.cli.connection import connect
from anabranch.cli.jobs.follow import follow, print_end
from anabranch.cli.jobs.parameters import read_parameters
from anabranch.cli.jobs.uploads import Uploads
from anabranch.cli.terminal.options import After, JobId, Json, ParameterList, ParametersFile, Timeout
from anabranch.cli.terminal.output import age, cut, note, print_json, print_line, print_result, print_table
from anabranch.client import Client, Retry
from anabranch.errors import Conflict, InputError

__all__ = ["cancel", "list_dead_letters", "replay", "retry", "signal"]


Workflow = Annotated[str | None, typer.Option(metavar="WORKFLOW", help="Only those of this workflow.")]
Handler = Annotated[str | None, typer.Option(metavar="HANDLER", help="Only those of this handler.")]
Code = Annotated[str | None, typer.Option(metavar="CODE", help="Only those with this error code.")]


def cancel(
    job: JobId,
    reason: Annotated[
        str | None, typer.Option(metavar="TEXT", help="The reason; it is stored as the job's error.")
    ] = None,
    json: Json = False,
) -> None:
    """Cancel a job: no more tasks start, and running tasks are asked to stop."""
    with connect() as client:
        cancelled = client.cancel(job, reason)
    after = " after its cleanup" if cancelled.ending else ""
    print_result(cancelled, f"job {cancelled.job_id} {cancelled.ending or cancelled.status}{after}", json=json)


def retry(
    job: JobId,
    node: Annotated[
        list[str] | None, typer.Option(metavar="NODE", help="Only the failed tasks of this node; may be repeated.")
    ] = None,
    start: Annotated[
        str | None, typer.Option("--from", metavar="NODE", help="Run this whole node again, and all nodes after it.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would run.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Skip the confirmation.")] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the job to end; exit 7 if it failed.")] = False,
    timeout: Timeout = None,
    json: Json = False,
) -> None:
    """Retry the failed tasks of a job; completed results are kept."""
    with connect() as client:
        plan = client.retry(job, nodes=node or (), from_node=start, dry_run=True)
        if not json:
            _show_plan(plan)
        if dry_run:
            if json:
                print_json(plan)
            return
        if not (yes or json or _agrees()):
            raise typer.Exit(0)
        retried = client.retry(plan.job_id, nodes=node or (), from_node=start)
        _show_retried(client, retried, wait=wait or timeout is not None, timeout=timeout, json=json)


def signal(
    job: JobId,
    node: Annotated[str, typer.Argument(metavar="NODE", help="The gate.")],
    param: ParameterList = None,
    params: ParametersFile = None,
    json: Json = False,
) -> None:
    """Signal a gate; the parameters become its output, and only the first signal counts."""
    given = read_parameters(param or (), params)
    given.require_readable()
    with connect() as client:
        answer = given.send_files(Uploads(client, quiet=json))
        try:
            accepted = client.signal(job, node, answer.values)
        except InputError:  # `-p why=5` was read as a number
            fields = next((one.answer for one in client.job(job).nodes if one.name == node), None) or {}
            meant = answer.as_declared(fields)
            if meant == answer.values:
                raise
            accepted = client.signal(job, node, meant)
    said = f"{node} was signalled" if accepted else f"{node} was already signalled with the same payload"
    print_result({"job_id": job, "node": node, "accepted": accepted}, said, json=json)


def list_dead_letters(
    workflow: Workflow = None,
    handler: Handler = None,
    code: Code = None,
    limit: Annotated[int, typer.Option(min=1, max=500, help="Maximum number of dead letters.")] = 50,
    after: After = None,
    json: Json = False,
) -> None:
    """List the tasks that failed permanently and are still missing: no retry or newer job took their place."""
    with connect() as client:
        page = client.dead_letters(limit=limit, after=after, workflow=workflow, handler=handler, code=code)
    if json:
        print_json(page.items)
    else:
        facts = ("workflow", "node", "index", "attempts")
        rows = (
            [
                one.job_id[:12],
                *(getattr(one, name) for name in facts),
                age(one.finished_at),
                cut(one.error and one.error.in_words),
            ]
            for one in page
        )
        print_table(["job", *facts, "age", "error"], rows)
    if page.next:
        note(f"next page: --after {page.next}")


def replay(
    job: Annotated[list[str] | None, typer.Argument(metavar="[JOB]...", help="Only those of these jobs.")] = None,
    workflow: Workflow = None,
    handler: Handler = None,
    code: Code = None,
    json: Json = False,
) -> None:
    """Retry the jobs of dead letters, each from its nodes that have any."""
    if not (job or workflow or handler or code):
        raise InputError(
            "replay.choice",
            "no dead letters were selected",
            remedy="Name jobs, or give --workflow, --handler or --code.",
        )
    with connect() as client:
        replayed = client.replay(jobs=job or (), workflow=workflow, handler=handler, code=code)
    if json:
        print_json(replayed)
    elif replayed:
        said = (one.error.message if one.error else "runs again" for one in replayed)
        rows = ([one.job_id[:12], " ".join(one.nodes), words] for one, words in zip(replayed, said, strict=True))
        print_table(["job", "nodes", "result"], rows)
    else:
        note("there are no such dead letters: nothing runs again")
    if refused := sum(not one.replayed for one in replayed):
        raise Conflict("replay.incomplete", f"{refused} of {len(replayed)} jobs were not replayed")


def _show_plan(plan: Retry) -> None:
    rows = ([node.name, node.runs, "all" if node.tasks is None else node.tasks, node.kept] for node in plan.nodes)
    print_table(["node", "runs", "tasks", "results kept"], rows)


def _agrees() -> bool:
    """Ask for confirmation on a terminal; without one, the command itself counts as the confirmation."""
    return not sys.stdin.isatty() or typer.confirm("Run this?", err=True)


def _show_retried(client: Client, retried: Retry, *, wait: bool, timeout: float | None, json: bool) -> None:
    if wait:
        print_end(client, follow(client, retried.job_id, timeout, json=json), json=json)
    elif json:
        print_json(retried)
    else:
        print_line(f"job {retried.job_id} runs again")
