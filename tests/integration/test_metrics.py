"""Metrics are what Prometheus reads, as the page lists them, and asking for them often costs little."""

import asyncio
import re
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI

from anabranch.api.health import monitor
from anabranch.api.health.prometheus import METRICS, Sample, expose
from anabranch.api.routes.operations import metrics
from anabranch.engine.model import LimitKind, SessionKind
from anabranch.settings import Settings
from anabranch.workflows.definition import Workflow
from anabranch.workflows.nodes import Spread
from anabranch.workflows.work import Breaker
from tests.support.application import create_app
from tests.support.engine import EngineHarness, fan_out
from tests.support.nodes import make_node
from tests.support.proxy import Proxy
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.postgres
BASE = "http://127.0.0.1:8787"
PAGE = Path(__file__).parents[2] / "docs" / "reference" / "metrics.md"
LABEL = r'[a-zA-Z_]\w*="(?:[^"\\\n]|\\["\\n])*"'
SAMPLE = re.compile(rf"([a-zA-Z_:][\w:]*)(?:\{{({LABEL}(?:,{LABEL})*)\}})? (\d+(?:\.\d+)?(?:e[+-]\d+)?)")
SUFFIXES = {"histogram": ("_bucket", "_sum", "_count"), "counter": ("",), "gauge": ("",)}
Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def parse(text: str) -> Samples:
    """The samples of a text in Prometheus's format, read as strictly as the format allows."""
    assert text.endswith("\n")
    kinds: dict[str, str] = {}
    samples: Samples = {}
    name = ""
    for line in text.splitlines():
        if line.startswith("# HELP "):
            name = line.split(" ", 3)[2]
            assert name not in kinds, f"{name} stands twice"
        elif line.startswith("# TYPE "):
            _, _, named, kinds[name] = line.split(" ")
            assert named == name
        else:
            match = SAMPLE.fullmatch(line)
            assert match, line
            assert match[1] in {name + suffix for suffix in SUFFIXES[kinds[name]]}, line
            labels = tuple(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', match[2] or ""))
            assert (match[1], labels) not in samples, f"{line} stands twice"
            samples[match[1], labels] = float(match[3])
    return samples


@pytest.fixture
def app(database_url: str, tmp_path: Path) -> FastAPI:
    return create_app(Settings(home=tmp_path / "home"), database_url)


@pytest.fixture
async def api(app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app)
    async with app.router.lifespan_context(app), httpx.AsyncClient(transport=transport, base_url=BASE) as client:
        await app.state.gateway.ready()
        yield client


async def scrape(api: httpx.AsyncClient) -> Samples:
    answer = await api.get("/metrics")
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    return parse(answer.text)


async def test_metrics_tell_of_jobs_tasks_and_requests(api: httpx.AsyncClient, engine: EngineHarness) -> None:
    await api.post("/api/jobs/submit/hello_world", json={"n": 3})
    await api.get("/api/jobs/nothing%0Ahere")
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not await engine.claim(1, queues=["plan:hello_world"]):
            await asyncio.sleep(0.01)

    told = await scrape(api)

    assert told["anabranch_jobs", (("status", "running"),)] == 1
    assert told["anabranch_tasks", (("queue", "plan:hello_world"), ("status", "running"))] == 1
    assert told["anabranch_sessions", (("kind", "worker"),)] == 1
    assert told["anabranch_worker_slots", ()] == 100
    assert told["anabranch_queue_workers", (("queue", "default"),)] == 1
    assert told["anabranch_database_up", ()] == 1
    assert told["anabranch_database_bytes", ()] > 1_000_000
    assert told["process_resident_memory_bytes", ()] > 10_000_000
    route = (("route", "/api/jobs/submit/{job_type}"), ("method", "POST"))
    assert told["anabranch_http_requests_total", (*route, ("status", "202"))] == 1
    assert told["anabranch_http_request_seconds_count", route] == 1
    assert told["anabranch_http_request_seconds_bucket", (*route, ("le", "+Inf"))] == 1
    assert not any("nothing" in value for _, labels in told for _, value in labels)


async def test_the_page_lists_every_metric_of_the_answer(api: httpx.AsyncClient, engine: EngineHarness) -> None:
    breakers = {(LimitKind.HANDLER, "do"): Breaker(failures=1, window_seconds=1, open_seconds=1)}
    await engine.store.open_session(SessionKind.WORKER, [], 1, timedelta(minutes=1), {"do": "1"}, breakers)
    await engine.store.cancel((await engine.submit(fan_out(1))).job_id, "test")
    await engine.submit(fan_out(1), run=2)
    await engine.finish(await engine.claim(), ran=timedelta(0))
    await engine.sweep()
    await api.post("/api/jobs/submit/hello_world", json={"n": 3})
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not await engine.claim(1, queues=["plan:hello_world"]):
            await asyncio.sleep(0.01)
    told = await scrape(api)
    listed = re.findall(r"^\| `(\w+)` \|", PAGE.read_text(), re.MULTILINE)
    answered = {re.sub(r"(?<=_seconds)_(bucket|sum|count)$", "", name) for name, _ in told}
    assert listed == sorted(answered)


async def test_ended_jobs_are_counted_once_by_workflow_and_state(api: httpx.AsyncClient, engine: EngineHarness) -> None:
    jobs = [await engine.submit(fan_out(0), run=run) for run in range(3)]
    for job in jobs[:2]:
        await engine.store.cancel(job.job_id, "test")
    await engine.finish(await engine.claim())
    await engine.sweep()

    told = await scrape(api)

    counted = {labels: value for (name, labels), value in told.items() if name == "anabranch_job_seconds_count"}
    assert counted == {
        (("workflow", "fan_out"), ("status", "cancelled")): 2,
        (("workflow", "fan_out"), ("status", "completed")): 1,
    }
    assert not [name for name, _ in told if "jobs_ended" in name]


async def test_of_very_many_queues_some_have_series_of_their_own(
    api: httpx.AsyncClient, engine: EngineHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that nobody serves before all, for an alert names them."""
    monkeypatch.setattr(metrics, "MAX_QUEUES", 3)
    for queue, count in (("a", 1), ("b", 1), ("c", 5), ("d", 4), ("e", 3)):
        work = make_node("work", "do", queue=queue, spread=Spread.FIXED, count=count)
        await engine.submit(Workflow(f"of_{queue}", (work,)))
    await engine.store.open_session(SessionKind.WORKER, ["a", "c", "d", "e"], 1, timedelta(seconds=60))

    told = await scrape(api)

    def of(metric: str, **more: str) -> dict[str, float]:
        found = {dict(labels)["queue"]: value for (name, labels), value in told.items()
                 if name == metric and more.items() <= dict(labels).items()}  # fmt: skip
        return {queue: value for queue, value in found.items() if not queue.startswith("plan:")}

    assert of("anabranch_tasks", status="ready") == {"b": 1, "c": 5, "d": 4, "other queues": 4}
    assert of("anabranch_queue_workers") == {"b": 0, "c": 1, "d": 1, "other queues": 1}


async def test_labels_of_requests_are_of_a_closed_set(api: httpx.AsyncClient) -> None:
    for number in range(20):
        await api.get(f"/nowhere/{number}")
        await api.request(f"ODD{number}", "/livez")
    told = await scrape(api)
    seen = {labels for name, labels in told if name == "anabranch_http_requests_total"}
    assert seen == {
        (("route", "none"), ("method", "GET"), ("status", "404")),
        (("route", "/livez"), ("method", "other"), ("status", "405")),
    }


async def test_many_scrapers_ask_the_database_once(app: FastAPI, api: httpx.AsyncClient) -> None:
    signs, asked = app.state.gateway.vitals, 0
    ask = signs.gauges

    async def count() -> object:
        nonlocal asked
        asked += 1
        return await ask()

    signs.gauges = count
    await asyncio.gather(*(scrape(api) for _ in range(30)))
    assert asked == 1


async def test_o1_metrics_answer_while_the_database_is_silent(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(monitor, "QUERY_TIMEOUT_SECONDS", 0.3)
    async with Proxy(database_url) as proxy:
        app = create_app(Settings(home=tmp_path / "home"), proxy.url)
        transport = httpx.ASGITransport(app)
        async with app.router.lifespan_context(app), httpx.AsyncClient(transport=transport, base_url=BASE) as api:
            await app.state.gateway.ready()
            proxy.stall()
            told = await scrape(api)
            proxy.heal()
    assert told["anabranch_database_up", ()] == 0
    assert ("anabranch_database_bytes", ()) not in told
    assert ("process_cpu_seconds_total", ()) in told


def test_the_list_is_sorted_and_its_names_say_their_unit() -> None:
    assert [metric.name for metric in METRICS] == sorted({metric.name for metric in METRICS})
    for metric in METRICS:
        assert metric.name.startswith(("anabranch_", "process_"))
        assert metric.name.endswith("_total") == (metric.kind == "counter")


def test_a_label_can_hold_anything() -> None:
    sample = Sample("anabranch_tasks", {"queue": 'a"b\\c\nd', "status": "ready"}, 0.25)
    assert parse(expose([sample])) == {("anabranch_tasks", (("queue", 'a\\"b\\\\c\\nd'), ("status", "ready"))): 0.25}
