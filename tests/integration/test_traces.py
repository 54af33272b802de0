"""One trace goes from the request over the tasks and child jobs to the notification, through real processes."""

import asyncio
import json
import signal
import socket
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import httpx
import psycopg
import pytest

from anabranch.access import Scope
from anabranch.adapters import otel
from anabranch.api.main import create_app
from anabranch.api.request_traces import read_traceparent
from anabranch.app import open_tracer
from anabranch.engine.model import Ended
from anabranch.engine.ports import NO_TRACER
from anabranch.engine.registry import Registry
from anabranch.engine.sessions.live_session import HeldTask
from anabranch.engine.submitting.submission import CURRENT_TRACE
from anabranch.engine.worker.processes.pool import HandlerProcesses
from anabranch.engine.worker.runner import Runner
from anabranch.settings import Settings
from tests.support.collector import Collector, SeenSpan, open_collector
from tests.support.crew import Stage, Start, open_stage
from tests.support.engine import EngineHarness, fan_out
from tests.support.receiver import SECRET, Receiver, open_receiver
from tests.support.serving import make_key
from tests.support.waiting import PATIENCE_SECONDS

TRACE, CALLER = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PARENT = f"00-{TRACE}-{CALLER}-01"
PLUGIN = """
import os
from anabranch import Context, Permanent, handler

def see(ctx):
    return {"traceparent": ctx.traceparent, "headers": os.environ.get("OTEL_EXPORTER_OTLP_HEADERS")}

@handler("see")
def see_in_child(ctx: Context) -> dict:
    return see(ctx)

@handler("see_quickly", quick=True)
def see_quickly(ctx: Context) -> dict:
    return see(ctx)

@handler("see_in_loop")
async def see_in_loop(ctx: Context) -> dict:
    return see(ctx)

@handler("break", quick=True)
def fail(ctx: Context) -> dict:
    raise Permanent("secret words")
"""
# A library of the API imports what is there of OpenTelemetry's interfaces, and no implementation.
IMPORTS = """
import sys, anabranch.app
anabranch.app.open_tracer("worker")
found = [name for name in sys.modules if "opentelemetry" in name]
import anabranch.api.main
print(found + [name for name in sys.modules if name.startswith(("opentelemetry.sdk", "opentelemetry.exporter"))])
"""
INNER = "workflow_id: inner\nnodes: {only: {handler: see}}\noutput: {seen: '{{ nodes.only.output }}'}\n"
OUTER = """
workflow_id: outer
nodes:
  quick: {handler: see_quickly, next: loop}
  loop: {handler: see_in_loop, next: child}
  child: {type: workflow, workflow: inner, next: last}
  last: {handler: break}
"""


def write_plugins(folder: Path) -> Path:
    plugins = folder / "plugins"
    plugins.mkdir()
    for name, text in {"seeing.py": PLUGIN, "inner.yaml": INNER, "outer.yaml": OUTER}.items():
        (plugins / name).write_text(text)
    return plugins


