"""Opens stac-geoparquet in the sandbox: a hostile file ends a process that can reach nothing (S4)."""

import atexit
from collections.abc import Callable
from functools import cache
from pathlib import Path

from anabranch.engine.worker.context import Context
from anabranch.plugins.stac.settings import StacSettings
from anabranch.sandbox import Limits, Sandbox

__all__ = ["make_converter"]

MODULE = "anabranch.plugins.stac.ingest.sandbox_functions"
# Address space for threads, arenas and libraries, besides the memory limit of the work.
OVERHEAD_BYTES = 1 << 30


def make_converter(ctx: Context, settings: StacSettings) -> Callable[[Path], Path]:
    """A function that writes the items of a GeoParquet file as lines of JSON into a file in scratch."""
    limits = Limits(
        memory=settings.stac_memory_mb * 2**20 + OVERHEAD_BYTES,
        cpu_seconds=settings.stac_cpu_seconds,
        file_bytes=settings.stac_file_mb * 2**20,
    )

    def convert(source: Path) -> Path:
        folder = ctx.scratch / "aside"
        folder.mkdir(exist_ok=True)
        target = folder / "items.ndjson"
        arguments = {"source": str(source), "target": str(target), "max_items": settings.stac_max_items}
        _sandbox().run(
            "write_items", arguments, limits=limits, writes=[folder], reads=[source],
            progress=ctx.progress, should_stop=lambda: ctx.cancelled or ctx.stopping,
        )  # fmt: skip
        return target

    return convert


@cache
def _sandbox() -> Sandbox:
    """The sandbox of this process, kept for the next call: it has already imported pyarrow."""
    made = Sandbox(MODULE, {"ARROW_DEFAULT_MEMORY_POOL": "system", "OMP_NUM_THREADS": "1"})
    atexit.register(made.close)  # a notebook or a test that calls a handler itself leaves nothing
    return made
