"""Errors become problem documents, and what breaks the rules of the edge becomes an error. No database is needed."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from anabranch.access import NotAuthenticated, is_loopback
from anabranch.api.answers.errors import respond
from anabranch.api.main import app_from_environment
from anabranch.api.openapi.document import load_document
from anabranch.codes import status_of
from anabranch.engine.model import SessionId
from anabranch.engine.ports import Refused, SessionGone
from anabranch.errors import AnabranchError, Conflict, DefinitionError, InputError, NotFound, Transient, Unavailable
from anabranch.gateway import Gateway
from anabranch.settings import Settings
from tests.support.application import create_app

BASE = "http://127.0.0.1:8787"
NOWHERE = "postgresql://127.0.0.1:1/nowhere"
SECRET = "s" * 32


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path, max_body_bytes=10_000)


@pytest.fixture
def app(settings: Settings) -> FastAPI:
    app = create_app(settings, NOWHERE)
    app.state.gateway = Gateway(settings, NOWHERE)  # nothing is opened: what is refused never gets that far
    return app


@asynccontextmanager
async def calling(app: FastAPI, base_url: str = BASE) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=base_url) as client:
        yield client


@pytest.fixture
async def api(app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    async with calling(app) as client:
        yield client


def problem(answer: httpx.Response, status: int, code: str) -> dict[str, Any]:  # a problem document
    """The problem document of an answer, whole and as expected."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    told: dict[str, Any] = answer.json()
    members = {"type", "title", "status", "detail", "instance", "code", "retryable", "correlation_id"}
    assert told.keys() - {"errors", "remedy"} == members
    assert "remedy" in told or status >= 500
    assert told.get("remedy") != ""
    assert (told["status"], told["code"], told["type"]) == (status, code, f"/errors/{code}")
    assert told["correlation_id"] == answer.headers["x-correlation-id"]
    return told


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (NotFound("job.not_found", ""), 404),
        (NotFound("job.purged", ""), 410),
        (Conflict("job.ambiguous", ""), 409),
        (InputError("job.parameters", ""), 422),
        (InputError("request.too_large", ""), 413),
        (InputError("request.media_type", ""), 415),
        (AnabranchError("request.host", ""), 403),
        (NotAuthenticated("auth.missing", ""), 401),
        (AnabranchError("auth.forbidden", ""), 403),
        (InputError("auth.misplaced", ""), 422),
        (InputError("database.not_allowed", ""), 403),
        (Unavailable("database.unreachable", ""), 503),
        (SessionGone(SessionId(1)), 503),
        (DefinitionError("workflow.input", ""), 500),
        (Refused("database.refused", ""), 500),
        (Transient(""), 500),
    ],
)
def test_o6_every_error_has_a_status(error: AnabranchError, status: int) -> None:
    assert status_of(error) == status


def test_o6_a_problem_says_what_is_wrong_where_and_what_to_do() -> None:
    error = Conflict("job.ambiguous", "several jobs begin with 1", remedy="Give more of the id.")
    answer = respond(error, path="/api/jobs/1 é", correlation_id="c")
    assert json.loads(bytes(answer.body)) == {
        "type": "/errors/job.ambiguous",
        "title": "Several job ids begin with this prefix",
        "status": 409,
        "detail": "several jobs begin with 1",
        "instance": "/api/jobs/1%20%C3%A9",
        "code": "job.ambiguous",
        "remedy": "Give more of the id.",
        "retryable": False,
        "correlation_id": "c",
    }


def test_o6_a_message_that_utf8_cannot_hold_is_still_told() -> None:
    answer = respond(InputError("job.parameters", "\udc80"), path="/", correlation_id="c")
    assert json.loads(bytes(answer.body))["detail"] == "\udc80"


def test_o6_a_problem_without_a_remedy_has_no_empty_one() -> None:
    answer = respond(InputError("acme.small", "n is too small"), path="/", correlation_id="c")
    assert "remedy" not in json.loads(bytes(answer.body))


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "[::1]", "localhost", "LocalHost"])
def test_loopback_is_known_by_name_and_address(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["", "0.0.0.0", "::", "10.0.0.1", "localhost.evil.example", "127.0.0.1.nip.io", "::2"])
def test_the_rest_is_not_loopback(host: str) -> None:
    assert not is_loopback(host)


