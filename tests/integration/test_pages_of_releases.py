"""Pages of what people decide and operate: scopes, other platforms' rows, hostile names, and what they offer."""

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from html import unescape
from pathlib import Path
from typing import Any

import httpx
import pytest

from anabranch.access import KeyRequest, Scope
from anabranch.adapters.postgres.store.keys import open_keys
from anabranch.api.main import create_app
from anabranch.api.security.authentication import Authenticator
from anabranch.settings import Settings

pytestmark = pytest.mark.postgres
SCRIPT = "<img src=x onerror=alert('x')>\"'"
OPEN_PAGES = (
    "/submit", "/approvals", "/assets", "/schedules", "/webhooks", "/webhooks/signatures", "/workers", "/admin/keys",
    "/admin/platforms", "/admin/audit", "/admin/settings", "/admin/dead-letters",
)  # fmt: skip
NEEDS = {
    "/submit": Scope.SUBMIT, "/workers": Scope.ADMIN, "/admin/keys": Scope.ADMIN, "/admin/settings": Scope.ADMIN,
}  # fmt: skip
ORDER = {"platform": "ddh", "refs": {"dataset_id": "d1", "resource_id": SCRIPT}, "source": "bronze://ddh/a.tif"}


@asynccontextmanager
async def opened(home: Path, url: str) -> AsyncIterator[httpx.AsyncClient]:
    app = create_app(Settings(home=home, auth="keys"), url)
    transport = httpx.ASGITransport(app)
    async with app.router.lifespan_context(app), httpx.AsyncClient(transport=transport, base_url="http://t") as client:
        await app.state.gateway.ready()
        yield client


