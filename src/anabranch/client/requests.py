"""Requests over a client's connections, and the steps of longer operations."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import partial
from time import sleep
from typing import Any, TypeVar

from anabranch.client.calls import Call, Parameter, Pause, Step, Steps
from anabranch.client.paths import encode_body
from anabranch.client.transport import AsyncTransport, Transport
from anabranch.contract.answer import Page, read
from anabranch.errors import AnabranchError

__all__ = ["AsyncRequests", "Requests"]

Answer = TypeVar("Answer")
Item = TypeVar("Item")


class Requests:
    """Sends requests over a client's connections."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def _get(self, kind: type[Answer], path: str, **query: Parameter) -> Answer:
        return self._transport.call(Call(partial(read, kind), "GET", path, query=query))

    def _send(self, kind: type[Answer], method: str, path: str, body: object = None, **query: Parameter) -> Answer:
        content = None if body is None else encode_body(body)
        return self._transport.call(Call(partial(read, kind), method, path, body=content, query=query))

    def _run(self, steps: Steps[Answer]) -> Answer:
        try:
            step = next(steps)
            while True:
                try:
                    answer = self._take(step)
                except AnabranchError as error:
                    step = steps.throw(error)
                else:
                    step = steps.send(answer)
        except StopIteration as ended:
            result: Answer = ended.value
            return result

    def _take(self, step: Step) -> Any:  # as the step's call reads it
        if isinstance(step, Pause):
            sleep(step.seconds)
            return None
        return self._transport.call(step)

    def _all(self, read_page: Callable[[str | None], Page[Item]]) -> Iterator[Item]:
        after = None
        while True:
            page = read_page(after)
            yield from page
            if page.next is None:
                return
            after = page.next


class AsyncRequests:
    """Sends requests over a client's connections."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    async def _get(self, kind: type[Answer], path: str, **query: Parameter) -> Answer:
        return await self._transport.call(Call(partial(read, kind), "GET", path, query=query))

    async def _send(
        self, kind: type[Answer], method: str, path: str, body: object = None, **query: Parameter
    ) -> Answer:
        content = None if body is None else encode_body(body)
        return await self._transport.call(Call(partial(read, kind), method, path, body=content, query=query))

    async def _run(self, steps: Steps[Answer]) -> Answer:
        try:
            step = next(steps)
            while True:
                try:
                    answer = await self._take(step)
                except AnabranchError as error:
                    step = steps.throw(error)
                else:
                    step = steps.send(answer)
        except StopIteration as ended:
            result: Answer = ended.value
            return result

    async def _take(self, step: Step) -> Any:  # as the step's call reads it
        if isinstance(step, Pause):
            import asyncio  # an async caller has imported it already; the command line starts faster without it

            await asyncio.sleep(step.seconds)
            return None
        return await self._transport.call(step)

    async def _all(self, read_page: Callable[[str | None], Awaitable[Page[Item]]]) -> AsyncIterator[Item]:
        after = None
        while True:
            page = await read_page(after)
            for item in page:
                yield item
            if page.next is None:
                return
            after = page.next
