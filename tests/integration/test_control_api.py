"""Control over HTTP and by the client: retry, signal, dead letters, limits, pauses and drains."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from anabranch.engine.model import Claim, Ended, LimitKind
from anabranch.settings import Settings
from tests.support.application import create_app
from tests.support.engine import EngineHarness
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.postgres
BASE = "http://127.0.0.1:8787"
HANDLER = """
from anabranch import register_handler

@register_handler("do")
def do(params):
    return {}
"""
WIDE = """
workflow_id: wide
nodes:
  each: {type: fan_out, source: [1, 2, 3], task: {handler: do, params: {n: "{{ item }}"}}, on_failure: finish}
  total: {type: fan_in, depends_on: each}
"""
ASK = """
workflow_id: ask
nodes:
  gate: {type: gate}
  then: {handler: do, depends_on: gate, when: nodes.gate.output.approved}
"""
REVIEW = """
workflow_id: review
nodes:
  gate:
    type: gate
    answer: {approved: {type: boolean, required: true}, stars: {type: integer, max: 5, default: 3}, why: {type: string}}
output: {said: "{{ nodes.gate.output }}"}
"""

TIDY = """
workflow_id: tidy
nodes:
  work: {handler: do}
  tidy: {handler: do, finally: true}
"""


@pytest.fixture
async def api(tmp_path: Path, database_url: str) -> AsyncIterator[httpx.AsyncClient]:
    plugins = tmp_path / "plugins"
    plugins.mkdir()
    (plugins / "do.py").write_text(HANDLER)
    (plugins / "wide.yaml").write_text(WIDE)
    (plugins / "ask.yaml").write_text(ASK)
    (plugins / "tidy.yaml").write_text(TIDY)
    (plugins / "review.yaml").write_text(REVIEW)
    app = create_app(Settings(home=tmp_path / "home", plugins=(str(plugins),)), database_url)
    transport = httpx.ASGITransport(app)
    async with app.router.lifespan_context(app), httpx.AsyncClient(transport=transport, base_url=BASE) as client:
        await app.state.gateway.ready()
        yield client


async def submit(api: httpx.AsyncClient, workflow: str) -> str:
    answer = await api.post(f"/api/jobs/submit/{workflow}", json={})
    assert answer.status_code == 202, answer.text
    job_id: str = answer.json()["job_id"]
    return job_id


async def claim(engine: EngineHarness, count: int) -> list[Claim]:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while len(found := await engine.claim(count)) < count:
            await engine.end(found, Ended.HANDED_BACK)
            await asyncio.sleep(0.02)
    return found


async def status(api: httpx.AsyncClient, job_id: str, wanted: str) -> dict[str, object]:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while (job := (await api.get(f"/api/jobs/{job_id}")).json())["status"] != wanted:
            await asyncio.sleep(0.02)
    found: dict[str, object] = job
    return found


async def fail_one(api: httpx.AsyncClient, engine: EngineHarness) -> str:
    """A job of three tasks of which one failed."""
    job_id = await submit(api, "wide")
    first, *others = await claim(engine, 3)
    await engine.end(others)
    _, rights = await engine.end(
        [first], Ended.FAILED, {"code": "test.broken", "message": "no", "category": "permanent"}
    )
    await engine.advance(rights)
    await status(api, job_id, "failed")
    return job_id


async def test_a_retry_is_shown_before_it_is_done(api: httpx.AsyncClient, engine: EngineHarness) -> None:
    job_id = await fail_one(api, engine)
    shown = await api.post(f"/api/jobs/{job_id}/retry", json={"dry_run": True})
    assert shown.status_code == 200
    assert shown.json() == {
        "job_id": job_id,
        "generation": 1,
        "dry_run": True,
        "nodes": [
            {"name": "each", "runs": "failed tasks", "tasks": 1, "kept": 2},
            {"name": "total", "runs": "whole", "tasks": None, "kept": 0},
        ],
    }
    assert (await api.get(f"/api/jobs/{job_id}")).json()["status"] == "failed"

    assert (await api.post(f"/api/jobs/{job_id}/retry")).status_code == 202
    (again,) = await claim(engine, 1)
    assert again.attempt == 2
    job = await status(api, job_id, "running")
    assert job["generation"] == 1


async def test_what_can_not_be_retried_is_a_conflict(api: httpx.AsyncClient, engine: EngineHarness) -> None:
    job_id = await submit(api, "wide")
    answer = await api.post(f"/api/jobs/{job_id}/retry")
    assert (answer.status_code, answer.json()["code"]) == (409, "retry.open")
    assert "anabranch cancel" in answer.json()["remedy"]


@pytest.mark.parametrize("dry_run", [True, False])
async def test_an_older_job_is_not_retried_nor_planned(
    api: httpx.AsyncClient, engine: EngineHarness, dry_run: bool
) -> None:
    older, newest = await fail_one(api, engine), await fail_one(api, engine)
    assert older != newest
    answer = await api.post(f"/api/jobs/{older}/retry", json={"dry_run": dry_run})
    assert (answer.status_code, answer.json()["code"]) == (409, "retry.older")
    assert newest[:12] in answer.json()["detail"]
    answer = await api.post(f"/api/jobs/{newest}/retry", json={"dry_run": dry_run})
    assert answer.status_code == (200 if dry_run else 202)


async def test_an_unknown_node_is_told_with_the_nearest(api: httpx.AsyncClient, engine: EngineHarness) -> None:
    job_id = await fail_one(api, engine)
    answer = await api.post(f"/api/jobs/{job_id}/retry", json={"from_node": "eech"})
    assert (answer.status_code, answer.json()["code"]) == (404, "node.not_found")
    assert "each" in answer.json()["remedy"]


async def test_dead_letters_are_listed_and_replayed(api: httpx.AsyncClient, engine: EngineHarness) -> None:
    job_id = await fail_one(api, engine)
    page = (await api.get("/api/dead-letters", params={"code": "test.broken"})).json()
    assert [(one["job_id"], one["node"], one["index"], one["attempts"]) for one in page["items"]] == [
        (job_id, "each", 0, 1)
    ]
    assert (await api.get("/api/dead-letters", params={"workflow": "other"})).json()["items"] == []

    replayed = await api.post("/api/dead-letters/replay", json={"workflow": "wide"})
    assert [(one["job_id"], one["nodes"], one["replayed"]) for one in replayed.json()] == [(job_id, ["each"], True)]
    assert len(await claim(engine, 1)) == 1
    assert (await api.get("/api/dead-letters")).json()["items"] == []


async def test_what_a_newer_job_took_the_place_of_is_no_dead_letter(
    api: httpx.AsyncClient, engine: EngineHarness
) -> None:
    older, newest = await fail_one(api, engine), await fail_one(api, engine)
    assert [one["job_id"] for one in (await api.get("/api/dead-letters")).json()["items"]] == [newest]
    (named,) = (await api.post("/api/dead-letters/replay", json={"jobs": [older]})).json()
    assert (named["replayed"], named["error"]["code"]) == (False, "retry.older")
    (other,) = (await api.post("/api/dead-letters/replay", json={"jobs": [newest], "code": "no"})).json()
    assert other["error"]["code"] == "retry.nothing_failed"
    replayed = (await api.post("/api/dead-letters/replay", json={"workflow": "wide"})).json()
    assert [(one["job_id"], one["replayed"]) for one in replayed] == [(newest, True)]


async def test_a_replay_needs_a_choice(api: httpx.AsyncClient) -> None:
    answer = await api.post("/api/dead-letters/replay", json={})
    assert (answer.status_code, answer.json()["code"]) == (422, "replay.choice")


async def test_a_gate_is_signalled_once(api: httpx.AsyncClient) -> None:
    job_id = await submit(api, "ask")
    await status(api, job_id, "waiting")
    path = f"/api/jobs/{job_id}/signal/gate"
    assert (await api.post(path, json={"approved": False})).json()["accepted"] is True
    await status(api, job_id, "completed")
    assert (await api.post(path, json={"approved": False})).json()["accepted"] is False
    other = await api.post(path, json={"approved": True})
    assert (other.status_code, other.json()["code"]) == (409, "gate.other")
    wrong = await api.post(f"/api/jobs/{job_id}/signal/then", json={})
    assert (wrong.status_code, wrong.json()["code"]) == (404, "gate.not_found")


async def test_tn12_a_gate_refuses_what_is_not_its_answer_and_goes_on_waiting(api: httpx.AsyncClient) -> None:
    job_id = await submit(api, "review")
    asked: Any = await status(api, job_id, "waiting")  # JSON
    (gate,) = asked["nodes"]
    assert (gate["status"], gate["command"]) == ("waiting", f"anabranch signal {job_id[:12]} gate -p approved=true")
    assert gate["answer"]["required"] == ["approved"]
    path = f"/api/jobs/{job_id}/signal/gate"
    refused = await api.post(path, json={"aproved": True, "stars": 9})
    assert (refused.status_code, refused.json()["code"]) == (422, "gate.answer")
    for mistake in ("aproved is not a field", "approved is required", "stars must be at most 5, not 9"):
        assert mistake in refused.json()["detail"]
    graph = (await api.get(f"/api/jobs/{job_id}/graph")).json()
    assert [node["status"] for node in graph["nodes"]] == ["waiting"]
    assert (await api.post(path, json={"approved": True})).json()["accepted"] is True
    job: Any = await status(api, job_id, "completed")  # JSON
    assert job["result"] == {"said": {"approved": True, "stars": 3}}
    assert (job["nodes"][0]["command"], job["nodes"][0]["answer"]) == (None, None)


async def test_a_job_with_cleanup_is_cancelled_after_it_for_all_who_ask(
    api: httpx.AsyncClient, engine: EngineHarness
) -> None:
    job_id = await submit(api, "tidy")
    work = await claim(engine, 1)
    for reason in ("enough", "more than enough"):
        answer = await api.post(f"/api/jobs/{job_id}/cancel", json={"reason": reason})
        assert answer.status_code == 200, answer.text
        assert (answer.json()["status"], answer.json()["ending"]) == ("running", "cancelled")
    await engine.end(work)
    await engine.take_free()
    await engine.finish(await claim(engine, 1))
    ended = (await api.get(f"/api/jobs/{job_id}")).json()
    assert (ended["status"], ended["ending"], ended["error"]["message"]) == ("cancelled", None, "enough")

    other = await submit(api, "tidy")
    await engine.finish(await claim(engine, 1))
    refused = await api.post(f"/api/jobs/{other}/cancel", json={})
    assert refused.status_code == 409
    assert refused.json()["code"] == "job.ended"
    assert "completed once its cleanup is done" in refused.json()["detail"]


async def test_limits_are_set_listed_and_removed(api: httpx.AsyncClient, engine: EngineHarness) -> None:
    assert (await api.put("/api/limits/handler/do", json={"most": 1, "reason": "slow"})).json()["most"] == 1
    await submit(api, "wide")
    assert len(await claim(engine, 1)) == 1
    assert await engine.claim() == []
    (limit,) = (await api.get("/api/limits")).json()
    assert (limit["kind"], limit["name"], limit["reason"], limit["set_by"]) == ("handler", "do", "slow", "local")
    assert (await api.delete("/api/limits/handler/do")).status_code == 200
    assert len(await engine.claim()) == 2
    assert (await api.delete("/api/limits/handler/do")).status_code == 404


@pytest.mark.parametrize("path", ["queues/default", "workflows/wide"])
async def test_what_is_paused_gives_nothing_out(api: httpx.AsyncClient, engine: EngineHarness, path: str) -> None:
    assert (await api.post(f"/api/{path}/pause", json={"reason": "works"})).json()["paused"] is True
    job_id = await submit(api, "wide")
    await status(api, job_id, "running")
    assert await engine.claim() == []
    assert (await api.post(f"/api/{path}/resume")).json()["paused"] is False
    assert len(await claim(engine, 3)) == 3


async def test_a_workflow_that_is_not_there_is_not_resumed_unless_it_is_paused(
    api: httpx.AsyncClient, engine: EngineHarness
) -> None:
    answer = await api.post("/api/workflows/nosuch/resume")
    assert (answer.status_code, answer.json()["code"]) == (404, "workflow.not_found")
    assert "nosuch" in answer.json()["detail"]
    await engine.store.limit(LimitKind.WORKFLOW, "gone", {"paused": True, "reason": ""}, "test")
    assert (await api.post("/api/workflows/gone/resume")).json()["paused"] is False


async def test_queues_tell_what_waits_and_runs(api: httpx.AsyncClient, engine: EngineHarness) -> None:
    await submit(api, "wide")
    await claim(engine, 1)
    queues = {one["name"]: one for one in (await api.get("/api/queues")).json()}
    assert (queues["default"]["ready"], queues["default"]["running"], queues["default"]["workers"]) == (2, 1, 1)


async def test_a_limit_or_pause_for_a_name_that_nothing_has_is_taken_with_a_warning(api: httpx.AsyncClient) -> None:
    known = ("handler/do", "queue/default", "workflow/wide")
    warnings = {
        "handler/doo": "there is no handler 'doo' yet. Did you mean 'do'?",
        "queue/defalt": "there is no queue 'defalt' yet. Did you mean 'default'?",
        "workflow/narrow": "there is no workflow 'narrow' yet.",
        "key/gpu": "no node names the key 'gpu' yet.",
    }
    for path, warning in [*dict.fromkeys(known).items(), *warnings.items(), *warnings.items()]:
        told = (await api.put(f"/api/limits/{path}", json={"most": 1})).json()
        assert (told["most"], told["warning"]) == (1, warning)
    told = (await api.post("/api/queues/hevy/pause", json={})).json()
    assert (told["paused"], told["warning"]) == (True, "there is no queue 'hevy' yet.")
    assert (await api.post("/api/queues/default/pause", json={})).json()["warning"] is None


async def test_an_unknown_workflow_is_not_paused(api: httpx.AsyncClient) -> None:
    assert (await api.post("/api/workflows/wid/pause")).status_code == 404


async def test_a_worker_is_drained_and_resumed(api: httpx.AsyncClient, engine: EngineHarness) -> None:
    await submit(api, "wide")
    assert (await api.post(f"/api/workers/{engine.session}/drain")).json()["draining"] is True
    assert await engine.claim() == []
    sessions = {one["id"]: one for one in (await api.get("/api/workers")).json()}
    assert sessions[engine.session]["draining"] is True
    await api.post(f"/api/workers/{engine.session}/resume")
    assert len(await claim(engine, 3)) == 3
    assert (await api.post("/api/workers/999999/drain")).status_code == 404
