"""The API does what its OpenAPI document says, whatever it is sent: schemathesis over its operations (O6, S1).

By default a few operations are tried, always with the same examples; the slow test tries all of them with many.
"""

import asyncio
import json
import subprocess
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping
from concurrent.futures import Future
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar
from unittest.mock import ANY
from zlib import crc32

import psycopg
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, settings
from psycopg.rows import TupleRow
from schemathesis.checks import not_a_server_error
from schemathesis.core.parameters import ParameterLocation
from schemathesis.generation.hypothesis.builder import HypothesisTestConfig, HypothesisTestMode, create_test
from schemathesis.generation.meta import TestPhase
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    ignored_auth,
    missing_required_header,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)

from anabranch.access import Credential, KeyRequest, Scope
from anabranch.adapters.postgres.store.keys import open_keys
from anabranch.adapters.postgres.store.store import PostgresStore
from anabranch.api.openapi.document import DOCUMENT, load_document, operations_of
from anabranch.app import open_results, open_tiers, purge
from anabranch.canonical import Json
from anabranch.embedded.cluster import Cluster
from anabranch.engine.model import Claim, Ended, JobState, SessionKind
from anabranch.engine.orchestrator import Orchestrator
from anabranch.engine.sessions.keep_session import keep_session
from anabranch.settings import Settings
from anabranch.testing.postgres import Databases
from tests.support.engine import EngineHarness, open_harness
from tests.support.serving import JOB, add_item, serve_api, write_rasters
from tests.support.waiting import PATIENCE_SECONDS

Answer = TypeVar("Answer")
Case = schemathesis.Case[Any]  # of any kind of description
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    response_headers_conformance,
    missing_required_header,
    unsupported_method,
]
GENERATOR = Path(__file__).parents[2] / ".cache" / "generator-venv" / "bin" / "openapi-python-client"
GENERATED = Path(__file__).parents[1] / "data" / "generator"
HANDLER = """
from anabranch import register_handler

@register_handler("do")
def do(params):
    return {}
"""
WIDE = """
workflow_id: wide
inputs: {n: {type: integer, default: 0}}
nodes:
  each: {type: fan_out, source: [1, 2, 3], task: {handler: do, params: {n: "{{ item }}"}}, on_failure: finish}
"""
ASK = """
workflow_id: ask
nodes:
  gate: {type: gate}
  then: {handler: do, depends_on: gate, when: nodes.gate.output.approved}
"""
OPERATIONS = [operation["operationId"] for operation in operations_of(load_document())]
SAMPLE = OPERATIONS[::7]
contract = schemathesis.openapi.from_dict(json.loads(DOCUMENT.read_text()))
contract.config.generation.with_security_parameters = False  # the key is ours to send
contract.config.phases.coverage.unexpected_methods = {"patch"}
contract.config.checks.negative_data_rejection.expected_statuses += ["413", "416"]
# Where wrong data get no refusal: a line of many is refused in its line of the answer, a workflow in the verdict;
# of streams and files schemathesis takes an unknown header for a mistake, though only there.
LENIENT = frozenset({"submit_jobs", "validate_workflow", "stream_events", "fetch_file", "fetch_output"})


@schemathesis.serializer("application/x-ndjson", "application/ndjson", "application/jsonl")
def write_lines(context: schemathesis.SerializationContext, value: Any) -> bytes:  # JSON of any shape
    """A line and the same again."""
    line = json.dumps(value).encode()
    return line + b"\n" + line + b"\n"


@dataclass(frozen=True)
class Stack:
    """A server whose callers need keys, an orchestrator beside it, and the loop of both in a thread."""

    url: str
    home: Path
    key: Credential
    engine: EngineHarness
    loop: asyncio.AbstractEventLoop

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.key.text}"}

    def run(self, work: Coroutine[Any, Any, Answer]) -> Answer:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(60)


