"""Connections, rates and quotas are bounded (TS8, TS9, TS10); by APIs in processes of their own."""

import asyncio
import json
import os
import re
import socket
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from psycopg import Connection
from psycopg.rows import TupleRow

from anabranch.access import Credential, KeyRequest, Scope
from anabranch.adapters.postgres.store.keys import open_keys
from anabranch.embedded.cluster import Cluster
from anabranch.testing.postgres import Databases
from tests.support.serving import Served, serve_api
from tests.support.warm import run_warm

pytestmark = pytest.mark.postgres

PATIENCE_SECONDS = 60
SLOW = {"header_seconds": "1", "body_seconds": "1"}


@contextmanager
def connect(api: Served) -> Iterator[socket.socket]:
    port = api.client.base_url.port
    with closing(socket.create_connection(("127.0.0.1", int(port or 0)), timeout=PATIENCE_SECONDS)) as connection:
        yield connection


def read_to_end(connection: socket.socket) -> bytes:
    """All that is answered until the server closes; a timeout where it never does."""
    got = bytearray()
    while piece := connection.recv(65536):
        got += piece
    return bytes(got)


def told(answer: bytes) -> dict[str, Any]:  # a problem document
    document: dict[str, Any] = json.loads(answer.partition(b"\r\n\r\n")[2])
    return document


def send_on(connection: socket.socket, piece: bytes) -> bytes:
    """Send a piece again and again, ever before the time is over, until the server closes; what it has answered."""
    connection.settimeout(0.2)
    got = bytearray()
    for _ in range(PATIENCE_SECONDS * 5):
        try:
            connection.sendall(piece)
            part = connection.recv(65536)
        except TimeoutError:
            continue
        except ConnectionError:
            return bytes(got)
        if not part:
            return bytes(got)
        got += part
    raise TimeoutError("the connection was never closed")


async def make_key(url: str, platform: str = "acme", scope: Scope = Scope.SUBMIT) -> dict[str, str]:
    async with open_keys(url) as keys:
        _, credential = await keys.make(KeyRequest("ci", scope, platform), "a test")
        return {"Authorization": f"Bearer {credential.text}"}


def wrong_key() -> dict[str, str]:
    return {"Authorization": f"Bearer {Credential.make().text}"}


def problem(answer: httpx.Response, status: int, code: str) -> dict[str, Any]:  # a problem document
    assert answer.status_code == status, answer.text
    document: dict[str, Any] = answer.json()
    assert document["code"] == code, document
    return document


def throttled(answer: httpx.Response, code: str) -> None:
    assert problem(answer, 429, code)["retryable"] is True
    assert int(answer.headers["Retry-After"]) >= 1


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("slow") / "home"


@pytest.fixture(scope="module")
def slow(postgres: Cluster, postgres_admin: Connection[TupleRow], home: Path) -> Iterator[Served]:
    """An API that gives heads and bodies a second; tests send it what never ends."""
    with serve_api(Databases(postgres, postgres_admin).make(), home, **SLOW) as api:
        yield api


# ---- connections


