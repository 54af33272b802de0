"""Streams of events on a real server: exact, resumable, bounded, and cheap while nothing happens."""

import asyncio
import json
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import psycopg
import pytest
from fastapi import FastAPI

from anabranch.api.streaming import events as stream
from anabranch.api.streaming.job_watcher import WatchedJob
from anabranch.client.sse import Message, Messages
from anabranch.engine.model import JobState
from anabranch.engine.read_models import JobHead
from anabranch.settings import Settings
from tests.support.application import create_app
from tests.support.engine import EngineHarness, fan_out
from tests.support.proxy import Proxy
from tests.support.server import serve
from tests.support.waiting import PATIENCE_SECONDS, wait_until_async

pytestmark = pytest.mark.postgres

COMMITS = "select xact_commit + xact_rollback from pg_stat_database where datname = current_database()"


class Told(NamedTuple):
    """What a stream said: its events, the numbers of its progress, and how it ended."""

    events: list[Any]
    progress: list[Any]
    end: str | None


@pytest.fixture
def app(tmp_path: Path, database_url: str) -> FastAPI:
    return create_app(Settings(home=tmp_path, max_streams=250), database_url)


@pytest.fixture
async def api(app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    limits = httpx.Limits(max_connections=None)
    async with serve(app) as url, httpx.AsyncClient(base_url=url, timeout=PATIENCE_SECONDS, limits=limits) as client:
        yield client


@asynccontextmanager
async def streaming(
    api: httpx.AsyncClient, job_id: str, after: int = 0, last: int | None = None
) -> AsyncIterator[AsyncIterator[Message]]:
    """The messages of a stream while it is open; `last` is what a browser would send when it comes back."""
    headers = {} if last is None else {"Last-Event-ID": str(last)}
    async with api.stream("GET", f"/api/jobs/{job_id}/stream", params={"after": after}, headers=headers) as answer:
        assert answer.status_code == 200, await answer.aread()

        async def messages() -> AsyncIterator[Message]:
            lines = Messages()
            async for line in answer.aiter_lines():
                if message := lines.read(line):
                    yield message

        yield messages()


async def listen(
    api: httpx.AsyncClient, job_id: str, after: int = 0, *, last: int | None = None, most: int = 10**6
) -> Told:
    """What a stream says until it ends, or until it has told this many events."""
    told = Told([], [], None)
    async with streaming(api, job_id, after, last) as messages:
        async for message in messages:
            data = json.loads(message.data)
            if message.name == "end":
                told = told._replace(end=data["status"])
            elif message.name == "progress":
                told.progress.append(data)
            else:
                assert (message.id, message.name) == (str(data["seq"]), data["kind"])
                told.events.append(data)
            if len(told.events) >= most:
                break
    return told


async def listed(api: httpx.AsyncClient, job_id: str) -> list[Any]:
    return list((await api.get(f"/api/jobs/{job_id}/events", params={"limit": 1000})).json()["items"])


async def submit(engine: EngineHarness, width: int = 3, run: int = 0) -> str:
    return (await engine.submit(fan_out(width), run=run)).job_id


async def finish(engine: EngineHarness, width: int = 3) -> None:
    await engine.finish(await engine.claim(width))
    await engine.finish(await engine.claim(1))


async def until_watched(app: FastAPI, streams: int) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while app.state.job_watcher.streams != streams:
            await asyncio.sleep(0.01)


def write_events(url: str, job_id: str, count: int, size: int = 10) -> None:
    """Events in a job's history, as if much had happened to it."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "insert into app.events select j.id, j.last_event + i, now(), 'node.running', 'work',"
            " jsonb_build_object('x', repeat('x', %s)) from app.jobs j, generate_series(1, %s) i where job_id = %s",
            [size, count, job_id],
        )
        connection.execute("update app.jobs set last_event = last_event + %s where job_id = %s", [count, job_id])


async def test_e17_a_stream_tells_what_the_list_tells_and_ends(
    api: httpx.AsyncClient, app: FastAPI, engine: EngineHarness
) -> None:
    job_id = await submit(engine)
    listening = asyncio.create_task(listen(api, job_id))
    await until_watched(app, 1)
    await finish(engine)

    told = await listening

    assert told.events == await listed(api, job_id)
    assert told.end == "completed"


async def test_progress_counts_the_tasks_when_they_have_changed(api: httpx.AsyncClient, engine: EngineHarness) -> None:
    job_id = await submit(engine, 4)
    async with streaming(api, job_id) as messages:
        progress = (json.loads(message.data) async for message in messages if message.name == "progress")
        first = await anext(progress)
        await engine.finish(await engine.claim(3))
        second = await anext(progress)

    assert (first["status"], first["tasks"]["ready"], first["tasks"]["completed"]) == ("running", 4, 0)
    assert (second["tasks"]["ready"], second["tasks"]["completed"]) == (1, 3)


@pytest.mark.parametrize("by_header", [True, False])
async def test_a_stream_that_broke_anywhere_goes_on_without_gap_or_repeat(
    api: httpx.AsyncClient, engine: EngineHarness, by_header: bool
) -> None:
    job_id = await submit(engine)
    heard = (await listen(api, job_id, most=2)).events
    await finish(engine)
    while True:
        last = heard[-1]["seq"]
        rest = await listen(api, job_id, most=1, last=last) if by_header else await listen(api, job_id, last, most=1)
        heard += rest.events
        if rest.end:
            break

    assert heard == await listed(api, job_id)


async def test_the_header_stands_above_the_query(api: httpx.AsyncClient, engine: EngineHarness) -> None:
    """A browser that comes back asks for the address it was given first."""
    job_id = await submit(engine)
    await finish(engine)
    told = await listen(api, job_id, 1, last=3)
    assert told.events[0]["seq"] == 4


async def test_a_long_history_is_told_whole(api: httpx.AsyncClient, engine: EngineHarness, database_url: str) -> None:
    job_id = await submit(engine)
    write_events(database_url, job_id, 700)
    await finish(engine)
    told = [event["seq"] for event in (await listen(api, job_id)).events]
    assert len(told) > 700
    assert told == list(range(1, len(told) + 1))


async def test_a_stream_of_an_ended_job_ends_at_once(
    api: httpx.AsyncClient, engine: EngineHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = await submit(engine)
    await finish(engine)
    events = await listed(api, job_id)

    assert await listen(api, job_id) == (events, [], "completed")
    assert await listen(api, job_id, len(events)) == ([], [], "completed")
    assert await listen(api, job_id, len(events) + 5) == ([], [], "completed")


async def test_silence_is_broken_by_a_comment(
    api: httpx.AsyncClient, engine: EngineHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "HEARTBEAT_SECONDS", 0.1)
    job_id = await submit(engine)
    async with api.stream("GET", f"/api/jobs/{job_id}/stream") as answer:
        comments = (line async for line in answer.aiter_lines() if line.startswith(":"))
        assert [await anext(comments), await anext(comments)] == [": still here"] * 2


async def test_a_stream_is_neither_kept_nor_buffered(api: httpx.AsyncClient, engine: EngineHarness) -> None:
    async with api.stream("GET", f"/api/jobs/{await submit(engine)}/stream") as answer:
        assert answer.headers["content-type"] == "text/event-stream"
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-accel-buffering"] == "no"
        assert answer.headers["x-correlation-id"]


@pytest.mark.parametrize(
    ("path", "headers", "code"),
    [
        ("0" * 64, {}, "job.not_found"),
        ("x", {}, "job.not_found"),
        ("{job}?after=-1", {}, "request.invalid"),
        ("{job}?since=1", {}, "request.invalid"),
        ("{job}", {"Last-Event-ID": "x"}, "request.invalid"),
    ],
)
async def test_o6_what_is_wrong_is_told_before_the_stream_begins(
    api: httpx.AsyncClient, engine: EngineHarness, path: str, headers: dict[str, str], code: str
) -> None:
    job, _, query = path.format(job=await submit(engine)).partition("?")
    answer = await api.get(f"/api/jobs/{job}/stream?{query}", headers=headers)
    assert answer.json()["code"] == code


async def test_two_hundred_streams_hear_everything(api: httpx.AsyncClient, app: FastAPI, engine: EngineHarness) -> None:
    jobs = [await submit(engine, run=run) for run in range(10)]
    listening = [asyncio.create_task(listen(api, job)) for job in jobs * 20]
    await until_watched(app, 200)
    for _ in jobs:
        await finish(engine)

    told = await asyncio.gather(*listening)

    wanted = [(await listed(api, job), "completed") for job in jobs]
    assert [(one.events, one.end) for one in told] == wanted * 20
    await until_watched(app, 0)


async def test_e14_streams_cost_no_statement_each_while_nothing_happens(
    api: httpx.AsyncClient, app: FastAPI, engine: EngineHarness, database_url: str
) -> None:
    jobs = [await submit(engine, run=run) for run in range(200)]
    listening = [asyncio.create_task(listen(api, job)) for job in jobs]
    await until_watched(app, 200)
    with psycopg.connect(database_url, autocommit=True) as connection:
        await until_calm(connection, 4, 100)
    for one in listening:
        one.cancel()
    await asyncio.gather(*listening, return_exceptions=True)


async def until_calm(connection: psycopg.Connection[tuple[int]], seconds: float, most: int) -> None:
    """Wait for some seconds with few transactions: what happened before is counted late."""
    made = most
    async with asyncio.timeout(PATIENCE_SECONDS):
        while made >= most:
            (before,) = connection.execute(COMMITS).fetchone() or (0,)
            await asyncio.sleep(seconds)
            (after,) = connection.execute(COMMITS).fetchone() or (0,)
            made = after - before


async def test_more_streams_than_allowed_are_refused_until_one_ends(
    app: FastAPI, tmp_path: Path, database_url: str, engine: EngineHarness
) -> None:
    app = create_app(Settings(home=tmp_path, max_streams=1), database_url)
    async with serve(app) as url, httpx.AsyncClient(base_url=url, timeout=PATIENCE_SECONDS) as api:
        job_id = await submit(engine)
        async with streaming(api, job_id) as messages:
            await anext(messages)
            refused = await api.get(f"/api/jobs/{job_id}/stream")
        await until_watched(app, 0)
        assert (await listen(api, job_id, most=1)).events

    assert (refused.status_code, refused.json()["code"]) == (503, "stream.too_many")
    assert refused.headers["retry-after"] == "1"


async def test_a_client_that_leaves_is_forgotten_and_nothing_is_queried_any_more(
    api: httpx.AsyncClient, app: FastAPI, engine: EngineHarness
) -> None:
    job_id = await submit(engine)
    for _ in range(3):
        await listen(api, job_id, most=1)
    await until_watched(app, 0)
    async with asyncio.timeout(PATIENCE_SECONDS):
        await app.state.job_watcher._looking


async def test_a_reader_that_takes_nothing_is_read_nothing_for(
    api: httpx.AsyncClient,
    app: FastAPI,
    engine: EngineHarness,
    database_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    job_id = await submit(engine)
    write_events(database_url, job_id, 5_000, size=5_000)
    pages = 0
    read = app.state.gateway.reads.events

    async def count(*given: Any, **more: Any) -> Any:
        nonlocal pages
        pages += 1
        return await read(*given, **more)

    monkeypatch.setattr(app.state.gateway.reads, "events", count)
    with socket.socket() as reader:
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        reader.connect((api.base_url.host, api.base_url.port))
        reader.sendall(f"GET /api/jobs/{job_id}/stream HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        await wait_until_async(lambda: pages)
        await asyncio.sleep(1)
        assert pages < 20
        monkeypatch.setattr(stream, "SEND_TIMEOUT_SECONDS", 0.1)  # it is let go, sooner than after a minute
    await until_watched(app, 0)


async def test_a_stream_outlasts_the_database(tmp_path: Path, database_url: str, engine: EngineHarness) -> None:
    async with Proxy(database_url) as door:
        app = create_app(Settings(home=tmp_path), door.url)
        async with serve(app) as url, httpx.AsyncClient(base_url=url, timeout=PATIENCE_SECONDS) as api:
            job_id = await submit(engine)
            listening = asyncio.create_task(listen(api, job_id))
            await until_watched(app, 1)
            for count in (3, 1):
                door.cut()
                await engine.finish(await engine.claim(count))
            told = await listening
            assert (told.events, told.end) == (await listed(api, job_id), "completed")


async def test_a_server_that_stops_ends_its_streams_at_once(app: FastAPI, engine: EngineHarness) -> None:
    async with httpx.AsyncClient() as api:
        async with serve(app) as url:
            api.base_url = httpx.URL(url)
            job_id = await submit(engine)
            listening = [asyncio.create_task(listen(api, job_id)) for _ in range(5)]
            await until_watched(app, 5)
            began = time.monotonic()
        assert time.monotonic() - began < PATIENCE_SECONDS / 2  # and not when the server's own patience ends
        assert [(await one).end for one in listening] == [None] * 5


async def test_streams_are_described(api: httpx.AsyncClient) -> None:
    described = (await api.get("/openapi.json")).json()["paths"]["/api/jobs/{job_id}/stream"]["get"]
    assert described["responses"]["200"]["content"].keys() == {"text/event-stream"}
    assert "Last-Event-ID" in json.dumps(described["parameters"])


@pytest.mark.parametrize("ticks", range(4))
async def test_a_stream_that_ends_at_the_moment_of_a_change_ends(ticks: int) -> None:
    watch = WatchedJob(JobHead(1, JobState.RUNNING, 1))
    waiting = asyncio.create_task(watch.change(60))
    await asyncio.sleep(0)
    watch.notify()
    for _ in range(ticks):
        await asyncio.sleep(0)
    cancelled = waiting.cancel()

    await asyncio.wait({waiting})

    assert waiting.cancelled() == cancelled
