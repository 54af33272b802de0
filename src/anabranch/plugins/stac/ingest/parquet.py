"""Opens stac-geoparquet in the sandbox: a hostile file ends a process that can reach nothing (S4)."""

from collections.abc import Callable
from pathlib import Path

from anabranch.engine.worker.context import Context
from anabranch.plugins.stac.settings import StacSettings
from anabranch.sandbox.handler_calls import HandlerSandbox, WorkLimits, sandbox_folder

__all__ = ["make_converter"]

SANDBOX = HandlerSandbox(
    "anabranch.plugins.stac.ingest.sandbox_functions",
    lambda _: {"ARROW_DEFAULT_MEMORY_POOL": "system", "OMP_NUM_THREADS": "1"},
)


def make_converter(ctx: Context, settings: StacSettings) -> Callable[[Path], Path]:
    """A function that writes the items of a GeoParquet file as lines of JSON into a file in scratch."""
    limits = WorkLimits(settings.stac_memory_mb, settings.stac_cpu_seconds, settings.stac_file_mb)

    def convert(source: Path) -> Path:
        target = sandbox_folder(ctx) / "items.ndjson"
        SANDBOX.run(ctx, "write_items", limits, source=source, target=target, max_items=settings.stac_max_items)
        return target

    return convert
