"""What people do who only have a browser: publish, find out why, decide, roll back, and hold keys, on a real stack."""

import base64
import hashlib
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Route, expect

from anabranch.webhook_signature import make_secret, sign
from tests.support.browser import DESKTOP, PHONE, find_barriers, open_context, visit
from tests.support.rasters import hills, make_raster
from tests.support.running_stack import RunningStack, run_stack
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = [pytest.mark.postgres, pytest.mark.slow]
ENDED = PATIENCE_SECONDS * 1000
HOSTILE = "<img src=x onerror=alert(1)>"
LOOKS: dict[str, dict[str, Any]] = {  # options of Playwright's
    "desktop": {"viewport": DESKTOP},
    "desktop, dark": {"viewport": DESKTOP, "color_scheme": "dark"},
    "phone": {"viewport": PHONE},
    "phone, dark": {"viewport": PHONE, "color_scheme": "dark"},
}
PAGES = (
    "/submit", "/submit?platform=ddh", "/approvals", "/assets", "/schedules", "/webhooks", "/webhooks/signatures",
    "/workers", "/admin/keys", "/admin/platforms", "/admin/audit", "/admin/settings", "/admin/dead-letters",
)  # fmt: skip


@pytest.fixture(scope="module")
def stack(browser: Browser) -> Iterator[RunningStack]:
    with run_stack(RESTORE_WINDOW_DAYS="30") as running:
        yield running


@pytest.fixture(scope="module")
def api(stack: RunningStack) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=str(stack.client().base_url), timeout=PATIENCE_SECONDS) as client:
        yield client


