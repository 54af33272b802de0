"""Measures stac_ingest through the whole engine, and pypgstac's own loader, with the same items in turns."""

import asyncio
import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from anabranch.bench.measure import Bench, make_token
from anabranch.bench.processor_time import processor_seconds
from anabranch.canonical import Json, JsonObject

__all__ = ["IngestFigures", "make_items", "measure_ingest"]

WORKFLOW = "stac_ingest"
WARM_ITEMS = 500
BANDS = ("blue", "green", "red", "nir", "swir")
METHODS = ("upsert", "insert_ignore")
Cost = dict[str, float]


@dataclass(frozen=True)
class IngestFigures:
    """The figures of both; `ratio` is our rate to that of the faster method of pypgstac's."""

    items: int
    rounds: int
    wall_s: float
    items_per_s: float
    pypgstac: dict[str, float]
    ratio: float
    cpu_us_per_item: dict[str, float]
    pypgstac_cpu_us_per_item: dict[str, float]
    cpu_ratio: float


async def measure_ingest(bench: Bench, items: int, rounds: int) -> IngestFigures:
    """Measure both in turns, after a round that is not counted; each time into a collection of its own."""
    walls: dict[str, list[float]] = {name: [] for name in (WORKFLOW, *METHODS)}
    costs: dict[str, list[Cost]] = {name: [] for name in walls}
    with TemporaryDirectory() as folder:
        for number in range(rounds + 1):
            for name, taken in walls.items():
                file = _write(Path(folder) / "items.ndjson", make_token(), items if number else WARM_ITEMS)
                wall, cost = await (_ingest(bench, file) if name == WORKFLOW else _load(bench.url, file, name))
                if number:
                    taken.append(wall)
                    costs[name].append({part: 1e6 * seconds / items for part, seconds in cost.items()})
    rates = {name: round(items / median(found), 1) for name, found in walls.items()}
    best = max(METHODS, key=rates.__getitem__)
    ours, theirs = _middle(costs[WORKFLOW]), _middle(costs[best])
    return IngestFigures(
        items=items,
        rounds=rounds,
        wall_s=round(median(walls[WORKFLOW]), 3),
        items_per_s=rates[WORKFLOW],
        pypgstac={name: rates[name] for name in METHODS},
        ratio=round(rates[WORKFLOW] / rates[best], 2),
        cpu_us_per_item=ours,
        pypgstac_cpu_us_per_item=theirs,
        cpu_ratio=round(sum(theirs.values()) / sum(ours.values()), 2),
    )


def make_items(count: int, collection: str) -> Iterator[JsonObject]:
    """Scenes of a year with five assets each, all over the globe."""
    for number in range(count):
        west, south = -180 + number * 7919 % 3590 / 10, -85 + number * 104729 % 1690 / 10
        ring: list[Json] = [[west, south], [west + 1, south], [west + 1, south + 1], [west, south + 1], [west, south]]
        moment = f"2024-{1 + number % 12:02}-{1 + number % 28:02}T{number % 24:02}:{number % 60:02}:00Z"
        yield {
            "type": "Feature",
            "stac_version": "1.1.0",
            "stac_extensions": ["https://stac-extensions.github.io/projection/v2.0.0/schema.json"],
            "id": f"scene-{number:06}",
            "collection": collection,
            "geometry": {"type": "Polygon", "coordinates": [ring]},
            "bbox": [west, south, west + 1, south + 1],
            "properties": {
                "datetime": moment, "created": moment, "platform": "landsat-9", "instruments": ["oli"], "gsd": 30,
                "proj:code": "EPSG:32633", "proj:shape": [7831, 7701],
                "proj:transform": [30, 0, 500000, 0, -30, 5000000],
            },
            "links": [{"rel": "license", "href": "https://example.com/license"}],
            "assets": {
                band: {
                    "href": f"https://data.example.com/{collection}/{number:06}/{band}.tif",
                    "type": "image/tiff; application=geotiff; profile=cloud-optimized",
                    "roles": ["data"],
                    "title": f"Band {band}",
                }
                for band in BANDS
            },
        }  # fmt: skip


def _write(file: Path, collection: str, items: int) -> Path:
    with file.open("w") as lines:
        for item in make_items(items, collection):
            lines.write(f"{json.dumps(item)}\n")
    return file


async def _ingest(bench: Bench, file: Path) -> tuple[float, Cost]:
    """The wall time of a job, from its submission to its end, and its cost; the file is uploaded before."""
    platform = make_token()
    key = f"{platform}/{file.name}"
    await asyncio.to_thread(bench.storage.tier("bronze").upload, key, file)
    busy = processor_seconds()
    return await bench.run(WORKFLOW, {"source": f"bronze://{key}"}, platform), _spent(busy)


async def _load(url: str, file: Path, method: str) -> tuple[float, Cost]:
    """The same of pypgstac's loader; its collection is made before."""
    with file.open() as lines:
        collection = json.loads(lines.readline())["collection"]
    return await asyncio.to_thread(_run_loader, url, str(collection), file, method)


def _run_loader(url: str, collection: str, file: Path, method: str) -> tuple[float, Cost]:
    from pypgstac.db import PgstacDB
    from pypgstac.load import Loader, Methods

    from anabranch.plugins.stac.collection import CollectionFacts, build_collection

    with PgstacDB(dsn=url) as database:
        loader = Loader(database)
        loader.load_collections(iter([build_collection(CollectionFacts(id=collection))[0]]), Methods.upsert)
        begun, busy = time.monotonic(), processor_seconds()
        loader.load_items(str(file), Methods(method))
        return time.monotonic() - begun, _spent(busy)


def _spent(before: Mapping[str, float]) -> Cost:
    """The processor seconds since then, by part; the time of a process that has not been waited for is missing."""
    return {part: seconds - before.get(part, 0.0) for part, seconds in processor_seconds().items()}


def _middle(costs: list[Cost]) -> Cost:
    parts = sorted({part for cost in costs for part in cost})
    found = {part: round(median(cost.get(part, 0.0) for cost in costs), 1) for part in parts}
    return {part: value for part, value in found.items() if value > 0}
