"""Hostile input shaped like what is expected, to every text that a caller can send: the API answers and lives (TS1)."""

import json
import random
import secrets
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from psycopg import Connection
from psycopg.rows import TupleRow

from anabranch.embedded.cluster import Cluster
from anabranch.testing.postgres import Databases
from tests.support.serving import Served, add_item, file_of, serve_api, write_rasters

pytestmark = pytest.mark.postgres

MOST_PROCESSOR_SECONDS = 3.0  # for one request; the largest image that may be asked for takes one
MOST_GROWTH_KB = 250_000  # over all requests: the images that are drawn at once, and the blocks that GDAL keeps
ITEM = "/raster/collections/scenes/items/"
NUMBERS = ["0", "1", "-1", "2.5", "nan", "inf", "-inf", "1e308", "1e400", "-0", "9" * 30, "0x1", "", "٣", "1_0", "None"]
WORDS = [
    "a",
    "id",
    "datetime",
    "geometry",
    "properties.created",
    "eo:cloud_cover",
    "é",
    "a b",
    "\x00",
    "'",
    '"',
    "%",
    ";--",
]
OPERATORS = [" and ", " or ", "=", "<", ">=", "<>", "+", "-", "*", "/", "^", "%", "||", " like ", " in ", " between "]
CALLS = ["", "", "not ", "-", "f", "casei", "accenti", "upper", "t_after", "s_intersects", "a_contains", "DATE", "BBOX"]
KINDS = ["Point", "LineString", "Polygon", "MultiPoint", "MultiPolygon", "GeometryCollection", "Feature", "x"]
TIMES = [
    "2026-01-01T00:00:00Z",
    "2026-01-01",
    "..",
    "",
    "9999-12-31T23:59:59-23:59",
    "0000-00-00T00:00:00Z",
    "P1D",
    "x",
]
OPS = [
    "and",
    "or",
    "not",
    "=",
    "<",
    "in",
    "between",
    "like",
    "isNull",
    "+",
    "casei",
    "t_after",
    "s_intersects",
    "a_equals",
    "x",
]
SOUGHT = ("collections", "ids", "bbox", "datetime", "filter", "filter-lang")
Request = tuple[str, str, dict[str, Any]]


