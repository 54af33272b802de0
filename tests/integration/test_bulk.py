"""Many jobs in one request: a line each, streamed, and none hurts another."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
import uvicorn
from fastapi import FastAPI

from anabranch.canonical import Json
from anabranch.client import BulkAnswer, Client, operations
from anabranch.errors import InputError, NotFound, Unavailable
from anabranch.settings import Settings
from tests.support.application import create_app
from tests.support.proxy import Lose, Proxy
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.postgres
FLOW = """
workflow_id: flow
inputs: {n: {type: integer, min: 0, default: 0}, text: {type: string, default: ""}}
nodes: {one: {handler: echo}}
"""
NDJSON = {"Content-Type": "application/x-ndjson"}
Raw = dict[str, Any]  # a line of the answer


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    (tmp_path / "flow.yaml").write_text(FLOW)
    return Settings(home=tmp_path / "home", plugins=(str(tmp_path),), max_body_bytes=2_000, max_bulk_bytes=50_000)


@asynccontextmanager
async def serving(settings: Settings, url: str) -> AsyncIterator[httpx.AsyncClient]:
    app = create_app(settings, url)
    client = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost")
    async with app.router.lifespan_context(app), client:
        await app.state.gateway.ready()
        yield client


@pytest.fixture
async def api(settings: Settings, database_url: str) -> AsyncIterator[httpx.AsyncClient]:
    async with serving(settings, database_url) as client:
        yield client


@asynccontextmanager
async def listening(app: FastAPI) -> AsyncIterator[int]:
    """The port of a real server."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = uvicorn.Server(uvicorn.Config(app, log_config=None))
        running = asyncio.create_task(server.serve([listener]))
        while not server.started:
            await asyncio.sleep(0.01)
        await app.state.gateway.ready()
        try:
            yield listener.getsockname()[1]
        finally:
            server.should_exit = True
            await running


def line(n: int, **more: object) -> bytes:
    return json.dumps({"workflow": "flow", "parameters": {"n": n}, **more}).encode() + b"\n"


async def post(api: httpx.AsyncClient, body: bytes, **headers: str) -> list[Raw]:
    answer = await api.post("/api/jobs/bulk", content=body, headers={**NDJSON, **headers})
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/x-ndjson"
    return [json.loads(told) for told in answer.content.splitlines()]


def count_jobs(url: str) -> int:
    with psycopg.connect(url) as connection:
        row = connection.execute("select count(*) from app.jobs").fetchone()
    assert row
    return int(row[0])


async def test_each_line_is_answered_in_order(api: httpx.AsyncClient, database_url: str) -> None:
    answers = await post(api, b"".join(line(n) for n in range(250)))
    again = await post(api, b"".join(line(n) for n in range(250)))

    assert [answer["line"] for answer in answers] == list(range(1, 251))
    assert {answer["status"] for answer in answers} == {202}
    assert [(one["status"], one["job_id"]) for one in again] == [(200, one["job_id"]) for one in answers]
    assert count_jobs(database_url) == 250
    shown = (await api.get(f"/api/jobs/{answers[249]['job_id']}")).json()
    assert (shown["parameters"]["n"], shown["status"]) == (249, "running")


async def test_a_line_has_labels(api: httpx.AsyncClient) -> None:
    answers = await post(api, line(1, labels={"team": "maps"}) + line(2) + line(3, labels={"no name": "x"}))

    assert [answer["status"] for answer in answers] == [202, 202, 422]
    found = (await api.get("/api/jobs", params={"label": "team=maps"})).json()["items"]
    assert [(job["job_id"], job["labels"]) for job in found] == [(answers[0]["job_id"], {"team": "maps"})]


@pytest.mark.parametrize(
    ("bad", "status", "code"),
    [
        (b"{", 422, "request.json"),
        (b"[1]", 422, "request.json"),
        (b'{"workflow": "flow", "parameters": {"n": NaN}}', 422, "request.json"),
        (b'{"workflow": "flow", "parameters": {"text": "\\u0000"}}', 422, "request.json"),
        (b'{"workflow": "flow", "parameters": ' + b'{"a":' * 70 + b"1" + b"}" * 71, 422, "request.json"),
        (b'{"workflow": "flow", "workflow": "flow"}', 422, "request.json"),
        (b"\xff", 422, "request.json"),
        (b'{"parameters": {}}', 422, "request.invalid"),
        (line(1, more=1).strip(), 422, "request.invalid"),
        (line(-1).strip(), 422, "job.parameters"),
        (line(1, workflow="none").strip(), 404, "workflow.not_found"),
        (b'{"workflow": "flow", "parameters": {"text": "' + b"x" * 2_000 + b'"}}', 413, "request.too_large"),
    ],
    ids=["torn", "array", "nan", "nul", "deep", "twins", "bytes", "nameless", "unknown key", "value", "name", "long"],
)
async def test_e10_a_bad_line_hurts_no_other(api: httpx.AsyncClient, bad: bytes, status: int, code: str) -> None:
    before, told, after = await post(api, line(1) + bad + b"\n" + line(2))
    assert (before["status"], after["status"]) == (202, 202)
    assert (told["line"], told["status"], told["code"]) == (2, status, code)
    assert {"detail", "retryable", "correlation_id", "type"} <= told.keys()


