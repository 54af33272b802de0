"""Layers on the data page: order, opacity, colours, values, tables, and two sides to compare."""

import re

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from tests.support.browser import Visit
from tests.support.data_page import BLUE, GREEN, RED, choose, find, open_layers, see
from tests.support.serving import Served

pytestmark = pytest.mark.postgres

SQUARES = "#in=squares&layer=squares/cover&layer=squares/shift&map=8.00/0.50000/30.50000"


def visit_again(page: Page, address: str) -> None:
    """Open the page from nothing, so that its address alone says what is shown."""
    page.goto("about:blank")
    page.goto(address)
    expect(page.locator("#browse[data-placed]")).to_be_visible()


def test_layers_are_stacked_faded_and_hidden(visited: Visit, served: Served) -> None:
    page = visited.page
    visit_again(page, f"{served.url}/data{SQUARES}")
    open_layers(page)
    find(page, BLUE, share=0.05)
    assert not see(page, GREEN).any()
    page.get_by_role("button", name="Move down: cover").click()
    find(page, GREEN, share=0.05)
    expect(page).to_have_url(re.compile("layer=squares/shift&layer=squares/cover"))
    page.get_by_role("button", name="Move up: cover").focus()
    page.keyboard.press("Alt+ArrowUp")
    find(page, BLUE, share=0.05)
    page.get_by_label("Show cover").uncheck()
    find(page, GREEN, share=0.05)
    page.get_by_label("Show cover").check()
    slider = page.locator("li[data-layer=cover]").get_by_label("Opacity")
    slider.focus()
    page.keyboard.press("Home")
    find(page, GREEN, share=0.05)
    expect(page).to_have_url(re.compile(r"layer=squares/cover;opacity=0&"))
    page.get_by_role("button", name="Remove: shift").click()
    expect(page.locator("#layers li")).to_have_count(1)
    page.go_back()
    expect(page.locator("#layers li")).to_have_count(2)


def test_the_colours_of_a_band_are_chosen_and_shared(visited: Visit, served: Served) -> None:
    page = visited.page
    choose(page, "hills")
    legend = page.locator("#legend")
    expect(legend.get_by_role("img", name="Colour ramp terrain")).to_be_visible()
    expect(legend.locator(".ends")).to_have_text(re.compile("480.*1.000"))
    page.get_by_role("button", name="Keep as a layer").click()
    page.get_by_role("combobox", name="Colour ramp").select_option("magma")
    expect(legend.get_by_role("img", name="Colour ramp magma")).to_be_visible()
    page.get_by_role("checkbox", name="Reversed").click()
    page.get_by_label("Lowest").fill("600")
    with page.expect_response(lambda answer: "colormap_name=magma_r" in answer.url and "600%2C1000" in answer.url):
        page.get_by_label("Lowest").press("Tab")
    expect(page).to_have_url(re.compile(r"layer=scenes/hills;ramp=magma_r;range=600,1000"))
    visit_again(page, page.url)
    expect(legend.get_by_role("img", name="Colour ramp magma, reversed")).to_be_visible()
    open_layers(page)
    page.get_by_text("Style", exact=True).click()
    page.get_by_role("button", name="Reset").click()
    expect(legend.get_by_role("img", name="Colour ramp terrain")).to_be_visible()


def test_a_click_shows_the_values_of_all_layers(visited: Visit, served: Served) -> None:
    page = visited.page
    visit_again(page, f"{served.url}/data{SQUARES}")
    x, y = find(page, BLUE, share=0.05)
    page.locator("#maps").click(position={"x": x, "y": y - 30})
    popup = page.locator(".maplibregl-popup-content")
    expect(popup.locator("h3")).to_have_text(["cover", "shift"])
    expect(popup.locator("dd")).to_have_text(["0", "0", "200", "0", "160", "0"])


def test_the_features_of_a_layer_are_a_table(visited: Visit, served: Served) -> None:
    page = visited.page
    choose(page, "Trees")
    open_layers(page)
    page.get_by_role("button", name="Attribute table: Trees").click()
    state, rows = page.locator("#table-state"), page.locator("#table tbody tr")
    expect(state).to_have_text("Features 1 to 50 of 120")
    page.get_by_role("button", name="Next page").click()
    expect(state).to_have_text("Features 51 to 100 of 120")
    expect(rows.first.locator("td")).to_have_text(["51", "Lime 51", "25.5"])
    page.get_by_role("button", name="height").click()
    page.get_by_role("button", name="height").click()
    expect(page.locator("th[aria-sort=descending]")).to_have_text("height ↓")
    expect(rows.first.locator("td")).to_have_text(["120", "Oak 120", "60"])
    page.get_by_label("Column").select_option("name")
    page.get_by_label("Comparison").select_option("like")
    page.get_by_label("Value").fill("oak 1")
    with page.expect_response(lambda answer: "/trees/tiles/" in answer.url and "filter=" in answer.url):
        page.get_by_role("button", name="Filter", exact=True).click()
    expect(state).to_contain_text("Features 1 to 16 of 16")
    expect(page).to_have_url(re.compile("filter="))
    visit_again(page, page.url)
    expect(state).to_contain_text("Features 1 to 16 of 16")
    page.get_by_role("button", name="100", exact=True).click()
    find(page, (255, 212, 0))


def test_two_revisions_are_compared_with_a_swipe(visited: Visit, served: Served) -> None:
    page = visited.page
    visit_again(page, f"{served.url}/data#in=squares&map=8.00/0.50000/30.50000")
    choose(page, "shift")
    page.get_by_text("Revisions").click()
    page.get_by_role("button", name="Compare with revision 1").click()
    line = page.get_by_role("slider", name="Swipe")
    expect(line).to_be_visible()
    find(page, RED, share=0.02)
    find(page, GREEN, share=0.02)
    red, green = (np.nonzero(see(page, colour))[1] for colour in (RED, GREEN))
    assert red.max() <= green.min() + 4
    expect(line).to_be_focused()
    page.keyboard.press("End")
    find(page, RED, share=0.1)
    assert not see(page, GREEN).any()
    visit_again(page, page.url)
    find(page, RED, share=0.1)
    page.get_by_role("slider", name="Swipe").focus()
    page.keyboard.press("Home")
    find(page, GREEN, share=0.1)
    open_layers(page)
    page.get_by_role("button", name="Compare with a swipe").click()
    expect(line).to_be_hidden()


def test_borders_are_shown_where_the_map_is_near(visited: Visit, served: Served) -> None:
    page = visited.page
    visit_again(page, f"{served.url}/data#in=squares&map=6.00/45.80000/8.00000")
    find(page, (195, 184, 166))
    assert any(asked.endswith("/ui/map/near.geojson") for asked in visited.asked)
