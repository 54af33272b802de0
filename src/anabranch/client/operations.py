"""Operations of several requests: submit and wait survive a restart of the API."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, TypeVar

from anabranch.client.calls import Call, Pause, Steps
from anabranch.client.errors import THROTTLED, TimedOut, error_of
from anabranch.client.files import FileBody
from anabranch.client.paths import encode_body, job_path
from anabranch.contract.answer import JsonObject, JsonValue, read
from anabranch.contract.jobs import JobStatus, SubmittedJob, Uploaded
from anabranch.durations import spell_duration
from anabranch.errors import AnabranchError, Unavailable

if TYPE_CHECKING:
    from anabranch.canonical import Json

__all__ = [
    "BulkAnswer", "fresh_key", "job_body", "poll", "retry_while_unavailable", "submit", "submit_many", "upload", "wait",
]  # fmt: skip

Answer = TypeVar("Answer")
FIRST_PAUSE_SECONDS = 0.05
MAX_PAUSE_SECONDS = 1.0
MAX_OUTAGE_SECONDS = 30.0
MAX_SUBMIT_OUTAGE_SECONDS = 5.0
MIN_TIMEOUT_SECONDS = 0.1
BATCH_LINES = 500
BATCH_BYTES = 1_000_000


def fresh_key() -> str:
    """A new idempotency key."""
    return os.urandom(16).hex()


@dataclass(frozen=True)
class BulkAnswer:
    """The result of one line of a bulk submission, numbered from 1: a job, or an error."""

    line: int
    job_id: str | None
    created: bool
    error: AnabranchError | None
    raw: dict[str, JsonValue] = field(repr=False)

    @classmethod
    def of(cls, line: int, raw: JsonObject) -> "BulkAnswer":
        """Read a line of the answer."""
        error = None if "job_id" in raw else error_of(raw["status"], raw)
        return cls(line, raw.get("job_id"), bool(raw.get("created")), error, {**raw, "line": line})


@dataclass
class _Batch:
    """Lines that are sent together, and again until each has an answer."""

    first: int
    lines: Sequence[bytes]
    key: str = field(default_factory=fresh_key)
    answers: dict[int, BulkAnswer] = field(default_factory=dict)
    error: AnabranchError | None = None

    def submit(self) -> Steps[list[BulkAnswer]]:
        """Submit them, and return the answers in order; `error` is the reason if some have none."""
        try:
            yield from retry_while_unavailable(self._call)
        except AnabranchError as error:
            self.error = error
        return [self.answers[place] for place in sorted(self.answers)]

    def _call(self) -> Call[None]:
        """What has no answer yet. A line's key is made of its number, so those with an answer are sent as blank."""
        rest = (b"" if place in self.answers else line for place, line in enumerate(self.lines, 1))
        body = b"".join(line + b"\n" for line in rest)
        return Call(self._read, "POST", "/api/jobs/bulk", body=body, key=self.key, lines=True)

    def _read(self, raws: Sequence[JsonObject]) -> None:
        lost: AnabranchError = Unavailable("api.broken_off", "the API answered fewer lines than it was sent")
        for raw in raws:
            place = raw["line"]
            answer = BulkAnswer.of(self.first + place - 1, raw)
            # A line that is throttled is over the platform's quota, for longer than we would wait.
            if isinstance(answer.error, Unavailable) and raw["status"] != THROTTLED:
                lost = answer.error
            else:
                self.answers[place] = answer
        if len(self.answers) < len(self.lines):
            raise lost


def job_body(
    workflow: str,
    parameters: "Mapping[str, Json] | None",
    *,
    priority: int | None = None,
    labels: Mapping[str, str] | None = None,
    correlation_id: str | None = None,
    callbacks: "Sequence[Mapping[str, Json]]" = (),
) -> dict[str, object]:
    """The body of a submission; what is not given is left out."""
    given = {
        "priority": priority,
        "labels": dict(labels) if labels else None,
        "correlation_id": correlation_id,
        "callbacks": [dict(callback) for callback in callbacks] or None,
    }
    wanted = {name: value for name, value in given.items() if value is not None}
    return {"workflow": workflow, "parameters": dict(parameters or {}), **wanted}


