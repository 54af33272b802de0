"""A client of the HTTP API, with a method for each question."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from time import monotonic, sleep
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar
from urllib.parse import quote

from anabranch.client.admin import Admin
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
from anabranch.client.control import DeadLetter, Limit, Queue, Replay, Retry
from anabranch.client.errors import TimedOut
from anabranch.client.graph import Graph
from anabranch.client.history import Event, Log
from anabranch.client.transport import Transport
from anabranch.engine.errors import AnabranchError, InputError, NotFound, Unavailable

if TYPE_CHECKING:
    from anabranch.engine.canonical import Json

__all__ = ["Client"]

Item = TypeVar("Item")
Answer = TypeVar("Answer")
FIRST_PAUSE_SECONDS = 0.05
LONGEST_PAUSE_SECONDS = 1.0
PATIENCE_SECONDS = 30.0
SUBMIT_PATIENCE_SECONDS = 5.0
SHORTEST_TIMEOUT_SECONDS = 0.1
LARGEST_PAGE = 1000
BUNDLE_LINES = 500
BUNDLE_BYTES = 1_000_000
LARGEST_PAGE_OF_LOGS = 200


class Client:
    """The API at a URL; close it, or use it in a `with`. `timeout` bounds a request, in seconds."""

    def __init__(self, base_url: str, *, key: str | None = None, timeout: float = 30.0) -> None:
        """Nothing is called yet."""
        self._transport = Transport(base_url, timeout, key)
        self.admin = Admin(self._transport)

    @classmethod
    def from_settings(cls, *, timeout: float = 30.0) -> Self:
        """The API and the key that ANABRANCH_API_URL and ANABRANCH_API_KEY, or the configuration file, name."""
        from anabranch.settings import load_settings

        settings = load_settings()
        if settings.api_url is None:
            raise InputError("api.url", "no API is named", remedy="Set ANABRANCH_API_URL.")
        key = settings.api_key.get_secret_value() if settings.api_key else None
        return cls(settings.api_url, key=key, timeout=timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close every connection."""
        self._transport.close()

    def submit(
        self,
        workflow: str,
        parameters: "Mapping[str, Json] | None" = None,
        *,
        priority: int | None = None,
        rerun: bool = False,
        correlation_id: str | None = None,
        idempotency_key: str | None = None,
    ) -> SubmittedJob:
        """Submit a job. A server that is away is asked again, under one key: nothing is made twice.

        The same workflow and parameters are the same job. The key is a fresh one, unless you give your own to repeat a
        call of another process.
        """
        given = {"priority": priority, "correlation_id": correlation_id}
        wanted = {name: value for name, value in given.items() if value is not None}
        body = _encode({"workflow": workflow, "parameters": dict(parameters or {}), "rerun": rerun, **wanted})
        key = _fresh_key() if idempotency_key is None else idempotency_key
        return self._patiently(lambda: self._transport.call(SubmittedJob.of, "POST", "/api/jobs", body=body, key=key))

    def submit_many(self, jobs: "Iterable[Mapping[str, Json]]") -> Iterator[BulkAnswer]:
        """Submit many jobs, each a body as the API takes it: `workflow`, `parameters` and more; an answer for each.

        They are sent some hundreds at a time while you take the answers, in order. What the API refuses of one hurts no
        other. A server that is away is asked again, under one key: nothing is made twice.
        """
        first = 1
        for lines in _bundle(map(_encode, jobs)):
            yield from self._submit_lines(lines, first)
            first += len(lines)

    def job(self, job_id: str) -> JobStatus:
        """A job by its id, or by a start of it that fits no other."""
        return self._transport.call(JobStatus.of, "GET", _path(job_id))

    def cancel(self, job_id: str, reason: str | None = None) -> JobStatus:
        """Cancel a job, and tell how it stands now; Conflict when it has ended already."""
        path, body = f"{_path(job_id)}/cancel", None if reason is None else _encode({"reason": reason})
        return self._transport.call(JobStatus.of, "POST", path, body=body)

    def retry(
        self, job_id: str, *, nodes: Sequence[str] = (), from_node: str | None = None, dry_run: bool = False
    ) -> Retry:
        """Run again what failed of a job, or of some of its nodes; or a node whole, and all behind it."""
        body = _encode({"nodes": list(nodes), "from_node": from_node, "dry_run": dry_run})
        return self._transport.call(Retry.of, "POST", f"{_path(job_id)}/retry", body=body)

    def signal(self, job_id: str, node: str, payload: "Mapping[str, Json] | None" = None) -> bool:
        """Tell a gate what it waits for; False when it was told the same before, Conflict when something else."""
        path, body = f"{_path(job_id)}/signal/{_segment(node)}", _encode(dict(payload or {}))
        return self._transport.call(lambda raw: bool(raw["accepted"]), "POST", path, body=body)

    def dead_letters(
        self,
        *,
        limit: int | None = None,
        after: str | None = None,
        workflow: str | None = None,
        handler: str | None = None,
        code: str | None = None,
    ) -> Page[DeadLetter]:
        """The tasks that failed for good, the newest first."""
        query = {"limit": limit, "after": after, "workflow": workflow, "handler": handler, "code": code}
        return self._transport.call(lambda raw: Page.of(DeadLetter.of, raw), "GET", "/api/dead-letters", query=query)

    def replay(
        self,
        *,
        jobs: Sequence[str] = (),
        workflow: str | None = None,
        handler: str | None = None,
        code: str | None = None,
    ) -> list[Replay]:
        """Retry the jobs of dead letters, each for its nodes that have some."""
        body = _encode({"jobs": list(jobs), "workflow": workflow, "handler": handler, "code": code})
        read = _list_of(Replay.of)
        return self._transport.call(read, "POST", "/api/dead-letters/replay", body=body)

    def queues(self) -> list[Queue]:
        """The queues with what waits and runs in them."""
        return self._transport.call(_list_of(Queue.of), "GET", "/api/queues")

    def limits(self) -> list[Limit]:
        """What is limited or paused."""
        return self._transport.call(_list_of(Limit.of), "GET", "/api/limits")

    def set_limit(self, kind: str, name: str, most: int, reason: str = "") -> Limit:
        """Let so many tasks of a queue, workflow, handler or key run at once."""
        path, body = f"/api/limits/{_segment(kind)}/{_segment(name)}", _encode({"most": most, "reason": reason})
        return self._transport.call(Limit.of, "PUT", path, body=body)

    def remove_limit(self, kind: str, name: str) -> None:
        """Take a limit away."""
        path = f"/api/limits/{_segment(kind)}/{_segment(name)}"
        self._transport.call(lambda _raw: None, "DELETE", path)

    def pause(self, kind: str, name: str, reason: str = "") -> None:
        """Give out no more tasks of a `queue` or a `workflow`."""
        path = f"/api/{_segment(kind)}s/{_segment(name)}/pause"
        self._transport.call(lambda _raw: None, "POST", path, body=_encode({"reason": reason}))

    def resume(self, kind: str, name: str) -> None:
        """Give out tasks of a `queue` or a `workflow` again."""
        self._transport.call(lambda _raw: None, "POST", f"/api/{_segment(kind)}s/{_segment(name)}/resume")

    def drain(self, session: int, *, draining: bool = True) -> None:
        """Let a worker take nothing more, or again."""
        verb = "drain" if draining else "resume"
        self._transport.call(lambda _raw: None, "POST", f"/api/workers/{session}/{verb}")

    def jobs(
        self,
        *,
        limit: int | None = None,
        before: str | None = None,
        state: str | None = None,
        workflow: str | None = None,
        parent: str | None = None,
    ) -> Page[JobSummary]:
        """Jobs, the newest first; those that run for a job, if it is named."""
        query = {"limit": limit, "before": before, "state": state, "workflow": workflow, "parent": parent}
        return self._transport.call(lambda raw: Page.of(JobSummary.of, raw), "GET", "/api/jobs", query=query)

    def tasks(
        self,
        job_id: str,
        *,
        limit: int | None = None,
        after: str | None = None,
        node: str | None = None,
        status: str | None = None,
    ) -> Page[Task]:
        """The tasks of a job, in order."""
        query = {"limit": limit, "after": after, "node": node, "status": status}
        return self._transport.call(lambda raw: Page.of(Task.of, raw), "GET", f"{_path(job_id)}/tasks", query=query)

    def all_tasks(self, job_id: str, *, node: str | None = None, status: str | None = None) -> Iterator[Task]:
        """Every task of a job, in order, a page at a time."""
        return _all(lambda after: self.tasks(job_id, limit=LARGEST_PAGE, after=after, node=node, status=status))

    def events(self, job_id: str, *, limit: int | None = None, after: str | int | None = None) -> Page[Event]:
        """What happened to a job, in order, after the event of a number."""
        query = {"limit": limit, "after": after}
        return self._transport.call(lambda raw: Page.of(Event.of, raw), "GET", f"{_path(job_id)}/events", query=query)

    def all_events(self, job_id: str) -> Iterator[Event]:
        """Everything that happened to a job, in order, a page at a time."""
        return _all(lambda after: self.events(job_id, limit=LARGEST_PAGE, after=after))

    def logs(
        self,
        job_id: str,
        *,
        limit: int | None = None,
        after: str | None = None,
        node: str | None = None,
        index: int | str | None = None,
        attempt: int | None = None,
    ) -> Page[Log]:
        """What the attempts of a job's tasks printed and measured, in order."""
        query = {"limit": limit, "after": after, "node": node, "index": index, "attempt": attempt}
        return self._transport.call(lambda raw: Page.of(Log.of, raw), "GET", f"{_path(job_id)}/logs", query=query)

    def all_logs(
        self, job_id: str, *, node: str | None = None, index: int | str | None = None, attempt: int | None = None
    ) -> Iterator[Log]:
        """All that a job's tasks printed and measured, in order, a page at a time."""
        return _all(
            lambda after: self.logs(
                job_id, limit=LARGEST_PAGE_OF_LOGS, after=after, node=node, index=index, attempt=attempt
            )
        )

    def graph(self, job_id: str) -> Graph:
        """The workflow that a job was pinned to, with the states of its nodes."""
        return self._transport.call(Graph.of, "GET", f"{_path(job_id)}/graph")

    def workflows(self) -> Workflows:
        """Every workflow that jobs can be made of, by name."""
        return self._transport.call(Workflows.of, "GET", "/api/workflows")

    def workflow(self, workflow_id: str) -> Workflow:
        """A workflow with its definition and the JSON Schema of its inputs."""
        if not workflow_id.strip("."):
            remedy = "List them with `anabranch workflows list`."
            raise NotFound("workflow.not_found", f"{workflow_id!r} is not a workflow's name", remedy=remedy)
        path = quote(workflow_id, safe="", errors="surrogateescape")
        return self._transport.call(Workflow.of, "GET", f"/api/workflows/{path}")

    def reload_workflows(self) -> Reloaded:
        """Let the API read its workflow files again."""
        return self._transport.call(Reloaded.of, "POST", "/api/workflows/reload")

    def workers(self) -> list[Worker]:
        """The live processes of the stack."""
        return self._transport.call(_list_of(Worker.of), "GET", "/api/workers")

    def health(self) -> Health:
        """The state of every part; one that is down is told, not raised."""
        return self._transport.call(Health.of, "GET", "/api/health", also=503)

    def ready(self) -> bool:
        """Whether jobs can be submitted and read."""
        try:
            return self._transport.call(lambda raw: bool(raw["status"] == "ok"), "GET", "/readyz")
        except AnabranchError:
            return False

    def wait(
        self, job_id: str, timeout: float | None = None, on_change: Callable[[JobStatus], None] | None = None
    ) -> JobStatus:
        """The job when it has ended, whether it completed or not; TimedOut after `timeout` seconds.

        It outlasts a restart of the API. `on_change` gets the job at first and whenever it has moved on.
        """
        began = heard = monotonic()
        pause, seen = FIRST_PAUSE_SECONDS, None
        while True:
            remaining = _remaining(began, timeout)
            try:
                job = self._ask(job_id, remaining)
            except Unavailable:
                if monotonic() - heard > PATIENCE_SECONDS:
                    raise
            else:
                heard = monotonic()
                if on_change and job != seen:
                    on_change(job)
                if job.ended:
                    return job
                seen = job
            remaining = _remaining(began, timeout)
            if timeout is not None and remaining <= 0:
                raise _timed_out(job_id, timeout, seen)
            sleep(min(pause, remaining))
            pause = min(pause * 1.5, LONGEST_PAUSE_SECONDS)

    def _submit_lines(self, lines: Sequence[bytes], first: int) -> list[BulkAnswer]:
        key, body = _fresh_key(), b"\n".join(lines) + b"\n"

        def read(raws: list[Any]) -> list[BulkAnswer]:  # JSON, which has no type before it is read
            answers = [BulkAnswer.of({**raw, "line": first + place}) for place, raw in enumerate(raws)]
            away = next((answer.error for answer in answers if isinstance(answer.error, Unavailable)), None)
            if away or len(answers) != len(lines):
                raise away or Unavailable("api.broken_off", "the API answered fewer jobs than it was given")
            return answers

        return self._patiently(
            lambda: self._transport.call(read, "POST", "/api/jobs/bulk", body=body, key=key, lines=True)
        )

    def _patiently(self, ask: Callable[[], Answer]) -> Answer:
        began, pause = monotonic(), FIRST_PAUSE_SECONDS
        while True:
            try:
                return ask()
            except Unavailable:
                if monotonic() - began > SUBMIT_PATIENCE_SECONDS:
                    raise
            sleep(pause)
            pause = min(pause * 1.5, LONGEST_PAUSE_SECONDS)

    def _ask(self, job_id: str, patience: float) -> JobStatus:
        timeout = max(min(patience, self._transport.timeout), SHORTEST_TIMEOUT_SECONDS)
        return self._transport.call(JobStatus.of, "GET", _path(job_id), timeout=timeout)


