"""Vector tiles of the API against plain ST_AsMVT with the same columns: the median of each, and their ratio.

`python benchmarks/vector_tiles.py URL LAYER [--tiles N]` with the URL of a running API, on whose machine it runs, and
ANABRANCH_DATABASE_URL. Both are asked for the same tiles, in turns, over one connection each.
"""

import argparse
import json
import os
import random
import statistics
import sys
import time

import httpx
import psycopg

PLAIN = """
select ST_AsMVT(tile, %(layer)s, 4096, 'geom', 'gid') from (
    select gid, {columns},
           ST_AsMVTGeom(ST_Transform(geom, 3857), ST_TileEnvelope(%(z)s, %(x)s, %(y)s), 4096, 64) as geom
      from geo.{table} where geom && ST_Transform(ST_TileEnvelope(%(z)s, %(x)s, %(y)s), 4326)
) as tile
"""


def main() -> None:
    """Measure, and print JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("layer")
    parser.add_argument("--tiles", type=int, default=100)
    parser.add_argument("--zooms", type=int, nargs=2, default=(8, 12))
    given = parser.parse_args()
    path = f"/features/collections/{given.layer}/tiles/WebMercatorQuad"
    with (
        httpx.Client(base_url=given.url, timeout=60) as client,
        psycopg.connect(os.environ["ANABRANCH_DATABASE_URL"], autocommit=True, prepare_threshold=1) as connection,
    ):
        tilejson = client.get(f"{path}/tilejson.json").raise_for_status().json()
        fields = tilejson["vector_layers"][0]["fields"]
        plain = PLAIN.format(columns=", ".join(f'"{name}"' for name in fields), table=given.layer)
        times: dict[str, list[float]] = {"api": [], "plain": []}
        sizes = []
        floor = [client.get("/livez").elapsed.total_seconds() for _ in range(30)]
        for z, x, y in choose_tiles(tilejson["bounds"], given.tiles, *given.zooms):
            begun = time.perf_counter()
            answer = client.get(tilejson["tiles"][0].format(z=z, x=x, y=y)).raise_for_status()
            between = time.perf_counter()
            row = connection.execute(plain, {"layer": given.layer, "z": z, "x": x, "y": y}).fetchone()
            times["plain"].append(time.perf_counter() - between)
            times["api"].append(between - begun)
            sizes.append((len(answer.content), len(row[0]) if row else 0))
    medians = {name: round(statistics.median(taken) * 1000, 2) for name, taken in times.items()}
    ratio = round(medians["api"] / medians["plain"], 2)
    size, plain_size = (round(statistics.median(each)) for each in zip(*sizes, strict=True))
    about = {"bytes": size, "plain_bytes": plain_size, "livez_ms": round(statistics.median(floor) * 1000, 2)}
    sys.stdout.write(json.dumps({"p50_ms": medians, "ratio": ratio, **about, "tiles": given.tiles}) + "\n")


def choose_tiles(bounds: list[float], count: int, low: int, high: int) -> list[tuple[int, int, int]]:
    """Tiles within the bounds, always the same."""
    from morecantile import tms

    chance, grid = random.Random(7), tms.get("WebMercatorQuad")  # noqa: S311  # nothing secret
    west, south, east, north = bounds
    tiles = [
        grid.tile(chance.uniform(west, east), chance.uniform(south, north), chance.randint(low, high))
        for _ in range(count)
    ]
    return [(tile.z, tile.x, tile.y) for tile in tiles]


if __name__ == "__main__":
    main()
