"""Calls of the vector functions in a sandbox, for the handlers."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel

from anabranch.engine.worker.context import Context
from anabranch.plugins.vector.exports.models import ExportedFiles
from anabranch.plugins.vector.models import Converted, WrittenChunk
from anabranch.plugins.vector.reading.drivers import export_environment, gdal_environment
from anabranch.plugins.vector.settings import VectorSettings
from anabranch.sandbox.client import Receive
from anabranch.sandbox.handler_calls import HandlerSandbox, WorkLimits, sandbox_folder

__all__ = ["convert_in_sandbox", "export_in_sandbox", "sandbox_folder"]

Model = TypeVar("Model", bound=BaseModel)
SANDBOX = HandlerSandbox("anabranch.plugins.vector.sandbox_functions", gdal_environment)
EXPORTS = HandlerSandbox("anabranch.plugins.vector.exports.sandbox_functions", export_environment)


def convert_in_sandbox(
    ctx: Context, receive: Callable[[WrittenChunk], None], **arguments: BaseModel | Path
) -> Converted:
    """Turn a file into rows, in files in `sandbox_folder`; each is received when it is complete."""
    return _run(SANDBOX, ctx, "convert", Converted, arguments, lambda sent: receive(WrittenChunk.model_validate(sent)))


def export_in_sandbox(ctx: Context, **arguments: BaseModel | Path) -> ExportedFiles:
    """The same for rows that files are written of."""
    return _run(EXPORTS, ctx, "export", ExportedFiles, arguments)


def _run(
    sandbox: HandlerSandbox,
    ctx: Context,
    name: str,
    result: type[Model],
    arguments: Mapping[str, BaseModel | Path],
    receive: Receive | None = None,
) -> Model:
    settings = ctx.settings(VectorSettings)
    limits = WorkLimits(settings.vector_memory_mb, settings.vector_cpu_seconds, settings.vector_file_mb)
    return result.model_validate(sandbox.run(ctx, name, limits, receive, **arguments))
