"""Functions on untrusted files that run in the sandbox: JSON in, JSON out (decision 011)."""

from collections.abc import Callable
from pathlib import Path

from pydantic import JsonValue

from anabranch.plugins.vector.convert import Progress
from anabranch.plugins.vector.convert import convert as convert_file
from anabranch.plugins.vector.in_sandbox import in_sandbox
from anabranch.plugins.vector.models import AppendTarget, Converted, ReadOptions
from anabranch.plugins.vector.reading.ogr import check_drivers
from anabranch.plugins.vector.settings import VectorSettings

__all__ = ["convert"]

check_drivers()


@in_sandbox("Rewrite the file with `ogr2ogr -f GPKG` and send that; report a bug if that fails, too.")
def convert(
    source: Path,
    folder: Path,
    options: ReadOptions,
    settings: VectorSettings,
    target: AppendTarget | None = None,
    *,
    progress: Progress,
    send: Callable[[JsonValue], None] = lambda _: None,
) -> Converted:
    """Turn a file into rows for PostgreSQL; each file of rows is sent, too, as soon as it is complete."""
    return convert_file(
        source, folder, options, settings, target, progress, lambda chunk: send(chunk.model_dump(mode="json"))
    )
