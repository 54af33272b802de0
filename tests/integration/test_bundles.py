"""Bundles for support: all that helps, bounded, and no secret."""

import asyncio
import io
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI

from anabranch.api.answers import bundle
from anabranch.client import AsyncClient, Client
from anabranch.engine.model import Ended, Report
from anabranch.errors import InputError, NotFound, Unavailable
from anabranch.settings import Settings
from tests.support.application import create_app
from tests.support.engine import EngineHarness, fan_out
from tests.support.server import serve

pytestmark = pytest.mark.postgres

SECRET = "postgresql://someone:hunter2@nowhere/x"


@pytest.fixture
def app(tmp_path: Path, database_url: str) -> FastAPI:
    return create_app(Settings(home=tmp_path / "home", database_url=SECRET), database_url)  # type: ignore[arg-type]


async def run_badly(engine: EngineHarness, width: int = 5) -> str:
    """A job of whose tasks one failed and printed why, and one was tried twice."""
    job_id = (await engine.submit(fan_out(width))).job_id
    first, second, third, *_ = await engine.claim(width)
    reports = [
        Report(first.fence, Ended.FAILED, '{"code": "x", "message": "no"}', log="it broke"),
        Report(second.fence, Ended.COMPLETED, "{}", log="it went well"),
        Report(third.fence, Ended.RETRY, '{"code": "y", "message": "later"}', log="try again"),
    ]
    await engine.store.report(engine.session, reports)
    return job_id


def read(file: Path) -> dict[str, Any]:
    with zipfile.ZipFile(io.BytesIO(file.read_bytes())) as archive:
        assert archive.testzip() is None
        texts = {name: archive.read(name).decode() for name in archive.namelist()}
    manifest = json.loads(texts.pop("manifest.json"))
    lines = {name: text.removesuffix("\n").split("\n") if text else [] for name, text in texts.items()}
    return {"manifest.json": manifest, **{name: list(map(json.loads, found)) for name, found in lines.items()}}


async def test_a_bundle_has_all_that_helps(app: FastAPI, engine: EngineHarness, tmp_path: Path) -> None:
    job_id = await run_badly(engine)
    async with serve(app) as url, AsyncClient(url) as client:
        file = await client.bundle(job_id[:12], tmp_path / "bundle.zip")
        job, events = await client.job(job_id), [event.raw async for event in client.all_events(job_id)]
        failed = [task.raw async for task in client.all_tasks(job_id, status="failed")]
    told = read(file)

    assert told["job.json"] == [job.raw]
    assert told["events.jsonl"] == events
    assert told["tasks-failed.jsonl"] == failed
    assert len(failed) == 1
    assert {task["status"] for task in told["tasks-others.jsonl"]} >= {"completed"}
    assert [trace["log"] for trace in told["logs-failed.jsonl"]] == ["it broke", "try again"]
    assert told["definition.json"][0]["nodes"]
    assert told["versions.json"][0].keys() >= {"anabranch", "python", "postgresql"}
    assert told["manifest.json"]["contents"]["events.jsonl"] == {"count": len(events), "whole": True}
    assert told["manifest.json"]["job_id"] == job_id


async def test_s5_a_bundle_masks_the_settings(app: FastAPI, engine: EngineHarness, tmp_path: Path) -> None:
    job_id = await run_badly(engine)
    async with serve(app) as url, AsyncClient(url) as client:
        file = await client.bundle(job_id, tmp_path / "bundle.zip")
    told = read(file)
    assert told["settings.json"][0]["database_url"]["value"] == "**********"
    assert "hunter2" not in json.dumps(told)


async def test_a_bundle_is_bounded_and_says_so(
    app: FastAPI, engine: EngineHarness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundle, "MAX_EVENTS", 2)
    monkeypatch.setattr(bundle, "MAX_VALUE_CHARS", 100)
    job_id = await run_badly(engine)
    async with serve(app) as url, AsyncClient(url) as client:
        told = read(await client.bundle(job_id, tmp_path / "bundle.zip"))
    assert len(told["events.jsonl"]) == 2
    assert told["manifest.json"]["contents"]["events.jsonl"] == {"count": 2, "whole": False}
    assert told["job.json"][0]["nodes"].keys() == {"cut", "begins"}


async def test_what_can_not_be_read_is_told_and_the_rest_is_there(
    app: FastAPI, engine: EngineHarness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = await run_badly(engine)

    async def fail() -> None:
        raise Unavailable("database.unreachable", "not now")

    async with serve(app) as url, AsyncClient(url) as client:
        monkeypatch.setattr(app.state.gateway.reads, "server", fail)
        told = read(await client.bundle(job_id, tmp_path / "bundle.zip"))
    assert told["manifest.json"]["contents"]["versions.json"] == {
        "count": 0, "whole": False, "error": "database.unreachable"
    }  # fmt: skip
    assert told["settings.json"]


async def test_a_bundle_that_fails_leaves_no_file(app: FastAPI, engine: EngineHarness, tmp_path: Path) -> None:
    job_id = await run_badly(engine)
    async with serve(app) as url:

        def ask() -> None:
            with Client(url) as client:
                with pytest.raises(NotFound):
                    client.bundle("0" * 64, tmp_path / "bundle.zip")
                with pytest.raises(InputError) as caught:
                    client.bundle(job_id, tmp_path / "nowhere" / "bundle.zip")
                assert caught.value.code == "file.unwritable"
                assert client.bundle(job_id, str(tmp_path / "good.zip")) == tmp_path / "good.zip"

            assert [file.name for file in tmp_path.glob("*.zip*")] == ["good.zip"]

        await asyncio.to_thread(ask)