async def test_ts1_others_are_answered_between_lines_that_are_all_wrong(api: httpx.AsyncClient) -> None:
    many = asyncio.create_task(api.post("/api/jobs/bulk", content=b"x\n" * 5_000, headers=NDJSON))
    ended_first = await asyncio.wait(
        [many, asyncio.create_task(api.get("/livez"))], return_when=asyncio.FIRST_COMPLETED
    )
    assert many not in ended_first[0]
    assert len((await many).text.splitlines()) == 1_001


async def test_ts1_lines_that_are_mostly_wrong_are_answered_up_to_a_thousand(api: httpx.AsyncClient) -> None:
    *described, last = await post(api, line(1) + b"x\n" * 20_000)
    assert [answer["line"] for answer in described] == list(range(1, 1_101))
    assert (last["line"], last["status"], last["code"]) == (1_101, 422, "bulk.refused")
    assert last["detail"] == "1,099 lines were refused and 1 accepted; no more were read"


async def test_lines_of_which_half_are_right_are_all_answered(settings: Settings, database_url: str) -> None:
    async with serving(settings.model_copy(update={"max_bulk_bytes": 1_000_000}), database_url) as api:
        answers = await post(api, (line(1) + b"x\n") * 1_200)
    assert [answer["status"] for answer in answers[1:]] == [422, 200] * 1_199 + [422]


async def test_blank_lines_are_counted_and_not_answered(api: httpx.AsyncClient) -> None:
    answers = await post(api, b"\n" + line(1) + b"\r\n  \n" + line(2).strip())
    assert [answer["line"] for answer in answers] == [2, 5]
    assert await post(api, b"") == []


async def test_pieces_that_end_anywhere_make_the_same_lines(api: httpx.AsyncClient) -> None:
    body = line(1) + b'{"text": "' + b"y" * 5_000 + b'"}\n' + line(2)

    async def pieces() -> AsyncIterator[bytes]:
        for place in range(0, len(body), 7):
            yield body[place : place + 7]

    answer = await api.post("/api/jobs/bulk", content=pieces(), headers=NDJSON)
    assert [json.loads(told)["status"] for told in answer.content.splitlines()] == [202, 413, 202]


async def test_a_body_over_the_limit_ends_with_the_line_that_says_so(api: httpx.AsyncClient, database_url: str) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for n in range(2_000):
            yield line(n)

    answer = await api.post("/api/jobs/bulk", content=pieces(), headers=NDJSON)
    *taken, last = (json.loads(told) for told in answer.content.splitlines())
    assert (last["status"], last["code"], last["line"]) == (413, "request.too_large", len(taken) + 1)
    assert count_jobs(database_url) == len(taken) > 500


async def test_a_body_that_is_declared_too_large_or_of_another_type_is_refused(api: httpx.AsyncClient) -> None:
    large = await api.post("/api/jobs/bulk", content=b" " * 50_001, headers=NDJSON)
    other = await api.post("/api/jobs/bulk", json={})
    assert [(answer.status_code, answer.json()["code"]) for answer in (large, other)] == [
        (413, "request.too_large"),
        (415, "request.media_type"),
    ]


async def test_e15_sent_again_under_one_key_each_line_has_its_first_answer(
    api: httpx.AsyncClient, database_url: str
) -> None:
    lines = [line(1, rerun=True), line(1, rerun=True), line(2)]
    cut = await post(api, b"".join(lines[:2]), **{"Idempotency-Key": "k"})
    whole = await post(api, b"".join(lines), **{"Idempotency-Key": "k"})
    changed = await post(api, lines[0] + line(3) + lines[2], **{"Idempotency-Key": "k"})

    assert whole[:2] == cut
    assert count_jobs(database_url) == 3
    assert [answer["status"] for answer in changed] == [202, 409, 202]


