"""The client of the HTTP API, with a method for each question."""

from collections.abc import Callable, Iterator
from time import sleep
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from anabranch.client import operations
from anabranch.client.calls import Operation, Pages, Pause, Run, Step
from anabranch.client.follow import Follow, Progress
from anabranch.client.history import Event
from anabranch.client.method import named_after
from anabranch.client.transport import Transport
from anabranch.engine.errors import AnabranchError, Unavailable

__all__ = ["Client"]

Given = ParamSpec("Given")
Answer = TypeVar("Answer")
Item = TypeVar("Item")


def does(operation: Callable[Given, Operation[Answer]]) -> "Callable[Concatenate[Client, Given], Answer]":
    """The method that carries an operation out."""

    @named_after(operation)
    def method(self: "Client", /, *args: Given.args, **kwargs: Given.kwargs) -> Answer:
        return self._run(operation(*args, **kwargs))

    return method


def goes_through(pages: Callable[Given, Pages[Item]]) -> "Callable[Concatenate[Client, Given], Iterator[Item]]":
    """The method that gives the items of every page."""

    @named_after(pages)
    def method(self: "Client", /, *args: Given.args, **kwargs: Given.kwargs) -> Iterator[Item]:
        return self._go_through(pages(*args, **kwargs))

    return method


class Client:
    """The API at a URL; close it, or use it in a `with`. `timeout` bounds a request, in seconds."""

    def __init__(self, base_url: str, *, timeout: float = 30.0) -> None:
        """Nothing is called yet."""
        self._transport = Transport(base_url, timeout)

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
    job = does(operations.job)
    wait = does(operations.wait)
    cancel = does(operations.cancel)
    jobs = does(operations.jobs)
    tasks = does(operations.tasks)
    all_tasks = goes_through(operations.all_tasks)
    events = does(operations.events)
    all_events = goes_through(operations.all_events)
    logs = does(operations.logs)
    all_logs = goes_through(operations.all_logs)
    graph = does(operations.graph)
    upload = does(operations.upload)
    workflows = does(operations.workflows)
    workflow = does(operations.workflow)
    reload_workflows = does(operations.reload_workflows)
    workers = does(operations.workers)
    health = does(operations.health)
    ready = does(operations.ready)

    def stream(self, job_id: str, *, after: int = 0) -> Iterator[Event | Progress]:
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

    def _go_through(self, pages: Pages[Item]) -> Iterator[Item]:
        after = None
        while True:
            page = self._transport.call(pages(after))
            yield from page
            if page.next is None:
                return
            after = page.next
