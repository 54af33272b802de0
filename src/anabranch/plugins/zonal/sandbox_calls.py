"""Calls of the functions on polygons and rasters in a sandbox, for the handlers."""

from pathlib import Path
from typing import Any

from pydantic import BaseModel

from anabranch.engine.worker.context import Context
from anabranch.geo.gdal_environment import closed_environment
from anabranch.plugins.zonal.settings import ZonalSettings
from anabranch.sandbox.handler_calls import HandlerSandbox, WorkLimits, sandbox_folder

__all__ = ["gdal_environment", "run_in_sandbox", "sandbox_folder", "work_limits"]


def gdal_environment(memory_mb: int) -> dict[str, str]:
    """The environment of a process that reads published COGs."""
    more = {"GDAL_DISABLE_READDIR_ON_OPEN": "EMPTY_DIR", "GDAL_GEOREF_SOURCES": "INTERNAL", "GDAL_NUM_THREADS": "1"}
    return {**closed_environment(("GTiff",), memory_mb), **more}


SANDBOX = HandlerSandbox("anabranch.plugins.zonal.sandbox_functions", gdal_environment)


def work_limits(settings: ZonalSettings) -> WorkLimits:
    """The limits of the statistics of one task."""
    return WorkLimits(settings.zonal_memory_mb, settings.zonal_cpu_seconds, settings.zonal_file_mb)


def run_in_sandbox(ctx: Context, name: str, **arguments: BaseModel | Path) -> Any:  # its result, as JSON
    """Call a function of `sandbox_functions`; it can read the files it is given, and write below `sandbox_folder`."""
    return SANDBOX.run(ctx, name, work_limits(ctx.settings(ZonalSettings)), **arguments)
