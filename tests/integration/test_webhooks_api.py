"""Webhooks through the API: endpoints of platforms, callbacks of jobs, and what is seen of them."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from anabranch.access import KeyRequest, Scope
from anabranch.adapters.postgres.connect import connect
from anabranch.adapters.postgres.store.keys import open_keys
from anabranch.app import deliverer
from anabranch.engine.model import SessionKind
from anabranch.settings import Settings
from tests.support.application import create_app
from tests.support.receiver import SECRET, Received, Receiver, answering, open_receiver
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.postgres
FLOW = """
workflow_id: flow
inputs: {n: {type: integer, min: 1, default: 1}}
nodes:
  hold: {type: gate}
output: {n: "{{ inputs.n }}"}
"""
ORDERED = """
workflow_id: ordered
inputs:
  source: {type: string, required: true}
  collection: {type: string}
  item_id: {type: string}
  approval: {type: boolean, default: false}
  n: {type: integer, min: 1, default: 1}
nodes:
  hold: {type: gate, answer: {approved: {type: boolean, required: true}, why: {type: string}}}
"""
ACME = {"title": "Acme", "required_refs": ["id"], "version_ref": "version", "workflows": {"raster": "ordered"}}
DDH = {**ACME, "title": "Data hub", "required_refs": ["dataset_id", "resource_id"], "version_ref": "version_id"}


class Served:
    """The API, and what delivers."""

    def __init__(self, client: httpx.AsyncClient, url: str) -> None:
        self.client = client
        self.url = url

    async def call(self, method: str, path: str, expected: int = 200, **given: Any) -> Any:  # JSON
        answered = await self.client.request(method, path, **given)
        assert answered.status_code == expected, answered.text
        return answered.json() if answered.content else None

    async def submit(self, callbacks: list[dict[str, object]], expected: int = 202, **given: Any) -> Any:  # JSON
        body = {"workflow": "flow", "parameters": given, "callbacks": callbacks}
        return await self.call("POST", "/api/jobs", expected, json=body)

    async def order(self, expected: int = 202, path: str = "/api/platform/submit", **given: Any) -> Any:  # JSON
        body = {"platform": "acme", "refs": {"id": "a", "version": "1"}, "source": "bronze://acme/a.tif", **given}
        return await self.call("POST", path, expected, json=body)

    async def reviewed(self, release_id: str) -> None:
        """Until its processing is completed."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not (await self.call("GET", "/api/approvals"))["items"]:
                await asyncio.sleep(0.02)

    async def delivered(self, status: str) -> None:
        """Until the newest delivery has this status."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while (await self.call("GET", "/api/webhooks/deliveries"))["items"][0]["status"] != status:
                await asyncio.sleep(0.02)

    async def finish(self, job_id: str) -> None:
        """Open its gate, once it waits there."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while (await self.client.post(f"/api/jobs/{job_id}/signal/hold", json={})).status_code != 200:
                await asyncio.sleep(0.02)

    def rows(self) -> str:
        """All that is stored, as text."""
        with connect(self.url, None) as owner:
            tables = [name for (name,) in owner.execute("select tablename from pg_tables where schemaname = 'app'")]
            return "\n".join(
                str(row) for table in tables for row in owner.execute(f"select t::text from app.{table} t").fetchall()
            )


@asynccontextmanager
async def serve(tmp_path: Path, url: str, **more: Any) -> AsyncIterator[Served]:
    plugins = tmp_path / "plugins"
    plugins.mkdir()
    (plugins / "flow.yaml").write_text(FLOW)
    (plugins / "ordered.yaml").write_text(ORDERED)
    given = {"home": tmp_path / "home", "plugins": (str(plugins),), "callback_hosts": ("127.0.0.1",), **more}
    settings = Settings(public_url="https://data.example.org", allowed_hosts=("localhost",), **given)
    app = create_app(settings, url)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client,
    ):
        await app.state.gateway.ready()
        store = app.state.gateway._store
        session = await store.open_session(SessionKind.ORCHESTRATOR, [], 0, timedelta(minutes=1))
        delivering = asyncio.create_task(deliverer(settings, store).run(session))
        try:
            yield Served(client, url)
        finally:
            delivering.cancel()
            await asyncio.wait([delivering])


