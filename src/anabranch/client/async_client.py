"""The asyncio client of the HTTP API: the methods of `Client`, as coroutines."""

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from anabranch.client import operations
from anabranch.client.admin import AsyncAdmin
from anabranch.client.calls import Call, Pause
from anabranch.client.catalog import download_path, file_path, item_path, items_call, layer_path, tile_path
from anabranch.client.client import MAX_PAGE_ITEMS, MAX_PAGE_LOGS
from anabranch.client.files import FileBody, OnBytes, hash_file_async
from anabranch.client.job_stream import JobStream
from anabranch.client.operations import BulkAnswer
from anabranch.client.paths import job_path, limit_path, pause_path, segment, workflow_path
from anabranch.client.platforms import AsyncPlatforms
from anabranch.client.publishing import AsyncPublishing
from anabranch.client.schedules import AsyncSchedules
from anabranch.client.transport import AsyncTransport
from anabranch.client.uploads import MAX_WHOLE_BYTES, upload_parts
from anabranch.client.webhooks import AsyncWebhooks
from anabranch.contract.answer import Page, read
from anabranch.contract.catalog import Item, PublishedItem
from anabranch.contract.control import (
    DeadLetter,
    Drained,
    Limit,
    Paused,
    Queue,
    Replay,
    Retry,
    SetLimit,
    Signalled,
    Worker,
)
from anabranch.contract.jobs import (
    CheckedJob,
    Event,
    Graph,
    JobProgress,
    JobStatus,
    JobSummary,
    Log,
    SubmittedJob,
    Task,
    Uploaded,
)
from anabranch.contract.stack import Health, Ready
from anabranch.contract.workflows import Reloaded, Workflow, Workflows
from anabranch.embedded.locate import find_api
from anabranch.errors import AnabranchError, Unavailable

if TYPE_CHECKING:
    from anabranch.canonical import Json
    from anabranch.client.authorization import AsyncKey

__all__ = ["AsyncClient"]


