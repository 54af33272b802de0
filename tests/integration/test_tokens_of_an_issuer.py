"""Tokens of an issuer wherever a key works: as whom, for which platform, and where they never show (S1, S5, P7)."""

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from anabranch.access import KeyRequest, Scope
from anabranch.adapters.postgres.store.keys import open_keys
from anabranch.canonical import Json
from anabranch.client import AsyncClient, Client, NotAllowed
from anabranch.oidc.settings import OidcSettings
from anabranch.platform.action_by import ALL_PLATFORMS, ActionBy
from anabranch.settings import Settings
from tests.support.api_process import ApiProcess, dump_tables
from tests.support.application import create_app
from tests.support.issuer import AUDIENCE, LocalIssuer, make_signing_key, open_issuer, sign
from tests.support.receiver import answering
from tests.support.server import serve
from tests.support.waiting import PATIENCE_SECONDS
from tests.support.warm import run_warm

pytestmark = pytest.mark.postgres

BASE = "http://anabranch.example"
ADMIN = ActionBy(ALL_PLATFORMS, "operator", None, "c")
PLATFORM: Mapping[str, Json] = {
    "title": "Partner", "required_refs": ["id"], "optional_refs": [], "workflows": {}, "approval": "none",
    "callback_hosts": [],
}  # fmt: skip
PLACES = {"/api/jobs": 200, "/stac": 200, "/stac/search": 200, "/features/collections": 200, "/ogc/jobs": 200,
          "/files/00000000000000000000000000000000/a.tif": 404, "/api/jobs/x/stream": 404,
          "/openapi.json": 200}  # fmt: skip


@pytest.fixture
async def issuer() -> AsyncIterator[LocalIssuer]:
    async with open_issuer() as opened:
        yield opened


def settings_for(issuer: LocalIssuer, home: Path, **more: Any) -> Settings:
    return Settings(home=home, auth="keys", oidc=OidcSettings(**issuer.settings, platform_claim="tenant"), **more)


@asynccontextmanager
async def open_api(app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app)
    async with app.router.lifespan_context(app), httpx.AsyncClient(transport=transport, base_url=BASE) as client:
        await app.state.gateway.ready()
        for platform in ("acme", "other"):
            await app.state.gateway.releases.save_platform(platform, PLATFORM, ADMIN)
        yield client


@pytest.fixture
def app(issuer: LocalIssuer, database_url: str, tmp_path: Path) -> FastAPI:
    return create_app(settings_for(issuer, tmp_path / "home", wrong_keys_per_minute=5), database_url)


