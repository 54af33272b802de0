"""Search on the data page: by text, time, collection and view; pictures; where the map opens; what appears later."""

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote
from xml.etree import ElementTree

import pytest
from playwright.sync_api import BrowserContext, expect

from tests.support.browser import PHONE, Visit, find_barriers, open_context, visit
from tests.support.data_page import SQUARE, choose, paint
from tests.support.serving import Raster, Served, add_items

pytestmark = pytest.mark.postgres

LAYERS = [re.compile("Parks|Trees")] * 2


def test_items_are_searched_by_text_collection_and_time(visited: Visit, served: Served) -> None:
    page = visited.page
    page.keyboard.press("/")  # leads to the search
    page.keyboard.type("PHOT")
    expect(page.locator("#items strong")).to_have_text(["photo"])
    expect(page).to_have_url(re.compile(r"#q=PHOT"))
    page.get_by_label("Search").fill("100% 'of it")
    expect(page.locator("#message")).to_contain_text("Nothing matches.")
    page.get_by_role("button", name="Reset").click()
    page.get_by_label("Collection").select_option("layers")
    expect(page.locator("#items strong")).to_have_text(LAYERS)
    page.get_by_label("From").fill("2024-05-02")
    expect(page.locator("#message")).to_contain_text("Nothing matches.")
    page.get_by_label("From").fill("2024-05-01")
    page.get_by_label("To", exact=True).fill("2024-05-01")
    expect(page.locator("#items strong")).to_have_text(LAYERS)
    page.get_by_label("From").fill("2024-04-01")
    page.get_by_label("To", exact=True).fill("2024-04-30")
    expect(page.locator("#message")).to_contain_text("Nothing matches.")
    page.reload()
    expect(page.locator("#message")).to_contain_text("Nothing matches.")
    assert page.get_by_label("From").input_value() == "2024-04-01"


def test_items_in_this_view_are_those_that_the_map_shows(visited: Visit, served: Served) -> None:
    page = visited.page
    page.goto("about:blank")
    page.goto(f"{served.url}/data#here=1&map=7.00/-33.50000/-70.10000")
    expect(page.locator("#items strong")).to_have_text(["photo"])
    page.goto("about:blank")
    page.goto(f"{served.url}/data#here=1&map=7.00/-41.00000/174.50000")
    expect(page.locator("#items strong")).to_have_text(["classes"])


def test_the_map_opens_on_the_data(visited: Visit, served: Served) -> None:
    page = visited.page
    page.goto("about:blank")
    page.goto(f"{served.url}/data#in=squares")
    expect(page.locator("#items strong")).to_have_text(["shift", "cover"])
    expect(page).to_have_url(re.compile(r"map="))
    zoom, latitude, longitude = map(float, page.url.partition("map=")[2].split("/"))
    west, south, east, north = SQUARE
    assert zoom > 7
    assert south < latitude < north
    assert west < longitude < east


def test_items_have_pictures(visited: Visit) -> None:
    page = visited.page
    page.get_by_label("Collection").select_option("squares")
    expect(page.locator("#items img")).to_have_count(2)
    page.wait_for_function("[...document.querySelectorAll('#items img')].every((one) => one.naturalWidth > 0)")
    before = page.locator("#items li").first.bounding_box()
    assert before
    assert before["height"] < 90


def test_what_is_published_meanwhile_appears(visited: Visit, served: Served, url: str, rasters: list[Raster]) -> None:
    page = visited.page
    folder = rasters[0].path.parent
    page.goto("about:blank")
    page.goto(f"{served.url}/data#in=news")
    expect(page.locator("#message")).to_contain_text("Nothing matches.")
    add_items(url, [paint(folder, "late", (90, 20, 120))], "news", created="2026-10-03T10:00:00Z")
    page.evaluate("document.body.dispatchEvent(new Event('changed'))")  # as it is every 15 seconds
    expect(page.locator("#items strong")).to_have_text(["late"])
    choose(page, "late")
    first = [asked for asked in visited.asked if "/items/late/tiles/" in asked]
    assert first
    again = replace(paint(folder, "late-2", (10, 120, 120)), name="late")
    add_items(url, [again], "news", created="2026-10-03T11:00:00Z")
    with page.expect_response(lambda answer: "/items/late/tiles/" in answer.url and answer.url not in first):
        page.evaluate("document.body.dispatchEvent(new Event('changed'))")


def test_an_item_can_be_used_elsewhere(visited: Visit, served: Served, tmp_path: Path) -> None:
    page = visited.page
    choose(page, "hills")
    page.get_by_text("Use it in QGIS").click()
    addresses = page.locator("#elsewhere code").all_inner_texts()
    tile = addresses[0].replace("{z}", "9").replace("{x}", "269").replace("{y}", "179")
    assert served.client.get(tile).headers["content-type"].startswith("image/")
    assert served.client.get(addresses[1]).json()["tiles"]
    with page.expect_download() as begun:
        page.get_by_role("button", name="Layer file for QGIS").click()
    source = ElementTree.fromstring(Path(begun.value.path()).read_text()).findtext("maplayers/maplayer/datasource")
    assert source is not None
    assert unquote(source).split("url=")[1].split("&zmin=")[0] == addresses[0]
    with page.expect_download() as begun:
        page.get_by_role("button", name="Notebook").click()
    cells = json.loads(Path(begun.value.path()).read_text())["cells"]
    code = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "EPSG:4326 (300, 400)" in done.stdout


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_on_the_page_keeps_anybody_out(context: BrowserContext, served: Served, scheme: str) -> None:
    browser = context.browser
    assert browser
    size = PHONE if scheme == "dark" else {"width": 1280, "height": 860}
    with open_context(browser, viewport=size, color_scheme=scheme) as opened:
        made = visit(
            opened, f"{served.url}/data#in=layers&collection=layers&item=trees&table=layers/trees&layer=layers/trees"
        )
        page = made.page
        expect(page.locator("#table tbody tr").first).to_be_visible()
        expect(page.locator("#state")).to_be_empty()
        assert find_barriers(page) == []
        page.get_by_role("tab", name="Layers").click()
        page.locator("#layers summary").first.click()
        assert find_barriers(page) == []
        made.check(served.url)
