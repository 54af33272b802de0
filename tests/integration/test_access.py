"""Who may call the API, as whom, and what never shows (S1, S5, S6)."""

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, closing
from datetime import timedelta
from inspect import signature
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from fastapi import FastAPI
from fastapi.routing import iter_route_contexts

from anabranch.access import Credential, KeyRequest, KnownKey, Scope
from anabranch.adapters.postgres.connect import Role, connect
from anabranch.adapters.postgres.store.keys import PostgresKeys, open_keys
from anabranch.api import main
from anabranch.api.deps import Needs
from anabranch.api.openapi.document import load_document
from anabranch.api.security.authentication import LOOKUPS_AT_ONCE, Authenticator
from anabranch.cli.stack.home_key import HomeKey
from anabranch.client import Client, NotAllowed
from anabranch.embedded.home import Home
from anabranch.errors import InputError
from anabranch.settings import Settings
from anabranch.testing.clock import Clock
from tests.support.api_process import ApiProcess, dump_tables
from tests.support.application import create_app
from tests.support.engine import EngineHarness, fan_out, open_harness
from tests.support.waiting import PATIENCE_SECONDS
from tests.support.warm import run_warm

OPEN = {"/livez", "/readyz", "/data", "/docs", "/ui/{name:path}", "/errors", "/errors/{code}"}
BASE = "http://anabranch.example"
LOOPBACK = "http://127.0.0.1"
CHANGES_NOTHING = {"search_catalog", "validate_workflow"}


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path / "home", auth="keys")


@pytest.fixture
def app(settings: Settings, database_url: str) -> FastAPI:
    return create_app(settings, database_url)


@asynccontextmanager
async def serving(app: FastAPI, base_url: str = BASE) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app)
    async with app.router.lifespan_context(app), httpx.AsyncClient(transport=transport, base_url=base_url) as client:
        await app.state.gateway.ready()
        yield client