async def test_a_lines_own_correlation_id_is_kept(api: httpx.AsyncClient) -> None:
    own, shared = await post(api, line(1, correlation_id="mine") + line(2), **{"X-Correlation-ID": "theirs"})
    jobs = [(await api.get(f"/api/jobs/{answer['job_id']}")).json() for answer in (own, shared)]
    assert [job["correlation_id"] for job in jobs] == ["mine", "theirs"]


async def test_a_line_is_answered_before_the_next_is_sent(settings: Settings, database_url: str) -> None:
    async with listening(create_app(settings, database_url)) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST /api/jobs/bulk HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n")
        writer.write(b"Content-Type: application/x-ndjson\r\n\r\n")
        async with asyncio.timeout(PATIENCE_SECONDS):
            for n in range(3):
                text = line(n)
                writer.write(f"{len(text):x}\r\n".encode() + text + b"\r\n")
                while b'"status": 202' not in await reader.readline():
                    pass
        writer.close()


async def test_e2_a_connection_that_breaks_leaves_whole_batches(settings: Settings, database_url: str) -> None:
    async with listening(create_app(settings, database_url)) as port:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        body = b"".join(line(n) for n in range(200)) + line(200)[:20]
        head = f"POST /api/jobs/bulk HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body) + 100}\r\n"
        writer.write(f"{head}Content-Type: application/x-ndjson\r\n\r\n".encode() + body)
        await writer.drain()
        async with asyncio.timeout(PATIENCE_SECONDS):
            while count_jobs(database_url) < 200:
                await asyncio.sleep(0.02)
        writer.transport.abort()
    assert count_jobs(database_url) == 200
    with psycopg.connect(database_url) as connection:
        unborn = connection.execute(
            "select count(*) from app.jobs j where not exists (select from app.lanes where job = j.id)"
        )
        assert unborn.fetchone() == (0,)


async def test_after_a_line_that_cannot_be_served_no_more_are_read(settings: Settings, database_url: str) -> None:
    async with Proxy(database_url) as proxy, serving(settings, proxy.url) as api:
        proxy.lose("submit_batch", Lose.REQUEST)
        answers = await post(api, b"".join(line(n) for n in range(150)))
        assert {(answer["status"], answer["retryable"]) for answer in answers} == {(503, True)}
        assert len(answers) == 100
        assert count_jobs(database_url) == 0


async def test_e15_the_client_submits_many_and_repeats_what_was_lost(settings: Settings, database_url: str) -> None:
    def submit(port: int) -> list[tuple[int, str | None]]:
        names = ["flow" if n % 700 else "none" for n in range(1_201)]
        bodies: list[dict[str, Json]] = [
            {"workflow": name, "parameters": {"n": n}, "rerun": True} for n, name in enumerate(names)
        ]
        with Client(f"http://127.0.0.1:{port}") as client:
            answers = list(client.submit_many(bodies))
        assert all(isinstance(answer.error, NotFound) for answer in answers if answer.job_id is None)
        return [(answer.line, answer.job_id) for answer in answers]

    large = settings.model_copy(update={"max_bulk_bytes": 10_000_000})
    async with Proxy(database_url) as proxy, listening(create_app(large, proxy.url)) as port:
        trap = proxy.lose("submit_batch", Lose.REPLY, times=2)
        answers = await asyncio.to_thread(submit, port)
        assert trap.sprung.is_set()
    assert [number for number, _ in answers] == list(range(1, 1_202))
    assert [number for number, job in answers if job is None] == [1, 701]
    assert count_jobs(database_url) == 1_199


async def test_what_was_answered_is_yielded_before_an_outage_is_raised(
    settings: Settings, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def submit(port: int) -> list[BulkAnswer]:
        bodies: list[dict[str, Json]] = [{"workflow": "flow"}, {"workflow": 7}, {"workflow": "flow"}]
        found: list[BulkAnswer] = []
        with Client(f"http://127.0.0.1:{port}") as client, pytest.raises(Unavailable):
            found.extend(client.submit_many(bodies))
        return found

    monkeypatch.setattr(operations, "MAX_SUBMIT_OUTAGE_SECONDS", 0.1)
    async with Proxy(database_url) as proxy, listening(create_app(settings, proxy.url)) as port:
        proxy.lose("submit_batch", Lose.REQUEST, times=1_000)
        (answer,) = await asyncio.to_thread(submit, port)
    assert answer.line == 2
    assert isinstance(answer.error, InputError)
