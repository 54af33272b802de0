"""The API that all tests of the data page share, and a visit to the page."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, expect
from psycopg import Connection
from psycopg.rows import TupleRow

from anabranch.embedded.cluster import Cluster
from anabranch.testing.postgres import Databases
from tests.support.browser import Visit, open_context, visit
from tests.support.data_page import VIEWPORT, fill_catalog
from tests.support.serving import Raster, Served, serve_api, write_rasters


@pytest.fixture(scope="package")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("map") / "home"


@pytest.fixture(scope="package")
def rasters(home: Path) -> list[Raster]:
    return write_rasters(home / "silver")


@pytest.fixture(scope="package")
def url(postgres: Cluster, postgres_admin: Connection[TupleRow], catalog_template: str, rasters: list[Raster]) -> str:
    url = Databases(postgres, postgres_admin).make(catalog_template)
    fill_catalog(url, rasters)
    return url


@pytest.fixture(scope="package")
def served(url: str, home: Path) -> Iterator[Served]:
    with serve_api(url, home) as api:
        yield api


@pytest.fixture(scope="module")
def context(browser: Browser) -> Iterator[BrowserContext]:
    """What pages share; the map has room beside the panels."""
    with open_context(browser, viewport=VIEWPORT) as opened:
        yield opened


@pytest.fixture
def visited(context: BrowserContext, served: Served) -> Iterator[Visit]:
    made = visit(context, f"{served.url}/data")
    expect(made.page.locator("#items button").first).to_be_visible()
    expect(made.page.locator("#browse[data-placed]")).to_be_visible()
    yield made
    made.check(served.url)
    made.page.close()
