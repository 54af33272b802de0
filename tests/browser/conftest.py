"""The browser of a module's tests, and what its pages share."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext

from tests.support.browser import launch_browser, open_context


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with launch_browser() as launched:
        yield launched


@pytest.fixture(scope="module")
def context(browser: Browser) -> Iterator[BrowserContext]:
    """What pages share: the files that the browser has read and compiled."""
    with open_context(browser) as opened:
        yield opened
