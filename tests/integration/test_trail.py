"""A job's events are its audit: they say who did what (P7)."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from anabranch.access import KeyRequest, Scope
from anabranch.adapters.postgres.keys import open_keys
from anabranch.api.main import create_app
from anabranch.client.history import Event
from anabranch.settings import Settings
from anabranch.testing.engine import EngineHarness, open_harness

pytestmark = pytest.mark.postgres
BASE = "http://anabranch.example"
PEOPLE = ("ann", "bob", "eve")
HANDLER = """
from anabranch import register_handler

@register_handler("do")
def do(params):
    return {}
"""
ASK = """
workflow_id: ask
inputs: {by: {type: string, default: nobody}}
nodes:
  gate: {type: gate}
  then: {handler: do, depends_on: gate}
"""
Events = list[dict[str, Any]]  # as the API tells them


@pytest.fixture
async def api(tmp_path: Path, database_url: str) -> AsyncIterator[httpx.AsyncClient]:
    plugins = tmp_path / "plugins"
    plugins.mkdir()
    (plugins / "do.py").write_text(HANDLER)
    (plugins / "ask.yaml").write_text(ASK)
    app = create_app(Settings(home=tmp_path / "home", plugins=(str(plugins),), auth="keys"), database_url)
    transport = httpx.ASGITransport(app)
    async with app.router.lifespan_context(app), httpx.AsyncClient(transport=transport, base_url=BASE) as client:
        await app.state.gateway.ready()
        yield client


@pytest.fixture
async def engine(database_url: str) -> AsyncIterator[EngineHarness]:
    async with open_harness(database_url) as harness:
        yield harness


@pytest.fixture
async def people(database_url: str) -> dict[str, dict[str, str]]:
    """What each of them sends to be known."""
    async with open_keys(database_url) as keys:
        made = {name: await keys.make(KeyRequest(name, Scope.OPERATE, "acme"), "a test") for name in PEOPLE}
    return {name: {"Authorization": f"Bearer {credential.text}"} for name, (_, credential) in made.items()}


async def test_p7_events_say_who_submitted_signalled_cancelled_and_retried(
    api: httpx.AsyncClient, engine: EngineHarness, people: dict[str, dict[str, str]]
) -> None:
    """By the key that was sent: whatever a body says of `by` is data."""
    ann, bob, eve = people.values()
    submitted = await api.post("/api/jobs", json={"workflow": "ask", "parameters": {"by": "root"}}, headers=ann)
    path = f"/api/jobs/{submitted.json()['job_id']}"
    assert (await api.post(f"{path}/cancel", json={"reason": "not now"}, headers=bob)).status_code == 200
    assert (await api.post(f"{path}/retry", json={}, headers=eve)).status_code == 202
    assert (await api.post(f"{path}/signal/gate", json={"by": "root"}, headers=bob)).status_code == 200
    await fail(engine)
    answer = await api.post("/api/dead-letters/replay", json={"workflow": "ask"}, headers=ann)
    assert [one["replayed"] for one in answer.json()] == [True]

    events: Events = (await api.get(f"{path}/events", headers=ann)).json()["items"]

    told = [(Event.of(event).by, event["kind"]) for event in events if event["by"]]
    assert told == [
        ("acme/ann", "job.submitted"),
        ("acme/bob", "job.cancelled"),
        ("acme/eve", "job.retried"),
        ("acme/bob", "gate.signalled"),
        ("acme/ann", "job.retried"),
    ]
    data = {event["kind"]: event["data"] for event in events}
    assert (data["job.cancelled"]["message"], data["node.completed"]) == ("not now", {"by": "root"})
    assert (data["job.submitted"], data["gate.signalled"]) == ({"ordinal": 0}, {"payload": {"by": "root"}})


async def test_p7_each_of_many_submissions_says_who_made_it(
    api: httpx.AsyncClient, people: dict[str, dict[str, str]]
) -> None:
    headers = {**people["ann"], "Content-Type": "application/x-ndjson"}
    answer = await api.post("/api/jobs/bulk", content='{"workflow": "ask"}\n', headers=headers)
    events = await api.get(f"/api/jobs/{answer.json()['job_id']}/events", headers=people["bob"])
    assert events.json()["items"][0]["by"] == "acme/ann"


async def fail(engine: EngineHarness) -> None:
    """Let the next task fail for good."""
    async with asyncio.timeout(30):
        while not (found := await engine.claim(1)):
            await asyncio.sleep(0.02)
    _, rights = await engine.end(found, "failed")
    await engine.advance(rights)
