"""The base map that an operator sets: its origin is allowed, and no other."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import imagecodecs
import numpy as np
import pytest
from playwright.sync_api import BrowserContext, expect

from tests.support.browser import visit
from tests.support.data_page import find
from tests.support.serving import serve_api

pytestmark = pytest.mark.postgres

PINK = (240, 120, 200)
TILE = imagecodecs.png_encode(np.full((256, 256, 3), PINK, "uint8"))
CAN_READ = "address => fetch(address).then(() => true, () => false)"


class Tiles(BaseHTTPRequestHandler):
    """Answers every request with one tile."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "image/png")
        self.send_header("Access-Control-Allow-Origin", "*")
        self.send_header("Content-Length", str(len(TILE)))
        self.end_headers()
        self.wfile.write(TILE)

    def log_message(self, format: str, *given: object) -> None:  # noqa: A002  # as its parent
        """Log nothing."""


@contextmanager
def serve_tiles() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Tiles) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_an_operator_sets_the_base_map(context: BrowserContext, url: str, home: Path) -> None:
    with serve_tiles() as tiles, serve_tiles() as other:
        template, silver = f"{tiles}/{{z}}/{{x}}/{{y}}.png", (home / "silver").as_uri()
        settings = {"basemap": template, "basemap_credit": "Maps of the town", "storage__silver": silver}
        with serve_api(url, home.with_name("based"), **settings) as served:
            made = visit(context, f"{served.url}/data#in=squares&map=6.00/45.80000/8.00000")
            page = made.page
            expect(page.locator("#browse[data-placed]")).to_be_visible()
            find(page, PINK, share=0.3)
            expect(page.locator(".maplibregl-ctrl-attrib")).to_contain_text("Maps of the town")
            origins = (served.url, tiles, "data:", "blob:")
            assert [asked for asked in made.asked if not asked.startswith(origins)] == []
            assert made.wrong == []
            assert page.evaluate(CAN_READ, f"{tiles}/1/1/1.png") is True
            assert page.evaluate(CAN_READ, f"{other}/1/1/1.png") is False
            page.close()
