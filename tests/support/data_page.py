"""The data page with rasters, revisions and vector layers made by code, and what tests look for on its map."""

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import imagecodecs
import numpy as np
from playwright.sync_api import Page, ViewportSize, expect

from tests.support.layers import add_layer
from tests.support.serving import Raster, add_item, add_items, add_old_items, write_crossing, write_raster
from tests.support.waiting import PATIENCE_SECONDS

__all__ = [
    "BLUE",
    "GREEN",
    "RED",
    "SQUARE",
    "VIEWPORT",
    "choose",
    "fill_catalog",
    "find",
    "open_layers",
    "see",
    "titles",
]

VIEWPORT: ViewportSize = {"width": 1120, "height": 560}
UNKNOWN_TIME = {
    "datetime": None, "start_datetime": "1970-01-01T00:00:00Z", "end_datetime": "2026-11-01T10:00:00Z",
}  # fmt: skip
# A square on the land, with a value that would be a script where text is taken for HTML.
PARKS = """
select 7::bigint as gid, ST_Multi(ST_MakeEnvelope(20, 40, 22, 42, 4326)) as geom,
       '<img src=x onerror=alert(1)>' || repeat('x', 500) as label, 12 as trees
"""
TREES = """
select n::bigint as gid, ST_SetSRID(ST_Point(20 + n %% 12 / 12.0, 45 + n / 12 / 12.0), 4326) as geom,
       case when n %% 2 = 0 then 'Oak ' else 'Lime ' end || n as name, n * 0.5 as height from generate_series(1, 120) n
"""
SQUARE = (30.0, 0.0, 31.0, 1.0)
RED, GREEN, BLUE = (200, 0, 0), (0, 160, 0), (0, 0, 200)


def fill_catalog(url: str, rasters: list[Raster]) -> None:
    """Publish rasters, items without one, two layers, an item across 180 degrees, and one with two revisions."""
    folder = rasters[0].path.parent
    add_old_items(url, rasters[0], 50)
    for hour, raster in enumerate(rasters):
        add_item(url, raster, created=f"2026-11-15T1{hour}:00:00Z")
    add_layer(url, "parks", PARKS, {"label": "text", "trees": "integer"}, "MultiPolygon", (20, 40, 22, 42))
    columns = {"name": "text", "height": "numeric"}
    add_layer(url, "trees", TREES.replace("%%", "%"), columns, "Point", (20, 45, 21, 45.9))
    crossing = replace(write_crossing(folder), properties=UNKNOWN_TIME)
    add_item(url, crossing, created="2026-11-15T09:00:00Z")
    add_items(url, [paint(folder, "cover", BLUE)], "squares", created="2026-10-01T10:00:00Z")
    for hour, colour in ((10, RED), (11, GREEN)):
        shift = replace(paint(folder, f"shift-{hour}", colour), name="shift")
        add_items(url, [shift], "squares", created=f"2026-10-02T{hour}:00:00Z")


def paint(folder: Path, name: str, colour: tuple[int, int, int]) -> Raster:
    """A raster of one colour, in the same square as others."""
    values = np.stack([np.full((64, 64), value) for value in colour]).astype("uint8")
    return write_raster(folder / f"{name}.tif", values, SQUARE, {}, photometric="RGB")


def titles(page: Page) -> list[str]:
    """The titles in the list."""
    return page.locator("#items strong").all_inner_texts()


def choose(page: Page, name: str) -> None:
    """Choose an item in the list, and wait until its tiles are there."""
    page.locator("#items button", has_text=name).click()
    expect(page.locator("#facts h2")).to_have_text(name)
    expect(page.locator("#state")).to_be_empty()


def open_layers(page: Page) -> None:
    """Show the panel of layers."""
    page.get_by_role("tab", name="Layers").click()


def see(page: Page, colour: tuple[int, int, int], place: str = "#maps") -> Any:  # an array of numpy's
    """Where the map has nearly this colour."""
    image = imagecodecs.png_decode(page.locator(place).screenshot())[..., :3].astype(int)
    return np.abs(image - np.array(colour)).max(axis=-1) < 12


def find(page: Page, colour: tuple[int, int, int], share: float = 0) -> tuple[int, int]:
    """The southernmost place of this colour, once the map has this share of it: it fades in what it draws."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        seen = see(page, colour)
        rows, columns = np.nonzero(seen)
        if len(rows) and seen.mean() >= share:
            return int(columns[rows.argmax()]), int(rows.max())
        assert time.monotonic() < deadline, f"the map has {seen.mean():.3f} of {colour}"
