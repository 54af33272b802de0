"""Errors of the libraries that read and write vector files, with the name of the file."""

import csv
import sqlite3
import struct
from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow as pa
import shapely
from pydantic import BaseModel

from anabranch.errors import Permanent
from anabranch.sandbox.functions import sandbox_function

__all__ = ["LIBRARY_ERRORS", "in_sandbox"]

# What libraries raise at a file that is not as they expect it; not what the machine lacks: memory, disk, descriptors.
LIBRARY_ERRORS = (
    ArithmeticError,
    AttributeError,
    LookupError,
    NameError,
    RuntimeError,  # also those of pyogrio and PROJ
    TypeError,
    ValueError,
    csv.Error,
    pa.ArrowCapacityError,
    shapely.errors.ShapelyError,
    sqlite3.Error,
    struct.error,
)


def in_sandbox(remedy: str) -> Callable[[Callable[..., BaseModel]], Callable[..., object]]:
    """Check the arguments and return the result as JSON; errors of libraries become Permanent, with this remedy."""

    def explain(error: Exception, given: Mapping[str, object]) -> Permanent:
        what = f"{Path(str(given.get('source'))).name} can't be processed: {type(error).__name__}: {error}"
        return Permanent(what, code="vector.library", remedy=remedy)

    return sandbox_function(LIBRARY_ERRORS, explain)
