"""The client of the HTTP API, with a method for each question."""

from collections.abc import Callable, Iterator
from time import sleep
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from anabranch.client import admin, controls, operations
from anabranch.client.calls import Batches, Operation, Pages, Pause, Run, Step
from anabranch.client.follow import Follow, JobProgress
from anabranch.client.history import Event
from anabranch.client.method import named_after
from anabranch.client.named import named_api
from anabranch.client.transport import Transport
from anabranch.errors import AnabranchError, Unavailable

__all__ = ["Admin", "Client"]

Given = ParamSpec("Given")
Answer = TypeVar("Answer")
Item = TypeVar("Item")


def does(operation: Callable[Given, Operation[Answer]]) -> "Callable[Concatenate[Asker, Given], Answer]":
    """The method that carries an operation out."""

    @named_after(operation)
    def method(self: "Asker", /, *args: Given.args, **kwargs: Given.kwargs) -> Answer:
        return self._run(operation(*args, **kwargs))

    return method


def goes_through(pages: Callable[Given, Pages[Item]]) -> "Callable[Concatenate[Asker, Given], Iterator[Item]]":
    """The method that gives the items of every page."""

    @named_after(pages)
    def method(self: "Asker", /, *args: Given.args, **kwargs: Given.kwargs) -> Iterator[Item]:
        return self._go_through(pages(*args, **kwargs))

    return method


def gives_all(
    batches: Callable[Given, Batches[Item]],
) -> "Callable[Concatenate[Asker, Given], Iterator[Item]]":
    """The method that gives what one operation after another answers."""

    @named_after(batches)
    def method(self: "Asker", /, *args: Given.args, **kwargs: Given.kwargs) -> Iterator[Item]:
        return self._give_all(batches(*args, **kwargs))

    return method


class Asker:
    """Carries operations out over a client's connections."""

    def __init__(self, transport: Transport) -> None:
        """Over these connections."""
        self._transport = transport

    def _run(self, operation: Operation[Answer]) -> Answer:
        run = Run(operation)
        while step := run.step:
            try:
                answer = self._take(step)
            except AnabranchError as error:
                run.fail(error)
            else:
                run.go_on(answer)
        return run.answer

    def _take(self, step: Step) -> Any:  # as the step's call reads it
        if isinstance(step, Pause):
            sleep(step.seconds)
            return None
        return self._transport.call(step)

    def _give_all(self, batches: Batches[Item]) -> Iterator[Item]:
        for batch in batches:
            yield from self._run(batch)

    def _go_through(self, pages: Pages[Item]) -> Iterator[Item]:
        after = None
        while True:
            page = self._transport.call(pages(after))
            yield from page
            if page.next is None:
                return
            after = page.next


class Admin(Asker):
    """Calls that need the scope admin."""

    make_key = does(admin.make_key)
    list_keys = does(admin.list_keys)
    revoke_key = does(admin.revoke_key)
    task_rows = does(admin.task_rows)
    statistics = does(admin.statistics)
    check_functions = does(admin.check_functions)
    redeploy_schema = does(admin.redeploy_schema)


class Client(Asker):
    """The API at a URL; close it, or use it in a `with`. `timeout` bounds a request, in seconds."""

    def __init__(self, base_url: str, *, key: str | None = None, timeout: float = 30.0) -> None:
        """Nothing is called yet."""
        super().__init__(Transport(base_url, timeout, key))
        self.admin = Admin(self._transport)

    @property
    def base_url(self) -> str:
        """Where the API is; its paths begin behind that."""
        return self._transport.base_url

    @classmethod
    def from_settings(cls, *, timeout: float = 30.0) -> Self:
        """The API and the key that ANABRANCH_API_URL and ANABRANCH_API_KEY, or the configuration file, name."""
        named = named_api()
        return cls(named.url, key=named.key, timeout=timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close every connection."""
        self._transport.close()

    submit = does(operations.submit)
    submit_many = gives_all(operations.submit_many)
    job = does(operations.job)
    wait = does(operations.wait)
    cancel = does(operations.cancel)
    retry = does(controls.retry)
    signal = does(controls.signal)
    jobs = does(operations.jobs)
    tasks = does(operations.tasks)
    all_tasks = goes_through(operations.all_tasks)
    events = does(operations.events)
    all_events = goes_through(operations.all_events)
    logs = does(operations.logs)
    all_logs = goes_through(operations.all_logs)
    graph = does(operations.graph)
    bundle = does(operations.bundle)
    upload = does(operations.upload)
    dead_letters = does(controls.dead_letters)
    replay = does(controls.replay)
    queues = does(controls.queues)
    limits = does(controls.limits)
    set_limit = does(controls.set_limit)
    remove_limit = does(controls.remove_limit)
    pause = does(controls.pause)
    resume = does(controls.resume)
    drain = does(controls.drain)
    workflows = does(operations.workflows)
    workflow = does(operations.workflow)
    reload_workflows = does(operations.reload_workflows)
    workers = does(operations.workers)
    health = does(operations.health)
    ready = does(operations.ready)

    def stream(self, job_id: str, *, after: int = 0) -> Iterator[Event | JobProgress]:
        """A job's events after one of them as they happen, and its progress, until it has ended.

        A stream that breaks goes on where it broke; Unavailable when the API stays away for half a minute.
        """
        follow = Follow(job_id, after)
        while True:
            broken = None
            try:
                with self._transport.lines(follow.call()) as lines:
                    for line in lines:
                        if told := follow.hear(line):
                            yield told
            except Unavailable as error:
                broken = error
            if follow.over:
                return
            sleep(follow.rest(broken))