@pytest.fixture
async def served(database_url: str, tmp_path: Path) -> AsyncIterator[Served]:
    async with serve(tmp_path, database_url) as opened:
        yield opened


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with open_receiver() as opened:
        yield opened


def callback(receiver: Receiver, path: str = "/hook", **given: object) -> dict[str, object]:
    return {"url": receiver.url(path), "secret": SECRET, **given}


async def test_p7_what_is_done_to_endpoints_is_in_the_audit(served: Served, receiver: Receiver) -> None:
    made = await served.call("POST", "/api/webhooks", 201, json={"url": receiver.url("/hook?token=hunter2")})
    path = f"/api/webhooks/{made['id']}"
    await served.call("PATCH", path, json={"events": ["job.failed"], "active": False})
    await served.call("PATCH", "/api/webhooks/00000000-0000-4000-8000-000000000000", 404, json={"active": False})
    await served.call("POST", f"{path}/rotate", json={})
    await served.call("DELETE", path)
    lines = (await served.call("GET", "/api/platform/audit"))["items"]
    assert [line["action"] for line in reversed(lines)] == [
        "webhook.added", "webhook.changed", "webhook.rotated", "webhook.removed"
    ]  # fmt: skip
    assert {(line["platform"], line["actor"]) for line in lines} == {("default", "local")}
    assert all(line["data"]["endpoint"] == made["id"] and line["correlation_id"] for line in lines)
    assert (lines[2]["data"]["events"], lines[2]["data"]["active"]) == (["job.failed"], False)
    assert "hunter2" not in json.dumps(lines), "URLs may hold secrets (S5)"


async def test_p9_a_job_calls_back_when_it_ends(served: Served, receiver: Receiver) -> None:
    job = await served.submit([callback(receiver)], n=3)
    await served.finish(job["job_id"])
    (received,) = await receiver.wait(1)
    said = received.verify()
    assert (
        said.items()
        >= {
            "version": 1,
            "type": "job.completed",
            "job_id": job["job_id"],
            "job_type": "flow",
            "status": "completed",
            "final_results": {"n": 3},
            "result_url": f"https://data.example.org/api/jobs/{job['job_id']}",
        }.items()
    )
    assert "stage_results" in said
    assert said["timestamp"].endswith("Z")


async def test_p9_every_submitter_of_the_same_job_is_called_and_none_twice(served: Served, receiver: Receiver) -> None:
    first = await served.submit([callback(receiver, "/a")])
    second = await served.submit([callback(receiver, "/b"), callback(receiver, "/a")], expected=200)
    assert first["job_id"] == second["job_id"]
    await served.finish(first["job_id"])
    await receiver.wait(2)
    late = await served.submit([callback(receiver, "/late"), callback(receiver, "/a")], expected=200)
    assert late["job_id"] == first["job_id"]
    await receiver.wait(3)
    deliveries = await served.call("GET", f"/api/webhooks/deliveries?subject={first['job_id']}")
    assert len(deliveries["items"]) == 3
    assert sorted(one.path for one in receiver.requests) == ["/a", "/b", "/late"]


async def test_s5_webhook_parameters_leave_the_parameters_and_no_secret_is_stored(
    served: Served, receiver: Receiver
) -> None:
    given = {
        "n": 4,
        "webhook_url": receiver.url(),
        "webhook_secret": SECRET,
        "webhook_retry_count": 3,
        "webhook_timeout_seconds": 30,
    }
    job = await served.call("POST", "/api/jobs/submit/flow", 202, json=given)
    same = await served.submit([], expected=200, n=4)
    assert same["job_id"] == job["job_id"]
    shown = await served.call("GET", f"/api/jobs/{job['job_id']}")
    assert shown["parameters"] == {"n": 4}
    await served.finish(job["job_id"])
    (received,) = await receiver.wait(1)
    assert received.verify()["status"] == "completed"
    assert SECRET not in served.rows()