@pytest.fixture
async def api(app: FastAPI, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[httpx.AsyncClient]:
    monkeypatch.setattr(Authenticator, "FRESH_SECONDS", 0.0)  # tests don't wait for what is known to be old
    async with serving(app) as client:
        yield client


async def make(
    url: str, scope: Scope = Scope.READ, *, platform: str = "acme", lasts: timedelta | None = None
) -> Credential:
    async with open_keys(url) as keys:
        _, credential = await keys.make(KeyRequest("ci", scope, platform, lasts), "a test")
        return credential


def bearing(credential: Credential) -> dict[str, str]:
    return {"Authorization": f"Bearer {credential.text}"}


def problem(answer: httpx.Response, status: int, code: str) -> dict[str, Any]:  # a problem document
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    told: dict[str, Any] = answer.json()
    assert told["code"] == code, told
    return told


def declared(route: Any) -> list[Scope]:  # FastAPI's view of a route
    return [d.dependency.scope for d in getattr(route, "dependencies", ()) if isinstance(d.dependency, Needs)]


def test_s1_every_route_but_probes_and_pages_declares_one_scope(app: FastAPI) -> None:
    routes = list(iter_route_contexts(app.routes))
    assert len(routes) > 25
    undeclared = {route.path for route in routes if len(declared(route)) != 1}
    assert undeclared == OPEN


def test_s1_what_changes_something_needs_more_than_read(app: FastAPI) -> None:
    routes = [route for route in iter_route_contexts(app.routes) if route.path not in OPEN]
    changing = [route for route in routes if (route.methods or set()) - {"GET", "HEAD"}]
    assert len(changing) >= 6
    assert {route.name for route in changing if declared(route) == [Scope.READ]} == CHANGES_NOTHING


def test_s1_the_description_says_which_scope_an_operation_needs(app: FastAPI) -> None:
    told = load_document()
    assert (
        told["components"]["securitySchemes"]["key"] | {"type": "http", "scheme": "bearer"}
        == (told["components"]["securitySchemes"]["key"])
    )
    for route in iter_route_contexts(app.routes):
        if not route.include_in_schema:
            continue
        for method in route.methods or ():
            operation = told["paths"][route.path_format][method.lower()]
            assert operation.get("security", []) == [{"key": [scope]} for scope in declared(route)]
            assert ("401" in operation["responses"]) == bool(declared(route))


@pytest.mark.parametrize("scope", list(Scope))
async def test_s1_a_scope_includes_those_before_it(api: httpx.AsyncClient, database_url: str, scope: Scope) -> None:
    calls = {
        Scope.READ: ("GET", "/api/jobs"),
        Scope.SUBMIT: ("POST", "/api/jobs/submit/hello_world"),
        Scope.OPERATE: ("POST", "/api/workflows/reload"),
        Scope.ADMIN: ("GET", "/api/keys"),
    }
    key = await make(database_url, scope)
    for needed, (method, path) in calls.items():
        answer = await api.request(method, path, headers=bearing(key))
        if scope.includes(needed):
            assert answer.is_success, answer.text
        else:
            told = problem(answer, 403, "auth.forbidden")
            assert needed in told["remedy"]
            assert "insufficient_scope" in answer.headers["www-authenticate"]


@pytest.mark.parametrize(
    "path", ["/api/jobs", "/api/health", "/openapi.json", "/nowhere", "/ui", "/docs/", "/api/keys", "/api/db/stats"]
)
async def test_s1_without_a_key_nothing_is_served(api: httpx.AsyncClient, path: str) -> None:
    answer = await api.get(path)
    assert "ANABRANCH_API_KEY" in problem(answer, 401, "auth.missing")["remedy"]
    assert answer.headers["www-authenticate"] == 'Bearer realm="anabranch"'


async def test_s1_nobody_learns_whether_a_key_exists(api: httpx.AsyncClient, database_url: str) -> None:
    key = await make(database_url)
    wrong, unknown = Credential(key.key_id, "0" * 64), Credential.make()
    given = [wrong.text, unknown.text, key.text[:-1], key.text + "0", "nonsense", ""]
    answers = [await api.get("/api/jobs", headers={"Authorization": f"Bearer {text}"}) for text in given]
    answers.append(await api.get("/api/jobs", headers={"Authorization": f"Basic {key.text}"}))
    answers.append(await api.get("/api/jobs", headers=[("Authorization", f"Bearer {key.text}")] * 2))

    told = [problem(answer, 401, "auth.invalid") for answer in answers]
    assert len({json.dumps({**one, "correlation_id": ""}) for one in told}) == 1
    assert {answer.headers["www-authenticate"] for answer in answers} == {
        'Bearer realm="anabranch", error="invalid_token"'
    }


async def test_s1_a_key_ends_when_it_expires_or_is_revoked(
    api: httpx.AsyncClient, database_url: str, clock: Clock
) -> None:
    short, revoked = await make(database_url, lasts=timedelta(hours=1)), await make(database_url)
    assert (await api.get("/api/jobs", headers=bearing(short))).status_code == 200

    clock.advance(timedelta(hours=1))
    async with open_keys(database_url) as keys:
        await keys.revoke(revoked.key_id, "a test")

    problem(await api.get("/api/jobs", headers=bearing(short)), 401, "auth.expired")
    problem(await api.get("/api/jobs", headers=bearing(revoked)), 401, "auth.revoked")


async def test_s1_what_is_known_of_a_key_is_asked_again_after_a_second(
    app: FastAPI, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = await make(database_url)
    async with serving(app) as api:
        for _ in range(2):  # the first notes its use, and looks it up once more
            await api.get("/api/jobs", headers=bearing(key))
        async with open_keys(database_url) as keys:
            await keys.revoke(key.key_id, "a test")
        now = time.monotonic()
        monkeypatch.setattr(time, "monotonic", lambda: now + Authenticator.FRESH_SECONDS)
        problem(await api.get("/api/jobs", headers=bearing(key)), 401, "auth.revoked")


async def test_p7_a_secret_is_one_of_its_own_key_only(app: FastAPI, database_url: str) -> None:
    """While what is known of a key is fresh, its holder can't act under the id of another key."""
    key, other = await make(database_url), await make(database_url)
    async with serving(app) as api:
        for _ in range(3):
            assert (await api.get("/api/jobs", headers=bearing(key))).status_code == 200
        forged = Credential(other.key_id, key.secret)
        problem(await api.get("/api/jobs", headers=bearing(forged)), 401, "auth.invalid")


async def test_ts9_of_many_wrong_keys_at_once_only_a_few_are_looked_up(
    app: FastAPI, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_up: list[int] = []
    busy = 0
    find = PostgresKeys.find

    async def count(keys: PostgresKeys, key_id: str) -> KnownKey | None:
        nonlocal busy
        busy += 1
        looked_up.append(busy)
        try:
            return await find(keys, key_id)
        finally:
            busy -= 1

    monkeypatch.setattr(PostgresKeys, "find", count)
    async with serving(app) as api:
        wrong = (api.get("/api/jobs", headers=bearing(Credential.make())) for _ in range(100))
        codes = [answer.status_code for answer in await asyncio.gather(*wrong)]
    assert set(codes) == {401, 429}
    assert codes.count(401) == len(looked_up)
    assert max(looked_up) <= LOOKUPS_AT_ONCE


async def test_ts9_many_first_requests_of_one_key_are_all_answered(app: FastAPI, database_url: str) -> None:
    key = await make(database_url)
    async with serving(app) as api:
        answers = await asyncio.gather(*(api.get("/api/jobs", headers=bearing(key)) for _ in range(100)))
    assert {answer.status_code for answer in answers} == {200}


async def test_the_use_of_a_key_is_noted_to_the_minute(api: httpx.AsyncClient, database_url: str, clock: Clock) -> None:
    key = await make(database_url)

    async def used() -> Any:  # a time, if any
        await api.get("/api/jobs", headers=bearing(key))
        async with open_keys(database_url) as keys:
            return (await keys.get(key.key_id)).used_at

    first = await used()
    clock.advance(timedelta(seconds=59))
    assert await used() == first
    clock.advance(timedelta(seconds=2))
    assert await used() == first + timedelta(seconds=61)


async def test_a_wrong_secret_is_no_use_of_a_key(api: httpx.AsyncClient, database_url: str) -> None:
    key = await make(database_url)
    await api.get("/api/jobs", headers=bearing(Credential(key.key_id, "0" * 64)))
    async with open_keys(database_url) as keys:
        assert (await keys.get(key.key_id)).used_at is None


async def test_e15_keys_of_one_platform_share_jobs_and_two_platforms_do_not(
    api: httpx.AsyncClient, database_url: str
) -> None:
    platforms = ("acme", "acme", "other")
    keys = [await make(database_url, Scope.SUBMIT, platform=platform) for platform in platforms]
    answers = [await api.post("/api/jobs/submit/hello_world", json={"n": 2}, headers=bearing(key)) for key in keys]

    assert [answer.status_code for answer in answers] == [202, 200, 202]
    ids = [answer.json()["job_id"] for answer in answers]
    assert (ids[0] == ids[1], ids[0] == ids[2]) == (True, False)
    seen = (await api.get("/api/jobs", headers=bearing(keys[2]))).json()["items"]
    assert {job["job_id"] for job in seen} == {ids[2]}


async def test_s1_probes_tell_strangers_nothing_of_the_inside(api: httpx.AsyncClient) -> None:
    assert (await api.get("/livez")).json() == {"status": "ok"}
    assert (await api.get("/readyz")).json() == {"status": "ok"}


async def test_s1_a_probe_that_fails_tells_strangers_no_more_than_that(settings: Settings) -> None:
    app = create_app(settings, "postgresql://127.0.0.1:1/nowhere")
    transport = httpx.ASGITransport(app)
    async with app.router.lifespan_context(app), httpx.AsyncClient(transport=transport, base_url=BASE) as api:
        told = problem(await api.get("/readyz"), 503, "api.not_ready")
        assert "database" not in json.dumps(told)


@pytest.mark.slow
async def test_s1_a_key_that_cannot_be_looked_up_is_not_let_in(settings: Settings) -> None:
    app = create_app(settings, "postgresql://127.0.0.1:1/nowhere")
    transport = httpx.ASGITransport(app)
    async with app.router.lifespan_context(app), httpx.AsyncClient(transport=transport, base_url=BASE) as api:
        told = problem(await api.get("/api/jobs", headers=bearing(Credential.make())), 503, "api.not_ready")
    assert (told["retryable"], "database" in json.dumps(told)) == (True, False)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org"])
def test_s1_beyond_loopback_keys_cannot_be_left_out(host: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="without keys") as caught:
        create_app(Settings(home=tmp_path, host=host, auth="none"), "postgresql://127.0.0.1:1/nowhere")
    assert caught.value.code == "auth.open_address"


@pytest.mark.parametrize(
    ("auth", "host", "status"), [("auto", "127.0.0.1", 200), ("auto", "0.0.0.0", 401), ("keys", "127.0.0.1", 401)]
)
async def test_s1_keys_are_asked_for_beyond_loopback_or_where_the_operator_says_so(
    auth: Any, host: str, status: int, tmp_path: Path, database_url: str
) -> None:
    app = create_app(Settings(home=tmp_path, host=host, auth=auth), database_url)
    async with serving(app, LOOPBACK) as api:
        assert (await api.get("/api/jobs")).status_code == status


async def test_with_keys_pages_of_any_origin_may_call_but_are_told_nothing_by_their_browser(
    api: httpx.AsyncClient, database_url: str
) -> None:
    key = await make(database_url)
    answer = await api.get("/api/jobs", headers={**bearing(key), "Origin": "https://other.example"})
    assert answer.status_code == 200
    assert not [name for name in answer.headers if name.startswith("access-control")]


async def test_keys_are_made_listed_and_revoked_over_http(api: httpx.AsyncClient, database_url: str) -> None:
    admin = bearing(await make(database_url, Scope.ADMIN, platform="ops"))
    wanted = {"name": "ci", "scope": "submit", "platform": "ddh", "expires_in_seconds": 3600}
    made = (await api.post("/api/keys", json=wanted, headers=admin)).json()

    own = {"Authorization": f"Bearer {made['key']}"}
    assert (await api.get("/api/jobs", headers=own)).status_code == 200
    first = (await api.get("/api/keys?limit=1", headers=admin)).json()
    rest = (await api.get(first["links"]["next"], headers=admin)).json()
    assert [key["platform"] for key in first["items"] + rest["items"]] == ["ddh", "ops"]
    assert (first["items"][0]["id"], first["items"][0]["made_by"]) == (made["id"], f"ops/ci ({rest['items'][0]['id']})")
    assert "key" not in first["items"][0]

    for _ in range(2):
        told = (await api.delete(f"/api/keys/{made['id']}", headers=admin)).json()
        assert (told["state"], told["revoked_by"]) == ("revoked", f"ops/ci ({rest['items'][0]['id']})")
    problem(await api.get("/api/jobs", headers=own), 401, "auth.revoked")
    problem(await api.delete("/api/keys/000000000000", headers=admin), 404, "key.not_found")


async def test_p7_names_that_look_the_same_are_refused(api: httpx.AsyncClient, database_url: str) -> None:
    admin = bearing(await make(database_url, Scope.ADMIN))
    for name in ("ann ", " ann", "\u00a0ann", "a\u200bnn"):
        answer = await api.post("/api/keys", json={"name": name, "scope": "read"}, headers=admin)
        problem(answer, 422, "key.invalid")
    blank = (await api.post("/api/keys", json={"name": "ann ", "scope": "read"}, headers=admin)).json()
    assert (blank["detail"], blank["remedy"]) == (
        "the name of a key, 'ann ', begins or ends with a blank", "Write 'ann': names of keys identify people.",
    )  # fmt: skip


@pytest.mark.parametrize(
    "change",
    [
        {"name": ""},
        {"name": "a\nb"},
        {"scope": "root"},
        {"expires_in_seconds": 0},
        {"platform": None},
        {"platform": "*"},
        {"x": 1},
    ],
)
async def test_o6_a_key_that_cannot_be_is_refused(
    api: httpx.AsyncClient, database_url: str, change: dict[str, object]
) -> None:
    admin = bearing(await make(database_url, Scope.ADMIN))
    answer = await api.post("/api/keys", json={"name": "ci", "scope": "read", **change}, headers=admin)
    problem(answer, 422, "request.invalid")


async def test_o5_keys_that_ended_long_ago_are_removed(database_url: str, clock: Clock) -> None:
    old = [await make(database_url, lasts=timedelta(days=1)), await make(database_url)]
    kept = await make(database_url)
    async with open_keys(database_url) as keys:
        await keys.revoke(old[1].key_id, "a test")
        clock.advance(timedelta(days=32))
        new = await make(database_url)
        assert {key.id for key in await keys.list(limit=10)} == {kept.key_id, new.key_id}


def test_s5_the_app_role_makes_keys_by_functions_only(database_url: str) -> None:
    with connect(database_url, Role.APP) as app:
        for statement in ("select from app.keys", "delete from app.keys", "update app.keys set scope = 'admin'"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                app.execute(statement)


async def test_s6_admin_routes_are_for_admins(api: httpx.AsyncClient, database_url: str) -> None:
    operator, admin = await make(database_url, Scope.OPERATE), await make(database_url, Scope.ADMIN)
    for path in ("/api/db/stats", "/api/db/functions/test", "/api/db/tasks/00", "/api/keys"):
        problem(await api.get(path, headers=bearing(operator)), 403, "auth.forbidden")
    redeploy = "/api/db/schema/redeploy"
    problem(await api.post(f"{redeploy}?confirm=yes", headers=bearing(operator)), 403, "auth.forbidden")
    problem(await api.post(redeploy, headers=bearing(operator)), 403, "auth.forbidden")
    for query in ("", "?confirm=", "?confirm=true"):
        problem(await api.post(redeploy + query, headers=bearing(admin)), 422, "request.unconfirmed")


async def test_s6_a_redeployment_repairs_what_was_done_to_functions(api: httpx.AsyncClient, database_url: str) -> None:
    admin = bearing(await make(database_url, Scope.ADMIN))
    assert (await api.get("/api/db/functions/test", headers=admin)).json()["ok"]
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("drop function app.use_key")

    told = (await api.get("/api/db/functions/test", headers=admin)).json()
    assert (told["ok"], {one["where"] for one in told["differences"]}) == (False, {"app.use_key(_key_id text)"})
    answer = await api.post("/api/db/schema/redeploy?confirm=yes", headers=admin)
    assert (answer.status_code, answer.json()["redeployed"]) == (200, True)
    assert (await api.get("/api/db/functions/test", headers=admin)).json()["ok"]


async def test_every_function_is_called_and_one_that_can_t_be_is_told(
    api: httpx.AsyncClient, database_url: str
) -> None:
    """Its tables and functions are as the files say, but for a column that its body names."""
    admin = bearing(await make(database_url, Scope.ADMIN))
    told = (await api.get("/api/db/functions/test", headers=admin)).json()
    assert (told["ok"], told["called"]) == (True, told["functions"] - 8)  # eight are called by triggers
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("alter table app.sessions rename draining to leaving")
    told = (await api.get("/api/db/functions/test", headers=admin)).json()
    broken = {one["where"]: one["found"] for one in told["differences"] if one["what"] == "call"}
    assert "column s.draining does not exist" in broken["app.claim(bigint,text[],integer,jsonb,boolean)"]
    assert "app.drain(bigint,boolean)" in broken


async def test_s6_a_user_who_may_not_act_as_the_owner_is_refused(
    settings: Settings, database_url: str, request: pytest.FixtureRequest
) -> None:
    name = f"limited_{os.urandom(4).hex()}"
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(f"create role {name} login")
        connection.execute(f"grant anabranch_app, anabranch_reader to {name}")
        request.addfinalizer(lambda: _drop(database_url, name))
    limited = psycopg.conninfo.make_conninfo(database_url, user=name)
    key = await make(database_url, Scope.ADMIN)
    async with serving(create_app(settings, limited)) as api:
        answer = await api.post("/api/db/schema/redeploy?confirm=yes", headers=bearing(key))
        assert name in problem(answer, 403, "database.not_allowed")["detail"]
        assert (await api.get("/api/db/stats", headers=bearing(key))).status_code == 200


def _drop(url: str, role: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"drop owned by {role}")
        connection.execute(f"drop role {role}")


async def test_statistics_tell_sizes_jobs_and_the_oldest_transaction(
    api: httpx.AsyncClient, engine: EngineHarness, database_url: str
) -> None:
    await engine.submit(fan_out(3))
    admin = bearing(await make(database_url, Scope.ADMIN))
    with closing(psycopg.connect(database_url, application_name="a long one")) as connection:
        connection.execute("select 1")
        told = (await api.get("/api/db/stats", headers=admin)).json()

    assert told["jobs"] == {"running": 1}
    assert (told["oldest_transaction"]["process"], told["oldest_transaction"]["seconds"] >= 0) == ("a long one", True)
    tables = {table["name"]: table for table in told["tables"]}
    assert {"jobs", "lanes", "outcomes", "keys"} <= tables.keys()
    assert tables["jobs"]["table_bytes"] > 0
    assert told["database_bytes"] > 1_000_000
    assert 0 < told["connections"] < told["max_connections"]


async def test_rows_of_tasks_tell_who_holds_them(
    api: httpx.AsyncClient, engine: EngineHarness, database_url: str
) -> None:
    job = await engine.submit(fan_out(3))
    await engine.claim(1)
    admin = bearing(await make(database_url, Scope.ADMIN))
    path = f"/api/db/tasks/{job.job_id}"

    first = (await api.get(f"{path}?limit=2", headers=admin)).json()
    rest = (await api.get(f"{path}?after={first['next']}", headers=admin)).json()

    rows = first["items"] + rest["items"]
    assert [(row["position"], row["status"]) for row in rows] == [(0, "running"), (1, "ready"), (2, "ready")]
    assert (rows[0]["session"], rows[0]["pid"]) == (engine.session, os.getpid())
    assert (rows[1]["session"], rest["next"]) == (None, None)


async def test_the_key_of_a_home_is_replaced_while_its_stack_runs(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(HomeKey, "RENEWAL_INTERVAL", timedelta(milliseconds=10))
    home = Home(tmp_path / "home")
    home.acquire()
    home_key = HomeKey(home, needed=True)
    await asyncio.to_thread(home_key.begin, database_url)
    first = home.read_key()
    async with asyncio.timeout(PATIENCE_SECONDS):
        while home.read_key() == first:
            await asyncio.sleep(0.01)
    await asyncio.to_thread(home_key.end)
    assert home.read_key() is None
    async with open_keys(database_url) as keys:
        assert {key.state for key in await keys.list(limit=100)} == {"revoked"}
    home.release()


@pytest.fixture
def server(tmp_path: Path, database_url: str) -> Iterator[ApiProcess]:
    """It listens on every address, and is called over loopback."""
    made = ApiProcess(tmp_path, database_url, HOST="0.0.0.0")
    yield made
    made.close()


async def test_s5_a_secret_shows_nowhere(server: ApiProcess, database_url: str) -> None:
    key = await make(database_url, Scope.ADMIN)
    right = bearing(key)
    body = {"n": 1, "message": key.text}
    calls: list[tuple[str, str, Mapping[str, str], object]] = [
        ("GET", "/api/jobs", right, None),
        ("GET", "/api/keys", right, None),
        ("POST", "/api/jobs/submit/hello_world", right, None),
        ("POST", "/api/jobs/submit/hello_world", right, body),
        ("GET", f"/api/jobs?api_key={key.text}", {}, None),
        ("GET", f"/api/jobs?api_key={key.text.replace('_', '%5F')}", right, None),
        ("GET", f"/api/jobs?{key.text}=1", right, None),
        ("GET", f"/api/jobs?secret={key.secret}", right, None),
        ("GET", f"/api/jobs/{key.text}", right, None),
        ("GET", f"/{key.text}", {}, None),
        ("DELETE", f"/api/keys/{key.text}", right, None),
        ("GET", "/api/jobs", {"X-API-Key": key.text}, None),
        ("GET", "/api/jobs", {"Cookie": f"key={key.text}"}, None),
        ("POST", "/api/jobs/submit/hello_world", {**right, "X-Correlation-ID": key.text}, None),
        ("GET", "/api/jobs", {"Authorization": f"Basic {key.text}"}, None),
        ("GET", "/api/jobs", {"Authorization": key.text}, None),
        ("GET", "/api/jobs", {"Authorization": f"Bearer {key.text} {key.text}"}, None),
    ]
    lines = json.dumps({"workflow": "hello_world", "parameters": {"message": key.text}})
    async with httpx.AsyncClient(base_url=server.url, timeout=PATIENCE_SECONDS) as client:
        answers = [
            await client.request(method, path, headers=headers, json=sent) for method, path, headers, sent in calls
        ]
        bulk = {**right, "Content-Type": "application/x-ndjson"}
        answers.append(await client.post("/api/jobs/bulk", content=lines, headers=bulk))
        yaml = {**right, "Content-Type": "application/yaml"}
        answers.append(await client.post("/api/workflows/validate", content=f"workflow_id: {key.text}", headers=yaml))
        answers.append(await client.post("/api/jobs", headers={**right, "Idempotency-Key": key.text}))
    assert '"auth.misplaced"' in answers[-3].text
    problem(answers[4], 422, "auth.misplaced")
    problem(answers[3], 422, "auth.misplaced")

    told = "\n".join(f"{answer.text}\n{answer.headers}" for answer in answers)
    server.close()
    logged = server.log.read_text()
    for place, text in {"answers": told, "log": logged, "database": dump_tables(database_url)}.items():
        assert key.key_id in text, place
        assert key.secret not in text, place


async def test_p7_the_log_says_who_acts(server: ApiProcess, database_url: str) -> None:
    key = await make(database_url, Scope.ADMIN)
    opened = httpx.AsyncClient(base_url=server.url, headers=bearing(key), timeout=PATIENCE_SECONDS)
    async with open_harness(database_url) as engine, opened as client:
        await client.post("/api/jobs/submit/hello_world")
        await client.post(f"/api/workers/{engine.session}/drain")
        await client.post("/api/queues/default/pause")
    server.close()
    lines = [json.loads(line) for line in server.log.read_text().splitlines() if line.startswith("{")]
    acts = {line["event"]: line for line in lines}
    for act in ("job.accepted", "worker.drained", "limit.paused"):
        assert (acts[act]["principal"], acts[act]["key"]) == ("acme/ci", key.key_id)


async def test_the_client_sends_its_key_and_administers(server: ApiProcess, database_url: str) -> None:
    key = await make(database_url, Scope.ADMIN, platform="ddh")
    with Client(server.url, key=key.text) as client:
        job = client.submit("hello_world", {"n": 1})
        made = client.admin.make_key("reader", "read", platform="ddh", expires_in_seconds=60)
        assert (made.scope, made.expires_at is not None, made.key in repr(made)) == ("read", True, False)
        with Client(server.url, key=made.key) as reader:
            assert reader.job(job.job_id).job_id == job.job_id
            with pytest.raises(NotAllowed, match="needs the scope submit"):
                reader.submit("hello_world")
        assert client.admin.revoke_key(made.id).state == "revoked"
        assert [one.id for one in client.admin.list_keys()] == [made.id, key.key_id]
        assert client.admin.statistics().jobs.keys() <= {"pending", "running"}
        assert client.admin.check_functions().ok
        assert client.admin.redeploy_schema() > 40
        assert {row.node for row in client.admin.task_rows(job.job_id)} <= {"greeting", "reply"}
    with Client(server.url) as stranger, pytest.raises(NotAllowed, match="asks for a key"):
        stranger.jobs()


def test_a_client_can_be_made_of_the_settings(
    server: ApiProcess, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell = {**os.environ, "ANABRANCH_DATABASE_URL": database_url}
    key = run_warm("keys", "create", "laptop", "--scope", "read", "--expires", "30d", env=shell).stdout.strip()
    monkeypatch.setenv("ANABRANCH_API_URL", server.url)
    monkeypatch.setenv("ANABRANCH_API_KEY", key)
    with Client.from_settings() as client:
        assert client.jobs().items == ()


def test_keys_are_made_before_any_exists_and_then_over_http(
    server: ApiProcess, database_url: str, tmp_path: Path
) -> None:
    foreign = {name: value for name, value in os.environ.items() if not name.startswith("ANABRANCH_")}

    def call(*arguments: str, code: int = 0, **settings: Any) -> Any:  # texts; JSON
        done = run_warm(*arguments, "--json", env={**foreign, "ANABRANCH_HOME": str(tmp_path / "none"), **settings})
        assert done.returncode == code, done
        return json.loads(done.stdout or done.stderr)

    database: dict[str, Any] = {"ANABRANCH_DATABASE_URL": database_url}
    nobody = call("keys", "create", "ops", "--scope", "admin", "--platform", "nobody", code=3, **database)
    assert nobody["code"] == "platform.not_found"
    first = call("keys", "create", "ops", "--scope", "admin", "--platform", "ddh", **database)
    assert (first["scope"], first["platform"], first["made_by"]) == ("admin", "ddh", "the operator")

    remote: dict[str, Any] = {"ANABRANCH_API_URL": server.url, "ANABRANCH_API_KEY": first["key"]}
    second = call("keys", "create", "ci", "--scope", "submit", "--expires", "12h", **remote)
    assert (second["platform"], second["made_by"]) == ("default", f"ddh/ops ({first['id']})")
    assert second.keys() == first.keys()
    assert [key["name"] for key in call("keys", "list", **remote)] == ["ci", "ops"]
    assert [key["name"] for key in call("keys", "list", **database)] == ["ci", "ops"]

    own: dict[str, Any] = {"ANABRANCH_API_URL": server.url, "ANABRANCH_API_KEY": second["key"]}
    assert call("submit", "hello_world", **own)["job_id"]
    assert call("keys", "list", code=4, **own)["code"] == "auth.forbidden"
    assert call("keys", "revoke", second["id"], **remote)["state"] == "revoked"
    assert call("keys", "revoke", "nonsense", code=3, **database)["code"] == "key.not_found"
    nowhere = "postgresql://127.0.0.1:1/nowhere"
    told = call("keys", "create", "old", "--scope", "read", code=9, ANABRANCH_DATABASE_URL=nowhere)
    assert told["code"] == "database.unreachable"
    assert call("jobs", code=4, ANABRANCH_API_URL=server.url)["code"] == "auth.missing"


async def test_s1_a_key_that_is_sent_counts_also_where_none_is_needed(tmp_path: Path, database_url: str) -> None:
    async with serving(create_app(Settings(home=tmp_path / "home"), database_url)) as client:
        assert (await client.get("/api/keys")).is_success
        reader = await make(database_url, Scope.READ)
        problem(await client.get("/api/keys", headers=bearing(reader)), 403, "auth.forbidden")
        problem(await client.get("/api/jobs", headers={"Authorization": "Bearer anb_wrong"}), 401, "auth.invalid")


async def test_what_is_said_to_a_wrong_key_where_none_is_needed(tmp_path: Path, database_url: str) -> None:
    async with serving(create_app(Settings(home=tmp_path / "home"), database_url)) as client:
        told = problem(await client.get("/api/jobs", headers={"Authorization": "Basic YTpi"}), 401, "auth.invalid")
        assert "needs no key on this address" in told["remedy"]


@pytest.mark.parametrize("auth", ["auto", "keys"])
async def test_s1_answers_vary_by_the_key_that_counts(auth: Any, tmp_path: Path, database_url: str) -> None:
    async with serving(create_app(Settings(home=tmp_path / "home", auth=auth), database_url), LOOPBACK) as client:
        assert "Authorization" in (await client.get("/api/jobs")).headers["vary"]


@pytest.mark.parametrize("auth", ["auto", "keys"])
async def test_s1_what_is_open_is_open_whatever_key_is_sent(auth: Any, tmp_path: Path) -> None:
    app = create_app(Settings(home=tmp_path / "home", auth=auth), "postgresql://127.0.0.1:1/nowhere")
    transport = httpx.ASGITransport(app)
    async with app.router.lifespan_context(app), httpx.AsyncClient(transport=transport, base_url=LOOPBACK) as client:
        for sent in ("Basic YTpi", "Bearer anb_wrong", f"Bearer {Credential.make().text}"):
            headers = {"Authorization": sent}
            for path in ("/livez", "/docs", "/errors/auth.invalid"):
                assert (await client.get(path, headers=headers)).is_success, (path, sent)
            assert (await client.get("/readyz", headers=headers)).status_code == 503  # and the key was not looked up


async def test_s4_an_application_in_the_process_of_others_leaves_their_gdal_alone(tmp_path: Path) -> None:
    app = create_app(Settings(home=tmp_path / "home"), "postgresql://127.0.0.1:1/nowhere")
    transport = httpx.ASGITransport(app)
    async with app.router.lifespan_context(app), httpx.AsyncClient(transport=transport, base_url=LOOPBACK) as client:
        assert (await client.get("/data")).is_success  # which loads what draws rasters
    assert "GDAL_SKIP" not in os.environ


def test_s4_an_application_closes_gdals_drivers_unless_its_process_is_that_of_others() -> None:
    assert signature(main.create_app).parameters["owns_process"].default is True
