"""Few requests run at once, none keeps its slot longer than it computes, and no caller waits forever (R6)."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

import pytest
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from anabranch.errors import Unavailable
from anabranch.serving.concurrency import ConcurrencyLimit
from tests.support.waiting import PATIENCE_SECONDS

SCOPE = {"type": "http", "method": "GET", "path": "/", "headers": [], "query_string": b""}


class Drawing:
    """An application that responds when the test lets it, and counts its requests."""

    def __init__(self) -> None:
        self.let = asyncio.Event()
        self.begun = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.begun += 1
        await self.let.wait()
        await Response(b"drawn")(scope, receive, send)


async def wait_for(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not condition():
            await asyncio.sleep(0)


async def stay() -> Message:
    return {"type": "http.request", "body": b"", "more_body": False}


async def leave() -> Message:
    return {"type": "http.disconnect"}


async def ask(limit: ConcurrencyLimit, receive: Receive = stay) -> list[Message]:
    answer: list[Message] = []

    async def send(message: Message) -> None:
        answer.append(message)

    await limit(dict(SCOPE), receive, send)
    return answer


async def test_r6_after_the_deadline_the_caller_gets_an_error_and_the_slot_is_kept_until_the_work_ends() -> None:
    drawing = Drawing()
    limit = ConcurrencyLimit(drawing, 1, deadline=0.02)
    with pytest.raises(Unavailable, match=r"within 0.02 seconds") as refused:
        await ask(limit)
    assert refused.value.code == "raster.slow"
    with pytest.raises(Unavailable, match=r"all rasters that are being drawn") as refused:
        await ask(limit)
    assert refused.value.code == "raster.slow"
    assert drawing.begun == 1
    drawing.let.set()
    await wait_for(lambda: not limit._late)
    assert [message["type"] for message in await ask(limit)] == ["http.response.start", "http.response.body"]


async def test_r6_a_slot_that_is_not_late_is_waited_for() -> None:
    drawing = Drawing()
    limit = ConcurrencyLimit(drawing, 2, deadline=0.02)
    with pytest.raises(Unavailable):
        await ask(limit)
    with pytest.raises(Unavailable, match="within"):
        await ask(limit)
    assert drawing.begun == 2


async def test_r6_a_caller_who_leaves_gives_the_turn_back_when_the_work_ends() -> None:
    drawing = Drawing()
    limit = ConcurrencyLimit(drawing, 1)
    leaving = asyncio.create_task(ask(limit))
    await wait_for(lambda: drawing.begun == 1)
    leaving.cancel()
    with suppress(asyncio.CancelledError):
        await leaving
    waiting = asyncio.create_task(ask(limit))
    drawing.let.set()
    assert await waiting
    assert drawing.begun == 2


async def test_r6_nothing_is_drawn_for_a_caller_who_left_while_waiting() -> None:
    drawing = Drawing()
    assert await ask(ConcurrencyLimit(drawing, 1), leave) == []
    assert drawing.begun == 0


async def test_r6_a_caller_who_takes_nothing_keeps_no_turn() -> None:
    drawing = Drawing()
    drawing.let.set()
    limit = ConcurrencyLimit(drawing, 1)
    stuck = asyncio.Event()

    async def never(_: Message) -> None:
        stuck.set()
        await asyncio.Event().wait()

    slow = asyncio.create_task(limit(dict(SCOPE), stay, never))
    await stuck.wait()
    assert await ask(limit)
    slow.cancel()


async def test_errors_of_the_application_reach_the_caller_and_end_the_turn() -> None:
    async def fail(*_: object) -> None:
        raise TimeoutError("its own")

    limit = ConcurrencyLimit(fail, 1)
    for _ in range(2):
        with pytest.raises(TimeoutError, match="its own"):
            await ask(limit)
