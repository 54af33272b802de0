"""The client against an HTTP server that says what the test tells it to."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from anabranch.client import BulkAnswer, Client, NotAllowed, TimedOut, operations
from anabranch.client.calls import Call, Pause, Steps
from anabranch.client.files import FileBody, Pieces
from anabranch.errors import AnabranchError, Conflict, InputError, NotFound, Unavailable

DROP = 0
COUNTS = dict.fromkeys(("total", "ready", "running", "due", "completed", "failed", "cancelled"), 0)
LINKS = dict.fromkeys(("self", "status", "tasks", "events", "logs", "graph", "stream", "bundle"), "/")
SUBMITTED = {"job_id": "abc", "job_type": "pair", "status": "pending", "created": True, "links": LINKS}
Raw = dict[str, Any]  # JSON


class Script(ThreadingHTTPServer):
    """Answers each request with the next of its lines, and the last one for ever; status 0 hangs up."""

    daemon_threads = True
    lines: list[tuple[int, object]]
    asked: list[tuple[str, str, bytes]]
    keys: list[str | None]
    retry_after = ""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def say(self, *lines: tuple[int, object]) -> None:
        self.lines, self.asked, self.keys = list(lines), [], []


class Speaker(BaseHTTPRequestHandler):
    server: Script  # type: ignore[mutable-override]  # the only server that has this handler

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.asked.append((self.command, self.path, body))
        self.server.keys.append(self.headers.get("Idempotency-Key"))
        status, answer = self.server.lines.pop(0) if len(self.server.lines) > 1 else self.server.lines[0]
        if status == DROP:
            return
        is_problem = isinstance(answer, dict) and "code" in answer
        text = answer if isinstance(answer, str) else json.dumps(answer)
        self.send_response(status)
        self.send_header("Content-Type", "application/problem+json" if is_problem else "application/json")
        if self.server.retry_after:
            self.send_header("Retry-After", self.server.retry_after)
        self.end_headers()
        self.wfile.write(text.encode())

    do_POST = do_GET  # noqa: N815  # the server's way to name it

    def log_message(self, *args: object) -> None:
        """Nobody reads it."""


@pytest.fixture
def server() -> Iterator[Script]:
    with Script(("127.0.0.1", 0), Speaker) as script:
        Thread(target=script.serve_forever, args=[0.01], daemon=True).start()
        yield script
        script.shutdown()


@pytest.fixture
def client(server: Script) -> Iterator[Client]:
    with Client(server.url) as client:
        yield client


@pytest.fixture
def closed_url() -> str:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return f"http://127.0.0.1:{taken.getsockname()[1]}"


class Clock:
    """Time that passes only by sleeping."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("anabranch.client.requests.sleep", clock.sleep)
    monkeypatch.setattr("anabranch.client.operations.monotonic", lambda: clock.now)
    return clock


def job(status: str = "running", *, done: int = 0) -> Raw:
    moment = "2026-01-02T03:04:05.678900Z"
    return {
        "job_id": "abc", "job_type": "pair", "status": status, "priority": 5, "error": None, "created_at": moment,
        "started_at": moment, "finished_at": None, "idle_seconds": 0, "platform": "default",
        "correlation_id": "c", "stage": 1, "total_stages": 1, "nodes": [],
        "progress": done / 4, "tasks": {**COUNTS, "total": 4, "completed": done}, "parameters": {}, "result": None,
        "generation": 0, "links": LINKS,
    }  # fmt: skip


def task(index: int) -> Raw:
    names = ("claimed_at", "started_at", "finished_at", "due_at", "result", "error")
    numbers = dict.fromkeys(("attempts", "failures", "crashes"), 0)
    known = {"task_id": f"abc-work-{index}", "node": "work", "index": index, "status": "ready", "handler": "do"}
    return {**known, "parameters": {}, **numbers, **dict.fromkeys(names)}


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, InputError), (401, NotAllowed), (403, NotAllowed), (404, NotFound), (409, Conflict), (410, NotFound),
        (413, InputError), (415, InputError), (422, InputError), (503, Unavailable), (500, AnabranchError),
    ],
)  # fmt: skip
def test_o6_a_problem_is_raised_with_its_code_message_and_remedy(
    server: Script, client: Client, status: int, kind: type[AnabranchError]
) -> None:
    server.say((status, {"code": "some.code", "detail": "what is wrong", "remedy": "What to do."}))

    with pytest.raises(kind) as caught:
        client.job("abc")

    assert type(caught.value) is kind
    assert (caught.value.code, caught.value.message, caught.value.remedy) == (
        "some.code",
        "what is wrong",
        "What to do.",
    )


