"""`bench`: measures the engine on this machine, with real processes and a durable database, and the writing of COGs."""

from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import Annotated, Any

import typer

from anabranch.bench.http import run_http_bench
from anabranch.bench.ingest import measure_ingest
from anabranch.bench.measure import Bench
from anabranch.bench.run import run_bench
from anabranch.bench.tiles import run_tile_bench
from anabranch.bench.vector import measure_vector
from anabranch.bench.webhooks import run_webhook_bench
from anabranch.cli.setup import prepare
from anabranch.cli.stack.start import interrupt_on_signals
from anabranch.cli.terminal.options import Json
from anabranch.cli.terminal.output import print_json, print_line

__all__ = ["chain", "cog", "fanout", "http", "ingest", "jobs", "rasters", "tiles", "vector", "webhooks"]


Rounds = Annotated[int, typer.Option(min=1, max=100, help="How many times each way is measured, in turn.")]
Workers = Annotated[int, typer.Option(min=1, max=64, help="Worker processes.")]
DatabaseUrl = Annotated[
    str | None,
    typer.Option("--database-url", metavar="URL", help="The database to use; by default a new private cluster."),
]


def fanout(
    tasks: Annotated[int, typer.Option(min=1, max=10_000_000, help="Tasks of the fan-out.")] = 10_000,
    expressions: Annotated[
        bool, typer.Option(help="Evaluate expressions for each task, as in YAML workflows.")
    ] = False,
    workers: Workers = 2,
    database_url: DatabaseUrl = None,
    json: Json = False,
) -> None:
    """Measure a fan-out of no-op tasks and its fan-in."""
    _measure(lambda bench: bench.fan_out(tasks, expressions=expressions), database_url, workers, json)


def chain(
    steps: Annotated[int, typer.Option(min=2, max=10_000, help="Steps of the chain.")] = 100,
    workers: Workers = 2,
    database_url: DatabaseUrl = None,
    json: Json = False,
) -> None:
    """Measure the hops between the steps of a chain."""
    _measure(lambda bench: bench.chain(), database_url, workers, json, steps)


def jobs(
    jobs: Annotated[int, typer.Option(min=1, max=1_000_000, help="Jobs of one no-op task each.")] = 1_000,
    workers: Workers = 2,
    database_url: DatabaseUrl = None,
    json: Json = False,
) -> None:
    """Measure many small jobs, submitted at once."""
    _measure(lambda bench: bench.jobs(jobs), database_url, workers, json)


def rasters(
    count: Annotated[int, typer.Option(min=1, max=100_000, help="Rasters to publish.")] = 200,
    size: Annotated[int, typer.Option(min=16, max=10_000, help="Width and height in pixels.")] = 512,
    workers: Workers = 1,
    database_url: DatabaseUrl = None,
    json: Json = False,
) -> None:
    """Measure the publication of many small rasters by process_raster, from the file to the catalog."""
    _measure(lambda bench: bench.rasters(count, size), database_url, workers, json, with_catalog=True)


def ingest(
    items: Annotated[int, typer.Option(min=1, max=1_000_000, help="Items to publish.")] = 10_000,
    rounds: Rounds = 3,
    workers: Workers = 2,
    database_url: DatabaseUrl = None,
    json: Json = False,
) -> None:
    """Measure the publication of STAC items by stac_ingest, compared with pypgstac's own loader."""
    _measure(lambda bench: measure_ingest(bench, items, rounds), database_url, workers, json, with_catalog=True)


def vector(
    rows: Annotated[int, typer.Option(min=1_000, max=100_000_000, help="Rows of each file.")] = 1_000_000,
    rounds: Rounds = 1,
    workers: Workers = 2,
    database_url: DatabaseUrl = None,
    json: Json = False,
) -> None:
    """Measure the publication of points and polygons by process_vector, compared with ogr2ogr."""
    _measure(lambda bench: measure_vector(bench, rows, rounds), database_url, workers, json, with_catalog=True)


def http(
    jobs: Annotated[int, typer.Option(min=1_000, max=10_000_000, help="Jobs in the table the second time.")] = 100_000,
    connections: Annotated[int, typer.Option(min=1, max=1_000, help="Concurrent connections.")] = 64,
    seconds: Annotated[int, typer.Option(min=1, max=600, help="Duration of each load.")] = 10,
    workers: Annotated[
        int, typer.Option(min=0, max=64, help="Worker processes that run the jobs during the measurement.")
    ] = 0,
    database_url: DatabaseUrl = None,
    json: Json = False,
) -> None:
    """Measure the submission and reading of jobs through HTTP, with few and with many jobs in the table."""
    _run(
        lambda: run_http_bench(database_url, workers=workers, jobs=jobs, connections=connections, seconds=seconds), json
    )


def tiles(
    size: Annotated[int, typer.Option(min=2_048, max=20_000, help="Width and height of the image in pixels.")] = 8_192,
    rounds: Rounds = 3,
    peer: Annotated[
        str | None,
        typer.Option(
            metavar="PYTHON", help="A Python with titiler.core and uvicorn to compare with, measured in turns."
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Measure tiles of 512 pixels through HTTP, over one connection and over eight, compared with plain titiler."""
    _run(lambda: run_tile_bench(size, rounds=rounds, peer=peer), json)


def webhooks(
    messages: Annotated[int, typer.Option(min=100, max=1_000_000, help="Messages to deliver at full speed.")] = 3_000,
    database_url: DatabaseUrl = None,
    json: Json = False,
) -> None:
    """Measure deliveries of webhooks to a local receiver, and their delay after the commit."""
    _run(lambda: run_webhook_bench(database_url, messages), json)


def cog(
    size: Annotated[int, typer.Option(min=64, max=100_000, help="Width and height of the image in pixels.")] = 10_000,
    runs: Annotated[int, typer.Option(min=1, max=100, help="How many times each way is measured, in turn.")] = 3,
    memory: Annotated[int, typer.Option(min=256, help="Memory that our writer may use, in MB.")] = 1024,
    json: Json = False,
) -> None:
    """Measure the writing of a COG, compared with GDAL's COG driver on all cores."""
    from anabranch.plugins.raster.cog.bench import run_cog_bench  # the rest works without this plugin

    _run(lambda: run_cog_bench(size, runs=runs, memory_mb=memory), json)


def _measure(
    measure: Callable[[Bench], Awaitable[Any]],  # a dataclass of figures
    url: str | None,
    workers: int,
    json: bool,
    steps: int = 1,
    *,
    with_catalog: bool = False,
) -> None:
    _run(lambda: run_bench(measure, url=url, workers=workers, steps=steps, with_catalog=with_catalog), json)


def _run(measure: Callable[[], Any], json: bool) -> None:  # a dataclass of figures
    prepare(quiet=True)
    with interrupt_on_signals():
        figures = asdict(measure())
    if json:
        print_json(figures)
        return
    for name, value in figures.items():
        for key, figure in _flat(name, value):
            print_line(f"{key:22} {figure}")


def _flat(name: str, value: Any) -> list[tuple[str, Any]]:  # a figure, or figures by name
    if not isinstance(value, dict):
        return [(name, value)]
    return [pair for key, item in value.items() for pair in _flat(f"{name}.{key}", item)]
