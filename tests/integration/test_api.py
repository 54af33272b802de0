"""The HTTP API on a real database: jobs, health, and what is refused at the edge."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from fastapi import FastAPI

from anabranch.api.health import monitor
from anabranch.canonical import Json
from anabranch.client import Client
from anabranch.engine.model import Claim, Ended, Report, SessionId, SessionKind
from anabranch.engine.sweeping.sweeper import Sweeper
from anabranch.errors import InputError, NotFound
from anabranch.gateway import Gateway
from anabranch.settings import Settings
from tests.support.application import create_app
from tests.support.engine import EngineHarness
from tests.support.server import serve
from tests.support.waiting import PATIENCE_SECONDS

BASE = "http://127.0.0.1:8787"
PAIR = """
from anabranch import Job, register_handler, register_job

@register_job
class Pair(Job):
    job_type = "pair"
    parameters_schema = {"n": {"type": "int", "default": 1}, "note": {"type": "any", "default": None}}
    stages = [
        {"number": 1, "name": "work", "task_type": "do", "parallelism": "fixed", "count": 3, "queue": "default"},
        {"number": 2, "name": "join", "task_type": "do", "queue": "default"},
    ]

@register_handler("do")
def do(params):
    return {}
"""
FLOW = """
workflow_id: flow
description: One step.
inputs: {n: {type: integer, min: 1, default: 1}}
nodes:
  one: {handler: do, params: {n: "{{ inputs.n }}"}}
"""
TWO_STEPS = FLOW + "  two: {handler: do, depends_on: one}\n"
BROKEN = FLOW.replace("handler: do", "handler: doo")


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    plugins = tmp_path / "plugins"
    plugins.mkdir()
    (plugins / "pair.py").write_text(PAIR)
    (plugins / "flow.yaml").write_text(FLOW)
    return Settings(home=tmp_path / "home", plugins=(str(plugins),), max_body_bytes=10_000)


@asynccontextmanager
async def serving(app: FastAPI, base_url: str = BASE) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app)
    async with app.router.lifespan_context(app), httpx.AsyncClient(transport=transport, base_url=base_url) as client:
        yield client


@pytest.fixture
def app(settings: Settings, database_url: str) -> FastAPI:
    return create_app(settings, database_url)


@pytest.fixture
async def api(app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    async with serving(app) as client:
        await app.state.gateway.ready()
        yield client


async def submit(api: httpx.AsyncClient, **parameters: object) -> str:
    answer = await api.post("/api/jobs/submit/pair", json=parameters)
    assert answer.status_code == 202, answer.text
    job_id: str = answer.json()["job_id"]
    return job_id


async def claim(engine: EngineHarness, count: int, session: SessionId | None = None) -> list[Claim]:
    """Tasks of a job that the API has just begun to start."""
    claims: list[Claim] = []
    async with asyncio.timeout(PATIENCE_SECONDS):
        while len(claims) < count:  # it tells nobody
            claims += await engine.claim(count - len(claims), session=session)
            await asyncio.sleep(0.01)
    return claims


async def fail(engine: EngineHarness, claims: list[Claim], error: Json = None) -> None:
    _, rights = await engine.end(claims, Ended.FAILED, error)
    await engine.advance(rights)


def problem(answer: httpx.Response, status: int, code: str) -> dict[str, Any]:  # a problem document
    """The problem document of an answer, whole and as expected."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    told: dict[str, Any] = answer.json()
    assert {"type", "title", "status", "detail", "instance", "code", "remedy", "retryable"} <= told.keys()
    assert (told["status"], told["code"], told["type"]) == (status, code, f"/errors/{code}")
    assert told["correlation_id"] == answer.headers["x-correlation-id"]
    return told


async def test_e15_the_same_request_is_the_same_job(api: httpx.AsyncClient) -> None:
    first = await api.post("/api/jobs/submit/pair", json={"n": 1, "note": "a"})
    again = await api.post("/api/jobs/submit/pair", json={"note": "a"})

    assert (first.status_code, again.status_code) == (202, 200)
    assert (first.json()["created"], again.json()["created"]) == (True, False)
    assert first.json()["job_id"] == again.json()["job_id"]


async def test_e15_a_hundred_equal_requests_at_once_make_one_job(api: httpx.AsyncClient) -> None:
    answers = await asyncio.gather(*(api.post("/api/jobs/submit/pair", json={"n": 7}) for _ in range(100)))

    assert {answer.json()["job_id"] for answer in answers} == {answers[0].json()["job_id"]}
    assert sorted(answer.status_code for answer in answers) == [200] * 99 + [202]
    assert len((await api.get("/api/jobs")).json()["items"]) == 1


async def test_e15_a_rerun_is_another_job(api: httpx.AsyncClient) -> None:
    first = await submit(api)
    second = await api.post("/api/jobs/submit/pair", params={"rerun": "true"})

    assert second.status_code == 202
    assert second.json()["job_id"] != first


async def test_e15_a_failed_job_can_be_submitted_again(api: httpx.AsyncClient, engine: EngineHarness) -> None:
    failed = await submit(api)
    await fail(engine, await claim(engine, 3))

    again = await api.post("/api/jobs/submit/pair")

    assert again.status_code == 202
    assert again.json()["job_id"] != failed


async def test_no_body_means_no_parameters(api: httpx.AsyncClient) -> None:
    answer = await api.post("/api/jobs/submit/pair")
    job = (await api.get(answer.json()["links"]["status"])).json()
    assert job["parameters"] == {"n": 1, "note": None}


async def test_a_submission_says_where_its_job_is(api: httpx.AsyncClient) -> None:
    told = (await api.post("/api/jobs/submit/pair")).json()

    assert told.keys() == {"job_id", "job_type", "status", "created", "links", "failed_before"}
    assert told["job_type"] == "pair"
    for name, link in told["links"].items():
        assert name == "stream" or (await api.get(link)).status_code == 200  # a stream goes on


async def test_both_ways_to_submit_make_the_same_job(api: httpx.AsyncClient) -> None:
    one = await submit(api, n=3)
    other = await api.post("/api/jobs", json={"workflow": "pair", "parameters": {"n": 3}})
    assert (other.status_code, other.json()["job_id"]) == (200, one)


