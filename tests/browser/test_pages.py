"""The pages in a real browser: their story with a key, live, by keyboard, and what axe-core finds."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect
from psycopg import Connection
from psycopg.rows import TupleRow

from anabranch.access import DEFAULT_PLATFORM, Scope
from anabranch.canonical import JsonObject
from anabranch.embedded.cluster import Cluster
from anabranch.engine.model import Ended
from anabranch.testing.postgres import Databases
from anabranch.workflows.nodes import OnFailure
from tests.support.browser import DESKTOP, PHONE, Visit, find_barriers, give, open_context, visit
from tests.support.engine import fan_out, open_harness
from tests.support.serving import Served, make_key, serve_api

pytestmark = pytest.mark.postgres
NAMES = (
    "overview",
    "jobs",
    "job",
    "tasks",
    "logs",
    "data",
    "retry",
    "workflows",
    "workflow",
    "map",
    "reference",
    "gone",
)
LOOKS: dict[str, dict[str, Any]] = {  # options of Playwright's
    "desktop": {"viewport": DESKTOP},
    "phone, dark": {"viewport": PHONE, "color_scheme": "dark"},
}
ALL_LOOKS: dict[str, dict[str, Any]] = {
    **LOOKS,
    "desktop, dark": {"viewport": DESKTOP, "color_scheme": "dark"},
    "phone": {"viewport": PHONE},
}


def run(coroutine: Any) -> Any:  # a test in a browser has a loop in its own thread
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, coroutine).result()


async def fill(url: str) -> tuple[str, str]:
    """A job that failed in two ways, and one that runs; their ids."""
    async with open_harness(url) as engine:
        failed = await engine.submit(fan_out(3, on_failure=OnFailure.FINISH), scope=DEFAULT_PLATFORM)
        for claim in await engine.claim():
            word = "torn" if claim.key.place else "empty"
            error: JsonObject = {"code": "handler.error", "message": f"tile {claim.key.place} is {word}"}
            _, rights = await engine.end([claim], Ended.FAILED, error)
            await engine.advance(rights)
        running = await engine.submit(fan_out(4), scope=DEFAULT_PLATFORM, n=1)
        await engine.finish((await engine.claim())[:1])
    return failed.job_id, running.job_id


async def finish(url: str, job_id: str) -> None:
    """Complete all that a job has left."""
    async with open_harness(url) as engine:
        async with asyncio.timeout(60):
            while not (await engine.reads.find(job_id)).finished_at:
                await engine.store.cancel(job_id, "the test is over", "a test")


@pytest.fixture(scope="module")
def url(browser: Browser, postgres: Cluster, postgres_admin: Connection[TupleRow], catalog_template: str) -> str:
    return Databases(postgres, postgres_admin).make(catalog_template)


@pytest.fixture(scope="module")
def jobs(url: str) -> tuple[str, str]:
    found: tuple[str, str] = run(fill(url))
    return found


@pytest.fixture(scope="module")
def served(url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serve_api(url, tmp_path_factory.mktemp("pages") / "home") as api:
        yield api


@pytest.fixture(scope="module")
def paths(jobs: tuple[str, str]) -> dict[str, str]:
    failed, _ = jobs
    return {
        "overview": "/", "jobs": "/jobs", "job": f"/jobs/{failed}", "tasks": f"/jobs/{failed}?view=tasks&status=failed",
        "logs": f"/jobs/{failed}?view=logs", "data": f"/jobs/{failed}?view=data", "retry": f"/jobs/{failed}/retry",
        "workflows": "/workflows", "workflow": "/workflows/process_raster", "map": "/data", "reference": "/docs",
        "gone": "/jobs/0000",
    }  # fmt: skip


def look_at(browser: Browser, served: Served, path: str, look: dict[str, Any]) -> None:
    """Open a page: it fits, nothing is wrong with it, and it keeps nobody out."""
    with open_context(browser, **look) as context:
        made = visit(context, f"{served.url}{path}")
        page = made.page
        expect(page.locator("#content h1").first).to_be_attached()
        expect(page.locator("html[data-ready]")).to_be_attached()
        assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0
        assert find_barriers(page) == []
        if path == "/jobs/0000":
            made.wrong.clear()  # that there is none
        made.check(served.url)


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("name", ["overview", "jobs", "job", "workflow"])
def test_a_page_fits_and_keeps_nobody_out(
    browser: Browser, served: Served, paths: dict[str, str], name: str, look: str
) -> None:
    look_at(browser, served, paths[name], LOOKS[look])


@pytest.mark.slow
@pytest.mark.parametrize("look", ALL_LOOKS)
@pytest.mark.parametrize("name", NAMES)
def test_every_page_fits_and_keeps_nobody_out(
    browser: Browser, served: Served, paths: dict[str, str], name: str, look: str
) -> None:
    look_at(browser, served, paths[name], ALL_LOOKS[look])


@pytest.fixture
def desk(browser: Browser) -> Iterator[BrowserContext]:
    with open_context(browser, viewport=DESKTOP) as opened:
        yield opened


def open_page(context: BrowserContext, served: Served, path: str) -> tuple[Visit, Page]:
    made = visit(context, f"{served.url}{path}")
    return made, made.page


def test_the_story_of_a_failure(desk: BrowserContext, served: Served, jobs: tuple[str, str]) -> None:
    failed, _ = jobs
    made, page = open_page(desk, served, "/")
    page.locator("#places").get_by_role("link", name="Jobs").click()
    page.get_by_label("Status").select_option("failed")
    page.get_by_role("button", name="Filter").click()
    expect(page.locator("[data-row]")).to_have_count(1)
    assert "status=failed" in page.url
    page.locator("[data-row]").click()
    expect(page.locator("#failures tbody tr")).to_have_count(2)
    expect(page.locator("#head .failure")).to_contain_text("handler.error")
    page.locator("#failures tbody tr").first.get_by_role("link", name="Retry this group").click()
    dialog = page.locator("#dialog")
    expect(dialog).to_contain_text("failed tasks")
    dialog.get_by_role("button", name="Retry").click()
    expect(page.locator("#head h1")).to_contain_text("Running")
    expect(page.locator("#failures tbody tr")).to_have_count(0)
    assert page.url.endswith(failed)
    made.check(served.url)
    page.close()


def test_a_job_is_live_and_its_end_is_shown_without_reload(
    desk: BrowserContext, served: Served, url: str, jobs: tuple[str, str]
) -> None:
    _, running = jobs
    made, page = open_page(desk, served, f"/jobs/{running}")
    expect(page.locator("#head h1")).to_contain_text("Running")
    page.evaluate("window.kept = true")
    run(finish(url, running))
    expect(page.locator("#head h1")).to_contain_text("Cancelled")
    expect(page.locator("#graph .cancelled").first).to_be_attached()
    assert page.evaluate("window.kept")
    made.check(served.url)
    page.close()


def test_a_refused_call_is_a_failure_card(desk: BrowserContext, served: Served) -> None:
    made, page = open_page(desk, served, "/workflows/process_raster")
    page.locator("#input-source").fill("no address")
    page.get_by_role("button", name="Only check").click()
    expect(page.locator("output .failure")).to_contain_text("Next step")
    expect(page.locator("#curl")).to_contain_text('"source":"no address"')
    expect(page.locator("#python")).to_contain_text('"source": "no address"')
    made.wrong.clear()  # that it was refused
    made.check(served.url)
    page.close()


def test_a_workflow_is_started_from_its_form(desk: BrowserContext, served: Served) -> None:
    made, page = open_page(desk, served, "/workflows/hello_world")
    page.locator("#input-n").fill("2")
    page.get_by_role("button", name="Start").click()
    expect(page.locator("#head h1")).to_contain_text("hello_world")
    assert "/jobs/" in page.url
    made.check(served.url)
    page.close()


def test_the_keyboard_leads_through_a_list_and_a_graph(
    desk: BrowserContext, served: Served, jobs: tuple[str, str]
) -> None:
    made, page = open_page(desk, served, "/jobs")
    expect(page.locator("[data-row]").first).to_be_visible()
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.name") == "status"
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("j")
    page.keyboard.press("j")
    assert page.evaluate("[...document.querySelectorAll('[data-row]')].indexOf(document.activeElement)") == 1
    page.goto(f"{served.url}/jobs/{jobs[0]}")
    expect(page.locator("#graph .tools button").first).to_be_visible()
    page.locator("[data-node-link=work]").focus()
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.dataset.nodeLink") == "join"
    made.check(served.url)
    page.close()


def test_old_addresses_of_the_map_lead_to_it(desk: BrowserContext, served: Served) -> None:
    made, page = open_page(desk, served, "/#map=3.00/10.00000/20.00000")
    page.wait_for_url("**/data#map=3.00/10.00000/20.00000")
    made.check(served.url)
    page.close()


def test_s1_where_keys_are_required_a_page_asks_for_one_and_shows_what_it_may(
    desk: BrowserContext, url: str, jobs: tuple[str, str], tmp_path: Path
) -> None:
    key, other = make_key(url, Scope.ADMIN), make_key(url, Scope.READ, "other")
    with serve_api(url, tmp_path / "home", auth="keys") as keyed:
        made, page = open_page(desk, keyed, f"/jobs/{jobs[0]}")
        expect(page.locator("#ask")).to_contain_text("This API asks for a key.")
        assert jobs[0][:12] not in page.locator("#content").inner_text()
        give(page, other)
        expect(page.locator("#content")).to_contain_text("job.not_found")
        page.get_by_role("button", name="Forget key").click()
        give(page, key)
        expect(page.locator("#head h1")).to_contain_text(jobs[0][:12])
        page.locator("#places").get_by_role("link", name="Jobs").click()
        expect(page.locator("[data-row]").first).to_be_visible()
        with page.expect_download() as begun:
            page.goto(f"{keyed.url}/jobs/{jobs[0]}")
            page.get_by_role("link", name="Bundle for support").first.click()
        assert begun.value.suggested_filename.endswith(".zip")
        assert [asked for asked in made.asked if key in asked or not asked.startswith((keyed.url, "blob:"))] == []
        assert [wrong for wrong in made.wrong if "401" not in wrong and "404" not in wrong] == []
        page.close()
