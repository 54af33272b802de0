"""OGC API - Processes: a public client executes workflows, and the answers are those of the standard."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import Future
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import psycopg
import pytest
from owslib.ogcapi.processes import Processes
from psycopg.rows import TupleRow

from anabranch.access import KeyRequest, Scope
from anabranch.adapters.postgres.store.keys import open_keys
from anabranch.embedded.cluster import Cluster
from anabranch.settings import Settings
from anabranch.testing.postgres import Databases
from tests.support.application import create_app
from tests.support.server import serve
from tests.support.stack import open_stack
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.postgres

PUBLIC = "https://data.example.org/anb"
EXCEPTIONS = "http://www.opengis.net/def/exceptions/ogcapi-processes-1/1.0"
RESULTS = "http://www.opengis.net/def/rel/ogc/1.0/results"
PLUGIN = """
from anabranch import Permanent, register_handler

@register_handler("greet")
def greet(params):
    return {"text": f"{params['greeting']} {params['name']}", "given": params["given"]}

@register_handler("fail")
def fail(params):
    raise Permanent("it can't be done", code="test.impossible", remedy="Do something else.")
"""
GREET = """
workflow_id: greet
name: Greet somebody
description: Writes a greeting.
inputs:
  name: {type: string, required: true, description: Who is greeted.}
  greeting: {type: string, default: hello}
  given: {type: any, default: null}
nodes:
  write:
    handler: greet
    params: {name: "{{ inputs.name }}", greeting: "{{ inputs.greeting }}", given: "{{ inputs.given }}"}
output: {text: "{{ nodes.write.output.text }}", given: "{{ nodes.write.output.given }}"}
"""
FAILS = "workflow_id: fails\nnodes: {only: {handler: fail}}\n"
ASKS = "workflow_id: asks\ninputs: {n: {type: integer, default: 0}}\nnodes: {gate: {type: gate}}\n"
Document = dict[str, Any]  # JSON


@dataclass(frozen=True)
class Served:
    """A stack that runs jobs; behind `keyed` are a public URL and keys, one for each scope."""

    url: str
    keyed: str
    keys: dict[Scope, str]

    def ask(self, path: str, method: str = "GET", **more: Any) -> httpx.Response:
        return httpx.request(method, self.url + path, timeout=PATIENCE_SECONDS, **more)

    def ask_with_key(self, path: str, scope: Scope, method: str = "GET", **more: Any) -> httpx.Response:
        headers = {"Authorization": f"Bearer {self.keys[scope]}"}
        return httpx.request(method, self.keyed + path, headers=headers, timeout=PATIENCE_SECONDS, **more)

    def execute(self, process: str, **more: Any) -> httpx.Response:
        return self.ask(f"/ogc/processes/{process}/execution", "POST", json=more)

    def follow(self, url: str) -> httpx.Response:
        return httpx.get(url, timeout=PATIENCE_SECONDS)

    def wait(self, url: str) -> Document:
        """The status of a job, once it has ended."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            status: Document = self.follow(url).json()
            if status["status"] not in ("accepted", "running"):
                return status
            time.sleep(0.05)
        raise TimeoutError(url)


@asynccontextmanager
async def open_served(folder: Path, url: str) -> AsyncIterator[Served]:
    plugins = folder / "plugins"
    plugins.mkdir()
    files = {"handlers.py": PLUGIN, "greet.yaml": GREET, "fails.yaml": FAILS, "asks.yaml": ASKS}
    for name, text in files.items():
        (plugins / name).write_text(text)
    settings = Settings(home=folder, plugins=(str(plugins),))
    keyed = Settings(home=folder, plugins=(str(plugins),), auth="keys", public_url=PUBLIC)
    async with AsyncExitStack() as opened:
        async with open_keys(url) as keys:
            made = {scope: (await keys.make(KeyRequest(scope, scope), "a test"))[1].text for scope in Scope}
        await opened.enter_async_context(open_stack(url, folder, [str(plugins)]))
        ours = await opened.enter_async_context(serve(create_app(settings, url)))
        yield Served(ours, await opened.enter_async_context(serve(create_app(keyed, url))), made)


@pytest.fixture(scope="module")
def served(
    tmp_path_factory: pytest.TempPathFactory, postgres: Cluster, postgres_admin: psycopg.Connection[TupleRow]
) -> Iterator[Served]:
    """One for all tests, in a thread of its own: the client that is tested blocks."""
    url, begun = Databases(postgres, postgres_admin).make(), Future[tuple[Served, asyncio.Event, Any]]()

    async def live() -> None:
        over = asyncio.Event()
        async with open_served(tmp_path_factory.mktemp("processes"), url) as made:
            begun.set_result((made, over, asyncio.get_running_loop()))
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
    made, over, loop = begun.result(PATIENCE_SECONDS)
    yield made
    loop.call_soon_threadsafe(over.set)
    thread.join(PATIENCE_SECONDS)