@asynccontextmanager
async def open_stack(home: Path, database_url: str) -> AsyncIterator[Stack]:
    plugins = home / "plugins"
    plugins.mkdir(parents=True)
    for name, text in {"do.py": HANDLER, "wide.yaml": WIDE, "ask.yaml": ASK}.items():
        (plugins / name).write_text(text)
    for raster in write_rasters(home / "silver"):
        add_item(database_url, raster)
    limits = {"wrong_keys_per_minute": "0", "max_body_bytes": "10000", "max_upload_bytes": "10000"}
    limits |= {"key_requests_per_minute": "0", "address_requests_per_minute": "0"}
    async with AsyncExitStack() as exits:
        async with open_keys(database_url) as keys:
            _, key = await keys.make(KeyRequest("contract", Scope.ADMIN), "a test")
        await exits.enter_async_context(orchestrating(Settings(home=home), database_url))
        engine = await exits.enter_async_context(open_harness(database_url))
        served = exits.enter_context(serve_api(database_url, home, plugins=str(plugins), auth="keys", **limits))
        yield Stack(served.url, home, key, engine, asyncio.get_running_loop())


@asynccontextmanager
async def orchestrating(settings: Settings, database_url: str) -> AsyncIterator[None]:
    store, stop = PostgresStore(database_url, name="orchestrator", connections=4), asyncio.Event()
    await store.open()
    purging = purge(settings, database_url, store, None)
    part = Orchestrator(store, open_results(settings), purging, open_tiers(settings))
    running = asyncio.create_task(
        keep_session(store, part, stop, kind=SessionKind.ORCHESTRATOR, lease=timedelta(seconds=60))
    )
    try:
        yield
    finally:
        stop.set()
        await running
        await store.close()


@pytest.fixture(scope="module")
def stack(
    tmp_path_factory: pytest.TempPathFactory,
    postgres: Cluster,
    postgres_admin: psycopg.Connection[TupleRow],
    catalog_template: str,
) -> Iterator[Stack]:
    """One for all operations: to make it takes longer than to call any."""
    databases = Databases(postgres, postgres_admin)
    begun: Future[tuple[Stack, asyncio.Event]] = Future()

    async def live() -> None:
        over = asyncio.Event()
        async with open_stack(tmp_path_factory.mktemp("contract") / "home", databases.make(catalog_template)) as made:
            begun.set_result((made, over))
            await over.wait()

    def run() -> None:
        try:
            asyncio.run(live())
        except BaseException as error:
            if begun.done():
                raise
            begun.set_exception(error)

    thread = threading.Thread(target=run)
    thread.start()
    made, over = begun.result(60)
    yield made
    made.loop.call_soon_threadsafe(over.set)
    thread.join(60)


def call(stack: Stack, method: str, path: str, given: Json) -> Any:  # JSON of any shape
    answer = requests.request(method, stack.url + path, json=given, headers=stack.headers, timeout=PATIENCE_SECONDS)
    answer.raise_for_status()
    return answer.json()


async def submit(stack: Stack, workflow: str) -> str:
    wanted: Json = {"workflow": workflow, "rerun": True, "correlation_id": "seed"}
    return str((await asyncio.to_thread(call, stack, "POST", "/api/jobs", wanted))["job_id"])


async def claim(engine: EngineHarness, job_id: str) -> list[Claim]:
    """The three tasks of a job; those of others, which examples have submitted, are handed back."""
    found: list[Claim] = []
    async with asyncio.timeout(PATIENCE_SECONDS):
        while len(found) < 3:
            claims = await engine.claim()
            found += [one for one in claims if one.lane.job_id == job_id]
            await engine.end([one for one in claims if one.lane.job_id != job_id], Ended.HANDED_BACK)
            await asyncio.sleep(0.01)
    return found


async def end(engine: EngineHarness, job_id: str, ended: Ended) -> None:
    """Let one task of a job end so, and the others well."""
    first, *others = await claim(engine, job_id)
    error: Json = {"code": "test.broken", "message": "no", "category": "permanent"}
    await engine.finish(others)
    _, rights = await engine.end([first], ended, None if ended is Ended.COMPLETED else error)
    await engine.advance(rights)


async def reach(stack: Stack, job_id: str, state: JobState) -> str:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while await stack.engine.state(job_id) is not state:
            await asyncio.sleep(0.01)
    return job_id


