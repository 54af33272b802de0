"""The operations of the API, for both clients."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar

from anabranch.client.answers import (
    BulkAnswer,
    Health,
    JobStatus,
    JobSummary,
    Page,
    Reloaded,
    SubmittedJob,
    Task,
    Worker,
    Workflow,
    Workflows,
)
from anabranch.client.calls import Batches, Call, Pages, Pause, Steps
from anabranch.client.errors import TimedOut
from anabranch.client.files import FileBody, Uploaded
from anabranch.client.graph import Graph
from anabranch.client.history import Event, Log
from anabranch.client.paths import encode_body, job_path, list_of, workflow_path
from anabranch.errors import AnabranchError, InputError, Unavailable

if TYPE_CHECKING:
    from anabranch.canonical import Json

__all__ = [
    "all_events",
    "all_logs",
    "all_tasks",
    "bundle",
    "cancel",
    "events",
    "graph",
    "health",
    "job",
    "jobs",
    "logs",
    "ready",
    "reload_workflows",
    "submit",
    "submit_many",
    "tasks",
    "upload",
    "wait",
    "workers",
    "workflow",
    "workflows",
]

Answer = TypeVar("Answer")
FIRST_PAUSE_SECONDS = 0.05
MAX_PAUSE_SECONDS = 1.0
MAX_OUTAGE_SECONDS = 30.0
MAX_SUBMIT_OUTAGE_SECONDS = 5.0
MIN_TIMEOUT_SECONDS = 0.1
MAX_PAGE_ITEMS = 1000
BATCH_LINES = 500
BATCH_BYTES = 1_000_000
MAX_PAGE_LOGS = 200


def submit(
    workflow: str,
    parameters: "Mapping[str, Json] | None" = None,
    *,
    priority: int | None = None,
    rerun: bool = False,
    correlation_id: str | None = None,
    idempotency_key: str | None = None,
) -> Steps[SubmittedJob]:
    """Submit a job. It is retried while the server is unavailable, with one idempotency key: no job is created twice.

    The same workflow and parameters return the same job. The key is new for each call, unless you give your own to
    repeat a call of another process.
    """
    given = {"priority": priority, "correlation_id": correlation_id}
    wanted = {name: value for name, value in given.items() if value is not None}
    body = encode_body({"workflow": workflow, "parameters": dict(parameters or {}), "rerun": rerun, **wanted})
    key = _fresh_key() if idempotency_key is None else idempotency_key
    return _retry_while_unavailable(Call(SubmittedJob.of, "POST", "/api/jobs", body=body, key=key))


def submit_many(jobs: "Iterable[Mapping[str, Json]]") -> Batches[BulkAnswer]:
    """Submit many jobs, each as a request body with `workflow`, `parameters` and more; yields an answer for each.

    They are sent in batches of some hundreds while you consume the answers, in order. A refused job does not affect
    the others. A batch is retried while the server is unavailable, with one idempotency key: no job is created twice.
    """
    first = 1
    for lines in _batch(map(encode_body, jobs)):
        yield _submit_lines(lines, first)
        first += len(lines)


def job(job_id: str) -> Call[JobStatus]:
    """A job by its id or a unique prefix of it."""
    return Call(JobStatus.of, "GET", job_path(job_id))


def cancel(job_id: str, reason: str | None = None) -> Call[JobStatus]:
    """Cancel a job and return its new status; Conflict if it has already ended."""
    body = None if reason is None else encode_body({"reason": reason})
    return Call(JobStatus.of, "POST", f"{job_path(job_id)}/cancel", body=body)


def jobs(
    *,
    limit: int | None = None,
    before: str | None = None,
    state: str | None = None,
    workflow: str | None = None,
    parent: str | None = None,
) -> Call[Page[JobSummary]]:
    """Jobs, the newest first; with `parent`, the child jobs of that job."""
    query = {"limit": limit, "before": before, "state": state, "workflow": workflow, "parent": parent}
    return Call(lambda raw: Page.of(JobSummary.of, raw), "GET", "/api/jobs", query=query)


def tasks(
    job_id: str,
    *,
    limit: int | None = None,
    after: str | None = None,
    node: str | None = None,
    status: str | None = None,
) -> Call[Page[Task]]:
    """The tasks of a job, in order."""
    query = {"limit": limit, "after": after, "node": node, "status": status}
    return Call(lambda raw: Page.of(Task.of, raw), "GET", f"{job_path(job_id)}/tasks", query=query)


def all_tasks(job_id: str, *, node: str | None = None, status: str | None = None) -> Pages[Task]:
    """Every task of a job, in order, a page at a time."""
    return lambda after: tasks(job_id, limit=MAX_PAGE_ITEMS, after=after, node=node, status=status)


def events(job_id: str, *, limit: int | None = None, after: str | int | None = None) -> Call[Page[Event]]:
    """The events of a job, in order, after the event with a number."""
    query = {"limit": limit, "after": after}
    return Call(lambda raw: Page.of(Event.of, raw), "GET", f"{job_path(job_id)}/events", query=query)


def all_events(job_id: str) -> Pages[Event]:
    """All events of a job, in order, a page at a time."""
    return lambda after: events(job_id, limit=MAX_PAGE_ITEMS, after=after)


def logs(
    job_id: str,
    *,
    limit: int | None = None,
    after: str | None = None,
    node: str | None = None,
    index: int | str | None = None,
    attempt: int | None = None,
) -> Call[Page[Log]]:
    """The output and the metrics of the attempts of a job's tasks, in order."""
    query = {"limit": limit, "after": after, "node": node, "index": index, "attempt": attempt}
    return Call(lambda raw: Page.of(Log.of, raw), "GET", f"{job_path(job_id)}/logs", query=query)