async def test_jobs_are_found_by_their_labels(api: httpx.AsyncClient) -> None:
    both = {"workflow": "pair", "parameters": {"n": 1}, "labels": {"team": "maps", "run": "a=b"}}
    made = [
        await api.post("/api/jobs", json=both),
        await api.post("/api/jobs/submit/pair", params={"label": ["team=maps"]}, json={"n": 2}),
        await api.post("/api/jobs/submit/pair", json={"n": 3}),
    ]
    first, second, third = (answer.json()["job_id"] for answer in made)

    async def found(*labels: str, **more: str) -> list[str]:
        answer = await api.get("/api/jobs", params={"label": labels, **more})
        return [job["job_id"] for job in answer.json()["items"]]

    assert await found() == [third, second, first]
    assert await found("team=maps") == [second, first]
    assert await found("team=maps", "run=a=b", workflow="pair", status="running") == [first]
    assert await found("team=maps", workflow="flow") == await found("team=map") == await found("Team=maps") == []
    assert (await api.get(f"/api/jobs/{first}")).json()["labels"] == {"run": "a=b", "team": "maps"}
    shown = [job["labels"] for job in (await api.get("/api/jobs")).json()["items"]]
    assert shown == [{}, {"team": "maps"}, {"run": "a=b", "team": "maps"}]


async def test_e15_labels_are_no_part_of_a_job_s_identity(api: httpx.AsyncClient) -> None:
    wanted = {"workflow": "pair", "parameters": {"n": 1}}
    key = {"Idempotency-Key": "mine"}
    first = await api.post("/api/jobs", json={**wanted, "labels": {"team": "maps"}}, headers=key)
    other = await api.post("/api/jobs", json={**wanted, "labels": {"team": "roads"}})
    again = await api.post("/api/jobs", json={**wanted, "labels": {"team": "roads"}}, headers=key)

    assert first.json()["job_id"] == other.json()["job_id"] == again.json()["job_id"]
    assert (other.status_code, again.headers["Idempotency-Replayed"]) == (200, "true")
    assert (await api.get(first.json()["links"]["self"])).json()["labels"] == {"team": "maps"}


@pytest.mark.parametrize(
    ("labels", "where", "said"),
    [
        ({"a b": "x"}, "body.labels.a b.[key]", "begins with a letter or a digit"),
        ({"n" * 64: "x"}, "body.labels", "1 to 63"),
        ({"a": "x" * 201}, "body.labels.a", "1 to 200 characters"),
        ({"a": "x\ny"}, "body.labels.a", "control character"),
        ({"a": ""}, "body.labels.a", "1 to 200 characters"),
        ({"a": 5}, "body.labels.a", "valid string"),
        ({f"n{i}": "x" for i in range(17)}, "body.labels", "at most 16"),
    ],
)
async def test_labels_are_bounded(api: httpx.AsyncClient, labels: dict[str, Json], where: str, said: str) -> None:
    answer = await api.post("/api/jobs", json={"workflow": "pair", "labels": labels})
    (mistake,) = problem(answer, 422, "request.invalid")["errors"]
    assert mistake["where"].startswith(where)
    assert said in mistake["detail"]


@pytest.mark.parametrize(
    ("pairs", "said"),
    [
        (["team"], "NAME=VALUE"),
        (["=maps"], "name of a label"),
        (["team="], "value of a label"),
        (["a=1", "a=2"], "once"),
    ],
)
async def test_labels_in_a_query_are_name_and_value(api: httpx.AsyncClient, pairs: list[str], said: str) -> None:
    for answer in (
        await api.get("/api/jobs", params={"label": pairs}),
        await api.post("/api/jobs/submit/pair", params={"label": pairs}, json={}),
    ):
        assert said in problem(answer, 422, "request.invalid")["detail"]


async def test_priority_is_taken_from_the_query_or_the_body(api: httpx.AsyncClient) -> None:
    one = await api.post("/api/jobs/submit/pair?priority=2", json={"n": 1})
    other = await api.post("/api/jobs", json={"workflow": "pair", "parameters": {"n": 2}, "priority": 9})

    found = [(await api.get(answer.json()["links"]["self"])).json()["priority"] for answer in (one, other)]
    assert found == [2, 9]


async def test_o3_a_job_keeps_the_correlation_id_of_its_request(api: httpx.AsyncClient) -> None:
    answer = await api.post("/api/jobs/submit/pair", headers={"X-Correlation-ID": "from the header"})

    assert answer.headers["x-correlation-id"] == "from the header"
    job = (await api.get(answer.json()["links"]["self"])).json()
    assert job["correlation_id"] == "from the header"


async def test_o3_the_correlation_id_of_the_body_stands_above_the_header(api: httpx.AsyncClient) -> None:
    body = {"workflow": "pair", "correlation_id": "from the body"}
    answer = await api.post("/api/jobs", json=body, headers={"X-Correlation-ID": "from the header"})

    assert answer.headers["x-correlation-id"] == "from the body"
    job = (await api.get(answer.json()["links"]["self"])).json()
    assert job["correlation_id"] == "from the body"


async def test_a_status_tells_how_far_a_job_is(api: httpx.AsyncClient, engine: EngineHarness) -> None:
    job_id = await submit(api, n=4)
    claims = await claim(engine, 3)
    await engine.finish(claims[:1], {"did": 1})

    job = (await api.get(f"/api/jobs/status/{job_id}")).json()

    assert (job["job_id"], job["job_type"], job["status"]) == (job_id, "pair", "running")
    assert (job["stage"], job["total_stages"], job["progress"]) == (1, 2, pytest.approx(1 / 3))
    assert [(node["name"], node["status"], node["tasks"]["total"]) for node in job["nodes"]] == [
        ("work", "running", 3),
        ("join", "pending", 0),
    ]
    assert job["tasks"] | {"total": 3, "completed": 1, "running": 2, "failed": 0} == job["tasks"]
    assert (job["stage_results"], job["result"], job["error"], job["finished_at"]) == ({}, None, None, None)
    assert job["created_at"].endswith("Z")
    assert job["parameters"] == {"n": 4, "note": None}