@pytest.fixture(scope="module")
def client(served: Served) -> Processes:
    return Processes(f"{served.url}/ogc")


def link(document: Document, relation: str) -> str:
    (found,) = [one["href"] for one in document["links"] if one["rel"] == relation]
    return str(found)


def problem(answer: httpx.Response, status: int, code: str, kind: str | None = None) -> Document:
    told: Document = answer.json()
    assert (answer.status_code, told["code"]) == (status, code), answer.text
    assert told["type"] == (f"{EXCEPTIONS}/{kind}" if kind else f"/errors/{code}")
    assert answer.headers["content-type"] == "application/problem+json"
    return told


def test_owslib_finds_processes_and_what_they_take(served: Served, client: Processes) -> None:
    assert "http://www.opengis.net/spec/ogcapi-processes-1/1.0/conf/core" in client.conformance()["conformsTo"]
    assert {"greet", "fails", "asks"} <= {one["id"] for one in client.processes()}
    told = client.process("greet")
    assert (told["title"], told["description"], told["version"]) == ("Greet somebody", "Writes a greeting.", "1")
    assert (told["jobControlOptions"], told["outputTransmission"]) == (["async-execute", "dismiss"], ["value"])
    assert told["inputs"]["name"] == {
        "title": "name", "description": "Who is greeted.", "minOccurs": 1,
        "schema": {"type": "string", "description": "Who is greeted."},
    }  # fmt: skip
    assert told["inputs"]["greeting"]["minOccurs"] == 0
    assert told["outputs"]["result"]["schema"]["required"] == ["text", "given"]
    assert link(told, "http://www.opengis.net/def/rel/ogc/1.0/execute") == (
        f"{served.url}/ogc/processes/greet/execution"
    )


@pytest.mark.parametrize("prefers_async", [False, True])
def test_owslib_executes_a_process_and_gets_its_results(served: Served, client: Processes, prefers_async: bool) -> None:
    told = client.execute("greet", {"name": f"Ada {prefers_async}"}, async_=prefers_async)
    assert client.response_headers["Location"] == link(told, "self")
    assert client.response_headers.get("Preference-Applied") == ("respond-async" if prefers_async else None)
    assert (told["processID"], told["type"]) == ("greet", "process")

    done = served.wait(link(told, "self"))
    assert (done["status"], done["progress"], done["jobID"]) == ("successful", 100, told["jobID"])
    assert None not in done.values()
    results = served.follow(link(done, RESULTS)).json()
    assert results == {"result": {"text": f"hello Ada {prefers_async}", "given": None}}


def test_results_have_the_form_that_was_asked_for(served: Served) -> None:
    """`raw` is the standard's default; two who share a job each get their form."""
    answers = [served.execute("greet", inputs={"name": "Eve"}, **form) for form in ({}, {"response": "document"})]
    assert [answer.status_code for answer in answers] == [201, 201]
    raw, document = (served.wait(answer.headers["Location"]) for answer in answers)
    assert raw["jobID"] == document["jobID"]
    value = {"text": "hello Eve", "given": None}
    assert served.follow(link(raw, RESULTS)).json() == value
    assert served.follow(link(document, RESULTS)).json() == {"result": value}
    assert served.ask(f"/ogc/jobs/{raw['jobID']}/results").json() == {"result": value}


def test_inputs_may_be_qualified(served: Served) -> None:
    given = {
        "name": {"href": "https://example.org/a.tif", "type": "image/tiff"},
        "greeting": {"value": "see", "mediaType": "text/plain"},
        "given": [{"value": {"a": 1}}, {"bbox": [1, 2, 3, 4]}, 5],
    }
    done = served.wait(served.execute("greet", inputs=given).headers["Location"])
    value = served.follow(link(done, RESULTS)).json()
    assert value == {"text": "see https://example.org/a.tif", "given": [{"a": 1}, {"bbox": [1, 2, 3, 4]}, 5]}


def test_a_job_that_is_open_has_no_results_and_can_be_dismissed(served: Served) -> None:
    at = f"/ogc/jobs/{served.execute('asks', inputs={'n': 1}).json()['jobID']}"
    assert problem(served.ask(f"{at}/results"), 404, "results.not_ready", "result-not-ready")["retryable"]
    assert served.ask(at).json()["status"] in ("accepted", "running")
    gone = served.ask(at, "DELETE")
    assert (gone.status_code, gone.json()["status"]) == (200, "dismissed")
    problem(served.ask(at, "DELETE"), 409, "job.ended")
    problem(served.ask(f"{at}/results"), 410, "results.dismissed")


def test_a_job_that_failed_says_why(served: Served) -> None:
    done = served.wait(served.execute("fails").headers["Location"])
    assert done["status"] == "failed"
    assert "it can't be done" in done["message"]
    told = problem(served.ask(f"/ogc/jobs/{done['jobID']}/results"), 500, "results.failed")
    assert "test.impossible: it can't be done" in told["detail"]