def test_ts8_half_a_head_is_closed_in_time(slow: Served) -> None:
    with connect(slow) as connection:
        connection.sendall(b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\nX-A: ")
        answer = read_to_end(connection)
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert told(answer)["code"] == "request.timeout"


def test_ts8_a_head_that_drips_is_closed_in_time(slow: Served) -> None:
    with connect(slow) as connection:
        connection.sendall(b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\n")
        send_on(connection, b"X-A: 1\r\n")


def test_ts8_a_connection_on_which_nothing_is_sent_is_closed_in_time(slow: Served) -> None:
    with connect(slow) as connection:
        assert read_to_end(connection) == b""


def test_ts8_half_of_a_second_head_is_closed_in_time(slow: Served) -> None:
    with connect(slow) as connection:
        connection.sendall(b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\nGET /li")
        answer = send_on(connection, b"v")
    assert answer.startswith(b"HTTP/1.1 200 ")


def test_ts8_half_a_body_is_closed_in_time(slow: Served) -> None:
    with connect(slow) as connection:
        head = "POST /api/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 100\r\n"
        connection.sendall(f"{head}\r\n{{".encode())
        answer = read_to_end(connection)
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert told(answer)["code"] == "request.timeout"
    assert "request.crashed" not in slow.log.read_text()


def test_ts8_a_body_that_drips_is_closed_in_time(slow: Served, home: Path) -> None:
    with connect(slow) as connection:
        head = (
            "POST /api/uploads?name=drips.bin HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/octet-stream\r\n"
        )
        connection.sendall(f"{head}Content-Length: 1000000\r\n\r\n".encode())
        send_on(connection, b"x")
    assert "request.abandoned" in slow.log.read_text()
    assert list((home / "bronze").rglob("drips.bin")) == []


def test_ts8_a_body_that_falls_silent_after_much_is_closed_in_time(slow: Served) -> None:
    with connect(slow) as connection:
        head = "POST /api/uploads?name=a.bin HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/octet-stream\r\n"
        connection.sendall(f"{head}Content-Length: 9000000\r\n\r\n".encode() + bytes(1_000_000))
        read_to_end(connection)
    assert "connection.timed_out" in slow.log.read_text()


def test_ts8_a_body_that_comes_fast_enough_may_take_long(database_url: str, tmp_path: Path) -> None:
    limits = {**SLOW, "body_bytes_per_second": "1"}  # a second for each byte
    with serve_api(database_url, tmp_path / "home", **limits) as api, connect(api) as connection:
        head = "POST /api/uploads?name=a.bin HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/octet-stream\r\n"
        connection.sendall(f"{head}Content-Length: 10\r\nConnection: close\r\n\r\n".encode())
        for _ in range(10):
            connection.sendall(b"x")
            time.sleep(0.25)
        assert read_to_end(connection).startswith(b"HTTP/1.1 201 ")


def test_ts8_an_answer_that_is_not_read_is_given_up(slow: Served) -> None:
    with connect(slow) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        request = b"GET /ui/vendor/maplibre-gl.mjs HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
        for _ in range(PATIENCE_SECONDS * 5):
            try:
                connection.settimeout(0.2)
                connection.sendall(request * 10)
                time.sleep(0.1)
            except TimeoutError:
                pass
            except ConnectionError:
                break
            if "connection.client_not_reading" in slow.log.read_text():
                break
        else:
            pytest.fail("the connection was never closed")


def test_ts8_connections_are_bounded_and_idle_ones_make_room(database_url: str, tmp_path: Path) -> None:
    with serve_api(database_url, tmp_path / "home", max_connections="3") as api:
        idle = [socket.create_connection(("127.0.0.1", int(api.client.base_url.port or 0)), 60) for _ in range(10)]
        try:
            for connection in idle[3:]:  # all have come just now, and none of them has to go
                assert told(read_to_end(connection))["code"] == "api.connections"
            for _ in range(600):
                if httpx.get(f"{api.url}/livez").status_code == 200:
                    break
                time.sleep(0.05)
            assert "connection.dropped" in api.log.read_text()
        finally:
            for connection in idle:
                connection.close()


def test_ts8_connections_that_are_all_at_work_are_kept_and_the_next_is_told(database_url: str, tmp_path: Path) -> None:
    head = (
        b"POST /api/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
    )
    with (
        serve_api(database_url, tmp_path / "home", max_connections="4") as api,
        connect(api) as one,
        connect(api) as two,
        connect(api) as three,
    ):  # and the client's own, which has just been answered
        busy = (one, two, three)
        for connection in busy:
            connection.sendall(head)
        with connect(api) as fourth:
            answer = read_to_end(fourth)
        assert told(answer)["code"] == "api.connections"
        assert b"retry-after: 1" in answer.lower()
        for connection in busy:
            connection.sendall(b" " * 98 + b"}")
            assert connection.recv(12) == b"HTTP/1.1 422"


@pytest.mark.parametrize("chunked", ["chunked", "Chunked"])
def test_ts10_both_a_length_and_chunks_are_refused_and_the_connection_is_closed(slow: Served, chunked: str) -> None:
    with connect(slow) as connection:
        head = (
            f"POST /api/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 6\r\nTransfer-Encoding: {chunked}\r\n\r\n"
        )
        smuggled = "GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
        connection.sendall(f"{head}0\r\n\r\n{smuggled}".encode())
        answer = read_to_end(connection)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.count(b"HTTP/1.1 ") == 1
    assert told(answer)["code"] == "request.framing"


@pytest.mark.parametrize("sent", [b"nonsense\r\n\r\n", b"GET / HTTP/1.1\r\nno header\r\n\r\n"])
def test_o6_what_is_not_http_gets_a_problem_document(slow: Served, sent: bytes) -> None:
    with connect(slow) as connection:
        connection.sendall(sent)
        answer = read_to_end(connection)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"content-type: application/problem+json" in answer.lower()
    assert told(answer)["code"] == "request.malformed"


# ---- rates and quotas


async def test_ts9_wrong_keys_of_an_address_are_throttled(database_url: str, tmp_path: Path) -> None:
    key = await make_key(database_url)
    with serve_api(database_url, tmp_path / "home", auth="keys", wrong_keys_per_minute="5") as api:
        assert api.client.get("/api/jobs", headers=key).status_code == 200
        answers = [api.client.get("/api/jobs", headers=wrong_key()) for _ in range(300)]
        assert [answer.status_code for answer in answers[:5]] == [401] * 5
        assert sum(answer.status_code == 401 for answer in answers) < 20
        throttled(answers[-1], "auth.too_many")
        assert api.client.get("/api/jobs", headers=key).status_code == 200  # one that was right is heard
        problem(api.client.get("/api/jobs"), 401, "auth.missing")


async def test_ts9_the_requests_of_a_key_are_bounded(database_url: str, tmp_path: Path) -> None:
    key, other = await make_key(database_url), await make_key(database_url)
    with serve_api(database_url, tmp_path / "home", auth="keys", key_requests_per_minute="6") as api:
        answers = [api.client.get("/api/handlers", headers=key) for _ in range(30)]
        assert [answer.status_code for answer in answers[:6]] == [200] * 6
        throttled(answers[-1], "request.rate")
        assert api.client.get("/api/handlers", headers=other).status_code == 200


async def test_ts9_the_requests_of_an_address_are_bounded(database_url: str, tmp_path: Path) -> None:
    limits = {"auth": "keys", "address_requests_per_minute": "6", "trusted_proxies": "127.0.0.0/8"}
    with serve_api(database_url, tmp_path / "home", **limits) as api:
        near, far = {"X-Forwarded-For": "198.51.100.7"}, {"X-Forwarded-For": "198.51.100.7, 203.0.113.5"}
        answers = [api.client.get("/errors/internal", headers=near) for _ in range(30)]
        assert [answer.status_code for answer in answers[:6]] == [200] * 6
        throttled(answers[-1], "request.rate")
        assert api.client.get("/errors/internal", headers=far).status_code == 200
        assert [api.client.get("/livez", headers=near).status_code for _ in range(10)] == [200] * 10


async def test_ts9_a_platform_submits_so_many_jobs_in_a_day(database_url: str, tmp_path: Path) -> None:
    key, other = await make_key(database_url), await make_key(database_url, platform="globex")
    with serve_api(database_url, tmp_path / "home", auth="keys", platform_jobs_per_day="3") as api:

        def submit(n: int, key: dict[str, str]) -> httpx.Response:
            return api.client.post("/api/jobs/submit/echo", json={"message": f"job {n}"}, headers=key)

        assert submit(1, key).status_code == 202, submit(1, key).text
        assert submit(1, key).status_code == 200  # one that was there before does not count
        problem(api.client.post("/api/jobs/submit/echo", json={"wrong": 1}, headers=key), 422, "job.parameters")
        lines = "\n".join(json.dumps({"workflow": "echo", "parameters": {"message": f"job {n}"}}) for n in (2, 3, 4, 5))
        bulk = api.client.post("/api/jobs/bulk", content=lines, headers={**key, "Content-Type": "application/x-ndjson"})
        assert [json.loads(line)["status"] for line in bulk.text.splitlines()] == [202, 202, 429, 429]
        throttled(submit(6, key), "quota.jobs")
        execution = {"inputs": {"message": "job 6"}}
        throttled(api.client.post("/ogc/processes/echo/execution", json=execution, headers=key), "quota.jobs")
        assert submit(1, key).status_code == 200  # nor does it when none are left
        again = api.client.post("/api/jobs/bulk", content=lines, headers=bulk.request.headers)
        assert [json.loads(line)["status"] for line in again.text.splitlines()] == [200, 200, 429, 429]
        assert submit(6, other).status_code == 202


async def test_ts9_a_replayed_answer_is_not_a_job_of_the_day(database_url: str, tmp_path: Path) -> None:
    key = await make_key(database_url)
    with serve_api(database_url, tmp_path / "home", auth="keys", platform_jobs_per_day="4") as api:

        def submit(n: int, again: str) -> httpx.Response:
            headers = {**key, "Idempotency-Key": again}
            return api.client.post("/api/jobs/submit/echo", json={"message": f"job {n}"}, headers=headers)

        def submit_two() -> list[int]:
            lines = "\n".join(json.dumps({"workflow": "echo", "parameters": {"message": f"line {n}"}}) for n in (1, 2))
            headers = {**key, "Idempotency-Key": "lines", "Content-Type": "application/x-ndjson"}
            answer = api.client.post("/api/jobs/bulk", content=lines, headers=headers)
            return [json.loads(line)["status"] for line in answer.text.splitlines()]

        answers = [submit(1, "one") for _ in range(8)]
        assert [answer.status_code for answer in answers] == [202] * 8
        assert ["Idempotency-Replayed" in answer.headers for answer in answers] == [False] + [True] * 7
        assert [submit_two() for _ in range(4)] == [[202, 202]] * 4
        assert submit(2, "two").status_code == 202
        throttled(submit(3, "three"), "quota.jobs")
        assert submit(1, "one").status_code == 202  # a replay is answered when none are left
        assert submit_two() == [202, 202]


async def test_ts9_lines_beyond_the_quota_are_refused_and_the_others_printed(database_url: str, tmp_path: Path) -> None:
    key = await make_key(database_url)
    file = tmp_path / "lines"
    file.write_text(
        '{"wrong": 1}\n{"message": "2"}\n{"message": "3"}\n{"message": "4"}\n{"wrong": 5}\n{"message": "1"}\n'
    )
    with serve_api(database_url, tmp_path / "home", auth="keys", platform_jobs_per_day="3") as api:
        known = api.client.post("/api/jobs/submit/echo", json={"message": "1"}, headers=key).json()["job_id"]
        secret = key["Authorization"].removeprefix("Bearer ")
        environment = os.environ | {"ANABRANCH_API_URL": api.url, "ANABRANCH_API_KEY": secret}
        done = await asyncio.to_thread(run_warm, "submit", "echo", "--bulk", str(file), env=environment)
        jobs = [job["job_id"] for job in api.client.get("/api/jobs", headers=key).json()["items"]]
    assert [*done.stdout.split()[::-1]] == [known, *jobs[:2]]
    wrong, over, also_wrong = done.stderr.splitlines()[:3]
    assert (wrong[:8], also_wrong[:8]) == ("line 1: ", "line 5: ")
    assert re.fullmatch(r"line 4: acme has submitted 3 jobs within a day\. Try again in [\w ]+, at .* UTC\.", over)
    assert "3 of 6 lines were refused" in done.stderr
    assert done.returncode == 5


async def test_ts9_a_platform_uploads_so_much_in_a_day(database_url: str, tmp_path: Path) -> None:
    key, other = await make_key(database_url), await make_key(database_url, platform="globex")
    with serve_api(database_url, tmp_path / "home", auth="keys", platform_upload_mb_per_day="2") as api:

        def upload(size: int, key: dict[str, str], *, chunked: bool = False) -> httpx.Response:
            content: Any = iter([b"x" * size]) if chunked else b"x" * size
            headers = {**key, "Content-Type": "application/octet-stream"}
            return api.client.post("/api/uploads?name=a.bin", content=content, headers=headers)

        problem(upload(3 * 2**20, key), 413, "upload.too_large")
        assert upload(2**20, key).status_code == 201
        throttled(upload(2**20 + 2**18, key), "quota.bytes")
        throttled(upload(2**20 + 2**18, key, chunked=True), "quota.bytes")
        assert upload(2**20 + 1, other).status_code == 201


def test_rates_and_quotas_are_off_on_loopback_without_keys(database_url: str, tmp_path: Path) -> None:
    tight = ("key_requests", "address_requests", "wrong_keys")
    limits = {**{f"{name}_per_minute": "1" for name in tight}, "platform_jobs_per_day": "1"}
    with serve_api(database_url, tmp_path / "home", **limits) as api:
        assert [api.client.get("/api/handlers").status_code for _ in range(10)] == [200] * 10
        for n in range(3):
            made = api.client.post("/api/jobs/submit/echo", json={"message": f"job {n}"})
            assert made.status_code == 202, made.text