@pytest.fixture(scope="module")
def files(stack: RunningStack, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A raster that is fine, one without a CRS, and those that the data hub orders."""
    folder = tmp_path_factory.mktemp("files")
    make_raster(folder / "fine.tif", hills())
    make_raster(folder / "odd.tif", hills(), crs=None)
    make_raster(folder / "review.tif", hills()[:, ::-1])
    hub = stack.folder / "home" / "bronze" / "ddh"
    hub.mkdir(parents=True)
    make_raster(hub / "a.tif", hills())
    make_raster(hub / "b.tif", hills()[:, ::-1])
    return folder


@pytest.fixture
def desk(browser: Browser) -> Iterator[BrowserContext]:
    with open_context(browser, viewport=DESKTOP) as opened:
        yield opened


@pytest.fixture
def page(desk: BrowserContext, api: httpx.Client) -> Iterator[Page]:
    """A page that shows nothing wrong, and asks nobody else for anything."""
    made = visit(desk, f"{root_of(api)}/submit")
    yield made.page
    made.check(root_of(api))


def root_of(api: httpx.Client) -> str:
    return str(api.base_url).rstrip("/")


def submit(page: Page, api: httpx.Client, *chosen: Path, approval: bool = False) -> str:
    """Submit files from the page; the job whose page is shown then."""
    page.goto(f"{root_of(api)}/submit")
    page.set_input_files("#files", chosen)
    if approval:
        page.locator("#input-approval").check()
    page.get_by_role("button", name="Upload and check").click()
    page.get_by_role("button", name="Submit the job").click()
    page.wait_for_url("**/jobs/*")
    return page.url.rpartition("/")[2]


def confirm(page: Page, verb: str, reason: str = "") -> None:
    """Say yes in the dialog that asks."""
    dialog = page.locator("dialog[open]")
    if reason:
        dialog.get_by_label("Reason").fill(reason)
    dialog.get_by_role("button", name=verb).click()


def order(api: httpx.Client, source: str, **more: Any) -> str:
    """A release of the data hub that was processed."""
    refs = {"dataset_id": "hills", "resource_id": HOSTILE}
    body = {"platform": "ddh", "refs": refs, "source": f"bronze://ddh/{source}", "title": HOSTILE, **more}
    made = api.post("/api/platform/submit", json=body)
    assert made.is_success, made.text
    release: str = made.json()["release_id"]
    wait(api, release, "processing_status", "completed")
    return release


def wait(api: httpx.Client, release: str, field: str, value: Any) -> Any:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (found := api.get(f"/api/platform/status/{release}").json())[field] != value:
        assert time.monotonic() < deadline, found
        time.sleep(0.1)
    return found


def publish(api: httpx.Client, source: str, revision: int, **more: Any) -> str:
    release = order(api, source, **more)
    assert api.post(f"/api/platform/releases/{release}/approve", json={}).is_success
    wait(api, release, "shown_revision", revision)
    return release


def test_a_dropped_raster_is_published(page: Page, api: httpx.Client, files: Path) -> None:
    """The preflight comes first; then its job is followed to its end, and its item is there."""
    dropped = page.evaluate_handle(
        """bytes => { const given = new DataTransfer();
           given.items.add(new File([Uint8Array.from(atob(bytes), one => one.charCodeAt(0))], "fine.tif"));
           return given; }""",
        encode(files / "fine.tif"),
    )
    page.locator("#drop").dispatch_event("drop", {"dataTransfer": dropped})
    expect(page.locator("#chosen li")).to_contain_text("fine.tif")
    page.get_by_role("button", name="Upload and check").click()
    expect(page.locator("#preflight")).to_contain_text("a job of process_raster")
    expect(page.locator("#chosen progress")).to_have_js_property("value", 1)
    assert api.get("/api/jobs?workflow=process_raster").json()["items"] == []
    page.get_by_role("button", name="Submit the job").click()
    page.wait_for_url("**/jobs/*")
    expect(page.locator("h1")).to_contain_text("Completed", timeout=ENDED)
    job = page.url.rpartition("/")[2]
    assert len(api.get(f"/api/items?job_id={job}").json()["items"]) == 1


def encode(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


def test_why_a_raster_failed_is_said_with_what_to_do(page: Page, api: httpx.Client, files: Path) -> None:
    submit(page, api, files / "odd.tif")
    card = page.locator("#content .failure").first
    expect(card).to_contain_text("raster.crs_missing", timeout=ENDED)
    expect(card).to_contain_text("Next step")
    page.goto(f"{root_of(api)}/admin/dead-letters")
    letter = page.locator(".failure")
    expect(letter).to_contain_text("node validate")
    for words in ("Code", "Where", "Likely cause", "Next step", "A retry runs"):
        expect(letter.locator("dt", has_text=words)).to_have_count(1)


def test_a_raster_is_approved_after_a_look(page: Page, api: httpx.Client, files: Path) -> None:
    job = submit(page, api, files / "review.tif", approval=True)
    expect(page.locator("h1")).to_contain_text("Waiting", timeout=ENDED)
    page.locator("#places").get_by_role("link", name="Approvals").click()
    page.locator(f'a[href="/approvals/jobs/{job}"]').click()
    expect(page.locator(".drafts img")).to_have_js_property("complete", True)
    expect(page.locator("draft-map canvas")).to_be_visible()
    expect(page.get_by_text("Report", exact=True)).to_be_visible()
    assert find_barriers(page) == []
    page.get_by_role("button", name="Approve").click()
    assert find_barriers(page) == []
    confirm(page, "Approve", "it is sharp")
    page.wait_for_url(f"**/jobs/{job}")
    expect(page.locator("h1")).to_contain_text("Completed", timeout=ENDED)


def test_a_draft_is_drawn_without_the_base_map(page: Page, api: httpx.Client, tmp_path: Path) -> None:
    """The map is at the data and asks for its tiles at once, however long the base map takes."""
    corners = [[8, 47], [8.2, 47], [8.2, 47.1], [8, 47.1], [8, 47]]
    feature = {
        "type": "Feature",
        "properties": {"name": "a"},
        "geometry": {"type": "Polygon", "coordinates": [corners]},
    }
    file = tmp_path / f"{'long' * 20}.geojson"
    file.write_text(json.dumps({"type": "FeatureCollection", "features": [feature]}))
    job = submit(page, api, file, approval=True)
    expect(page.locator("h1")).to_contain_text("Waiting", timeout=ENDED)
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.route("**/ui/map/*.geojson", hold)
    with page.expect_request("**/preview/*/tiles/*/*/*", timeout=ENDED) as asked:
        page.goto(f"{root_of(api)}/approvals/jobs/{job}")
    zoom, x, _ = map(int, asked.value.url.split("/")[-3:])
    assert zoom >= 8  # that of the data, not of the world
    assert -1 <= x - int((8.1 + 180) / 360 * 2**zoom) <= 1
    expect(page.locator("draft-map p[role=status]")).to_have_text("", timeout=ENDED)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    for route in held:
        route.continue_()


def test_an_order_is_rejected_with_a_reason(page: Page, api: httpx.Client, files: Path) -> None:
    page.goto(f"{root_of(api)}/submit?platform=ddh")
    page.locator("#ref-dataset_id").fill("rejected")
    page.locator("#ref-resource_id").fill(HOSTILE)
    page.locator("#order-source").fill("bronze://ddh/b.tif")
    page.get_by_role("button", name="Upload and check").click()
    expect(page.locator("#preflight")).to_contain_text("a new release, revision 1")
    page.get_by_role("button", name="Submit the order").click()
    page.wait_for_url("**/jobs/*")
    expect(page.locator("h1")).to_contain_text("Waiting", timeout=ENDED)
    page.goto(f"{root_of(api)}/approvals")
    page.get_by_role("link", name=f"rejected / {HOSTILE}").click()
    page.get_by_role("button", name="Reject").click()
    confirm(page, "Reject")  # which a blank reason stops
    expect(page.locator("dialog[open]")).to_be_visible()
    confirm(page, "Reject", "it is blurred")
    page.wait_for_url("**/approvals")
    page.goto(f"{root_of(api)}/assets?approval_status=rejected")
    page.locator("[data-row]").click()
    expect(page.locator(".release")).to_contain_text("it is blurred")
    expect(page.get_by_role("button", name="Resubmit")).to_be_visible()


def test_p5_a_release_is_rolled_back_and_revoked(page: Page, api: httpx.Client, files: Path) -> None:
    release = publish(api, "a.tif", 1)
    assert publish(api, "b.tif", 2, reprocess=True) == release
    asset = api.get(f"/api/platform/status/{release}").json()["asset_id"]
    page.goto(f"{root_of(api)}/assets/{asset}")
    page.get_by_role("button", name="Roll back").click()
    expect(page.locator("dialog[open]")).to_contain_text("Readers see the newest revision below 2")
    confirm(page, "Roll back", "the second is wrong")
    expect(page.locator(".release")).to_contain_text("readers see revision 1")
    expect(page.get_by_role("button", name="Show revision 2")).to_be_visible()
    page.get_by_role("button", name="Revoke").click()
    confirm(page, "Revoke", "it must not be seen")
    expect(page.locator(".release")).to_contain_text("readers see nothing")
    assert api.get(f"/api/platform/status/{release}").json()["approval_status"] == "revoked"


def test_s5_a_key_is_shown_once_and_revoked(page: Page, api: httpx.Client) -> None:
    page.goto(f"{root_of(api)}/admin/keys")
    page.get_by_label("Name").fill("the laptop")
    page.get_by_label("Scope").select_option("operate")
    page.get_by_label("Platform").fill("ddh")
    page.get_by_role("button", name="Create").click()
    key = page.locator("#secret").inner_text()
    headers = {"Authorization": f"Bearer {key}"}
    assert api.get("/api/jobs", headers=headers).is_success
    row = page.locator("tr", has_text="the laptop")
    expect(row).to_contain_text("Active")
    page.reload()
    expect(row).to_be_visible()
    assert key not in page.content()
    row.get_by_role("button", name="Revoke").click()
    confirm(page, "Revoke")
    expect(row).to_contain_text("Revoked")
    deadline = time.monotonic() + PATIENCE_SECONDS
    while api.get("/api/jobs", headers=headers).status_code != 401:
        assert time.monotonic() < deadline


def test_what_is_refused_is_said_where_it_was_asked(desk: BrowserContext, api: httpx.Client) -> None:
    made = visit(desk, f"{root_of(api)}/admin/keys")
    page = made.page
    page.get_by_label("Name").fill("lost")
    page.get_by_label("Platform").fill("nobody-knows")
    page.get_by_role("button", name="Create").click()
    expect(page.locator("output .failure")).to_contain_text("platform.not_found")
    page.close()


def test_a_worker_is_drained_and_a_queue_is_limited(page: Page, api: httpx.Client) -> None:
    page.goto(f"{root_of(api)}/workers")
    page.get_by_role("button", name="Drain").click()
    confirm(page, "Drain")
    expect(page.locator("#parts")).to_contain_text("Draining")
    page.get_by_role("button", name="Resume").click()
    expect(page.get_by_role("button", name="Drain")).to_be_visible()
    page.locator("#limit-name").fill("raster")
    page.locator("#limit-most").fill("3")
    page.get_by_role("button", name="Set the limit").click()
    row = page.locator("tr", has_text="queue").filter(has_text="raster")
    expect(row).to_contain_text("3")
    row.get_by_role("button", name="Remove").click()
    confirm(page, "Remove")
    expect(page.locator("#parts")).to_contain_text("Nothing is limited")


def test_a_schedule_is_added_run_and_paused(page: Page, api: httpx.Client) -> None:
    page.goto(f"{root_of(api)}/schedules")
    page.locator("#schedule-name").fill("nightly")
    page.locator("#schedule-workflow").select_option("echo")
    page.locator("#schedule-cron").fill("30 2 * * *")
    page.get_by_role("button", name="Add the schedule").click()
    page.wait_for_url("**/schedules/nightly?platform=default")
    page.get_by_role("button", name="Run now").click()
    confirm(page, "Run now")
    expect(page.locator("#state")).to_contain_text("manual")
    page.get_by_role("button", name="Pause").click()
    confirm(page, "Pause")
    expect(page.locator("#state")).to_contain_text("It makes none while it is paused")


def test_the_signature_tester_computes_what_is_sent(page: Page, api: httpx.Client) -> None:
    secret, body = make_secret(), '{"type":"job.completed","who":"Ägir"}'
    page.goto(f"{root_of(api)}/webhooks/signatures")
    for name, value in (("secret", secret), ("message-id", "msg_1"), ("timestamp", "1700000000"), ("body", body)):
        page.locator(f"#{name}").fill(value)
    page.locator("#signature").fill(sign(secret, "msg_1", 1_700_000_000, body.encode()))
    page.get_by_role("button", name="Compute").click()
    expect(page.locator("output")).to_contain_text("It is the one that was received")
    page.locator("#signature").fill("v1,other")
    page.get_by_role("button", name="Compute").click()
    expect(page.locator("output")).to_contain_text("It differs")


def test_a_large_file_is_uploaded_in_parts_that_are_not_there(page: Page, api: httpx.Client, tmp_path: Path) -> None:
    content = np.random.default_rng(7).bytes(17 * 2**20)
    large = tmp_path / "large.tif"
    large.write_bytes(content)
    page.goto(f"{root_of(api)}/submit")
    page.set_input_files("#files", large)
    page.get_by_role("button", name="Upload and check").click()
    expect(page.locator("#preflight")).to_contain_text("a job of process_raster", timeout=ENDED)
    page.locator("#preflight summary").click()
    expect(page.locator("#preflight pre")).to_contain_text(hashlib.sha256(content).hexdigest())


@pytest.mark.parametrize("look", LOOKS)
def test_every_page_fits_and_keeps_nobody_out(browser: Browser, api: httpx.Client, files: Path, look: str) -> None:
    release = order(api, "a.tif", refs={"dataset_id": "looks", "resource_id": look.replace(", ", "-")})
    asset = api.get(f"/api/platform/status/{release}").json()["asset_id"]
    with open_context(browser, **LOOKS[look]) as context:
        for path in (*PAGES, f"/assets/{asset}", f"/approvals/{release}"):
            made = visit(context, f"{root_of(api)}{path}")
            expect(made.page.locator("#content h1").first).to_be_attached()
            made.page.wait_for_load_state("networkidle")
            wide = made.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
            assert (path, wide, find_barriers(made.page)) == (path, 0, [])
            made.check(root_of(api))
            made.page.close()