def submit(
    workflow: str,
    parameters: "Mapping[str, Json] | None",
    *,
    priority: int | None,
    rerun: bool,
    labels: Mapping[str, str] | None,
    correlation_id: str | None,
    idempotency_key: str | None,
    callbacks: "Sequence[Mapping[str, Json]]" = (),
) -> Steps[SubmittedJob]:
    """Submit a job, with one idempotency key for all attempts."""
    given = job_body(
        workflow, parameters, priority=priority, labels=labels, correlation_id=correlation_id, callbacks=callbacks
    )
    body = encode_body({**given, "rerun": rerun})
    key = fresh_key() if idempotency_key is None else idempotency_key
    call = Call(partial(read, SubmittedJob), "POST", "/api/jobs", body=body, key=key)
    return retry_while_unavailable(lambda: call)


def submit_many(jobs: "Iterable[Mapping[str, Json]]") -> Iterator[Steps[list[BulkAnswer]]]:
    """Submit many jobs, an operation for each batch; what a batch has no answer to is raised after its answers."""
    first = 1
    for lines in _batch(map(encode_body, jobs)):
        batch = _Batch(first, lines)
        yield batch.submit()
        if batch.error:
            raise batch.error
        first += len(lines)


def upload(body: FileBody, name: str | None) -> Call[Uploaded]:
    """Upload a file, under its own name or another."""
    headers = {"Content-Type": "application/octet-stream"}
    if body.size is not None:
        headers["Content-Length"] = str(body.size)
    query = {"name": body.path.name if name is None else name}
    return Call(partial(read, Uploaded), "POST", "/api/uploads", body=body, query=query, headers=headers, slow=True)


def wait(job_id: str, timeout: float | None, on_change: Callable[[JobStatus], None] | None) -> Steps[JobStatus]:
    """Wait until a job has ended."""

    def describe(seen: JobStatus | None) -> TimedOut:
        state = f"is still {seen.status}" if seen else "could not be read"
        see, end = (f"`anabranch {command} {job_id[:12]}`" for command in ("status", "cancel"))
        remedy = f"It continues: see it with {see}, or cancel it with {end}."
        return TimedOut("job.timed_out", f"job {job_id} {state} after {spell_duration(timeout or 0)}", remedy=remedy)

    call = Call(partial(read, JobStatus), "GET", job_path(job_id))
    return poll(call, lambda job: job.ended, timeout, describe, on_change)


def poll(
    call: Call[Answer],
    is_done: Callable[[Answer], bool],
    timeout: float | None,
    describe_timeout: Callable[[Answer | None], TimedOut],
    on_change: Callable[[Answer], None] | None = None,
) -> Steps[Answer]:
    """Send a call until its answer is what is waited for; a short outage of the API is survived."""
    began = heard = monotonic()
    pause, seen = FIRST_PAUSE_SECONDS, None
    while True:
        within = max(_remaining(began, timeout), MIN_TIMEOUT_SECONDS)
        try:
            found: Answer = yield replace(call, within=within)
        except Unavailable:
            if monotonic() - heard > MAX_OUTAGE_SECONDS:
                raise
        else:
            heard = monotonic()
            if on_change and found != seen:
                on_change(found)
            if is_done(found):
                return found
            seen = found
        remaining = _remaining(began, timeout)
        if timeout is not None and remaining <= 0:
            raise describe_timeout(seen)
        yield Pause(min(pause, remaining))
        pause = min(pause * 1.5, MAX_PAUSE_SECONDS)


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


def retry_while_unavailable(make_call: Callable[[], Call[Answer]]) -> Steps[Answer]:
    """Send a call, and again for some seconds while the API is unavailable."""
    began, pause = monotonic(), FIRST_PAUSE_SECONDS
    while True:
        try:
            answer: Answer = yield make_call()
        except Unavailable as error:
            pause = max(pause, error.retry_after or 0)
            if monotonic() + (error.retry_after or 0) - began > MAX_SUBMIT_OUTAGE_SECONDS:
                raise
        else:
            return answer
        yield Pause(pause)
        pause = min(pause * 1.5, MAX_PAUSE_SECONDS)


def _remaining(began: float, timeout: float | None) -> float:
    return float("inf") if timeout is None else began + timeout - monotonic()
