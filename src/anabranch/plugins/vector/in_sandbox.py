"""What makes a plain function one of a sandbox: JSON in, JSON out, and errors with the name of the file."""

from collections.abc import Callable
from functools import wraps
from pathlib import Path

import shapely
from pydantic import BaseModel, validate_call
from pyogrio.errors import DataSourceError

from anabranch.errors import Permanent

__all__ = ["in_sandbox"]


def in_sandbox(remedy: str) -> Callable[[Callable[..., BaseModel]], Callable[..., object]]:
    """Check the arguments and return the result as JSON; errors of libraries become Permanent, with this remedy."""

    def decorate(work: Callable[..., BaseModel]) -> Callable[..., object]:
        checked = validate_call(work)

        @wraps(work)
        def call(**given: object) -> object:
            try:
                return checked(**given).model_dump(mode="json")
            except (DataSourceError, shapely.errors.ShapelyError) as error:
                what = f"{Path(str(given.get('source'))).name} can't be processed: {error}"
                raise Permanent(what, code="vector.library", remedy=remedy) from error

        return call

    return decorate