def test_without_a_database_url_the_api_does_not_start(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("ANABRANCH_DATABASE_URL", raising=False)
    monkeypatch.setenv("ANABRANCH_HOME", str(tmp_path))
    with pytest.raises(InputError, match="ANABRANCH_DATABASE_URL"):
        app_from_environment()


@pytest.mark.parametrize("given", [b"x" * 129, b"caf\xe9", b"tab\there", b""])
async def test_o3_a_correlation_id_that_breaks_the_rule_is_replaced(api: httpx.AsyncClient, given: bytes) -> None:
    answer = await api.get("/livez", headers={b"X-Correlation-ID": given})
    assert answer.headers["x-correlation-id"].isalnum()
    assert len(answer.headers["x-correlation-id"]) == 32


async def test_o3_problems_carry_the_correlation_id(api: httpx.AsyncClient) -> None:
    answer = await api.get("/nowhere", headers={"X-Correlation-ID": "mine"})
    assert problem(answer, 404, "request.route")["correlation_id"] == "mine"


@pytest.mark.parametrize(
    ("path", "body", "where", "detail"),
    [
        ("/api/webhooks", {"url": "https://a.example", "secret": "short"}, "secret", "at least 16 characters"),
        ("/api/webhooks", {"url": "https://a.example", "platform": "A B"}, "platform", "lowercase letters"),
        ("/api/platform/releases", {"action": "revoke", "release_ids": []}, "release_ids", "at least 1 item"),
        ("/api/platform/releases", {"action": "approve", "release_ids": ["0" * 32], "revisions": {"a": 1}}, "",
         "revisions names 'a', which is none of release_ids"),
        ("/api/keys", {"name": "a\nb", "scope": "read"}, "name", "text without control characters"),
        ("/api/jobs", {"workflow": "echo", "parameters": {"message": "a"},
                       "callbacks": [{"url": "https://a.example", "secret": SECRET, "b": 1}]}, "b", "no such name"),
    ],
)  # fmt: skip
async def test_o6_mistakes_are_told_in_words_of_ours(
    api: httpx.AsyncClient, path: str, body: dict[str, object], where: str, detail: str
) -> None:
    (said,) = problem(await api.post(path, json=body), 422, "request.invalid")["errors"]
    assert said["where"].endswith(where)
    assert detail in said["detail"]
    for raw in ("after validation", "Value error", "pattern", "Extra inputs"):
        assert raw not in said["detail"]


async def test_o6_every_mistake_in_a_request_is_told(api: httpx.AsyncClient) -> None:
    body = {"priority": "5", "rerun": 1, "correlation_id": "\n", "callbacks": ["http://x"], "surprise": 1}
    told = problem(await api.post("/api/jobs", json=body), 422, "request.invalid")

    where = {mistake["where"] for mistake in told["errors"]}
    assert where == {f"body.{name}" for name in ("workflow", *body.keys() - {"callbacks"}, "callbacks.0")}


async def test_ts1_of_very_many_mistakes_the_first_are_told_and_the_others_counted(api: httpx.AsyncClient) -> None:
    answer = await api.post("/api/jobs/abc/cancel", json={f"x{number}": 1 for number in range(1_000)})
    assert answer.status_code == 422
    errors = answer.json()["errors"]
    assert len(errors) == 101
    assert errors[-1] == {"where": "body", "detail": "there are 900 more mistakes"}


@pytest.mark.parametrize(
    "query",
    ["limit=0", "limit=501", "before=x", "before=0", "before=99999999999999999999", "status=odd", "workflow=%00"],
)
async def test_o6_a_list_of_jobs_checks_its_query(api: httpx.AsyncClient, query: str) -> None:
    told = problem(await api.get(f"/api/jobs?{query}&surprise=1"), 422, "request.invalid")
    name = query.partition("=")[0]
    assert {mistake["where"] for mistake in told["errors"]} == {f"query.{name}", "query.surprise"}


async def test_an_unknown_name_is_refused_with_the_nearest(api: httpx.AsyncClient) -> None:
    found = problem(await api.get("/api/jobs?stauts=failed"), 422, "request.invalid")
    assert found["detail"] == "query.stauts: there is no such name. Did you mean 'status'?"
    found = problem(await api.post("/api/jobs/abc/cancel", json={"reasn": "x"}), 422, "request.invalid")
    assert found["detail"] == "body.reasn: there is no such name. Did you mean 'reason'?"


async def test_a_body_that_is_no_json_says_where(api: httpx.AsyncClient) -> None:
    body, kind = '{\n  "workflow": hello\n}', {"Content-Type": "application/json"}
    found = problem(await api.post("/api/jobs", content=body, headers=kind), 422, "request.json")
    assert found["detail"] == "the body is not JSON: Expecting value (line 2, column 15)"
    assert "without these values" not in found["remedy"]


@pytest.mark.parametrize("query", ["limit=1001", "after=1", "after=" + "9" * 5000 + ".0", "status=odd", "node=%01"])
async def test_o6_a_list_of_tasks_checks_its_query(api: httpx.AsyncClient, query: str) -> None:
    problem(await api.get(f"/api/jobs/0123/tasks?{query}"), 422, "request.invalid")


@pytest.mark.parametrize("query", ["limit=0", "limit=1001", "after=-1", "after=x", "after=2147483648", "surprise=1"])
async def test_o6_a_list_of_events_checks_its_query(api: httpx.AsyncClient, query: str) -> None:
    problem(await api.get(f"/api/jobs/0123/events?{query}"), 422, "request.invalid")


@pytest.mark.parametrize("query", ["limit=201", "after=1.1", "after=1.1.x", "index=%01", "index=", "attempt=0", "x=1"])
async def test_o6_a_list_of_logs_checks_its_query(api: httpx.AsyncClient, query: str) -> None:
    problem(await api.get(f"/api/jobs/0123/logs?{query}"), 422, "request.invalid")


@pytest.mark.parametrize("body", [{"reason": 1}, {"reason": "x" * 1001}, {"why": "x"}, {"reason": None}])
async def test_o6_a_cancel_checks_its_body(api: httpx.AsyncClient, body: dict[str, object]) -> None:
    problem(await api.post("/api/jobs/0123/cancel", json=body), 422, "request.invalid")


async def test_o1_liveness_is_the_age_of_the_tick(
    app: FastAPI, api: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (await api.get("/livez")).json()["tick_age_seconds"] < 5

    monkeypatch.setattr(type(app.state.tick), "age", 11.0)
    problem(await api.get("/livez"), 503, "api.stalled")


async def test_a_body_over_the_limit_is_refused_by_its_length(api: httpx.AsyncClient) -> None:
    answer = await api.post("/api/jobs/submit/pair", json={"note": "x" * 10_000})
    assert "10000 bytes" in problem(answer, 413, "request.too_large")["detail"]


async def test_a_body_without_a_length_is_read_no_further_than_the_limit(api: httpx.AsyncClient) -> None:
    sent = 0

    async def drip() -> AsyncIterator[bytes]:
        nonlocal sent
        for _ in range(1000):
            sent += 1000
            yield b" " * 1000

    answer = await api.post("/api/jobs/submit/pair", content=drip(), headers={"Content-Type": "application/json"})

    problem(answer, 413, "request.too_large")
    assert sent <= 12_000


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "", "application/jsonp"])
async def test_a_body_of_another_type_is_refused(api: httpx.AsyncClient, kind: str) -> None:
    answer = await api.post("/api/jobs/submit/pair", content=b'{"n": 1}', headers={"Content-Type": kind})
    problem(answer, 415, "request.media_type")


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b'{"n": NaN}',
        b'{"n": -Infinity}',
        b'{"n": 1e999}',
        b'{"note": "\\u0000"}',
        b'{"note": "\\ud800"}',
        b'{"note": "\xff"}',
        b'{"\\u0000": 1}',
        b'{"note": ' + b"[" * 65 + b"]" * 65 + b"}",
        b'{"note": ' + b"[" * 4000 + b"]" * 4000 + b"}",
        b'{"n": 1, "n": 2}',
        b'{"note": {"a": 1, "b": {"c": 1, "c": 1}}}',
        b'{"n": ' + b"9" * 5000 + b"}",
        b"[]",
        b'"text"',
        b"null",
    ],
)
async def test_json_that_cannot_be_kept_is_refused(api: httpx.AsyncClient, body: bytes) -> None:
    answer = await api.post("/api/jobs/submit/pair", content=body, headers={"Content-Type": "application/json"})
    problem(answer, 422, "request.json")