class Draw(random.Random):
    """Draws parts of requests, small or repeated far too often."""

    known_job = ""

    def times(self) -> int:
        """How often something is repeated."""
        return self.choice([0, 1, 1, 2, 3, 8, 20, 64, 200, 1_000])

    def repeat(self, make: Callable[[], Any]) -> list[Any]:
        """A few different parts, some of them many times."""
        parts = [make() for _ in range(self.randint(1, 3))]
        return [self.choice(parts) for _ in range(self.times())]

    def number(self) -> str:
        return self.choice(NUMBERS) if self.random() < 0.5 else str(round(self.uniform(-200, 200), 3))

    def text(self, depth: int = 0) -> str:
        """A filter in CQL2 text."""
        return self._text(depth)[:20_000]

    def _text(self, depth: int) -> str:
        if depth > self.choice([1, 2, 4]):
            return self.choice(
                [self.choice(WORDS), self.number(), "'x'", "TIMESTAMP('2026-01-01T00:00:00Z')", self.wkt()]
            )
        kind = self.random()
        if kind < 0.4:
            return self.choice(OPERATORS).join(self.repeat(lambda: self.text(depth + 1)))
        if kind < 0.7:
            prefix, times = self.choice(CALLS), self.times()
            return f"{prefix}(" * times + self.text(depth + 1) + ")" * self.choice([times, times, 0, 5])
        if kind < 0.8:
            return self.choice(["not ", "-", "- ", "(", "a in (", "f("]) * self.times() + self.text(depth + 1)
        return f"{self.text(depth + 1)}{self.choice(OPERATORS)}({','.join(self.repeat(lambda: self.text(depth + 1)))})"

    def wkt(self) -> str:
        points = ",".join(self.repeat(lambda: f"{self.number()} {self.number()}"))
        return f"{self.choice(KINDS).upper()}{'(' * self.randint(0, 4)}{points}{')' * self.randint(0, 4)}"

    def json(self, depth: int = 0) -> Any:
        """A value of any shape."""
        if depth > self.choice([1, 2, 5, 10]):
            return self.choice(
                [None, True, 1, -1.5, 10**400, "x", "\x00", "x" * 5_000, {"property": self.choice(WORDS)}]
            )
        kind = self.random()
        if kind < 0.5:
            parts = self.repeat(lambda: self.json(depth + 1))
            return {"op": self.choice(OPS), "args": parts if depth == 0 else parts[:2]}
        if kind < 0.7:
            return self.geometry()
        if kind < 0.75:
            return self.nested()
        return {self.choice(WORDS): self.json(depth + 1), "interval": [self.choice(TIMES)] * 2}

    def nested(self) -> Any:
        found: Any = {"op": "=", "args": [{"property": "a"}, 1]}
        for _ in range(min(self.times(), 200)):
            found = {"op": "not", "args": [found]}
        return found

    def geometry(self) -> Any:
        positions: Any = self.repeat(lambda: [self.uniform(-200, 200), self.choice([0, 90, 1e308, "x", None])])
        for _ in range(self.choice([0, 0, 1, 2, 60])):
            positions = [positions]
        return {"type": self.choice(KINDS), "coordinates": positions, "geometries": []}

    def names(self) -> str:
        names = self.repeat(lambda: self.choice(["", "+", "-"]) + ".".join(self.repeat(lambda: self.choice(WORDS))))
        return ",".join(names)[:20_000]

    def search(self) -> dict[str, str]:
        """Parameters of a search by GET."""
        makers: dict[str, Callable[[], str]] = {
            "filter": self.text,
            "filter-lang": lambda: self.choice(["cql2-text", "cql2-json", "x"]),
            "filter-crs": lambda: self.choice(WORDS),
            "bbox": lambda: ",".join(self.number() for _ in range(self.choice([4, 4, 6, 3, 200]))),
            "datetime": lambda: "/".join(self.choice(TIMES) for _ in range(self.choice([1, 2, 50]))),
            "intersects": lambda: json.dumps(self.geometry()),
            "query": lambda: json.dumps({self.choice(WORDS): {"eq": self.json(4)}}),
            "ids": self.names,
            "collections": self.names,
            "fields": self.names,
            "sortby": self.names,
            "limit": self.number,
            "offset": self.number,
            "token": lambda: self.choice(["next:", "prev:", ""]) + self.names(),
        }
        chosen = self.sample(list(makers), self.choice([1, 1, 2, 4]))
        found = {name: makers[name]()[:50_000] for name in chosen}
        if self.random() < 0.2:
            found |= {"filter": json.dumps(self.json())[:50_000], "filter-lang": "cql2-json"}
        return found

    def pair(self) -> str:
        return ",".join(self.number() for _ in range(self.choice([2, 2, 1, 3])))

    def drawing(self) -> dict[str, Any]:
        """Parameters of a picture or of statistics."""
        makers: dict[str, Callable[[], Any]] = {
            "rescale": lambda: [self.pair() for _ in range(self.choice([1, 3, 100]))],
            "bidx": lambda: [self.number() for _ in range(self.choice([1, 3, 100]))],
            "colormap": lambda: json.dumps(
                self.choice([self.json(), {"1": "#fff"}, [[[0, 1], [1, 2, 3]]], {"1": [0] * 4}])
            ),
            "colormap_name": lambda: self.choice(["viridis", "x", "../x"]),
            "color_formula": lambda: " ".join(
                self.repeat(lambda: self.choice(["gamma", "sigmoidal", "rgb", self.number()]))
            ),
            "resampling": lambda: self.choice(["cubic", "lanczos", "x"]),
            "p": self.number,
            "c": self.number,
            "histogram_bins": self.pair,
            "histogram_range": self.pair,
            **dict.fromkeys(["nodata", "max_size", "width", "height", "tilesize", "minzoom", "maxzoom"], self.number),
            "asset": lambda: self.choice(WORDS),
            "unscale": lambda: self.choice(["true", "x"]),
            "expression": lambda: "b1**" * self.times() + "9",
        }
        return {name: makers[name]() for name in self.sample(list(makers), self.choice([0, 1, 1, 2, 3]))}

    def yaml(self) -> bytes:
        """A workflow, or nearly."""
        deep = "[" * self.times() + self.number() + "]" * self.times()
        expression = "{{ " + self.choice(["not ", "(", "inputs.", "length(", "-"]) * self.times() + self.text() + " }}"
        aliases = "".join(f"a{n}: &a{n} [{f'*a{n - 1},' * 9}1]\n" for n in range(self.randint(0, 9)))
        params = json.dumps(self.choice([expression, self.json(), deep]))
        nodes = "".join(
            f"  n{n}: {{handler: demo.echo, params: {{x: {params[:3000]}}}}}\n" for n in range(self.choice([1, 20]))
        )
        return f"{aliases}workflow_id: fuzz\nversion: {self.number()}\nnodes:\n{nodes}extra: {deep}\n".encode()

    def job(self) -> Request:
        """A job to check or to execute, or a choice of jobs and of what they printed."""
        texts = [*WORDS, self.names(), "\u0301\u0316" * 15 * self.times(), "x" * 100 * self.times()]
        names = ["source", "title", "collection", "target_crs", "datetime", "raster_type", "tiling", "n"]
        given = {self.choice([*names, *WORDS]): self.choice([*texts, self.json(3)]) for _ in range(self.times())}
        given |= {"source": f"bronze://{self.choice(texts)}"}
        labels = {self.choice(texts): self.choice([*texts, 1, None]) for _ in range(self.choice([0, 1, 3, 40]))}
        wanted = {"workflow": self.choice(["process_raster", "x"]), "parameters": given, "labels": labels}
        executed: dict[str, Any] = {
            "inputs": {name: self.choice([value, {"value": value}, {"href": value}]) for name, value in given.items()}
        }
        executed |= {self.choice(["outputs", "response", "x"]): self.json(3)}
        choice = {
            self.choice(["index", "attempt", "status", "node", "after", "limit", "label", "before", "processID"]):
                self.choice([self.number(), self.choice(texts)[:9_000], "a=1", "1.1.1", "failed", "running"])
            for _ in range(self.choice([1, 1, 3]))
        }  # fmt: skip
        known = {"headers": {"If-None-Match": self.choice(["*", '"x",' * self.times(), "W/", ""])}}
        digest, part = self.choice(["0" * 64, "A" * 64, ".."]), self.number()
        file, name = (
            {"content": b"x", "headers": {"Content-Type": "application/octet-stream"}},
            self.choice(texts)[:9_000],
        )
        found: list[Request] = [
            ("POST", "/api/jobs/validate", {"json": wanted}),
            ("POST", "/ogc/processes/process_raster/execution", {"json": executed}),
            ("GET", self.choice(["/api/jobs", "/ogc/jobs", "/ogc/processes"]), {"params": choice}),
            ("GET", f"/api/jobs/{self.known_job}/logs", {"params": choice}),
            ("GET", "/api/workflows/process_raster", known),
            ("POST", f"/api/uploads/{digest}", {"params": {"name": name, "parts": self.number()}}),
            ("PUT", f"/api/uploads/{digest}/parts/{part}", file),
            ("POST", "/api/uploads", {**file, "params": {"name": f"../{name}"}}),
        ]
        return self.choice(found)

    def request(self) -> Request:
        """A request to one of the routes that take text."""
        return self.job() if self.random() < 0.3 else self._request()

    def _request(self) -> Request:
        item = self.choice(["hills", "photo", "classes", "none", "\x00"]).replace("\x00", "%00")
        tile = "/".join(
            self.choice([self.number(), str(self.randint(0, 30)), "1", "134", str(2**31)]) for _ in range(3)
        )
        place = f"{self.number()},{self.number()}"
        shape = f"{self.number()}x{self.number()}"
        grid = self.choice(["WebMercatorQuad", "WorldCRS84Quad", "WGS1984Quad", "x"])
        parts = [
            f"tiles/{grid}/{tile}.png",
            f"point/{place}",
            "preview.png",
            f"preview/{shape}.npy",
            "statistics",
            "info",
        ]
        layer = self.choice([*parts[:2], f"{grid}/tilejson.json"])
        sought = {name: text for name, text in self.search().items() if name in SOUGHT}
        raster = ITEM + f"{item}/{self.choice([*parts, f'{grid}/tilejson.json'])}"
        yaml = {"content": self.yaml(), "headers": {"Content-Type": "application/yaml"}}
        whole = {"filter": self.json(), "intersects": self.geometry(), "query": {"a": {"eq": self.json(3)}}}
        named = {
            "fields": {"include": self.names().split(",")},
            "ids": self.names().split(","),
            "bbox": [0, 0, 1e99, 1],
        }
        body = {name: ({**whole, **named})[name] for name in self.sample([*whole, *named], 2)}
        sent = {"content": json.dumps(body).encode()[: self.choice([10**7, 10**7, 50])]}
        found: list[Request] = [
            ("GET", "/stac/search", {"params": self.search()}),
            ("GET", "/stac/search", {"params": self.search()}),
            ("GET", "/stac/collections/scenes/items", {"params": self.search()}),
            ("GET", "/stac/collections", {"params": self.search()}),
            ("POST", "/stac/search", {**sent, "headers": {"Content-Type": self.choice(["application/json", "x"])}}),
            ("GET", raster, {"params": self.drawing()}),
            ("GET", raster, {"params": self.drawing()}),
            ("GET", f"/raster/collections/{self.choice(['scenes', item])}/{layer}", {"params": self.drawing()}),
            ("GET", f"/raster/search/{layer}", {"params": self.choice([{}, self.drawing()]) | sought}),
            ("POST", "/api/workflows/validate", yaml),
            ("POST", "/api/jobs", {"json": {"workflow": self.choice(WORDS), "parameters": {"x": self.names()}}}),
            ("GET", "/api/jobs", {"params": {self.choice(["before", "limit", "status", "workflow"]): self.number()}}),
            ("GET", "/api/dead-letters", {"params": {self.choice(["after", "limit", "code"]): self.names()[:9_000]}}),
            (
                "GET",
                file_of("hills"),
                {"headers": {"Range": f"bytes={self.number()}-{self.number()}".encode()}},
            ),
        ]
        return self.choice(found)