@pytest.fixture
async def api(app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    async with open_api(app) as client:
        yield client


def bearing(
    issuer: LocalIssuer, scope: Scope = Scope.READ, tenant: str | None = "acme", **claims: Any
) -> dict[str, str]:
    return {"Authorization": f"Bearer {issuer.sign(roles=[f'anabranch.{scope}'], tenant=tenant, **claims)}"}


def problem(answer: httpx.Response, status: int, code: str) -> Mapping[str, Any]:
    told: dict[str, Any] = answer.json()
    assert (answer.status_code, told["code"]) == (status, code), told
    return told


async def test_s1_a_token_works_wherever_a_key_does(issuer: LocalIssuer, catalog_url: str, tmp_path: Path) -> None:
    async with open_api(create_app(settings_for(issuer, tmp_path), catalog_url)) as api:
        own = bearing(issuer)
        found = {path: (await api.get(path, headers=own)).status_code for path in PLACES}
        assert found == PLACES
        assert {(await api.get(path)).status_code for path in PLACES} == {401}


async def test_s1_the_scope_of_a_token_limits_what_it_may(api: httpx.AsyncClient, issuer: LocalIssuer) -> None:
    submit = "/api/jobs/submit/hello_world"
    answer = await api.post(submit, json={"n": 2}, headers=bearing(issuer))
    assert "submit" in problem(answer, 403, "auth.forbidden")["remedy"]
    assert (await api.post(submit, json={"n": 2}, headers=bearing(issuer, Scope.SUBMIT))).status_code == 202
    assert (await api.get("/api/keys", headers=bearing(issuer, Scope.OPERATE))).status_code == 403
    assert (await api.get("/api/keys", headers=bearing(issuer, Scope.ADMIN))).status_code == 200


async def test_s1_refusals_say_what_the_token_lacks(api: httpx.AsyncClient, issuer: LocalIssuer) -> None:
    async def ask(**claims: Any) -> httpx.Response:
        return await api.get("/api/jobs", headers={"Authorization": f"Bearer {issuer.sign(**claims)}"})

    answer = await ask(tenant="acme", exp=int(time.time()) - 600)
    problem(answer, 401, "auth.expired")
    assert 'error="invalid_token"' in answer.headers["www-authenticate"]
    assert "aud" in problem(await ask(tenant="acme", aud="other"), 401, "auth.token")["detail"]
    assert "realm_access.roles" in problem(await ask(tenant="acme", roles=None), 403, "auth.unmapped")["detail"]
    assert "tenant" in problem(await ask(), 403, "auth.unmapped")["detail"]
    wrong = await api.get("/api/jobs", headers={"Authorization": "Bearer " + "x" * 40})
    forged = sign(issuer.claims(), make_signing_key(number=1), kid="first")
    told = problem(await api.get("/api/jobs", headers={"Authorization": f"Bearer {forged}"}), 401, "auth.invalid")
    assert told["detail"] == problem(wrong, 401, "auth.invalid")["detail"]


async def test_s1_a_token_for_a_platform_that_nobody_has_made_is_refused(
    api: httpx.AsyncClient, issuer: LocalIssuer
) -> None:
    refused = problem(await api.get("/api/jobs", headers=bearing(issuer, tenant="nobodys")), 403, "auth.unmapped")
    assert "'nobodys'" in refused["detail"]
    assert "anabranch platforms save nobodys" in refused["remedy"]
    assert (await api.get("/api/jobs", headers=bearing(issuer, tenant="acme"))).status_code == 200


async def test_s1_two_headers_or_another_scheme_are_no_token(api: httpx.AsyncClient, issuer: LocalIssuer) -> None:
    token = issuer.sign(tenant="acme")
    problem(await api.get("/api/jobs", headers={"Authorization": f"Basic {token}"}), 401, "auth.invalid")
    twice = [("Authorization", f"Bearer {token}")] * 2
    problem(await api.get("/api/jobs", headers=twice), 401, "auth.invalid")


async def test_p7_what_a_token_did_shows_its_subject_and_issuer(api: httpx.AsyncClient, issuer: LocalIssuer) -> None:
    own = bearing(issuer, Scope.OPERATE)
    body = {"workflow": "hello_world", "parameters": {"n": 2}}
    job = (await api.post("/api/jobs", json=body, headers=own)).json()["job_id"]
    await api.post(f"/api/jobs/{job}/cancel", headers=own)
    events = (await api.get(f"/api/jobs/{job}/events", headers=own)).json()["items"]
    assert {event["by"] for event in events if event["by"]} == {f"acme/ann ({issuer.url})"}
    assert events[0]["data"] == {"ordinal": 0, "scope": "operate"}


async def test_s1_a_token_of_one_platform_sees_nothing_of_another(
    api: httpx.AsyncClient, issuer: LocalIssuer, database_url: str
) -> None:
    async with open_keys(database_url) as keys:
        _, key = await keys.make(KeyRequest("ci", Scope.SUBMIT, "acme"), "a test")
    submit = "/api/jobs/submit/hello_world"
    own = (await api.post(submit, json={"n": 2}, headers={"Authorization": f"Bearer {key.text}"})).json()["job_id"]
    same = await api.post(submit, json={"n": 2}, headers=bearing(issuer, Scope.SUBMIT))
    other = await api.post(submit, json={"n": 2}, headers=bearing(issuer, Scope.SUBMIT, "other"))

    assert (same.status_code, same.json()["job_id"]) == (200, own)  # keys and tokens of a platform share jobs
    assert other.json()["job_id"] != own
    for tenant, seen in (("acme", own), ("other", other.json()["job_id"])):
        listed = (await api.get("/api/jobs", headers=bearing(issuer, tenant=tenant))).json()["items"]
        assert [job["job_id"] for job in listed] == [seen]
    problem(await api.get(f"/api/jobs/{own}/events", headers=bearing(issuer, tenant="other")), 404, "job.not_found")
    everything = (await api.get("/api/jobs", headers=bearing(issuer, Scope.ADMIN, "other"))).json()["items"]
    assert len(everything) == 2


async def test_s5_a_token_is_accepted_in_its_header_only(api: httpx.AsyncClient, issuer: LocalIssuer) -> None:
    own, token = bearing(issuer, Scope.SUBMIT), issuer.sign(tenant="acme")
    answers = [
        await api.get(f"/api/jobs?access_token={token}"),
        await api.get(f"/api/jobs?label=a:{token}", headers=own),
        await api.get(f"/api/jobs/{token}", headers=own),
        await api.post("/api/jobs/submit/hello_world", json={"n": 2, "note": token}, headers=own),
    ]
    for answer in answers:
        problem(answer, 422, "auth.misplaced")
        assert token.rpartition(".")[2] not in answer.text + str(answer.headers)
    # Gateways and cookies of a parent domain bring tokens of others: they neither let anybody in nor keep anybody out.
    for header in ("Cookie", "X-Amzn-Oidc-Data", "X-Correlation-ID"):
        brought = {header: token}
        assert (await api.get("/livez", headers=brought)).status_code == 200
        assert (await api.get("/api/jobs", headers=brought)).status_code == 401
        answer = await api.get("/api/jobs", headers={**own, **brought})
        assert (answer.status_code, token in str(answer.headers)) == (200, False)


async def test_s5_a_token_shows_nowhere(issuer: LocalIssuer, database_url: str, tmp_path: Path) -> None:
    """Neither in answers, logs and rows of an API in a process of its own, nor by the command that sends it."""
    oidc = {"OIDC__ISSUER": issuer.url, "OIDC__AUDIENCE": AUDIENCE, "AUTH": "keys"}
    server = await asyncio.to_thread(ApiProcess, tmp_path, database_url, **oidc)
    token, useless = issuer.sign(roles=["anabranch.submit"]), issuer.sign(roles=None)
    signatures = [each.rpartition(".")[2] for each in (token, useless)]
    async with httpx.AsyncClient(base_url=server.url, timeout=PATIENCE_SECONDS) as client:
        answers = [
            await client.get(path, headers={"Authorization": f"Bearer {sent}"})
            for sent in (token, useless)
            for path in ("/api/jobs", f"/api/jobs/{token}", f"/{token}?{useless}=1")
        ]
        raster = "/raster/collections/x/info"  # only here: it limits GDAL in its process
        drawn = [await client.get(raster, headers=given) for given in ({}, {"Authorization": f"Bearer {token}"})]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ANABRANCH_")} | {
        "ANABRANCH_HOME": str(tmp_path / "none"), "ANABRANCH_API_URL": server.url, "ANABRANCH_API_KEY": token,
    }  # fmt: skip
    done = await asyncio.to_thread(run_warm, "submit", "hello_world", "--json", env=environment)
    await asyncio.to_thread(server.close)

    assert [answer.status_code for answer in answers] == [200, 422, 422, 403, 422, 422]
    assert [answer.status_code for answer in drawn] == [401, 404]
    assert json.loads(done.stdout)["job_id"]
    told = "".join(f"{answer.text}{answer.headers}" for answer in answers) + done.stdout + done.stderr
    for place, text in {"told": told, "log": server.log.read_text(), "rows": dump_tables(database_url)}.items():
        assert not [each for each in signatures if each in text], place
    lines = map(json.loads, server.log.read_text().splitlines())
    assert {line.get("issuer") for line in lines if line.get("principal") == "default/ann"} == {issuer.url}