async def test_a_huge_integer_is_refused_in_words_of_ours(api: httpx.AsyncClient) -> None:
    body = b'{"n": [-' + b"9" * 5000 + b"]}"
    answer = await api.post("/api/jobs/submit/pair", content=body, headers={"Content-Type": "application/json"})
    told = problem(answer, 422, "request.json")["detail"]
    assert told == "the body is not JSON that can be stored: an integer of 5000 digits is too large"


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8787", "127.0.0.1.evil.example", "10.0.0.1", ""])
async def test_a_name_rebound_to_loopback_is_refused(api: httpx.AsyncClient, host: str) -> None:
    problem(await api.get("/api/jobs", headers={"Host": host}), 403, "request.host")


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1", "127.0.0.1:8787", "[::1]", "[::1]:80"])
async def test_loopback_has_several_names(api: httpx.AsyncClient, host: str) -> None:
    assert (await api.get("/livez", headers={"Host": host})).status_code == 200


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1:3000"])
async def test_a_page_of_another_origin_cannot_start_a_job(api: httpx.AsyncClient, origin: str) -> None:
    problem(await api.post("/api/jobs/submit/pair", headers={"Origin": origin}), 403, "request.origin")


async def test_the_own_pages_may_call_and_nobody_gets_cors(api: httpx.AsyncClient) -> None:
    answer = await api.get("/livez", headers={"Origin": BASE})

    assert answer.status_code == 200
    assert not [name for name in answer.headers if name.startswith("access-control")]
    problem(await api.options("/api/jobs", headers={"Access-Control-Request-Method": "POST"}), 405, "request.method")


