"""Calls of the raster functions in a sandbox, for the handlers."""

import atexit
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from anabranch.engine.worker.context import Context
from anabranch.plugins.raster.files.drivers import gdal_environment
from anabranch.plugins.raster.settings import RasterSettings
from anabranch.sandbox import Limits, Sandbox
from anabranch.storage.ranged_object import Ranges

__all__ = ["run_in_sandbox", "sandbox_folder"]

Model = TypeVar("Model", bound=BaseModel)
MODULE = "anabranch.plugins.raster.sandbox_functions"
# Address space for threads, arenas and libraries, besides the memory limit of the work.
OVERHEAD_BYTES = 1 << 30

_sandboxes: dict[int, Sandbox] = {}


def run_in_sandbox(ctx: Context, name: str, result: type[Model], **arguments: BaseModel | Path | Ranges) -> Model:
    """Call a function of `sandbox_functions`; it can read the files it is given, and write below `sandbox_folder`."""
    settings, folder = ctx.settings(RasterSettings), sandbox_folder(ctx)
    ranged = {key: value for key, value in arguments.items() if isinstance(value, Ranges)}
    found = _sandbox(settings.raster_memory_mb).run(
        name,
        to_jsonable_python({key: value for key, value in arguments.items() if key not in ranged}),
        limits=Limits(
            memory=settings.raster_memory_mb * 2**20 + OVERHEAD_BYTES,
            cpu_seconds=settings.raster_cpu_seconds,
            file_bytes=settings.raster_file_mb * 2**20,
        ),
        writes=[folder],
        reads=[value for value in arguments.values() if isinstance(value, Path) and value.parent != folder],
        ranged=ranged,
        progress=ctx.progress,
        should_stop=lambda: ctx.cancelled or ctx.stopping,
    )
    return result.model_validate(found)


def sandbox_folder(ctx: Context) -> Path:
    """A folder for a sandbox to write in; sources lie outside it, since they are links to files that others share."""
    folder = ctx.scratch / "aside"
    folder.mkdir(exist_ok=True)
    return folder


def _sandbox(memory_mb: int) -> Sandbox:
    """The sandbox of this process, kept for the next call: it has already imported GDAL."""
    if memory_mb not in _sandboxes:
        _sandboxes[memory_mb] = Sandbox(MODULE, gdal_environment(memory_mb))
        atexit.register(_sandboxes[memory_mb].close)  # a notebook or a test that calls a handler itself leaves nothing
    return _sandboxes[memory_mb]