def all_logs(
    job_id: str, *, node: str | None = None, index: int | str | None = None, attempt: int | None = None
) -> Pages[Log]:
    """All output and metrics of a job's tasks, in order, a page at a time."""
    return lambda after: logs(job_id, limit=MAX_PAGE_LOGS, after=after, node=node, index=index, attempt=attempt)


def upload(file: str | Path, *, name: str | None = None) -> Steps[Uploaded]:
    """Upload a file to the bronze tier, under its own name or another; jobs take its address as a parameter."""
    path = Path(file)
    body = FileBody(path)
    try:
        headers = {"Content-Type": "application/octet-stream"}
        if body.size is not None:
            headers["Content-Length"] = str(body.size)
        query: dict[str, str | int | None] = {"name": path.name if name is None else name}
        uploaded: Uploaded = yield Call(
            Uploaded.of, "POST", "/api/uploads", body=body, query=query, headers=headers, slow=True
        )
    finally:
        body.close()
    if uploaded.sha256 != body.sha256:
        raise InputError("upload.checksum", f"{path} was changed on the way to the API", remedy="Send it again.")
    return uploaded


def bundle(job_id: str, file: str | Path) -> Call[Path]:
    """Write a zip file with everything needed to diagnose a job; returns its path."""
    return Call(Path, "GET", f"{job_path(job_id)}/bundle", into=Path(file), slow=True)


def graph(job_id: str) -> Call[Graph]:
    """The workflow that a job was pinned to, with the states of its nodes."""
    return Call(Graph.of, "GET", f"{job_path(job_id)}/graph")


def workflows() -> Call[Workflows]:
    """All workflows, by name."""
    return Call(Workflows.of, "GET", "/api/workflows")


def workflow(workflow_id: str) -> Call[Workflow]:
    """A workflow with its definition and the JSON Schema of its inputs."""
    return Call(Workflow.of, "GET", workflow_path(workflow_id))


def reload_workflows() -> Call[Reloaded]:
    """Let the API reload its workflow files."""
    return Call(Reloaded.of, "POST", "/api/workflows/reload")