async def test_webhook_parameters_work_for_processes_and_in_bulk(served: Served, receiver: Receiver) -> None:
    given = {"n": 5, "webhook_url": receiver.url("/ogc"), "webhook_secret": SECRET}
    process = await served.call("POST", "/ogc/processes/flow/execution", 201, json={"inputs": given})
    lines = [
        {"workflow": "flow", "parameters": {**given, "n": 6, "webhook_url": receiver.url("/bulk")}},
        {"workflow": "flow", "parameters": {"n": 7, "webhook_url": "http://10.0.0.1/", "webhook_secret": SECRET}},
    ]
    content = "".join(json.dumps(line) + "\n" for line in lines)
    answered = await served.client.post(
        "/api/jobs/bulk", content=content, headers={"Content-Type": "application/x-ndjson"}
    )
    made, refused = (json.loads(line) for line in answered.text.splitlines())
    assert (made["status"], refused["status"]) == (202, 422)
    for job_id in (process["jobID"], made["job_id"]):
        await served.finish(job_id)
    await receiver.wait(2)
    assert {one.path for one in receiver.requests} == {"/ogc", "/bulk"}
    assert SECRET not in served.rows()


@pytest.mark.parametrize(
    ("given", "where"),
    [
        ({"url": "http://10.0.0.1/", "secret": SECRET}, "body.callbacks.0.url"),
        ({"url": "ftp://example.org/", "secret": SECRET}, "body.callbacks.0.url"),
        ({"url": "https://example.org/"}, "body.callbacks.0.secret"),
        ({"url": "https://example.org/", "secret": "short"}, "body.callbacks.0.secret"),
        ({"url": "https://example.org/", "secret": SECRET, "events": ["job.ended"]}, "body.callbacks.0.events.0"),
        ({"url": "https://example.org/", "secret": SECRET, "retries": 11}, "body.callbacks.0.retries"),
        ({"url": "https://example.org/", "secret": SECRET, "wrong": 1}, "body.callbacks.0.wrong"),
    ],
)
async def test_a_callback_that_can_not_be_called_is_refused_at_submission(
    served: Served, given: dict[str, object], where: str
) -> None:
    refused = await served.submit([given], expected=422)
    assert where in [mistake["where"] for mistake in refused["errors"]]
    assert SECRET not in json.dumps(refused)
    body = {"workflow": "flow", "callbacks": [given]}
    assert (await served.call("POST", "/api/jobs/validate", 422, json=body))["errors"] == refused["errors"]
    assert not (await served.call("GET", "/api/jobs"))["items"]


async def test_a_failed_and_a_retried_job_call_back_each_time(served: Served, receiver: Receiver) -> None:
    job = await served.submit([callback(receiver)])
    await served.call("POST", f"/api/jobs/{job['job_id']}/cancel", json={})
    await receiver.wait(1)
    await served.call("POST", f"/api/jobs/{job['job_id']}/retry", 202, json={"from_node": "hold"})
    await served.finish(job["job_id"])
    await receiver.wait(2)
    assert [one.json["type"] for one in receiver.requests] == ["job.cancelled", "job.completed"]


async def test_an_endpoint_of_a_platform_hears_of_all_its_jobs(served: Served, receiver: Receiver) -> None:
    before = await served.submit([], n=1)
    made = await served.call("POST", "/api/webhooks", 201, json={"url": receiver.url(), "events": ["job.completed"]})
    after = await served.submit([], n=2)
    for job in (before, after):
        await served.finish(job["job_id"])
    (received,) = await receiver.wait(1)
    assert received.verify(made["secret"])["job_id"] == after["job_id"]


