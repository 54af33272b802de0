"""Calls of the raster functions in a sandbox, for the handlers."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from anabranch.engine.worker.context import Context
from anabranch.plugins.raster.drivers import gdal_environment
from anabranch.plugins.raster.settings import RasterSettings
from anabranch.sandbox import Limits, Sandbox

__all__ = ["run_in_sandbox"]

MODULE = "anabranch.plugins.raster.sandbox_functions"
# Address space for threads, arenas and libraries, besides the memory limit of the work.
OVERHEAD_BYTES = 1 << 30

_sandboxes: dict[int, Sandbox] = {}


def run_in_sandbox(
    ctx: Context, name: str, arguments: Mapping[str, Any], *, folder: Path, reads: Sequence[Path]
) -> Any:  # JSON, in the shape that the function returns
    """Call a function of `sandbox_functions` on untrusted files; it can write only below the folder."""
    settings = ctx.settings(RasterSettings)
    return _sandbox(settings).run(
        name,
        arguments,
        limits=_limits(settings),
        writes=[folder],
        reads=reads,
        progress=ctx.progress,
        should_stop=lambda: ctx.cancelled or ctx.stopping,
    )


def _sandbox(settings: RasterSettings) -> Sandbox:
    """The sandbox of this process, kept for the next call: it has already imported GDAL."""
    memory = settings.raster_memory_mb
    if memory not in _sandboxes:
        _sandboxes[memory] = Sandbox(MODULE, gdal_environment(memory))
    return _sandboxes[memory]


def _limits(settings: RasterSettings) -> Limits:
    return Limits(
        memory=settings.raster_memory_mb * 2**20 + OVERHEAD_BYTES,
        cpu_seconds=settings.raster_cpu_seconds,
        file_bytes=settings.raster_file_mb * 2**20,
    )
