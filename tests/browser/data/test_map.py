"""The data page in a real browser: the list, the map, tiles, files and the keyboard."""

import re
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser, BrowserContext, expect

from anabranch.adapters.postgres.schema.pgstac import migrate_catalog
from tests.support.browser import Visit, give, open_context, visit
from tests.support.data_page import choose, find, see, titles
from tests.support.serving import Raster, Served, make_key, serve_api

pytestmark = pytest.mark.postgres

DOT = (11, 110, 110)
PARK = (221, 179, 157)  # the colour of layers over that of land


def test_the_newest_items_come_first_and_more_on_demand(visited: Visit) -> None:
    assert titles(visited.page)[:3] == ["classes", "photo", "hills"]
    visited.page.get_by_label("Collection").select_option("scenes")
    expect(visited.page.locator("#count")).to_have_text("50 of 54 items")
    visited.page.get_by_role("button", name="Show more").click()
    expect(visited.page.locator("#items button")).to_have_count(54)
    expect(visited.page.get_by_role("button", name="Show more")).to_be_hidden()
    assert len(set(titles(visited.page))) == 54


def test_tn13_a_clicked_item_is_drawn_where_it_is(visited: Visit) -> None:
    choose(visited.page, "classes")
    for colour in ((20, 90, 50), (230, 200, 60), (60, 120, 200), (190, 60, 60)):
        find(visited.page, colour, share=0.01)
    tiles = [url for url in visited.asked if "/tiles/WebMercatorQuad/" in url]
    assert tiles
    assert visited.page.locator("#facts h2").inner_text() == "classes"


def test_an_item_across_180_degrees_is_shown_whole(visited: Visit) -> None:
    choose(visited.page, "crossing")
    find(visited.page, (200, 0, 0), share=0.05)
    find(visited.page, (0, 0, 200), share=0.03)  # the facts of the item cover some of it
    red, blue = (np.nonzero(see(visited.page, colour))[1] for colour in ((200, 0, 0), (0, 0, 200)))
    assert red.max() < blue.min() < red.max() + 4  # one beside the other


def test_c1_an_unknown_acquisition_time_is_not_shown_as_1970(visited: Visit) -> None:
    choose(visited.page, "crossing")
    assert "unknown, before 2026-11-01" in visited.page.locator("#about").inner_text()
    assert "1970" not in visited.page.locator("body").inner_text()


def test_hints_of_an_item_say_how_it_is_drawn(visited: Visit) -> None:
    choose(visited.page, "hills")
    tiles = [url for url in visited.asked if "/items/hills/tiles/" in url]
    assert tiles
    request = visited.page.request
    said = request.get(f"{tiles[0]}&rescale=480,1000&colormap_name=terrain")
    assert request.get(tiles[0]).body() == said.body()


def test_its_file_can_be_downloaded(visited: Visit, rasters: list[Raster]) -> None:
    choose(visited.page, "photo")
    with visited.page.expect_download() as begun:
        visited.page.locator("#files a").click()
    assert begun.value.suggested_filename == "photo.tif"
    assert Path(begun.value.path()).read_bytes() == rasters[1].path.read_bytes()


def test_tn13_the_address_holds_the_item_and_the_view(visited: Visit, browser: Browser, served: Served) -> None:
    page = visited.page
    choose(page, "classes")
    expect(page).to_have_url(re.compile(r"/data#collection=scenes&item=classes&map=[0-9./-]+$"))
    shared = page.url
    choose(page, "photo")
    expect(page).to_have_url(re.compile("item=photo&map="))
    page.go_back()
    expect(page.locator("#facts h2")).to_have_text("classes")
    expect(page).to_have_url(shared)
    page.go_forward()
    expect(page.locator("#facts h2")).to_have_text("photo")
    page.keyboard.press("Escape")
    expect(page).not_to_have_url(re.compile("item="))
    page.go_back()
    expect(page.locator("#facts h2")).to_have_text("photo")
    page.goto(shared.replace("item=classes", "item=gone"))
    expect(page.locator("#message")).to_contain_text("gone")
    visited.wrong.clear()  # that there is none


def test_tn13_a_shared_address_shows_an_item_that_is_not_on_the_first_page(
    context: BrowserContext, served: Served
) -> None:
    made = visit(context, f"{served.url}/data")
    page = made.page
    expect(page.locator("#items button")).to_have_count(50)
    shown = set(titles(page))
    page.get_by_role("button", name="Show more").click()
    expect(page.locator("#items button")).to_have_count(58)
    title = next(title for title in titles(page) if title not in shown)
    page.locator("#items button", has_text=title).click()
    expect(page).to_have_url(re.compile(f"item={title}&map="))
    shared = page.url
    other = visit(context, shared)
    expect(other.page.locator("#facts h2")).to_have_text(title)
    expect(other.page.locator("#items button")).to_have_count(50)
    other.page.get_by_role("button", name="Show more").click()
    expect(other.page.locator("#items button")).to_have_count(58)
    expect(other.page.locator("#items button[aria-current=true] strong")).to_have_text(title)
    expect(other.page).to_have_url(shared)
    assert made.wrong == other.wrong == []
    page.close()
    other.page.close()


