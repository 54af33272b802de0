"""Functions on untrusted files that run in the sandbox: JSON in, JSON out (decision 011)."""

from collections.abc import Callable
from functools import wraps
from pathlib import Path

import shapely
from pydantic import BaseModel, validate_call
from pyogrio.errors import DataSourceError

from anabranch.errors import Permanent
from anabranch.plugins.vector.convert import Progress
from anabranch.plugins.vector.convert import convert as convert_file
from anabranch.plugins.vector.models import AppendTarget, Converted, ReadOptions
from anabranch.plugins.vector.reading.ogr import check_drivers
from anabranch.plugins.vector.settings import VectorSettings

__all__ = ["convert"]

check_drivers()


def _in_sandbox(work: Callable[..., BaseModel]) -> Callable[..., object]:
    """Check the arguments and return the result as JSON; errors of libraries become Permanent, with the file's name."""
    checked = validate_call(work)

    @wraps(work)
    def call(**given: object) -> object:
        try:
            return checked(**given).model_dump(mode="json")
        except (DataSourceError, shapely.errors.ShapelyError) as error:
            raise Permanent(
                f"{Path(str(given.get('source'))).name} can't be processed: {error}",
                code="vector.library",
                remedy="Rewrite the file with `ogr2ogr -f GPKG` and send that; report a bug if that fails, too.",
            ) from error

    return call


@_in_sandbox
def convert(
    source: Path,
    folder: Path,
    options: ReadOptions,
    settings: VectorSettings,
    target: AppendTarget | None = None,
    *,
    progress: Progress,
) -> Converted:
    """Turn a file into rows for PostgreSQL."""
    return convert_file(source, folder, options, settings, target, progress)