def workers() -> Call[list[Worker]]:
    """The live processes of the stack."""
    return Call(list_of(Worker.of), "GET", "/api/workers")


def health() -> Call[Health]:
    """The state of every part; a part that is down is returned, not raised."""
    return Call(Health.of, "GET", "/api/health", also=503)


def ready() -> Steps[bool]:
    """Whether jobs can be submitted and read."""
    try:
        answer: bool = yield Call(lambda raw: bool(raw["status"] == "ok"), "GET", "/readyz")
    except AnabranchError:
        return False
    return answer


def wait(
    job_id: str, timeout: float | None = None, on_change: Callable[[JobStatus], None] | None = None
) -> Steps[JobStatus]:
    """Wait until a job has ended, completed or not, and return it; TimedOut after `timeout` seconds.

    It survives a restart of the API. `on_change` is called with the job at first and after each change.
    """
    began = heard = monotonic()
    pause, seen = FIRST_PAUSE_SECONDS, None
    while True:
        remaining = _remaining(began, timeout)
        try:
            found: JobStatus = yield Call(
                JobStatus.of, "GET", job_path(job_id), within=max(remaining, MIN_TIMEOUT_SECONDS)
            )
        except Unavailable:
            if monotonic() - heard > MAX_OUTAGE_SECONDS:
                raise
        else:
            heard = monotonic()
            if on_change and found != seen:
                on_change(found)
            if found.ended:
                return found
            seen = found
        remaining = _remaining(began, timeout)
        if timeout is not None and remaining <= 0:
            raise _timed_out(job_id, timeout, seen)
        yield Pause(min(pause, remaining))
        pause = min(pause * 1.5, MAX_PAUSE_SECONDS)


def _submit_lines(lines: Sequence[bytes], first: int) -> Steps[list[BulkAnswer]]:
    def read(raws: list[Any]) -> list[BulkAnswer]:  # JSON, which has no type before it is read
        answers = [BulkAnswer.of({**raw, "line": first + place}) for place, raw in enumerate(raws)]
        unavailable = next((answer.error for answer in answers if isinstance(answer.error, Unavailable)), None)
        if unavailable or len(answers) != len(lines):
            raise unavailable or Unavailable("api.broken_off", "the API answered fewer lines than it was sent")
        return answers

    body = b"\n".join(lines) + b"\n"
    return _retry_while_unavailable(Call(read, "POST", "/api/jobs/bulk", body=body, key=_fresh_key(), lines=True))


def _batch(lines: Iterable[bytes]) -> Iterator[list[bytes]]:
    """Lines in batches; the answers to a batch are read after it was sent, so they must fit into socket buffers."""
    batch: list[bytes] = []
    size = 0
    for line in lines:
        batch.append(line)
        size += len(line)
        if len(batch) == BATCH_LINES or size > BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _retry_while_unavailable(call: Call[Answer]) -> Steps[Answer]:
    began, pause = monotonic(), FIRST_PAUSE_SECONDS
    while True:
        try:
            answer: Answer = yield call
        except Unavailable:
            if monotonic() - began > MAX_SUBMIT_OUTAGE_SECONDS:
                raise
        else:
            return answer
        yield Pause(pause)
        pause = min(pause * 1.5, MAX_PAUSE_SECONDS)


def _fresh_key() -> str:
    return os.urandom(16).hex()


def _remaining(began: float, timeout: float | None) -> float:
    return float("inf") if timeout is None else began + timeout - monotonic()


def _timed_out(job_id: str, timeout: float, seen: JobStatus | None) -> TimedOut:
    state = f"is still {seen.status}" if seen else "could not be read"
    see, end = (f"`anabranch {command} {job_id[:12]}`" for command in ("status", "cancel"))
    remedy = f"It continues: see it with {see}, or cancel it with {end}."
    return TimedOut("job.timed_out", f"job {job_id} {state} after {timeout:g} s", remedy=remedy)
