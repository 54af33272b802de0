"""Pages in the system's Chromium: what went wrong on them, where they asked, and what axe-core finds."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, ViewportSize, expect, sync_playwright

from tests.support.waiting import PATIENCE_SECONDS

__all__ = ["DESKTOP", "PHONE", "SIZE", "Visit", "find_barriers", "give", "launch_browser", "open_context", "visit"]

NAMES = ("chromium", "chromium-browser", "google-chrome")
# Without a graphics card, without a sandbox where we are root, and without a word to anybody.
FLAGS = [
    "--no-sandbox",
    "--use-gl=angle",
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
SIZE: ViewportSize = {"width": 1000, "height": 480}  # every pixel of the map is drawn without a graphics card
DESKTOP: ViewportSize = {"width": 1280, "height": 860}
PHONE: ViewportSize = {"width": 390, "height": 844}
SLOW_MS = PATIENCE_SECONDS * 1000
AXE = Path(__file__).parents[2] / ".cache" / "pages" / "node_modules" / "axe-core" / "axe.min.js"
# Run apart from the page's own scripts, which the policy of the page allows alone.
RUN_AXE = """
() => axe.run(document, {resultTypes: ["violations"]}).then((found) => JSON.stringify(found.violations.map((one) =>
    ({id: one.id, impact: one.impact, nodes: one.nodes.map((node) => node.html.slice(0, 200))}))))
"""
expect.set_options(timeout=SLOW_MS)


@dataclass
class Visit:
    """A page, and what went wrong or elsewhere on it."""

    page: Page
    wrong: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def check(self, root: str) -> None:
        """Nothing was wrong, and nothing of another origin was asked for."""
        assert self.wrong == []
        assert [url for url in self.asked if not url.startswith((root, "data:", "blob:"))] == []


@contextmanager
def launch_browser() -> Iterator[Browser]:
    """The system's Chromium; the test is skipped where there is none."""
    chromium = next(filter(None, map(shutil.which, NAMES)), None)
    if not chromium or subprocess.run([chromium, "--version"], capture_output=True, check=False).returncode:
        pytest.skip("there is no Chromium; `scripts/setup browser` installs it")
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        yield launched
        launched.close()


def open_context(browser: Browser, **options: Any) -> BrowserContext:
    """A session of the browser, of the size of the map's tests unless another is given."""
    return browser.new_context(**{"viewport": SIZE, "reduced_motion": "reduce", **options})


def visit(context: BrowserContext, url: str) -> Visit:
    """Open an address."""
    made = Visit(context.new_page())
    made.page.set_default_timeout(SLOW_MS)
    made.page.on("console", lambda message: made.wrong.append(message.text) if message.type == "error" else None)
    made.page.on("pageerror", lambda error: made.wrong.append(str(error)))
    made.page.on("request", lambda request: made.asked.append(request.url))
    made.page.goto(url)
    return made


def give(page: Page, key: str) -> None:
    """Give the page a key."""
    page.get_by_label("Key").fill(key)
    page.keyboard.press("Enter")


def find_barriers(page: Page) -> list[str]:
    """What axe-core finds on a page that is of impact serious or critical."""
    if not AXE.exists():
        pytest.skip("there is no axe-core; `make pages` fetches it, with npm")
    page.evaluate(AXE.read_text())  # by the debugger, which no policy of the page stops
    found = json.loads(page.evaluate(RUN_AXE))
    return [f"{one['id']}: {one['nodes']}" for one in found if one["impact"] in ("serious", "critical")]