def test_an_error_of_a_proxy_is_raised_by_its_status(server: Script, client: Client) -> None:
    server.say((502, "<h1>Bad Gateway</h1>"))
    with pytest.raises(Unavailable) as caught:
        client.workers()
    assert caught.value.code == "http.502"


@pytest.mark.parametrize("answer", ["<h1>It works!</h1>", [], {"job_id": "abc"}, "null"])
def test_an_answer_of_something_else_is_not_taken_for_a_job(server: Script, client: Client, answer: object) -> None:
    server.say((200, answer))
    with pytest.raises(AnabranchError) as caught:
        client.job("abc")
    assert caught.value.code == "api.unreadable"


def test_an_answer_without_content_is_read_where_none_is_expected(server: Script, client: Client) -> None:
    server.say((204, ""))
    client.platform.delete_asset("f" * 32, "withdrawn")
    with pytest.raises(AnabranchError) as caught:
        client.job("abc")
    assert caught.value.code == "api.unreadable"


def test_a_release_is_waited_for_until_the_timeout(server: Script, client: Client) -> None:
    server.say((503, {"code": "database.unavailable", "detail": "the database does not answer"}))
    with pytest.raises(TimedOut) as caught:
        client.platform.wait("f" * 32, timeout=0.01)
    assert caught.value.code == "release.timed_out"
    assert "could not be read after" in caught.value.message


def test_an_api_that_is_down_is_unavailable(closed_url: str) -> None:
    with Client(closed_url) as client, pytest.raises(Unavailable) as caught:
        client.job("abc")
    assert caught.value.code == "api.unreachable"
    assert closed_url in caught.value.message


def test_s5_a_password_in_the_url_is_not_shown(closed_url: str) -> None:
    with Client(closed_url.replace("//", "//me:hunter2@")) as client, pytest.raises(Unavailable) as caught:
        client.workers()
    assert "hunter2" not in caught.value.message


@pytest.mark.parametrize("url", ["", "127.0.0.1:80", "ftp://x", "http://", "http://x:y", "postgresql://x/y"])
def test_a_url_that_is_none_is_refused_at_once(url: str) -> None:
    with pytest.raises(InputError) as caught:
        Client(url)
    assert caught.value.code == "api.url_invalid"


