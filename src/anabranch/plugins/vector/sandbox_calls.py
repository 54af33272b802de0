"""Calls of the vector functions in a sandbox, for the handlers."""

from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel

from anabranch.engine.worker.context import Context
from anabranch.plugins.vector.exports.models import ExportedFiles
from anabranch.plugins.vector.reading.drivers import export_environment, gdal_environment
from anabranch.plugins.vector.settings import VectorSettings
from anabranch.sandbox.handler_calls import HandlerSandbox, WorkLimits, sandbox_folder

__all__ = ["export_in_sandbox", "run_in_sandbox", "sandbox_folder"]

Model = TypeVar("Model", bound=BaseModel)
SANDBOX = HandlerSandbox("anabranch.plugins.vector.sandbox_functions", gdal_environment)
EXPORTS = HandlerSandbox("anabranch.plugins.vector.exports.sandbox_functions", export_environment)


def run_in_sandbox(ctx: Context, name: str, result: type[Model], **arguments: BaseModel | Path) -> Model:
    """Call a function of `sandbox_functions`; it can read the files it is given, and write below `sandbox_folder`."""
    return _run(SANDBOX, ctx, name, result, arguments)


def export_in_sandbox(ctx: Context, **arguments: BaseModel | Path) -> ExportedFiles:
    """The same for rows that files are written of."""
    return _run(EXPORTS, ctx, "export", ExportedFiles, arguments)


def _run(
    sandbox: HandlerSandbox, ctx: Context, name: str, result: type[Model], arguments: Mapping[str, BaseModel | Path]
) -> Model:
    settings = ctx.settings(VectorSettings)
    limits = WorkLimits(settings.vector_memory_mb, settings.vector_cpu_seconds, settings.vector_file_mb)
    return result.model_validate(sandbox.run(ctx, name, limits, **arguments))
