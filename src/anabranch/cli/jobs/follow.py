"""Submits a job, follows it to its end, and derives the result of the command."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from anabranch.cli.connection import find_home, find_remote
from anabranch.cli.exit_codes import JobFailed
from anabranch.cli.jobs.parameters import Parameters
from anabranch.cli.terminal.output import format_error, note, print_json, span
from anabranch.cli.terminal.progress import show_progress
from anabranch.client import Client, TimedOut
from anabranch.codes import find_code
from anabranch.errors import InputError, Unavailable

__all__ = [
    "JobView",
    "explain_unavailable",
    "follow",
    "outcome",
    "print_end",
    "require_success",
    "submit_job",
    "took",
    "watch",
]

JobView = Mapping[str, Any]  # a job as the API returns it


def submit_job(
    client: Client, workflow: str, parameters: Parameters, *, priority: int | None = None, rerun: bool = False
) -> JobView:
    """Upload the files of a job, then submit it; the accepted job."""
    parameters = parameters.send_files(client)
    try:
        submitted = client.submit(workflow, parameters.values, priority=priority, rerun=rerun)
    except InputError:
        # `-p message=5` was read as a number. Loading the workflow's declaration is slow, so it is done only now.
        declared = parameters.as_declared(workflow)
        if declared == parameters.values:
            raise
        submitted = client.submit(workflow, declared, priority=priority, rerun=rerun)
    if not submitted.created:
        note("this job was already submitted with the same parameters; --rerun creates a new one")
    return submitted.raw


def follow(client: Client, job_id: str, timeout: float | None, *, json: bool) -> JobView:
    """Wait until a job has ended; with JSON, its status is printed if the timeout expires."""
    try:
        return watch(client, job_id, timeout, quiet=json)
    except TimedOut:
        if json:
            print_json(outcome(client.job(job_id).raw))
        raise


def watch(client: Client, job_id: str, timeout: float | None, *, quiet: bool) -> JobView:
    """Wait until a job has ended, and show its progress."""
    try:
        with explain_unavailable(job_id), show_progress(quiet) as show:
            return client.wait(job_id, timeout, lambda job: show(job.raw)).raw
    except KeyboardInterrupt:
        see, end = (f"`anabranch {command} {job_id[:12]}`" for command in ("status", "cancel"))
        note(f"job {job_id} continues while a stack is up; see it with {see}, cancel it with {end}")
        raise


@contextmanager
def explain_unavailable(job_id: str) -> Iterator[None]:
    """Add to an Unavailable error that the job itself continues."""
    try:
        yield
    except Unavailable as error:
        raise Unavailable(
            "job.out_of_sight",
            f"job {job_id} can't be followed: {error.message}. Unless it was purged, it is kept and continues while"
            " a stack is up",
            remedy=f"{_first()} see it with `anabranch status {job_id[:12]} --watch`.",
        ) from error


def _first() -> str:
    """The first half of the remedy: what to do before the job can be seen again."""
    if find_remote().url:
        return "When the API answers again,"
    if find_home().read_stack():
        return "The stack is up: find the problem with `anabranch doctor`; when it answers again,"
    return "Start the stack with `anabranch up`; then"


def print_end(job: JobView, *, json: bool) -> None:
    """Print the outcome of a job as JSON, or its result; JobFailed if it did not complete."""
    if json:
        print_json(outcome(job))
    require_success(job)
    if not json:
        note(f"job {job['job_id']} completed in {took(job)}")
        print_json(job["result"])


def outcome(job: JobView) -> dict[str, Any]:
    """The outcome of a job, as one JSON object."""
    wanted = ("job_id", "status", "result", "error", "created_at", "finished_at")
    counted = ("total", "completed", "failed")
    return {**{name: job[name] for name in wanted}, "tasks": {name: job["tasks"][name] for name in counted}}


def require_success(job: JobView) -> None:
    """JobFailed, with the reason, if the job did not complete."""
    if job["status"] == "completed":
        return
    error = job["error"] or {}
    place = f" in {error['node']}" if error.get("node") else ""
    reason = f": {format_error(error)}" if error.get("message") else ""
    raise JobFailed(
        error.get("code") or "job.failed",
        f"job {job['job_id']} {job['status']}{place}{reason}",
        remedy=error.get("remedy") or _advise(str(error.get("code")), job),
    )


def _advise(code: str, job: JobView) -> str:
    known = find_code(code)
    return f"{known.remedy if known else ''} See `anabranch {_where_to_look(job)}`.".lstrip()


def _where_to_look(job: JobView) -> str:
    # A node may fail before it has tasks, in an expression or a planner; then its event has the details.
    start = job["job_id"][:12]
    return f"tasks {start} --status failed" if job["tasks"]["failed"] else f"events {start}"


def took(job: JobView) -> str:
    """The time from a job's submission to its end."""
    return span(job["created_at"], job["finished_at"])
