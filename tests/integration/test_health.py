"""Health on a real database: each fault shows, says since when and what to do, and clears (O1, O2)."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from psycopg import AsyncConnection

from anabranch.engine.model import Ended, Report, SessionKind
from anabranch.engine.sweeping.sweeper import Sweeper
from anabranch.settings import Settings
from tests.support.application import create_app
from tests.support.engine import EngineHarness
from tests.support.proxy import Proxy
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.postgres
BASE = "http://127.0.0.1:8787"
NAP = """
workflow_id: nap
nodes:
  only: {handler: sleep, queue: far, params: {seconds: 1}}
"""


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "nap.yaml").write_text(NAP)
    return Settings(home=tmp_path / "home", plugins=(str(tmp_path / "plugins"),), low_disk_mb=1)


@asynccontextmanager
async def serving(settings: Settings, url: str) -> AsyncIterator[httpx.AsyncClient]:
    app = create_app(settings, url)
    transport = httpx.ASGITransport(app)
    async with app.router.lifespan_context(app), httpx.AsyncClient(transport=transport, base_url=BASE) as client:
        await app.state.gateway.ready()
        yield client


@pytest.fixture
async def orchestrator(engine: EngineHarness) -> None:
    """One that lives and has swept."""
    session = await engine.store.open_session(SessionKind.ORCHESTRATOR, [], 0, timedelta(seconds=60))
    await Sweeper(engine.store, session).sweep()


@pytest.fixture
async def api(settings: Settings, database_url: str, orchestrator: None) -> AsyncIterator[httpx.AsyncClient]:
    async with serving(settings, database_url) as client:
        yield client


async def unwell(api: httpx.AsyncClient) -> dict[str, Any]:
    """The parts that are not ok, in an answer that came in time and whose status fits."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        answer = await api.get("/api/health")
    told = answer.json()
    assert answer.status_code == (503 if told["status"] == "down" else 200)
    parts = {name: part for name, part in told["components"].items() if part["status"] != "ok"}
    assert all(part["remedy"] and datetime.fromisoformat(part["since"]) for part in parts.values())
    return parts