@pytest.mark.parametrize(
    ("method", "path", "code", "kind"),
    [
        ("GET", "/ogc/processes/gret", "workflow.not_found", "no-such-process"),
        ("POST", "/ogc/processes/gret/execution", "workflow.not_found", "no-such-process"),
        ("GET", "/ogc/jobs/feed", "job.not_found", "no-such-job"),
        ("GET", "/ogc/jobs/feed/results", "job.not_found", "no-such-job"),
        ("DELETE", "/ogc/jobs/nope", "job.not_found", "no-such-job"),
    ],
)
def test_what_is_not_there_has_the_type_of_the_standard(
    served: Served, method: str, path: str, code: str, kind: str
) -> None:
    problem(served.ask(path, method, **({"json": {}} if method == "POST" else {})), 404, code, kind)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"inputs": {"name": 5}}, "job.parameters"),
        ({"inputs": {}}, "job.parameters"),
        ({"inputs": {"name": "a"}, "outputs": {"other": {}}}, "request.invalid"),
        ({"inputs": {"name": "a"}, "outputs": {"result": {"transmissionMode": "reference"}}}, "request.invalid"),
        ({"inputs": {"name": "a"}, "response": "xml"}, "request.invalid"),
        ({"inputs": {"name": "a"}, "subscriber": {"successUri": "https://example.org"}}, "request.invalid"),
    ],
)
def test_what_cannot_be_executed_is_refused(served: Served, body: Document, code: str) -> None:
    problem(served.execute("greet", **body), 422, code)


def test_lists_have_pages_and_choices(served: Served) -> None:
    for n in (101, 102, 103):
        served.execute("asks", inputs={"n": n})
    pages, at = [], f"{served.url}/ogc/jobs?processID=asks&status=running&limit=2"
    while at:
        page = served.follow(at).json()
        pages.append([job["status"] for job in page["jobs"]])
        assert {job["processID"] for job in page["jobs"]} == {"asks"}
        at = next((one["href"] for one in page["links"] if one["rel"] == "next"), "")
    assert pages[0] == ["running", "running"]
    assert sum(map(len, pages)) >= 3
    first = served.ask("/ogc/processes?limit=1").json()
    assert [one["id"] for one in served.follow(link(first, "next")).json()["processes"]] > [first["processes"][0]["id"]]


def test_a_job_of_one_face_is_seen_by_the_other(served: Served) -> None:
    body = {"workflow": "asks", "parameters": {"n": 7}, "labels": {"face": "own"}}
    mine = served.ask("/api/jobs", "POST", json=body).json()["job_id"]
    assert served.execute("asks", inputs={"n": 7}).json()["jobID"] == mine
    assert [job["jobID"] for job in served.ask("/ogc/jobs?label=face=own").json()["jobs"]] == [mine]
    by = served.ask(f"/api/jobs/{mine}/events").json()["items"][0]["by"]
    assert by == "local"


def test_each_act_needs_its_scope(served: Served) -> None:
    run = ("/ogc/processes/asks/execution", "POST", {"json": {"inputs": {"n": 9}}})
    assert served.ask("/ogc").status_code == 200
    assert httpx.get(f"{served.keyed}/ogc", timeout=PATIENCE_SECONDS).json()["code"] == "auth.missing"
    assert served.ask_with_key(run[0], Scope.READ, run[1], **run[2]).json()["code"] == "auth.forbidden"
    made = served.ask_with_key(run[0], Scope.SUBMIT, run[1], **run[2])
    job = f"/ogc/jobs/{made.json()['jobID']}"
    assert served.ask_with_key(job, Scope.SUBMIT, "DELETE").json()["code"] == "auth.forbidden"
    assert served.ask_with_key(job, Scope.OPERATE, "DELETE").json()["status"] == "dismissed"


@pytest.mark.parametrize("prefix", ["", "/anb"])  # a proxy takes the prefix away, or not
def test_links_and_locations_begin_with_the_public_url(served: Served, prefix: str) -> None:
    body = {"inputs": {"n": 20}}
    made = served.ask_with_key(f"{prefix}/ogc/processes/asks/execution", Scope.SUBMIT, "POST", json=body)
    assert made.headers["Location"].startswith(f"{PUBLIC}/ogc/jobs/")
    seen, left = set[str](), [f"{PUBLIC}/ogc", made.headers["Location"], f"{PUBLIC}/ogc/jobs?limit=1"]
    while left:
        seen.add(at := left.pop())
        parts = urlsplit(at.replace(PUBLIC, f"{PUBLIC.partition('.org')[0]}.org{prefix}", 1))
        answer = served.ask_with_key(f"{parts.path}?{parts.query}" if parts.query else parts.path, Scope.READ)
        assert answer.is_success or "/execution" in at, (at, answer.text)
        if "/ogc" in at and answer.is_success:
            left += {one["href"] for one in answer.json().get("links", ())} - seen - set(left)
    assert len(seen) > 5
    assert [one for one in seen if not one.startswith(f"{PUBLIC}/")] == []