@pytest.fixture
async def api(tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[httpx.AsyncClient]:
    monkeypatch.setattr(Authenticator, "FRESH_SECONDS", 0.0)  # tests don't wait for what is known to be old
    async with opened(tmp_path / "home", database_url) as client:
        yield client


async def bear(url: str, scope: Scope = Scope.OPERATE, platform: str = "ddh") -> dict[str, str]:
    async with open_keys(url) as keys:
        _, credential = await keys.make(KeyRequest("ci", scope, platform), "a test")
    return {"Authorization": f"Bearer {credential.text}"}


async def order(api: httpx.AsyncClient, key: dict[str, str], **more: Any) -> dict[str, Any]:
    """A release whose job waits for a worker."""
    answer = await api.post("/api/platform/submit", json={**ORDER, "title": SCRIPT, **more}, headers=key)
    assert answer.is_success, answer.text
    accepted: dict[str, Any] = answer.json()
    return accepted


async def post(api: httpx.AsyncClient, path: str, body: Any, key: dict[str, str]) -> Any:
    answer = await api.post(path, json=body, headers=key)
    assert answer.is_success, answer.text
    return answer.json()


def calls_of(page: str) -> set[str]:
    """The operations that its buttons and forms name."""
    return {unescape(call) for call in re.findall(r'data-call="([^"]*)"', page)}


@pytest.mark.parametrize("path", OPEN_PAGES)
async def test_s1_without_a_key_a_page_is_a_shell(api: httpx.AsyncClient, path: str) -> None:
    answer = await api.get(path)
    assert answer.status_code == 200
    assert "data-shell" in answer.text
    assert calls_of(answer.text) == set()


@pytest.mark.parametrize("scope", list(Scope))
async def test_s1_scopes_decide_which_pages_are_there(api: httpx.AsyncClient, database_url: str, scope: Scope) -> None:
    key = await bear(database_url, scope)
    start = (await api.get("/approvals", headers=key)).text
    for path in OPEN_PAGES:
        may = scope.includes(NEEDS.get(path, Scope.READ))
        answer = await api.get(path, headers=key)
        assert answer.status_code == (200 if may else 403), path
        assert ("auth.forbidden" in answer.text) == (not may)
        if path in ("/submit", "/workers"):
            assert (f'href="{path}"' in start) == may


async def test_s1_each_operation_that_a_page_offers_is_one_that_the_key_may_call(
    api: httpx.AsyncClient, database_url: str
) -> None:
    """A reader is offered none; what an operator is offered exists in the description of the API."""
    operator, reader = await bear(database_url), await bear(database_url, Scope.READ)
    made = await order(api, operator)
    await add_schedule_and_webhook(api, operator)
    admin = await bear(database_url, Scope.ADMIN)
    document = (await api.get("/openapi.json", headers=admin)).json()
    known = {
        (method.upper(), re.sub(r"\{[^}]*\}", "{}", path)): part
        for path, methods in document["paths"].items()
        for method, part in methods.items()
    }
    paths = [*OPEN_PAGES, f"/assets/{made['asset_id']}", f"/approvals/{made['release_id']}", "/schedules/nightly"]
    for path in paths:
        if Scope.READ.includes(NEEDS.get(path, Scope.READ)):
            assert calls_of((await api.get(path, headers=reader)).text) == set(), path
        for call in calls_of((await api.get(path, headers=admin)).text):
            method, _, target = call.partition(" ")
            assert any(
                re.fullmatch(re.escape(shape).replace(r"\{\}", "[^/]+"), target.partition("?")[0])
                for known_method, shape in known
                if known_method == method
            ), call


async def add_schedule_and_webhook(api: httpx.AsyncClient, key: dict[str, str]) -> None:
    await post(api, "/api/schedules", {"name": "nightly", "workflow": "echo", "cron": "0 2 * * *"}, key)
    await post(api, "/api/webhooks", {"url": "https://hooks.example.org/in?token=s3cret", "description": SCRIPT}, key)


async def test_s1_a_platform_sees_nothing_of_another(api: httpx.AsyncClient, database_url: str) -> None:
    ours, theirs = await bear(database_url), await bear(database_url, platform="arcgis")
    made = await order(api, ours)
    await add_schedule_and_webhook(api, ours)
    for path, shown in (
        ("/assets", made["asset_id"]),
        ("/schedules", "nightly"),
        ("/webhooks", "hooks.example.org"),
        ("/admin/audit", "release.created"),
        ("/admin/platforms", "Data hub"),
        ("/submit", 'value="ddh"'),
    ):
        assert shown in (await api.get(path, headers=ours)).text, path
        assert shown not in (await api.get(path, headers=theirs)).text, path
    for path, code in (
        (f"/assets/{made['asset_id']}", "asset.not_found"),
        (f"/approvals/{made['release_id']}", "release.not_found"),
        (f"/approvals/jobs/{made['job_id']}", "job.not_found"),
        ("/schedules/nightly", "schedule.not_found"),
        ("/submit?platform=ddh", "platform.not_found"),
    ):
        hidden = await api.get(path, headers=theirs)
        assert (hidden.status_code, code in hidden.text) == (404, True), path
        assert (await api.get(path, headers=ours)).status_code == 200, path
    assert (await api.get("/schedules/nightly?platform=ddh", headers=theirs)).status_code == 403


async def test_s2_what_partners_write_is_text(api: httpx.AsyncClient, database_url: str) -> None:
    key = await bear(database_url, Scope.ADMIN)
    made = await order(api, key, tags=[SCRIPT], description=SCRIPT)
    await add_schedule_and_webhook(api, key)
    await post(api, "/api/keys", {"name": SCRIPT, "scope": "read"}, key)
    await post(api, "/api/queues/default/pause", {"reason": SCRIPT}, key)
    limit = await api.put("/api/limits/key/%3Cb%3E%22", json={"most": 2, "reason": SCRIPT}, headers=key)
    assert limit.is_success, limit.text
    for path in (
        "/assets", f"/assets/{made['asset_id']}", f"/approvals/{made['release_id']}", "/webhooks",
        "/admin/keys", "/admin/audit", "/workers",
    ):  # fmt: skip
        text = (await api.get(path, headers=key)).text
        assert "<img src=x" not in text, path
        assert "alert(" in text, path
    workers = (await api.get("/workers", headers=key)).text
    assert "DELETE /api/limits/key/%3Cb%3E%22" in workers


async def test_s5_secrets_are_not_on_pages(api: httpx.AsyncClient, database_url: str) -> None:
    operator, admin = await bear(database_url), await bear(database_url, Scope.ADMIN)
    await add_schedule_and_webhook(api, operator)
    assert "s3cret" not in (await api.get("/webhooks", headers=await bear(database_url, Scope.READ))).text
    settings = (await api.get("/api/settings", headers=admin)).json()
    assert {"name", "value", "origin"} == settings[0].keys()
    password = {one["name"]: one["value"] for one in settings}["database_url"]
    page = (await api.get("/admin/settings", headers=admin)).text
    assert all(one["name"] in page for one in settings)
    assert password is None or "***" in password
    assert (await api.get("/api/settings", headers=operator)).json()["code"] == "auth.forbidden"


async def test_a_release_offers_what_fits_its_state(api: httpx.AsyncClient, database_url: str) -> None:
    key = await bear(database_url)
    made = await order(api, key)
    page = (await api.get(f"/assets/{made['asset_id']}", headers=key)).text
    release = f"/api/platform/releases/{made['release_id']}"
    offered = calls_of(page)
    assert f"POST {release}/clearance" in offered
    assert not {f"POST {release}/{act}" for act in ("rollback", "revoke", "resubmit")} & offered
    review = (await api.get(f"/approvals/{made['release_id']}", headers=key)).text
    assert not {f"POST {release}/{act}" for act in ("approve", "reject")} & calls_of(review)
    assert "Waits for review" not in review


async def test_filters_of_assets_are_in_the_address(api: httpx.AsyncClient, database_url: str) -> None:
    key = await bear(database_url)
    first = await order(api, key)
    second = await order(api, key, refs={"dataset_id": "d2", "resource_id": "dem"})
    for query, shown in (
        ("ref_name=dataset_id&ref_value=d2&processing_status=&approval_status=", second),
        ("ref_name=dataset_id&ref_value=d1", first),
    ):
        text = (await api.get(f"/assets?{query}", headers=key)).text
        assert [one["asset_id"] in text for one in (first, second)] == [one is shown for one in (first, second)]
    assert "No release fits" in (await api.get("/assets?processing_status=failed", headers=key)).text
    assert "request.invalid" in (await api.get("/assets?processing_status=odd", headers=key)).text


async def test_the_form_of_an_order_asks_for_its_references_and_options(
    api: httpx.AsyncClient, database_url: str
) -> None:
    key = await bear(database_url)
    text = (await api.get("/submit?platform=ddh&data_type=raster", headers=key)).text
    for name in ("refs.dataset_id", "refs.resource_id", "refs.version_id", "options.input_crs", "clearance"):
        assert f'name="{name}"' in text
    assert re.search(r'name="options.collection" value=""', text)  # the platform has a collection of its own
    for decided in ("approval", "dry_run", "item_id", "source", "title"):
        assert f'name="options.{decided}"' not in text
    part = await api.get("/submit?workflow=echo", headers={**key, "HX-Request": "true", "HX-Target": "form"})
    assert 'data-workflow="echo"' in part.text
    assert "<h1" not in part.text


async def test_files_are_known_by_their_extensions(api: httpx.AsyncClient, database_url: str) -> None:
    text = (await api.get("/submit", headers=await bear(database_url))).text
    kinds = json.loads(unescape(text.split("data-kinds='")[1].split("'")[0]))
    assert (kinds[".tif"], kinds[".gpkg"], kinds[".zip"]) == ("raster", "vector", "archive")
    by_kind = json.loads(unescape(text.split("data-by-kind='")[1].split("'")[0]))
    assert by_kind == {"raster": "process_raster", "vector": "process_vector"}


async def test_a_schedule_shows_its_next_ticks(api: httpx.AsyncClient, database_url: str) -> None:
    key = await bear(database_url)
    await add_schedule_and_webhook(api, key)
    text = (await api.get("/schedules/nightly", headers=key)).text
    assert len(re.findall(r"02:00:00 UTC</span></li>", text)) == 5
    assert "POST /api/schedules/nightly/pause?platform=ddh" in calls_of(text)
    await post(api, "/api/schedules/nightly/pause", None, key)
    paused = (await api.get("/schedules/nightly", headers=key)).text
    assert "It makes none while it is paused" in paused
    assert "POST /api/schedules/nightly/resume?platform=ddh" in calls_of(paused)


async def test_what_is_empty_says_what_would_be_there(api: httpx.AsyncClient, database_url: str) -> None:
    key = await bear(database_url)
    for path, words in (
        ("/approvals", "Nothing waits for you"),
        ("/assets", "There is no asset yet"),
        ("/schedules", "Nothing is scheduled"),
        ("/webhooks", "No endpoint yet"),
        ("/admin/dead-letters", "Nothing failed for good"),
    ):
        assert words in (await api.get(path, headers=key)).text, path
