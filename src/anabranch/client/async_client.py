"""The asyncio client of the HTTP API: the methods of `Client`, as coroutines."""

from collections.abc import AsyncIterator, Callable, Coroutine
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from anabranch.client import admin, control_operations, operations
from anabranch.client.calls import Batches, Operation, Pages, Pause, Run, Step
from anabranch.client.configured import configured_api
from anabranch.client.history import Event
from anabranch.client.job_stream import JobProgress, JobStream
from anabranch.client.signatures import copy_signature
from anabranch.client.transport import AsyncTransport
from anabranch.errors import AnabranchError, Unavailable

__all__ = ["AsyncAdmin", "AsyncClient"]

Given = ParamSpec("Given")
Answer = TypeVar("Answer")
Item = TypeVar("Item")


def make_method(
    operation: Callable[Given, Operation[Answer]],
) -> "Callable[Concatenate[AsyncOperationRunner, Given], Coroutine[Any, Any, Answer]]":
    """A client method that runs an operation."""

    @copy_signature(operation)
    async def method(self: "AsyncOperationRunner", /, *args: Given.args, **kwargs: Given.kwargs) -> Answer:
        return await self._run(operation(*args, **kwargs))

    return method


def make_paging_method(
    pages: Callable[Given, Pages[Item]],
) -> "Callable[Concatenate[AsyncOperationRunner, Given], AsyncIterator[Item]]":
    """A client method that yields the items of every page."""

    @copy_signature(pages)
    def method(self: "AsyncOperationRunner", /, *args: Given.args, **kwargs: Given.kwargs) -> AsyncIterator[Item]:
        return self._iterate_pages(pages(*args, **kwargs))

    return method


def make_batch_method(
    batches: Callable[Given, Batches[Item]],
) -> "Callable[Concatenate[AsyncOperationRunner, Given], AsyncIterator[Item]]":
    """A client method that runs operations one after another and yields their answers."""

    @copy_signature(batches)
    def method(self: "AsyncOperationRunner", /, *args: Given.args, **kwargs: Given.kwargs) -> AsyncIterator[Item]:
        return self._iterate_batches(batches(*args, **kwargs))

    return method


class AsyncOperationRunner:
    """Runs operations over a client's connections."""

    def __init__(self, transport: AsyncTransport) -> None:
        """Use these connections."""
        self._transport = transport

    async def _run(self, operation: Operation[Answer]) -> Answer:
        run = Run(operation)
        while step := run.step:
            try:
                answer = await self._take(step)
            except AnabranchError as error:
                run.fail(error)
            else:
                run.resume(answer)
        return run.answer

    async def _take(self, step: Step) -> Any:  # as the step's call reads it
        if isinstance(step, Pause):
            await _sleep(step.seconds)
            return None
        return await self._transport.call(step)

    async def _iterate_batches(self, batches: Batches[Item]) -> AsyncIterator[Item]:
        for batch in batches:
            for item in await self._run(batch):
                yield item

    async def _iterate_pages(self, pages: Pages[Item]) -> AsyncIterator[Item]:
        after = None
        while True:
            page = await self._transport.call(pages(after))
            for item in page:
                yield item
            if page.next is None:
                return
            after = page.next


class AsyncAdmin(AsyncOperationRunner):
    """Calls that need the scope admin."""

    make_key = make_method(admin.make_key)
    list_keys = make_method(admin.list_keys)
    revoke_key = make_method(admin.revoke_key)
    task_rows = make_method(admin.task_rows)
    statistics = make_method(admin.statistics)
    check_functions = make_method(admin.check_functions)
    redeploy_schema = make_method(admin.redeploy_schema)


class AsyncClient(AsyncOperationRunner):
    """The API at a URL; close it, or use it in an `async with`. `timeout` limits each request, in seconds."""

    def __init__(self, base_url: str, *, key: str | None = None, timeout: float = 30.0) -> None:
        """Makes no request yet."""
        super().__init__(AsyncTransport(base_url, timeout, key))
        self.admin = AsyncAdmin(self._transport)

    @property
    def base_url(self) -> str:
        """The API's base URL, without a trailing slash."""
        return self._transport.base_url

    @classmethod
    def from_settings(cls, *, timeout: float = 30.0) -> Self:
        """The API and the key that ANABRANCH_API_URL and ANABRANCH_API_KEY, or the configuration file, name."""
        api = configured_api()
        return cls(api.url, key=api.key, timeout=timeout)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every connection."""
        await self._transport.close()

    submit = make_method(operations.submit)
    submit_many = make_batch_method(operations.submit_many)
    job = make_method(operations.job)
    wait = make_method(operations.wait)
    cancel = make_method(operations.cancel)
    retry = make_method(control_operations.retry)
    signal = make_method(control_operations.signal)
    jobs = make_method(operations.jobs)
    tasks = make_method(operations.tasks)
    all_tasks = make_paging_method(operations.all_tasks)
    events = make_method(operations.events)
    all_events = make_paging_method(operations.all_events)
    logs = make_method(operations.logs)
    all_logs = make_paging_method(operations.all_logs)
    graph = make_method(operations.graph)
    bundle = make_method(operations.bundle)
    upload = make_method(operations.upload)
    dead_letters = make_method(control_operations.dead_letters)
    replay = make_method(control_operations.replay)
    queues = make_method(control_operations.queues)
    limits = make_method(control_operations.limits)
    set_limit = make_method(control_operations.set_limit)
    remove_limit = make_method(control_operations.remove_limit)
    pause = make_method(control_operations.pause)
    resume = make_method(control_operations.resume)
    drain = make_method(control_operations.drain)
    workflows = make_method(operations.workflows)
    workflow = make_method(operations.workflow)
    reload_workflows = make_method(operations.reload_workflows)
    workers = make_method(operations.workers)
    health = make_method(operations.health)
    ready = make_method(operations.ready)

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
            await _sleep(stream.pause_seconds(broken))


async def _sleep(seconds: float) -> None:
    import asyncio  # an async caller has imported it already; the command line starts faster without it

    await asyncio.sleep(seconds)
