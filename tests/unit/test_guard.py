"""A request that waits for a database which hangs is answered; one that only takes its time is left alone."""

import asyncio
import json

import pytest
from starlette.types import Message, Receive, Scope, Send

from anabranch.api.security import hang_guard as guard
from anabranch.api.security.authentication import Authenticator
from anabranch.api.security.hang_guard import HangGuard
from anabranch.api.security.limits import Limits
from anabranch.api.security.outer_middleware import Admission
from anabranch.api.security.public_address import AllowedHosts, PublicAddress
from anabranch.errors import Unavailable
from anabranch.settings import Settings


class Request:
    """One request to an application that answers only when it is let."""

    def __init__(self, method: str = "GET", **headers: str) -> None:
        self.may_answer, self.looks = asyncio.Event(), 0
        self.answered: list[tuple[int, object]] = []
        self._status = 0
        named = {"host": "127.0.0.1", **{name.replace("_", "-"): value for name, value in headers.items()}}
        self._scope: Scope = {
            "type": "http", "method": method, "path": "/api/jobs", "query_string": b"", "server": ("127.0.0.1", 80),
            "headers": [(name.encode(), value.encode()) for name, value in named.items()],
        }  # fmt: skip

    def begin(self, *, hangs: bool) -> "asyncio.Task[None]":
        settings = Settings()
        limits = Limits(settings)
        edge = Admission(
            self._serve,
            authenticator=Authenticator(lambda: pytest.fail("no key is asked for"), limits),
            keys=False,
            anonymous_read=False,
            guard=HangGuard(lambda: self._look(hangs)),
            hosts=AllowedHosts.of(settings),
            limits=limits,
        )
        return asyncio.create_task(PublicAddress(edge, settings=settings)(self._scope, self._receive, self._send))

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.may_answer.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"{}"})

    async def _look(self, hangs: bool) -> None:
        self.looks += 1
        if self.looks > 20:
            self.may_answer.set()
        if hangs:
            raise Unavailable("database.unreachable", "the database did not answer in 1.2 s")

    async def _receive(self) -> Message:
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        self._status = message.get("status", self._status)
        if message["type"] == "http.response.body":
            self.answered.append((self._status, json.loads(message["body"])))
            self.may_answer.set()


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "FIRST_PING_SECONDS", 0)
    monkeypatch.setattr(guard, "PING_INTERVAL_SECONDS", 0)


async def test_o1_a_request_that_waits_for_a_database_that_hangs_is_told_so_once() -> None:
    request = Request()
    await request.begin(hangs=True)
    ((status, problem),) = request.answered
    assert isinstance(problem, dict)
    assert (status, problem["code"], problem["detail"]) == (503, "database.silent", "the database does not answer")
    assert "anabranch doctor" in problem["remedy"]
    assert request.looks == guard.MAX_FAILED_PINGS


@pytest.mark.parametrize("hangs", [False, True])
async def test_a_request_that_takes_its_time_gets_its_own_answer(hangs: bool) -> None:
    """One that is slow while the database answers, and one whose body is still on its way."""
    request = Request("POST", content_length="9000000000") if hangs else Request()
    running = request.begin(hangs=hangs)
    for _ in range(100):
        await asyncio.sleep(0)
    request.may_answer.set()
    await running
    assert request.answered == [(200, {})]
