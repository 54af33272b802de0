"""What the pages show, and to whom: the shell without a key, only what is the caller's own with one, never a script."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI

from anabranch.access import Credential, KeyRequest, Scope
from anabranch.adapters.postgres.store.keys import open_keys
from anabranch.api.main import create_app
from anabranch.api.security.authentication import Authenticator
from anabranch.canonical import JsonObject
from anabranch.engine.model import Ended
from anabranch.settings import Settings
from anabranch.workflows.nodes import OnFailure
from tests.support.engine import EngineHarness, fan_out, open_harness

pytestmark = pytest.mark.postgres
SCRIPT = "<script>alert('x')</script>"
PAGES = ("/", "/jobs", "/workflows", "/workflows/hello_world")


@asynccontextmanager
async def serving(app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app)
    async with app.router.lifespan_context(app), httpx.AsyncClient(transport=transport, base_url="http://t") as client:
        await app.state.gateway.ready()
        yield client


@pytest.fixture
async def api(tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[httpx.AsyncClient]:
    monkeypatch.setattr(Authenticator, "FRESH_SECONDS", 0.0)  # tests don't wait for what is known to be old
    async with serving(create_app(Settings(home=tmp_path / "home", auth="keys"), database_url)) as client:
        yield client


async def bear(url: str, scope: Scope = Scope.OPERATE, platform: str = "acme") -> dict[str, str]:
    async with open_keys(url) as keys:
        _, credential = await keys.make(KeyRequest("ci", scope, platform), "a test")
    return bearing(credential)


def bearing(credential: Credential) -> dict[str, str]:
    return {"Authorization": f"Bearer {credential.text}"}


async def submit(api: httpx.AsyncClient, key: dict[str, str], **parameters: object) -> str:
    answer = await api.post("/api/jobs/submit/hello_world", json=parameters, headers=key)
    assert answer.is_success, answer.text
    job_id: str = answer.json()["job_id"]
    return job_id


async def fail_tasks(engine: EngineHarness, *messages: str) -> str:
    """A job of the default platform whose tasks failed with these messages."""
    job = await engine.submit(fan_out(len(messages), on_failure=OnFailure.FINISH))
    claims = sorted(await engine.claim(), key=lambda claim: claim.key.place)
    for claim, message in zip(claims, messages, strict=True):
        error: JsonObject = {"code": "handler.error", "message": message, "category": "permanent"}
        _, rights = await engine.end([claim], Ended.FAILED, error)
        await engine.advance(rights)
    return job.job_id


@pytest.mark.parametrize("path", [*PAGES, "/jobs/0123", "/jobs/0123/retry"])
async def test_s1_without_a_key_a_page_is_a_shell_without_data(api: httpx.AsyncClient, path: str) -> None:
    answer = await api.get(path)
    assert answer.status_code == 200
    assert "data-shell" in answer.text
    assert "hello_world" not in answer.text
    assert "script-src 'self'" in answer.headers["content-security-policy"]
    refused = await api.get(path, headers={"HX-Request": "true"})
    assert (refused.status_code, refused.json()["code"]) == (401, "auth.missing")
    assert {"Authorization", "HX-Request", "HX-Target"} <= {name.strip() for name in answer.headers["vary"].split(",")}


async def test_s1_a_wrong_key_gets_no_page(api: httpx.AsyncClient) -> None:
    answer = await api.get("/jobs", headers=bearing(Credential.make()))
    assert (answer.status_code, answer.json()["code"]) == (401, "auth.invalid")


async def test_a_key_gets_the_whole_page_a_script_its_content_and_a_part_its_block(
    api: httpx.AsyncClient, database_url: str
) -> None:
    key = await bear(database_url)
    whole = (await api.get("/jobs", headers=key)).text
    content = (await api.get("/jobs", headers={**key, "HX-Request": "true"})).text
    block = (await api.get("/jobs", headers={**key, "HX-Request": "true", "HX-Target": "rows"})).text
    assert whole.startswith("<!doctype html>")
    assert 'aria-current="page">Jobs' in whole
    assert content.startswith("<title>Jobs")
    assert 'id="rows"' in content
    assert block.strip().startswith('<div id="rows"')
    assert "<nav id=" not in block


async def test_s1_a_platform_sees_its_own_jobs_only(api: httpx.AsyncClient, database_url: str) -> None:
    acme, other = await bear(database_url), await bear(database_url, platform="other")
    job = await submit(api, acme, n=2)
    for path in ("/", "/jobs", "/workflows/hello_world"):
        assert job[:12] not in (await api.get(path, headers=other)).text
    assert job[:12] in (await api.get("/jobs", headers=acme)).text
    for path in (f"/jobs/{job}", f"/jobs/{job}/retry", f"/jobs/{job}/cancel", f"/jobs/{job}/rerun"):
        hidden = await api.get(path, headers=other)
        assert hidden.status_code == 404, path
        assert "job.not_found" in hidden.text
    for path in (f"/api/jobs/{job}/timeline", f"/api/jobs/{job}/failures"):
        assert (await api.get(path, headers=other)).json()["code"] == "job.not_found"
    for key, count in ((acme, 1), (other, 0)):
        assert len((await api.get("/api/workflows/hello_world/versions", headers=key)).json()) == count
    assert sum((await api.get("/api/overview", headers=other)).json()["open_jobs"].values()) == 0
    assert sum((await api.get("/api/overview", headers=acme)).json()["open_jobs"].values()) == 1


async def test_the_health_of_parts_is_told_a_platform_without_details(
    api: httpx.AsyncClient, database_url: str
) -> None:
    told = (await api.get("/", headers=await bear(database_url))).text
    all_of_it = (await api.get("/", headers=await bear(database_url, Scope.ADMIN))).text
    assert "GB free" in all_of_it
    assert "GB free" not in told


@pytest.mark.parametrize(("scope", "shown"), [(Scope.READ, 0), (Scope.SUBMIT, 0), (Scope.OPERATE, 1)])
async def test_what_a_key_may_not_do_is_not_offered(
    api: httpx.AsyncClient, database_url: str, scope: Scope, shown: int
) -> None:
    job = await submit(api, await bear(database_url), n=2)
    key = await bear(database_url, scope)
    page, jobs = (await api.get(f"/jobs/{job}", headers=key)).text, (await api.get("/jobs", headers=key)).text
    assert page.count(f"/jobs/{job}/cancel") == shown
    assert jobs.count("data-choose-all") == shown
    refused = await api.get(f"/jobs/{job}/cancel", headers=key)
    assert refused.status_code == (200 if shown else 403)
    assert ("auth.forbidden" in refused.text) == (not shown)


async def test_s2_what_callers_write_is_text(api: httpx.AsyncClient, database_url: str) -> None:
    key = await bear(database_url)
    sent = {"workflow": "hello_world", "parameters": {"message": SCRIPT}, "labels": {"team": SCRIPT}}
    job = (await api.post("/api/jobs", json=sent, headers=key)).json()["job_id"]
    await api.post(f"/api/jobs/{job}/cancel", json={"reason": SCRIPT}, headers=key)
    for path in ("/jobs", f"/jobs/{job}", f"/jobs/{job}?view=data", f"/jobs/{job}/rerun", f"/jobs?label=team={SCRIPT}"):
        text = (await api.get(path, headers=key)).text
        assert "alert(" in text, path
        assert "<script>alert" not in text, path


async def test_o6_an_error_is_a_page_with_its_code_and_what_to_do(api: httpx.AsyncClient, database_url: str) -> None:
    key = await bear(database_url)
    for path, status, code in (
        ("/jobs/0123", 404, "job.not_found"),
        ("/jobs?status=done", 400, "request.invalid"),
        ("/jobs/0123?after=x", 404, "job.not_found"),
        ("/workflows/no_such", 404, "workflow.not_found"),
    ):
        answer = await api.get(path, headers=key)
        assert answer.status_code in (status, 422), path
        assert code in answer.text
        assert "Next step" in answer.text
        assert answer.headers["content-type"].startswith("text/html")


async def test_an_address_that_is_none_is_a_page_for_browsers_alone(api: httpx.AsyncClient, database_url: str) -> None:
    key = await bear(database_url)
    path = "/jobs/0123/<script>alert('x')</script>"
    page = await api.get(path, headers={**key, "Accept": "text/html,*/*;q=0.8"})
    assert page.status_code == 404
    assert page.headers["content-type"].startswith("text/html")
    assert "Accept" in page.headers["vary"]
    assert "request.route" in page.text
    assert "To the overview" in page.text
    assert "<script>alert" not in page.text
    assert (await api.get(path, headers=key)).json()["code"] == "request.route"


async def test_s2_a_response_that_is_no_page_runs_and_frames_nothing(api: httpx.AsyncClient, database_url: str) -> None:
    key = await bear(database_url)
    for path in ("/api/jobs", "/api/jobs/0123", "/nothing", "/admin", "/errors/auth.missing", "/api/jobs?x=anb_"):
        policy = (await api.get(path, headers=key)).headers["content-security-policy"]
        assert {"default-src 'none'", "frame-ancestors 'none'"} <= set(policy.split("; ")), path


async def test_a_form_that_is_not_filled_in_asks_for_everything(api: httpx.AsyncClient, database_url: str) -> None:
    key = await bear(database_url)
    job = await submit(api, key, n=2)
    assert job[:12] in (await api.get("/jobs?status=&workflow=&label=&id=", headers=key)).text
    led = await api.get(f"/jobs?id={job[:8]}", headers=key)
    assert (led.status_code, led.headers["location"]) == (303, f"/jobs/{job[:8]}")


async def test_the_list_is_paged_by_its_address(api: httpx.AsyncClient, database_url: str) -> None:
    key = await bear(database_url)
    jobs = [await submit(api, key, n=n) for n in range(1, 6)]
    first = (await api.get("/jobs?limit=3&workflow=hello_world", headers=key)).text
    assert [job[:12] in first for job in jobs] == [False, False, True, True, True]
    following = first.split('rel="next" href="')[1].split('"')[0].replace("&amp;", "&")
    second = (await api.get(following, headers=key)).text
    assert [job[:12] in second for job in jobs] == [True, True, False, False, False]
    assert "Newest" in second


async def test_failures_are_grouped_by_what_went_wrong(api: httpx.AsyncClient, database_url: str) -> None:
    key = await bear(database_url, Scope.ADMIN)
    async with open_harness(database_url) as engine:
        job = await fail_tasks(engine, "tile 17 of 'a.tif' is torn", "tile 4 of 'b.tif' is torn", "no such band")
    groups = (await api.get(f"/api/jobs/{job}/failures", headers=key)).json()
    assert [(group["tasks"], group["node"], group["indexes"]) for group in groups] == [
        (2, "work", [0, 1]),
        (1, "work", [2]),
    ]
    page = (await api.get(f"/jobs/{job}", headers=key)).text
    assert page.count("Retry this group") == 2
    plan = (await api.get(f"/jobs/{job}/retry?node=work", headers=key)).text
    assert f"POST /api/jobs/{job}/retry" in plan
    assert "failed tasks" in plan


async def test_a_timeline_has_each_attempt_and_the_critical_path(api: httpx.AsyncClient, database_url: str) -> None:
    key = await bear(database_url, Scope.ADMIN)
    async with open_harness(database_url) as engine:
        job = (await engine.submit(fan_out(2))).job_id
        await engine.finish(await engine.claim())
        await engine.finish(await engine.claim())
    nodes = (await api.get(f"/api/jobs/{job}/timeline", headers=key)).json()["nodes"]
    assert [(node["name"], node["critical"], len(node["attempts"])) for node in nodes] == [
        ("work", True, 2),
        ("join", True, 1),
    ]
    assert all(attempt["ready_at"] <= attempt["claimed_at"] for node in nodes for attempt in node["attempts"])
    assert "critical: " in (await api.get(f"/jobs/{job}", headers=key)).text


async def test_a_wide_fan_out_is_one_node_and_a_page_of_tasks(api: httpx.AsyncClient, database_url: str) -> None:
    key = await bear(database_url, Scope.ADMIN)
    async with open_harness(database_url) as engine:
        job = (await engine.submit(fan_out(2000))).job_id
        await engine.finish(await engine.claim(10))
    text = (await api.get(f"/jobs/{job}", headers=key)).text
    assert text.count("data-node-link") == 2
    assert "2,000 tasks: 10 completed, 1,990 ready" in text
    assert text.count("<tr>") < 80
    assert len(text) < 120_000


async def test_a_form_has_the_inputs_of_its_workflow(api: httpx.AsyncClient, database_url: str) -> None:
    text = (await api.get("/workflows/hello_world", headers=await bear(database_url))).text
    assert 'name="parameters.n"' in text
    assert 'min="1" max="1000"' in text.replace(".0", "")
    assert 'data-call="POST /api/jobs"' in text
    assert "curl -X POST http://t/api/jobs" in text
    reader = (await api.get("/workflows/hello_world", headers=await bear(database_url, Scope.READ))).text
    assert "Your key only reads" in reader
    assert "data-call" not in reader