@pytest.mark.parametrize(
    ("event", "said"),
    [
        ("release.aproved", "Did you mean 'release.approved'?"),
        ("relase.*", "Did you mean 'release.*'?"),
        ("nope.*", "Known: *, job.*,"),
        ("x", "Known: *, job.*,"),
        ("release.rolled.*", "there is no event"),
    ],
)
async def test_an_event_that_does_not_exist_is_refused(served: Served, event: str, said: str) -> None:
    for method, path, body in [
        ("POST", "/api/webhooks", {"url": "https://example.org/", "events": ["job.*", event]}),
        ("PATCH", "/api/webhooks/00000000-0000-4000-8000-000000000000", {"events": ["job.*", event]}),
    ]:
        (mistake,) = (await served.call(method, path, 422, json=body))["errors"]
        assert mistake["where"] == "body.events.1"
        assert said in mistake["detail"]
    assert not (await served.call("GET", "/api/webhooks"))["items"]


async def test_an_endpoint_is_added_changed_tested_rotated_and_removed(served: Served, receiver: Receiver) -> None:
    made = await served.call("POST", "/api/webhooks", 201, json={"url": "http://127.0.0.1:9/", "events": ["job.*"]})
    path = f"/api/webhooks/{made['id']}"
    assert made["secret"].startswith("whsec_")
    assert "secret" not in await served.call("GET", path)
    changed = await served.call("PATCH", path, json={"url": receiver.url(), "description": "ours"})
    assert (changed["url"], changed["description"], changed["events"]) == (receiver.url(), "ours", ["job.*"])

    rotated = await served.call("POST", f"{path}/rotate", json={})
    tested = await served.call("POST", f"{path}/test", 202)
    (received,) = await receiver.wait(1)
    assert received.verify(made["secret"]) == received.verify(rotated["secret"])
    assert (received.json["type"], tested["event"]) == ("webhook.test", "webhook.test")
    async with asyncio.timeout(PATIENCE_SECONDS):
        while (shown := await served.call("GET", f"/api/webhooks/deliveries/{tested['id']}"))["status"] == "pending":
            await asyncio.sleep(0.02)
    assert [call["status"] for call in shown["calls"]] == [200]
    await served.call("POST", f"/api/webhooks/deliveries/{tested['id']}/replay", 202)
    await receiver.wait(2)

    await served.call("PATCH", path, json={"active": False})
    await served.call("POST", f"{path}/test", 409)
    await served.call("DELETE", path)
    await served.call("GET", path, 404)
    assert not (await served.call("GET", "/api/webhooks/deliveries"))["items"]
    assert made["secret"] not in served.rows()


async def test_lists_have_pages_and_filters(served: Served) -> None:
    ids = [
        (await served.call("POST", "/api/webhooks", 201, json={"url": f"http://127.0.0.1:9/{n}"}))["id"]
        for n in range(3)
    ]
    page = await served.call("GET", "/api/webhooks?limit=2")
    assert [one["id"] for one in page["items"]] == ids[:0:-1]
    rest = await served.call("GET", page["links"]["next"])
    assert [one["id"] for one in rest["items"]] == ids[:1]
    for endpoint in ids:
        await served.call("POST", f"/api/webhooks/{endpoint}/test", 202)
    found = await served.call("GET", f"/api/webhooks/deliveries?endpoint={ids[0]}&status=pending&event=webhook.test")
    assert [one["endpoint_id"] for one in found["items"]] == [ids[0]]
    assert (await served.call("POST", "/api/webhooks/deliveries/replay", 202, json={}))["deliveries"] == []


