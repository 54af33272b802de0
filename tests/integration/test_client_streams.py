"""Both clients on a real server: the same methods, the same answers, and streams that outlast every break."""

import asyncio
import inspect
import random
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest
from fastapi import FastAPI

from anabranch.client import Admin, AsyncAdmin, AsyncClient, Client, Event, JobProgress
from anabranch.errors import NotFound, Unavailable
from anabranch.settings import Settings
from tests.support.application import create_app
from tests.support.crew import Crew, Start
from tests.support.engine import EngineHarness, fan_out
from tests.support.server import free_port, serve
from tests.support.waiting import wait_until_async

pytestmark = pytest.mark.postgres

Listen = Callable[..., Any]  # the events that a client hears of a job behind a URL


@pytest.fixture
def app(tmp_path: Path, database_url: str) -> FastAPI:
    return create_app(Settings(home=tmp_path), database_url)


Heard = list[Event | JobProgress]


async def listen(url: str, job_id: str, after: int, heard: Heard | None = None) -> Heard:
    heard = [] if heard is None else heard  # which a test can watch
    with Client(url) as client:
        await asyncio.to_thread(heard.extend, client.stream(job_id, after=after))
    return heard


async def listen_async(url: str, job_id: str, after: int, heard: Heard | None = None) -> Heard:
    heard = [] if heard is None else heard
    async with AsyncClient(url) as client:
        async for one in client.stream(job_id, after=after):
            heard.append(one)  # one by one
    return heard


both = pytest.mark.parametrize("listen", [listen, listen_async])


@asynccontextmanager
async def lossy(url: str, seed: int = 1) -> AsyncIterator[str]:
    """A way to the API that breaks after some bytes, each time after another number of them."""
    chance = random.Random(seed)
    host, port = url.removeprefix("http://").split(":")

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, most: int) -> None:
        with suppress(OSError):
            while most > 0 and (data := await reader.read(most)):
                writer.write(data)
                await writer.drain()
                most -= len(data)
        writer.transport.abort()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        behind, before = await asyncio.open_connection(host, int(port))
        back = asyncio.create_task(carry(behind, writer, chance.randrange(300, 1500)))
        await carry(reader, before, 10**9)
        await back

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


def events_of(told: Heard) -> list[Any]:
    return [one.raw for one in told if isinstance(one, Event)]


async def listed(url: str, job_id: str) -> list[Any]:
    async with AsyncClient(url) as client:
        return [event.raw async for event in client.all_events(job_id)]


@both
async def test_a_stream_that_breaks_again_and_again_has_no_gap_and_no_repeat(
    app: FastAPI, engine: EngineHarness, listen: Listen
) -> None:
    async with serve(app) as url, lossy(url) as road:
        job_id = (await engine.submit(fan_out(3))).job_id
        listening = asyncio.create_task(listen(road, job_id, 0))
        for count in (3, 1):
            await asyncio.sleep(0.3)
            await engine.finish(await engine.claim(count))
        told = await listening

        assert events_of(told) == await listed(url, job_id)
        assert events_of(await listen(road, job_id, 3)) == events_of(told)[3:]


@both
async def test_what_some_take_for_the_end_of_a_line_is_none(
    app: FastAPI, engine: EngineHarness, database_url: str, listen: Listen
) -> None:
    job_id = (await engine.submit(fan_out(0))).job_id
    await engine.finish(await engine.claim(1))
    with psycopg.connect(database_url) as connection:
        odd = '{"text": "a\u2028b\u0085c\\r\\n\\nd: e"}'
        connection.execute("update app.events set data = %s where seq = 2", [odd])
    async with serve(app) as url:
        assert events_of(await listen(url, job_id, 0)) == await listed(url, job_id)


@both
async def test_what_is_not_there_is_told(app: FastAPI, listen: Listen) -> None:
    async with serve(app) as url:
        with pytest.raises(NotFound):
            await listen(url, "0" * 64, 0)