async def test_a_completed_job_has_its_result_under_both_names(api: httpx.AsyncClient, engine: EngineHarness) -> None:
    job_id = await submit(api)
    await engine.finish(await claim(engine, 3), {"did": 1})
    await engine.finish(await claim(engine, 1), {"joined": 3})

    job = (await api.get(f"/api/jobs/{job_id}")).json()

    assert (job["status"], job["stage"], job["progress"]) == ("completed", 2, 1.0)
    assert job["result"] is not None
    assert job["result"] == job["result_data"]
    assert {number: (done["node"], done["tasks"]["completed"]) for number, done in job["stage_results"].items()} == {
        "1": ("work", 3),
        "2": ("join", 1),
    }
    assert job["updated_at"] == job["finished_at"]
    assert job == (await api.get(f"/api/jobs/status/{job_id}")).json()


async def test_o6_a_failed_job_says_why_and_where(api: httpx.AsyncClient, engine: EngineHarness) -> None:
    job_id = await submit(api)
    error: dict[str, Json] = {"code": "raster.empty", "message": "no pixels", "remedy": "Send some."}
    await fail(engine, await claim(engine, 3), error)

    job = (await api.get(f"/api/jobs/{job_id}")).json()

    assert (job["status"], job["stage"]) == ("failed", 1)
    assert job["error"].items() >= {**error, "node": "work"}.items()
    assert job["stage_results"]["2"]["status"] == "skipped"


async def test_o6_an_error_without_a_remedy_has_that_of_its_code(api: httpx.AsyncClient, engine: EngineHarness) -> None:
    job_id = await submit(api)
    await fail(engine, await claim(engine, 3), {"code": "storage.not_found", "message": "it is gone"})
    error = (await api.get(f"/api/jobs/{job_id}")).json()["error"]
    assert error["remedy"] == "Send the file first, or fix the address; `anabranch storage ls` lists what there is."


async def test_a_start_of_an_id_is_enough_if_it_fits_no_other(api: httpx.AsyncClient) -> None:
    ids = [await submit(api, n=number) for number in range(17)]  # two of them begin alike: there are 16 digits
    alike = next(one[0] for one in ids if sum(other[0] == one[0] for other in ids) > 1)

    assert (await api.get(f"/api/jobs/{ids[0][:20]}")).json()["job_id"] == ids[0]
    told = problem(await api.get(f"/api/jobs/{alike}"), 409, "job.ambiguous")["detail"]
    fitting = sorted(one[:12] for one in ids if one[0] == alike)
    assert told == f"several jobs begin with {alike}: {', '.join(fitting[:5])}" + ", and more" * (len(fitting) > 5)


@pytest.mark.parametrize("path", ["/api/jobs/0123abc", "/api/jobs/status/nonsense", "/api/jobs/%00/tasks"])
async def test_o6_an_unknown_job_is_a_problem(api: httpx.AsyncClient, path: str) -> None:
    assert problem(await api.get(path), 404, "job.not_found")["remedy"]


async def test_o5_a_purged_job_is_gone_and_says_when(
    api: httpx.AsyncClient, engine: EngineHarness, database_url: str
) -> None:
    job = await submit(api)
    assert (await api.post(f"/api/jobs/{job}/cancel", json={})).status_code == 200
    await engine.store.retention().purge(timedelta(0), 0)
    for path in ("", "/tasks", "/events", "/logs", "/graph", "/graph.svg"):
        told = problem(await api.get(f"/api/jobs/{job[:12]}{path}"), 410, "job.purged")
        assert "was purged at" in told["detail"]
        assert "it was cancelled at" in told["detail"]
    problem(await api.post(f"/api/jobs/{job}/cancel", json={}), 410, "job.purged")
    assert await submit(api) != job


async def test_o6_an_unknown_workflow_is_a_problem_that_names_the_known(api: httpx.AsyncClient) -> None:
    told = problem(await api.post("/api/jobs/submit/nothing"), 404, "workflow.not_found")
    assert "pair" in told["remedy"]


async def test_o6_every_mistake_in_parameters_is_told(api: httpx.AsyncClient) -> None:
    told = problem(await api.post("/api/jobs/submit/pair", json={"n": "x", "z": 1}), 422, "job.parameters")
    assert "n must be" in told["detail"]
    assert "z is not an input" in told["detail"]
    assert told["retryable"] is False


async def test_o6_a_job_can_be_checked_without_being_submitted(api: httpx.AsyncClient) -> None:
    checked = await api.post("/api/jobs/validate", json={"workflow": "pair", "parameters": {"n": 2}})
    assert (checked.status_code, checked.json()["priority"], checked.json()["parameters"]["n"]) == (200, 5, 2)
    problem(await api.post("/api/jobs/validate", json={"workflow": "nothing"}), 404, "workflow.not_found")
    assert (await api.get("/api/jobs")).json()["items"] == []


@pytest.mark.parametrize("route", ["/api/jobs", "/api/jobs/validate"])
async def test_o6_mistakes_beside_the_parameters_are_told_with_those_in_them(
    api: httpx.AsyncClient, route: str
) -> None:
    wrong = {"workflow": "pair", "parameters": {"n": "x", "z": 1}, "priority": 12, "rerum": True}
    told = problem(await api.post(route, json=wrong), 422, "request.invalid")
    assert [mistake["where"] for mistake in told["errors"]] == [
        "body.priority", "body.rerum", "parameters.z", "parameters.n",
    ]  # fmt: skip
    told = problem(await api.post(route, json={"workflow": "nothing", "priority": 12}), 422, "request.invalid")
    assert [mistake["where"] for mistake in told["errors"]] == ["body.priority", "workflow"]
    del wrong["priority"], wrong["rerum"]
    told = problem(await api.post(route, json=wrong), 422, "job.parameters")
    assert [mistake["where"] for mistake in told["errors"]] == ["parameters.z", "parameters.n"]


@pytest.mark.parametrize(
    ("path", "body", "places"),
    [
        ("/api/jobs/submit/pair?priority=12&label=x", {"n": "x", "z": 1}, ["query.label.0", "query.priority"]),
        ("/api/jobs/submit/pair", {"n": "x", "z": 1}, []),
        ("/api/jobs", {"workflow": "pair", "parameters": {"n": "x", "z": 1}, "priority": 12}, ["body.priority"]),
        ("/api/jobs", {"workflow": "pair", "parameters": {"n": "x", "z": 1}}, []),
        ("/ogc/processes/pair/execution", {"inputs": {"n": "x", "z": 1}}, []),
    ],
)
async def test_o6_mistakes_in_query_headers_and_body_are_told_together(
    api: httpx.AsyncClient, path: str, body: dict[str, Json], places: list[str]
) -> None:
    told = problem(await api.post(path, json=body, headers={"Idempotency-Key": "k" * 256}), 422, "request.invalid")
    found = [mistake["where"] for mistake in told["errors"]]
    assert sorted(found) == sorted([*places, "header.Idempotency-Key", "parameters.z", "parameters.n"])