@pytest.fixture(scope="module")
def served(
    postgres: Cluster,
    postgres_admin: Connection[TupleRow],
    catalog_template: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Served]:
    home = tmp_path_factory.mktemp("fuzz") / "home"
    url = Databases(postgres, postgres_admin).make(catalog_template)
    for raster in write_rasters(home / "silver"):
        add_item(url, raster)
    with serve_api(url, home, api_memory_mb="2048") as api:
        yield api


def status(served: Served, name: str) -> int:
    lines = Path(f"/proc/{served.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


def processor_seconds(served: Served) -> float:
    user, system = Path(f"/proc/{served.pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / 100


def send(served: Served, request: Request) -> httpx.Response | None:
    """The answer; None where the client refuses to send such a request."""
    method, path, options = request
    try:
        return served.client.request(method, path, **options, timeout=60)
    except (httpx.InvalidURL, httpx.LocalProtocolError, ValueError, UnicodeEncodeError):
        return None


def attack(served: Served, seed: int, *, least: int, seconds: float) -> None:
    """Send requests for a while, and so many at least."""
    draw, answered = Draw(seed), 0
    draw.known_job = served.client.post("/api/jobs/submit/hello_world", json={}).json()["job_id"]
    for image in (
        "preview/2048x2048.png",
        "statistics?max_size=1024",
        "tiles/WebMercatorQuad/8/134/89.png?tilesize=1024",
    ):
        served.client.get(f"{ITEM}photo/{image}", timeout=60)
    before, until = status(served, "VmHWM"), time.monotonic() + seconds
    while answered < least or time.monotonic() < until:
        request = draw.request()
        used = processor_seconds(served)
        answer = send(served, request)
        if answer is None:
            continue
        told = f"--seed {seed}: {str(request)[:3000]} after {answered}: {answer.status_code} {answer.text[:500]}"
        assert answer.status_code < 500, told
        assert processor_seconds(served) - used < MOST_PROCESSOR_SECONDS, told
        assert status(served, "VmHWM") - before < MOST_GROWTH_KB, told
        answered += 1
    assert served.client.get("/livez").is_success


def chosen_seed(config: pytest.Config, default: int | None = None) -> int:
    """The seed, which is printed: pytest shows it where the test fails."""
    given: int | None = config.getoption("--seed")
    seed = given or default or secrets.randbelow(10**6)
    print(f"replay with --seed {seed}")  # noqa: T201  # to replay it
    return seed


def test_s7_ts1_hostile_input_gets_an_answer(served: Served, pytestconfig: pytest.Config) -> None:
    attack(served, chosen_seed(pytestconfig, 1), least=20, seconds=3)


@pytest.mark.slow
def test_s7_ts1_hostile_input_gets_an_answer_for_a_minute(served: Served, pytestconfig: pytest.Config) -> None:
    attack(served, chosen_seed(pytestconfig), least=100, seconds=60)
