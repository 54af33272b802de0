"""Errors of the libraries that read and write vector files, with the name of the file."""

from collections.abc import Callable, Mapping
from pathlib import Path

import shapely
from pydantic import BaseModel
from pyogrio.errors import DataSourceError

from anabranch.errors import Permanent
from anabranch.sandbox.functions import sandbox_function

__all__ = ["in_sandbox"]


def in_sandbox(remedy: str) -> Callable[[Callable[..., BaseModel]], Callable[..., object]]:
    """Check the arguments and return the result as JSON; errors of libraries become Permanent, with this remedy."""

    def explain(error: Exception, given: Mapping[str, object]) -> Permanent:
        what = f"{Path(str(given.get('source'))).name} can't be processed: {error}"
        return Permanent(what, code="vector.library", remedy=remedy)

    return sandbox_function((DataSourceError, shapely.errors.ShapelyError), explain)