async def test_o6_a_wrong_query_of_an_unknown_workflow_is_told_with_it(api: httpx.AsyncClient) -> None:
    told = problem(await api.post("/api/jobs/submit/nothing?priority=12&x=1"), 422, "request.invalid")
    assert [mistake["where"] for mistake in told["errors"]] == ["query.priority", "query.x", "workflow"]
    problem(await api.post("/api/jobs/submit/pair", headers={"Idempotency-Key": "k" * 256}), 422, "idempotency.key")


async def test_e15_a_submission_after_a_failed_job_names_it(api: httpx.AsyncClient, engine: EngineHarness) -> None:
    job = await submit(api)
    await fail(engine, await claim(engine, 1))
    again = (await api.post("/api/jobs/submit/pair", json={})).json()
    assert (again["created"], again["failed_before"]) == (True, job)
    known = (await api.post("/api/jobs/submit/pair", json={})).json()
    assert (known["created"], known["failed_before"]) == (False, None)
    rerun = (await api.post("/api/jobs/submit/pair?rerun=true", json={})).json()
    assert (rerun["created"], rerun["failed_before"]) == (True, None)


async def test_jobs_are_listed_by_page_the_newest_first(api: httpx.AsyncClient) -> None:
    ids = [await submit(api, n=number) for number in range(3)]

    first = (await api.get("/api/jobs?limit=2")).json()
    rest = (await api.get("/api/jobs", params={"limit": 2, "before": first["next"]})).json()

    assert [job["job_id"] for job in first["items"] + rest["items"]] == ids[::-1]
    assert rest["next"] is None


async def test_the_last_page_that_is_full_has_no_next(api: httpx.AsyncClient) -> None:
    await submit(api)
    assert (await api.get("/api/jobs?limit=1")).json()["next"] is None


async def test_jobs_are_listed_by_state_and_workflow(api: httpx.AsyncClient, engine: EngineHarness) -> None:
    job_id = await submit(api)
    await claim(engine, 1)

    async def ids(query: str) -> list[str]:
        return [job["job_id"] for job in (await api.get(f"/api/jobs?{query}")).json()["items"]]

    assert await ids("status=running&workflow=pair") == [job_id]
    assert await ids("status=completed") == []
    assert await ids("workflow=other") == []


async def test_tasks_are_listed_by_page_in_order(api: httpx.AsyncClient, engine: EngineHarness) -> None:
    job_id = await submit(api)
    await engine.finish(await claim(engine, 1), {"did": 1})

    first = (await api.get(f"/api/jobs/{job_id}/tasks?limit=2")).json()
    rest = (await api.get(f"/api/jobs/{job_id}/tasks?limit=2&after={first['next']}")).json()

    tasks = first["items"] + rest["items"]
    assert [task["task_id"] for task in tasks] == [f"{job_id}-work-{index}" for index in range(3)]
    assert [task["status"] for task in tasks] == ["completed", "ready", "ready"]
    assert (tasks[0]["result"], tasks[0]["attempts"], tasks[0]["index"]) == ({"did": 1}, 1, 0)
    assert rest["next"] is None


async def test_tasks_are_listed_by_node_and_status(api: httpx.AsyncClient, engine: EngineHarness) -> None:
    job_id = await submit(api)
    await claim(engine, 1)

    async def indexes(query: str) -> list[int]:
        return [task["index"] for task in (await api.get(f"/api/jobs/{job_id}/tasks?{query}")).json()["items"]]

    assert await indexes("status=running") == [0]
    assert await indexes("node=work&status=ready") == [1, 2]
    assert await indexes("node=join") == []


async def test_e7_a_cancelled_job_says_why_and_begins_nothing_more(
    api: httpx.AsyncClient, engine: EngineHarness
) -> None:
    job_id = await submit(api)
    await claim(engine, 1)

    answer = await api.post(f"/api/jobs/{job_id[:20]}/cancel", json={"reason": "a typo"})

    job = answer.json()
    assert (answer.status_code, job["job_id"], job["status"]) == (200, job_id, "cancelled")
    assert (job["error"]["code"], job["error"]["message"]) == ("job.cancelled", "a typo")
    assert {node["status"] for node in job["nodes"]} == {"cancelled"}
    assert await engine.claim(10) == []


async def test_a_cancel_needs_no_body(api: httpx.AsyncClient) -> None:
    answer = await api.post(f"/api/jobs/{await submit(api)}/cancel")
    assert (answer.status_code, answer.json()["error"]["message"]) == (200, "it was cancelled on request")


@pytest.mark.parametrize("state", ["completed", "failed", "cancelled"])
async def test_e5_a_job_that_has_ended_cannot_be_cancelled(
    api: httpx.AsyncClient, engine: EngineHarness, state: str
) -> None:
    job_id = await submit(api)
    if state == "cancelled":
        await api.post(f"/api/jobs/{job_id}/cancel")
    elif state == "failed":
        await fail(engine, await claim(engine, 3))
    else:
        await engine.finish(await claim(engine, 3))
        await engine.finish(await claim(engine, 1))

    told = problem(await api.post(f"/api/jobs/{job_id}/cancel"), 409, "job.ended")

    assert told["detail"] == f"job {job_id} has ended: it is {state}"
    assert (await api.get(f"/api/jobs/{job_id}")).json()["status"] == state