async def seed(stack: Stack) -> dict[str, list[Any]]:
    """What there is, by the name of the parameter that asks for it."""
    session = await stack.engine.new_session()  # each time: nothing keeps it alive
    engine = EngineHarness(stack.engine.store, stack.engine.reads, session, stack.engine.results)
    completed, failed, waiting, running = [await submit(stack, name) for name in ("wide", "wide", "ask", "wide")]
    await end(engine, completed, Ended.COMPLETED)
    await end(engine, failed, Ended.FAILED)
    await reach(stack, completed, JobState.COMPLETED)
    await reach(stack, failed, JobState.FAILED)
    await reach(stack, waiting, JobState.WAITING)
    key = await asyncio.to_thread(call, stack, "POST", "/api/keys", {"name": "spare", "scope": "read"})
    await asyncio.to_thread(call, stack, "PUT", "/api/limits/queue/spare", {"most": 3})
    return {
        "job_id": [completed, failed, waiting, running],
        "job_type": ["wide", "ask"],
        "workflow_id": ["wide", "ask", "hello_world"],
        "name": ["spare", "hello_world"],
        "kind": ["queue"],
        "node": ["gate", "each"],
        "nodes": [["each"]],
        "from_node": ["each"],
        "parent": [waiting],
        "jobs": [[failed]],
        "workflow": ["wide"],
        "handler": ["do"],
        "parameters": [{}, {"n": 1}],
        "confirm": ["yes", *[""] * 19],  # each time takes as long as all else of its operation
        "key_id": [key["id"]],
        "session": [session],
        "code": ["request.invalid"],
        "collection_id": ["scenes"],
        "item_id": ["hills", "photo", "classes"],
        "asset": ["data"],
        "z": [4],
        "x": [8],
        "y": [5],
        "lon": [9.2],
        "lat": [47.1],
        "width": [64],
        "height": [48],
    }


@pytest.fixture
def known(stack: Stack) -> dict[str, list[Any]]:
    """New things for each operation, since some of them change what they are asked for."""
    return stack.run(seed(stack))