def test_a_proxy_of_the_environment_is_not_asked_for_loopback(
    server: Script, closed_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", closed_url)
    server.say((200, []))
    with Client(server.url) as client:
        assert client.workers() == []


def test_a_submission_sends_what_is_given_and_no_more(server: Script, client: Client) -> None:
    server.say((202, SUBMITTED))

    submitted = client.submit("pair", {"n": 2**70}, priority=1)

    assert (submitted.job_id, submitted.created, submitted.raw) == ("abc", True, SUBMITTED)
    ((method, path, body),) = server.asked
    assert (method, path) == ("POST", "/api/jobs")
    assert json.loads(body) == {"workflow": "pair", "parameters": {"n": 2**70}, "rerun": False, "priority": 1}


@pytest.mark.parametrize("rerun", [False, True])
def test_e15_a_submission_is_repeated_under_one_key(server: Script, client: Client, clock: Clock, rerun: bool) -> None:
    server.say((DROP, None), (503, {"code": "api.starting", "detail": "not yet"}), (202, SUBMITTED))

    client.submit("pair", rerun=rerun)
    client.submit("pair", rerun=rerun)

    *repeated, fresh = server.keys
    assert len(repeated) == 3
    assert len(set(repeated)) == 1
    assert fresh not in (None, repeated[0])


def test_e15_a_key_of_the_callers_own_is_sent(server: Script, client: Client) -> None:
    server.say((202, SUBMITTED))
    client.submit("pair", idempotency_key="mine")
    assert server.keys == ["mine"]


def test_parameters_that_json_cannot_hold_are_refused_before_they_are_sent(server: Script, client: Client) -> None:
    server.say((202, {}))
    with pytest.raises(InputError, match="nan"):
        client.submit("pair", {"n": float("nan")})
    assert server.asked == []


@pytest.mark.parametrize("job_id", ["", ".", "..", "../x", "a/b"])
def test_an_id_that_would_change_the_path_is_not_sent(server: Script, client: Client, job_id: str) -> None:
    server.say((200, job()))
    with pytest.raises(NotFound):
        client.job(job_id)
    assert server.asked == []


def test_an_id_is_one_segment_of_the_path(server: Script, client: Client) -> None:
    server.say((404, {"code": "job.not_found", "detail": "no"}))
    with pytest.raises(NotFound):
        client.tasks("a..b?c#d")
    assert server.asked[0][1] == "/api/jobs/a..b%3Fc%23d/tasks"


def test_an_id_that_is_not_text_is_sent_as_the_bytes_it_is(server: Script, client: Client) -> None:
    server.say((404, {"code": "job.not_found", "detail": "no"}))
    with pytest.raises(NotFound):
        client.job("\udcff")  # what the command line makes of a byte that is not UTF-8
    assert server.asked[0][1] == "/api/jobs/%FF"


@pytest.mark.parametrize(("reason", "body"), [(None, b""), ("a typo", b'{"reason":"a typo"}')])
def test_a_cancel_sends_its_reason(server: Script, client: Client, reason: str | None, body: bytes) -> None:
    server.say((200, job("cancelled")))
    assert client.cancel("abc", reason).ended
    assert server.asked == [("POST", "/api/jobs/abc/cancel", body)]


def test_all_tasks_come_page_by_page(server: Script, client: Client) -> None:
    server.say((200, {"items": [task(0), task(1)], "next": "1.1"}), (200, {"items": [task(2)], "next": None}))

    assert [one.index for one in client.all_tasks("abc", node="work")] == [0, 1, 2]

    assert [path for _, path, _ in server.asked] == [
        "/api/jobs/abc/tasks?limit=1000&node=work",
        "/api/jobs/abc/tasks?limit=1000&after=1.1&node=work",
    ]


def test_all_events_come_page_by_page(server: Script, client: Client) -> None:
    at = "2026-01-02T03:04:05.678900Z"
    events: list[Raw] = [{"seq": seq, "at": at, "kind": "job.running", "node": None, "data": {}} for seq in (1, 2)]
    server.say((200, {"items": events[:1], "next": "1"}), (200, {"items": events[1:], "next": None}))

    assert [event.seq for event in client.all_events("abc")] == [1, 2]

    assert [path for _, path, _ in server.asked] == [
        "/api/jobs/abc/events?limit=1000",
        "/api/jobs/abc/events?limit=1000&after=1",
    ]


def test_tn7_all_logs_come_page_by_page(server: Script, client: Client) -> None:
    log = {"task_id": "abc-work-0", "node": "work", "index": 0, "attempt": 1, "log": "hello\n", "metrics": None}
    server.say((200, {"items": [log], "next": "1.0.1"}), (200, {"items": [log], "next": None}))

    assert [log.log for log in client.all_logs("abc", node="work", index=0)] == ["hello\n"] * 2

    assert [path for _, path, _ in server.asked] == [
        "/api/jobs/abc/logs?limit=200&node=work&index=0",
        "/api/jobs/abc/logs?limit=200&after=1.0.1&node=work&index=0",
    ]


def test_health_that_is_down_is_told_and_not_raised(server: Script, client: Client) -> None:
    part = {"status": "down", "detail": "gone", "remedy": "Start it.", "since": "2026-01-01T00:00:00Z"}
    down = {"status": "down", "components": {"database": part}, "queues": {}}
    server.say((503, down), (503, {"code": "api.stalled", "detail": "stuck"}))

    told = client.health().components["database"]
    assert (told.detail, told.remedy) == ("gone", "Start it.")
    with pytest.raises(Unavailable):
        client.health()


def test_readiness_is_yes_or_no(server: Script, client: Client, closed_url: str) -> None:
    server.say((200, {"status": "ok"}), (503, {"code": "api.no_session", "detail": "not yet"}))

    assert [client.ready(), client.ready()] == [True, False]
    with Client(closed_url) as nobody:
        assert nobody.ready() is False


def test_waiting_asks_less_and_less_often(server: Script, client: Client, clock: Clock) -> None:
    server.say(*[(200, job())] * 12, (200, job("completed")))

    assert client.wait("abc").succeeded

    assert clock.slept[0] == 0.05
    assert clock.slept == sorted(clock.slept)
    assert clock.slept[-1] == 1.0


def test_waiting_tells_of_changes_only(server: Script, client: Client, clock: Clock) -> None:
    answers = [job(), job(), job(done=1), job(done=1), job("failed", done=1)]
    server.say(*[(200, answer) for answer in answers])
    heard: list[tuple[str, int]] = []

    client.wait("abc", on_change=lambda job: heard.append((job.status, job.tasks.completed)))

    assert heard == [("running", 0), ("running", 1), ("failed", 1)]


def test_waiting_ends_when_the_time_is_over(server: Script, client: Client, clock: Clock) -> None:
    server.say((200, job()))
    with pytest.raises(TimedOut, match="still running after 3 s"):
        client.wait("abc", timeout=3)
    assert clock.now == pytest.approx(3)


def test_waiting_outlasts_a_restart_of_the_api(server: Script, client: Client, clock: Clock) -> None:
    starting = {"code": "database.unreachable", "detail": "not yet"}
    server.say((200, job()), (DROP, None), (DROP, None), (503, starting), (200, job("completed")))
    assert client.wait("abc").status == "completed"


def test_waiting_gives_up_on_an_api_that_stays_away(closed_url: str, clock: Clock) -> None:
    with Client(closed_url) as client, pytest.raises(Unavailable):
        client.wait("abc")
    assert 30 < clock.now < 32


def test_waiting_for_a_job_that_is_not_there_ends_at_once(server: Script, client: Client, clock: Clock) -> None:
    server.say((404, {"code": "job.not_found", "detail": "no"}))
    with pytest.raises(NotFound):
        client.wait("abc")
    assert clock.slept == []


def test_the_client_loads_only_what_it_needs() -> None:
    program = """
import sys, anabranch.client
early = {"httpx", "pydantic", "anabranch.canonical"} & sys.modules.keys()
anabranch.client.Client("http://127.0.0.1:1").close()
late = {"rich", "click", "pydantic"} & sys.modules.keys()
import httpx._main
print(sorted(early), sorted(late))
"""
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[] []"


def test_ts9_a_quota_that_ends_later_than_the_client_waits_fails_at_once(server: Script) -> None:
    quota = {"code": "quota.jobs", "detail": "no more", "remedy": "Try again in 3600 s, at 12:00."}
    server.say((429, quota))
    server.retry_after = "3600"
    with Client(server.url) as client, pytest.raises(Unavailable) as caught:
        client.submit("w")
    assert (caught.value.retry_after, caught.value.remedy) == (3600, quota["remedy"])
    assert len(server.asked) == 1


def test_ts9_a_client_waits_for_a_limit_as_long_as_it_says() -> None:
    steps = operations.submit(
        "w", None, priority=None, rerun=False, labels=None, correlation_id=None, idempotency_key="k"
    )
    next(steps)
    soon = Unavailable("request.rate", "too often")
    soon.retry_after = 2
    assert steps.throw(soon) == Pause(2)


def test_only_lines_without_an_answer_are_sent_again() -> None:
    many = operations.submit_many({"workflow": f"w{n}"} for n in range(1, 6))
    steps = next(many)
    first = take_call(steps)
    quota = {"status": 429, "code": "quota.jobs", "detail": "no more", "remedy": "Try again in 9 s."}
    busy = {"status": 503, "code": "database.down", "detail": "it is down"}
    made = {"status": 202, "job_id": "a", "created": True}
    with pytest.raises(Unavailable) as lost:
        first.read([{"line": 1, **made}, {"line": 2, **quota}, {"line": 3, **busy}, {"line": 5, **made}])
    assert isinstance(steps.throw(lost.value), Pause)
    again = take_call(steps)
    assert again.body == b'\n\n{"workflow":"w3"}\n{"workflow":"w4"}\n\n'
    assert again.key == first.key  # that of a line is made of its number
    with pytest.raises(StopIteration) as ended:
        steps.send(again.read([{"line": 3, **made}, {"line": 4, **made}]))
    answers: list[BulkAnswer] = ended.value.value
    assert [answer.line for answer in answers] == [1, 2, 3, 4, 5]
    assert [answer.raw["status"] for answer in answers] == [202, 429, 202, 202, 202]
    assert next(many, None) is None


def take_call(steps: Steps[list[BulkAnswer]]) -> Call[Any]:
    call = next(steps)
    assert isinstance(call, Call)
    return call


def test_a_file_is_sent_again_from_its_start_and_a_pipe_is_not(tmp_path: Path) -> None:
    """As after a token has expired: a pipe would be sent without what was read of it."""
    file, pipe = tmp_path / "file", tmp_path / "pipe"
    file.write_bytes(b"content")
    os.mkfifo(pipe)
    with closing(FileBody(file)) as body:
        assert [b"".join(Pieces(body)) for _ in range(2)] == [b"content"] * 2
    writer = Thread(target=pipe.write_bytes, args=[b"content"])
    writer.start()
    with closing(FileBody(pipe)) as body:
        assert b"".join(Pieces(body)) == b"content"
        with pytest.raises(InputError, match="pipe"):
            list(Pieces(body))
    writer.join()