async def test_scopes_and_platforms_are_kept_apart(database_url: str, tmp_path: Path) -> None:
    async with open_keys(database_url) as keys:
        given = {
            name: {"Authorization": f"Bearer {(await keys.make(KeyRequest(name, scope, owner), 'test'))[1].text}"}
            for name, scope, owner in (
                ("reader", Scope.READ, "acme"),
                ("operator", Scope.OPERATE, "acme"),
                ("other", Scope.OPERATE, "others"),
                ("admin", Scope.ADMIN, "ops"),
            )
        }
    async with serve(tmp_path, database_url, auth="keys") as served:
        body = {"url": "http://127.0.0.1:9/"}
        await served.call("POST", "/api/webhooks", 403, json=body, headers=given["reader"])
        made = await served.call("POST", "/api/webhooks", 201, json=body, headers=given["operator"])
        path = f"/api/webhooks/{made['id']}"
        assert (await served.call("GET", path, headers=given["reader"]))["platform"] == "acme"
        for method, route in (("GET", path), ("PATCH", path), ("DELETE", path), ("POST", f"{path}/test")):
            sent: dict[str, Any] = {"json": {}} if method == "PATCH" else {}
            await served.call(method, route, 404, headers=given["other"], **sent)
        assert not (await served.call("GET", "/api/webhooks", headers=given["other"]))["items"]
        assert (await served.call("GET", path, headers=given["admin"]))["id"] == made["id"]
        theirs = {**body, "platform": "arcgis"}
        await served.call("POST", "/api/webhooks", 403, json=theirs, headers=given["operator"])
        await served.call("POST", "/api/webhooks", 201, json=theirs, headers=given["admin"])


async def test_s5_readers_see_no_values_of_the_query_of_an_endpoint(database_url: str, tmp_path: Path) -> None:
    async with open_keys(database_url) as keys:
        reader, operator = [
            {"Authorization": f"Bearer {(await keys.make(KeyRequest('ci', scope, 'acme'), 'test'))[1].text}"}
            for scope in (Scope.READ, Scope.OPERATE)
        ]
    async with serve(tmp_path, database_url, auth="keys") as served:
        body = {"url": "http://127.0.0.1:9/hook?token=hunter2&hunter3"}
        made = await served.call("POST", "/api/webhooks", 201, json=body, headers=operator)
        sent = await served.call("POST", f"/api/webhooks/{made['id']}/test", 202, headers=operator)
        deliveries = "/api/webhooks/deliveries"
        for path in ("/api/webhooks", f"/api/webhooks/{made['id']}", deliveries, f"{deliveries}/{sent['id']}"):
            shown, hidden = [await served.call("GET", path, headers=key) for key in (operator, reader)]
            assert "token=hunter2&hunter3" in json.dumps(shown), path
            assert "hook?token=…&…" in json.dumps(hidden, ensure_ascii=False), path


@pytest.fixture
async def acme(served: Served) -> Served:
    await served.call("PUT", "/api/platforms/acme", json=ACME)
    return served


async def test_p7_the_job_of_an_order_says_what_its_submitter_may_do(acme: Served) -> None:
    made = await acme.order()
    events = (await acme.call("GET", f"/api/jobs/{made['job_id']}/events"))["items"]
    assert (events[0]["by"], events[0]["data"]["scope"]) == ("local", "admin")


async def test_p9_an_order_calls_back_for_what_happens_to_its_release(acme: Served, receiver: Receiver) -> None:
    accepted = await acme.order(callback_url=receiver.url("/hook"), callback_secret=SECRET)
    assert accepted["callback_secret"] is None
    path = f"/api/platform/releases/{accepted['release_id']}"
    await acme.reviewed(accepted["release_id"])
    await acme.call("POST", f"{path}/reject", json={"reason": "wrong datum"})
    again = await acme.call("POST", f"{path}/resubmit", 202)
    assert again["revision"] == 2
    received = await receiver.wait(3)
    said = [one.verify() for one in received]
    assert [(one["type"], one["revision"]) for one in said] == [
        ("release.processed", 1), ("release.rejected", 1), ("release.processed", 2),
    ]  # fmt: skip
    assert (said[0]["release_id"], said[1]["reason"]) == (accepted["release_id"], "wrong datum")
    assert said[0]["result_url"] == f"https://data.example.org/api/platform/status/{accepted['release_id']}"
    (first, *_) = (await acme.call("GET", "/api/platform/requests"))["items"][::-1]
    assert not [name for name in first["body"] if "callback" in name]
    assert SECRET not in acme.rows()