def test_a_vector_layer_is_drawn_and_its_features_have_popups(visited: Visit, served: Served) -> None:
    page = visited.page
    page.goto("about:blank")
    page.goto(f"{served.url}/data#collection=layers&item=parks")
    expect(page.locator("#facts h2")).to_have_text("Parks")
    x, y = find(page, PARK, share=0.02)
    page.locator("#maps").click(position={"x": x, "y": y - 20})
    popup = page.locator(".maplibregl-popup-content")
    expect(popup.locator("h3")).to_have_text("Parks, feature 7")
    assert popup.locator("dd").all_inner_texts()[1] == "12"
    label = popup.locator("dd").first.inner_text()
    assert label.startswith("<img src=x onerror=alert(1)>")
    assert len(label) <= 201
    assert popup.locator("img").count() == 0
    assert "map=" in page.url
    page.keyboard.press("Escape")
    expect(popup).to_be_hidden()


def test_tn13_a_shared_address_with_a_view_draws_its_item(visited: Visit, served: Served) -> None:
    page = visited.page
    page.goto("about:blank")
    page.goto(f"{served.url}/#collection=layers&item=parks&map=6.50/41.00000/21.00000")
    find(page, PARK, share=0.02)
    expect(page.locator("#message")).to_be_hidden()
    assert page.url.endswith("&map=6.50/41.00000/21.00000")


def test_an_item_on_the_map_can_be_clicked(visited: Visit) -> None:
    x, y = find(visited.page, DOT)
    visited.page.locator("#maps").click(position={"x": x, "y": y - 2})
    expect(visited.page.locator("#facts h2")).to_have_text("classes")  # New Zealand is the furthest south


def test_the_page_works_by_keyboard(visited: Visit) -> None:
    page = visited.page
    page.locator("#items button").first.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.locator("#facts h2")).to_have_text("photo")
    expect(page.locator("#items button[aria-current=true] strong")).to_have_text("photo")
    page.keyboard.press("Escape")
    expect(page.locator("#facts")).to_be_hidden()
    assert page.evaluate("document.activeElement.querySelector('strong').textContent") == "photo"


def test_it_is_dark_where_that_is_asked_for(browser: Browser, served: Served) -> None:
    with open_context(browser, color_scheme="dark") as dark:
        made = visit(dark, f"{served.url}/data")
        expect(made.page.locator("#items button").first).to_be_visible()
        ground = made.page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert ground == "rgb(20, 25, 26)"
        assert made.wrong == []


def test_where_nothing_is_the_page_says_what_to_do(context: BrowserContext, database_url: str, tmp_path: Path) -> None:
    with serve_api(database_url, tmp_path / "home") as bare:
        made = visit(context, f"{bare.url}/data")
        expect(made.page.locator("#message")).to_contain_text("anabranch db migrate")
        migrate_catalog(database_url)
        made.page.reload()
        expect(made.page.locator("#message")).to_contain_text("anabranch run process_raster")
        made.page.close()


def test_s1_where_keys_are_asked_for_the_page_asks_for_one(context: BrowserContext, url: str, home: Path) -> None:
    key = make_key(url)
    with serve_api(url, home.with_name("keyed"), auth="keys", storage__silver=(home / "silver").as_uri()) as keyed:
        made = visit(context, f"{keyed.url}/data")
        page, form = made.page, made.page.locator("#ask")
        expect(form).to_contain_text("This API asks for a key.")
        give(page, key[:-1] + ("0" if key[-1] != "0" else "1"))
        expect(form).to_contain_text("This is no key of this API.")
        give(page, key)
        choose(page, "classes")
        expect(form).to_be_hidden()
        find(page, (230, 200, 60), share=0.01)
        with page.expect_download() as begun:
            page.locator("#files a").click()
        assert begun.value.suggested_filename == "classes.tif"
        page.goto(f"{keyed.url}/docs#submit_job")
        expect(page.locator("details#submit_job .body")).to_contain_text("Needs the scope submit.")
        page.get_by_role("button", name="Forget key").click()
        expect(form).to_contain_text("This API asks for a key.")
        assert key not in page.evaluate("JSON.stringify(sessionStorage)")
        assert [asked for asked in made.asked if key in asked or not asked.startswith((keyed.url, "blob:"))] == []
        assert [wrong for wrong in made.wrong if "401" not in wrong] == []
        page.close()


def test_the_description_of_the_api_is_a_page_of_its_own(context: BrowserContext, served: Served) -> None:
    made = visit(context, f"{served.url}/docs#submit_job")
    page = made.page
    opened = page.locator("details#submit_job")
    expect(opened.locator("summary")).to_contain_text("/api/jobs")
    expect(opened.locator(".body")).to_contain_text("Needs the scope submit.")
    expect(opened.locator(".body")).to_contain_text("job_id")
    page.locator("#search").fill("dead-letters/replay")
    expect(page.locator("details:visible")).to_have_count(1)
    assert made.wrong == []
    assert [url for url in made.asked if not url.startswith(served.url)] == []
    page.close()
