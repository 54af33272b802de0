"""Submits a job, follows it to its end, and derives the result of the command."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar

from anabranch.cli.exit_codes import JobFailed
from anabranch.cli.jobs.links import find_links
from anabranch.cli.jobs.parameters import Parameters, raise_together
from anabranch.cli.jobs.sidecars import add_sidecars
from anabranch.cli.jobs.uploads import Uploads
from anabranch.cli.terminal.output import note, print_json, span
from anabranch.cli.terminal.progress import show_progress
from anabranch.client import Client, JobStatus, JobSummary, SubmittedJob, TimedOut
from anabranch.codes import find_code, find_remedy
from anabranch.embedded.locate import find_home, find_remote
from anabranch.errors import AnabranchError, InputError, NotFound, Unavailable

__all__ = [
    "call_as_declared",
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

Answer = TypeVar("Answer")
Values = dict[str, Any]  # JSON


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
    """Submit a job; its files are uploaded once nothing else is wrong with it."""
    parameters = add_sidecars(client, workflow, parameters)
    if parameters.files or parameters.mistakes:
        check = partial(client.validate, workflow, priority=priority, labels=labels)
        _check(check, client, workflow, parameters)
    parameters = parameters.send_files(uploads)
    submit = partial(client.submit, workflow, priority=priority, rerun=rerun, labels=labels)
    return call_as_declared(submit, client, workflow, parameters)


def _check(check: Callable[[Values], object], client: Client, workflow: str, parameters: Parameters) -> None:
    mistakes: list[AnabranchError] = [*parameters.mistakes]
    try:
        call_as_declared(check, client, workflow, parameters)
    except (InputError, NotFound) as error:
        mistakes.append(error)
    raise_together(mistakes)


def call_as_declared(call: Callable[[Values], Answer], client: Client, workflow: str, parameters: Parameters) -> Answer:
    """Call with the values; if they are refused, `-p message=5` may have been read as a number where text is wanted."""
    try:
        return call(parameters.values)
    except InputError as error:
        try:
            declared = parameters.as_declared(client.workflow(workflow).inputs)
        except NotFound:
            raise error from None
        if declared == parameters.values:
            raise
        return call(declared)


def note_existing(submitted: SubmittedJob) -> None:
    """Say that a job with the same parameters exists, or failed before, if it is so."""
    if not submitted.created:
        note("this job was already submitted with the same parameters; --rerun creates a new one")
    if submitted.failed_before:
        start = submitted.failed_before[:12]
        note(f"job {start} with the same parameters failed; this is a new job, which does all of the work again")
        note(f"instead of submitting it again, `anabranch retry {start}` would have kept the work that was completed")


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


def print_end(client: Client, job: JobStatus, *, json: bool) -> None:
    """Print the outcome of a job as JSON, or its result and where to look; JobFailed if it did not complete."""
    if json:
        print_json(outcome(job))
    require_success(job)
    if not json:
        note(f"job {job.job_id} completed in {took(job)}")
        print_json(job.result)
        for name, url in find_links(client.base_url, job):
            note(f"{name:<9} {url}")


def outcome(job: JobStatus) -> Values:
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
    raise JobFailed(code, f"job {job.job_id} {job.status}{reason}", remedy=_advise(code, remedy, job))


def _advise(code: str, remedy: str, job: JobStatus) -> str:
    """The remedy of an error; one that is that of its code, or none, doesn't know the job, so where to look follows."""
    known = find_code(code)
    if remedy and (known is None or remedy != known.remedy):
        return remedy
    return f"{find_remedy(code, remedy)} See `anabranch {_where_to_look(job)}`.".lstrip()


def _where_to_look(job: JobStatus) -> str:
    # A node may fail before it has tasks, in an expression or a planner; then its event has the details.
    start = job.job_id[:12]
    return f"tasks {start} --status failed" if job.tasks.failed else f"events {start}"


def took(job: JobSummary) -> str:
    """The time from a job's submission to its end, without the time between a failure and its retry."""
    return span(job.created_at, job.finished_at and job.finished_at - timedelta(seconds=job.idle_seconds))