async def test_s7_forged_tokens_slow_their_address_down_and_good_ones_pass(
    api: httpx.AsyncClient, issuer: LocalIssuer
) -> None:
    forged = [sign(issuer.claims(), make_signing_key(number=1), kid=f"{number}") for number in range(20)]
    asking = (api.get("/api/jobs", headers={"Authorization": f"Bearer {token}"}) for token in forged)
    codes = [answer.status_code for answer in await asyncio.gather(*asking)]
    assert (codes.count(401), codes.count(429)) == (5, 15)
    assert (await api.get("/api/jobs", headers=bearing(issuer, sub="never seen"))).status_code == 200
    assert issuer.asked == 1


async def test_limits_of_requests_are_those_of_the_subject(
    issuer: LocalIssuer, database_url: str, tmp_path: Path
) -> None:
    app = create_app(settings_for(issuer, tmp_path, key_requests_per_minute=2), database_url)
    async with open_api(app) as api:
        found = [(await api.get("/openapi.json", headers=bearing(issuer, jti=f"{n}"))).status_code for n in range(3)]
        assert found == [200, 200, 429]
        assert (await api.get("/openapi.json", headers=bearing(issuer, sub="bob"))).status_code == 200


async def test_an_issuer_that_is_down_is_no_wrong_token(
    api: httpx.AsyncClient, issuer: LocalIssuer, database_url: str
) -> None:
    issuer.receiver.behave = answering(503)
    problem(await api.get("/api/jobs", headers=bearing(issuer)), 503, "auth.unavailable")
    async with open_keys(database_url) as keys:
        _, key = await keys.make(KeyRequest("ops", Scope.ADMIN), "a test")
    health = (await api.get("/api/health", headers={"Authorization": f"Bearer {key.text}"})).json()
    told = health["components"]["issuer"]
    assert (told["status"], "503" in told["detail"], "ISSUER" in told["remedy"]) == ("degraded", True, True)


async def test_a_client_asks_for_a_new_token_when_the_old_one_has_expired(
    app: FastAPI, issuer: LocalIssuer, tmp_path: Path
) -> None:
    asked: list[str] = []

    async def ask() -> str:
        expiry = int(time.time()) + (600 if asked else -600)
        asked.append(issuer.sign(tenant="acme", roles=["anabranch.submit"], exp=expiry))
        return asked[-1]

    (tmp_path / "a.txt").write_bytes(b"content")
    async with serve(app) as url, AsyncClient(url, key=ask) as client:
        await app.state.gateway.releases.save_platform("acme", PLATFORM, ADMIN)
        assert (await client.upload(tmp_path / "a.txt")).size == 7  # sent again from its start
        job = await client.submit("hello_world", {"n": 1})
        assert (await client.job(job.job_id)).job_id == job.job_id
        assert len(asked) == 2
        with pytest.raises(NotAllowed):
            await client.admin.list_keys()
        assert len(asked) == 2  # it is forbidden, and not expired
        async with AsyncClient(url, key=lambda: asked[0]) as expired:
            with pytest.raises(NotAllowed, match="expired"):
                await expired.jobs()
        given = iter(asked)
        with Client(url, key=lambda: next(given)) as other:
            await asyncio.to_thread(other.upload, tmp_path / "a.txt")
            with pytest.raises(StopIteration):
                next(given)