async def test_tf6_of_two_cancels_at_once_one_is_answered_200_and_the_other_409(
    api: httpx.AsyncClient, database_url: str
) -> None:
    """As one after the other; all of them have found the job running before the first commits."""
    job_id = await submit(api)
    async with await psycopg.AsyncConnection.connect(database_url) as holder:
        await holder.execute("select 1 from app.jobs where job_id = %s for update", [job_id])
        posted = [
            asyncio.create_task(api.post(f"/api/jobs/{job_id}/cancel", json={"reason": f"reason {number}"}))
            for number in range(2)
        ]
        waiting = (
            "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()"
        )
        async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as watcher:
            while await (await watcher.execute(waiting)).fetchone() != (2,):
                await asyncio.sleep(0.02)
    answers = await asyncio.gather(*posted)
    assert sorted(answer.status_code for answer in answers) == [200, 409]
    (first,) = [answer.json()["error"]["message"] for answer in answers if answer.status_code == 200]
    assert (await api.get(f"/api/jobs/{job_id}")).json()["error"]["message"] == first


async def test_o6_an_unknown_job_cannot_be_cancelled(api: httpx.AsyncClient) -> None:
    problem(await api.post("/api/jobs/0123abc/cancel"), 404, "job.not_found")


async def test_e17_events_are_listed_by_page_in_order(api: httpx.AsyncClient, engine: EngineHarness) -> None:
    job_id = await submit(api)
    await fail(engine, await claim(engine, 3), {"code": "raster.empty", "message": "no pixels"})

    first = (await api.get(f"/api/jobs/{job_id[:20]}/events?limit=2")).json()
    rest = (await api.get(f"/api/jobs/{job_id}/events", params={"after": first["next"]})).json()

    events = first["items"] + rest["items"]
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert [(event["kind"], event["node"]) for event in events[:3]] == [
        ("job.submitted", None),
        ("job.running", None),
        ("node.running", "work"),
    ]
    assert (events[-1]["kind"], events[-1]["data"]["message"]) == ("job.failed", "no pixels")
    assert (rest["next"], events[0].keys()) == (None, {"seq", "at", "kind", "node", "by", "data"})


async def test_a_jobs_graph_has_the_states_of_its_nodes(api: httpx.AsyncClient, engine: EngineHarness) -> None:
    job_id = await submit(api)
    await engine.finish(await claim(engine, 3))

    graph = (await api.get(f"/api/jobs/{job_id[:20]}/graph")).json()

    assert (graph["job_id"], graph["status"]) == (job_id, "running")
    assert [(node["id"], node["status"]) for node in graph["nodes"]] == [("work", "completed"), ("join", "running")]
    assert [(edge["tail"], edge["head"]) for edge in graph["edges"]] == [("work", "join")]
    assert all(node["x"] + node["width"] <= graph["width"] for node in graph["nodes"])
    drawing = await api.get(graph["svg"])
    assert drawing.headers["content-type"] == "image/svg+xml"
    assert "sandbox" in drawing.headers["content-security-policy"]
    assert "completed" in drawing.text


async def test_e16_a_jobs_graph_is_of_the_definition_it_keeps(api: httpx.AsyncClient, files: Path) -> None:
    job = (await api.post("/api/jobs/submit/flow")).json()
    (files / "flow.yaml").write_text(TWO_STEPS)
    await reload(api)

    graph = (await api.get(job["links"]["graph"])).json()

    assert [node["id"] for node in graph["nodes"]] == ["one"]


@pytest.mark.parametrize("path", ["events", "logs", "graph", "graph.svg"])
async def test_o6_an_unknown_job_has_no_history(api: httpx.AsyncClient, path: str) -> None:
    problem(await api.get(f"/api/jobs/0123abc/{path}"), 404, "job.not_found")


async def test_logs_are_listed_by_page(api: httpx.AsyncClient, engine: EngineHarness) -> None:
    job_id = await submit(api)
    claims = await claim(engine, 3)
    reports = [Report(task.fence, Ended.COMPLETED, "null", log=f"{task.index}\n") for task in claims]
    await engine.store.report(engine.session, reports)

    first = (await api.get(f"/api/jobs/{job_id[:20]}/logs?limit=2")).json()
    rest = (await api.get(f"/api/jobs/{job_id}/logs", params={"after": first["next"]})).json()

    assert [log["log"] for log in first["items"] + rest["items"]] == ["0\n", "1\n", "2\n"]
    assert rest["items"][0].keys() == {"task_id", "node", "index", "attempt", "log", "metrics"}
    assert (rest["next"], rest["items"][0]["task_id"]) == (None, f"{job_id}-work-2")


async def test_workers_are_the_live_sessions(api: httpx.AsyncClient, engine: EngineHarness) -> None:
    sessions = (await api.get("/api/workers")).json()

    assert sorted(session["kind"] for session in sessions) == ["api", "worker"]
    keys = {"id", "kind", "host", "pid", "queues", "slots", "running", "waiting", "draining", "began_at", "last_beat"}
    assert all(session.keys() == keys for session in sessions)


@pytest.fixture
def files(settings: Settings) -> Path:
    """The folder with the API's plugins."""
    return Path(settings.plugins[0])


async def reload(api: httpx.AsyncClient) -> dict[str, Any]:  # as the API tells it
    answer = await api.post("/api/workflows/reload")
    assert answer.status_code == 200, answer.text
    told: dict[str, Any] = answer.json()
    return told


async def test_workflows_are_listed_by_name_with_links(api: httpx.AsyncClient) -> None:
    told = (await api.get("/api/workflows")).json()
    found = {flow["workflow_id"]: flow for flow in told["items"]}
    assert {"flow", "pair", "hello_world"} <= found.keys()
    assert list(found) == sorted(found)
    assert (found["flow"]["nodes"], found["flow"]["description"]) == (1, "One step.")
    links = found["flow"]["links"]
    assert [(await api.get(links[name])).status_code for name in ("self", "inputs", "graph")] == [200] * 3
    assert (await api.post(links["submit"])).status_code == 202


async def test_a_workflow_is_shown_with_definition_hash_and_inputs(api: httpx.AsyncClient) -> None:
    told = (await api.get("/api/workflows/flow")).json()
    assert [node["name"] for node in told["definition"]["nodes"]] == ["one"]
    assert len(told["hash"]) == 64
    assert told["inputs"]["properties"]["n"] == {"type": "integer", "minimum": 1, "default": 1}
    assert (await api.get("/api/workflows/flow/schema")).json() == told["inputs"]