def _all(ask: Callable[[str | None], Page[Item]]) -> Iterator[Item]:
    """The items of every page."""
    page = ask(None)
    yield from page
    while page.next is not None:
        page = ask(page.next)
        yield from page


def _list_of(read: Callable[[Any], Item]) -> Callable[[Any], list[Item]]:  # JSON of the API
    return lambda raw: [read(one) for one in raw]


def _segment(name: str) -> str:
    """A name as a part of a path; of dots a URL would make steps."""
    if not name.strip("."):
        raise InputError("name.invalid", f"{name!r} is not a name")
    return quote(name, safe="", errors="surrogateescape")


def _bundle(lines: Iterable[bytes]) -> Iterator[list[bytes]]:
    """Lines in bundles; the answers to one must fit the connection, for they are read when all of it was sent."""
    bundle: list[bytes] = []
    size = 0
    for line in lines:
        bundle.append(line)
        size += len(line)
        if len(bundle) == BUNDLE_LINES or size > BUNDLE_BYTES:
            yield bundle
            bundle, size = [], 0
    if bundle:
        yield bundle


def _fresh_key() -> str:
    return os.urandom(16).hex()


def _encode(value: object) -> bytes:
    from anabranch.engine.canonical import encode

    try:
        return encode(value).encode()
    except ValueError as error:
        raise InputError("job.parameters", f"what was given can't be sent: {error}") from error


def _path(job_id: str) -> str:
    # Of dots a URL makes steps, and of nothing the list of jobs.
    if not job_id.strip("."):
        raise NotFound("job.not_found", f"{job_id!r} is not a job id", remedy="List them with `anabranch jobs`.")
    # What the command line can't decode comes as half characters, and goes back to the bytes it was.
    return f"/api/jobs/{quote(job_id, safe='', errors='surrogateescape')}"


def _remaining(began: float, timeout: float | None) -> float:
    return float("inf") if timeout is None else began + timeout - monotonic()


def _timed_out(job_id: str, timeout: float, seen: JobStatus | None) -> TimedOut:
    state = f"is still {seen.status}" if seen else "could not be asked for"
    return TimedOut(
        "job.timed_out",
        f"job {job_id} {state} after {timeout:g} s",
        remedy="It goes on; wait again, look with `anabranch status`, or end it with `anabranch cancel`.",
    )