async def test_p9_an_order_calls_back_whatever_became_of_its_revision(acme: Served, receiver: Receiver) -> None:
    """Also when another order replaces it."""
    first = await acme.order(callback_url=receiver.url("/first"), callback_secret=SECRET)
    await acme.reviewed(first["release_id"])
    await acme.order(source="bronze://acme/other.tif", overwrite=True)
    await acme.reviewed(first["release_id"])
    await acme.call("POST", f"/api/platform/releases/{first['release_id']}/reject", json={"reason": "wrong"})
    said = [one.verify() for one in await receiver.wait(4)]
    assert [(one["type"], one["revision"]) for one in said] == [
        ("release.processed", 1), ("release.replaced", 1), ("release.processed", 2), ("release.rejected", 2),
    ]  # fmt: skip


async def test_p9_a_callback_that_is_named_again_does_not_close_its_breaker(acme: Served, receiver: Receiver) -> None:
    breaker = "select failures, open_until from app.webhook_endpoints"
    await acme.order(callback_url=receiver.url("/hook"))
    await receiver.wait(1)
    await acme.delivered("delivered")  # one that succeeds later would close it
    with connect(acme.url, None) as connection:
        connection.execute("set anabranch.platform = '*'")
        connection.execute("update app.webhook_endpoints set failures = 5, open_until = app.now() + interval '1 day'")
        before = connection.execute(breaker).fetchall()
        await acme.order(refs={"id": "b", "version": "1"}, callback_url=receiver.url("/hook"))
        assert connection.execute(breaker).fetchall() == before


async def test_p9_a_callback_that_was_gone_once_is_called_when_it_is_named_again(acme: Served) -> None:
    statuses = iter([410])

    async def answer(received: Received, writer: asyncio.StreamWriter) -> None:
        await answering(next(statuses, 200))(received, writer)

    async with open_receiver(answer) as receiver:
        await acme.order(callback_url=receiver.url("/hook"))
        await receiver.wait(1)
        await acme.delivered("dead")
        await acme.order(refs={"id": "b", "version": "1"}, callback_url=receiver.url("/hook"))
        await receiver.wait(2)
        await acme.delivered("delivered")
        again = await acme.call("POST", "/api/webhooks/deliveries/replay", 202, json={})
        assert len(again["deliveries"]) == 1
        await receiver.wait(3)


async def test_p9_every_submitter_of_the_same_order_is_called_and_none_twice(acme: Served, receiver: Receiver) -> None:
    """Also one who comes when its processing is completed; a callback is no part of the order."""
    first = await acme.order(callback_url=receiver.url("/a"))
    same = await acme.order(200, callback_url=receiver.url("/a"))
    other = await acme.order(200, callback_url=receiver.url("/b"), callback_secret=SECRET)
    assert first["job_id"] == same["job_id"] == other["job_id"]
    assert first["callback_secret"] == same["callback_secret"] != SECRET
    await receiver.wait(2)
    await acme.order(200, callback_url=receiver.url("/late"), callback_secret=SECRET)
    await receiver.wait(3)
    await acme.call("POST", f"/api/platform/releases/{first['release_id']}/approve", json={})
    by_path: dict[str, list[str]] = {}
    for one in await receiver.wait(6):
        said = one.verify(first["callback_secret"] if one.path == "/a" else SECRET)
        by_path.setdefault(one.path, []).append(said["type"])
    assert by_path == {path: ["release.processed", "release.approved"] for path in ("/a", "/b", "/late")}
    assert first["callback_secret"] not in acme.rows()