@pytest.mark.parametrize("path", ["", "/schema", "/graph.svg"])
async def test_o6_an_unknown_workflow_is_a_problem_that_names_the_nearest(api: httpx.AsyncClient, path: str) -> None:
    told = problem(await api.get(f"/api/workflows/flo{path}"), 404, "workflow.not_found")
    assert told["remedy"].startswith("Did you mean 'flow'?")


async def test_a_drawing_opened_by_itself_runs_and_loads_nothing(api: httpx.AsyncClient) -> None:
    answer = await api.get("/api/workflows/flow/graph.svg")
    assert answer.text.startswith("<svg ")
    assert answer.headers["content-type"].startswith("image/svg+xml")
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert {"sandbox", "default-src 'none'"} <= set(answer.headers["content-security-policy"].split("; "))


async def check(api: httpx.AsyncClient, text: str, kind: str = "application/yaml") -> httpx.Response:
    return await api.post("/api/workflows/validate", content=text.encode(), headers={"Content-Type": kind})


async def test_a_workflow_is_checked_and_not_kept(api: httpx.AsyncClient) -> None:
    told = await check(api, FLOW.replace("workflow_id: flow", "workflow_id: other"))
    assert told.json() == {"valid": True, "mistakes": []}
    problem(await api.get("/api/workflows/other"), 404, "workflow.not_found")


async def test_every_mistake_of_a_workflow_is_told_with_its_place(api: httpx.AsyncClient) -> None:
    told = (await check(api, BROKEN.replace("inputs.n", "inputs.m"))).json()
    assert told["valid"] is False
    assert [(mistake["line"], mistake["message"]) for mistake in told["mistakes"]] == [
        (6, "no plugin brings the handler 'doo'"),
        (6, "there is no inputs.m"),
    ]
    assert (await check(api, "")).json()["valid"] is False


async def test_a_workflow_is_checked_beside_those_it_runs(api: httpx.AsyncClient) -> None:
    text = "workflow_id: outer\nnodes:\n  a: {type: workflow, workflow: flow, params: {size: 1}}\n"
    told = (await check(api, text)).json()
    assert [(mistake["line"], mistake["message"]) for mistake in told["mistakes"]][-1] == (
        3,
        "flow takes no input 'size'",
    )
    (mistake,) = (await check(api, text.replace("workflow: flow,", "workflow: flo,"))).json()["mistakes"]
    assert (mistake["message"], mistake["hint"]) == ("there is no workflow 'flo'", "Did you mean 'flow'?")


async def test_what_is_too_large_or_not_yaml_is_not_checked(api: httpx.AsyncClient) -> None:
    problem(await check(api, FLOW + "#" * 10_000), 413, "request.too_large")
    problem(await check(api, FLOW, "application/json"), 415, "request.media_type")


async def test_handlers_are_listed_with_what_they_take(api: httpx.AsyncClient) -> None:
    found = {handler["name"]: handler for handler in (await api.get("/api/handlers")).json()}
    assert (found["do"]["queue"], found["do"]["parameters"]) == ("default", None)
    assert "seconds" in found["sleep"]["parameters"]["properties"]


async def test_a_reload_tells_what_was_added_changed_and_removed(api: httpx.AsyncClient, files: Path) -> None:
    nothing: dict[str, list[str]] = {name: [] for name in ("added", "changed", "removed", "kept", "refused")}
    assert await reload(api) == nothing
    (files / "flow.yaml").write_text(TWO_STEPS)
    (files / "new.yaml").write_text(FLOW.replace("workflow_id: flow", "workflow_id: new"))
    assert await reload(api) == {**nothing, "added": ["new"], "changed": ["flow"]}
    (files / "flow.yaml").unlink()
    assert await reload(api) == {**nothing, "removed": ["flow"]}
    problem(await api.post("/api/jobs/submit/flow"), 404, "workflow.not_found")
    assert (await api.post("/api/jobs/submit/new")).status_code == 202


async def test_e16_jobs_in_flight_keep_their_definition_over_a_reload(api: httpx.AsyncClient, files: Path) -> None:
    before = (await api.post("/api/jobs/submit/flow")).json()["job_id"]
    (files / "flow.yaml").write_text(TWO_STEPS)
    await reload(api)
    after = (await api.post("/api/jobs/submit/flow?rerun=true")).json()["job_id"]
    stages = [(await api.get(f"/api/jobs/{job}")).json()["total_stages"] for job in (before, after)]
    assert stages == [1, 2]


async def test_a_file_that_is_broken_now_takes_no_workflow_away(api: httpx.AsyncClient, files: Path) -> None:
    (files / "flow.yaml").write_text(BROKEN)
    told = await reload(api)
    assert (told["kept"], told["removed"]) == (["flow"], [])
    assert [refused["name"] for refused in told["refused"]] == [str(files / "flow.yaml")]
    assert (await api.get("/api/workflows")).json()["refused"] == told["refused"]
    assert (await api.post("/api/jobs/submit/flow")).status_code == 202

    (files / "flow.yaml").write_text(TWO_STEPS)
    assert await reload(api) == {"added": [], "changed": ["flow"], "removed": [], "kept": [], "refused": []}


async def test_a_reload_takes_no_python_code(api: httpx.AsyncClient, files: Path) -> None:
    (files / "twin.py").write_text(PAIR.replace('"pair"', '"twin"').replace('"do"', '"undo"'))
    (files / "new.yaml").write_text(FLOW.replace("workflow_id: flow", "workflow_id: new").replace("do,", "undo,"))
    told = await reload(api)
    assert (told["added"], told["changed"], told["removed"]) == ([], [], [])
    assert [Path(refused["name"]).name for refused in told["refused"]] == ["new.yaml"]
    assert "no plugin brings the handler 'undo'" in told["refused"][0]["reason"]

    (files / "twin.py").write_text(PAIR.replace('"pair"', '"flow"'))
    told = await reload(api)
    assert "flow" not in told["removed"]
    assert (await api.post("/api/jobs/submit/flow")).status_code == 202


async def test_w1_tasks_taken_ahead_wait_and_no_more_run_than_there_are_slots(
    api: httpx.AsyncClient, engine: EngineHarness
) -> None:
    await submit(api)
    session = await engine.new_session()
    assert len(await claim(engine, 3, session)) == 3
    (worker,) = [each for each in (await api.get("/api/workers")).json() if each["id"] == session]
    assert (worker["slots"], worker["running"], worker["waiting"]) == (1, 1, 2)


