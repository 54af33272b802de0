"""Measures tiles through HTTP, compared with plain titiler in a separate environment."""

import http.client
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles
from urllib.parse import quote, urlsplit

import httpx

from anabranch.bench.cluster import make_temporary_folder, open_database
from anabranch.bench.http import await_ready
from anabranch.bench.pictures import make_pictures
from anabranch.bench.processes import BenchProcesses, run_processes
from anabranch.client import Client
from anabranch.embedded.listener import api_url, listen
from anabranch.errors import AnabranchError, Unavailable
from anabranch.settings import load_settings

__all__ = ["TileFigures", "TileTimes", "run_tile_bench"]

MIN_TILES = 24
CONNECTIONS = 8
TIMEOUT_SECONDS = 60.0
TILE_QUERY = "tilesize=512&rescale=0,255"
PEER = """
import sys, uvicorn
from fastapi import FastAPI
from titiler.core.factory import TilerFactory
app = FastAPI()
app.include_router(TilerFactory().router)
uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="warning")
"""


@dataclass(frozen=True)
class TileTimes:
    """Times of tiles: one after the other, and over eight connections at once."""

    p50_ms: float
    p95_ms: float
    tiles_per_s: float
    mean_kb: float


@dataclass(frozen=True)
class TileFigures:
    """The same tiles from us and from the peer, in turns; ratios of ours to the peer's."""

    size: int
    tiles: int
    rounds: int
    ours: TileTimes
    peer: TileTimes | None = None
    p50_ratio: float | None = None
    tiles_per_s_ratio: float | None = None


def run_tile_bench(size: int, *, rounds: int, peer: str | None) -> TileFigures:
    """Publish an image and draw all its tiles at a zoom level; `peer` is a Python that has titiler.core."""
    with make_temporary_folder() as folder, open_database(None, folder, with_catalog=True) as database:
        settings = load_settings(home=folder / "home", plugins=())
        with (
            closing(listen("127.0.0.1", 0)) as listener,
            run_processes(folder, settings, database, 1, listener) as processes,
            Client(api_url(listener)) as client,
        ):
            item, cog = _publish(client, processes, folder, size)
            root = f"{api_url(listener)}/raster/collections/bench/items/{item}"
            tiles = _choose(root)
            servers = {"ours": [f"{root}/tiles/WebMercatorQuad/{tile}.png?{TILE_QUERY}" for tile in tiles]}
            if peer is None:
                return TileFigures(size, len(tiles), rounds, _measure(servers, rounds)["ours"])
            with _run_peer(peer) as port:
                at = f"http://127.0.0.1:{port}/tiles/WebMercatorQuad"
                servers["peer"] = [f"{at}/{tile}.png?{TILE_QUERY}&url={quote(str(cog))}" for tile in tiles]
                ours, theirs = _measure(servers, rounds).values()
    p50, rate = ours.p50_ms / theirs.p50_ms, ours.tiles_per_s / theirs.tiles_per_s
    return TileFigures(size, len(tiles), rounds, ours, theirs, round(p50, 2), round(rate, 2))


def _publish(client: Client, processes: BenchProcesses, folder: Path, size: int) -> tuple[str, Path]:
    """Publish an image; its item id and the path of its COG."""
    source = folder / "picture.tif"
    source.write_bytes(next(make_pictures(1, size)))
    await_ready(client, processes)
    parameters = {"source": client.upload(source).address, "collection": "bench"}
    job = client.wait(client.submit("process_raster", parameters).job_id)
    if not job.succeeded:
        raise AnabranchError("bench.failed", f"the image was not published: {job.error}")
    (cog,) = [output["href"] for output in job.result["outputs"] if output["kind"] == "cog"]
    return job.result["items"][0]["id"], folder / "home" / cog.replace("://", "/")


def _choose(root: str) -> list[str]:
    """The tiles of the lowest zoom that has enough of them, as z/x/y."""
    from morecantile import tms

    grid = tms.get("WebMercatorQuad")
    tilejson = httpx.get(f"{root}/WebMercatorQuad/tilejson.json", timeout=TIMEOUT_SECONDS).raise_for_status().json()
    west, south, east, north = tilejson["bounds"]
    by_zoom = (
        list(grid.tiles(west, south, east, north, [zoom])) for zoom in range(tilejson["minzoom"], tilejson["maxzoom"])
    )
    enough = next(tiles for tiles in by_zoom if len(tiles) >= MIN_TILES)
    return [f"{tile.z}/{tile.x}/{tile.y}" for tile in enough]


@contextmanager
def _run_peer(python: str) -> Iterator[int]:
    with closing(listen("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with subprocess.Popen([python, "-c", PEER, str(port)], stdout=sys.stderr) as process:
        try:
            _await_peer(process, port)
            yield port
        finally:
            process.terminate()


def _await_peer(process: "subprocess.Popen[bytes]", port: int) -> None:
    end = time.monotonic() + TIMEOUT_SECONDS
    while time.monotonic() < end and process.poll() is None:
        try:
            httpx.get(f"http://127.0.0.1:{port}/openapi.json")
        except httpx.TransportError:
            time.sleep(0.1)
        else:
            return
    raise Unavailable("bench.no_peer", "the peer does not answer", remedy="Install titiler.core and uvicorn for it.")


def _measure(servers: dict[str, list[str]], rounds: int) -> dict[str, TileTimes]:
    """Each server in turn, after a round that is not counted."""
    alone: dict[str, list[float]] = {name: [] for name in servers}
    rates: dict[str, list[float]] = {name: [] for name in servers}
    sizes: dict[str, int] = {}
    for number in range(rounds + 1):
        for name, urls in servers.items():
            took, sizes[name] = _fetch(urls)
            begun = time.monotonic()
            with ThreadPoolExecutor(CONNECTIONS) as pool:
                list(pool.map(_fetch, [urls[start::CONNECTIONS] for start in range(CONNECTIONS)]))
            if number:
                alone[name] += took
                rates[name].append(len(urls) / (time.monotonic() - begun))
    return {
        name: TileTimes(
            p50_ms=round(median(alone[name]) * 1000, 1),
            p95_ms=round(quantiles(alone[name], n=20)[-1] * 1000, 1),
            tiles_per_s=round(median(rates[name]), 1),
            mean_kb=round(sizes[name] / len(urls) / 1000, 1),
        )
        for name, urls in servers.items()
    }


def _fetch(urls: Sequence[str]) -> tuple[list[float], int]:
    """The time of each request over one connection, and the total bytes of the answers."""
    host, took, size = urlsplit(urls[0]).netloc, [], 0
    with closing(http.client.HTTPConnection(host, timeout=TIMEOUT_SECONDS)) as connection:
        for url in urls:
            begun = time.monotonic()
            parts = urlsplit(url)
            connection.request("GET", f"{parts.path}?{parts.query}")
            answer = connection.getresponse()
            size += len(answer.read())
            took.append(time.monotonic() - begun)
            if answer.status != http.client.OK:
                raise AnabranchError("bench.failed", f"{url} was answered {answer.status}")
    return took, size
