"""The raster work in its sandbox, as the handlers call it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from anabranch.engine.worker.context import Context
from anabranch.plugins.raster.drivers import gdal_environment
from anabranch.sandbox import Limits, Sandbox
from anabranch.settings import Settings, load_settings

__all__ = ["run_confined"]

WORK = "anabranch.plugins.raster.work"
# What threads, arenas and libraries take of the address space besides the memory that the work is bounded to.
OVERHEAD = 1 << 30

_sandboxes: dict[int, Sandbox] = {}


def run_confined(
    ctx: Context, name: str, arguments: Mapping[str, Any], *, folder: Path, reads: Sequence[Path]
) -> Any:  # JSON, of the shape that the function says
    """Call a function of `work` on files of strangers; it may write below the folder only."""
    settings = load_settings()
    return _sandbox(settings).run(
        name,
        arguments,
        limits=_limits(settings),
        writes=[folder],
        reads=reads,
        progress=ctx.progress,
        should_stop=lambda: ctx.cancelled or ctx.stopping,
    )


def _sandbox(settings: Settings) -> Sandbox:
    """One for this process, kept for the next call: it has imported GDAL already."""
    memory = settings.raster_memory_mb
    if memory not in _sandboxes:
        _sandboxes[memory] = Sandbox(WORK, gdal_environment(memory))
    return _sandboxes[memory]


def _limits(settings: Settings) -> Limits:
    return Limits(
        memory=settings.raster_memory_mb * 2**20 + OVERHEAD,
        cpu_seconds=settings.raster_cpu_seconds,
        file_bytes=settings.raster_file_mb * 2**20,
    )
