"""Submits a job, follows it to its end, and derives the result of the command."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from anabranch.cli.connection import find_home, find_remote
from anabranch.cli.exit_codes import JobFailed
from anabranch.cli.jobs.parameters import Parameters
from anabranch.cli.jobs.uploads import Uploads
from anabranch.cli.terminal.output import note, print_json, span
from anabranch.cli.terminal.progress import show_progress
from anabranch.client import Client, JobStatus, JobSummary, SubmittedJob, TimedOut
from anabranch.codes import find_code
from anabranch.errors import InputError, Unavailable

__all__ = [
    "explain_unavailable",
    "follow",
    "note_existing",
    "outcome",
    "print_end",
    "require_success",
    "submit_job",
    "took",
    "watch",
]


def submit_job(
    client: Client,
    uploads: Uploads,
    workflow: str,
    parameters: Parameters,
    *,
    priority: int | None,
    rerun: bool,
    labels: Mapping[str, str],
) -> SubmittedJob:
    """Upload the files of a job, then submit it; the accepted job."""
    parameters = parameters.send_files(uploads)
    try:
        return client.submit(workflow, parameters.values, priority=priority, rerun=rerun, labels=labels)
    except InputError:
        # `-p message=5` was read as a number. Loading the workflow's declaration is slow, so it is done only now.
        declared = parameters.as_declared(workflow)
        if declared == parameters.values:
            raise
        return client.submit(workflow, declared, priority=priority, rerun=rerun, labels=labels)


def note_existing(submitted: SubmittedJob) -> None:
    """Say that the job is not new, if it is not."""
    if not submitted.created:
        note("this job was already submitted with the same parameters; --rerun creates a new one")


def follow(client: Client, job_id: str, timeout: float | None, *, json: bool) -> JobStatus:
    """Wait until a job has ended; with JSON, its status is printed if the timeout expires."""
    try:
        return watch(client, job_id, timeout, quiet=json)
    except TimedOut:
        if json:
            print_json(outcome(client.job(job_id)))
        raise


def watch(client: Client, job_id: str, timeout: float | None, *, quiet: bool) -> JobStatus:
    """Wait until a job has ended, and show its progress."""
    try:
        with explain_unavailable(job_id), show_progress(quiet) as show:
            return client.wait(job_id, timeout, show)
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


def print_end(job: JobStatus, *, json: bool) -> None:
    """Print the outcome of a job as JSON, or its result; JobFailed if it did not complete."""
    if json:
        print_json(outcome(job))
    require_success(job)
    if not json:
        note(f"job {job.job_id} completed in {took(job)}")
        print_json(job.result)


def outcome(job: JobStatus) -> dict[str, Any]:
    """The outcome of a job, as one JSON object."""
    wanted = ("job_id", "status", "result", "error", "created_at", "finished_at")
    counted = ("total", "completed", "failed")
    tasks = {name: getattr(job.tasks, name) for name in counted}
    return {**{name: getattr(job, name) for name in wanted}, "tasks": tasks}


def require_success(job: JobStatus) -> None:
    """JobFailed, with the reason, if the job did not complete."""
    if job.succeeded:
        return
    code, remedy, reason = "job.failed", "", ""
    if error := job.error:
        code, remedy = error.code, error.remedy
        reason = (f" in {error.node}" if error.node else "") + (f": {error.in_words}" if error.message else "")
    raise JobFailed(code, f"job {job.job_id} {job.status}{reason}", remedy=remedy or _advise(code, job))


def _advise(code: str, job: JobStatus) -> str:
    known = find_code(code)
    return f"{known.remedy if known else ''} See `anabranch {_where_to_look(job)}`.".lstrip()


def _where_to_look(job: JobStatus) -> str:
    # A node may fail before it has tasks, in an expression or a planner; then its event has the details.
    start = job.job_id[:12]
    return f"tasks {start} --status failed" if job.tasks.failed else f"events {start}"


def took(job: JobSummary) -> str:
    """The time from a job's submission to its end."""
    return span(job.created_at, job.finished_at)