async def test_o1_health_is_down_without_an_orchestrator(api: httpx.AsyncClient) -> None:
    answer = await api.get("/api/health")

    parts = {name: part["status"] for name, part in answer.json()["components"].items() if part["status"] != "ok"}
    assert parts == {"orchestrators": "down", "workers": "degraded", "sweeper": "down"}
    assert (answer.status_code, answer.json()["status"]) == (503, "down")


async def start_sweeping(engine: EngineHarness) -> None:
    session = await engine.store.open_session(SessionKind.ORCHESTRATOR, [], 0, timedelta(seconds=60))
    await Sweeper(engine.store, session).sweep()


async def test_o1_health_is_ok_when_all_parts_live_and_shows_what_waits(
    api: httpx.AsyncClient, engine: EngineHarness
) -> None:
    await start_sweeping(engine)
    await submit(api)
    await claim(engine, 1)

    answer = await api.get("/api/health")

    assert (answer.status_code, answer.json()["status"]) == (200, "ok")
    assert answer.json()["queues"] == {"default": 2}


async def test_o1_health_is_degraded_without_a_worker(api: httpx.AsyncClient, engine: EngineHarness) -> None:
    await start_sweeping(engine)
    await engine.store.end_session(engine.session, "stopped")

    answer = await api.get("/api/health")
    assert (answer.status_code, answer.json()["status"]) == (200, "degraded")


async def test_o1_o2_a_sweeper_that_stopped_brings_health_down(
    api: httpx.AsyncClient, engine: EngineHarness, database_url: str
) -> None:
    await start_sweeping(engine)
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("update app.duties set ticked_at = ticked_at - interval '21 seconds'")
        connection.execute("update app.sessions set began_at = began_at - interval '1 hour'")

    answer = await api.get("/api/health")

    assert answer.status_code == 503
    assert answer.json()["components"]["sweeper"]["status"] == "down"
    assert answer.json()["components"]["orchestrators"]["status"] == "ok"


@asynccontextmanager
async def reading(settings: Settings, url: str) -> AsyncIterator[httpx.AsyncClient]:
    """An API that has no session, on a database that may not answer."""
    app = create_app(settings, url)
    app.state.gateway = gateway = Gateway(settings, url)
    app.state.monitor = monitor.Monitor(gateway, app.state.tick)
    await gateway.vitals.open()
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=BASE) as client:
        yield client
    await gateway.vitals.close()