async def run_job(stage: Stage, receiver: Receiver, headers: dict[str, str]) -> str:
    """A job that ended, whose end was announced, and all its processes stopped."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = found.getsockname()[1]
    members = [
        stage.crew.start("api", port=port, callback_hosts="127.0.0.1"),
        stage.crew.start("orchestrator", callback_hosts="127.0.0.1"),
        stage.crew.start("worker"),
    ]
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60) as api:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not await answers(api):
                await asyncio.sleep(0.1)
        callbacks = [{"url": receiver.url(), "secret": SECRET}]
        wanted = {"workflow": "outer", "parameters": {}, "callbacks": callbacks}
        answer = await api.post("/api/jobs", json=wanted, headers=headers)
        assert answer.status_code == 202, answer.text
        await receiver.wait(1)
    for member in members:
        member.send(signal.SIGTERM)
    for member in members:
        assert await member.ended() in (0, -signal.SIGTERM), member.log.read_text()  # uvicorn ends by its signal
    return str(answer.json()["job_id"])


async def answers(api: httpx.AsyncClient) -> bool:
    try:
        return (await api.get("/readyz")).is_success
    except httpx.TransportError:
        return False


def one(collector: Collector, name: str) -> SeenSpan:
    (span,) = [span for span in collector.spans if span.name == name]
    return span


@pytest.mark.postgres
async def test_one_trace_goes_from_the_request_to_the_notification(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugins = write_plugins(tmp_path)
    with open_collector() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=key-of-the-collector")
        async with open_receiver() as receiver, open_stage(Start(tmp_path, plugins, database_url, 30)) as stage:
            job_id = await run_job(stage, receiver, {"traceparent": PARENT})

    assert {span.trace for span in collector.spans} == {TRACE}
    request = one(collector, "POST /api/jobs")
    assert (request.role, request.parent) == ("api", CALLER)
    tasks = {name: one(collector, f"task {name}") for name in ("see_quickly", "see_in_loop", "break", "see")}
    assert {span.role for span in tasks.values()} == {"worker"}
    child = one(collector, "task anabranch.workflow")
    assert (child.parent, tasks["see"].parent) == (request.id, child.id)
    assert {tasks[name].parent for name in ("see_quickly", "see_in_loop", "break")} == {request.id}
    assert tasks["break"].failed
    assert tasks["break"].attributes["error.type"] == "task.failed"
    assert tasks["break"].attributes["job"] == job_id
    call = one(collector, "webhook job.failed")
    assert (call.role, call.parent, call.failed) == ("orchestrator", request.id, False)
    assert receiver.requests[0].headers["traceparent"] == f"00-{TRACE}-{call.id}-01"
    assert "secret words" not in repr(collector.spans)
    assert {headers["authorization"] for headers in collector.headers} == {"key-of-the-collector"}
    assert collector.counts["worker", "anabranch.span.duration", "task see_quickly"] == 1
    assert collector.counts["orchestrator", "anabranch.span.duration", "webhook job.failed"] == 1
    with psycopg.connect(database_url) as database:
        seen = database.execute(
            "select l.handler, o.result from app.outcomes o join app.lanes l on l.id = o.lane"
            " where o.result ? 'traceparent'"
        ).fetchall()
    assert {handler: result["traceparent"] for handler, result in seen} == {
        name: f"00-{TRACE}-{tasks[name].id}-01" for name in ("see", "see_quickly", "see_in_loop")
    }
    assert {result["headers"] for _, result in seen} == {None}


@pytest.mark.postgres
async def test_without_an_endpoint_the_trace_of_the_caller_goes_through(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_ENDPOINT", raising=False)
    plugins = write_plugins(tmp_path)
    async with open_receiver() as receiver, open_stage(Start(tmp_path, plugins, database_url, 30)) as stage:
        await run_job(stage, receiver, {"traceparent": PARENT})
    assert receiver.requests[0].headers["traceparent"] == PARENT


@pytest.mark.parametrize(
    "text", [None, "", "01-" + PARENT[3:], PARENT.upper(), PARENT + "-x", f"00-{'0' * 32}-{CALLER}-01", PARENT + "\n"]
)
def test_a_header_that_is_no_traceparent_is_as_if_there_were_none(text: str | None) -> None:
    assert read_traceparent(text) is None
    assert read_traceparent(PARENT) == PARENT


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_SDK_DISABLED": "true"},
        {
            "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9",
            "OTEL_TRACES_EXPORTER": "none",
            "OTEL_METRICS_EXPORTER": "none",
        },
    ],
)
def test_nothing_of_opentelemetry_is_imported_where_nothing_is_exported(variables: dict[str, str]) -> None:
    done = subprocess.run([sys.executable, "-c", IMPORTS], env=variables, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_an_endpoint_without_the_extra_is_logged_and_nothing_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.delitem(sys.modules, "anabranch.adapters.otel", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    assert open_tracer("api") is NO_TRACER


def test_a_collector_that_is_away_makes_nothing_fail_or_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    tracer = otel.OtelTracer("worker")
    for _ in range(5000):  # more than its queue holds
        with tracer.span("task", "consumer", PARENT, dict) as span:
            assert str(span.traceparent).startswith(f"00-{TRACE}-")
    tracer.close()


def test_of_very_many_short_tasks_some_are_shown_and_all_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otel, "MAX_SPANS_PER_SECOND", 3)
    monkeypatch.setattr("anabranch.adapters.otel.time.monotonic", lambda: 7.0)
    with open_collector() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        tracer = otel.OtelTracer("worker")
        continued = []
        for _ in range(10):
            with tracer.span("task", "consumer", PARENT, dict) as span:
                continued.append(span.traceparent)
        tracer.close()
    assert len(collector.spans) == 3
    assert continued[3:] == [PARENT] * 7
    assert collector.counts["worker", "anabranch.span.count", "task"] == 10
    assert collector.counts["worker", "anabranch.span.duration", "task"] == 3


def test_what_the_caller_did_not_sample_is_not_exported_and_stays_so(monkeypatch: pytest.MonkeyPatch) -> None:
    with open_collector() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        tracer = otel.OtelTracer("api")
        with tracer.span("POST", "server", PARENT[:-1] + "0", dict) as span:
            assert str(span.traceparent).endswith("-00")
        with tracer.span("task", "consumer", None, dict) as span:
            assert span.traceparent is None
        tracer.close()
    assert collector.spans == []
    assert collector.counts["api", "anabranch.span.duration", "POST"] == 1


@pytest.mark.postgres
async def test_s1_only_callers_who_are_known_make_spans_and_choose_their_trace(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = {"Authorization": f"Bearer {make_key(database_url, Scope.SUBMIT)}"}
    with open_collector() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        settings = Settings(home=tmp_path / "home", auth="keys", anonymous_read=True, allowed_hosts=("127.0.0.1",))
        app = create_app(settings, database_url, tracer=open_tracer("api"))
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1:8787") as api,
        ):
            await app.state.gateway.ready()
            trace = {"traceparent": PARENT}
            wanted = {"/stac/search": {}, "/api/jobs/submit/hello_world": {"n": 3}}
            statuses = [(await api.post(path, json=body, headers=trace)).status_code for path, body in wanted.items()]
            refused = await api.post("/stac/search", json={}, headers={**trace, "Authorization": "Bearer anb_wrong"})
            known = await api.post("/api/jobs/submit/hello_world", json={"n": 3}, headers={**trace, **key})
    assert [*statuses, refused.status_code, known.status_code] == [503, 401, 401, 202], "it was admitted, to no catalog"
    (span,) = collector.spans
    assert (span.name, span.trace, span.parent) == ("POST /api/jobs/submit/{job_type}", TRACE, CALLER)


@pytest.mark.postgres
async def test_an_attempt_that_is_handed_back_is_no_error(
    engine: EngineHarness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither one for which a worker has no handler, nor one that a worker that stops has interrupted."""
    before = CURRENT_TRACE.set(PARENT)
    await engine.submit(fan_out(1))
    CURRENT_TRACE.reset(before)
    (claim,) = await engine.claim()
    with open_collector() as collector, closing(HandlerProcesses(1, [])) as children:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        tracer = otel.OtelTracer("worker")
        runner = Runner(engine.store, Registry(), children, engine.results, tmp_path, engine.session, tracer)
        ((_, report),) = await runner.run([HeldTask(claim, 0.0)])
        with pytest.raises(asyncio.CancelledError), tracer.span("stopped", "consumer", PARENT, dict):
            raise asyncio.CancelledError
        runner.close()
        tracer.close()
    assert report is not None
    assert report.ended is Ended.MISSING
    seen = {span.name: (span.failed, span.attributes.get("anabranch.ended")) for span in collector.spans}
    assert seen == {f"task {claim.handler}": (False, "missing"), "stopped": (False, None)}
    assert all("error.type" not in labels for labels in collector.labels)


@pytest.mark.postgres
async def test_a_trace_is_no_part_of_what_makes_a_job_the_same(database_url: str, tmp_path: Path) -> None:
    app = create_app(Settings(home=tmp_path / "home"), database_url)
    transport = httpx.ASGITransport(app)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8787") as api,
    ):
        await app.state.gateway.ready()
        ids = []
        for number in (1, 2):
            parent = PARENT.replace(CALLER, f"{number:016x}")
            answer = await api.post("/api/jobs/submit/hello_world", json={"n": 3}, headers={"traceparent": parent})
            ids.append(answer.json()["job_id"])
    assert ids[0] == ids[1]
    with psycopg.connect(database_url) as database:
        assert json.dumps(database.execute("select traceparent from app.job_traces").fetchall()) == json.dumps(
            [[PARENT.replace(CALLER, f"{1:016x}")]]
        )