@both
async def test_an_api_that_stays_away_is_given_up(listen: Listen, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anabranch.client.job_stream.MAX_OUTAGE_SECONDS", 0.3)
    with pytest.raises(Unavailable):
        await listen(f"http://127.0.0.1:{free_port()}", "abc", 0)


@both
async def test_progress_comes_between(app: FastAPI, engine: EngineHarness, listen: Listen) -> None:
    async with serve(app) as url:
        job_id = (await engine.submit(fan_out(3))).job_id
        heard: Heard = []
        listening = asyncio.create_task(listen(url, job_id, 0, heard))
        await wait_until_async(lambda: any(isinstance(one, JobProgress) for one in heard))
        await engine.finish(await engine.claim(3))
        await engine.finish(await engine.claim(1))
        (first, *_) = [one for one in await listening if isinstance(one, JobProgress)]
    assert (first.status, first.tasks.ready) == ("running", 3)


@both
async def test_a_stream_outlasts_the_api_and_does_not_hold_it_up(
    tmp_path: Path, engine: EngineHarness, database_url: str, listen: Listen
) -> None:
    port = free_port()
    crew = Crew(Start(tmp_path, tmp_path, database_url))
    try:
        (api,) = await crew.start_ready("api", port=port)
        job_id = (await engine.submit(fan_out(3))).job_id
        listening = asyncio.create_task(listen(f"http://127.0.0.1:{port}", job_id, 0))
        await wait_until_async(lambda: "/stream" in api.log.read_text() or not listening.done())
        await asyncio.sleep(0.5)
        api.send(signal.SIGTERM)
        await api.ended()
        await engine.finish(await engine.claim(3))
        await crew.start_ready("api", port=port)
        await engine.finish(await engine.claim(1))

        assert events_of(await listening) == await listed(f"http://127.0.0.1:{port}", job_id)
    finally:
        crew.close()


@pytest.mark.parametrize(("plain", "awaited"), [(Client, AsyncClient), (Admin, AsyncAdmin)])
def test_both_clients_have_the_same_methods(plain: type, awaited: type) -> None:
    def methods(client: type) -> dict[str, Any]:
        found = {name: getattr(client, name) for name in dir(client) if not name.startswith("_")}
        return {name: value.fget if isinstance(value, property) else value for name, value in found.items()}

    def shape(client: type) -> dict[str, Any]:
        return {
            name: (method.__doc__, list(inspect.signature(method).parameters.values()))
            for name, method in methods(client).items()
        }

    assert shape(plain) == shape(awaited)
    assert all(words for words, _ in shape(plain).values())
    assert str(inspect.signature(plain)) == str(inspect.signature(awaited)).replace("Async", "")


async def test_the_async_client_submits_waits_and_reads(app: FastAPI, engine: EngineHarness) -> None:
    async with serve(app) as url, AsyncClient(url) as client:
        submitted = await client.submit("echo", {"message": "x"}, correlation_id="mine")
        waiting = asyncio.create_task(client.wait(submitted.job_id, 20))
        while not (claims := await engine.claim(1)):
            await asyncio.sleep(0.02)
        await engine.finish(claims, {"message": "x"})
        job = await waiting

        assert (job.succeeded, job.correlation_id) == (True, "mine")
        assert [task.status async for task in client.all_tasks(job.job_id)] == ["completed"] * job.tasks.total
        assert [event.kind async for event in client.all_events(job.job_id)][-1] == "job.completed"
        assert [log async for log in client.all_logs(job.job_id)] == []
        assert (await client.jobs(limit=1)).items[0].job_id == job.job_id
        assert (await client.graph(job.job_id)).nodes
        assert (await client.workflow("echo")).hash in [flow.hash for flow in await client.workflows()]
        assert sorted(worker.kind for worker in await client.workers()) == ["api", "worker"]
        assert (await client.health()).status == "down"
        assert await client.ready()
        assert (await client.submit("echo", {"message": "x"})).created is False
        with pytest.raises(NotFound):
            await client.job("0" * 64)