async def until(api: httpx.AsyncClient, names: set[str]) -> None:
    """Wait until just these parts are not ok."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while (await unwell(api)).keys() != names:
            await asyncio.sleep(0.1)


async def test_o1_a_queue_that_no_worker_serves_shows_and_clears(api: httpx.AsyncClient, engine: EngineHarness) -> None:
    assert await unwell(api) == {}
    assert (await api.post("/api/jobs/submit/nap")).status_code == 202
    await until(api, {"queue far"})
    part = (await unwell(api))["queue far"]
    assert part["status"] == "degraded"
    assert "1 tasks are ready, 0 workers serve it" in part["detail"]

    await engine.store.open_session(SessionKind.WORKER, ["far"], 1, timedelta(seconds=60))
    assert await unwell(api) == {}


async def test_o2_a_stack_that_was_down_for_long_is_not_late(api: httpx.AsyncClient, database_url: str) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("update app.duties set ticked_at = ticked_at - interval '1 hour'")
        assert await unwell(api) == {}
        connection.execute("update app.sessions set began_at = began_at - interval '30 minutes'")
    assert (await unwell(api)).keys() == {"sweeper"}


async def test_g5_a_plugin_that_was_refused_shows(settings: Settings, database_url: str, orchestrator: None) -> None:
    (Path(settings.plugins[0]) / "means.py").write_text("def means(:\n")
    async with serving(settings, database_url) as api:
        part = (await unwell(api))["plugins"]
        answer = await api.post("/api/jobs/submit/folder_means")
    assert (part["status"], "means.py was refused: SyntaxError" in part["detail"]) == ("degraded", True)
    assert "line 1" in answer.json()["detail"]


async def test_o1_a_handler_that_workers_lack_shows_and_clears(api: httpx.AsyncClient, engine: EngineHarness) -> None:
    await api.post("/api/jobs/submit/nap")
    session = await engine.store.open_session(SessionKind.WORKER, ["far"], 1, timedelta(seconds=60))
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not (claims := await engine.claim(1, session=session, queues=["far"])):
            await asyncio.sleep(0.01)
    (claim,) = claims
    reason = '{"code": "handler.missing", "message": "no", "category": "permanent"}'
    report = Report(claim.fence, Ended.HANDED_BACK, reason, timedelta(seconds=0))
    await engine.store.report(session, [report])
    assert "sleep (1 tasks)" in (await unwell(api))["handlers"]["detail"]

    await engine.claim(1, session=session, queues=["far"])
    assert await unwell(api) == {}


async def test_e1_a_stuck_job_shows(api: httpx.AsyncClient, database_url: str, tmp_path: Path) -> None:
    """There should never be one, so it is made by hand."""
    job_id = (await api.post("/api/jobs/submit/nap")).json()["job_id"]
    await until(api, {"queue far"})
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("update app.lanes set closed = true")
    async with serving(Settings(home=tmp_path / "home"), database_url) as other:
        assert job_id[:12] in (await unwell(other))["jobs"]["detail"]


async def test_o1_steps_that_nobody_takes_show(api: httpx.AsyncClient, database_url: str) -> None:
    await api.post("/api/jobs/submit/nap")
    await until(api, {"queue far"})
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(
            """insert into app.rights (job, node, purpose, generation, takes, made_at)
               select id, 'only', 'work', 0, 0, app.now() - interval '1 hour' from app.jobs"""
        )
    part = (await unwell(api))["advances"]
    assert (part["status"], "the oldest for 1 h" in part["detail"]) == ("down", True)


async def test_o1_a_disk_with_little_space_shows(settings: Settings, database_url: str) -> None:
    async with serving(settings.model_copy(update={"low_disk_mb": 10**9}), database_url) as api:
        parts = await unwell(api)
    assert {"disk home", "disk scratch"} <= parts.keys()
    assert "free" in parts["disk home"]["detail"]


async def test_o1_health_answers_in_time_when_all_connections_of_the_readers_are_taken(
    settings: Settings, database_url: str
) -> None:
    """Health has a connection of its own: what readers do can't make it silent."""
    app = create_app(settings, database_url)
    transport = httpx.ASGITransport(app)
    async with app.router.lifespan_context(app), httpx.AsyncClient(transport=transport, base_url=BASE) as api:
        await app.state.gateway.ready()
        async with await AsyncConnection.connect(database_url) as blocker:
            await blocker.execute("lock table app.jobs")
            asking = [asyncio.create_task(api.get("/api/jobs")) for _ in range(8)]
            await asyncio.sleep(0.1)
            assert (await unwell(api)).get("database") is None
            assert (await api.get("/readyz")).status_code == 200
        await asyncio.gather(*asking)


@pytest.mark.usefixtures("orchestrator")
async def test_o1_health_and_readiness_answer_in_time_when_the_server_is_silent(
    settings: Settings, database_url: str
) -> None:
    async with Proxy(database_url) as proxy, serving(settings, proxy.url) as api:
        assert await unwell(api) == {}
        proxy.stall()
        for _ in range(3):
            assert (await unwell(api))["database"]["status"] == "down"
            async with asyncio.timeout(PATIENCE_SECONDS):  # a silent server would take for ever
                assert (await api.get("/readyz")).status_code == 503
            assert (await api.get("/livez")).status_code == 200
        proxy.heal()
        await until(api, set())


@pytest.mark.usefixtures("orchestrator")
async def test_o1_a_backend_that_is_stopped_is_left_for_another(settings: Settings, database_url: str) -> None:
    query = "select pid from pg_stat_activity where application_name = 'anabranch api vitals' and datname = %s"
    async with serving(settings, database_url) as api:
        assert await unwell(api) == {}
        with psycopg.connect(database_url) as connection:
            row = connection.execute(query, [connection.info.dbname]).fetchone()
        assert row
        os.kill(row[0], signal.SIGSTOP)
        try:
            assert (await unwell(api))["database"]["status"] == "down"
            await until(api, set())
        finally:
            os.kill(row[0], signal.SIGCONT)
