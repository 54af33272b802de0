"""Calls of the raster functions in a sandbox, for the handlers."""

from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel

from anabranch.engine.worker.context import Context
from anabranch.plugins.raster.files.drivers import gdal_environment
from anabranch.plugins.raster.settings import RasterSettings
from anabranch.sandbox.handler_calls import HandlerSandbox, WorkLimits, sandbox_folder
from anabranch.storage.ranged_object import Ranges

__all__ = ["run_in_sandbox", "sandbox_folder"]

Model = TypeVar("Model", bound=BaseModel)
SANDBOX = HandlerSandbox("anabranch.plugins.raster.sandbox_functions", gdal_environment)


def run_in_sandbox(ctx: Context, name: str, result: type[Model], **arguments: BaseModel | Path | Ranges) -> Model:
    """Call a function of `sandbox_functions`; it can read the files it is given, and write below `sandbox_folder`."""
    settings = ctx.settings(RasterSettings)
    limits = WorkLimits(settings.raster_memory_mb, settings.raster_cpu_seconds, settings.raster_file_mb)
    return result.model_validate(SANDBOX.run(ctx, name, limits, **arguments))