@pytest.mark.parametrize("path", ["/api/jobs", "/api/health", "/api/workers", "/openapi.json", "/nowhere"])
async def test_s1_beyond_loopback_only_probes_are_served(settings: Settings, path: str) -> None:
    app = create_app(settings.model_copy(update={"host": "0.0.0.0"}), NOWHERE)
    async with calling(app, "http://anabranch.example") as api:
        answer = await api.get(path)
        problem(answer, 401, "auth.missing")
        assert answer.headers["www-authenticate"]
        assert (await api.get("/livez")).status_code == 200


async def test_s1_a_socket_beyond_loopback_is_noticed_whatever_the_settings_say(app: FastAPI) -> None:
    async with calling(app, "http://192.0.2.1") as api:
        problem(await api.get("/api/jobs", headers={"Host": "127.0.0.1"}), 401, "auth.missing")


async def test_o6_a_method_that_a_path_lacks_is_a_problem_that_names_the_others(api: httpx.AsyncClient) -> None:
    answer = await api.put("/api/jobs")
    problem(answer, 405, "request.method")
    assert answer.headers["allow"] == "GET, HEAD, POST"


async def test_o6_an_unknown_route_is_a_problem(api: httpx.AsyncClient) -> None:
    for path in ("/nowhere", "/docs/", "/redoc", "/api/jobs/"):
        assert problem(await api.get(path), 404, "request.route")["instance"] == path


async def test_o6_s5_what_a_driver_says_stays_inside(app: FastAPI, api: httpx.AsyncClient) -> None:
    @app.get("/refused")
    async def refuse() -> None:
        raise Refused("database.refused", "hunter2 violates a constraint")

    answer = await api.get("/refused")

    problem(answer, 500, "database.refused")
    assert "hunter2" not in answer.text


async def test_o6_s5_a_crash_shows_nothing_of_the_inside(app: FastAPI, api: httpx.AsyncClient) -> None:
    @app.get("/crash")
    async def crash() -> None:
        raise RuntimeError("password=hunter2")

    answer = await api.get("/crash")

    told = problem(answer, 500, "internal")
    assert "hunter2" not in answer.text
    assert "RuntimeError" not in answer.text
    assert told["retryable"] is False


async def test_o6_the_type_of_a_problem_leads_to_what_it_means(api: httpx.AsyncClient) -> None:
    told = (await api.get("/nowhere")).json()
    page = (await api.get(told["type"])).json()
    assert (page["code"], page["meaning"], page["status"], page["exit_code"], page["retryable"]) == (
        "request.route",
        "There is no such path.",
        404,
        3,
        False,
    )
    assert page in (await api.get("/errors")).json()
    assert "'request.route'" in problem(await api.get("/errors/request.rout"), 404, "error.not_found")["remedy"]


async def test_the_description_is_served_as_openapi_31(api: httpx.AsyncClient) -> None:
    answer = await api.get("/openapi.json")

    assert answer.headers["content-type"] == "application/vnd.oai.openapi+json;version=3.1"
    assert answer.json() == {**load_document(), "servers": [{"url": str(api.base_url).rstrip("/")}]}
    assert (await api.get("/openapi.json", headers={"If-None-Match": answer.headers["etag"]})).status_code == 304