@pytest.fixture
async def cut_off(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[httpx.AsyncClient]:
    monkeypatch.setattr(monitor, "QUERY_TIMEOUT_SECONDS", 0.2)
    async with reading(settings, "postgresql://someone:hunter2@127.0.0.1:1/nowhere") as api:
        yield api


async def test_o1_readiness_and_health_need_the_database(cut_off: httpx.AsyncClient) -> None:
    ready, whole = await cut_off.get("/readyz"), await cut_off.get("/api/health")

    assert (await cut_off.get("/livez")).status_code == 200
    assert problem(ready, 503, "database.unreachable")["retryable"] is True
    assert ready.headers["retry-after"] == "1"
    assert whole.status_code == 503
    parts = whole.json()["components"]
    assert {parts[name]["status"] for name in ("database", "orchestrators", "workers", "sweeper")} == {"down"}


async def test_s5_callers_are_not_told_where_the_database_is(cut_off: httpx.AsyncClient) -> None:
    paths = ("/readyz", "/api/health")
    answers = [*[await cut_off.get(path) for path in paths], await cut_off.post("/api/jobs/submit/pair")]
    for answer in answers:
        assert answer.status_code == 503
        assert not any(secret in answer.text for secret in ("hunter2", "someone", "127.0.0.1:1", "nowhere"))


async def test_o1_readiness_needs_the_schema(settings: Settings, empty_database_url: str) -> None:
    async with reading(settings, empty_database_url) as api:
        told = problem(await api.get("/readyz"), 503, "database.not_migrated")
    assert "anabranch db migrate" in told["remedy"]


async def test_o1_readiness_needs_a_session(settings: Settings, database_url: str) -> None:
    async with reading(settings, database_url) as api:
        problem(await api.get("/readyz"), 503, "api.no_session")


@pytest.mark.slow
async def test_the_api_starts_without_its_database_and_finds_it_later(
    settings: Settings, database_url: str, tmp_path: Path
) -> None:
    conninfo = psycopg.conninfo.conninfo_to_dict(database_url)
    door = tmp_path / "door"
    url = psycopg.conninfo.make_conninfo(database_url, host=str(door))
    app = create_app(settings, url)
    async with serving(app) as api:
        problem(await api.get("/readyz"), 503, "database.unreachable")
        door.symlink_to(str(conninfo["host"]))
        async with asyncio.timeout(PATIENCE_SECONDS):
            while (await api.get("/readyz")).status_code != 200:  # it tells nobody
                await asyncio.sleep(0.1)
        assert (await api.post("/api/jobs/submit/pair")).status_code == 202


async def test_json_keeps_its_numbers_and_letters(api: httpx.AsyncClient) -> None:
    note = [2**53 + 1, -(2**70), 0.1, 1.0, "zażółć \U0001f30d \u2028", {"": None}, True]
    job_id = await submit(api, note=note)

    text = (await api.get(f"/api/jobs/{job_id}")).text
    kept = json.loads(text)["parameters"]["note"]

    assert kept == note
    assert [type(value) for value in kept] == [type(value) for value in note]


async def test_s1_beyond_loopback_probes_answer(settings: Settings, database_url: str) -> None:
    app = create_app(settings.model_copy(update={"host": "0.0.0.0"}), database_url)
    async with serving(app, "http://anabranch.example") as api:
        await app.state.gateway.ready()
        assert [(await api.get(path)).status_code for path in ("/livez", "/readyz")] == [200, 200]


async def ask_again(api: httpx.AsyncClient, path: str) -> tuple[httpx.Response, httpx.Response]:
    """An answer, and the answer to a client that has it."""
    first = await api.get(path, headers={"Accept-Encoding": "identity"})  # that of compressed bytes is a weak one
    tag = first.headers["etag"]
    assert tag.startswith('"')
    assert first.headers["cache-control"] == "private, no-cache"
    again = await api.get(path, headers={"If-None-Match": f'"other", W/{tag}'})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    assert (await api.get(path, headers={"If-None-Match": '"other"'})).content == first.content
    return first, again


async def test_what_a_caller_has_kept_is_not_sent_again(api: httpx.AsyncClient, engine: EngineHarness) -> None:
    job_id = await submit(api)
    assert "etag" not in (await api.get(f"/api/jobs/{job_id}")).headers
    for count in (3, 1):
        await engine.finish(await claim(engine, count))

    by_status, _ = await ask_again(api, f"/api/jobs/status/{job_id}")
    by_id, again = await ask_again(api, f"/api/jobs/{job_id[:12]}")

    assert by_id.headers["etag"] == by_status.headers["etag"]
    assert again.headers["x-correlation-id"]
    for path in (
        "/openapi.json",
        "/api/workflows/pair",
        "/api/workflows/pair/graph.svg",
        f"/api/jobs/{job_id}/graph.svg",
    ):
        await ask_again(api, path)


async def test_another_state_is_another_tag(api: httpx.AsyncClient, engine: EngineHarness) -> None:
    job_id = await submit(api)
    await claim(engine, 3)
    before = (await api.get(f"/api/jobs/{job_id}/graph.svg")).headers["etag"]
    await api.post(f"/api/jobs/{job_id}/cancel")
    after = await api.get(f"/api/jobs/{job_id}/graph.svg", headers={"If-None-Match": before})
    assert (after.status_code, after.headers["etag"] == before) == (200, False)


async def test_what_may_be_kept_is_described(api: httpx.AsyncClient) -> None:
    paths = (await api.get("/openapi.json")).json()["paths"]
    for path in ("/api/jobs/{job_id}", "/api/workflows/{workflow_id}", "/api/jobs/{job_id}/graph.svg"):
        described = paths[path]["get"]
        assert "ETag" in described["responses"]["200"]["headers"]
        assert "304" in described["responses"]
        assert {"$ref": "#/components/parameters/If-None-Match"} in described["parameters"]
    assert "JobStatus" in str(paths["/api/jobs/{job_id}"]["get"]["responses"]["200"])


@pytest.fixture
async def url(app: FastAPI) -> AsyncIterator[str]:
    """The API behind a real server, on a port of its own."""
    async with serve(app) as url:
        yield url


async def test_the_client_submits_waits_and_reads(url: str, engine: EngineHarness) -> None:
    with Client(url) as client:
        submitted = await asyncio.to_thread(client.submit, "pair", {"n": 2}, correlation_id="mine")
        states: list[str] = []
        waiting = asyncio.create_task(
            asyncio.to_thread(client.wait, submitted.job_id, 20, lambda job: states.append(job.status))
        )
        for count in (3, 1):
            await engine.finish(await claim(engine, count), {"did": count})
        job = await waiting

        assert (job.succeeded, job.progress, job.tasks.total, job.correlation_id) == (True, 1.0, 4, "mine")
        assert states[-1] == "completed"
        assert job.raw["result"] == job.result
        tasks = await asyncio.to_thread(lambda: list(client.all_tasks(job.job_id)))
        assert [(task.node, task.status) for task in tasks] == [("work", "completed")] * 3 + [("join", "completed")]
        again = await asyncio.to_thread(client.submit, "pair", {"n": 2})
        assert (again.job_id, again.created) == (job.job_id, False)


async def test_the_client_looks_around(url: str, engine: EngineHarness) -> None:
    def look() -> None:
        with Client(url) as client:
            for n in range(3):
                client.submit("pair", {"n": n}, labels={"n": f"= {n} & more"})
            (found,) = client.jobs(labels={"n": "= 1 & more"})
            assert found.labels == {"n": "= 1 & more"}
            page = client.jobs(limit=2, workflow="pair")
            rest = client.jobs(limit=2, before=page.next)
            assert [job.job_type for job in (*page, *rest)] == ["pair"] * 3
            assert sorted(worker.kind for worker in client.workers()) == ["api", "worker"]
            assert client.workflow("pair").hash in [flow.hash for flow in client.workflows()]
            assert client.reload_workflows().changed == ()
            job_id = page.items[0].job_id
            assert client.graph(job_id).nodes[1].id == "join"
            assert next(client.all_events(job_id)).kind == "job.submitted"
            assert client.logs(job_id).items == ()
            assert client.cancel(job_id).status == "cancelled"
            assert client.health().status == "down"
            assert client.ready()

    await asyncio.to_thread(look)


async def test_o6_the_client_raises_what_the_api_tells(url: str) -> None:
    def ask() -> None:
        with Client(url) as client:
            with pytest.raises(NotFound, match="there is no job"):
                client.job("0" * 64)
            with pytest.raises(NotFound, match="there is no workflow 'nothing'"):
                client.workflow("nothing")
            with pytest.raises(InputError, match="n must be an integer"):
                client.submit("pair", {"n": "x"})
            with pytest.raises(InputError, match="larger than 10000 bytes"):
                client.submit("pair", {"note": "x" * 3_000_000})

    await asyncio.to_thread(ask)


async def test_readers_are_answered_when_all_connections_were_ended_while_idle(
    api: httpx.AsyncClient, database_url: str
) -> None:
    await asyncio.gather(*(api.get("/api/jobs") for _ in range(8)))
    with psycopg.connect(database_url, autocommit=True) as connection:
        others = "datname = current_database() and pid <> pg_backend_pid()"
        connection.execute(f"select pg_terminate_backend(pid) from pg_stat_activity where {others}")
    answers = await asyncio.gather(*(api.get("/api/jobs") for _ in range(8)))
    assert {answer.status_code for answer in answers} == {200}


async def test_the_links_of_a_list_lead_to_its_next_page(api: httpx.AsyncClient) -> None:
    jobs = [await submit(api, n=n) for n in (1, 2, 3)]
    first = (await api.get("/api/jobs", params={"limit": 2, "workflow": "pair"})).json()
    assert first["links"]["self"] == "/api/jobs?limit=2&workflow=pair"
    second = (await api.get(first["links"]["next"])).json()
    assert [job["job_id"] for page in (first, second) for job in page["items"]] == jobs[::-1]
    assert second["links"]["next"] is None