def aim(case: Case, known: Mapping[str, list[Any]], chance: int) -> None:
    """Let three of four examples ask for what there is, whichever valid values were made up."""
    places: tuple[tuple[ParameterLocation, Any], ...] = (
        (ParameterLocation.PATH, case.path_parameters),
        (ParameterLocation.QUERY, case.query),
        (ParameterLocation.HEADER, case.headers),
        (ParameterLocation.BODY, case.body),
    )
    for location, given in places:
        valid = case.meta is not None and not case.meta.is_negative_at(location)
        for name in sorted(known.keys() & given) if valid and chance % 4 and isinstance(given, dict) else ():
            given[name] = known[name][chance // 4 % len(known[name])]
    if operation_id(case) == "stream_events":
        # That of a job that goes on has no end to wait for: of ended jobs, and of none, it is read whole.
        case.path_parameters["job_id"] = [*known["job_id"][:2], "f" * 64][chance % 3]
    if operation_id(case) == "fetch_file" and chance % 4:
        case.path_parameters |= {"job_id": JOB, "name": ("hills.tif", "photo.tif")[chance % 2]}
    if operation_id(case) == "upload_file" and chance % 2:  # no made-up hash is the body's
        for name in ("X-Content-SHA256", "Repr-Digest"):
            case.headers.pop(name, None)


def check(case: Case, stack: Stack, known: Mapping[str, list[Any]]) -> None:
    chance = crc32(repr((case.path_parameters, case.query, case.headers, case.body)).encode("utf-8", "replace"))
    aim(case, {**known, "Idempotency-Key": [f"{operation_id(case)} {chance}"]}, chance)
    checks = [*CHECKS, declared_code]
    if operation_id(case) == "show_results":  # OGC wants a status of the failure for the results of a job that failed
        checks.remove(not_a_server_error)
    # What is broken at random may be whole again when it is sent: an empty list in a query is nothing.
    listed = case.meta is not None and case.meta.phase.name is TestPhase.COVERAGE
    if listed and operation_id(case) not in LENIENT:
        checks.append(negative_data_rejection)
    if chance % 4 == 1:  # it asks twice more
        checks.append(ignored_auth)
    case.call_and_validate(stack.url, headers=stack.headers, checks=checks, timeout=PATIENCE_SECONDS)


def operation_id(case: Case) -> str:
    return str(case.operation.definition.raw["operationId"])


def declared_code(_: object, response: Any, case: Case) -> None:
    """A problem has one of the codes that its operation declares."""
    if response.headers.get("content-type") != ["application/problem+json"] or response.status_code == 405:
        return
    responses = case.operation.definition.raw["responses"]
    known = responses.get(str(response.status_code), {})
    if "$ref" in known:
        known = load_document()["components"]["responses"][known["$ref"].rpartition("/")[2]]
    declared = known.get("content", {}).get("application/problem+json", {}).get("examples", {})
    assert response.json()["code"] in declared


def attempt(name: str, examples: int, stack: Stack, known: Mapping[str, list[Any]], *, always_the_same: bool) -> None:
    """Try an operation with its examples, with what its schemas distinguish, and with so many made-up requests."""

    @settings(
        max_examples=examples,
        deadline=None,
        derandomize=always_the_same,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    )
    def try_case(case: Case) -> None:
        check(case, stack, known)

    # Built here and not by `contract.parametrize`: that gives all operations one id, of which xdist runs one, and takes
    # seconds in every process that collects.
    create_test(
        operation=contract.find_operation_by_id(name),
        test_func=try_case,
        config=HypothesisTestConfig(project=contract.config, modes=list(HypothesisTestMode)),
    )()


@pytest.mark.parametrize("name", SAMPLE)
def test_o6_no_answer_is_undocumented(name: str, stack: Stack, known: dict[str, list[Any]]) -> None:
    attempt(name, 5, stack, known, always_the_same=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", OPERATIONS)
def test_o6_no_answer_is_undocumented_however_many(name: str, stack: Stack, known: dict[str, list[Any]]) -> None:
    attempt(name, 100, stack, known, always_the_same=False)


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("PATCH", "/api/webhooks/deliveries", "request.method"),
        ("DELETE", "/api/webhooks/deliveries", "request.method"),
        ("GET", "/api/webhooks/deliveries/replay", "request.method"),
        ("GET", "/api/webhooks/none", "request.route"),
        ("GET", "/api/jobs/none/outputs/a%0Ab", "request.route"),
    ],
)
def test_o6_what_no_route_takes_is_not_taken_for_an_id(stack: Stack, method: str, path: str, code: str) -> None:
    assert requests.request(method, f"{stack.url}{path}", headers=stack.headers, timeout=20).json()["code"] == code


def test_the_description_that_is_served_is_the_one_that_is_tried(stack: Stack) -> None:
    served = requests.get(f"{stack.url}/openapi.json", headers=stack.headers, timeout=20).json()
    assert served == {**load_document(), "servers": [{"url": stack.url}]}


@pytest.mark.slow
def test_a_generated_client_calls_the_api(stack: Stack, tmp_path: Path) -> None:
    """The generator has an environment of its own: `make generator`."""
    if not GENERATOR.exists():
        pytest.skip("openapi-python-client is not installed: make generator")
    options = ["--meta", "none", "--fail-on-warning", "--config", str(GENERATED / "config.yaml")]
    made = [str(GENERATOR), "generate", "--path", str(DOCUMENT), "--output-path", str(tmp_path / "generated"), *options]
    subprocess.run(made, check=True, timeout=PATIENCE_SECONDS)
    called = [
        str(GENERATOR.with_name("python")),
        str(GENERATED / "run.py"),
        stack.url,
        stack.key.text,
        "hills",
        "hills.tif",
    ]
    answer = subprocess.run(
        called, env={"PYTHONPATH": str(tmp_path)}, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
    )
    assert answer.returncode == 0, answer.stderr
    assert json.loads(answer.stdout) == {
        "submitted": "SubmittedJob",
        "same": True,
        "parameters": {"n": 7},
        "listed": 1,
        "bytes": (stack.home / "silver" / "jobs" / JOB / "cog" / "hills.tif").stat().st_size,
        "found": ANY,
        "problem": ["Problem", 404, "job.not_found"],
    }
    assert len(json.loads(answer.stdout)["found"]) == 2