@pytest.mark.parametrize(
    ("given", "where"),
    [
        ({"callback_url": "http://10.0.0.1/"}, {"body.callback_url"}),
        ({"callback_url": "ftp://a.example/", "options": {"n": 0, "m": 1}},
         {"body.callback_url", "parameters.n", "parameters.m"}),
        ({"callback_url": "http://10.0.0.1/", "refs": {}}, {"body.callback_url", "body.refs"}),
        ({"refs": {}, "options": {"n": 0, "m": 1, "item_id": "x"}},
         {"body.refs", "body.options", "parameters.n", "parameters.m"}),
        ({"refs": {}, "source": "bronze://acme/a.unknown", "options": {"item_id": "x"}, "callback_url": "ftp://a.example/"},
         {"body.refs", "body.data_type", "body.options", "body.callback_url"}),
        ({"callback_url": "https://a.example/", "callback_secret": "short"}, {"body.callback_secret"}),
        ({"callback_secret": SECRET}, {"body"}),
        ({"callback_url": "https://a.example/", "options": {"webhook_url": "https://b.example/"}},
         {"body.callback_url"}),
    ],
)  # fmt: skip
async def test_an_order_is_refused_with_all_mistakes(acme: Served, given: dict[str, Any], where: set[str]) -> None:
    for path in ("/api/platform/submit", "/api/platform/submit?dry_run=true", "/api/platform/submit_dag"):
        refused = await acme.order(422, path, **given)
        assert {mistake["where"] for mistake in refused["errors"]} == where
        assert SECRET not in json.dumps(refused)
    assert not (await acme.call("GET", "/api/platform/requests"))["items"]


async def test_an_order_in_a_partner_s_own_shape_is_refused_with_all_mistakes(acme: Served) -> None:
    await acme.call("PUT", "/api/platforms/ddh", json=DDH)
    body = {"dataset_id": 1, "resource_id": "a\u200b", "file_name": "in/a.tif", "callback_url": "ftp://a.example/"}
    given = {**body, "processing_options": {"n": 0, "item_id": "x"}}
    errors = (await acme.call("POST", "/api/platform/ddh/submit", 422, json=given))["errors"]
    said = {mistake["where"]: mistake["detail"] for mistake in errors}
    assert said.keys() == {"body.refs", "body.options", "parameters.n", "body.callback_url"}
    assert "The references of platform ddh are dataset_id, resource_id, version_id" in said["body.refs"]


async def test_partners_own_shapes_and_the_seeds_names_are_callbacks_too(acme: Served, receiver: Receiver) -> None:
    """And the hosts that the platform allows are its own."""
    await acme.call("PUT", "/api/platforms/ddh", json=DDH)
    body = {"dataset_id": 1, "resource_id": "a", "file_name": "in/a.tif"}
    webhook = {"webhook_url": receiver.url("/ddh"), "webhook_secret": SECRET, "webhook_retry_count": 3}
    made = await acme.call("POST", "/api/platform/ddh/submit", 202, json={**body, **webhook})
    await acme.order(
        options={"n": 2, "webhook_url": receiver.url("/options"), "webhook_secret": SECRET}, refs={"id": "b"}
    )
    second = {**body, "resource_id": "b", "callback_url": receiver.url("/own"), "callback_secret": SECRET}
    await acme.call("POST", "/api/platform/ddh/submit", 202, json=second)
    received = await receiver.wait(3)
    assert {(one.path, one.verify()["type"]) for one in received} == {
        (path, "release.processed") for path in ("/ddh", "/options", "/own")
    }
    assert made["parameters"].items() >= {"collection": "ddh-raster", "source": "bronze://in/a.tif"}.items()
    assert SECRET not in acme.rows()