class AsyncClient(AsyncPublishing):
    """The API at a URL; close it, or use it in an `async with`. `timeout` limits each request, in seconds."""

    def __init__(self, base_url: str, *, key: "AsyncKey | None" = None, timeout: float = 30.0) -> None:
        """Makes no request yet. The key is a key or a token, or a function that gives one.

        The function is called before the first request, and again when the API no longer accepts what it gave.
        """
        super().__init__(AsyncTransport(base_url, timeout, key))
        self.admin = AsyncAdmin(self._transport)
        self.platform = AsyncPlatforms(self._transport)
        self.schedules = AsyncSchedules(self._transport)
        self.webhooks = AsyncWebhooks(self._transport)

    @property
    def base_url(self) -> str:
        """The API's base URL, without a trailing slash."""
        return self._transport.base_url

    @classmethod
    def from_settings(cls, *, timeout: float = 30.0) -> Self:
        """The API that ANABRANCH_API_URL or the configuration file names, otherwise the stack of the home.

        It is the one that commands use, with the same key.
        """
        url, key = find_api()
        return cls(url, key=key, timeout=timeout)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every connection."""
        await self._transport.close()

    async def submit(
        self,
        workflow: str,
        parameters: "Mapping[str, Json] | None" = None,
        *,
        priority: int | None = None,
        rerun: bool = False,
        labels: Mapping[str, str] | None = None,
        correlation_id: str | None = None,
        idempotency_key: str | None = None,
        callbacks: "Sequence[Mapping[str, Json]]" = (),
    ) -> SubmittedJob:
        """Submit a job. It is retried while the server is unavailable, with one idempotency key: it is created once.

        The same workflow and parameters return the same job, which keeps the labels that it was created with. The key
        is new for each call, unless you give your own to repeat a call of another process. `callbacks` are called when
        the job ends, each with at least `url` and `secret`.
        """
        steps = operations.submit(
            workflow,
            parameters,
            priority=priority,
            rerun=rerun,
            labels=labels,
            correlation_id=correlation_id,
            idempotency_key=idempotency_key,
            callbacks=callbacks,
        )
        return await self._run(steps)

    async def validate(
        self,
        workflow: str,
        parameters: "Mapping[str, Json] | None" = None,
        *,
        priority: int | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> CheckedJob:
        """Check a job without submitting it; InputError with every mistake, else what its parameters come to."""
        body = operations.job_body(workflow, parameters, priority=priority, labels=labels)
        return await self._send(CheckedJob, "POST", "/api/jobs/validate", body)

    async def submit_many(self, jobs: "Iterable[Mapping[str, Json]]") -> AsyncIterator[BulkAnswer]:
        """Submit many jobs, each as a request body with `workflow`, `parameters` and more; yields an answer for each.

        They are sent in batches of some hundreds while you consume the answers, in order. A refused job does not affect
        the others. Jobs without an answer are sent again while the server is unavailable, with one idempotency key: no
        job is created twice. If it stays unavailable, that is raised after the answers that were received.
        """
        for steps in operations.submit_many(jobs):
            for answer in await self._run(steps):
                yield answer

    async def job(self, job_id: str) -> JobStatus:
        """A job by its id or a unique prefix of it."""
        return await self._get(JobStatus, job_path(job_id))

    async def wait(
        self,
        job_id: str,
        timeout: float | None = None,  # noqa: ASYNC109  as in Client; the error names the job
        on_change: Callable[[JobStatus], None] | None = None,
    ) -> JobStatus:
        """Wait until a job has ended, completed or not, and return it; TimedOut after `timeout` seconds.

        It survives a restart of the API. `on_change` is called with the job at first and after each change.
        """
        return await self._run(operations.wait(job_id, timeout, on_change))

    async def cancel(self, job_id: str, reason: str | None = None) -> JobStatus:
        """Cancel a job and return its new status; Conflict if it has already ended."""
        body = None if reason is None else {"reason": reason}
        return await self._send(JobStatus, "POST", f"{job_path(job_id)}/cancel", body)

    async def retry(
        self, job_id: str, *, nodes: Sequence[str] = (), from_node: str | None = None, dry_run: bool = False
    ) -> Retry:
        """Retry the failed tasks of a job or of some of its nodes; or run a whole node and all nodes after it again."""
        body = {"nodes": list(nodes), "from_node": from_node, "dry_run": dry_run}
        return await self._send(Retry, "POST", f"{job_path(job_id)}/retry", body)

    async def signal(self, job_id: str, node: str, payload: "Mapping[str, Json] | None" = None) -> bool:
        """Signal a gate; False if it was already signalled with the same payload, Conflict if with another one."""
        path = f"{job_path(job_id)}/signal/{segment(node)}"
        return (await self._send(Signalled, "POST", path, dict(payload or {}))).accepted

    async def jobs(
        self,
        *,
        limit: int | None = None,
        before: str | None = None,
        status: str | None = None,
        workflow: str | None = None,
        parent: str | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> Page[JobSummary]:
        """Jobs, the newest first, with all the `labels`; with `parent`, the child jobs of that job."""
        query = {"limit": limit, "before": before, "status": status, "workflow": workflow, "parent": parent}
        pairs = [f"{name}={value}" for name, value in (labels or {}).items()]
        return await self._get(Page[JobSummary], "/api/jobs", **query, label=pairs)

    async def tasks(
        self,
        job_id: str,
        *,
        limit: int | None = None,
        after: str | None = None,
        node: str | None = None,
        status: str | None = None,
    ) -> Page[Task]:
        """The tasks of a job, in order."""
        path = f"{job_path(job_id)}/tasks"
        return await self._get(Page[Task], path, limit=limit, after=after, node=node, status=status)

    def all_tasks(self, job_id: str, *, node: str | None = None, status: str | None = None) -> AsyncIterator[Task]:
        """Every task of a job, in order, a page at a time."""
        page = partial(self.tasks, job_id, limit=MAX_PAGE_ITEMS, node=node, status=status)
        return self._all(lambda after: page(after=after))

    async def events(self, job_id: str, *, limit: int | None = None, after: str | int | None = None) -> Page[Event]:
        """The events of a job, in order, after the event with a number."""
        return await self._get(Page[Event], f"{job_path(job_id)}/events", limit=limit, after=after)

    def all_events(self, job_id: str) -> AsyncIterator[Event]:
        """All events of a job, in order, a page at a time."""
        return self._all(lambda after: self.events(job_id, limit=MAX_PAGE_ITEMS, after=after))

    async def stream(self, job_id: str, *, after: int = 0) -> AsyncIterator[Event | JobProgress]:
        """A job's events after the given number as they happen, and its progress, until it has ended.

        A broken stream continues where it broke; Unavailable if the API can't be reached for half a minute.
        """
        stream = JobStream(job_id, after)
        while True:
            broken = None
            try:
                async with self._transport.lines(stream.call()) as lines:
                    async for line in lines:
                        if message := stream.read_line(line):
                            yield message
            except Unavailable as error:
                broken = error
            if stream.ended:
                return
            await self._take(Pause(stream.pause_seconds(broken)))

    async def logs(
        self,
        job_id: str,
        *,
        limit: int | None = None,
        after: str | None = None,
        node: str | None = None,
        index: int | str | None = None,
        attempt: int | None = None,
        status: str | None = None,
    ) -> Page[Log]:
        """The output and the metrics of the attempts of a job's tasks, in order; `status` is `running` or `failed`."""
        path = f"{job_path(job_id)}/logs"
        query = {"limit": limit, "after": after, "node": node, "index": index, "attempt": attempt, "status": status}
        return await self._get(Page[Log], path, **query)

    def all_logs(
        self,
        job_id: str,
        *,
        node: str | None = None,
        index: int | str | None = None,
        attempt: int | None = None,
        status: str | None = None,
    ) -> AsyncIterator[Log]:
        """All output and metrics of a job's tasks, in order, a page at a time."""
        page = partial(self.logs, job_id, limit=MAX_PAGE_LOGS, node=node, index=index, attempt=attempt, status=status)
        return self._all(lambda after: page(after=after))

    async def graph(self, job_id: str) -> Graph:
        """The workflow that a job was pinned to, with the status of each node."""
        return await self._get(Graph, f"{job_path(job_id)}/graph")

    async def bundle(self, job_id: str, file: str | Path) -> Path:
        """Write a zip file with everything needed to diagnose a job; returns its path."""
        await self._transport.download(Call(Path, "GET", f"{job_path(job_id)}/bundle", slow=True), Path(file))
        return Path(file)

    async def upload(
        self, file: str | Path, *, name: str | None = None, on_progress: OnBytes | None = None
    ) -> Uploaded:
        """Upload a file to the bronze tier, under its own name or another; jobs take its address as a parameter.

        A large file is sent in parts; after an interruption, upload it again, and only the missing parts are sent.

        `on_progress` is called with the bytes that were sent, and with their total if it is known.
        """
        with closing(FileBody(Path(file), on_progress)) as body:
            if (size := body.size or 0) <= MAX_WHOLE_BYTES:
                return body.check(await self._transport.call(operations.upload(body, name)))
        digest = await hash_file_async(Path(file))
        return await self._run(upload_parts(Path(file), size, digest, name=name, on_progress=on_progress))

    def items(
        self, collection: str | None = None, *, bbox: Sequence[float] | None = None, datetime: str | None = None
    ) -> AsyncIterator[Item]:
        """The published items, a page at a time: all, or those of a collection, an area or a time.

        `bbox` is west, south, east and north in degrees; `datetime` is a time or an interval, like 2026-01-01/...
        """
        return self._all(lambda after: self._transport.call(items_call(collection, bbox, datetime, after)))

    async def item(self, collection: str, item: str) -> Item:
        """A published item."""
        return await self._get(Item, item_path(collection, item))

    async def download(self, source: Item | PublishedItem | str, name: str, file: str | Path) -> Path:
        """Write an asset of an item, by its name or that of its file, or a file of a publication; returns its path."""
        await self._transport.download(Call(Path, "GET", download_path(source, name), slow=True), Path(file))
        return Path(file)

    async def hash_published(self, publication: str, name: str) -> str:
        """The SHA-256 of a file of a publication, computed from its bytes."""
        return await self._transport.hash(Call(Path, "GET", file_path(publication, name), slow=True))

    def tile_url(self, item: Item | str) -> str:
        """The URL of the tiles of an item, or of all items of a collection, with {z}, {x} and {y}, for maps."""
        path = layer_path(item) if isinstance(item, str) else tile_path(item.collection, item.id)
        return f"{self.base_url}{path}"

    async def dead_letters(
        self,
        *,
        limit: int | None = None,
        after: str | None = None,
        workflow: str | None = None,
        handler: str | None = None,
        code: str | None = None,
    ) -> Page[DeadLetter]:
        """The tasks that failed permanently, the newest first."""
        query = {"limit": limit, "after": after, "workflow": workflow, "handler": handler, "code": code}
        return await self._get(Page[DeadLetter], "/api/dead-letters", **query)

    async def replay(
        self,
        *,
        jobs: Sequence[str] = (),
        workflow: str | None = None,
        handler: str | None = None,
        code: str | None = None,
    ) -> list[Replay]:
        """Retry the jobs of dead letters, each from its nodes that have any."""
        body = {"jobs": list(jobs), "workflow": workflow, "handler": handler, "code": code}
        return await self._send(list[Replay], "POST", "/api/dead-letters/replay", body)

    async def queues(self) -> list[Queue]:
        """The queues with their numbers of waiting and running tasks."""
        return await self._get(list[Queue], "/api/queues")

    async def limits(self) -> list[Limit]:
        """All limits and pauses."""
        return await self._get(list[Limit], "/api/limits")

    async def set_limit(self, kind: str, name: str, most: int, reason: str = "") -> SetLimit:
        """Limit how many tasks of a queue, workflow, handler or key run at once."""
        return await self._send(SetLimit, "PUT", limit_path(kind, name), {"most": most, "reason": reason})

    async def remove_limit(self, kind: str, name: str) -> None:
        """Remove a limit."""
        await self._send(Paused, "DELETE", limit_path(kind, name))

    async def pause(self, kind: str, name: str, reason: str = "") -> Paused:
        """Pause a `queue` or a `workflow`: no more of its tasks start."""
        return await self._send(Paused, "POST", pause_path(kind, name, "pause"), {"reason": reason})

    async def resume(self, kind: str, name: str) -> Paused:
        """Resume a paused `queue` or `workflow`."""
        return await self._send(Paused, "POST", pause_path(kind, name, "resume"))

    async def drain(self, session: int, *, draining: bool = True) -> None:
        """Drain a worker: it takes no more tasks. With `draining=False`, it takes tasks again."""
        await self._send(Drained, "POST", f"/api/workers/{session}/{'drain' if draining else 'resume'}")

    async def workflows(self) -> Workflows:
        """All workflows, by name."""
        return await self._get(Workflows, "/api/workflows")

    async def workflow(self, workflow_id: str) -> Workflow:
        """A workflow with its definition and the JSON Schema of its inputs."""
        return await self._get(Workflow, workflow_path(workflow_id))

    async def reload_workflows(self) -> Reloaded:
        """Let the API reload its workflow files."""
        return await self._send(Reloaded, "POST", "/api/workflows/reload")

    async def workers(self) -> list[Worker]:
        """The live processes of the stack."""
        return await self._get(list[Worker], "/api/workers")

    async def health(self) -> Health:
        """The status of every part; a part that is down is returned, not raised."""
        return await self._transport.call(Call(partial(read, Health), "GET", "/api/health", also=503))

    async def ready(self) -> bool:
        """Whether jobs can be submitted and read."""
        try:
            return (await self._get(Ready, "/readyz")).status == "ok"
        except AnabranchError:
            return False
